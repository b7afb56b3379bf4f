"""The sums over rows that covariances are made of."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
from scipy import sparse

from genelin.data.row_blocks import Part, Task, in_one_sweep
from genelin.linalg.column_products import Block, Vector
from genelin.system.readonly import shared_csr
from genelin.system.threads import blas_threads, equal, in_threads, one_blas_thread

__all__ = [
    "BothTimes",
    "CentralMoments",
    "CrossTimes",
    "DenseMoment",
    "OwnTimes",
    "PairTimes",
    "SparseMoment",
]

MOMENT_BLOCK = 2**22  # numbers of dense rows whose moment is one product: 32 MB
MOST_DENSE = 2**25  # entries of a moment of sparse rows that is added up as a dense one
MOST_MOMENTS = 2**24  # numbers of all moments where every thread has its own: 128 MB


@dataclass(frozen=True)
class CrossTimes(Task):
    """(X − 1μᵀ)ᵀΩ(Y − 1νᵀ)U.

    Examples
    --------
    >>> import numpy as np
    >>> CrossTimes(np.ones((1, 1)))(Part(0, np.array([[1.0], [2.0]])))[0].tolist()
    [[5.0]]
    """

    U: Block
    x_mean: Vector | None = None
    y_mean: Vector | None = None

    def __call__(self, part: Part) -> tuple[Any, ...]:
        """The product with the rows of one part."""
        U, x_mean, y_mean = self.U, self.x_mean, self.y_mean
        if in_one_sweep(part.x, part.other, U.shape[1]) and (x_mean is None) == (y_mean is None):
            from genelin import kernels

            shift = None if y_mean is None else y_mean @ U
            product, total = kernels.cross_times(part.x, part.other, U, shift, part.weights)
            if x_mean is not None:
                product -= np.outer(x_mean, total)
            return (product,)
        out: Block | None = None
        for x, y in part.blocks(U.shape[1], x_mean, y_mean):
            out = _added(out, x.transposed_dot(y.dot(U)))
        return (_or_zeros(out, part.x, U),)


def _added(total: Block | None, product: Block) -> Block:
    """The sum, in the memory of `total`; its first term is taken as it is."""
    return product if total is None else np.add(total, product, out=total)


def _or_zeros(total: Block | None, X: Any, U: Block) -> Block:
    """The sum, or what it is without any term."""
    return np.zeros((X.shape[1], U.shape[1]), U.dtype) if total is None else total


@dataclass(frozen=True)
class BothTimes(Task):
    """(X − 1μᵀ)ᵀΩ(Y − 1νᵀ)Uy and (Y − 1νᵀ)ᵀΩ(X − 1μᵀ)Ux.

    Examples
    --------
    >>> import numpy as np
    >>> both = BothTimes(np.ones((1, 1)), np.ones((2, 1)))
    >>> [half.tolist() for half in both(Part(0, np.array([[2.0]]), np.array([[1.0, 3.0]])))]
    [[[8.0]], [[2.0], [6.0]]]
    """

    Ux: Block
    Uy: Block
    x_mean: Vector | None = None
    y_mean: Vector | None = None

    def __call__(self, part: Part) -> tuple[Any, ...]:
        """Both products with the rows of one part."""
        Ux, Uy, x_mean, y_mean = self.Ux, self.Uy, self.x_mean, self.y_mean
        columns = max(Ux.shape[1], Uy.shape[1])
        if in_one_sweep(part.x, part.other, columns):
            turned = Part(part.start, part.other, part.x, part.weights)
            to_x = CrossTimes(Uy, x_mean, y_mean)(part)[0] if Uy.shape[1] else None
            to_y = CrossTimes(Ux, y_mean, x_mean)(turned)[0] if Ux.shape[1] else None
            return _or_zeros(to_x, part.x, Uy), _or_zeros(to_y, part.other, Ux)
        to_x = to_y = None
        for x, y in part.blocks(columns, x_mean, y_mean):
            if Uy.shape[1]:
                to_x = _added(to_x, x.transposed_dot(y.dot(Uy)))
            if Ux.shape[1]:
                to_y = _added(to_y, y.transposed_dot(x.dot(Ux)))
        return _or_zeros(to_x, part.x, Uy), _or_zeros(to_y, part.other, Ux)


@dataclass(frozen=True)
class OwnTimes(Task):
    """(X − 1μᵀ)ᵀΩ(X − 1μᵀ)Ux and (Y − 1νᵀ)ᵀΩ(Y − 1νᵀ)Uy.

    Examples
    --------
    >>> import numpy as np
    >>> own = OwnTimes(np.ones((1, 1)), np.ones((2, 1)))
    >>> [half.tolist() for half in own(Part(0, np.array([[2.0]]), np.array([[1.0, 3.0]])))]
    [[[4.0]], [[4.0], [12.0]]]
    """

    Ux: Block
    Uy: Block
    x_mean: Vector | None = None
    y_mean: Vector | None = None

    def __call__(self, part: Part) -> tuple[Any, ...]:
        """Both products with the rows of one part."""
        x, y = replace(part, y=None), replace(part, x=part.other, y=None)
        to_x = CrossTimes(self.Ux, self.x_mean, self.x_mean)(x)
        return *to_x, *CrossTimes(self.Uy, self.y_mean, self.y_mean)(y)


@dataclass(frozen=True)
class DenseMoment(Task):
    """(X − 1μᵀ)ᵀΩ(Y − 1νᵀ) as a dense array, where X or Y is dense.

    Examples
    --------
    >>> import numpy as np
    >>> DenseMoment()(Part(0, np.array([[1.0, 2.0]])))[0].tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """

    x_mean: Vector | None = None
    y_mean: Vector | None = None

    def __call__(self, part: Part) -> tuple[Any, ...]:
        """The moment of one part."""
        x, y = part.x, part.other
        moment: Block = np.zeros((x.shape[1], y.shape[1]))
        columns = y.shape[1] if sparse.issparse(x) else x.shape[1]
        for x_rows, y_rows in part.blocks(columns, self.x_mean, self.y_mean):
            if sparse.issparse(y_rows.matrix):
                dense = np.asarray(x_rows.matrix, dtype=np.float64)
                moment += y_rows.transposed_dot(dense).T
            else:
                moment += x_rows.transposed_dot(np.asarray(y_rows.matrix, dtype=np.float64))
        return (moment,)


class SparseMoment(Task):
    """XᵀΩY of sparse rows as CSR, summed in double precision.

    Examples
    --------
    >>> import numpy as np
    >>> X = sparse.csr_array(np.array([[1.0, 0.0], [2.0, 0.0]]))
    >>> SparseMoment()(Part(0, X))[0].toarray().tolist()
    [[5.0, 0.0], [0.0, 0.0]]
    """

    def __call__(self, part: Part) -> tuple[Any, ...]:
        """The moment of one part; the pairs of a small one are added up where they belong."""
        if _is_small(part.x, part.other):
            from genelin.kernels import dense_moment

            return (_by_rows(dense_moment(part.x, part.other, part.weights)),)
        X = part.x.astype(np.float64, copy=False)
        if part.weights is not None:
            by_entry = np.repeat(part.weights, np.diff(X.indptr))
            X = shared_csr(X.data * by_entry, X.indices, X.indptr, X.shape)
        return ((X.T @ part.other).tocsr(),)


def _by_rows(M: Block) -> Any:
    """A dense matrix as CSR; one of which most entries are not zero keeps those that are."""
    if 2 * np.count_nonzero(M) < M.size:
        return sparse.csr_array(M)
    rows, columns = M.shape
    places = np.tile(np.arange(columns, dtype=np.int32), rows)
    starts = np.arange(0, M.size + 1, columns, dtype=np.int32)
    return sparse.csr_array((M.ravel(), places, starts), shape=M.shape)


def _is_small(X: Any, Y: Any) -> bool:
    """Whether XᵀY has room as a dense matrix, and about every entry of it has a term."""
    size, pairs = X.shape[1] * Y.shape[1], np.diff(X.indptr) @ np.diff(Y.indptr)
    return bool(X.format == Y.format == "csr" and size <= min(MOST_DENSE, pairs))


@dataclass(frozen=True)
class CentralMoments(Task):
    """ZᵀΩZ and Σωz of the rows z = (x, y) − c of two dense views, c a point near their mean.

    Examples
    --------
    >>> import numpy as np
    >>> moment, total = CentralMoments(np.array([1.0, 0.0]))(Part(0, np.eye(1), 2 * np.eye(1)))
    >>> moment.tolist(), total.tolist()
    ([[0.0, 0.0], [0.0, 4.0]], [0.0, 2.0])
    """

    centre: Vector

    def __call__(self, part: Part) -> tuple[Any, ...]:
        """Both sums over one part; every block of its rows is copied once, or none about zero.

        A share of the rows for every thread is faster than products of many threads, where the
        moments are small enough for one each.
        """
        n, d = part.x.shape[0], len(self.centre)
        shares = blas_threads() if n * d >= MOMENT_BLOCK else 1
        shares = 1 if shares * d * d > MOST_MOMENTS else shares
        step = max(MOMENT_BLOCK // d, d // 4) if shares == 1 else MOMENT_BLOCK // (shares * d)
        work = partial(self._summed, part, max(step, 256))
        as_they_are = all(_fit_for_blas(view) for view in (part.x, part.other))
        if as_they_are and part.weights is None and not self.centre.any():
            work = partial(_plain_moment, part)
        with one_blas_thread() if shares > 1 else nullcontext():
            return reduce(self.merge, in_threads(work, equal(n, shares)))

    def _summed(self, part: Part, step: int, first: int, last: int) -> tuple[Any, ...]:
        """Both sums over some rows, `step` of them at a time."""
        cut, d = part.x.shape[1], len(self.centre)
        moment, product, total = np.zeros((d, d)), np.empty((d, d)), np.zeros(d)
        room = np.empty((min(step, last - first), d))
        for start in range(first, last, step):
            rows = slice(start, min(start + step, last))
            Z = room[: rows.stop - start]
            np.subtract(part.x[rows], self.centre[:cut], out=Z[:, :cut])
            np.subtract(part.other[rows], self.centre[cut:], out=Z[:, cut:])
            weights = np.ones(len(Z)) if part.weights is None else part.weights[rows]
            with np.errstate(over="ignore", invalid="ignore"):  # looked at once they are summed
                weighted = Z if part.weights is None else Z * weights[:, None]
                moment += np.matmul(Z.T, weighted, out=product)
                total += weights @ Z
        return moment, total


def _fit_for_blas(X: Any) -> bool:
    """Whether products with X need no copy of it.

    What a worker got from another one need not begin at a multiple of 8 bytes; NumPy copies such an
    operand for every product, and then takes twice as long, as it does not see that XᵀX is one.
    """
    return bool(X.dtype == np.float64 and X.flags.aligned)


def _plain_moment(part: Part, first: int, last: int) -> tuple[Any, ...]:
    """ZᵀZ and Σz over some rows z = (x, y), by products with the views themselves."""
    X, Y, ones = part.x[first:last], part.other[first:last], np.ones(last - first)
    with np.errstate(over="ignore", invalid="ignore"):  # looked at once they are summed
        between = X.T @ Y
        moment = np.block([[X.T @ X, between], [between.T, Y.T @ Y]])
        return moment, np.concatenate([ones @ X, ones @ Y])


@dataclass(frozen=True)
class PairTimes(Task):
    """The product of `kernels.pair_times` over sparse rows of two views, and its totals.

    Examples
    --------
    >>> import numpy as np
    >>> X = sparse.csr_array(np.eye(1))
    >>> task = PairTimes(np.ones((2, 4)), np.ones((2, 4)), np.ones(4), np.zeros((2, 4)))
    >>> [part[:, 0].tolist() for part in task(Part(0, X, X))]
    [[2.0, 2.0], [2.0, 2.0]]
    """

    U: Block
    own: Block
    other: Vector
    shift: Block

    def __call__(self, part: Part) -> tuple[Any, ...]:
        """Both sums over one part."""
        from genelin.kernels import outs_for
        from genelin.kernels.compiled import threads

        outs = outs_for(threads(), self.U.shape, self.U.dtype)
        totals = self.into(outs, part)
        return outs[:, : len(self.U)].sum(axis=0), totals

    def into(self, outs: Block, part: Part) -> Block:
        """The product as the sum of `outs`, one of each thread; the totals are returned."""
        from genelin.kernels import pair_times

        arguments = (self.U, self.own, self.other, self.shift, part.weights, outs)
        totals: Block = pair_times(part.x, part.other, *arguments)
        return totals
