"""`as_operator` and `as_rows`: the one place that looks at the kind of input."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from genelin.validation import check_count, check_numbers, shown
from genelin.operators.base import Operator
from genelin.data.out_of_core import ChunkedRows
from genelin.operators.matrices import FunctionOperator, MatrixOperator
from genelin.data.row_blocks import RowSource
from genelin.data.rows import Rows
from genelin.system.readonly import read_only
from genelin.system.threads import blas_threads, equal, in_threads, one_blas_thread

__all__ = ["as_numbers", "as_operator", "as_rows", "is_dask", "kept_elsewhere", "refuse_dtype"]

MANY = 2**20  # numbers that are worth more than one thread


def as_operator(A: Any, shape: tuple[int, int] | None = None, name: str = "A") -> Operator:
    """Turn what users have into an `Operator`.

    Parameters
    ----------
    A : ndarray, any scipy.sparse matrix or array, scipy `LinearOperator`, PyLops operator,
        anything with `shape` and `@`, or a function of (d, m) blocks.
    shape : of a function that does not carry a `shape` of its own.
    name : what error messages call it.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> as_operator(sparse.coo_array(np.eye(3)))
    <MatrixOperator of shape (3, 3)>
    >>> (as_operator(lambda V: 2 * V, shape=(3, 3)) @ np.ones(3)).tolist()
    [2.0, 2.0, 2.0]
    """
    if shape is not None:
        shape = _checked_shape(shape)
    if isinstance(A, Operator):
        return A
    if sparse.issparse(A) or _is_array(A):
        return MatrixOperator(as_numbers(A, name).astype(np.float64, copy=False))
    shape = shape or getattr(A, "shape", None)
    if shape is None or len(shape) != 2:
        kind = type(A).__name__
        raise TypeError(
            f"{name} is a {kind} without a shape (rows, columns): pass an array, a scipy.sparse "
            f"matrix, a LinearOperator, or as_operator(f, shape=(d, d)) for a function f"
        )
    refuse_dtype(getattr(A, "dtype", None), name)
    function, transposed = _functions(A, name)
    return FunctionOperator(function, (int(shape[0]), int(shape[1])), transposed, name)


def _checked_shape(shape: Any) -> tuple[int, int]:
    if not isinstance(shape, tuple | list) or len(shape) != 2:
        raise ValueError(f"shape={shown(shape)} must be two whole numbers, (rows, columns)")
    rows, columns = (check_count("shape", size) for size in shape)
    return rows, columns


def as_rows(X: Any, name: str = "X", sample_weight: Any = None) -> Rows:
    """Turn a data matrix (n rows, d columns) into `Rows`, refusing what cannot be worked with.

    Parameters
    ----------
    X : (n, d) array, scipy.sparse matrix or array, data frame of numbers, or rows that are kept
        elsewhere: a Dask array or data frame, or an object with a method `row_source()`.
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
    if not (sparse.issparse(X) or _is_array(X)):
        raise TypeError(
            f"{name} must be a two-dimensional array or a scipy.sparse matrix of numbers, "
            f"got {type(X).__name__}"
        )
    matrix = as_numbers(X, name)
    weights = None if sample_weight is None else _row_weights(sample_weight, matrix.shape[0])
    return Rows(matrix, weights)


def kept_elsewhere(X: Any) -> bool:
    """Whether the rows of X are not in memory as one matrix, or are `Rows` already.

    Examples
    --------
    >>> kept_elsewhere([[1.0]]), kept_elsewhere(as_rows([[1.0]]))
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


def _is_array(A: Any) -> bool:
    """Arrays, lists and data frames, but not operators that happen to convert."""
    return isinstance(A, np.ndarray | list | tuple) or (
        hasattr(A, "__array__") and not isinstance(A, LinearOperator) and not callable(A)
    )


def _functions(A: Any, name: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any] | None]:
    """How to multiply by A and by its transpose."""
    if isinstance(A, LinearOperator):
        return A.matmat, A.rmatmat
    if hasattr(A, "__matmul__"):
        transposed = getattr(A, "T", None)
        return A.__matmul__, None if transposed is None else lambda V: transposed @ V
    if callable(A):
        return A, None
    raise TypeError(f"{name} of type {type(A).__name__} has a shape but neither `@` nor a call")


def as_numbers(A: Any, name: str, whole: bool = True) -> Any:
    """A two-dimensional array of floats, ndarray or CSR; non-empty and finite, if it is `whole`.

    What belongs to the caller is seen through views that cannot be written to.
    """
    is_sparse = bool(sparse.issparse(A))
    if isinstance(A, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose masked entries would be used as they are: drop those "
            f"rows or impute them, then pass {name}.filled()"
        )
    if not is_sparse:
        try:
            A = np.asarray(A)
        except ValueError as error:
            raise ValueError(f"{name} is not a rectangular array of numbers: {error}") from error
    refuse_dtype(A.dtype, name)
    if A.ndim != 2:
        raise ValueError(f"{name} must have two dimensions, got shape {A.shape}")
    if whole and 0 in A.shape:
        raise ValueError(f"{name} is empty, with shape {A.shape}: there is nothing to solve")
    if is_sparse:
        A = sparse.csr_array(A)
        if not A.has_canonical_format:
            A = A.copy()  # the user's matrix stays as it is
            A.sum_duplicates()
    if A.dtype not in (np.float32, np.float64):
        A = A.astype(np.float64)
    if whole:
        _refuse_nonfinite(A, name)
    return read_only(A)


def refuse_dtype(dtype: Any, name: str) -> None:
    """Raise if numbers of this type cannot be worked with."""
    if dtype is None:
        return
    kind = np.dtype(dtype).kind
    if kind == "c":
        raise TypeError(
            f"{name} is complex ({dtype}): genelin solves real symmetric problems; pass "
            f"{name}.real if its imaginary part is zero"
        )
    if kind not in "biuf":
        raise TypeError(
            f"{name} has dtype {dtype}, not numbers: convert it, e.g. with {name}.astype(float), "
            "and encode categories first"
        )


def _squares(numbers: Any) -> float:
    """Their sum, without threads of BLAS: those wait in a busy loop where kernels are to work."""

    def share(first: int, last: int) -> float:
        part = numbers[first:last]
        with np.errstate(over="ignore", invalid="ignore"):  # of this thread
            return float(part @ part)

    parts = equal(len(numbers), blas_threads() if len(numbers) > MANY else 1)
    with one_blas_thread():
        return float(sum(in_threads(share, parts)))


def _refuse_nonfinite(A: Any, name: str) -> None:
    """Look for NaN and inf; the sum of squares is a quick test that rarely needs the slow one."""
    values = A.data if sparse.issparse(A) else A
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(_squares(values.ravel("K")) if values.flags.forc else values.sum()):
            return
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    if sparse.issparse(A):
        entry = int(np.flatnonzero(bad)[0])
        row = int(np.searchsorted(A.indptr, entry, side="right")) - 1
        column = int(A.indices[entry])
        value = values[entry]
    else:
        row, column = (int(place[0]) for place in np.nonzero(bad))
        value = values[row, column]
    count = int(bad.sum())
    shown = "NaN" if np.isnan(value) else value
    others = f" ({count} such entries in all)" if count > 1 else ""
    raise ValueError(
        f"{name} has {shown} at row {row}, column {column}{others}: drop those rows or impute "
        "them, e.g. with sklearn.impute.SimpleImputer"
    )
