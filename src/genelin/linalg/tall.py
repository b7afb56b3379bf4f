"""Products of tall blocks, d×m with d ≫ m, shared out among threads by rows.

BLAS shares such products out badly, and its threads wait for each other in a busy loop. Inside
`one_blas_thread` every piece is a BLAS call on one thread, and the pieces run side by side.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

import numpy as np

from genelin.linalg.columns import LARGE, Block

__all__ = ["blas_at_most", "one_blas_thread", "subtract_product", "tall_dot", "tall_times"]


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """BLAS on one thread, so that pieces of a product can run side by side."""
    limits: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limits


class _Limit:
    """What BLAS is limited to while some threads of this process ask for it."""

    def __init__(self) -> None:
        self.lock, self.inside = threading.Lock(), 0
        self.limits: Any = None  # of threadpoolctl, where BLAS had more


_limit = _Limit()


@contextmanager
def blas_at_most(count: int) -> Iterator[None]:
    """BLAS on so many threads at most, in the whole process, until the last one has left.

    Threads that work side by side enter and leave in any order: the first one sets the limit,
    the last one restores what was before.

    Examples
    --------
    >>> import numpy as np
    >>> with blas_at_most(1):
    ...     float(np.ones(2) @ np.ones(2))
    2.0
    """
    with _limit.lock:
        if _limit.inside == 0:
            wide = any(
                pool["num_threads"] > count for pool in _controller().select(user_api="blas").info()
            )
            _limit.limits = _controller().limit(limits=count, user_api="blas") if wide else None
        _limit.inside += 1
    try:
        yield
    finally:
        with _limit.lock:
            _limit.inside -= 1
            if _limit.inside == 0 and _limit.limits is not None:
                _limit.limits.restore_original_limits()


def tall_dot(U: Block, V: Block) -> Block:
    """UᵀV for (d, m) and (d, n) blocks.

    Examples
    --------
    >>> import numpy as np
    >>> tall_dot(np.ones((3, 2)), np.eye(3, 1)).tolist()
    [[1.0], [1.0]]
    """
    if U.size + V.size < LARGE:
        return U.T @ V
    from genelin.kernels.compiled import equal, in_threads, threads

    spans = equal(len(U), threads())
    parts = in_threads(lambda first, last: U[first:last].T @ V[first:last], spans)
    return np.asarray(sum(parts[1:], parts[0]))


def tall_times(U: Block, C: Block, out: Block | None = None) -> Block:
    """U·C for a (d, m) block and a small (m, n) matrix; `out` may be a part of U.

    Examples
    --------
    >>> import numpy as np
    >>> tall_times(np.ones((3, 2)), np.ones((2, 1))).tolist()
    [[2.0], [2.0], [2.0]]
    """
    out = np.empty((len(U), C.shape[1]), U.dtype) if out is None else out
    if U.size + out.size < LARGE:
        out[:] = U @ C
        return out

    def piece(rows: slice) -> None:
        out[rows] = U[rows] @ C

    _by_pieces(piece, len(U))
    return out


def subtract_product(Z: Block, U: Block, C: Block) -> None:
    """Z −= U·C in place, for blocks as in `tall_times`; nothing of their size is allocated.

    Examples
    --------
    >>> import numpy as np
    >>> Z = np.ones((3, 1))
    >>> subtract_product(Z, np.ones((3, 2)), np.ones((2, 1)))
    >>> Z.tolist()
    [[-1.0], [-1.0], [-1.0]]
    """

    def piece(rows: slice) -> None:
        Z[rows] -= U[rows] @ C

    if U.size + Z.size < LARGE:
        piece(slice(None))
    else:
        _by_pieces(piece, len(U))


def _by_pieces(work: Callable[[slice], None], rows: int) -> None:
    """Call work(piece) for pieces of the rows that fit the cache, in threads."""
    from genelin.kernels.compiled import equal, in_threads, threads

    def share(first: int, last: int) -> None:
        for start in range(first, last, 4096):
            work(slice(start, min(start + 4096, last)))

    in_threads(share, equal(rows, threads()))
