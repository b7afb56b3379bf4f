"""Run the blocks of the README and the documentation as tests: Python, and `$ genelin …`.

Compiled kernels that are kept on disk are dropped where they may be stale.
"""

import os
import shlex
from contextlib import chdir
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE
from pathlib import Path

from hypothesis import HealthCheck, settings
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser


def run_commands(example):
    """Run the lines `$ genelin …` of a console block in the `folder` of the document."""
    for line in example.parsed.splitlines():
        if line.startswith("$ genelin "):
            from genelin.cli.main import main

            arguments = shlex.split(line.removeprefix("$ genelin "), comments=True)
            with chdir(example.namespace["folder"]):
                assert main(arguments) == 0, line


pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE),
        CodeBlockParser(language="console", evaluator=run_commands),
    ],
    patterns=["README.md", "docs/*.md"],
).pytest()

collect_ignore_glob = ["docs/*.py", "docs/_*", "docs/gallery/*"]

settings.register_profile(
    "genelin",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("genelin")


def pytest_configure(config):
    """Drop cached kernels if any source is newer than they are.

    Numba looks at the file of a kernel only, not at those of functions that are compiled into it.
    """
    if hasattr(config, "workerinput"):
        return
    folder = Path(__file__).parent / "src" / "genelin" / "kernels"
    newest = max(path.stat().st_mtime for path in folder.rglob("*.py"))
    cached = [path for path in folder.rglob("*.nb[ci]") if path.stat().st_mtime < newest]
    for path in cached:
        path.unlink()
