"""How many threads BLAS and compiled kernels may use, where others work beside them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

__all__ = ["at_most", "kernel_limit", "one_blas_thread"]

_here = threading.local()  # `limit` of kernels that this thread calls
_lock = threading.Lock()
_blas: dict[str, Any] = {"inside": 0, "limits": None}  # threads under a limit, and what it replaced


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """BLAS on one thread, so that pieces of a product can run side by side.

    Examples
    --------
    >>> import numpy as np
    >>> with one_blas_thread():
    ...     float(np.ones(2) @ np.ones(2))
    2.0
    """
    limits: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limits


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

    Threads that work side by side enter and leave in any order. BLAS has one limit for all of
    them: the first one sets it, the last one restores what was before.

    Examples
    --------
    >>> with at_most(3), at_most(5):
    ...     kernel_limit(8)
    3
    """
    before = getattr(_here, "limit", None)
    _here.limit = count if before is None else min(before, count)
    with _lock:
        if _blas["inside"] == 0:
            _blas["limits"] = _narrowed(count)
        _blas["inside"] += 1
    try:
        yield
    finally:
        if before is None:
            del _here.limit
        else:
            _here.limit = before
        with _lock:
            _blas["inside"] -= 1
            if _blas["inside"] == 0 and _blas["limits"] is not None:
                _blas["limits"].restore_original_limits()


def _narrowed(count: int) -> Any:
    """Limit BLAS where it has more threads; None where it does not."""
    pools = _controller().select(user_api="blas")
    wide = any(pool["num_threads"] > count for pool in pools.info())
    return pools.limit(limits=count) if wide else None
