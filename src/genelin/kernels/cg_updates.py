"""The vector work of block conjugate gradients, in few sweeps over memory.

Blocks are (d, m) with contiguous rows; every column has its own coefficients. Rows are shared out
among threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from genelin.kernels.codegen.row_kernels import ROWS, advance_rows, fold, turn_rows
from genelin.kernels.compiled import compiled, threads
from genelin.system.buffer_pool import zeros
from genelin.system.threads import equal, in_threads

__all__ = ["advance", "dots", "shifted_dots", "turn"]

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


@compiled
def _advance(C, R, P, KP, step, Y, weights, S, total, first, last):
    """The last row of `total` is for Σ weights·r², those before it for YᵀR; S is room for them."""
    for low in range(first, last, ROWS):
        advance_rows(C, R, P, KP, step, Y, weights, S, low)
        if (low + ROWS - first) % PIECE == 0 or low + ROWS == last:
            fold(S, total)


@compiled
def _turn(P, Z, conjugation, weights, Y, S, first, last):
    for low in range(first, last, ROWS):
        turn_rows(P, Z, conjugation, weights, Y, S, low)


def _spans(rows, columns):
    most = rows * columns // 2**15
    return equal(rows, min(threads(), most) if most > 1 else 1)


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
    step, (Y, weights), (spans, rest) = step.astype(P.dtype), _beside(P, Y, weights), _by_rows(P)
    arrays = (C, R, P, KP, step[None], Y, weights)

    def share(first: int, last: int) -> Any:
        sums, total = (zeros((Y.shape[1] + 1, P.shape[1]), kind) for kind in (P.dtype, np.float64))
        _advance(*arrays, sums, total, first, last)
        return total

    total = sum(in_threads(share, spans))
    C[rest] += step * P[rest]
    R[rest] -= step * KP[rest]
    return total[:-1] + Y[rest].T @ R[rest], total[-1] + weights[rest] @ R[rest] ** 2


def turn(
    P: Any, Z: Any, conjugation: Any, weights: Any = None, Y: Any = None, S: Any = None
) -> None:
    """P = weights·Z + conjugation·P + YS, in place."""
    (Y, weights), (spans, rest) = _beside(P, Y, weights), _by_rows(P)
    S = np.empty((0, P.shape[1])) if S is None else S
    conjugation, S = conjugation.astype(P.dtype), np.ascontiguousarray(S, P.dtype)
    in_threads(_turn, [(P, Z, conjugation[None], weights, Y, S, *span) for span in spans])
    P[rest] = weights[rest, None] * Z[rest] + conjugation * P[rest] + Y[rest] @ S


def _by_rows(P: Any) -> tuple[list[tuple[int, int]], slice]:
    """Row ranges for threads, in whole groups of rows that are worked on together; and the rest."""
    rows, columns = P.shape
    groups = rows // ROWS
    spans = [(ROWS * first, ROWS * last) for first, last in _spans(groups, ROWS * columns)]
    return spans, slice(ROWS * groups, rows)


def _beside(P: Any, Y: Any, weights: Any) -> tuple[Any, Any]:
    """Y and the weights of rows in the precision of P; no columns and ones where there are none."""
    Y = np.empty((len(P), 0), P.dtype) if Y is None else Y
    weights = np.ones(len(P), P.dtype) if weights is None else weights
    return Y, weights
