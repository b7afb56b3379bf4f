"""Rows that are not in memory: everything about them is a sum over their parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from genelin.data.checked_arrays import refuse_extreme
from genelin.data.row_blocks import Part, RowSource, Task, row_limits
from genelin.data.rows import Rows
from genelin.linalg.column_products import Block, Vector
from genelin.system.cached import cached_property
from genelin.system.readonly import shared_csr

__all__ = ["ChunkedRows", "paired"]

SAMPLE = 2000  # rows from which products of sparse rows are counted


@dataclass(frozen=True)
class _Adjustment:
    """What happens to sparse rows on the way: columns chosen, entries shifted, precision."""

    columns: NDArray[np.intp] | None = None
    shift: Vector | None = None
    dtype: np.dtype[Any] | None = None

    def __call__(self, X: Any) -> Any:
        X = X if self.columns is None else X[:, self.columns]
        data = X.data if self.shift is None else X.data - self.shift[X.indices]
        data = data if self.dtype is None else data.astype(self.dtype, copy=False)
        return shared_csr(data, X.indices, X.indptr, X.shape)


Adjustments = tuple[_Adjustment, ...]


class ChunkedRows(Rows):
    """Rows of a `RowSource`, with the moments of `Rows`; nothing of their number is kept.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin.operators import Rows
    >>> class Halves:
    ...     shape, dtype, is_sparse, stored, name = (4, 1), np.dtype(float), False, 4, "X"
    ...     X = np.array([[1.0], [2.0], [3.0], [6.0]])
    ...     def summed(self, task, other=None, weights=None, columns=1):
    ...         return task.merge(task(Part(0, self.X[:2])), task(Part(2, self.X[2:])))
    ...     def taken(self, rows):
    ...         return self.X[rows]
    >>> rows = ChunkedRows(Halves())
    >>> rows.mean.tolist(), rows.variance.tolist(), rows.largest
    ([3.0], [3.5], 6.0)
    """

    in_memory = False

    def __init__(
        self, source: RowSource, weights: Vector | None = None, adjusted: Adjustments = ()
    ) -> None:
        self.source, self.weights, self._adjusted = source, weights, adjusted
        self.shape = source.shape
        self.n, self.d = self.shape
        self.is_sparse, self.stored = source.is_sparse, source.stored
        self.entries_with: WeakKeyDictionary[Rows, float] = WeakKeyDictionary()
        self._pairs_with: WeakKeyDictionary[Rows, float] = WeakKeyDictionary()
        self.central_moment: Block | None = None

    @property
    def matrix(self) -> Any:
        """Not to be had: whoever asks for it needs rows in memory."""
        raise TypeError(
            f"{self.source.name} is not in memory, and this needs its rows in random order: load "
            "it, or choose a method that reads rows in their order (the default, or CCALin with "
            "AGD, GD or CG)"
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the rows."""
        dtypes = [adjust.dtype for adjust in self._adjusted if adjust.dtype is not None]
        return dtypes[-1] if dtypes else self.source.dtype

    def _with(self, adjust: _Adjustment) -> ChunkedRows:
        """The same rows, adjusted once where the source keeps them, or else on the way."""
        if hasattr(self.source, "mapped"):
            return ChunkedRows(self.source.mapped(adjust), self.weights, self._adjusted)
        return ChunkedRows(self.source, self.weights, (*self._adjusted, adjust))

    def summed(self, task: Task, other: Rows | None = None, columns: int = 1) -> tuple[Any, ...]:
        """What `task` makes of all rows of this data set, and of another one's beside them."""
        beside, also = None, Adjustments()
        if isinstance(other, ChunkedRows) and other is not self:
            beside, also = other.source, other._adjusted
        elif other is not None and other is not self:
            beside = self.source.beside(other.matrix)
        if self._adjusted or also:
            task = _AdjustedTask(task, self._adjusted, also)
        return self.source.summed(task, beside, self.weights, columns)

    @cached_property
    def _survey(self) -> _Surveyed:
        found = _Surveyed(*self.summed(_Survey(self.near_mean)))
        if not np.all(np.isfinite(found.deviation)):
            self.refuse_nonfinite()
        refuse_extreme(float(found.largest), self.source.name)
        return found

    def refuse_nonfinite(self) -> None:
        """Raise if there is NaN or inf, with its place; one more read."""
        (places,) = self.summed(_Nonfinite())
        if places:
            row, column, value = min(places)
            shown = "NaN" if np.isnan(value) else value
            raise ValueError(
                f"{self.source.name} has {shown} at row {row}, column {column}: drop that row or "
                "impute it"
            )

    def refuse_overflowing(self) -> None:
        """Raise if there are numbers whose squares leave the range of floats; one more read."""
        refuse_extreme(float(self._survey.largest), self.source.name)

    @cached_property
    def largest(self) -> float:
        """Largest magnitude of an entry, or of a column's root mean square where that is known."""
        if self.central_moment is not None:
            return float(np.sqrt(self.mean_square.max()))
        return float(self._survey.largest)

    @cached_property
    def mean(self) -> Vector:
        """Column means."""
        return np.asarray(self.near_mean + self._deviation)

    @property
    def _deviation(self) -> Vector:
        """How far the mean is from `near_mean`."""
        return np.asarray((self._survey.deviation - self._missing * self.near_mean) / self.n)

    @property
    def _missing(self) -> Vector:
        """Weight of the entries that are not stored."""
        return np.where(self.frequencies == self.n, 0.0, self.n - self._survey.seen)

    @cached_property
    def variance(self) -> Vector:
        """Column variances (divided by n), from squared distances to a point near the mean."""
        if self.central_moment is not None:
            return self.central_moment.diagonal().copy()
        squares = self._survey.squares + self._missing * self.near_mean**2
        return np.maximum(squares / self.n - self._deviation**2, 0.0)

    @cached_property
    def mean_square(self) -> Vector:
        """Column means of squares."""
        return np.asarray(self.variance + self.mean**2)

    @cached_property
    def frequencies(self) -> Vector:
        """Stored entries of every column."""
        return self._survey.counts

    @cached_property
    def single(self) -> bool:
        """Whether rows have at most one nonzero each, so that XᵀX is diagonal."""
        if not self.is_sparse or self.stored > self.n:
            return False
        return int(self._survey.longest) <= 1

    @cached_property
    def _shifted(self) -> Rows | None:
        """The same data with full columns that are far from zero shifted, if there are any."""
        if not self.is_sparse:
            return None
        far = (self.mean**2 > 100 * self.variance) & (self.frequencies == self.n) & ~self.constant
        if not far.any():
            return None
        return self._with(_Adjustment(shift=np.where(far, self.mean, 0.0)))

    @property
    def in_float32(self) -> Rows:
        """The same data in float32, part by part."""
        return self if self.dtype == np.float32 else self._single

    @cached_property
    def _single(self) -> Rows:
        twin = self._with(_Adjustment(dtype=np.dtype(np.float32)))
        twin.__dict__.update(
            {
                name: self.__dict__[name]
                for name in ("_survey", "near_mean", "_sampled")
                if name in vars(self)
            }
        )
        return twin

    def weighted(self, weights: Vector) -> Rows:
        """The same rows with weights."""
        return ChunkedRows(self.source, weights, self._adjusted)

    def taken(self, rows: NDArray[np.integer[Any]]) -> Rows:
        """Some of the rows, in the order given, in memory."""
        order, back = np.unique(np.asarray(rows, dtype=np.int64), return_inverse=True)
        matrix = _adjusted(self.source.taken(order), self._adjusted)
        if not np.array_equal(back, np.arange(len(order))):
            matrix = matrix[back]
        return Rows(matrix, None if self.weights is None else self.weights[rows])

    def columns(self, chosen: NDArray[np.intp]) -> Rows:
        """Some of the columns of sparse rows, in the order given."""
        part = self._with(_Adjustment(columns=chosen))
        part.d, part.shape = len(chosen), (self.n, len(chosen))
        part.stored = int(self.frequencies[chosen].sum())
        return part

    def selected(self, chosen: NDArray[np.bool_]) -> Rows:
        """The rows that are chosen: those that are not stay where they are, with weight zero."""
        weights = chosen if self.weights is None else chosen * self.weights
        weights = weights / max(float(np.mean(weights)), 1e-300)
        return ChunkedRows(self.source, weights, self._adjusted)

    def pairs_with(self, other: Rows) -> float:
        """Multiplications to form XᵀY, from some of the rows, which are fetched once."""
        if other not in self._pairs_with:
            chosen = np.arange(0, self.n, max(self.n // SAMPLE, 1))
            x = self.taken(chosen)
            y = x if other is self else other.taken(chosen)
            self._pairs_with[other] = x.pairs_with(y) * self.n / len(chosen)
        return self._pairs_with[other]


def paired(*views: Rows) -> tuple[Rows, ...]:
    """All data sets, of one kind: a matrix in memory goes to where the rows of another one are.

    Examples
    --------
    >>> from genelin.operators import as_rows
    >>> x, y = as_rows([[1.0], [2.0]]), as_rows([[3.0], [5.0]])
    >>> paired(x, y) == (x, y)
    True
    """
    away = [rows for rows in views if isinstance(rows, ChunkedRows)]
    if not away or len({rows.n for rows in views}) > 1:
        return views
    source = away[0].source
    return tuple(
        ChunkedRows(source.beside(rows.matrix), rows.weights) if rows.in_memory else rows
        for rows in views
    )


@dataclass(frozen=True)
class _Surveyed:
    """Sums over the stored entries of every column, and what is largest."""

    deviation: Vector  # Σω(x − c)
    squares: Vector  # Σω(x − c)²
    seen: Vector  # Σω
    counts: Vector  # number of entries
    largest: float
    longest: int  # entries of a row


@dataclass(frozen=True)
class _Survey(Task):
    """What `_Surveyed` says, about the point c."""

    centre: Vector

    def __call__(self, part: Part) -> tuple[Any, ...]:
        return self._sparse(part) if sparse.issparse(part.x) else self._dense(part)

    def _dense(self, part: Part) -> tuple[Any, ...]:
        n, d = part.x.shape
        weights = np.ones(n) if part.weights is None else part.weights
        deviation, squares, largest = np.zeros(d), np.zeros(d), 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            for start, stop in row_limits(part.x, 1):
                X, omega = part.x[start:stop], weights[start:stop]
                largest = max(largest, float(X.max(initial=0.0)), -float(X.min(initial=0.0)))
                Z = X - self.centre
                deviation += omega @ Z
                squares += omega @ np.square(Z, out=Z)
        counts = np.full(d, float(n))
        return deviation, squares, np.full(d, weights.sum()), counts, largest, d

    def _sparse(self, part: Part) -> tuple[Any, ...]:
        X, d = part.x, part.x.shape[1]
        lengths = np.diff(X.indptr)
        omega = None if part.weights is None else np.repeat(part.weights, lengths)
        counts = np.bincount(X.indices, minlength=d).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            Z = X.data - self.centre[X.indices]
            weighted = Z if omega is None else omega * Z
            return (
                np.bincount(X.indices, weights=weighted, minlength=d),
                np.bincount(X.indices, weights=weighted * Z, minlength=d),
                counts if omega is None else np.bincount(X.indices, omega, d),
                counts.copy(),
                float(np.abs(X.data).max(initial=0.0)),
                int(lengths.max(initial=0)),
            )

    def merge(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        largest, longest = max(a[4], b[4]), max(a[5], b[5])
        return (*super().merge(a[:4], b[:4]), largest, longest)


class _Nonfinite(Task):
    """The first place of every part where there is NaN or inf."""

    def __call__(self, part: Part) -> tuple[Any, ...]:
        X = part.x
        bad = np.flatnonzero(~np.isfinite(X.data if sparse.issparse(X) else X))
        if not len(bad):
            return ([],)
        if sparse.issparse(X):
            row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
            column, value = int(X.indices[bad[0]]), float(X.data[bad[0]])
        else:
            row, column = (int(place) for place in np.unravel_index(bad[0], X.shape))
            value = float(X[row, column])
        return ([(part.start + row, column, value)],)


@dataclass(frozen=True)
class _AdjustedTask(Task):
    """A task on parts that are adjusted first."""

    task: Task
    x: Adjustments
    y: Adjustments

    def __call__(self, part: Part) -> tuple[Any, ...]:
        y = None if part.y is None else _adjusted(part.y, self.y)
        return self.task(replace(part, x=_adjusted(part.x, self.x), y=y))

    def merge(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        return self.task.merge(a, b)


def _adjusted(X: Any, adjustments: Adjustments) -> Any:
    for adjust in adjustments:
        X = adjust(X)
    return X
