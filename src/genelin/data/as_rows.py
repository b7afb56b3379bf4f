"""`as_rows`: the one place that looks at what kind of rows a user passes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from genelin.data.checked_arrays import as_numbers
from genelin.data.out_of_core import ChunkedRows
from genelin.data.row_blocks import RowSource
from genelin.data.rows import Rows
from genelin.validation import check_numbers

__all__ = ["as_rows", "is_dask", "is_row_container"]


def as_rows(X: Any, name: str = "X", sample_weight: Any = None) -> Rows:
    """Turn a data matrix (n rows, d columns) into `Rows`, refusing what cannot be worked with.

    Parameters
    ----------
    X : (n, d) array, scipy.sparse matrix or array, data frame of numbers, or rows that are kept
        out of core: a Dask array or data frame, or an object with a method `row_source()`.
    name : what error messages call it.
    sample_weight : n weights, none negative; only their ratios matter.

    Examples
    --------
    >>> as_rows([[1, 2], [3, float("nan")]])
    Traceback (most recent call last):
        ...
    ValueError: X has NaN at row 1, column 1: ...
    """
    if isinstance(X, Rows):
        return X if sample_weight is None else X.weighted(_row_weights(sample_weight, X.n))
    source = _source(X, name)
    if source is not None:
        held = getattr(source, "held", None)  # small enough to be in memory after all
        if held is not None:
            return as_rows(held, name, sample_weight)
        rows = ChunkedRows(source)
        return rows if sample_weight is None else rows.weighted(_row_weights(sample_weight, rows.n))
    if not (sparse.issparse(X) or is_array(X)):
        raise TypeError(
            f"{name} must be a two-dimensional array or a scipy.sparse matrix of numbers, "
            f"got {type(X).__name__}"
        )
    matrix = as_numbers(X, name)
    weights = None if sample_weight is None else _row_weights(sample_weight, matrix.shape[0])
    return Rows(matrix, weights)


def is_row_container(X: Any) -> bool:
    """Whether the rows of X are not in memory as one matrix, or are `Rows` already.

    Examples
    --------
    >>> is_row_container([[1.0]]), is_row_container(as_rows([[1.0]]))
    (False, True)
    """
    return isinstance(X, Rows) or is_dask(X) or hasattr(X, "row_source")


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection; Dask is not imported to tell.

    Examples
    --------
    >>> is_dask([[1.0]])
    False
    """
    return "dask" in sys.modules and hasattr(X, "__dask_graph__")


def _source(X: Any, name: str) -> RowSource | None:
    """Where the rows of X are kept, if that is not a matrix in memory."""
    if is_dask(X):
        from genelin.data.dask_rows import dask_rows

        return dask_rows(X, name)
    source: RowSource | None = X.row_source() if hasattr(X, "row_source") else None
    return source


def _row_weights(sample_weight: Any, n: int) -> Any:
    """Weights of mean 1."""
    weights = check_numbers("sample_weight", sample_weight)
    if weights.shape != (n,) or not np.all(np.isfinite(weights) & (weights >= 0)):
        raise ValueError(
            f"sample_weight must be {n} finite numbers, one per row and none negative, got shape "
            f"{weights.shape}"
        )
    largest = weights.max()
    if largest == 0:
        raise ValueError("sample_weight is zero in every row: nothing is left to fit")
    weights = weights / largest  # sums of very large or small weights stay finite
    return weights / weights.mean()


def is_array(A: Any) -> bool:
    """Arrays, lists and data frames, but not operators that happen to convert."""
    return isinstance(A, np.ndarray | list | tuple) or (
        hasattr(A, "__array__") and not isinstance(A, LinearOperator) and not callable(A)
    )
