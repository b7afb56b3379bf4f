"""Errors that are raised on purpose, with a message for the user, told from those of a defect.

A message for the user is raised by a `raise` of genelin itself. An exception that an operation
raises in our code, or in a library that our code has called, was not meant to be seen: it says
that genelin has a defect, unless code of the user was called in between.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from genelin.errors import InternalError

__all__ = ["is_defect", "our_work"]

STRAY: tuple[type[Exception], ...] = (
    *(AssertionError, AttributeError, LookupError, NameError, NotImplementedError),
    *(OverflowError, TypeError, ValueError, ZeroDivisionError),
)
CHECKED = ("genelin", "sklearn")  # packages whose errors are about input
INNER = "genelin.kernels"  # whose errors are about how genelin itself has called it
LIBRARIES = {
    *("click", "dask", "distributed", "genelin", "joblib", "llvmlite", "numba", "numpy", "polars"),
    *("safetensors", "scipy", "sklearn", "threadpoolctl", "tlz", "toolz"),
}
RAISE = bytes([dis.opmap["RAISE_VARARGS"]])


@contextmanager
def our_work() -> Iterator[None]:
    """Once input has been checked: what goes wrong is a defect, unless it is said on purpose.

    Examples
    --------
    >>> with our_work():
    ...     raise ValueError("k=9 is more than the rank")  # as code of the user's would
    Traceback (most recent call last):
        ...
    ValueError: k=9 is more than the rank
    """
    try:
        yield
    except STRAY as error:
        if not is_defect(error):
            raise
        raise InternalError(
            f"internal error; please report it: {type(error).__name__}: {error}"
        ) from error


def is_defect(error: BaseException) -> bool:
    """Whether an exception of a common kind was not raised on purpose, nor by code of the user.

    Examples
    --------
    >>> from genelin import Lanczos
    >>> try:
    ...     Lanczos(columns=0)
    ... except ValueError as error:
    ...     is_defect(error)
    False
    """
    if not isinstance(error, STRAY):
        return False
    frames = list(_frames(error.__traceback__))
    ours = [_module(frame).partition(".")[0] == "genelin" for frame in frames]
    inside = frames[ours.index(True) :] if any(ours) else []
    if not inside or not all(_is_library(_module(frame)) for frame in inside):
        return False
    last = _module(inside[-1])
    meant = last.partition(".")[0] in CHECKED and not last.startswith(INNER)
    return isinstance(error, AssertionError) or not (meant and _raises(inside[-1]))


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """From the outermost to the one where it was raised."""
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _module(traceback: TracebackType) -> str:
    return str(traceback.tb_frame.f_globals.get("__name__", ""))


def _is_library(module: str) -> bool:
    package = module.partition(".")[0]
    return package in LIBRARIES or package in sys.stdlib_module_names


def _raises(traceback: TracebackType) -> bool:
    """Whether the line is at a `raise`, and not at an operation that went wrong."""
    at = traceback.tb_lasti
    return traceback.tb_frame.f_code.co_code[at : at + 1] == RAISE
