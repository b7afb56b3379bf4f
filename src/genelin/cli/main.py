"""The `genelin` script: it runs the command, or says in one line why it cannot."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["main"]

MISSING = 'genelin: the command line needs click, rich and polars: pip install "genelin[cli]"\n'


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Examples
    --------
    >>> int(main(["cca", "missing.csv", "-k", "2"]))
    2
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without θ shows ?
    try:
        from genelin.cli.exit_codes import run
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.stderr.write(MISSING)
        return 3
    return run(sys.argv[1:] if arguments is None else list(arguments))


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from genelin.cli.app import app

    return app


if __name__ == "__main__":
    sys.exit(main())
