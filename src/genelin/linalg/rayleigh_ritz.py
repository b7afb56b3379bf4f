"""Rayleigh–Ritz: the best eigenpairs that a B-orthonormal basis holds."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from genelin.linalg.column_products import Block, Vector

__all__ = ["Which", "magnitudes", "order", "rayleigh_ritz"]

Which = Literal["LM", "LA", "SA"]


def order(values: Vector, which: Which = "LM") -> NDArray[np.intp]:
    """Positions of `values` in the order asked for; of ±λ the positive one comes first.

    Examples
    --------
    >>> import numpy as np
    >>> order(np.array([1.0, -3.0, 3.0, 2.0])).tolist()
    [2, 1, 3, 0]
    """
    if which == "LM":
        return np.lexsort((-values, -np.abs(values)))
    return np.argsort(-values if which == "LA" else values, kind="stable")


def magnitudes(theta: Vector, which: Which) -> Vector:
    """What the order compares: |θ|, θ or −θ.

    Examples
    --------
    >>> import numpy as np
    >>> magnitudes(np.array([1.0, -3.0]), "SA").tolist()
    [-1.0, 3.0]
    """
    return {"LM": np.abs(theta), "LA": theta, "SA": -theta}[which]


def rayleigh_ritz(W: Block, AW: Block, which: Which = "LM") -> tuple[Vector, Block]:
    """Ritz values θ and the rotation Q with Qᵀ(WᵀAW)Q = diag θ, for WᵀBW = I.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.diag([1.0, -5.0])
    >>> theta, Q = rayleigh_ritz(np.eye(2), A)
    >>> theta.tolist()
    [-5.0, 1.0]
    """
    H = W.T @ AW
    theta, Q = eigh((H + H.T) / 2, check_finite=False)
    positions = order(theta, which)
    return theta[positions], Q[:, positions]
