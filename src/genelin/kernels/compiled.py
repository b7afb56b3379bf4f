"""How kernels are compiled, and how their work is shared out among threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
from numba import get_num_threads, njit

__all__ = ["balanced", "compiled", "in_threads", "threads"]


def compiled(function):
    """Compile on first use; keep the result on disk where there is a place for it.

    Rounding may be reordered, but NaN and inf stay what they are.
    """
    loosely = {"reassoc", "contract", "arcp", "nsz"}
    try:
        return njit(cache=True, nogil=True, error_model="numpy", fastmath=loosely)(function)
    except RuntimeError:  # neither the package nor the user's cache folder can be written to
        return njit(nogil=True, error_model="numpy", fastmath=loosely)(function)


@cache
def threads() -> int:
    """Threads of kernels: NUMBA_NUM_THREADS, or what numba.set_num_threads said before."""
    return int(get_num_threads())


@cache
def _pool(size):
    return ThreadPoolExecutor(size, thread_name_prefix="genelin")


def in_threads(work, parts):
    """Run work(*part) for all parts, side by side; kernels do not hold the interpreter's lock."""
    parts = list(parts)
    if len(parts) == 1 or threads() == 1:
        return [work(*part) for part in parts]
    return [task.result() for task in [_pool(threads()).submit(work, *part) for part in parts]]


def balanced(indptr, parts):
    """Row ranges [(first, last), …] with about the same number of entries."""
    cuts = np.searchsorted(indptr, np.linspace(0, indptr[-1], parts + 1))
    cuts[0], cuts[-1] = 0, len(indptr) - 1
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
