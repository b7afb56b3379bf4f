"""Symmetric? Positive definite? Looked at before any long work starts."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from genelin.errors import not_positive_definite
from genelin.linalg import ScaledFactor, SparseFactor, column_dots
from genelin.linalg.column_products import EPS, Block
from genelin.operators.base import Operator

__all__ = ["refuse_asymmetric", "refuse_indefinite", "refuse_nonsquare"]

FACTORED = 4096  # up to this size B is factored to see whether it is positive definite
TILE = 256  # rows and columns that are compared while they are in the cache
ROUNDING = 1e-10  # of the largest entry


def refuse_nonsquare(operator: Operator, name: str) -> None:
    """Raise if the operator is not square."""
    if operator.shape[0] != operator.shape[1]:
        raise ValueError(f"{name} must be square, got shape {operator.shape}")


def refuse_asymmetric(operator: Operator, name: str, rng: np.random.Generator) -> None:
    """Raise if the matrix, or a probe of the operator, is not symmetric."""
    entries = operator.entries()
    if entries is None:
        _probe_symmetry(operator, name, rng)
        return
    place = _asymmetry(entries.core)
    if place is not None:
        i, j = place
        raise ValueError(
            f"{name} is not symmetric: entry ({i}, {j}) is {entries.core[i, j]:.6g} but ({j}, {i}) "
            f"is {entries.core[j, i]:.6g}. Pass ({name} + {name}.T) / 2 if it should be."
        )


def _asymmetry(M: Any) -> tuple[int, int] | None:
    """A place where M and Mᵀ differ much, or None where they agree but for rounding."""
    if not sparse.issparse(M):
        return _dense_asymmetry(M)
    limit, difference = ROUNDING * abs(M).max(), abs(M - M.T).tocoo()
    if difference.nnz == 0 or difference.data.max() <= limit:
        return None
    worst = int(np.argmax(difference.data))
    first, second = sorted((int(difference.row[worst]), int(difference.col[worst])))
    return first, second


def _dense_asymmetry(M: Block) -> tuple[int, int] | None:
    """The same for a dense matrix, tile by tile: no second matrix of its size."""
    limit, tiles = ROUNDING * max(M.max(initial=0.0), -M.min(initial=0.0)), range(0, len(M), TILE)
    for i in tiles:
        for j in tiles[i // TILE :]:
            tile = M[i : i + TILE, j : j + TILE] - M[j : j + TILE, i : i + TILE].T
            if max(tile.max(), -tile.min()) > limit:
                row, column = np.unravel_index(np.argmax(np.abs(tile)), tile.shape)
                first, second = sorted((i + int(row), j + int(column)))
                return first, second
    return None


def _probe_symmetry(operator: Operator, name: str, rng: np.random.Generator) -> None:
    """uᵀMv = vᵀMu for random u and v."""
    d = operator.shape[0]
    U, V = rng.standard_normal((2, d, 2))
    MU, MV = operator @ U, operator @ V
    gap = np.abs(column_dots(U, MV) - column_dots(V, MU))
    size = np.linalg.norm(MU, axis=0) * np.linalg.norm(V, axis=0)
    if np.any(gap > 1e-6 * size):
        raise ValueError(
            f"{name} is not symmetric: uᵀ({name} v) and vᵀ({name} u) differ by {gap.max():.3g} for "
            f"random u and v. Pass an operator that equals its transpose."
        )


def refuse_indefinite(B: Operator, rng: np.random.Generator) -> None:
    """Raise if B is shown not to be positive definite: by its diagonal, a factor, or a probe."""
    diagonal = B.diagonal()
    if diagonal is not None and diagonal.min() <= 0:
        place = int(np.argmin(diagonal))
        kind = "singular or indefinite" if diagonal[place] == 0 else "indefinite"
        raise not_positive_definite(
            f"its diagonal entry {place} is {diagonal[place]:.3g}, so it is {kind}"
        )
    entries = B.entries()
    if entries is not None and entries.is_diagonal:
        return
    factor = B.factor() if B.shape[0] <= FACTORED else None
    if factor is not None:
        _refuse_by_factor(factor)
        return
    V = rng.standard_normal((B.shape[0], 4))
    curvature = column_dots(V, B @ V)
    if curvature.min() <= 0:
        raise not_positive_definite(f"vᵀBv = {curvature.min():.3g} for a random v")


def _refuse_by_factor(factor: ScaledFactor | SparseFactor) -> None:
    """The failure or the condition number of the scaled B tells."""
    if factor.trouble:
        raise not_positive_definite(factor.trouble)
    if factor.condition < 10 * EPS:
        kappa = 1 / max(factor.condition, 1e-300)
        raise not_positive_definite(f"it is singular to rounding, with κ of about {kappa:.1e}")
