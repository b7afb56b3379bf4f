"""Scaling a symmetric matrix to unit diagonal: what is small should not depend on units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, lapack

from genelin.linalg.column_products import EPS, Block, Vector
from genelin.linalg.tall_skinny import by_rows
from genelin.system.threads import blas_for

__all__ = [
    "LEAST",
    "ScaledFactor",
    "column_sums",
    "range_basis",
    "scaled_by",
    "scaled_factor",
    "unit_diagonal",
]

LEAST = float(np.sqrt(10 * EPS))  # diagonal entry of a factor that is above rounding


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
    return scaled_by(S, scale), scale


def scaled_by(S: Block, scale: Vector) -> Block:
    """DSD for the diagonal of D.

    Examples
    --------
    >>> import numpy as np
    >>> scaled_by(np.ones((2, 2)), np.array([1.0, 3.0])).tolist()
    [[1.0, 3.0], [3.0, 9.0]]
    """
    scaled: Block = np.empty_like(S, dtype=np.float64)

    def piece(rows: slice) -> None:
        np.multiply(S[rows], scale, out=scaled[rows])
        scaled[rows] *= scale[rows, None]

    by_rows(piece, len(S), S.size)
    return scaled


@dataclass(frozen=True)
class ScaledFactor:
    """LLᵀ = DSD, which has ones on its diagonal, for a symmetric S.

    Attributes
    ----------
    L : the lower triangle; what is above it is not zero.
    scale : the diagonal of D.
    failed : size of the leading block of DSD that is not positive definite; 0 if it is.
    condition : 1/κ of DSD, roughly.
    norm : the largest sum of a row of DSD.
    """

    L: Block
    scale: Vector
    failed: int
    condition: float
    norm: float

    @property
    def trouble(self) -> str:
        """Why S is not positive definite; nothing if it is."""
        block = f"{self.failed}×{self.failed}"
        return f"its leading {block} block is singular or indefinite" if self.failed else ""

    @property
    def is_sound(self) -> bool:
        """Whether all pivots are above rounding."""
        return not self.failed and bool(np.diagonal(self.L).min() > LEAST)


def scaled_factor(S: Block) -> ScaledFactor:
    """Cholesky's factor of a symmetric matrix.

    Examples
    --------
    >>> import numpy as np
    >>> factor = scaled_factor(np.array([[4.0, 0.0], [0.0, 9.0]]))
    >>> factor.L.tolist(), factor.scale.round(3).tolist(), factor.failed
    ([[1.0, 0.0], [0.0, 1.0]], [0.5, 0.333], 0)
    """
    scaled, scale = unit_diagonal(S)
    norm = float(column_sums(scaled).max(initial=0.0))
    with blas_for(len(S)):
        L, failed = lapack.dpotrf(scaled.T, lower=1, overwrite_a=1)  # columns lie together
        condition = 0.0 if failed else float(lapack.dpocon(L, norm, uplo="L")[0])
    return ScaledFactor(L, scale, int(failed), condition, norm)


def column_sums(S: Block) -> Vector:
    """Sums of the magnitudes of a symmetric matrix, by rows or columns.

    Examples
    --------
    >>> import numpy as np
    >>> column_sums(np.array([[1.0, -2.0], [-2.0, 0.0]])).tolist()
    [3.0, 2.0]
    """
    sums = np.empty(len(S))

    def piece(rows: slice) -> None:
        sums[rows] = np.abs(S[rows]).sum(axis=1)

    by_rows(piece, len(S), S.size)
    return sums


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
