"""Products of tall blocks, d×m with d ≫ m, shared out among threads by rows.

BLAS shares such products out badly, and its threads wait for each other in a busy loop. Inside
`one_blas_thread` every piece is a BLAS call on one thread, and the pieces run side by side.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from genelin.linalg.columns import LARGE, Block
from genelin.threads import equal, in_threads

__all__ = ["subtract_product", "tall_dot", "tall_times"]


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
    from genelin.kernels.compiled import threads

    def share(first: int, last: int) -> None:
        for start in range(first, last, 4096):
            work(slice(start, min(start + 4096, last)))

    in_threads(share, equal(rows, threads()))
