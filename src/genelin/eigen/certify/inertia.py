"""How many eigenvalues lie beyond a value: Sylvester's law of inertia."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from genelin.linalg.column_products import Block
from genelin.problems import Pencil

__all__ = ["count_beyond"]


def count_beyond(pencil: Pencil, size: float) -> int | None:
    """Eigenvalues of A v = λ B v whose magnitude (or ±λ, by `which`) exceeds `size`.

    None where A or B has no entries. Costs one or two factorisations of size d.

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
    A, B = (part.dense() for part in entries if part is not None)
    ends = {"LM": (1.0, -1.0), "LA": (1.0,), "SA": (-1.0,)}[pencil.which]
    return sum(_positive(end * A - size * B) for end in ends)


def _positive(M: Block) -> int:
    """Positive eigenvalues of a symmetric matrix, from its factors LDLᵀ (Bunch & Kaufman).

    D has blocks of one and of two rows; the latter have an eigenvalue of either sign.
    """
    room = int(lapack.dsytrf_lwork(len(M), lower=1)[0])
    factors, pivots, _ = lapack.dsytrf(M.T, lower=1, lwork=room, overwrite_a=1)
    alone = np.diagonal(factors)[pivots > 0]
    return int(np.count_nonzero(alone > 0)) + int(np.count_nonzero(pivots < 0)) // 2
