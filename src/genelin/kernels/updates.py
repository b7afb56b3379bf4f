"""The vector work of block conjugate gradients, in few sweeps over memory.

Blocks are (d, m) with contiguous rows; every column has its own coefficients. Rows are shared out
among threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from genelin.kernels.compiled import compiled, inlined, threads
from genelin.kernels.lanes import add_product, load, store
from genelin.threads import equal, in_threads

__all__ = ["advance", "dots", "shifted_dots", "turn"]

LANES16, LANES8, LANES4, LANES1 = ((0,) * width for width in (16, 8, 4, 1))
FOUR = 4  # rows that are worked on together
PIECE = 512  # rows of products that are summed in the precision of their block


@compiled
def _dots(U, V, total, first, last):
    for i in range(first, last):
        for q in range(U.shape[1]):
            total[q] += U[i, q] * V[i, q]


@compiled
def _shifted_dots(P, AP, BP, theta, sign, total, first, last):
    for i in range(first, last):
        for q in range(P.shape[1]):
            value = sign[q] * (theta[q] * BP[i, q] - AP[i, q])
            BP[i, q] = value
            total[q] += P[i, q] * value


@inlined
def _dot_part(Y, R, i, q, lanes, S):
    """Add YᵀR of four rows to some columns of S."""
    a, b = load(R, i, q, lanes), load(R, i + 1, q, lanes)
    c, d = load(R, i + 2, q, lanes), load(R, i + 3, q, lanes)
    for j in range(Y.shape[1]):
        total = add_product(load(S, j, q, lanes), Y[i, j], a)
        total = add_product(total, Y[i + 1, j], b)
        total = add_product(total, Y[i + 2, j], c)
        store(S, j, q, add_product(total, Y[i + 3, j], d))


@inlined
def _dot_rows(Y, R, first, last, S):
    """S += YᵀR over rows first … last − 1."""
    k = R.shape[1]
    fours = last - (last - first) % FOUR
    for i in range(first, fours, FOUR):
        for q in range(0, k - 15, 16):
            _dot_part(Y, R, i, q, LANES16, S)
        for q in range(k - k % 16, k - 7, 8):
            _dot_part(Y, R, i, q, LANES8, S)
        for q in range(k - k % 8, k - 3, 4):
            _dot_part(Y, R, i, q, LANES4, S)
        for q in range(k - k % 4, k):
            _dot_part(Y, R, i, q, LANES1, S)
    for i in range(fours, last):
        for j in range(Y.shape[1]):
            for q in range(k):
                S[j, q] += Y[i, j] * R[i, q]


@compiled
def _advance(C, R, P, KP, step, Y, weights, total, first, last):
    """The last row of `total` is for Σ weights·r², those before it for YᵀR."""
    k, m = P.shape[1], Y.shape[1]
    S = np.empty((m + 1, k), R.dtype)
    for start in range(first, last, PIECE):
        stop = min(start + PIECE, last)
        S[:] = 0
        for low in range(start, stop, FOUR):
            high = min(low + FOUR, stop)
            for i in range(low, high):
                for q in range(k):
                    C[i, q] += step[q] * P[i, q]
                    R[i, q] -= step[q] * KP[i, q]
                    S[m, q] += weights[i] * R[i, q] * R[i, q]
            if m:
                _dot_rows(Y, R, low, high, S)
        for j in range(m + 1):
            for q in range(k):
                total[j, q] += S[j, q]


@inlined
def _add_part(Y, S, P, i, q, lanes):
    """P += YS in four rows and some columns."""
    a, b = load(P, i, q, lanes), load(P, i + 1, q, lanes)
    c, d = load(P, i + 2, q, lanes), load(P, i + 3, q, lanes)
    for j in range(Y.shape[1]):
        s = load(S, j, q, lanes)
        a, b = add_product(a, Y[i, j], s), add_product(b, Y[i + 1, j], s)
        c, d = add_product(c, Y[i + 2, j], s), add_product(d, Y[i + 3, j], s)
    store(P, i, q, a)
    store(P, i + 1, q, b)
    store(P, i + 2, q, c)
    store(P, i + 3, q, d)


@inlined
def _add_rows(Y, S, P, first, last):
    """P += YS in rows first … last − 1."""
    k = P.shape[1]
    fours = last - (last - first) % FOUR
    for i in range(first, fours, FOUR):
        for q in range(0, k - 15, 16):
            _add_part(Y, S, P, i, q, LANES16)
        for q in range(k - k % 16, k - 7, 8):
            _add_part(Y, S, P, i, q, LANES8)
        for q in range(k - k % 8, k - 3, 4):
            _add_part(Y, S, P, i, q, LANES4)
        for q in range(k - k % 4, k):
            _add_part(Y, S, P, i, q, LANES1)
    for i in range(fours, last):
        for j in range(Y.shape[1]):
            for q in range(k):
                P[i, q] += Y[i, j] * S[j, q]


@compiled
def _turn(P, Z, conjugation, weights, Y, S, first, last):
    for low in range(first, last, FOUR):
        high = min(low + FOUR, last)
        for i in range(low, high):
            for q in range(P.shape[1]):
                P[i, q] = weights[i] * Z[i, q] + conjugation[q] * P[i, q]
        if Y.shape[1]:
            _add_rows(Y, S, P, low, high)


def _spans(rows, columns):
    parts = max(1, min(threads(), rows * columns // 2**15))
    return equal(rows, parts)


def _summed(kernel, *arrays):
    rows, columns = arrays[0].shape
    spans = _spans(rows, columns)
    totals = np.zeros((len(spans), columns))
    in_threads(kernel, [(*arrays, totals[t], *span) for t, span in enumerate(spans)])
    return totals.sum(axis=0)


def dots(U: Any, V: Any) -> Any:
    """uⱼᵀvⱼ for every column j, summed in float64."""
    return _summed(_dots, U, V)


def shifted_dots(P: Any, AP: Any, BP: Any, theta: Any, sign: Any) -> Any:
    """Turn BP into KP, kⱼ = signⱼ(θⱼBpⱼ − Apⱼ), and return pⱼᵀkⱼ."""
    return _summed(_shifted_dots, P, AP, BP, theta.astype(P.dtype), sign.astype(P.dtype))


def advance(
    C: Any, R: Any, P: Any, KP: Any, step: Any, Y: Any = None, weights: Any = None
) -> tuple[Any, Any]:
    """C += step·P and R −= step·KP, in place; YᵀR and Σᵢ weightsᵢrᵢⱼ² of what R is then."""
    arrays = (C, R, P, KP, step.astype(P.dtype), *_beside(P, Y, weights))
    spans, rows = _spans(*P.shape), 1 if Y is None else Y.shape[1] + 1
    totals = np.zeros((len(spans), rows, P.shape[1]))
    in_threads(_advance, [(*arrays, totals[t], *span) for t, span in enumerate(spans)])
    total = totals.sum(axis=0)
    return total[:-1], total[-1]


def turn(
    P: Any, Z: Any, conjugation: Any, weights: Any = None, Y: Any = None, S: Any = None
) -> None:
    """P = weights·Z + conjugation·P + YS, in place."""
    Y, weights = _beside(P, Y, weights)
    S = np.empty((0, P.shape[1])) if S is None else S
    arrays = (P, Z, conjugation.astype(P.dtype), weights, Y, np.ascontiguousarray(S, P.dtype))
    in_threads(_turn, [(*arrays, *span) for span in _spans(*P.shape)])


def _beside(P: Any, Y: Any, weights: Any) -> tuple[Any, Any]:
    """Y and the weights of rows in the precision of P; no columns and ones where there are none."""
    Y = np.empty((len(P), 0), P.dtype) if Y is None else Y
    weights = np.ones(len(P), P.dtype) if weights is None else weights
    return Y, weights
