"""Products of CSR rows with blocks of columns: X·V, and XᵀY·V in one sweep over the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from genelin.kernels.compiled import balanced, compiled, threads
from genelin.kernels.lanes import at
from genelin.kernels.rows import ask, gather, spread
from genelin.room import LINE, empty, in_line
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
FAR = 2**22  # bytes of blocks whose rows are asked for: smaller ones stay near the processor
PIECE = 512  # rows whose curvatures are summed in the precision of their block
MOST_MOMENTS = 2**24  # numbers of all moments where every thread has its own: 128 MB


@compiled
def _times(data, indices, indptr, V, out, first, last):
    """Rows first … last − 1 of X·V."""
    for i in range(first, last):
        gather(data, indices, indptr[i], indptr[i + 1], V, out, i)


@compiled
def _shifted_times(ad, ai, ap, bd, bi, bp, P, theta, sign, KP, total, first, last):
    """Rows first … last − 1 of KP = s(θB − A)P, and Σ p·kp of them; without bp, KP holds BP."""
    k = P.shape[1]
    T, sums = np.empty((2, k), P.dtype), np.empty(k, P.dtype)
    for start in range(first, last, PIECE):
        sums[:] = 0
        for i in range(start, min(start + PIECE, last)):
            gather(ad, ai, ap[i], ap[i + 1], P, T, 0)
            if len(bp):
                gather(bd, bi, bp[i], bp[i + 1], P, T, 1)
            else:
                for q in range(k):
                    T[1, q] = KP[i, q]
            for q in range(k):
                value = sign[q] * (theta[q] * T[1, q] - T[0, q])
                KP[i, q] = value
                sums[q] += P[i, q] * value
        for q in range(k):
            total[q] += sums[q]


@compiled
def _cross_times(xd, xi, xp, yd, yi, yp, V, shift, weights, out, total, first, last):
    """`out` is Σ ωᵢxᵢ(yᵢᵀV − shift) over rows first … last − 1; brackets are summed in `total`."""
    k = V.shape[1]
    out[:] = 0
    T = np.empty((1, k), V.dtype)
    x_last, y_last = max(xp[last] - 1, 0), max(yp[last] - 1, 0)
    far = (V.size + out.size) * V.itemsize > FAR
    for i in range(first, last):
        if far:
            ask(yi, yp[i], yp[i + 1], y_last, V)
            ask(xi, xp[i], xp[i + 1], x_last, out)
        gather(yd, yi, yp[i], yp[i + 1], V, T, 0)
        if len(shift):
            for q in range(k):
                T[0, q] -= shift[q]
        if len(weights):
            for q in range(k):
                T[0, q] *= weights[i]
        if len(shift):
            for q in range(k):
                total[q] += T[0, q]
        spread(xd, xi, xp[i], xp[i + 1], T, 0, out)


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
    xd, xi, xp, yd, yi, yp, Px, Py, own, other, shift, weights, out, total, first, last
):
    """`out` is [Σ ωᵢxᵢ(a·u + c·v); Σ ωᵢyᵢ(b·v + c·u)], u = xᵢᵀPx, v = yᵢᵀPy.

    (a, b) are the rows of `own`, c is `other`; u and v are less `shift` if there is one, and then
    the brackets are summed in `total`.
    """
    k = Px.shape[1]
    out_x, out_y = out[: len(Px)], out[len(Px) :]
    out[:] = 0
    T = np.empty((2, k), Px.dtype)
    x_last, y_last = max(xp[last] - 1, 0), max(yp[last] - 1, 0)
    far = 2 * out.size * out.itemsize > FAR
    for i in range(first, last):
        if far:
            ask(xi, xp[i], xp[i + 1], x_last, Px)
            ask(xi, xp[i], xp[i + 1], x_last, out_x)
            ask(yi, yp[i], yp[i + 1], y_last, Py)
            ask(yi, yp[i], yp[i + 1], y_last, out_y)
        gather(xd, xi, xp[i], xp[i + 1], Px, T, 0)
        gather(yd, yi, yp[i], yp[i + 1], Py, T, 1)
        if len(shift):
            for q in range(k):
                T[0, q] -= shift[0, q]
                T[1, q] -= shift[1, q]
        for q in range(k):
            u, v = T[0, q], T[1, q]
            T[0, q] = own[0, q] * u + other[q] * v
            T[1, q] = own[1, q] * v + other[q] * u
        if len(weights):
            for q in range(k):
                T[0, q] *= weights[i]
                T[1, q] *= weights[i]
        if len(shift):
            for q in range(k):
                total[0, q] += T[0, q]
                total[1, q] += T[1, q]
        spread(xd, xi, xp[i], xp[i + 1], T, 0, out_x)
        spread(yd, yi, yp[i], yp[i + 1], T, 1, out_y)


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
    arrays = (*_arrays(X), V, out)
    in_threads(_times, [(*arrays, *span) for span in ranges])
    return _summed([out], k)


def shifted_times(A: Any, B: Any, P: Any, theta: Any, sign: Any, BP: Any = None) -> tuple[Any, Any]:
    """KP = s(θB − A)P for CSR A and B, every column with its own s and θ, and the sums pᵀKp.

    B is None where BP is known: KP is written over it. Columns come by fours.
    """
    if P.shape[1] % FULL:
        raise ValueError(f"P has {P.shape[1]} columns: fill it up to a multiple of {FULL}")
    dtype, nothing = P.dtype, (np.empty(0, P.dtype), *np.empty((2, 0), A.indices.dtype))
    P, KP = np.ascontiguousarray(P), empty(P.shape, dtype) if BP is None else BP
    ranges = balanced(A.indptr, _parts(A.nnz + (0 if B is None else B.nnz), P.shape[1]))
    totals = np.zeros((len(ranges), P.shape[1]))
    arrays = (*_arrays(A), *(nothing if B is None else _arrays(B)), P)
    arrays = (*arrays, theta.astype(dtype), sign.astype(dtype), KP)
    in_threads(_shifted_times, [(*arrays, totals[t], *span) for t, span in enumerate(ranges)])
    return KP, totals.sum(axis=0)


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
    """XᵀΩ(Y @ V − 1·shiftᵀ) in one sweep over the rows, and the column sums of Ω(…).

    The sums are zero without a shift, where they are not needed.
    """
    k, V = V.shape[1], _filled_up(V)
    d, wide = X.shape[1], V.shape[1]
    ranges = balanced(Y.indptr, _parts(X.nnz + Y.nnz, k))
    outs = [empty((d, wide), V.dtype) for _ in ranges]
    totals = np.zeros((len(ranges), wide), V.dtype)
    shift = np.empty(0, V.dtype) if shift is None else np.pad(shift.astype(V.dtype), (0, wide - k))
    weights = np.empty(0, V.dtype) if weights is None else weights.astype(V.dtype, copy=False)
    arrays = (*_arrays(X), *_arrays(Y), V, shift, weights)
    in_threads(
        _cross_times, [(*arrays, outs[t], totals[t], *span) for t, span in enumerate(ranges)]
    )
    return _summed(outs, k), totals.sum(axis=0)[:k]


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
    over rows, is returned, zeros without a shift. Columns come by fours, and are fastest by eights.
    """
    cut, (d, k) = X.shape[1], P.shape
    if k % FULL:
        raise ValueError(f"P has {k} columns: fill it up to a multiple of {FULL}")
    totals = np.zeros((len(outs), 2, k), P.dtype)
    weights = np.empty(0, P.dtype) if weights is None else weights.astype(P.dtype, copy=False)
    P = np.ascontiguousarray(P)
    views = (*_arrays(X), *_arrays(Y), P[:cut], P[cut:])
    spans = [
        (*views, own, other, shift, weights, outs[t, :d], totals[t], *span)
        for t, span in enumerate(balanced(X.indptr, len(outs)))
    ]
    in_threads(_pair_times, spans)
    return totals.sum(axis=0)


@compiled
def _finish(outs, P, means, factors, total, ridge, curvature, first, last):
    for i in range(first, last):
        for t in range(1, outs.shape[0]):
            for q in range(outs.shape[2]):
                outs[0, i, q] += outs[t, i, q]
        for q in range(outs.shape[2]):
            value = factors[i] * (outs[0, i, q] - means[i] * total[q]) + ridge[q] * P[i, q]
            outs[0, i, q] = value
            curvature[q] += P[i, q] * value


def finish(outs: Any, P: Any, means: Any, factors: Any, total: Any, ridge: Any, rows: slice) -> Any:
    """KP = factors·(Σ outs − means·totalᵀ) + ridge·P, in outs[0], and the sums pᵀKp over rows."""
    spans = equal(rows.stop - rows.start, len(outs))
    curvatures = np.zeros((len(spans), P.shape[1]))
    arrays = (outs, P, means, factors, total, ridge)
    parts = [
        (*arrays, curvatures[t], rows.start + first, rows.start + last)
        for t, (first, last) in enumerate(spans)
    ]
    in_threads(_finish, parts)
    return curvatures.sum(axis=0)
