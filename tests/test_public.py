import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import genelin

ROOT = Path(__file__).parent.parent


def test_every_public_name_resolves():
    for name in genelin.__all__:
        assert getattr(genelin, name) is not None
    assert set(genelin.__all__) <= set(dir(genelin))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        genelin.nonsense  # noqa: B018


def public_objects():
    modules = [
        importlib.import_module(m.name) for m in pkgutil.walk_packages(genelin.__path__, "genelin.")
    ]
    packages = ("solvers", "operators", "measures", "datasets", "baselines", "experiments")
    packages = (*packages, "io", "report")
    for package in ("genelin", *(f"genelin.{name}" for name in packages)):
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield f"{package}.{name}", value
    theory = importlib.import_module("genelin.eigen.paper.theory")
    yield from ((f"genelin.theory.{name}", getattr(theory, name)) for name in theory.__all__)
    assert modules


UNSHOWN = {  # contracts for people who write solvers: nothing to run on their own
    "genelin.solvers.IterativeSolver",
    "genelin.solvers.Step",
    "genelin.solvers.Preconditioner",
}


@pytest.mark.parametrize(("name", "value"), list(public_objects()))
def test_every_public_name_is_documented_with_an_example(name, value):
    documentation = inspect.getdoc(value)
    assert documentation, name
    if name not in UNSHOWN:
        assert doctest.DocTestParser().get_examples(documentation), f"{name} has no example"


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_importing_is_light():
    heavy = run(
        "import sys, genelin; print([m for m in ('numpy', 'scipy', 'sklearn') if m in sys.modules])"
    )
    assert heavy == "[]"
    solving = run(
        "import sys, numpy; from genelin import top_k; top_k(numpy.eye(2));"
        "print([m for m in ('sklearn', 'matplotlib', 'pandas', 'pylops') if m in sys.modules])"
    )
    assert solving == "[]"


def test_extras_are_complete():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    (everything,) = extras["all"]
    optional = set(extras) - {"all", "test", "lint", "docs"}
    assert everything == f"genelin[{','.join(sorted(optional))}]"


def test_demo_runs_and_draws(tmp_path):
    out = tmp_path / "picture.png"
    result = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo_digits.py"), "--output", str(out)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "correlation" in result.stdout
    assert str(out) in result.stdout
    assert out.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert out.stat().st_size > 20_000


def test_linear_systems_example_runs():
    result = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "linear_system.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    errors = [float(line.split()[1]) for line in result.stdout.splitlines()[1:]]
    assert len(errors) == 3
    assert max(errors) < 1e-4
