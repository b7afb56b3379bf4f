"""Products of tall blocks, d×m with d ≫ m, shared out among threads by rows.

BLAS shares such products out badly, and its threads wait for each other in a busy loop. Inside
`one_blas_thread` every piece is a BLAS call on one thread, and the pieces run side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genelin.linalg.column_products import LARGE, Block, Vector
from genelin.system.buffer_pool import empty
from genelin.system.threads import equal, in_threads

__all__ = [
    "by_rows",
    "in_precision",
    "put_columns",
    "stacked",
    "subtract_product",
    "tall_dot",
    "tall_times",
    "with_columns",
]


PIECE = 2048  # rows whose parts stay near the processor while BLAS packs them


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
    from genelin.kernels.compiled import threads

    def share(first: int, last: int) -> Block:
        total = np.zeros((U.shape[1], V.shape[1]), U.dtype)
        for start in range(first, last, PIECE):
            rows = slice(start, min(start + PIECE, last))
            total += U[rows].T @ V[rows]
        return total

    parts = in_threads(share, equal(len(U), threads()))
    return np.asarray(sum(parts[1:], parts[0]))


def tall_times(U: Block, C: Block, out: Block | None = None) -> Block:
    """U·C for a (d, m) block and a small (m, n) matrix, in the precision of U.

    `out` may be a part of U, or of another precision.

    Examples
    --------
    >>> import numpy as np
    >>> tall_times(np.ones((3, 2)), np.ones((2, 1))).tolist()
    [[2.0], [2.0], [2.0]]
    """
    out = empty((len(U), C.shape[1]), U.dtype) if out is None else out
    C = C.astype(U.dtype, copy=False)
    apart = out.dtype == U.dtype and not np.may_share_memory(out, U)

    def piece(rows: slice) -> None:
        if apart:
            np.matmul(U[rows], C, out=out[rows])
        else:
            out[rows] = U[rows] @ C

    by_rows(piece, len(U), U.size + out.size)
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
    C = C.astype(U.dtype, copy=False)

    def piece(rows: slice) -> None:
        Z[rows] -= U[rows] @ C

    by_rows(piece, len(U), U.size + Z.size)


def with_columns(
    Z: Block, columns: NDArray[np.intp], factors: Vector | None = None, dtype: Any = None
) -> Block:
    """Some columns of Z, by number, each times its factor.

    Examples
    --------
    >>> import numpy as np
    >>> with_columns(np.array([[1.0, 2.0, 3.0]]), np.array([2, 0])).tolist()
    [[3.0, 1.0]]
    """
    out: Block = empty((len(Z), len(columns)), Z.dtype if dtype is None else dtype)

    def piece(rows: slice) -> None:
        part = np.take(Z[rows], columns, axis=1)
        out[rows] = part if factors is None else part * factors

    by_rows(piece, len(Z), Z.size)
    return out


def put_columns(out: Block, columns: NDArray[np.intp], Z: Block, chosen: NDArray[np.intp]) -> None:
    """out[:, columns] = Z[:, chosen].

    Examples
    --------
    >>> import numpy as np
    >>> out = np.zeros((1, 2))
    >>> put_columns(out, np.array([1]), np.array([[3.0, 4.0]]), np.array([0]))
    >>> out.tolist()
    [[0.0, 3.0]]
    """
    if not len(columns):
        return

    def piece(rows: slice) -> None:
        out[rows, columns] = Z[rows, chosen]

    by_rows(piece, len(Z), Z.size)


def stacked(*blocks: Block) -> Block:
    """Blocks one below the other.

    Examples
    --------
    >>> import numpy as np
    >>> stacked(np.ones((1, 2)), np.zeros((1, 2))).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    out: Block = empty((sum(map(len, blocks)), blocks[0].shape[1]), blocks[0].dtype)
    first = 0
    for block in blocks:
        part = out[first : first + len(block)]
        by_rows(partial(_copy, part, block), len(block), block.size)
        first += len(block)
    return out


def in_precision(block: Block, dtype: Any) -> Block:
    """The block in another precision.

    Examples
    --------
    >>> import numpy as np
    >>> in_precision(np.ones((2, 1)), np.float32).dtype
    dtype('float32')
    """
    out: Block = empty(block.shape, dtype)
    by_rows(partial(_copy, out, block), len(block), block.size)
    return out


def _copy(out: Block, block: Block, rows: slice) -> None:
    out[rows] = block[rows]


def by_rows(work: Callable[[slice], None], rows: int, size: int = LARGE) -> None:
    """Call work(piece) for pieces of the rows that fit the cache, in threads where `size` is large.

    Examples
    --------
    >>> by_rows(print, 5, size=10)
    slice(0, 5, None)
    """
    if size < LARGE:
        work(slice(0, rows))
        return
    from genelin.kernels.compiled import threads

    def share(first: int, last: int) -> None:
        for start in range(first, last, 4096):
            work(slice(start, min(start + 4096, last)))

    in_threads(share, equal(rows, threads()))
