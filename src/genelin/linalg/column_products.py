"""Inner products of the columns of two blocks, every column by itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["EPS", "Block", "Vector", "column_dots", "column_norms", "large"]

LARGE = 2**18  # numbers in a block from which its vector work is compiled
EPS = float(np.finfo(np.float64).eps)

Block = NDArray[np.float64]  # (d, m)
Vector = NDArray[np.float64]  # (m,) or (d,)


def large(*blocks: Block) -> bool:
    """Whether blocks are worth a compiled kernel: contiguous, of one kind, beyond the caches."""
    first = blocks[0]
    return first.size >= LARGE and all(
        block.flags.c_contiguous and block.dtype == first.dtype for block in blocks
    )


def column_dots(U: Block, V: Block) -> Vector:
    """uⱼᵀvⱼ for every column j."""
    dots: Vector
    if large(U, V):
        from genelin import kernels

        dots = kernels.dots(U, V)
    else:
        dots = np.einsum("ij,ij->j", U, V)
    return dots


def column_norms(U: Block) -> Vector:
    """‖uⱼ‖₂ for every column j, of numbers whose squares overflow, too."""
    with np.errstate(over="ignore"):
        norms: Vector = np.sqrt(column_dots(U, U))
    if np.isinf(norms).any():
        sizes = np.abs(U).max(axis=0)
        if np.isfinite(sizes).all():
            return np.asarray(sizes * column_norms(U / np.where(sizes > 0, sizes, 1.0)))
    return norms
