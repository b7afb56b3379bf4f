"""Rows of a data set, read in blocks; centring is implicit for sparse data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from genelin.linalg.columns import EPS, Block, Vector
from genelin.operators.products import times

__all__ = ["RowBlock", "Rows", "moment_between"]

DENSE_BLOCK = 2**20  # numbers in a centred copy of dense rows: 8 MB
SPARSE_BLOCK = 2**23  # numbers in a (rows, m) product with sparse rows: 64 MB


@dataclass(frozen=True)
class RowBlock:
    """Rows X_b, seen through their mean: (X_b − 1μᵀ)V and (X_b − 1μᵀ)ᵀΩT, Ω their weights.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin.operators import Gram
    >>> block = next(iter(Gram(np.array([[1.0, 2.0], [3.0, 6.0]]), center=True).row_blocks()))
    >>> block.dot(np.eye(2)).tolist()
    [[-1.0, -2.0], [1.0, 2.0]]
    """

    matrix: Any  # (rows, d); dense rows are centred already
    mean: Vector | None  # (d,), only for sparse rows
    weights: Vector | None = None  # (rows,), None for ones

    def dot(self, V: Block) -> Block:
        """(X_b − 1μᵀ) V, of shape (rows, m)."""
        T: Block = times(self.matrix, V)
        if self.mean is not None:
            T -= self.mean @ V
        return T

    def transposed_dot(self, T: Block) -> Block:
        """(X_b − 1μᵀ)ᵀ Ω T, of shape (d, m)."""
        T = T if self.weights is None else T * self.weights[:, None]
        V: Block = self.matrix.T @ T
        if self.mean is not None:
            V -= np.outer(self.mean, T.sum(axis=0))
        return V


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

    def __init__(self, matrix: Any, weights: Vector | None = None) -> None:
        self.matrix, self.weights = matrix, weights
        self.n, self.d = int(matrix.shape[0]), int(matrix.shape[1])
        self.is_sparse = bool(sparse.issparse(matrix))
        self.stored = int(matrix.nnz if self.is_sparse else matrix.size)
        self.entries_with: WeakKeyDictionary[Rows, float] = WeakKeyDictionary()  # nonzeros of XᵀY
        self.central_moment: Block | None = None  # (X − 1μᵀ)ᵀ(X − 1μᵀ)/n where it is known
        self.cross_moment: tuple[Rows, Block] | None = None  # another view, and that with it

    @cached_property
    def largest(self) -> float:
        """Largest magnitude of an entry."""
        values = self.matrix.data if self.is_sparse else self.matrix
        return float(max(values.max(initial=0.0), -values.min(initial=0.0)))

    @cached_property
    def mean(self) -> Vector:
        """Column means."""
        if self.weights is not None:
            return np.asarray(self._weighted_sum(self.weights) / self.n)
        if self.is_sparse:
            means: Vector = np.asarray(self.matrix.sum(axis=0, dtype=np.float64)).ravel() / self.n
            return means
        return np.asarray(np.mean(self.matrix, axis=0, dtype=np.float64))

    def _weighted_sum(self, weights: Vector) -> Vector:
        """Σ ωᵢxᵢ."""
        if self.is_sparse:
            return np.asarray(self.matrix.T @ weights)
        parts = (weights[i:j] @ self.matrix[i:j] for i, j in self.limits(1))
        return np.asarray(sum(parts, np.zeros(self.d)))

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

    @cached_property
    def well_centred(self) -> Rows:
        """The same data up to a shift of columns, fit for implicit centring.

        What is far from zero against its spread must be a full column, so that the shift keeps the
        sparsity; without it XᵀX/n − μμᵀ would cancel. Constant columns stay as they are.
        """
        if not self.is_sparse:
            return self
        X, far = self.matrix, self.mean**2 > 100 * self.variance
        full = np.bincount(X.indices, minlength=self.d) == self.n
        far &= full & ~self.constant
        if not far.any():
            return self
        shift = np.where(far, self.mean, 0.0)
        shifted = (X.data - shift[X.indices], X.indices, X.indptr)
        return Rows(sparse.csr_array(shifted, shape=X.shape, copy=False), self.weights)

    @cached_property
    def single(self) -> bool:
        """Whether rows have at most one nonzero each, so that XᵀX is diagonal."""
        if not self.is_sparse or self.stored > self.n:
            return False
        return bool(np.diff(self.matrix.indptr).max(initial=0) <= 1)

    @cached_property
    def lowered(self) -> Rows:
        """The same data in float32."""
        weights: Any = None if self.weights is None else self.weights.astype(np.float32)
        X = self.matrix
        if not self.is_sparse:
            return Rows(X.astype(np.float32), weights)
        parts = (X.data.astype(np.float32), X.indices, X.indptr)
        return Rows(sparse.csr_array(parts, shape=X.shape, copy=False), weights)

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
        return np.asarray((of_stored + np.maximum(self.total - stored, 0.0) * centre**2) / self.n)

    @cached_property
    def total(self) -> float:
        """Σ ωᵢ: n, or what is left of it in some of the rows."""
        return float(self.n if self.weights is None else self.weights.sum())

    def weighted(self, weights: Vector) -> Rows:
        """The same rows with weights."""
        return Rows(self.matrix, weights)

    def taken(self, rows: NDArray[np.integer[Any]]) -> Rows:
        """Some of the rows, in the order given."""
        return Rows(self.matrix[rows], None if self.weights is None else self.weights[rows])

    def limits(self, columns: int) -> Iterator[tuple[int, int]]:
        """Row ranges of blocks fit for products with `columns` columns."""
        if self.is_sparse:
            step = max(4 * self.d, SPARSE_BLOCK // max(columns, 1))
        else:
            step = max(256, DENSE_BLOCK // (self.d + columns))
        for start in range(0, self.n, step):
            yield start, min(start + step, self.n)

    def block(self, start: int, stop: int, mean: Vector | None) -> RowBlock:
        """Rows start … stop − 1, centred at `mean` (explicitly if dense, implicitly if sparse)."""
        X = self.matrix
        weights = None if self.weights is None else self.weights[start:stop]
        if not self.is_sparse:
            part = X[start:stop]
            return RowBlock(part if mean is None else part - mean, None, weights)
        if start == 0 and stop == self.n:
            return RowBlock(X, mean, weights)
        first, last = X.indptr[start], X.indptr[stop]
        part = sparse.csr_array(
            (X.data[first:last], X.indices[first:last], X.indptr[start : stop + 1] - first),
            shape=(stop - start, self.d),
            copy=False,
        )
        return RowBlock(part, mean, weights)


def moment_between(x: Rows, y: Rows) -> Any:
    """XᵀΩY/n of sparse rows as CSR, summed in double precision."""
    X = x.matrix.astype(np.float64, copy=False)
    if x.entry_weights is not None:
        X = sparse.csr_array((X.data * x.entry_weights, X.indices, X.indptr), shape=X.shape)
    return (X.T @ y.matrix).tocsr() / x.n
