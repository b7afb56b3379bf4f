"""How many threads BLAS and compiled kernels may use, where others work beside them."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

from genelin.system.fork_safety import kept_whole

__all__ = [
    "at_most",
    "blas_for",
    "blas_threads",
    "cores",
    "equal",
    "in_threads",
    "kernel_limit",
    "one_blas_thread",
]

SHORT = 800  # size of matrices up to which threads of BLAS wait longer than they help

_here = threading.local()  # `limit` of kernels that this thread calls
_lock = threading.RLock()
_limits: list[tuple[int, int]] = []  # of BLAS, and the threads that work under one at the moment
_before: list[int] = []  # threads of every BLAS before the first of them


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _blas() -> list[Any]:
    """Every BLAS of this process."""
    with _lock:  # of what is imported and found here, a fork must leave nothing half done
        return _libraries()


@cache
def _libraries() -> list[Any]:
    return list(_controller().select(user_api="blas").lib_controllers)


def one_blas_thread() -> AbstractContextManager[Any]:
    """BLAS on one thread, so that pieces of a product can run side by side.

    Examples
    --------
    >>> import numpy as np
    >>> with one_blas_thread():
    ...     float(np.ones(2) @ np.ones(2))
    2.0
    """
    return _blas_at_most(1)


def blas_for(d: int) -> AbstractContextManager[Any]:
    """BLAS for matrices of size d: on one thread where more wait longer than they help.

    Examples
    --------
    >>> with blas_for(100):
    ...     blas_threads()
    1
    """
    return one_blas_thread() if d <= SHORT else nullcontext()


@contextmanager
def _blas_at_most(count: int) -> Iterator[None]:
    """So many threads of BLAS at most, in the whole process.

    Threads that work side by side enter and leave in any order: the least of their limits holds,
    and the last one to leave restores what was before.
    """
    libraries = _blas()
    with _lock:
        if not _limits:
            _before[:] = [library.num_threads for library in libraries]
        mine = (threading.get_ident(), count)
        _limits.append(mine)
        _hold(libraries)
    try:
        yield
    finally:
        with _lock:
            _limits.remove(mine)
            _hold(libraries)


def _hold(libraries: list[Any]) -> None:
    """Give every BLAS the threads that it had, or fewer where there are limits.

    threadpoolctl obeys one thread only, the first, unless that is cleared.
    """
    for library, threads in zip(libraries, _before, strict=True):
        clear = getattr(library, "clear_controlling_thread", None)
        if clear is not None:
            clear(force=True)
        library.set_num_threads(min([threads, *(count for _, count in _limits)]))
        if clear is not None:
            clear(force=True)


def _leave_limits() -> None:
    """In the child of a fork: the limits of threads that are not there end."""
    left = [limit for limit in _limits if limit[0] == threading.get_ident()]
    if len(left) < len(_limits):
        _limits[:] = left
        _hold(_libraries())


kept_whole(_lock, _leave_limits)


def cores() -> int:
    """Cores that this thread may run on.

    Examples
    --------
    >>> 1 <= cores() <= os.cpu_count()
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def blas_threads() -> int:
    """Threads that BLAS may use here: no more than there are cores for this thread.

    Examples
    --------
    >>> with at_most(1):
    ...     blas_threads()
    1
    """
    count = max((int(library.num_threads) for library in _blas()), default=1)
    return kernel_limit(min(count, cores()))


def in_threads(work: Callable[..., Any], parts: Iterable[Any]) -> list[Any]:
    """Run work(*part) for all parts, side by side: what does not hold the interpreter's lock.

    Examples
    --------
    >>> in_threads(range, [(0, 1), (1, 3)])
    [range(0, 1), range(1, 3)]
    """
    parts = list(parts)
    if len(parts) == 1:
        return [work(*parts[0])]
    if kernel_limit(len(parts)) == 1:
        return [work(*part) for part in parts]
    others = _pool(os.getpid()).start(work, parts[1:])
    try:
        first = work(*parts[0])  # a thread that only waited would have to be woken up
    finally:
        wait(others)  # they write to memory that the caller may let go of
    return [first, *(task.result() for task in others)]


class _Pool:
    """Threads that work beside the one that calls them, on other cores than it.

    Virtual machines tend to wake a thread on the core of its caller, where it waits until that has
    used up its time: some milliseconds, which is as long as many products take in all.
    """

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._executor = ThreadPoolExecutor(
            os.cpu_count(), thread_name_prefix="genelin", initializer=self._arrive
        )
        self._core: Callable[[], int] | None = _core_here()
        self._placed: tuple[int, int, set[int]] = (-1, 0, set())

    def _arrive(self) -> None:
        self._ids.append(threading.get_native_id())

    def start(self, work: Callable[..., Any], parts: list[Any]) -> list[Future[Any]]:
        """Begin work(*part) for all parts."""
        self._leave_core()
        return [self._executor.submit(work, *part) for part in parts]

    def _leave_core(self) -> None:
        """Let threads run on the cores of the caller but the one that it is on, if it has others.

        Those can change from call to call, as a process is moved to fewer cores or to more.
        """
        if self._core is None:
            return
        here = self._core(), len(self._ids), os.sched_getaffinity(0)
        if here == self._placed:
            return
        allowed = here[2] - {here[0]} or here[2]
        try:
            for thread in self._ids[: here[1]]:
                os.sched_setaffinity(thread, allowed)
        except OSError:  # not allowed here
            self._core = None
        self._placed = here


def _core_here() -> Callable[[], int] | None:
    """What tells the core that a thread runs on, where threads can be kept from cores."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    return getattr(ctypes.CDLL(None), "sched_getcpu", None)


@cache
def _pool(process: int) -> _Pool:
    """One pool for each process: threads do not survive a fork."""
    return _Pool()


def equal(rows: int, parts: int) -> list[tuple[int, int]]:
    """Row ranges [(first, last), …] of about the same length.

    Examples
    --------
    >>> equal(5, 2)
    [(0, 2), (2, 5)]
    """
    return [(rows * i // parts, rows * (i + 1) // parts) for i in range(parts)]


def kernel_limit(most: int) -> int:
    """Threads that a kernel may use here, of `most`.

    Examples
    --------
    >>> with at_most(2):
    ...     kernel_limit(8), kernel_limit(1)
    (2, 1)
    >>> kernel_limit(8)
    8
    """
    return min(most, getattr(_here, "limit", most))


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """So many threads at most: for kernels that this thread calls, and for BLAS in this process.

    Examples
    --------
    >>> with at_most(3), at_most(5):
    ...     kernel_limit(8)
    3
    """
    before = getattr(_here, "limit", None)
    _here.limit = count if before is None else min(before, count)
    try:
        with _blas_at_most(count):
            yield
    finally:
        if before is None:
            del _here.limit
        else:
            _here.limit = before
