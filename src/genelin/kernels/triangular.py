"""Incomplete Cholesky factors in CSR, and solves with any factors for blocks of columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from genelin.kernels.blocks import FULL
from genelin.kernels.compiled import compiled, threads
from genelin.kernels.rows import backward, forward
from genelin.room import empty
from genelin.threads import equal, in_threads

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
def _forward(L, Z):
    forward(L, Z)


@compiled
def _backward(L, Z):
    backward(L, Z)


def cholesky_solve(data: Any, indices: Any, indptr: Any, R: Any) -> Any:
    """(LLᵀ)⁻¹R for a lower triangle L in CSR with its diagonals last; columns share the threads."""
    return _solved((data, indices, indptr), R, _forward, _backward)


def lower_solve(L: Any, R: Any) -> Any:
    """L⁻¹R for the same kind of L."""
    return _solved((L.data, L.indices, L.indptr), R, _forward)


def upper_solve(L: Any, R: Any) -> Any:
    """L⁻ᵀR for the same kind of L."""
    return _solved((L.data, L.indices, L.indptr), R, _backward)


def _solved(L: Any, R: Any, *sweeps: Any) -> Any:
    """R after some sweeps over the rows of L."""
    d, k = R.shape
    Z = empty(R.shape, R.dtype)

    def share(first: int, last: int) -> None:
        columns = last - first
        alone = columns == k and k % FULL == 0
        part = Z if alone else empty((d, -(-columns // FULL) * FULL), R.dtype)
        part[:, :columns], part[:, columns:] = R[:, first:last], 0
        for sweep in sweeps:
            sweep(L, part)
        if not alone:
            Z[:, first:last] = part[:, :columns]

    in_threads(share, equal(k, max(min(threads(), k // NARROW), 1)))
    return Z
