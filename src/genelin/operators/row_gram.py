"""A view by its rows: products between rows instead of columns, where there are fewer of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from genelin.data.row_blocks import row_block
from genelin.linalg.column_products import Block, Vector
from genelin.operators.covariance import Gram
from genelin.system.cached import cached_property

__all__ = ["KEPT", "RowSpace"]

KEPT = 2**25  # numbers of dense rows of which a centred copy is kept: 256 MB
COPIED = 2**22  # numbers of columns that are centred at a time, of more


class RowSpace:
    """Z = √Ω(X − 1μᵀ)F/√n for the centre μ, factors F and row weights Ω of a covariance.

    That covariance is weight·ZᵀZ + reg·I; ZZᵀ has the same spectrum, and one row for each of X.

    Examples
    --------
    >>> import numpy as np
    >>> space = RowSpace(Gram(np.array([[1.0, 0.0, 2.0], [3.0, 4.0, 2.0]]), center=True))
    >>> space.products().round(6).tolist()
    [[2.5, -2.5], [-2.5, 2.5]]
    >>> space.transposed_times(space.times(np.eye(3))).round(6).tolist()
    [[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 0.0]]
    """

    def __init__(self, gram: Gram) -> None:
        self._rows, self._mean, self._factors = gram.rows, gram.centre, gram.factors
        weights = np.ones(self._rows.n) if self._rows.weights is None else self._rows.weights
        self._roots: Vector = np.sqrt(weights / self._rows.n)

    @cached_property
    def _kept(self) -> Block | None:
        """(X − 1μᵀ)F of dense rows that are not too many."""
        if self._rows.is_sparse or self._rows.stored > KEPT:
            return None
        return self._centred(slice(None))

    def products(self) -> Block:
        """ZZᵀ; sparse data are not centred for it, and large dense data some columns at a time."""
        if self._kept is not None:
            inner = self._kept @ self._kept.T
        else:
            inner = self._sparse_products() if self._rows.is_sparse else self._dense_products()
        return self._roots[:, None] * inner * self._roots

    def times(self, V: Block) -> Block:
        """Z V."""
        if self._kept is not None:
            return self._roots[:, None] * (self._kept @ V)
        U = V if self._factors is None else self._factors[:, None] * V
        parts = [self._block(span).dot(U) for span in self._rows.limits(V.shape[1])]
        return np.asarray(self._roots[:, None] * np.concatenate(parts))

    def transposed_times(self, T: Block) -> Block:
        """Zᵀ T."""
        T = self._roots[:, None] * T
        if self._kept is not None:
            return self._kept.T @ T
        spans = self._rows.limits(T.shape[1])
        out = sum(self._block(span).transposed_dot(T[slice(*span)]) for span in spans)
        return np.asarray(out if self._factors is None else self._factors[:, None] * out)

    def _block(self, span: tuple[int, int]) -> Any:
        return row_block(self._rows.matrix, None, span, self._mean)

    def _dense_products(self) -> Block:
        n, d = self._rows.shape
        total, step = np.zeros((n, n)), max(COPIED // n, 1)
        for first in range(0, d, step):
            Z = self._centred(slice(first, first + step))
            total += Z @ Z.T
        return total

    def _centred(self, columns: slice) -> Block:
        """(X − 1μᵀ)F of some columns of dense rows; the data themselves where that is all."""
        Z = self._rows.matrix[:, columns]
        if self._mean is not None:
            Z = Z - self._mean[columns]
        if self._factors is not None:
            Z = Z * self._factors[columns]
        return np.asarray(Z, np.float64)

    def _sparse_products(self) -> Block:
        from genelin.kernels import dense_moment

        X = self._rows.matrix
        factors = np.ones(X.shape[1]) if self._factors is None else self._factors
        columns = X.T.tocsr()  # rows of this are columns of X, weighed by their squared factors
        total = np.asarray(dense_moment(columns, columns, factors**2))
        if self._mean is not None:
            mean = factors * self._mean
            along = X @ (factors * mean)
            total += mean @ mean - along[:, None] - along
        return total
