"""Incomplete Cholesky factors in CSR, and solves with any factors for blocks of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from genelin.kernels.codegen.column_layout import FULL, filled_up, first_columns
from genelin.kernels.codegen.row_kernels import backward, forward, upward
from genelin.kernels.compiled import compiled, threads
from genelin.system.buffer_pool import empty
from genelin.system.threads import equal, in_threads

__all__ = ["cholesky_solve", "incomplete_cholesky", "lower_solve", "upper_solve"]

LEAST = 1e-8  # pivot, of a matrix with unit diagonal, below which the factor breaks down
NARROW = 8  # columns that are worth a thread


@compiled
def _factor(data, indices, indptr, alpha, least):
    """Rows of L over those of a lower triangle, diagonals last; False where a pivot breaks down."""
    d = len(indptr) - 1
    row = np.zeros(d)  # L[i, :], spread out
    for i in range(d):
        first, last = indptr[i], indptr[i + 1] - 1
        pivot = (1.0 + alpha) * data[last]
        for entry in range(first, last):
            j = indices[entry]
            total = data[entry]
            end = indptr[j + 1] - 1
            for other in range(indptr[j], end):
                total -= row[indices[other]] * data[other]
            total /= data[end]
            row[j] = data[entry] = total
            pivot -= total * total
        for entry in range(first, last):
            row[indices[entry]] = 0.0
        if not pivot > least:
            return False
        data[last] = np.sqrt(pivot)
    return True


def incomplete_cholesky(L: Any, alpha: float) -> bool:
    """Overwrite L, the lower triangle of a matrix with unit diagonal, by its IC(0) factor.

    Rows are sorted, with their diagonals; those are multiplied by 1 + α first. False where a pivot
    breaks down: L is of no use then.
    """
    return bool(_factor(L.data, L.indices, L.indptr, alpha, LEAST))


@compiled
def _forward(L, order, scale, R, Z):
    forward(L, order, scale, R, Z)


@compiled
def _backward(L, order, Z, out):
    backward(L, order, Z, out)


@compiled
def _upward(columns, order, scale, R, Z, out):
    upward(columns, order, scale, R, Z, out)


def cholesky_solve(L: Any, R: Any, order: Any) -> Any:
    """Pᵀ(LLᵀ)⁻¹PR for rows (data, indices, indptr) of a lower triangle L with its diagonals last.

    P takes rows by their `order`. Columns of R share the threads.
    """

    def sweep(R: Any, out: Any) -> None:
        Z = empty(out.shape, out.dtype)
        _forward(L, order, None, R, Z)
        _backward(L, order, Z, out)

    return _shared(sweep, R)


def lower_solve(L: Any, R: Any, order: Any, scale: Any) -> Any:
    """L⁻¹PDR for the same kind of L; `scale` has what D multiplies the rows with that P takes."""
    return _shared(lambda R, out: _forward(L, order, scale, R, out), R)


def upper_solve(columns: Any, R: Any, order: Any, scale: Any) -> Any:
    """DPᵀL⁻ᵀR by the columns (data, indices, indptr) of the same L, which begin with diagonals."""

    def sweep(R: Any, out: Any) -> None:
        _upward(columns, order, scale, R, empty(out.shape, out.dtype), out)

    return _shared(sweep, R)


def _shared(sweep: Callable[[Any, Any], None], R: Any) -> Any:
    """What sweep(R, out) makes of some columns at a time."""
    k, R = R.shape[1], filled_up(R)
    groups, out = R.shape[1] // FULL, empty(R.shape, R.dtype)
    most = k // NARROW
    parts = equal(groups, min(threads(), most) if most > 1 else 1)
    spans = [slice(FULL * first, FULL * last) for first, last in parts]
    in_threads(sweep, [(R[:, span], out[:, span]) for span in spans])
    return first_columns(out, k)
