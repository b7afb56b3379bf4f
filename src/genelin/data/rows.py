"""Rows of a data set, read in blocks; centring is implicit for sparse data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from genelin.data.row_blocks import Part, RowBlock, Task, row_block, row_limits
from genelin.linalg.column_products import EPS, Block, Vector
from genelin.system.cached import cached_property
from genelin.system.readonly import shared_csr
from genelin.system.threads import blas_threads, equal, in_threads

__all__ = ["Rows"]

NEAR = 1000  # rows whose mean stands for that of all
WIDE = 0.25  # variance, against the squared mean, from which on little cancels in E x² − (E x)²
CACHED = 2**16  # numbers that are still in the cache when they are looked at again
MANY = 2**22  # numbers that are looked at by several threads


class Rows:
    """A data matrix of n rows, dense or CSR, with its moments.

    `weights` count row i ωᵢ times in every moment; their mean is 1 over all rows of a data set.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> rows = Rows(sparse.csr_array(np.array([[1.0, 0.0], [3.0, 0.0]])))
    >>> rows.mean.tolist(), rows.variance.tolist(), rows.stored
    ([2.0, 0.0], [1.0, 0.0], 2)
    """

    in_memory = True  # the matrix is in memory

    def __init__(self, matrix: Any, weights: Vector | None = None) -> None:
        self.matrix, self.weights = matrix, weights
        self.shape = (int(matrix.shape[0]), int(matrix.shape[1]))
        self.n, self.d = self.shape
        self.is_sparse = bool(sparse.issparse(matrix))
        self.stored = int(matrix.nnz if self.is_sparse else matrix.size)
        self.entries_with: WeakKeyDictionary[Rows, float] = WeakKeyDictionary()  # nonzeros of XᵀY
        self.central_moment: Block | None = None  # (X − 1μᵀ)ᵀ(X − 1μᵀ)/n where it is known

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the rows."""
        dtype: np.dtype[Any] = self.matrix.dtype
        return dtype

    @cached_property
    def near_mean(self) -> Vector:
        """The mean of rows at equal distances; as a rule a small part of a deviation from μ."""
        means = self._sampled[0]
        return np.where(np.isfinite(means), means, 0.0)

    @cached_property
    def about_zero(self) -> bool:
        """Whether columns seem to be spread about zero, so that their moments need no centre."""
        means, squares = self._sampled
        known = np.isfinite(squares)
        return bool(known.all() and np.all((1.0 + WIDE) * means**2 <= squares))

    @cached_property
    def _sampled(self) -> tuple[Vector, Vector]:
        """Means of rows at equal distances, and of their squares."""
        part = self.taken(np.arange(0, self.n, max(self.n // NEAR, 1)))
        matrix, weights = part.matrix, part.entry_weights if self.is_sparse else part.weights
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            values = np.asarray(matrix.data if self.is_sparse else matrix, dtype=np.float64)
            powers = [values, values**2]
            if weights is not None:
                powers = [(V.T * weights).T for V in powers]
            if self.is_sparse:
                sums = [np.bincount(matrix.indices, V, self.d) for V in powers]
            else:
                sums = [V.sum(axis=0) for V in powers]
            return sums[0] / part.total, sums[1] / part.total

    @cached_property
    def frequencies(self) -> Vector:
        """Stored entries of every column."""
        if not self.is_sparse:
            return np.full(self.d, float(self.n))
        return np.bincount(self.matrix.indices, minlength=self.d).astype(np.float64)

    @cached_property
    def largest(self) -> float:
        """Largest magnitude of an entry."""
        values = self.matrix.data if self.is_sparse else self.matrix
        step = max(len(values) * CACHED // max(values.size, 1), 1)

        def share(first: int, last: int) -> float:
            parts = (values[i : min(i + step, last)] for i in range(first, last, step))
            return max((max(part.max(), -part.min()) for part in parts), default=0.0)

        shares = blas_threads() if values.size > MANY else 1
        return float(max(in_threads(share, equal(len(values), shares)), default=0.0))

    @cached_property
    def mean(self) -> Vector:
        """Column means.

        Full columns are summed about a number close to their mean: the sum of n equal numbers would
        be off by up to n roundings, and a constant column would seem to vary.
        """
        centre = np.where(self.frequencies == self.n, self.near_mean, 0.0)
        return np.asarray(self._sum_about(centre) / self.n + centre * (self.total / self.n))

    def _sum_about(self, centre: Vector) -> Vector:
        """Σ ωᵢ(xᵢ − c) over stored entries."""
        if not self.is_sparse:
            parts = ((self.matrix[i:j] - centre, i, j) for i, j in self.limits(1))
            if self.weights is None:
                sums = (part.sum(axis=0, dtype=np.float64) for part, _, _ in parts)
            else:
                sums = (self.weights[i:j] @ part for part, i, j in parts)
            return np.asarray(sum(sums, np.zeros(self.d)))
        X, values = self.matrix, self.matrix.data  # a matrix whose `sum` sorts entries in place
        if centre.any():
            values = values - centre[X.indices]
        if self.entry_weights is not None:
            values = values * self.entry_weights
        return np.asarray(np.bincount(X.indices, values, self.d), dtype=np.float64)

    @cached_property
    def counted(self) -> int:
        """Rows that have a weight."""
        return self.n if self.weights is None else int(np.count_nonzero(self.weights))

    @cached_property
    def entry_weights(self) -> Vector | None:
        """The weight of every stored entry of sparse rows."""
        if self.weights is None:
            return None
        return np.repeat(self.weights, np.diff(self.matrix.indptr))

    @cached_property
    def variance(self) -> Vector:
        """Column variances (divided by n), summed from squares of deviations only."""
        moment = self.central_moment
        return self.mean_square_about(self.mean) if moment is None else moment.diagonal().copy()

    @cached_property
    def mean_square(self) -> Vector:
        """Column means of squares."""
        if self.central_moment is not None:
            return np.asarray(self.variance + self.mean**2)
        return self.mean_square_about(np.zeros(self.d))

    @cached_property
    def constant(self) -> NDArray[np.bool_]:
        """Columns without variance, up to the rounding of their own size."""
        return np.asarray(self.variance <= 100 * EPS**2 * self.mean_square)

    @property
    def well_centred(self) -> Rows:
        """The same data up to a shift of columns, fit for implicit centring.

        What is far from zero against its spread must be a full column, so that the shift keeps the
        sparsity; without it XᵀX/n − μμᵀ would cancel. Constant columns stay as they are.
        """
        return self._shifted or self

    @cached_property
    def _shifted(self) -> Rows | None:
        """The data with some columns shifted; None (not itself, a cycle) where none has to be."""
        if not self.is_sparse:
            return None
        X, far = self.matrix, self.mean**2 > 100 * self.variance
        far &= (self.frequencies == self.n) & ~self.constant
        if not far.any():
            return None
        shift = np.where(far, self.mean, 0.0)
        shifted = shared_csr(X.data - shift[X.indices], X.indices, X.indptr, X.shape)
        return Rows(shifted, self.weights)

    @cached_property
    def single(self) -> bool:
        """Whether rows have at most one nonzero each, so that XᵀX is diagonal."""
        if not self.is_sparse or self.stored > self.n:
            return False
        return bool(np.diff(self.matrix.indptr).max(initial=0) <= 1)

    @cached_property
    def in_float32(self) -> Rows:
        """The same data in float32."""
        weights: Any = None if self.weights is None else self.weights.astype(np.float32)
        X = self.matrix
        if not self.is_sparse:
            return Rows(X.astype(np.float32), weights)
        return Rows(shared_csr(X.data.astype(np.float32), X.indices, X.indptr, X.shape), weights)

    def mean_square_about(self, centre: Vector) -> Vector:
        """Column means of squared distances from `centre`."""
        if not self.is_sparse:
            sums = np.zeros(self.d)
            for start, stop in self.limits(1):
                deviation = self.matrix[start:stop] - centre
                if self.weights is None:
                    sums += np.einsum("ij,ij->j", deviation, deviation)
                else:
                    sums += self.weights[start:stop] @ deviation**2
            return np.asarray(sums / self.n)
        X = self.matrix
        squares = (X.data - centre[X.indices]) ** 2
        if self.entry_weights is not None:
            squares *= self.entry_weights
        stored = np.bincount(X.indices, weights=self.entry_weights, minlength=self.d)
        of_stored = np.bincount(X.indices, weights=squares, minlength=self.d)
        missing = np.where(self.frequencies == self.n, 0.0, np.maximum(self.total - stored, 0.0))
        return np.asarray((of_stored + missing * centre**2) / self.n)

    @cached_property
    def total(self) -> float:
        """Σ ωᵢ: n, or what is left of it in some of the rows."""
        return float(self.n if self.weights is None else self.weights.sum())

    def keep_moments(self, mean: Vector, central_moment: Block) -> None:
        """Take over moments that a sweep over several data sets has found."""
        self.mean, self.central_moment = mean, central_moment

    def weighted(self, weights: Vector) -> Rows:
        """The same rows with weights."""
        return Rows(self.matrix, weights)

    def taken(self, rows: NDArray[np.integer[Any]]) -> Rows:
        """Some of the rows, in the order given."""
        return Rows(self.matrix[rows], None if self.weights is None else self.weights[rows])

    def columns(self, chosen: NDArray[np.intp]) -> Rows:
        """Some of the columns of sparse rows, in the order given."""
        return Rows(self.matrix[:, chosen], self.weights)

    def selected(self, chosen: NDArray[np.bool_]) -> Rows:
        """The rows that are chosen, as rows of their own."""
        return self.taken(np.flatnonzero(chosen))

    def limits(self, columns: int) -> Iterator[tuple[int, int]]:
        """Row ranges of blocks fit for products with `columns` columns."""
        return row_limits(self.matrix, columns)

    def block(self, start: int, stop: int, mean: Vector | None) -> RowBlock:
        """Rows start … stop − 1, centred at `mean` (explicitly if dense, implicitly if sparse)."""
        return row_block(self.matrix, self.weights, (start, stop), mean)

    def summed(self, task: Task, other: Rows | None = None, columns: int = 1) -> tuple[Any, ...]:
        """What `task` makes of all rows of this data set, and of another one's beside them."""
        y = None if other is None or other is self else other.matrix
        return task(Part(0, self.matrix, y, self.weights))

    def pairs_with(self, other: Rows) -> float:
        """Pairs of stored numbers in the same row: multiplications to form XᵀY."""
        if not self.is_sparse:
            return float(self.stored) * other.stored / self.n
        if not other.is_sparse:
            return float(self.stored) * other.d
        counts = (np.diff(rows.matrix.indptr).astype(np.float64) for rows in (self, other))
        return float(np.einsum("i,i->", *counts))  # BLAS would leave threads that wait busily
