"""The vector work of block conjugate gradients, in few sweeps over memory.

Blocks are (d, m) with contiguous rows; every column has its own coefficients. Rows are shared out
among threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from genelin.kernels.compiled import compiled, threads
from genelin.threads import equal, in_threads

__all__ = ["advance", "dots", "shifted_dots", "turn"]


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
def _advance(C, R, P, KP, step, first, last):
    for i in range(first, last):
        for q in range(P.shape[1]):
            C[i, q] += step[q] * P[i, q]
            R[i, q] -= step[q] * KP[i, q]


@compiled
def _turn(P, Z, conjugation, first, last):
    for i in range(first, last):
        for q in range(P.shape[1]):
            P[i, q] = Z[i, q] + conjugation[q] * P[i, q]


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


def advance(C: Any, R: Any, P: Any, KP: Any, step: Any) -> None:
    """C += step·P and R −= step·KP, in place."""
    arrays = (C, R, P, KP, step.astype(P.dtype))
    in_threads(_advance, [(*arrays, *span) for span in _spans(*P.shape)])


def turn(P: Any, Z: Any, conjugation: Any) -> None:
    """P = Z + conjugation·P, in place."""
    arrays = (P, Z, conjugation.astype(P.dtype))
    in_threads(_turn, [(*arrays, *span) for span in _spans(*P.shape)])
