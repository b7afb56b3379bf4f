"""Scaling a symmetric matrix to unit diagonal: what is small should not depend on units."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from genelin.linalg.columns import EPS, Block, Vector

__all__ = ["range_basis", "unit_diagonal"]


def unit_diagonal(S: Block) -> tuple[Block, Vector]:
    """DSD and D with ones on the diagonal of DSD; D is zero where the diagonal is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> scaled, scale = unit_diagonal(np.array([[4.0, 1.0], [1.0, 0.0]]))
    >>> scaled.tolist(), scale.tolist()
    ([[1.0, 0.0], [0.0, 0.0]], [0.5, 0.0])
    """
    diagonal = np.diagonal(S)
    scale = np.zeros(len(S))
    scale[diagonal > 0] = 1.0 / np.sqrt(diagonal[diagonal > 0])
    return scale[:, None] * S * scale, scale


def range_basis(S: Block) -> tuple[Block, Vector]:
    """Q of shape (d, r) and w with QᵀSQ = diag w: the part of S that is above rounding.

    Columns are first scaled to unit variance, so that the unit of a feature does not decide over
    its fate; features without variance have no part. Weights Qv are those of minimum norm in the
    scaled features.

    Examples
    --------
    >>> import numpy as np
    >>> Q, w = range_basis(np.array([[1.0, 1.0], [1.0, 1.0]]))
    >>> Q.shape, w.round(6).tolist()
    ((2, 1), [2.0])
    """
    scaled, scale = unit_diagonal(S)
    weights, U = eigh(scaled, check_finite=False)
    kept = weights > len(S) * EPS * max(float(weights[-1]), 0.0)
    return scale[:, None] * U[:, kept], weights[kept]
