"""Products of CSR rows with blocks of columns: X·V, and XᵀY·V in one sweep over the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from genelin.kernels.compiled import balanced, compiled, threads
from genelin.kernels.lanes import at
from genelin.kernels.rows import finish_row, fold, gather, mix, shift_row, spread
from genelin.room import LINE, empty, in_line, zeros
from genelin.threads import equal, in_threads

__all__ = [
    "cross_times",
    "dense_moment",
    "finish",
    "outs_for",
    "pair_times",
    "shifted_times",
    "times",
]

FULL = 4  # columns that are worked on together, at least
PIECE = 512  # rows whose curvatures are summed in the precision of their block
MOST_MOMENTS = 2**24  # numbers of all moments where every thread has its own: 128 MB


@compiled
def _times(data, indices, indptr, V, start, out, first, last):
    """Rows first … last − 1 of X·V; `start` is a row of zeros."""
    most = indptr[last] - 1
    for i in range(first, last):
        gather(data, indices, indptr[i], indptr[i + 1], most, V, start, 0, out, i)


@compiled
def _shifted_times(
    ad, ai, ap, bd, bi, bp, P, theta, sign, a_start, b_start, T, KP, sums, total, first, last
):
    """Rows first … last − 1 of KP = s(θB − A)P, and Σ p·kp of them.

    AP and BP begin with a row for all, or with the rows of a block. T is room for two rows, `sums`
    is a row of zeros.
    """
    a_most, b_most, known = ap[last] - 1, bp[last] - 1, len(b_start) > 1
    for i in range(first, last):
        gather(ad, ai, ap[i], ap[i + 1], a_most, P, a_start, 0, T, 0)
        gather(bd, bi, bp[i], bp[i + 1], b_most, P, b_start, i if known else 0, T, 1)
        shift_row(T, theta, sign, P, KP, sums, i)
        if (i + 1 - first) % PIECE == 0 or i + 1 == last:
            fold(sums, total)


@compiled
def _cross_times(xd, xi, xp, yd, yi, yp, V, start, weights, T, out, total, first, last):
    """Add Σ ωᵢxᵢ(yᵢᵀV + start) over rows first … last − 1 to `out`; brackets are summed in `total`.

    T is room for one of them.
    """
    x_most, y_most = xp[last] - 1, yp[last] - 1
    for i in range(first, last):
        weight = weights[i] if len(weights) else 1.0
        gather(yd, yi, yp[i], yp[i + 1], y_most, V, start, 0, T, 0)
        spread(xd, xi, xp[i], xp[i + 1], x_most, T, 0, weight, out, total)


@compiled
def _moment(xd, xi, xp, yd, yi, yp, weights, out, first, last):
    """Add Σ ωᵢxᵢyᵢᵀ over rows first … last − 1 to the dense block `out`."""
    for i in range(first, last):
        weight = weights[i] if len(weights) else 1.0
        for x in range(xp[i], xp[i + 1]):
            j, factor = at(xi, x), at(xd, x) * weight
            for y in range(yp[i], yp[i + 1]):
                out[j, at(yi, y)] += factor * at(yd, y)


@compiled
def _pair_times(
    xd, xi, xp, yd, yi, yp, Px, Py, own, other, start, weights, T, out_x, out_y, total, first, last
):
    """Add Σ ωᵢxᵢ(a·u + c·v) to `out_x` and Σ ωᵢyᵢ(b·v + c·u) to `out_y`; brackets to `total`.

    u = xᵢᵀPx and v = yᵢᵀPy, each with its row of `start`; (a, b) are the rows of `own`, c the
    row of `other`. T is room for two rows.
    """
    x_most, y_most = xp[last] - 1, yp[last] - 1
    for i in range(first, last):
        gather(xd, xi, xp[i], xp[i + 1], x_most, Px, start, 0, T, 0)
        gather(yd, yi, yp[i], yp[i + 1], y_most, Py, start, 1, T, 1)
        mix(own, other, T)
        weight = weights[i] if len(weights) else 1.0
        spread(xd, xi, xp[i], xp[i + 1], x_most, T, 0, weight, out_x, total)
        spread(yd, yi, yp[i], yp[i + 1], y_most, T, 1, weight, out_y, total)


def _parts(stored, k):
    """Threads worth starting for so many products."""
    return max(1, min(threads(), stored * k // 2**18))


def _arrays(X: Any) -> tuple[Any, Any, Any]:
    """Values, columns and where rows begin; kernels read them without looking at strides."""
    return tuple(map(np.ascontiguousarray, (X.data, X.indices, X.indptr)))  # type: ignore[return-value]


def _filled_up(V: Any) -> Any:
    """V by rows, with zeros for columns beyond a multiple of four: two take as long as eight.

    Rows that fill lines of memory begin at one: a row across lines takes as long as two rows.
    """
    (d, k), wide = V.shape, -(-V.shape[1] // FULL) * FULL
    fills_lines = wide * V.itemsize % LINE == 0
    if k == wide and V.flags.c_contiguous and (in_line(V) or not fills_lines):
        return V
    out = empty((d, wide), V.dtype)

    def fill(first: int, last: int) -> None:
        out[first:last, :k] = V[first:last]
        out[first:last, k:] = 0

    in_threads(fill, equal(d, _parts(V.size, 1)))
    return out


def outs_for(parts: int, shape: tuple[int, int], dtype: Any) -> Any:
    """Room for a product of this shape by each of some threads, (threads, rows, columns).

    There are a few rows more than asked for, so that all products begin at a line of memory.
    """
    rows, columns = shape
    return empty((parts, -(-rows // LINE) * LINE, columns), dtype)


def times(X: Any, V: Any) -> Any:
    """X @ V for CSR X, rows shared out among threads."""
    k, V = V.shape[1], _filled_up(V)
    out = empty((X.shape[0], V.shape[1]), V.dtype)
    ranges = balanced(X.indptr, _parts(X.nnz, V.shape[1]))
    arrays = (*_arrays(X), V, zeros((1, V.shape[1]), V.dtype), out)
    in_threads(_times, [(*arrays, *span) for span in ranges])
    return _summed([out], k)


def shifted_times(A: Any, B: Any, P: Any, theta: Any, sign: Any, BP: Any = None) -> tuple[Any, Any]:
    """KP = s(θB − A)P for CSR A and B, every column with its own s and θ, and the sums pᵀKp.

    B is None where BP is known: KP is written over it. Columns come by fours.
    """
    k, dtype, nothing = P.shape[1], P.dtype, zeros((1, P.shape[1]), P.dtype)
    if k % FULL:
        raise ValueError(f"P has {k} columns: fill it up to a multiple of {FULL}")
    stored = A.nnz + (0 if B is None else B.nnz)
    B = type(A)(A.shape, dtype=dtype) if B is None else B
    P, KP = np.ascontiguousarray(P), empty(P.shape, dtype) if BP is None else BP
    theta, sign = (row.astype(dtype)[None] for row in (theta, sign))
    begin = nothing if BP is None else BP
    arrays = (*_arrays(A), *_arrays(B), P, theta, sign, nothing, begin)

    def share(first: int, last: int) -> Any:
        T, sums, total = zeros((2, k), dtype), zeros((1, k), dtype), zeros((1, k), np.float64)
        _shifted_times(*arrays, T, KP, sums, total, first, last)
        return total[0]

    return KP, sum(in_threads(share, balanced(A.indptr, _parts(stored, k))))


def _summed(outs: list[Any], columns: int) -> Any:
    """The sum of products of all threads, without columns that filled them up."""
    one, *others = outs
    total = one if one.shape[1] == columns else empty((len(one), columns), one.dtype)

    def share(first: int, last: int) -> None:
        part, parts = total[first:last], [out[first:last, :columns] for out in outs]
        if len(parts) == 1:
            np.copyto(part, parts[0])
        for t, other in enumerate(parts[1:]):
            np.add(part if t else parts[0], other, out=part)

    if total is not one or others:
        in_threads(share, equal(len(one), _parts(one.size, 1)))
    return total


def cross_times(X: Any, Y: Any, V: Any, shift: Any = None, weights: Any = None) -> tuple[Any, Any]:
    """XᵀΩ(Y @ V − 1·shiftᵀ) in one sweep over the rows, and the column sums of Ω(…)."""
    k, V = V.shape[1], _filled_up(V)
    d, wide, dtype = X.shape[1], V.shape[1], V.dtype
    ranges = balanced(Y.indptr, _parts(X.nnz + Y.nnz, k))
    outs = [empty((d, wide), dtype) for _ in ranges]
    start = zeros((1, wide), dtype)
    if shift is not None:
        start[0, :k] = -shift
    weights = np.empty(0, dtype) if weights is None else weights.astype(dtype, copy=False)
    arrays = (*_arrays(X), *_arrays(Y), V, start, weights)

    def share(out: Any, first: int, last: int) -> Any:
        out.fill(0)
        T, total = zeros((1, wide), dtype), zeros((1, wide), dtype)
        _cross_times(*arrays, T, out, total, first, last)
        return total[0]

    totals = in_threads(share, [(out, *span) for out, span in zip(outs, ranges, strict=True)])
    return _summed(outs, k), sum(totals)[:k]


def dense_moment(X: Any, Y: Any, weights: Any = None) -> Any:
    """XᵀΩY of sparse rows as a dense array, in double precision."""
    size = max(X.shape[1] * Y.shape[1], 1)
    ranges = balanced(X.indptr, max(1, min(_parts(X.nnz + Y.nnz, 1), MOST_MOMENTS // size)))
    outs = [np.zeros((X.shape[1], Y.shape[1])) for _ in ranges]
    weights = np.empty(0) if weights is None else weights.astype(np.float64, copy=False)
    arrays = (*_arrays(X), *_arrays(Y), weights)
    in_threads(_moment, [(*arrays, outs[t], *span) for t, span in enumerate(ranges)])
    moment, *others = outs
    for other in others:
        moment += other
    return moment


def pair_times(
    X: Any, Y: Any, P: Any, own: Any, other: Any, shift: Any, weights: Any, outs: Any
) -> Any:
    """[XᵀX·Px·a + XᵀY·Py·c; YᵀY·Py·b + YᵀX·Px·c] in one sweep over the rows of both.

    P is [Px; Py]; a and b are the rows of `own` and c is `other`, one number a column. XPx and YPy
    are less the rows of `shift`, if it has any; rows count by their `weights` (None: alike). The
    product is the sum of `outs` from `outs_for`, which are overwritten; what was spread, summed
    over rows, is returned. Columns come by fours, and are fastest by eights.
    """
    cut, (d, k), dtype = X.shape[1], P.shape, P.dtype
    if k % FULL:
        raise ValueError(f"P has {k} columns: fill it up to a multiple of {FULL}")
    start = zeros((2, k), dtype)
    start[: len(shift)] -= shift
    weights = np.empty(0, dtype) if weights is None else weights.astype(dtype, copy=False)
    P = np.ascontiguousarray(P)
    arrays = (*_arrays(X), *_arrays(Y), P[:cut], P[cut:], own, other[None], start, weights)

    def share(out: Any, first: int, last: int) -> Any:
        out.fill(0)
        T, total = zeros((2, k), dtype), zeros((2, k), dtype)
        _pair_times(*arrays, T, out[:cut], out[cut:d], total, first, last)
        return total

    ranges = balanced(X.indptr, len(outs))
    return sum(in_threads(share, [(out, *span) for out, span in zip(outs, ranges, strict=True)]))


@compiled
def _finish(outs, apart, P, means, factors, total, ridge, sums, curvature, first, last):
    """Products of all threads lie below each other in `outs`, so many rows apart."""
    for i in range(first, last):
        finish_row(outs, i, apart, len(outs), P, means[i], factors[i], total, ridge, sums)
        if (i + 1 - first) % PIECE == 0 or i + 1 == last:
            fold(sums, curvature)


def finish(outs: Any, P: Any, means: Any, factors: Any, total: Any, ridge: Any, rows: slice) -> Any:
    """KP = factors·(Σ outs − means·totalᵀ) + ridge·P, in outs[0], and the sums pᵀKp over rows."""
    if not outs.flags.c_contiguous:
        raise ValueError("outs is not contiguous: take it from outs_for")
    k, spans = P.shape[1], equal(rows.stop - rows.start, len(outs))
    arrays = (outs.reshape(-1, k), outs.shape[1], P, means, factors, total[None], ridge[None])

    def share(first: int, last: int) -> Any:
        sums, curvature = zeros((1, k), P.dtype), zeros((1, k), np.float64)
        _finish(*arrays, sums, curvature, rows.start + first, rows.start + last)
        return curvature[0]

    return sum(in_threads(share, spans))
