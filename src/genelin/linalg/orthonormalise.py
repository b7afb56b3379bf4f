"""GS_B: an orthonormal basis in the inner product ⟨u, v⟩_B = uᵀBv."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh

from genelin.errors import NotPositiveDefiniteError, not_positive_definite
from genelin.linalg.column_products import EPS, Block, column_dots
from genelin.linalg.tall_skinny import tall_dot, tall_times

__all__ = ["orthonormalise", "sweep"]

SWEEPS = 6


def orthonormalise(
    Z: Block,
    B: Any,
    BZ: Block | None = None,
    *,
    spare: Block | None = None,
    columns: int | None = None,
    drop: float = 0.0,
) -> tuple[Block, Block]:
    """Return W and BW with span(W) = span(Z) and WᵀBW = I.

    Gram–Schmidt in the B-inner product, done through the eigenvectors of the k×k matrix ZᵀBZ
    with columns of unit length (Stathopoulos & Wu 2002). Near-dependent columns lose digits in
    one sweep and regain them in the next; directions below rounding are dropped, and taken from
    `spare` where that is given, so that W keeps as many columns as Z.

    Parameters
    ----------
    Z : (d, k) block.
    B : anything with `B @ Z`.
    BZ : B @ Z, where it is available.
    spare : (d, m) block that fills lost directions, until there are `columns` (None: those of Z).
    drop : give up directions whose squared length, after scaling, is below this part of the
        largest one; those below rounding go in any case.

    Examples
    --------
    >>> import numpy as np
    >>> B = np.diag([1.0, 4.0, 9.0])
    >>> W, BW = orthonormalise(np.ones((3, 2)) + np.eye(3, 2) * 1e-6, B)
    >>> bool(np.allclose(W.T @ BW, np.eye(2), atol=1e-12))
    True
    """
    wanted = Z.shape[1] if columns is None else columns
    if wanted == 0:
        return Z, Z
    try:
        W, BW, weakest = sweep(Z, B @ Z if BZ is None else BZ, drop)
    except NotPositiveDefiniteError:
        if BZ is None:
            raise
        W, BW, weakest = sweep(Z, B @ Z, drop)  # of columns that are rounding, BZ is another's
    for _ in range(SWEEPS):
        if weakest > 0.1:
            break
        # Combinations of near-dependent columns carry their rounding: multiply afresh then.
        W, BW, weakest = sweep(W, BW if weakest > 1e-4 else B @ W)
    missing = wanted - W.shape[1]
    if missing > 0 and spare is not None:
        return _fill(W, BW, B, spare, missing)
    return W, BW


def sweep(Z: Block, BZ: Block, drop: float = 0.0) -> tuple[Block, Block, float]:
    """One pass: W, BW and the smallest eigenvalue of the scaled Gram matrix that was kept.

    BZ is Z itself where B is the identity. Blocks may be in single precision: negative curvature
    is rounding then, and tells its size; what is not well above it goes.
    """
    eps, squares = float(np.finfo(Z.dtype).eps), column_dots(Z, BZ)
    exact = eps <= EPS
    if exact:
        _refuse_negative(squares.min(initial=0.0), squares.max(initial=0.0))
    lengths = np.sqrt(np.maximum(squares, 0.0))
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    gram = tall_dot(Z, BZ).astype(np.float64, copy=False) * scale * scale[:, None]
    weights, U = eigh((gram + gram.T) / 2, check_finite=False)
    if exact:
        _refuse_negative(weights[0], weights[-1])
    noise = max(10 * len(weights) * eps * weights[-1], -10 * weights[0])
    kept = weights > max(noise, drop * weights[-1])
    T = scale[:, None] * U[:, kept] / np.sqrt(weights[kept])
    weakest = float(weights[kept][0]) if kept.any() else 1.0
    W = tall_times(Z, T)
    return W, W if BZ is Z else tall_times(BZ, T), weakest


def _fill(W: Block, BW: Block, B: Any, spare: Block, missing: int) -> tuple[Block, Block]:
    """Complete W by the `missing` strongest directions of `spare` that W lacks."""
    rest = spare - W @ (BW.T @ spare)
    extra, _ = orthonormalise(rest - W @ (BW.T @ rest), B)
    Z = np.hstack([W, extra[:, -missing:]])  # eigenvectors come with the strongest last
    return orthonormalise(Z, B)


def _refuse_negative(lowest: float, highest: float) -> None:
    """Negative curvature beyond rounding means that B is indefinite."""
    if lowest < -np.sqrt(EPS) * max(highest, -lowest):
        raise not_positive_definite(f"a direction with wᵀBw = {lowest:.3g} < 0 was met")
