"""Products with blocks: compiled for sparse matrices, BLAS for dense ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from genelin.linalg.column_products import Block, Vector
from genelin.system.buffer_pool import empty
from genelin.system.threads import equal, in_threads, one_blas_thread

if TYPE_CHECKING:
    pass

__all__ = ["filled_up", "magnitudes_times", "times"]

SHORT, LARGE = 2**14, 2**20  # numbers in a dense matrix from which on threads of BLAS, ours pay
PIECE = 2**16  # numbers of a dense matrix whose magnitudes stay in a cache
NARROW = 2  # columns below which SciPy's products are as fast


def times(M: Any, V: Block) -> Block:
    """M @ V for a dense or CSR matrix M, in the precision of V.

    Examples
    --------
    >>> import numpy as np
    >>> times(sparse.csr_array(np.eye(2)), np.array([[1.0], [2.0]])).tolist()
    [[1.0], [2.0]]
    """
    if isinstance(M, np.ndarray) and M.size >= SHORT and M.dtype == V.dtype:
        return _dense_times(M, V)
    if V.shape[1] < NARROW or not (sparse.issparse(M) and M.format == "csr"):
        return np.asarray(M @ V, dtype=V.dtype)
    from genelin import kernels

    product: Block = kernels.times(M, V)
    return product


def _dense_times(M: Block, V: Block) -> Block:
    """M @ V for a dense M, without threads of BLAS: those wait busily where others are to work."""
    from genelin.kernels.compiled import threads

    product: Block = empty((len(M), V.shape[1]), V.dtype)

    def share(first: int, last: int) -> None:
        np.matmul(M[first:last], V, out=product[first:last])

    with one_blas_thread():
        in_threads(share, equal(len(M), threads() if M.size >= LARGE else 1))
    return product


def magnitudes_times(M: Any, V: Block) -> Block:
    """|M| V for a dense or sparse M: what M V would be if no terms cancelled.

    Examples
    --------
    >>> magnitudes_times(np.array([[1.0, -2.0]]), np.ones((2, 1))).tolist()
    [[3.0]]
    """
    if sparse.issparse(M):
        return np.asarray(abs(M) @ V)
    from genelin.kernels.compiled import threads

    product: Block = empty((len(M), V.shape[1]), V.dtype)
    step = max(PIECE // M.shape[1], 1)

    def share(first: int, last: int) -> None:
        for start in range(first, last, step):
            rows = slice(start, min(start + step, last))
            np.matmul(np.abs(M[rows]), V, out=product[rows])

    with one_blas_thread():
        in_threads(share, equal(len(M), threads() if M.size >= LARGE else 1))
    return product


def filled_up(P: Block, theta: Vector, sign: Vector) -> tuple[Block, Vector, Vector]:
    """A block with its shifts and signs, and columns of zeros up to a number that kernels take.

    Examples
    --------
    >>> import numpy as np
    >>> filled_up(np.ones((2, 3)), np.ones(3), np.ones(3))[0].tolist()
    [[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0]]
    """
    from genelin.kernels.codegen.column_layout import FULL

    missing = -P.shape[1] % FULL
    if not missing:
        return P, theta, sign
    more = (0, missing)
    return np.pad(P, ((0, 0), more)), np.pad(theta, more), np.pad(sign, more)
