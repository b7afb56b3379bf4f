"""Memory that is used again: blocks come and go in a run, and fresh pages take their time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["LINE", "buffer_pool", "empty", "in_line", "zeros"]

LINE = 64  # bytes that memory is read by
LARGE = 2**20  # bytes of an array that is worth to be kept
MOST_FREE = 2**32  # bytes that are kept for later, at most; what was never touched takes none
SPARING = 2**27  # the same, of runs that read their data out of core to spare memory

_here = threading.local()  # `shelf` of the run in this thread


class _Shelf:
    """Buffers that are free, until the run that they belong to is over."""

    def __init__(self, most: int) -> None:
        self._free: list[Any] = []
        self._most = most
        self._lock, self._open = threading.RLock(), True  # a loan may end at any allocation
        self._process = os.getpid()

    @property
    def _of_parent(self) -> bool:
        """Whether this is the child of a fork, where a thread that is gone may have the lock."""
        return self._process != os.getpid()

    def take(self, size: int) -> Any:
        """The smallest buffer that is large enough and not twice as large, or a new one."""
        if self._of_parent:
            return np.empty(size, np.uint8)
        with self._lock:
            fit = [buffer for buffer in self._free if size <= len(buffer) <= 2 * size]
            if not fit:
                return np.empty(size, np.uint8)
            best = min(fit, key=len)
            self._free = [buffer for buffer in self._free if buffer is not best]
            return best

    def give(self, buffer: Any) -> None:
        """Keep a buffer for later."""
        if self._of_parent:
            return
        with self._lock:
            kept = sum(map(len, self._free)) + len(buffer)
            if self._open and kept <= self._most:
                self._free.append(buffer)

    def close(self) -> None:
        """Let go of everything, and of what is still to come back."""
        if self._of_parent:
            return
        with self._lock:
            self._free, self._open = [], False


class _Loan:
    """What NumPy keeps for as long as there is an array in the buffer."""

    def __init__(self, size: int, shelf: _Shelf) -> None:
        self._buffer, self._shelf = shelf.take(size), shelf
        self.__array_interface__ = self._buffer.__array_interface__

    def __del__(self) -> None:
        self._shelf.give(self._buffer)


@contextmanager
def buffer_pool(sparing: bool = False) -> Iterator[None]:
    """Large arrays of `empty` in this thread take the memory of those that are gone.

    Parameters
    ----------
    sparing : keep little of it.

    Examples
    --------
    >>> with buffer_pool():
    ...     first = empty((1000, 1000))
    ...     place = first.ctypes.data
    ...     del first
    ...     empty((1000, 1000)).ctypes.data == place
    True
    """
    before, shelf = getattr(_here, "shelf", None), _Shelf(SPARING if sparing else MOST_FREE)
    _here.shelf = shelf
    try:
        yield
    finally:
        _here.shelf = before
        shelf.close()


def empty(shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    """An array without content that begins at a cache line: its rows lie on as few as can be.

    Examples
    --------
    >>> empty((3, 2)).shape, empty((4, 16)).ctypes.data % 64
    ((3, 2), 0)
    """
    kind = np.dtype(dtype)
    size = int(np.prod(shape)) * kind.itemsize
    shelf: _Shelf | None = getattr(_here, "shelf", None) if size >= LARGE else None
    whole = size + LINE
    buffer = np.empty(whole, np.uint8) if shelf is None else np.asarray(_Loan(whole, shelf))
    first = -buffer.ctypes.data % LINE
    return buffer[first : first + size].view(kind).reshape(shape)


def zeros(shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    """An array of zeros that begins at a cache line, which no other array of the kind shares.

    Examples
    --------
    >>> zeros((1, 2)).tolist()
    [[0.0, 0.0]]
    """
    array = empty(shape, dtype)
    array.fill(0)
    return array


def in_line(array: Any) -> bool:
    """Whether an array begins at a cache line.

    Examples
    --------
    >>> in_line(empty((4, 8))), in_line(empty((4, 8))[:, 1:])
    (True, False)
    """
    return bool(array.ctypes.data % LINE == 0)
