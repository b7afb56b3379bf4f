"""Sparse symmetric matrices by their factors LDLᵀ, and what those would cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from genelin.linalg.column_products import Block, Vector, column_norms
from genelin.linalg.diagonal_scaling import LEAST
from genelin.system.cached import cached_property

__all__ = [
    "Fill",
    "SparseFactor",
    "SymmetricFactors",
    "factored",
    "is_diagonal_matrix",
    "predicted_fill",
    "sparse_factor",
]

SEPARATED = 20.0  # entries of factors for every square of a separator's size
LEVELS = 3.0  # and for every row and level of a nested dissection
LONG = 200.0  # entries of a column of which each takes twice as long to find
DENSE = 12  # numbers of a dense matrix that are factored as fast as one of a sparse one
POWERS, COLUMNS = 3, 4  # of an inverse that tell its norm, and how many vectors they take
AGAIN = 0.035  # of the time in which an entry is found, to solve with it once


@dataclass(frozen=True)
class SymmetricFactors:
    """PMPᵀ = LDLᵀ with all pivots on the diagonal.

    Attributes
    ----------
    solve : M⁻¹ of a vector or of a block.
    pivots : the diagonal of D.
    L : sparse, with ones on its diagonal.
    order : what P takes, row by row.
    """

    solve: Callable[[Block], Block]
    pivots: Vector
    L: Any
    order: NDArray[np.intp]

    @property
    def entries(self) -> int:
        """Those of L."""
        return int(self.L.nnz)

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
    order = np.argsort(factors.perm_c)
    return SymmetricFactors(factors.solve, factors.U.diagonal(), factors.L, order)


@dataclass(frozen=True)
class SparseFactor:
    """LLᵀ = PDSDPᵀ with ones on the diagonal of DSD, for a sparse symmetric S.

    Attributes
    ----------
    L : sparse rows, diagonals last; None where S is not positive definite.
    columns : the same by columns, which begin with their diagonals.
    order : what P takes, row by row.
    scale : the diagonal of D.
    norm : the largest sum of a row of DSD.
    negative : eigenvalues of S below zero; None where the factorisation does not tell.
    """

    L: Any
    columns: Any
    order: NDArray[np.intp]
    scale: Vector
    norm: float
    negative: int | None = 0

    @cached_property
    def condition(self) -> float:
        """1/κ of DSD, roughly, by powers of its inverse."""
        V, largest = np.random.default_rng(0).standard_normal((len(self.scale), COLUMNS)), 1.0
        for _ in range(POWERS):
            V = V / (self.scale[:, None] * column_norms(V))
            V = self.lifted(self.whitened(V)) / self.scale[:, None]
            largest = float(column_norms(V).max())
        return 1.0 / (self.norm * largest)

    @property
    def trouble(self) -> str:
        """Why there is no factor; nothing if there is one."""
        return "" if self.L is not None else "a pivot of its factorisation is not positive"

    @property
    def is_sound(self) -> bool:
        """Whether there is a factor with all its pivots above rounding."""
        return self.L is not None and bool(self.L.diagonal().min() > LEAST)

    def whitened(self, M: Block) -> Block:
        """TᵀM, TTᵀ = S⁻¹."""
        from genelin import kernels

        L = self.L.data, self.L.indices, self.L.indptr
        return np.asarray(kernels.lower_solve(L, M, self.order, self._taken_scale))

    def lifted(self, U: Block) -> Block:
        """TU."""
        from genelin import kernels

        columns = self.columns.data, self.columns.indices, self.columns.indptr
        return np.asarray(kernels.upper_solve(columns, U, self.order, self._taken_scale))

    def hidden(self, noise: Block) -> Vector:
        """‖Tᵀe‖ at most, for errors |e| ≤ noise."""
        through = np.sqrt(self.condition * self.norm)
        return np.asarray(column_norms(self.scale[:, None] * noise) / through)

    @cached_property
    def _taken_scale(self) -> Vector:
        return self.scale[self.order]


def sparse_factor(S: Any) -> SparseFactor:
    """Cholesky's factor of a sparse symmetric matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> S = sparse.csr_array(np.array([[4.0, 1.0], [1.0, 9.0]]))
    >>> factor = sparse_factor(S)
    >>> T = factor.lifted(np.eye(2))
    >>> (T @ T.T @ S.toarray()).round(12).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    sizes = np.abs(S.diagonal())
    scale = 1.0 / np.sqrt(np.where(sizes > 0, sizes, 1.0))
    D = sparse.diags_array(scale)
    scaled = (D @ S @ D).tocsc()
    found = factored(scaled)
    if found is None or not np.all(found.pivots > 0):
        negative = None if found is None else found.negative
        return SparseFactor(None, None, np.arange(S.shape[0]), scale, 0.0, negative)
    L = found.L.tocsc()
    if not np.array_equal(L.indices[L.indptr[:-1]], np.arange(len(scale))):
        L.sort_indices()
    L.data *= np.repeat(np.sqrt(found.pivots), np.diff(L.indptr))
    norm = float(np.ravel(abs(scaled).sum(axis=0)).max())
    return SparseFactor(L.tocsr(), L, found.order, scale, norm)


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

    @property
    def is_sparse(self) -> bool:
        """Whether they would be faster than those of a dense matrix."""
        return DENSE * self.entries < float(self.size) ** 2

    def factoring(self, entry: float) -> float:
        """Seconds to find them, by those for an entry of short columns."""
        return entry * self.entries * (1.0 + self.entries / (LONG * self.size))

    def solving(self, entry: float) -> float:
        """Seconds to solve with them for one column, by the same measure."""
        return AGAIN * entry * self.entries


def predicted_fill(M: Any) -> Fill:
    """The size of factors, from the width of the fronts of a walk through the graph of M.

    Fronts of that walk (Cuthill & McKee) cut the graph in two, so that a nested dissection has
    separators of that size at most.

    Examples
    --------
    >>> from scipy import sparse
    >>> path = sparse.diags_array([1.0, 4.0, 1.0], offsets=[-1, 0, 1], shape=(1000, 1000)).tocsr()
    >>> predicted_fill(path).entries
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
