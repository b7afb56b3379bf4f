"""Run the tests on every Python that is found, and on the lowest versions that are promised.

python tools/matrix.py                          # core tests everywhere; `make matrix`
python tools/matrix.py --tests all              # everything everywhere; `make matrix TESTS=all`
python tools/matrix.py --only newest lowest     # what CI runs
python tools/matrix.py --only newest --pre      # on what is to come; `make prerelease`

Each run has a virtual environment of its own in .venv-matrix, with its log beside it, and its own
cache of compiled kernels. The lowest run pins every `>=` of pyproject.toml, of all parts that users
or tests install. Only the standard library is needed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".venv-matrix"
NEWEST = 14  # of Python 3; a newer one is looked for once Numba is there for it
SHOWN = ("numpy", "scipy", "scikit-learn", "numba")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

# What the lowest versions need of packages that are not ours to bound: their newest ones deprecate
# what Matplotlib 3.8 calls.
OF_THEIR_TIME = ("pyparsing<3.3",)

# What differs between versions of Python, NumPy, SciPy, scikit-learn, Numba and Polars: numerics
# of all routes, dense and sparse, compiled kernels, estimators with scikit-learn's own checks,
# files and the command line. Left out are Dask, reports in a browser, data sets, the paper's
# experiments and the documents, which take most of the time; `--tests all` runs those too.
CORE = (
    "tests/test_adversary.py",
    "tests/test_bad_input.py",
    "tests/eigen/test_top_k_cca.py",
    "tests/estimators/test_cca_estimator.py",
    "tests/cli/test_cli.py",
    "tests/io/test_damaged_files.py",
    "tests/eigen/methods/test_davidson.py",
    "tests/eigen/test_eigen.py",
    "tests/linalg/test_sparse_cholesky.py",
    "tests/eigen/methods/test_dual_cca.py",
    "tests/kernels/test_kernels.py",
    "tests/eigen/methods/test_lanczos.py",
    "tests/linalg/test_linalg.py",
    "tests/operators/test_operators.py",
    "tests/test_public.py",
    "tests/test_release.py",
    "tests/estimators/test_saving.py",
    "tests/eigen/methods/test_shift_invert.py",
)
PARALLEL = ("-n", "2", "--dist", "worksteal")
SUITES = {
    "core": [(*PARALLEL, *CORE)],
    "all": [(*PARALLEL, "tests", "src"), ("README.md", "docs")],  # blocks build on each other
}
PROBLEMS = 40  # lines of a log that are shown when tests fail


@dataclass
class Run:
    """One interpreter with one choice of dependencies, and how the tests went."""

    name: str
    interpreter: Path
    constraints: str = ""
    pre: bool = False
    versions: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    ending: str = "not run"
    seconds: float = 0.0

    @property
    def folder(self) -> Path:
        """Its virtual environment."""
        return PLACE / self.name

    @property
    def log(self) -> Path:
        """Everything that its commands have written."""
        return PLACE / f"{self.name}.log"


def main() -> int:
    """Run what the command line asks for, print the table; 1 if a run did not pass."""
    options = _options()
    found = interpreters()
    runs = list(_chosen(found, options.only, options.pre))
    if not runs:
        print(f"no Python is found for {' '.join(options.only) or 'any run'}: {_known(found)}")
        return 0 if options.pre else 1
    PLACE.mkdir(exist_ok=True)
    for run in runs:
        print(f"{run.name}: {run.interpreter}", flush=True)
        _play(run, SUITES[options.tests])
        if run.ending != "passed":
            _show_problems(run)
    print("\n".join(table(runs)))
    if all(run.ending == "passed" for run in runs):
        return 0
    if options.pre:
        notice = "::" if os.environ.get("GITHUB_ACTIONS") else ""
        problem = f"{notice}warning{notice or ': '}core tests fail on prereleases of dependencies"
        print(problem)
    return 0 if options.pre else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python tools/matrix.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tests", choices=list(SUITES), default="core")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="RUN", help="newest, lowest, or like 3.12"
    )
    parser.add_argument("--pre", action="store_true", help="prereleases of the dependencies")
    return parser.parse_args()


# --- What there is to run on ----------------------------------------------------------------------


def project() -> Any:
    """The table `project` of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def oldest() -> int:
    """Minor version of the oldest Python 3 that is supported."""
    return int(re.fullmatch(r">=3\.(\d+)", project()["requires-python"])[1])  # type: ignore[index]


def lowest(project: Mapping[str, Any], groups: Iterable[str] = ("all", "test")) -> list[str]:
    """Constraints that pin every lower bound of the dependencies and of these extras.

    >>> about = {"name": "a", "dependencies": ["numpy>=1.26"]}
    >>> parts = {"all": ["a[dask]"], "dask": ["dask[array]>=2025.1"], "docs": ["sphinx>=8"]}
    >>> lowest(about | {"optional-dependencies": parts}, ["all"])
    ['dask==2025.1', 'numpy==1.26']
    """
    pins, seen = {}, set()

    def add(requirement: str) -> None:
        name, parts, bound = re.match(  # type: ignore[misc]
            r"([\w.-]+)(?:\[([\w, -]+)\])?(?:>=([\w.]+))?", requirement
        ).groups()
        if name == project["name"]:
            for part in parts.split(","):
                add_extra(part.strip())
        elif bound:
            pins[name] = f"{name}=={bound}"
        else:
            raise ValueError(f"{requirement!r} has no lower bound: write name>=version")

    def add_extra(name: str) -> None:
        if name not in seen:
            seen.add(name)
            for requirement in project["optional-dependencies"][name]:
                add(requirement)

    for requirement in project["dependencies"]:
        add(requirement)
    for name in groups:
        add_extra(name)
    return [pins[name] for name in sorted(pins)]


def interpreters() -> dict[int, Path]:
    """Minor version of Python 3 → the newest such interpreter on the path or of pyenv."""
    found: dict[int, tuple[tuple[int, ...], Path]] = {}
    for candidate in _candidates():
        version = _version(candidate)
        if version and oldest() <= version[1] <= NEWEST:
            best = found.get(version[1], (version, candidate))
            found[version[1]] = max(best, (version, candidate))
    return {minor: found[minor][1] for minor in sorted(found)}


def _candidates() -> Iterator[Path]:
    yield Path(sys.executable)
    places = [Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv"), Path.home() / ".pyenv"]
    for place in dict.fromkeys(places):
        yield from sorted(place.glob("versions/3.*/bin/python3"))
        yield from sorted(place.glob("pyenv-win/versions/3.*/python.exe"))
    for minor in range(oldest(), NEWEST + 1):
        if command := shutil.which(f"python3.{minor}"):
            yield Path(command)


def _version(interpreter: Path) -> tuple[int, ...] | None:
    """Of a released CPython 3 that works; None for others, such as the shims of pyenv."""
    code = (
        "import sys; v = sys.version_info; assert v.releaselevel == 'final'; "
        "assert sys.implementation.name == 'cpython'; import venv; print(*v[:3])"
    )
    try:
        said = subprocess.run(
            [interpreter, "-c", code], capture_output=True, text=True, check=True, timeout=60
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    version = tuple(map(int, said.split()))
    return version if version[0] == 3 else None


def _chosen(found: dict[int, Path], only: list[str], pre: bool) -> Iterator[Run]:
    """The runs that are asked for: all Pythons and the lowest versions, unless some are named."""
    if not found:
        return
    last = f"3.{max(found)}"
    names = {last if name == "newest" else name for name in only}
    for minor, interpreter in found.items():
        if not names or f"3.{minor}" in names:
            yield Run(f"3.{minor}" + "-pre" * pre, interpreter, pre=pre)
    if (not names or "lowest" in names) and oldest() in found and not pre:
        pins = "\n".join([*lowest(project()), *OF_THEIR_TIME]) + "\n"
        yield Run(f"3.{oldest()}-lowest", found[oldest()], constraints=pins)


def _known(found: dict[int, Path]) -> str:
    here = ", ".join(f"3.{minor}" for minor in found) or "none"
    return f"looked for 3.{oldest()} to 3.{NEWEST} on the path and in pyenv, found {here}"


# --- One run --------------------------------------------------------------------------------------


def _play(run: Run, suite: list[tuple[str, ...]]) -> None:
    """Install and test; what is written goes to the log."""
    started = time.monotonic()
    with run.log.open("w", encoding="utf-8") as log:
        try:
            _install(run, log)
        except (OSError, subprocess.CalledProcessError) as error:
            print(error, file=log)
            run.ending = "NOT INSTALLED"
        else:
            run.versions = _installed(python_of(run.folder))
            passed = [_test(run, part, log) for part in suite]
            run.ending = "passed" if all(passed) else "FAILED"
    run.seconds = time.monotonic() - started


def python_of(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _install(run: Run, log: Any) -> None:
    """A fresh environment, unless the one that is there was made for the same request."""
    wanted = f"{run.interpreter} {run.pre}\n{run.constraints}" + (
        ROOT / "pyproject.toml"
    ).read_text(encoding="utf-8")
    request = hashlib.sha256(wanted.encode()).hexdigest()
    stamp = run.folder / "installed"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == request and not run.pre:
        return
    options = ["--pre"] if run.pre else []
    if run.constraints:
        pins = PLACE / f"{run.name}.txt"
        pins.write_text(run.constraints, encoding="utf-8")
        options += ["--constraint", str(pins)]
    make_environment(run.interpreter, run.folder, ["--editable", f"{ROOT}[test]", *options], log)
    stamp.write_text(request, encoding="utf-8")


def make_environment(interpreter: Path, folder: Path, install: list[str], log: Any) -> None:
    """A fresh virtual environment with what `pip install` is told; raises where that fails."""
    pip = [python_of(folder), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([interpreter, "-m", "venv", "--clear", folder], [*pip, *install]):
        subprocess.run(command, stdout=log, stderr=log, check=True)


def _installed(interpreter: Path) -> dict[str, str]:
    code = (
        "import json, platform; from importlib.metadata import version; "
        f"found = {{name: version(name) for name in {SHOWN}}}; "
        "print(json.dumps({'python': platform.python_version()} | found))"
    )
    said = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(said.stdout)
    return found


def _test(run: Run, arguments: tuple[str, ...], log: Any) -> bool:
    """Whether these tests pass; they are counted."""
    log.flush()
    report = run.folder / "report.xml"
    report.unlink(missing_ok=True)
    command = [python_of(run.folder), "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
    environment = os.environ | ONE_THREAD | {"NUMBA_CACHE_DIR": str(run.folder / "kernels")}
    code = subprocess.run(command, stdout=log, stderr=log, cwd=ROOT, env=environment).returncode
    if report.exists():
        for name, count in counted(report).items():
            run.counts[name] = run.counts.get(name, 0) + count
    return code == 0


def counted(report: Path) -> dict[str, int]:
    """How many tests passed, failed and were skipped, by a JUnit report."""
    suite = next(ET.parse(report).getroot().iter("testsuite"))
    tests, skipped = int(suite.attrib["tests"]), int(suite.attrib["skipped"])
    failed = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
    return {"passed": tests - failed - skipped, "failed": failed, "skipped": skipped}


def _show_problems(run: Run) -> None:
    lines = run.log.read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line for line in lines if not line.startswith("SKIPPED")]
    print("\n".join(said[-PROBLEMS:]), f"({run.log} has all of it)", sep="\n", flush=True)


def table(runs: Iterable[Run]) -> list[str]:
    """A line for each run."""
    rows = [["run", "python", *SHOWN, "passed", "failed", "skipped", "minutes", ""]]
    for run in runs:
        versions = [run.versions.get(name, "-") for name in ("python", *SHOWN)]
        counts = [str(run.counts.get(name, "-")) for name in ("passed", "failed", "skipped")]
        rows.append([run.name, *versions, *counts, f"{run.seconds / 60:.1f}", run.ending])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


if __name__ == "__main__":
    raise SystemExit(main())
