"""How a command ends: its exit code, and one line for what went wrong."""

from __future__ import annotations

import errno
import json
import os
import shlex
import sys
from enum import IntEnum
from pathlib import Path

import click

__all__ = ["BadInputError", "ExitCode", "StoppedError", "explained", "run"]


class ExitCode(IntEnum):
    """What the exit code means."""

    DONE = 0
    NOT_CONVERGED = 1
    BAD_INPUT = 2
    NOT_INSTALLED = 3
    BUG = 70
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.DONE: "done",
    ExitCode.NOT_CONVERGED: "an answer was found and written, but it missed the tolerance",
    ExitCode.BAD_INPUT: "bad input, a bad option or no place for the output; nothing was written",
    ExitCode.NOT_INSTALLED: "an optional part is not installed",
    ExitCode.BUG: "internal error",
    ExitCode.INTERRUPTED: "interrupted (Ctrl-C)",
}


class BadInputError(Exception):
    """Bad input, with the remedy."""


class StoppedError(Exception):
    """Ctrl-C, with how to go on."""


def run(arguments: list[str]) -> int:
    """Run a command; whatever goes wrong becomes a line on stderr and an exit code."""
    from genelin.cli.app import app

    debug = bool(os.environ.get("GENELIN_TRACEBACK"))
    try:
        code = app.main(arguments, prog_name="genelin", standalone_mode=False, obj=arguments)
        return int(code or 0)
    except BrokenPipeError:  # the reader of our output has had enough
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - nothing may be flushed at exit
        return ExitCode.DONE
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            raise
        code, line = _explained(error)
        command = next((word for word in arguments if not word.startswith("-")), "")
        _say(f"genelin {command}".strip(), line, code, "--json" in arguments)
        return code


def _say(command: str, line: str, code: ExitCode, as_json: bool) -> None:
    line = " ".join(line.split())
    click.echo(f"{command}: {line}", err=True)
    if as_json:
        click.echo(json.dumps({"error": line, "exit_code": int(code)}))


def _explained(error: BaseException) -> tuple[ExitCode, str]:
    """The exit code and the line for an error."""
    if isinstance(error, StoppedError):
        return ExitCode.INTERRUPTED, str(error)
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return ExitCode.INTERRUPTED, "interrupted"
    if isinstance(error, click.UsageError):
        return ExitCode.BAD_INPUT, _usage(error)
    if isinstance(error, ImportError):
        return ExitCode.NOT_INSTALLED, str(error)
    if isinstance(error, OSError):
        return ExitCode.BAD_INPUT, explained(error)
    if isinstance(error, MemoryError):
        return ExitCode.BAD_INPUT, (
            "the data do not fit in memory: turn them into a folder with `genelin convert`, and "
            "give that folder instead"
        )
    from genelin.errors import InternalError, SolverError
    from genelin.system.internal_errors import is_defect

    if isinstance(error, BadInputError | ValueError | TypeError) and not is_defect(error):
        return ExitCode.BAD_INPUT, str(error)
    if isinstance(error, SolverError):
        return ExitCode.NOT_CONVERGED, str(error)
    if isinstance(error, InternalError) and error.__cause__ is not None:
        error = error.__cause__
    return ExitCode.BUG, (
        f"internal error; please report it: {type(error).__name__}: {error} "
        "(GENELIN_TRACEBACK=1 shows where)"
    )


def _usage(error: click.UsageError) -> str:
    command = error.ctx.command_path if error.ctx else "genelin"
    text = error.format_message().rstrip(".")
    return f"{text} (`{shlex.join([*command.split(), '--help'])}` lists what there is)"


def explained(error: OSError) -> str:
    """What to do about a file that cannot be read or written."""
    name = "" if error.filename is None else str(error.filename)
    if error.errno is None or error.strerror != os.strerror(error.errno):
        return str(error.strerror or error)  # said by the library, in its own words
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        where = f" for {Path(name).name}" if name else ""
        return f"no space left{where}: free some, or name another place with -o"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"no rights to use {name or 'a file'}: change them, or name another place"
    if error.errno == errno.ENOENT:
        return f"there is no {name or 'such file'}: check the path"
    return f"{name}: {error.strerror}" if name else str(error.strerror)
