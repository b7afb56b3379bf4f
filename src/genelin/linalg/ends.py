"""A few eigenvectors of a symmetric matrix, from either end of its spectrum or from both."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh, eigh_tridiagonal, lapack

from genelin.linalg.columns import Block, Vector
from genelin.linalg.ritz import Which, order

__all__ = ["leading_pairs"]

PANEL = 64  # reflections that LAPACK applies at once


def leading_pairs(M: Block, count: int, which: Which = "LM") -> tuple[Vector, Block]:
    """All eigenvalues of M in the order asked for, and the eigenvectors of the first `count`.

    M is reduced to three diagonals, which costs 4/3·d³; a few vectors add little to that, where
    all of them would take three times as long. Only the lower triangle of M is read, which may be
    overwritten.

    Examples
    --------
    >>> import numpy as np
    >>> values, U = leading_pairs(np.diag([1.0, -5.0, 3.0, 0.0, 0.5]), 2)
    >>> values.tolist(), np.abs(U).round(6).T.tolist()
    ([-5.0, 3.0, 1.0, 0.5, 0.0], [[0.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0]])
    """
    if 4 * count > len(M):
        values, U = eigh(M, check_finite=False)
        ranked = order(values, which)
        return values[ranked], U[:, ranked[:count]]
    room = int(lapack.dsytrd_lwork(len(M), lower=1)[0])
    reflections, diagonal, beside, scales, _ = lapack.dsytrd(M, lower=1, lwork=room, overwrite_a=1)
    values = lapack.dsterf(diagonal, beside)[0]
    ranked = order(values, which)
    chosen = np.sort(ranked[:count])
    runs = np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1)  # one at each end at most
    parts = [
        eigh_tridiagonal(
            diagonal, beside, select="i", select_range=(run[0], run[-1]), check_finite=False
        )[1]
        for run in runs
    ]
    U = np.asfortranarray(np.hstack(parts)[:, np.argsort(np.argsort(ranked[:count]))])
    U[1:] = lapack.dormqr(
        "L", "N", reflections[1:, :-1], scales, U[1:], lwork=PANEL * max(count, PANEL)
    )[0]
    return values[ranked], U
