"""What gradient descent and its acceleration share: bounds on the spectrum, and their errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genelin.linalg import column_dots
from genelin.linalg.column_products import Block, Vector
from genelin.operators import Operator
from genelin.solvers.base import IterativeSolver
from genelin.solvers.spectral_bounds import SpectralBounds, spectral_bounds
from genelin.validation import check_number, shown

__all__ = ["GradientSolver", "GradientState", "energies", "quotients"]


@dataclass(frozen=True)
class GradientState:
    """An operator and the bounds on its spectrum."""

    operator: Operator
    bounds: SpectralBounds


@dataclass(frozen=True)
class GradientSolver(IterativeSolver):
    """Settings of a gradient method; `bounds` is (α, β), or None to estimate them by Lanczos."""

    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bounds is None:
            return
        try:
            lower, upper = (check_number("bounds", value, above=0) for value in self.bounds)
            ordered = lower <= upper
        except (TypeError, ValueError, NotImplementedError):
            ordered = False
        if not ordered:
            raise ValueError(
                f"bounds={shown(self.bounds)} must be (α, β) with 0 < α ≤ β, around the spectrum "
                "of B"
            )
        object.__setattr__(self, "bounds", (lower, upper))

    def _prepare(self, operator: Operator) -> GradientState:
        if self.bounds is None:
            return GradientState(operator, spectral_bounds(operator))
        return GradientState(operator, SpectralBounds(*self.bounds, known=True))


def quotients(U: Block, BU: Block) -> tuple[float, float]:
    """Smallest and largest Rayleigh quotient uᵀBu / uᵀu among the columns that are not zero."""
    squares = column_dots(U, U)
    live = squares > 0
    if not live.any():
        return np.inf, 0.0
    ratios = column_dots(U, BU)[live] / squares[live]
    return float(ratios.min()), float(ratios.max())


def energies(c: Block, r0: Block, r: Block, lower: float) -> tuple[Vector, Vector]:
    """‖e₀‖²_B − ‖e‖²_B of the iterate c with residual r, and the bound ‖r‖²/λ_min on ‖e‖²_B."""
    return column_dots(c, r0 + r), column_dots(r, r) / lower
