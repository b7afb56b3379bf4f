"""Gradient descent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count

import numpy as np

from genelin.linalg import column_dots
from genelin.linalg.columns import Block, Vector
from genelin.operators import Operator
from genelin.solvers.base import IterativeSolver, Step
from genelin.solvers.bounds import SpectralBounds, spectral_bounds

__all__ = ["GD", "GradientState", "energies", "quotients"]


@dataclass(frozen=True)
class GradientState:
    """An operator and the bounds on its spectrum."""

    operator: Operator
    bounds: SpectralBounds


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


@dataclass(frozen=True)
class GD(IterativeSolver):
    """Gradient descent with step 2/(α + β): about κ/4·log(1/δ) products with B.

    Parameters
    ----------
    bounds : (α, β) with α ≤ λ_min(B) and β ≥ λ_max(B); estimated by Lanczos when None.
    max_iter : most steps per solve.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import GenELinK, solvers, top_k
    >>> A, B = np.diag([3.0, 2.0, 1.0]), np.diag([1.0, 2.0, 1.0])
    >>> top_k(A, B, k=1, method=GenELinK(solver=solvers.GD())).values.round(6).tolist()
    [3.0]
    """

    bounds: tuple[float, float] | None = None

    def _prepare(self, operator: Operator) -> GradientState:
        if self.bounds is None:
            return GradientState(operator, spectral_bounds(operator))
        return GradientState(operator, SpectralBounds(*self.bounds, known=True))

    def enough(self, state: GradientState, reduction: float) -> float:
        """Steps t with ((κ − 1)/(κ + 1))²ᵗ ≤ δ."""
        if not state.bounds.known:
            return np.inf
        kappa = state.bounds.kappa
        rate = 2 * np.log((kappa + 1) / max(kappa - 1, 1e-16))
        return float(np.ceil(np.log(1 / max(reduction, 1e-300)) / rate))

    def corrections(self, state: GradientState, r0: Block) -> Iterator[Step]:
        """C ← c + η r, r ← r − η B r with η = 2/(α + β)."""
        B, bounds = state.operator, state.bounds
        c, r = np.zeros_like(r0), r0.copy()
        for t in count():
            Br = B @ r
            if t < 16 or t % 16 == 0:
                bounds = bounds.seen(*quotients(r, Br))
            eta = 2 / (bounds.lower + bounds.upper)
            c += eta * r
            r -= eta * Br
            yield Step(c, partial(energies, c, r0, r, bounds.lower), r, bounds is state.bounds)
