"""Principal angles between subspaces in the B-norm, from their sines."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import svdvals

from genelin.linalg.column_products import Block, Vector
from genelin.linalg.orthonormalise import orthonormalise

__all__ = ["principal_sines", "sin_theta"]


def principal_sines(W: Block, V: Block, B: Any) -> Vector:
    """Sin θ⁽ⁱ⁾ between span(W) and span(V) in the B-norm, largest first.

    The sines are the lengths of W − VVᵀBW, not 1 − cos²: an angle of 1e-10 is seen as such. Those
    after the first are good to about 1e-8 of the first.

    Examples
    --------
    >>> import numpy as np
    >>> W, V = np.array([[1.0], [1e-10]]), np.array([[1.0], [0.0]])
    >>> float(principal_sines(W, V, np.eye(2))[0])
    1e-10
    """
    if W.shape[1] > V.shape[1]:
        W, V = V, W
    W, _ = orthonormalise(W, B)
    V, BV = orthonormalise(V, B)
    rest = W - V @ (BV.T @ W)
    rest -= V @ (BV.T @ rest)
    # ‖rest·x‖_B over unit x: singular values of B^½·rest, by way of its small Gram matrix.
    # Scaling by the largest keeps the square of a tiny angle away from underflow.
    size = np.abs(rest).max(initial=0.0)
    if size == 0.0:
        return np.zeros(W.shape[1])
    rest = rest / size
    squares = svdvals(rest.T @ (B @ rest))
    sines: Vector = np.minimum(size * np.sqrt(squares), 1.0)
    return sines


def sin_theta(W: Block, V: Block, B: Any) -> float:
    """Sine of the largest principal angle in the B-norm (Definition 4 of the paper).

    Examples
    --------
    >>> import numpy as np
    >>> sin_theta(np.array([[3.0], [4.0]]), np.array([[1.0], [0.0]]), np.eye(2))
    0.8
    """
    return float(principal_sines(W, V, B)[0])
