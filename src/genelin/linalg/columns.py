"""Inner products of the columns of two blocks, every column by itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["EPS", "Block", "Vector", "column_dots", "column_norms"]

EPS = float(np.finfo(np.float64).eps)

Block = NDArray[np.float64]  # (d, m)
Vector = NDArray[np.float64]  # (m,) or (d,)


def column_dots(U: Block, V: Block) -> Vector:
    """uⱼᵀvⱼ for every column j."""
    dots: Vector = np.einsum("ij,ij->j", U, V)
    return dots


def column_norms(U: Block) -> Vector:
    """‖uⱼ‖₂ for every column j."""
    norms: Vector = np.sqrt(column_dots(U, U))
    return norms
