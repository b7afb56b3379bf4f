"""What `partial_fit` keeps of the rows it has seen: their moments, or a fair sample of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from genelin.linalg import unit_diagonal
from genelin.linalg.column_products import EPS, Block, Vector
from genelin.operators import Cross, Gram, Rows, as_rows

__all__ = ["MOST_FEATURES", "Moments", "Reservoir"]

MOST_FEATURES = 2048  # of a view, up to which moments are kept: 134 MB, and 600 MB to solve
RESERVOIR = 2**24  # stored numbers of both views that a reservoir holds, about: 130 to 200 MB


class Moments:
    """Means and covariances of two views, merged batch by batch (Chan, Golub & LeVeque 1983).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((50, 3)), rng.standard_normal((50, 2))
    >>> moments = Moments()
    >>> for part in (slice(20), slice(20, 50)):
    ...     moments.add(as_rows(X[part]), as_rows(Y[part]), float(len(X[part])))
    >>> np.allclose(moments.covariance[:3, 3:], (X - X.mean(0)).T @ (Y - Y.mean(0)) / 50)
    True
    """

    def __init__(self) -> None:
        self.counted, self.total, self.splits = 0, 0.0, (0, 0)
        self.weighted = False  # whether any batch had weights
        self.centre: Vector = np.zeros(0)  # of the columns of X and of Y, one after the other
        self.offset: Vector = np.zeros(0)  # of their means from it, so that these do not drift
        self.covariance: Block = np.zeros((0, 0))

    def add(self, x: Rows, y: Rows, total: float) -> None:
        """Count the rows of a batch whose weights sum to `total`."""
        mean, d = np.concatenate([x.mean, y.mean]), x.d + y.d
        if self.counted == 0:
            self.splits, self.centre, self.offset = (x.d, y.d), mean, np.zeros(d)
            self.covariance = np.zeros((d, d))
        share = total / (self.total + total)
        apart = (mean - self.centre) - self.offset
        self.covariance *= 1.0 - share
        for rows, columns, block in _covariances(x, y):
            self.covariance[rows, columns] += share * block
        self.covariance += np.outer(apart * (share * (1.0 - share)), apart)
        self.offset = self.offset + share * apart
        self.total, self.counted = self.total + total, self.counted + x.counted
        self.weighted |= x.weights is not None

    @property
    def mean(self) -> Vector:
        """Means of the columns of X and of Y, one after the other."""
        return self.centre + self.offset

    @property
    def spread(self) -> Vector:
        """Standard deviations of the columns, 1 for those that are constant."""
        variance = self.covariance.diagonal()
        constant = variance <= 100 * EPS**2 * (variance + self.mean**2)
        return np.sqrt(np.where(constant, 1.0, variance))

    def rows(self, divisors: Vector, center: bool) -> tuple[Rows, Rows]:
        """A few rows with these moments about zero, their columns divided by `divisors`.

        The moments are the covariances, or with center=False the mean products of columns.
        They are the rows of a pivoted Cholesky factor: as many as the moments have a rank, and
        rows of zeros up to what the data could have had.
        """
        d = len(self.mean)
        moment = self.covariance if center else self.covariance + np.outer(self.mean, self.mean)
        scaled, units = unit_diagonal(moment / np.outer(divisors, divisors))
        U, pivots, rank, _ = lapack.dpstrf(np.asfortranarray(scaled), tol=d * EPS)
        m = max(min(self.counted - center, d), int(rank), 1)
        F = np.zeros((m, d))
        F[:rank, pivots - 1] = np.triu(U[:rank])
        F *= np.sqrt(m) * np.divide(1.0, units, out=np.zeros(d), where=units > 0)
        X, Y = np.split(F, [self.splits[0]], axis=1)
        return as_rows(np.ascontiguousarray(X), "X"), as_rows(np.ascontiguousarray(Y), "y")


def _covariances(x: Rows, y: Rows) -> Iterator[tuple[slice, slice, Block]]:
    """Covariances of the columns of a batch, block by block, and their places."""
    of_x, of_y = slice(0, x.d), slice(x.d, None)
    between = Cross(x, y, center=True).dense()
    yield of_x, of_y, between
    yield of_y, of_x, between.T
    yield of_x, of_x, Gram(x, center=True).entries().dense()
    yield of_y, of_y, Gram(y, center=True).entries().dense()


class Reservoir:
    """A sample of the rows seen so far, each with the same chance to be in it (Vitter 1985).

    As long as all rows fit it holds them all. Rows keep their weights.

    Parameters
    ----------
    seed : of the choice of rows.
    numbers : stored numbers that it may hold, about.

    Examples
    --------
    >>> import numpy as np
    >>> kept = Reservoir(seed=0, numbers=300)
    >>> X = np.arange(400.0).reshape(200, 2)
    >>> for part in np.split(X, 4):
    ...     kept.add(part, part[:, :1], np.ones(50))
    >>> kept.X.shape, kept.seen
    ((100, 2), 200)
    """

    def __init__(self, seed: int, numbers: int = RESERVOIR) -> None:
        self.seed, self.numbers, self.seen, self.capacity = seed, numbers, 0, 0
        self.X: Any = None
        self.Y: Any = None
        self.weights: Vector = np.zeros(0)

    @property
    def counted(self) -> int:
        """Rows that are held."""
        return len(self.weights)

    def add(self, X: Any, Y: Any, weights: Vector) -> None:
        """Offer the rows of a batch."""
        if self.seen == 0:
            per_row = (_stored(X) + _stored(Y)) / X.shape[0]
            self.capacity = max(1, int(self.numbers / max(per_row, 1.0)))
        n, held = X.shape[0], self.counted
        slots = np.arange(min(held + n, self.capacity))
        late = np.arange(max(self.capacity - self.seen, 0), n)  # offered once it is full
        rng = np.random.default_rng([self.seed, self.seen])
        places = rng.integers(0, self.seen + late + 1)
        taken = places < self.capacity
        slots[places[taken]] = held + late[taken]  # the last of equals stays
        self.X, self.Y = (_chosen(old, new, slots) for old, new in ((self.X, X), (self.Y, Y)))
        self.weights = np.concatenate([self.weights, weights])[slots]
        self.seen += n

    def rows(self) -> tuple[Rows, Rows]:
        """The rows that are held, with their weights."""
        weights = None if np.all(self.weights == self.weights[0]) else self.weights
        return as_rows(self.X, "X", weights), as_rows(self.Y, "y", weights)


def _stored(X: Any) -> int:
    return int(X.nnz if sparse.issparse(X) else X.size)


def _chosen(old: Any, new: Any, slots: Any) -> Any:
    """Rows `slots` of old and new, one below the other; sparse if either is."""
    if old is None:
        return new[slots]
    if sparse.issparse(old) or sparse.issparse(new):
        both = [sparse.csr_array(part) for part in (old, new)]
        return sparse.vstack(both, format="csr")[slots]
    return np.concatenate([old, new])[slots]
