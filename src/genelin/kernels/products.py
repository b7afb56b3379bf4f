"""Products of CSR rows with blocks of columns: X·V, and XᵀY·V in one sweep over the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from genelin.kernels.compiled import balanced, compiled, equal, in_threads, threads
from genelin.kernels.lanes import add_product, fetch, load, store, zeros

__all__ = ["cross_times", "times"]

AHEAD = 16  # entries between asking for a row of a block and using it


@compiled
def _times8(data, indices, low, high, V, q, out, i):
    total = zeros(V, 8)
    for entry in range(low, high):
        total = add_product(total, data[entry], load(V, indices[entry], q, 8))
    store(out, i, q, total)


@compiled
def _times4(data, indices, low, high, V, q, out, i):
    total = zeros(V, 4)
    for entry in range(low, high):
        total = add_product(total, data[entry], load(V, indices[entry], q, 4))
    store(out, i, q, total)


@compiled
def _times1(data, indices, low, high, V, q, out, i):
    total = zeros(V, 1)
    for entry in range(low, high):
        total = add_product(total, data[entry], load(V, indices[entry], q, 1))
    store(out, i, q, total)


@compiled
def _times(data, indices, indptr, V, out, first, last):
    """Rows first … last − 1 of X·V."""
    k = V.shape[1]
    for i in range(first, last):
        low, high = indptr[i], indptr[i + 1]
        for q in range(0, k - 7, 8):
            _times8(data, indices, low, high, V, q, out, i)
        for q in range(k - k % 8, k - 3, 4):
            _times4(data, indices, low, high, V, q, out, i)
        for q in range(k - k % 4, k):
            _times1(data, indices, low, high, V, q, out, i)


@compiled
def _spread8(data, indices, low, high, T, q, out):
    part = load(T, 0, q, 8)
    for entry in range(low, high):
        j = indices[entry]
        store(out, j, q, add_product(load(out, j, q, 8), data[entry], part))


@compiled
def _spread4(data, indices, low, high, T, q, out):
    part = load(T, 0, q, 4)
    for entry in range(low, high):
        j = indices[entry]
        store(out, j, q, add_product(load(out, j, q, 4), data[entry], part))


@compiled
def _spread1(data, indices, low, high, T, q, out):
    part = load(T, 0, q, 1)
    for entry in range(low, high):
        j = indices[entry]
        store(out, j, q, add_product(load(out, j, q, 1), data[entry], part))


@compiled
def _cross_times(xd, xi, xp, yd, yi, yp, V, shift, weights, out, total, first, last):
    """Add Σ ωᵢxᵢ(yᵢᵀV − shift) over rows first … last − 1 to `out`, and the sum of brackets."""
    k = V.shape[1]
    T = np.empty((1, k), V.dtype)
    x_last, y_last = max(xp[last] - 1, 0), max(yp[last] - 1, 0)
    for i in range(first, last):
        for entry in range(yp[i], yp[i + 1]):
            ahead = yi[min(entry + AHEAD, y_last)]
            for q in range(0, k, 8):
                fetch(V, ahead, q)
        for entry in range(xp[i], xp[i + 1]):
            ahead = xi[min(entry + AHEAD, x_last)]
            for q in range(0, k, 8):
                fetch(out, ahead, q)
        low, high = yp[i], yp[i + 1]
        for q in range(0, k - 7, 8):
            _times8(yd, yi, low, high, V, q, T, 0)
        for q in range(k - k % 8, k - 3, 4):
            _times4(yd, yi, low, high, V, q, T, 0)
        for q in range(k - k % 4, k):
            _times1(yd, yi, low, high, V, q, T, 0)
        if len(shift):
            for q in range(k):
                T[0, q] -= shift[q]
        if len(weights):
            for q in range(k):
                T[0, q] *= weights[i]
        if len(shift):
            for q in range(k):
                total[q] += T[0, q]
        low, high = xp[i], xp[i + 1]
        for q in range(0, k - 7, 8):
            _spread8(xd, xi, low, high, T, q, out)
        for q in range(k - k % 8, k - 3, 4):
            _spread4(xd, xi, low, high, T, q, out)
        for q in range(k - k % 4, k):
            _spread1(xd, xi, low, high, T, q, out)


@compiled
def _add_rows(outs, first, last):
    """Add the blocks outs[1:] to outs[0], in rows first … last − 1."""
    for t in range(1, outs.shape[0]):
        for i in range(first, last):
            for q in range(outs.shape[2]):
                outs[0, i, q] += outs[t, i, q]


def _parts(stored, k):
    """Threads worth starting for so many products."""
    return max(1, min(threads(), stored * k // 2**18))


def times(X: Any, V: Any) -> Any:
    """X @ V for CSR X, rows shared out among threads."""
    V = np.ascontiguousarray(V)
    out = np.empty((X.shape[0], V.shape[1]), V.dtype)
    ranges = balanced(X.indptr, _parts(X.nnz, V.shape[1]))
    arrays = (X.data, X.indices, X.indptr, V, out)
    in_threads(_times, [(*arrays, *span) for span in ranges])
    return out


def cross_times(X: Any, Y: Any, V: Any, shift: Any = None, weights: Any = None) -> tuple[Any, Any]:
    """XᵀΩ(Y @ V − 1·shiftᵀ) in one sweep over the rows, and the column sums of Ω(…).

    The sums are zero without a shift, where they are not needed.
    """
    V = np.ascontiguousarray(V)
    d, k = X.shape[1], V.shape[1]
    ranges = balanced(Y.indptr, _parts(X.nnz + Y.nnz, k))
    outs, totals = np.zeros((len(ranges), d, k), V.dtype), np.zeros((len(ranges), k), V.dtype)
    shift = np.empty(0, V.dtype) if shift is None else shift.astype(V.dtype)
    weights = np.empty(0, V.dtype) if weights is None else weights.astype(V.dtype, copy=False)
    arrays = (X.data, X.indices, X.indptr, Y.data, Y.indices, Y.indptr, V, shift, weights)
    spans = [(*arrays, outs[t], totals[t], *span) for t, span in enumerate(ranges)]
    in_threads(_cross_times, spans)
    if len(ranges) > 1:
        in_threads(_add_rows, [(outs, *span) for span in equal(d, len(ranges))])
    return outs[0], totals.sum(axis=0)
