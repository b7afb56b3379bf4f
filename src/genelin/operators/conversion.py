"""`as_operator` and `as_rows`: the one place that looks at the kind of input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from genelin.data.as_rows import is_array
from genelin.data.checked_arrays import as_numbers, refuse_dtype
from genelin.operators.base import Operator
from genelin.operators.matrices import FunctionOperator, MatrixOperator
from genelin.validation import check_count, shown

__all__ = ["as_operator"]


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
    if sparse.issparse(A) or is_array(A):
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
