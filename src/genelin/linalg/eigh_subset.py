"""A few eigenvectors of a symmetric matrix, from either end of its spectrum or from both."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, eigh, eigh_tridiagonal, lapack

from genelin.linalg.column_products import Block, Vector
from genelin.linalg.rayleigh_ritz import Which, magnitudes, order

__all__ = ["leading_pairs"]

PANEL = 64  # reflections that LAPACK applies at once
UNEVEN = 1e-10  # overlap of eigenvectors that says that they were found apart from each other
FEW = 32  # of so many eigenvalues, one by bisection takes as long as all by iteration


def leading_pairs(M: Block, count: int, which: Which = "LM") -> tuple[Vector, Block]:
    """Eigenvalues of M in the order asked for, one more than `count` at least, and so many vectors.

    M is reduced to tridiagonal form, which costs 4/3·d³; a few vectors add little to that, where
    all of them would take three times as long. Only the lower triangle of M is read, which may be
    overwritten.

    Examples
    --------
    >>> import numpy as np
    >>> values, U = leading_pairs(np.diag([1.0, -5.0, 3.0, 0.0, 0.5]), 2)
    >>> values[:3].tolist(), np.abs(U).round(6).T.tolist()
    ([-5.0, 3.0, 1.0], [[0.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0]])
    """
    if 4 * count > len(M):
        values, U = eigh(M, check_finite=False)
        ranked = order(values, which)
        return values[ranked], U[:, ranked[:count]]
    room = int(lapack.dsytrd_lwork(len(M), lower=1)[0])
    reflections, diagonal, beside, scales, _ = lapack.dsytrd(M, lower=1, lwork=room, overwrite_a=1)
    values, vectors = _decomposed(diagonal, beside, count, which)
    U = np.asfortranarray(vectors)
    U[1:] = lapack.dormqr(
        "L", "N", reflections[1:, :-1], scales, U[1:], lwork=PANEL * max(count, PANEL)
    )[0]
    return values, U


def _decomposed(diagonal: Vector, beside: Vector, count: int, which: Which) -> tuple[Vector, Block]:
    """Values of a tridiagonal matrix in order, and the vectors of the first `count` of them.

    Where bisection gives up, or vectors of one value were found apart from each other and are not
    orthogonal, all of them are found together.
    """
    try:
        values, U = _subset(diagonal, beside, count, which)
        if np.abs(U.T @ U - np.eye(count)).max() <= UNEVEN:
            return values, U
    except LinAlgError:
        pass
    values, U = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
    ranked = order(values, which)
    return values[ranked], U[:, ranked[:count]]


def _subset(diagonal: Vector, beside: Vector, count: int, which: Which) -> tuple[Vector, Block]:
    """The same by bisection and inverse iteration, in a run of neighbours at each end."""
    places, values = _ends(diagonal, beside, count + 1, which)
    inwards = np.minimum(places, len(diagonal) - 1 - places)
    ranked = np.lexsort((inwards, -values, -magnitudes(values, which)))
    chosen = np.sort(places[ranked[:count]])  # of equal values the outermost: runs have no holes
    runs = np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1)
    parts = [_tridiagonal(diagonal, beside, run)[1] for run in runs]
    return values[ranked], np.hstack(parts)[:, np.argsort(np.argsort(places[ranked[:count]]))]


def _ends(
    diagonal: Vector, beside: Vector, count: int, which: Which
) -> tuple[NDArray[np.intp], Vector]:
    """Ascending eigenvalues by their places: all, or some at each end that is asked for."""
    d = len(diagonal)
    if FEW * count > d:
        return np.arange(d), lapack.dsterf(diagonal, beside)[0]
    low, high = np.arange(count), np.arange(d - count, d)
    ends = {"LM": [low, high], "LA": [high], "SA": [low]}[which]
    values = [_tridiagonal(diagonal, beside, end, vectors=False) for end in ends]
    return np.concatenate(ends), np.concatenate(values)


def _tridiagonal(diagonal: Vector, beside: Vector, places: Any, vectors: bool = True) -> Any:
    """Eigenvalues at neighbouring places, and their vectors if wanted."""
    return eigh_tridiagonal(
        diagonal,
        beside,
        eigvals_only=not vectors,
        select="i",
        select_range=(places[0], places[-1]),
        check_finite=False,
    )
