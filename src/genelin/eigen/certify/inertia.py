"""How many eigenvalues lie beyond a value: Sylvester's law of inertia."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from genelin.linalg.column_products import Block
from genelin.linalg.sparse_cholesky import factored, predicted_fill
from genelin.problems import SMALL, Pencil

__all__ = ["count_beyond"]

EXACT = 1e-10  # residual of a solve with sparse factors, which have no pivoting, to be relied on


def count_beyond(pencil: Pencil, size: float) -> int | None:
    """Eigenvalues of A v = λ B v whose magnitude (or ±λ, by `which`) exceeds `size`.

    None where A or B has no entries, or is large and has no cheap sparse factors. Costs one or two
    factorisations.

    Examples
    --------
    >>> import numpy as np
    >>> pencil = Pencil(np.diag([3.0, -2.0, 1.0]))
    >>> count_beyond(pencil, 1.5), count_beyond(Pencil(pencil.A, which="LA"), 1.5)
    (2, 1)
    """
    entries = [operator.entries() for operator in pencil.operators]
    if any(part is None for part in entries):
        return None
    ends = {"LM": (1.0, -1.0), "LA": (1.0,), "SA": (-1.0,)}[pencil.which]
    if pencil.d <= SMALL:
        A, B = (part.dense() for part in entries if part is not None)
        return sum(_positive(end * A - size * B) for end in ends)
    cores = [part.core for part in entries if part is not None and part.minus is None]
    if len(cores) < 2 or not all(map(sparse.issparse, cores)):
        return None
    if not predicted_fill(abs(cores[0]) + abs(cores[1])).is_sparse:
        return None
    counts = [_positive_of_sparse(end * cores[0] - size * cores[1]) for end in ends]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _positive(M: Block) -> int:
    """Positive eigenvalues of a symmetric matrix, from its factors LDLᵀ (Bunch & Kaufman).

    D has blocks of one and of two rows; the latter have an eigenvalue of either sign.
    """
    room = int(lapack.dsytrf_lwork(len(M), lower=1)[0])
    factors, pivots, _ = lapack.dsytrf(M.T, lower=1, lwork=room, overwrite_a=1)
    alone = np.diagonal(factors)[pivots > 0]
    return int(np.count_nonzero(alone > 0)) + int(np.count_nonzero(pivots < 0)) // 2


def _positive_of_sparse(M: Any) -> int | None:
    """The same of a sparse matrix; None where its factors are not accurate."""
    factors = factored(M)
    if factors is None:
        return None
    b = np.random.default_rng(0).standard_normal(M.shape[0])
    left = M @ factors.solve(b) - b
    if not np.abs(left).max() <= EXACT * np.abs(b).max():
        return None
    return int(M.shape[0] - factors.negative)
