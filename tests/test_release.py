"""What is released says the same everywhere: versions, lower bounds, workflows, the recipe."""

import importlib
import importlib.util
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml

import genelin

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def text(*parts):
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


def tool(name, monkeypatch):
    """A module of tools/, as its script sees it."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module(name)


@pytest.fixture
def matrix(monkeypatch):
    return tool("matrix", monkeypatch)


def bounds(requirements):
    """Name → lower bound."""
    pairs = (re.match(r"([\w-]+)(?:\[.*\])?>=([\d.]+)", line) for line in requirements)
    return {pair[1]: pair[2] for pair in pairs if pair}


# --- The version ----------------------------------------------------------------------------------


def test_the_version_is_that_of_what_is_installed():
    assert genelin.__version__ == metadata.version("genelin")


def test_sources_that_were_never_installed_have_a_version(monkeypatch):
    def unknown(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", unknown)
    spec = importlib.util.find_spec("genelin.version")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build = tomllib.loads(text("pyproject.toml"))["tool"]["setuptools_scm"]
    assert module.__version__ == build["fallback_version"] == "0.dev0"


def test_changelog_and_citation_name_the_same_version():
    newest = re.search(r"^## (\d+\.\d+\.\d+)", text("CHANGELOG.md"), re.MULTILINE)[1]
    citation = yaml.safe_load(text("CITATION.cff"))
    assert citation["version"] == newest
    assert citation["cff-version"] == "1.2.0"
    assert {"title", "authors", "message"} <= set(citation)


# --- What is supported ----------------------------------------------------------------------------


def classified():
    lines = "\n".join(PROJECT["classifiers"])
    return re.findall(r":: Python :: (3\.\d+)$", lines, re.MULTILINE)


def test_pythons_are_the_same_everywhere():
    assert f">={classified()[0]}" == PROJECT["requires-python"]
    jobs = yaml.safe_load(text(".github", "workflows", "tests.yml"))["jobs"]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == classified()
    assert f"| Python | {classified()[0]} | {', '.join(classified())} |" in text(
        "docs", "versions.md"
    )


def test_the_page_of_versions_has_the_lower_bounds():
    page = text("docs", "versions.md").casefold()
    for name, bound in bounds(PROJECT["dependencies"]).items():
        assert f"| {name} | {bound} |" in page
    for extra in set(PROJECT["optional-dependencies"]) - {"all", "test", "docs", "lint"}:
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{extra}` |"))
        for name, bound in bounds(PROJECT["optional-dependencies"][extra]).items():
            assert re.search(rf"\b{name}(?: and distributed)? {re.escape(bound)}(,| \|)", row), row


def test_the_recipe_asks_for_what_the_package_asks_for():
    recipe = yaml.safe_load(text("packaging", "conda", "recipe.yaml"))
    needs = recipe["requirements"]

    def asked(lines):
        named = dict(line.split(" >=") for line in lines if not line.startswith(("python", "pip")))
        return {name.removesuffix("-base"): bound for name, bound in named.items()}

    extras = PROJECT["optional-dependencies"]
    optional = bounds(line for name in ("all", "io") for line in extras[name])
    for name in ("dask", "plot", "pylops", "report", "storage"):
        optional |= bounds(extras[name])
    assert asked(needs["run"]) == bounds(PROJECT["dependencies"] + extras["cli"] + extras["io"])
    del optional["safetensors"]
    assert asked(needs["run_constraints"]) == optional
    build = tomllib.loads(text("pyproject.toml"))["build-system"]["requires"]
    assert asked(needs["host"]) == bounds(build)
    ((command, target),) = (line.split(" = ") for line in recipe["build"]["python"]["entry_points"])
    assert PROJECT["scripts"] == {command: target}
    assert recipe["context"]["python_min"] == classified()[0]
    assert recipe["context"]["version"] == yaml.safe_load(text("CITATION.cff"))["version"]


# --- Workflows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_allowed_little_and_pinned(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        if "uses" in job:
            assert (ROOT / job["uses"]).exists()
            continue
        assert job["timeout-minutes"] <= 60, name
        granted = {"id-token": "write"} if name == "publish" else None
        assert job.get("permissions") == granted, name
        for step in job["steps"]:
            if "uses" in step:
                action, version = step["uses"].split("@")
                assert re.fullmatch(r"v\d+|release/v\d+", version), action
            if "actions/checkout" in step.get("uses", ""):
                assert step["with"] == {"fetch-depth": 0, "persist-credentials": False}


def test_workflows_call_targets_that_exist():
    targets = set(re.findall(r"^([a-z]+):", text("Makefile"), re.MULTILINE))
    called = {
        name
        for path in WORKFLOWS
        for name in re.findall(r"make ([a-z]+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert called
    assert called <= targets
    assert set(re.findall(r"`make ([a-z]+)", text("RELEASING.md"))) <= targets


def test_documents_for_services_can_be_read():
    book = yaml.safe_load(text(".readthedocs.yaml"))
    assert (ROOT / book["sphinx"]["configuration"]).exists()
    assert set(book["python"]["install"][0]["extra_requirements"]) <= set(
        PROJECT["optional-dependencies"]
    )


def test_the_paper_cites_what_its_bibliography_has_and_measures_what_the_docs_do():
    paper, entries = text("paper", "paper.md"), text("paper", "paper.bib")
    cited = set(re.findall(r"@(\w+\d{4})", paper))
    assert cited == set(re.findall(r"^@\w+\{(\w+),", entries, re.MULTILINE))
    seconds = re.findall(r"\b(\d+\.\d+) s\b", paper)
    assert seconds
    measured = text("docs", "comparison.md")
    assert [value for value in seconds if f"{value} s" not in measured] == []
    front = yaml.safe_load(paper.split("---\n")[1])
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= set(front)


# --- The tools ------------------------------------------------------------------------------------


def test_lowest_versions_are_pinned(matrix):
    pins = matrix.lowest(PROJECT)
    pinned = dict(line.split("==") for line in pins)
    assert pinned.items() >= bounds(PROJECT["dependencies"]).items()
    for extra, requirements in PROJECT["optional-dependencies"].items():
        if extra not in ("docs", "lint"):
            assert pinned.items() >= bounds(requirements).items(), extra
    assert "genelin" not in pinned
    assert "sphinx" not in pinned
    with pytest.raises(ValueError, match="'click' has no lower bound"):
        matrix.lowest({"name": "a", "dependencies": ["click"]}, [])


def test_core_tests_exist(matrix):
    assert [path for path in matrix.CORE if not (ROOT / path).exists()] == []


def test_interpreters_are_found_and_chosen(matrix, monkeypatch, tmp_path):
    monkeypatch.setattr(matrix, "PLACE", tmp_path)
    here = sys.version_info
    assert here.minor in matrix.interpreters()
    found = {11: Path("a"), 13: Path("b")}
    assert [run.name for run in matrix._chosen(found, [], False)] == ["3.11", "3.13", "3.11-lowest"]
    named = matrix._chosen(found, ["newest", "lowest"], False)
    assert [(run.name, bool(run.constraints)) for run in named] == [
        ("3.13", False),
        ("3.11-lowest", True),
    ]
    assert [run.name for run in matrix._chosen(found, ["newest"], True)] == ["3.13-pre"]
    assert list(matrix._chosen({}, ["newest"], False)) == []


def test_interpreters_that_do_not_work_are_passed_over(matrix, tmp_path):
    shim = tmp_path / "python3.12"
    shim.write_text("no program", encoding="utf-8")
    assert matrix._version(shim) is None
    assert matrix._version(tmp_path / "nowhere") is None
    assert matrix._version(Path(sys.executable)) == sys.version_info[:3]


def test_the_table_counts_what_ran(matrix, tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite tests="10" failures="1" errors="2" skipped="3"/></testsuites>',
        encoding="utf-8",
    )
    run = matrix.Run("3.13", Path("python"), counts=matrix.counted(report), ending="FAILED")
    heads, line = matrix.table([run])
    assert heads.split()[:3] == ["run", "python", "numpy"]
    assert run.counts == {"passed": 4, "failed": 3, "skipped": 3}
    assert line.split()[-5:] == ["4", "3", "3", "0.0", "FAILED"]


def test_a_run_that_cannot_be_installed_is_told(matrix, monkeypatch, tmp_path):
    monkeypatch.setattr(matrix, "PLACE", tmp_path)
    run = matrix.Run("3.99", tmp_path / "no-python")
    run.interpreter.write_text("", encoding="utf-8")
    matrix._play(run, matrix.SUITES["core"])
    assert run.ending == "NOT INSTALLED"


def test_a_wheel_with_too_much_or_too_little_is_refused(monkeypatch):
    check = tool("check_dist", monkeypatch)
    files = check.package_files(ROOT / "src")
    assert {"genelin/py.typed", "genelin/report/page/page.html", "genelin/version.py"} <= files
    assert not any(part in name for name in files for part in ("__pycache__", "test_"))
    check._compare("a.whl", files, files)
    with pytest.raises(SystemExit, match=re.escape("a.whl lacks genelin/py.typed")):
        check._compare("a.whl", files - {"genelin/py.typed"}, files)
    with pytest.raises(SystemExit, match=r"do not belong there: tests/cases.py"):
        check._compare("a.whl", files | {"tests/cases.py"}, files)
