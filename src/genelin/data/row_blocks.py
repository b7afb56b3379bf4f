"""Blocks of consecutive rows, and what is summed over them wherever the rows are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from genelin.linalg.block_products import times
from genelin.linalg.column_products import Block, Vector
from genelin.system.readonly import shared_csr

__all__ = [
    "Part",
    "RowBlock",
    "RowSource",
    "Task",
    "in_one_sweep",
    "row_block",
    "row_limits",
]

NARROW_SWEEP = 4  # columns below which two products are as fast as one sweep over the rows

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


def row_limits(matrix: Any, columns: int) -> Iterator[tuple[int, int]]:
    """Row ranges of blocks of a matrix that are fit for products with `columns` columns."""
    n, d = matrix.shape
    if sparse.issparse(matrix):
        step = max(4 * d, SPARSE_BLOCK // max(columns, 1))
    else:
        step = max(256, DENSE_BLOCK // (d + columns))
    for start in range(0, n, step):
        yield start, min(start + step, n)


def row_block(X: Any, weights: Vector | None, span: tuple[int, int], mean: Any) -> RowBlock:
    """Rows of a matrix, centred at `mean` (explicitly if dense, implicitly if sparse)."""
    start, stop = span
    weights = None if weights is None else weights[start:stop]
    if not sparse.issparse(X):
        part = X[start:stop]
        return RowBlock(part if mean is None else part - mean, None, weights)
    if start == 0 and stop == X.shape[0]:
        return RowBlock(X, mean, weights)
    first, last = X.indptr[start], X.indptr[stop]
    indptr = X.indptr[start : stop + 1] - first
    shape = (stop - start, X.shape[1])
    part = shared_csr(X.data[first:last], X.indices[first:last], indptr, shape)
    return RowBlock(part, mean, weights)


@dataclass(frozen=True)
class Part:
    """Consecutive rows of one data set or of two, in memory.

    Attributes
    ----------
    start : which row of the data the first one is.
    x : (rows, d₁) ndarray or CSR.
    y : the same rows of the other data set; None where it is the first one again.
    weights : of the rows; None for ones.

    Examples
    --------
    >>> import numpy as np
    >>> part = Part(10, np.array([[1.0], [3.0]]))
    >>> x, y = next(part.blocks(1, np.array([2.0])))
    >>> x.matrix.ravel().tolist(), y is x
    ([-1.0, 1.0], True)
    """

    start: int
    x: Any
    y: Any = None
    weights: Vector | None = None

    @property
    def other(self) -> Any:
        """The rows of the other data set, or those of the only one."""
        return self.x if self.y is None else self.y

    def blocks(
        self, columns: int, x_mean: Any = None, y_mean: Any = None, whole: bool = False
    ) -> Iterator[tuple[RowBlock, RowBlock]]:
        """Blocks short enough for what is kept of their rows, centred; all rows if `whole`."""
        shorter = min((self.x, self.other), key=lambda X: next(row_limits(X, columns), (0, 0))[1])
        limits = [(0, self.x.shape[0])] if whole else row_limits(shorter, columns)
        for span in limits:
            x = row_block(self.x, self.weights, span, x_mean)
            yield x, x if self.y is None else row_block(self.y, self.weights, span, y_mean)


class Task(ABC):
    """What is computed from every part; results are tuples, and are added up.

    A task is sent to where the rows are: it can be pickled, and it does not change.

    Examples
    --------
    >>> import numpy as np
    >>> class Count(Task):
    ...     def __call__(self, part):
    ...         return (part.x.shape[0],)
    >>> count = Count()
    >>> count.merge(count(Part(0, np.eye(2))), count(Part(2, np.eye(3))))
    (5,)
    """

    @abstractmethod
    def __call__(self, part: Part) -> tuple[Any, ...]:
        """The contribution of one part."""

    def merge(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        """The contribution of two parts from those of each; may overwrite `a`."""
        return tuple(_added(one, other) for one, other in zip(a, b, strict=True))


def _added(a: Any, b: Any) -> Any:
    if isinstance(a, np.ndarray) and a.ndim:
        a += b
        return a
    return a + b


class RowSource(Protocol):
    """Rows that are not in memory as one matrix: on disk, or with the workers of a cluster.

    Attributes
    ----------
    shape, dtype : of the data, float32 or float64.
    is_sparse : whether parts are CSR.
    stored : numbers that are stored.
    name : what messages call it.

    Examples
    --------
    Whatever has these attributes and methods can be fitted, as the value of a method
    `row_source()`; here rows that are made when they are asked for:

    >>> import numpy as np
    >>> from genelin import top_k_cca
    >>> class Made:
    ...     dtype, is_sparse, name = np.dtype(np.float64), False, "made rows"
    ...     shape, stored = (1000, 3), 3000
    ...     def __init__(self, seed):
    ...         self.seed = seed
    ...     def row_source(self):
    ...         return self
    ...     def taken(self, rows):
    ...         return np.cos(np.outer(rows, np.arange(1, 4)) + self.seed)
    ...     def summed(self, task, other=None, weights=None, columns=1):
    ...         total = None
    ...         for start in range(0, 1000, 250):
    ...             rows = np.arange(start, start + 250)
    ...             y = None if other is None else other.taken(rows)
    ...             found = task(Part(start, self.taken(rows), y))
    ...             total = found if total is None else task.merge(total, found)
    ...         return total
    >>> top_k_cca(Made(0.0), Made(0.4), k=2).correlations.round(3).tolist()
    [0.922, 0.921]
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    is_sparse: bool
    stored: int
    name: str

    def summed(
        self,
        task: Task,
        other: RowSource | None = None,
        weights: Vector | None = None,
        columns: int = 1,
    ) -> tuple[Any, ...]:
        """What `task` makes of all parts, merged: one read of all rows of this and `other`.

        `columns` numbers are kept of every row while a task works on it.
        """
        ...

    def taken(self, rows: NDArray[np.int64]) -> Any:
        """Some rows, by their indices in rising order, as one matrix in memory."""
        ...

    def beside(self, matrix: Any) -> RowSource:
        """A matrix in memory with as many rows, as a source that can be `other`."""
        ...


def in_one_sweep(X: Any, Y: Any, columns: int) -> bool:
    """Whether XᵀYV of so many columns is computed row by row, with nothing of their number kept."""
    return bool(sparse.issparse(X) and sparse.issparse(Y) and columns >= NARROW_SWEEP)
