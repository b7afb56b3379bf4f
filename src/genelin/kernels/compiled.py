"""How kernels are compiled, and how their work is shared out among threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numba import get_num_threads, njit

from genelin.threads import kernel_limit

__all__ = ["balanced", "compiled", "equal", "exactly", "in_threads", "inlined", "threads"]


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


@cache
def _pool(size, process):
    """One pool for each process: threads do not survive a fork."""
    return ThreadPoolExecutor(size, thread_name_prefix="genelin")


def in_threads(work: Callable[..., Any], parts: Iterable[Any]) -> list[Any]:
    """Run work(*part) for all parts, side by side; kernels do not hold the interpreter's lock."""
    parts = list(parts)
    if len(parts) == 1 or threads() == 1:
        return [work(*part) for part in parts]
    pool = _pool(_all(), os.getpid())
    return [task.result() for task in [pool.submit(work, *part) for part in parts]]


def equal(rows: int, parts: int) -> list[tuple[int, int]]:
    """Row ranges [(first, last), …] of about the same length."""
    return list(pairwise(np.linspace(0, rows, parts + 1).astype(int).tolist()))


def balanced(indptr: Any, parts: int) -> list[tuple[int, int]]:
    """Row ranges [(first, last), …] with about the same number of entries."""
    cuts = np.searchsorted(indptr, np.linspace(0, indptr[-1], parts + 1))
    cuts[0], cuts[-1] = 0, len(indptr) - 1
    return list(pairwise(cuts.tolist()))
