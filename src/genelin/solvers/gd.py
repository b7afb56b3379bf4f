"""Gradient descent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count

import numpy as np

from genelin.linalg.column_products import Block
from genelin.solvers.base import Step
from genelin.solvers.gradient import GradientSolver, GradientState, energies, quotients

__all__ = ["GD"]


@dataclass(frozen=True)
class GD(GradientSolver):
    """Gradient descent with step 2/(α + β): about κ/4·log(1/δ) products with B.

    Parameters
    ----------
    bounds, max_iter : as for `AGD`.

    Examples
    --------
    >>> from genelin import operators
    >>> B, gd = operators.as_operator(np.diag([1.0, 2.0])), GD()
    >>> gd.solve(gd.init(B), np.ones((2, 1)), np.zeros((2, 1)), 1e-12).value.round(4).tolist()
    [[1.0], [0.5]]
    """

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
