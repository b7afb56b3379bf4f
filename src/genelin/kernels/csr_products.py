"""Products of CSR rows with blocks of columns: X·V, and XᵀY·V in one sweep over the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from genelin.kernels.cache_model import anywhere, arrays, cache_misses, from_disk, rows_of
from genelin.kernels.codegen.column_layout import (
    FULL,
    PIECE,
    filled_up,
    first_columns,
    outs_for,
    room_for,
    worthwhile,
)
from genelin.kernels.codegen.row_kernels import cross, finished, pair, product, shifted
from genelin.kernels.codegen.simd import at
from genelin.kernels.compiled import balanced, compiled, threads
from genelin.kernels.csc_products import by_columns, cross_by_columns
from genelin.system.buffer_pool import LINE, empty, zeros
from genelin.system.threads import equal, in_threads

__all__ = [
    "cross_times",
    "dense_moment",
    "finish",
    "outs_for",
    "pair_times",
    "shifted_times",
    "times",
]

MOST_MOMENTS = 2**26  # numbers of all moments where every thread has its own: 512 MB
READ = 2**16  # rows that are in the cache when the next columns have their turn, and read once so
WORTH_MOVING = 8  # entries to a row of a block that is laid out anew for them
MOST_MOVED = 2**28  # bytes of blocks that are laid out anew
SHARED = 2**25  # bytes in the cache of all cores
USED = 0.6  # of which blocks may take so much


@compiled
def _times(X, V, out, first, last):
    for low in range(first, last, PIECE):
        product(X, V, out, low, min(low + PIECE, last))


@compiled
def _shifted_times(A, B, P, theta, sign, KP, curvature, first, last):
    for low in range(first, last, PIECE):
        shifted(A, B, P, theta, sign, KP, curvature, low, min(low + PIECE, last))


@compiled
def _cross_times(X, Y, V, start, weights, out, total, first, last):
    for low in range(first, last, READ):
        cross(X, Y, V, start, weights, out, total, low, min(low + READ, last))


@compiled
def _pair_times(X, Y, Px, Py, own, other, start, weights, out_x, out_y, total, first, last):
    for low in range(first, last, READ):
        high = min(low + READ, last)
        pair(X, Y, Px, Py, own, other, start, weights, out_x, out_y, total, low, high)


@compiled
def _finish(outs, apart, P, means, factors, total, ridge, curvature, first, last):
    for low in range(first, last, PIECE):
        high = min(low + PIECE, last)
        finished(outs, apart, P, means, factors, total, ridge, curvature, low, high)


@compiled
def _moment(X, Y, weights, out, first, last):
    """Add Σ ωᵢxᵢyᵢᵀ over rows first … last − 1 to the dense block `out`."""
    (xd, xi, xp), (yd, yi, yp) = X, Y
    for i in range(first, last):
        weight = weights[i] if len(weights) else 1.0
        for x in range(xp[i], xp[i + 1]):
            j, factor = at(xi, x), at(xd, x) * weight
            for y in range(yp[i], yp[i + 1]):
                out[j, at(yi, y)] += factor * at(yd, y)


def times(X: Any, V: Any) -> Any:
    """X @ V for CSR X, rows shared out among threads."""
    k, V = V.shape[1], filled_up(V)
    (rows,), out = rows_of(cache_misses(X), X), empty((X.shape[0], V.shape[1]), V.dtype)
    ranges = balanced(X.indptr, worthwhile(X.nnz, V.shape[1]))
    in_threads(_times, [(rows, V, out, *span) for span in ranges])
    return first_columns(out, k)


def shifted_times(A: Any, B: Any, P: Any, theta: Any, sign: Any, BP: Any = None) -> tuple[Any, Any]:
    """KP = s(θB − A)P for CSR A and B, every column with its own s and θ, and the sums pᵀKp.

    B is None where BP is known: KP is written over it. Columns come by fours.
    """
    k, dtype = P.shape[1], P.dtype
    if k % FULL:
        raise ValueError(f"P has {k} columns: fill it up to a multiple of {FULL}")
    P, KP = np.ascontiguousarray(P), empty(P.shape, dtype) if BP is None else BP
    theta, sign = (row.astype(dtype)[None] for row in (theta, sign))
    matrices = [A] if B is None else [A, B]
    rows = (*rows_of(cache_misses(*matrices), *matrices), None)[:2]

    def share(first: int, last: int) -> Any:
        curvature = zeros((1, k), np.float64)
        _shifted_times(*rows, P, theta, sign, KP, curvature, first, last)
        return curvature[0]

    stored = sum(M.nnz for M in matrices)
    return KP, sum(in_threads(share, balanced(A.indptr, worthwhile(stored, k))))


def cross_times(X: Any, Y: Any, V: Any, shift: Any = None, weights: Any = None) -> tuple[Any, Any]:
    """XᵀΩ(Y @ V − 1·shiftᵀ) in one sweep over the rows, and the column sums of Ω(…).

    Where that is faster, rows in memory are read anew for every few lines' worth of columns, or
    twice: for the bracket, and to spread it.
    """
    k, V = V.shape[1], filled_up(V)
    shares, wide, dtype = cache_misses(X, Y), V.shape[1], V.dtype
    weights = None if weights is None else weights.astype(dtype, copy=False)
    start, product = zeros((1, wide), dtype), empty((X.shape[1], wide), dtype)
    start[0, :k] -= 0 if shift is None else shift
    count = worthwhile(X.nnz + Y.nnz, wide)
    if by_columns(X, Y, shares, product, count):
        total = cross_by_columns(X, Y, V, shares, start, weights, product, count)
        return first_columns(product, k), total[0, :k].astype(dtype)
    rows, total = rows_of(shares, X, Y), zeros(start.shape, np.float64)

    def share(room: Any, t: int, part: slice, first: int, last: int) -> Any:
        given, out = room.of(t)
        sums = zeros((1, part.stop - part.start), np.float64)
        _cross_times(*rows, given, start[:, part], weights, out, sums, first, last)
        return sums

    spans, step = balanced(Y.indptr, count), _at_once(X, Y, V, shares)
    moved = step < wide or _worth_moving(X, V, count)
    for part in (slice(q, min(q + step, wide)) for q in range(0, wide, max(step, 1))):
        room = room_for(V[:, part], product[:, part], count, moved, X is Y)
        total[:, part] = sum(in_threads(share, [(room, t, part, *s) for t, s in enumerate(spans)]))
        room.sum()
    return first_columns(product, k), total[0, :k].astype(dtype)


def _worth_moving(X: Any, V: Any, count: int) -> bool:
    """Whether there are entries enough to lay out V and its products anew for so many threads."""
    rows = count * X.shape[1]
    return bool(X.nnz > WORTH_MOVING * rows and 2 * rows * V[:1].nbytes <= MOST_MOVED)


def _at_once(X: Any, Y: Any, V: Any, shares: list[float]) -> int:
    """Columns that are worked on in a sweep over all rows.

    Where entries lie anywhere, these are cache lines that fit the cache, if some do.
    """
    k, line = int(V.shape[1]), LINE // int(V.itemsize)
    size = LINE * int(Y.shape[1] + threads() * X.shape[1])
    if not anywhere(shares) or size > SHARED or from_disk(X, Y):
        return k
    return min(k, line * max(1, int(USED * SHARED) // size))


def dense_moment(X: Any, Y: Any, weights: Any = None) -> Any:
    """XᵀΩY of sparse rows as a dense array, in double precision."""
    size = max(X.shape[1] * Y.shape[1], 1)
    ranges = balanced(X.indptr, max(1, min(worthwhile(X.nnz + Y.nnz, 1), MOST_MOMENTS // size)))
    outs = [np.zeros((X.shape[1], Y.shape[1])) for _ in ranges]
    weights = np.empty(0) if weights is None else weights.astype(np.float64, copy=False)
    given = (arrays(X), arrays(Y), weights)
    in_threads(_moment, [(*given, outs[t], *span) for t, span in enumerate(ranges)])
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
    weights = None if weights is None else weights.astype(dtype, copy=False)
    P = np.ascontiguousarray(P)
    rows = rows_of(cache_misses(X, Y), X, Y)
    given = (*rows, P[:cut], P[cut:], own, other[None], start, weights)

    def share(out: Any, first: int, last: int) -> Any:
        out.fill(0)
        total = zeros((2, k), np.float64)
        _pair_times(*given, out[:cut], out[cut:d], total, first, last)
        return total

    ranges = balanced(X.indptr, len(outs))
    totals = in_threads(share, [(out, *span) for out, span in zip(outs, ranges, strict=True)])
    return sum(totals).astype(dtype)


def finish(outs: Any, P: Any, means: Any, factors: Any, total: Any, ridge: Any, rows: slice) -> Any:
    """KP = factors·(Σ outs − means·totalᵀ) + ridge·P, in outs[0], and the sums pᵀKp over rows."""
    if not outs.flags.c_contiguous:
        raise ValueError("outs is not contiguous: take it from outs_for")
    k, spans = P.shape[1], equal(rows.stop - rows.start, len(outs))
    given = (outs.reshape(-1, k), outs.shape[1], P, means, factors, total[None], ridge[None])

    def share(first: int, last: int) -> Any:
        curvature = zeros((1, k), np.float64)
        _finish(*given, curvature, rows.start + first, rows.start + last)
        return curvature[0]

    return sum(in_threads(share, spans))
