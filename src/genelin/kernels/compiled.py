"""How kernels are compiled, and how their work is shared out among threads."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

from numba import get_num_threads, njit

from genelin.threads import kernel_limit

__all__ = ["balanced", "compiled", "exactly", "inlined", "threads"]

LOOSELY = {"reassoc", "contract", "arcp", "nsz"}


def compiled(function, fastmath=LOOSELY):
    """Compile on first use; keep the result on disk where there is a place for it.

    Rounding may be reordered, but NaN and inf stay what they are.
    """
    try:
        return njit(cache=True, nogil=True, error_model="numpy", fastmath=fastmath)(function)
    except RuntimeError:  # neither the package nor the user's cache folder can be written to
        return njit(nogil=True, error_model="numpy", fastmath=fastmath)(function)


def exactly(function):
    """Compile so that every operation is rounded as it is written."""
    return compiled(function, False)


def inlined(function):
    """Compile as a part of its callers, anew in each place: for what is constant there."""
    return njit(nogil=True, error_model="numpy", fastmath=LOOSELY, forceinline=True)(function)


def threads() -> int:
    """Threads of kernels: NUMBA_NUM_THREADS or what numba.set_num_threads said, or a limit here."""
    return kernel_limit(_all())


@cache
def _all() -> int:
    return int(get_num_threads())


def balanced(indptr: Any, parts: int) -> list[tuple[int, int]]:
    """Row ranges [(first, last), …] with about the same number of entries."""
    start, stop = int(indptr[0]), int(indptr[-1])
    kind = indptr.dtype.type  # numbers of any other kind take long to find
    sums = (start + (stop - start) * t // parts for t in range(1, parts))
    cuts = [int(indptr.searchsorted(kind(stored))) for stored in sums]
    return list(pairwise([0, *cuts, len(indptr) - 1]))
