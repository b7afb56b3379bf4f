"""The documentation lists what is public, and its own tools notice what is wrong."""

import importlib
import importlib.util
import re
import sys
from pathlib import Path

import pytest

import genelin

DOCS = Path(__file__).parent.parent / "docs"


def load(path):
    """A script that is not part of a package."""
    spec = importlib.util.spec_from_file_location(f"docs_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(set(genelin.__all__) - {"__version__"}))
def test_every_public_name_is_in_the_reference(name):
    text = (DOCS / "api" / "index.md").read_text()
    assert re.search(rf"^   {name}$|`genelin\.{name}`", text, flags=re.M), f"add {name} to it"


def test_every_public_module_is_in_the_reference():
    listed = re.findall(r"^   (genelin\.\S+)$", (DOCS / "api" / "modules.md").read_text(), re.M)
    modules = [importlib.import_module(name) for name in listed]
    assert all(module.__all__ for module in modules)
    exposed = {getattr(genelin, name) for name in genelin._MODULES}
    assert exposed <= set(modules)


@pytest.fixture
def problems(tmp_path):
    """What is found in a site of two pages, of which one has the given body."""
    check = load(DOCS / "check_links.py")

    def found(body):
        (tmp_path / "index.html").write_text(f"<h1 id='top-of-it'>A</h1>{body}")
        (tmp_path / "other page.html").write_text("<h2 id='there'>B</h2>")
        return list(check.problems(tmp_path))

    return found


def test_good_links_are_good(problems):
    links = ("other%20page.html", "other%20page.html#there", "#top-of-it", "https://example.org/x")
    assert problems("".join(f"<a href='{link}'>x</a>" for link in links)) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<a href='missing.html'>x</a>", "missing.html is not there"),
        ("<a href='other%20page.html#here'>x</a>", "no such place"),
        ("<a href='#nowhere'>x</a>", "no such place"),
        ("<img src='missing.png'>", "missing.png is not there"),
        ("<script src='https://example.org/x.js'></script>", "not part of the site"),
    ],
)
def test_broken_links_are_named(problems, body, said):
    (line,) = problems(body)
    assert line.startswith("index.html: ")
    assert said in line


def test_an_empty_site_is_a_problem(tmp_path):
    (line,) = load(DOCS / "check_links.py").problems(tmp_path)
    assert "no pages" in line


def test_docstrings_are_prose():
    prose = load(DOCS / "_extensions" / "prose.py")
    lines = """Largest |λ| of coef_, as in `|x|`.

Parameters
----------
A : (d, d) symmetric, a sentence that goes on and on, and up to the very end of its
    line.
tol : float, default=1e-6
    A number.
x_, y_ : both.

Examples
--------
>>> abs(-1) | 2
3""".splitlines()
    assert [line.rstrip() for line in prose.written(lines) if line.strip()] == [
        r"Largest \|λ\| of coef\_, as in `|x|`.",
        ":Parameters:",
        "    ``A``",
        "        (d, d) symmetric, a sentence that goes on and on, and up to the very end of its",
        "        line.",
        "    ``tol`` : float, default=1e-6",
        "        A number.",
        "    ``x_``, ``y_``",
        "        both.",
        ".. rubric:: Examples",
        ">>> abs(-1) | 2",
        "3",
    ]


def test_lines_of_help_are_kept():
    click = pytest.importorskip("click")
    app = importlib.import_module("genelin.cli.main").app
    context = click.Context(app)
    for name in app.list_commands(context):
        text = app.get_command(context, name).get_help(context)
        assert "\\b" not in text, name  # click's mark for that, misspelt
    assert "\n    model.safetensors " in app.get_command(context, "cca").get_help(context)
