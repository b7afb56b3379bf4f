"""Sparse symmetric matrices by their factors LDLᵀ, and what those would cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from genelin.linalg.columns import Block, Vector

__all__ = ["Fill", "SymmetricFactors", "factored", "foreseen_fill", "is_diagonal_matrix"]

SEPARATED = 20.0  # entries of factors for every square of a separator's size
LEVELS = 3.0  # and for every row and level of a nested dissection
LONG = 200.0  # entries of a column of which each takes twice as long to find
AGAIN = 0.035  # of the time in which an entry is found, to solve with it once


@dataclass(frozen=True)
class SymmetricFactors:
    """PMPᵀ = LDLᵀ with all pivots on the diagonal.

    Attributes
    ----------
    solve : M⁻¹ of a vector or of a block.
    pivots : the diagonal of D.
    entries : of L.
    """

    solve: Callable[[Block], Block]
    pivots: Vector
    entries: int

    @property
    def negative(self) -> int:
        """Negative eigenvalues of M (Sylvester)."""
        return int(np.count_nonzero(self.pivots < 0))


def factored(M: Any) -> SymmetricFactors | None:
    """Factors of a sparse symmetric matrix (SuperLU); None where a pivot on the diagonal is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> factors = factored(sparse.csr_array(np.array([[2.0, 1.0], [1.0, -3.0]])))
    >>> factors.negative, factors.solve(np.array([3.0, -2.0])).round(6).tolist()
    (1, [1.0, 1.0])
    """
    try:
        factors = splu(
            M.tocsc(),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
    except RuntimeError as error:
        if "singular" not in str(error):
            raise
        return None
    if not np.array_equal(factors.perm_r, factors.perm_c):
        return None
    return SymmetricFactors(factors.solve, factors.U.diagonal(), int(factors.L.nnz))


def is_diagonal_matrix(M: Any) -> bool:
    """Whether a sparse matrix has no entries but on its diagonal.

    Examples
    --------
    >>> from scipy import sparse
    >>> is_diagonal_matrix(sparse.diags_array([1.0, 2.0]))
    True
    """
    return bool(M.count_nonzero() == np.count_nonzero(M.diagonal()))


@dataclass(frozen=True)
class Fill:
    """What factors of a sparse matrix would be, roughly (within a factor of three on meshes).

    Attributes
    ----------
    entries : of L.
    size : of the matrix.
    """

    entries: float
    size: int

    def factoring(self, entry: float) -> float:
        """Seconds to find them, by those for an entry of short columns."""
        return entry * self.entries * (1.0 + self.entries / (LONG * self.size))

    def solving(self, entry: float) -> float:
        """Seconds to solve with them for one column, by the same measure."""
        return AGAIN * entry * self.entries


def foreseen_fill(M: Any) -> Fill:
    """The size of factors, from the width of the fronts of a walk through the graph of M.

    Fronts of that walk (Cuthill & McKee) cut the graph in two, so that a nested dissection has
    separators of that size at most.

    Examples
    --------
    >>> from scipy import sparse
    >>> path = sparse.diags_array([1.0, 4.0, 1.0], offsets=[-1, 0, 1], shape=(1000, 1000)).tocsr()
    >>> foreseen_fill(path).entries
    1999.0
    """
    M = M.tocsr()
    d = M.shape[0]
    if is_diagonal_matrix(M):
        return Fill(float(d), d)
    order = reverse_cuthill_mckee(M, symmetric_mode=True)
    place = np.empty(d, dtype=np.intp)
    place[order] = np.arange(d)
    rows = np.repeat(place, np.diff(M.indptr))
    first = np.arange(d)
    np.minimum.at(first, rows, place[M.indices])
    envelope = float((np.arange(d) - first).sum())
    width = max(envelope / d, 1.0)
    dissected = SEPARATED * width**2 + LEVELS * d * float(np.log2(width))
    within = float(sparse.tril(M, -1).nnz)
    return Fill(d + max(min(envelope, dissected), within), d)
