"""Check what `python -m build` made, before anybody installs it; `make dist` runs this.

python tools/check_dist.py dist

The wheel has every file of src/genelin and nothing else, the sdist every file that git tracks. The
wheel is installed alone and solves a problem; the sdist is installed with its tests, unpacked, and
passes the core tests of tools/matrix.py there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from matrix import ONE_THREAD, ROOT, SUITES, make_environment, python_of

SOLVE = """
import numpy as np, genelin
from genelin import top_k
from genelin.cli.main import main
assert top_k(np.diag([1.0, -5.0, 3.0]), k=2).values.tolist() == [-5.0, 3.0]
assert main(["--version"]) == 3  # it says which parts are missing
print("genelin", genelin.__version__, "solves from its wheel")
"""


def main() -> int:
    """Check the one wheel and the one sdist of a folder."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "dist").resolve()
    wheel, sdist = _only(folder, "*.whl"), _only(folder, "*.tar.gz")
    _compare(wheel.name, wheel_files(wheel), package_files(ROOT / "src"))
    _compare(sdist.name, sdist_files(sdist), tracked_files())
    with tempfile.TemporaryDirectory() as place:
        _try_wheel(wheel, Path(place))
        _try_sdist(sdist, Path(place))
    print(f"{wheel.name} and {sdist.name} are good")
    return 0


def _only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        sys.exit(f"{folder} has {len(found)} files {pattern}, not one: empty it and build again")
    return found[0]


def wheel_files(wheel: Path) -> set[str]:
    """What a wheel installs, without what describes it."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def sdist_files(sdist: Path) -> set[str]:
    """What an sdist has, without its outer folder and what the build adds."""
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    return {
        name for name in names if name not in ("PKG-INFO", "setup.cfg") and ".egg-info/" not in name
    }


def package_files(source: Path) -> set[str]:
    """Every file of the package."""
    files = (path for path in source.glob("genelin/**/*") if path.is_file())
    return {
        path.relative_to(source).as_posix() for path in files if path.parent.name != "__pycache__"
    }


def tracked_files() -> set[str]:
    """Every file that git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True)
    if listed.returncode:
        sys.exit("git does not know these sources: build in a clone of the repository")
    return set(listed.stdout.decode().split("\0")) - {""}


def _compare(name: str, has: set[str], expected: set[str]) -> None:
    if missing := expected - has:
        sys.exit(f"{name} lacks {_listed(missing)}")
    if more := has - expected:
        sys.exit(f"{name} has files that do not belong there: {_listed(more)}")


def _listed(names: Iterable[str]) -> str:
    first = sorted(names)
    return ", ".join(first[:10]) + (f" and {len(first) - 10} more" if len(first) > 10 else "")


def _try_wheel(wheel: Path, place: Path) -> None:
    environment = place / "of-the-wheel"
    make_environment(Path(sys.executable), environment, [str(wheel)], None)
    subprocess.run([python_of(environment), "-c", SOLVE], cwd=place, check=True)


def _try_sdist(sdist: Path, place: Path) -> None:
    environment = place / "of-the-sdist"
    make_environment(Path(sys.executable), environment, [f"{sdist}[test]"], None)
    with tarfile.open(sdist) as archive:
        archive.extractall(place, filter="data")
    sources = place / sdist.name.removesuffix(".tar.gz")
    (tests,) = SUITES["core"]
    command = [python_of(environment), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    subprocess.run(command, cwd=sources, env=os.environ | ONE_THREAD, check=True)


if __name__ == "__main__":
    raise SystemExit(main())
