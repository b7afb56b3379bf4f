"""How kernels are compiled, and how their work is shared out among threads."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

from numba import config, get_num_threads, njit
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numba.np.ufunc import parallel

from genelin.system.fork_safety import kept_whole
from genelin.system.interrupts import uninterrupted
from genelin.system.threads import cores, kernel_limit

__all__ = ["balanced", "compiled", "exactly", "inlined", "threads"]

LOOSELY = {"reassoc", "contract", "arcp", "nsz"}


class _Uninterrupted(event.Listener):
    """Holds Ctrl-C back while Numba compiles or loads: half of that done cannot be done again."""

    def __init__(self) -> None:
        self._depth, self._until_end = 0, ExitStack()

    def on_start(self, _: Any) -> None:
        """In the main thread, where Ctrl-C arrives."""
        if threading.current_thread() is threading.main_thread():
            if not self._depth:
                self._until_end.enter_context(uninterrupted())
            self._depth += 1

    def on_end(self, _: Any) -> None:
        """Ctrl-C is heeded now, if it came."""
        if threading.current_thread() is threading.main_thread():
            self._depth -= 1
            if not self._depth:
                self._until_end.close()


event.register("numba:compiler_lock", _Uninterrupted())

_asking = threading.RLock()  # Numba takes locks to answer
kept_whole(_asking)
kept_whole(global_compiler_lock)


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
    """Threads of kernels: NUMBA_NUM_THREADS or what numba.set_num_threads said, or a limit here.

    There are no more than cores for this thread.
    """
    return kernel_limit(min(_of_numba(), cores()))


def _of_numba() -> int:
    """As its settings are now; threads of its own, for which there is no use, are not started."""
    if not getattr(parallel, "_is_initialized", True):
        return int(config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    with _asking:
        return int(get_num_threads())


def balanced(indptr: Any, parts: int) -> list[tuple[int, int]]:
    """Row ranges [(first, last), …] with about the same number of entries."""
    start, stop = int(indptr[0]), int(indptr[-1])
    kind = indptr.dtype.type  # numbers of any other kind take long to find
    sums = (start + (stop - start) * t // parts for t in range(1, parts))
    cuts = [int(indptr.searchsorted(kind(stored))) for stored in sums]
    return list(pairwise([0, *cuts, len(indptr) - 1]))
