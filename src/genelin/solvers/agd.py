"""Nesterov's accelerated gradient descent (Algorithm 4 of the paper)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count

import numpy as np

from genelin.linalg import column_dots
from genelin.linalg.column_products import Block
from genelin.solvers.base import Step
from genelin.solvers.gradient import GradientSolver, GradientState, energies, quotients

__all__ = ["AGD", "momentum"]


@dataclass(frozen=True)
class AGD(GradientSolver):
    """Accelerated gradient descent: about √κ·log(1/δ) products with B.

    Momentum is (√Q − 1)/(√Q + 1) with Q = β/α. Where the bounds are off, Rayleigh quotients of the
    steps correct them, and momentum that points uphill is dropped (O'Donoghue & Candès 2015).

    Parameters
    ----------
    bounds : (α, β) with α ≤ λ_min(B) and β ≥ λ_max(B); estimated by Lanczos when None.
    max_iter : most steps per solve.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import GenELinK, solvers, top_k
    >>> A, B = np.diag([3.0, 2.0, 1.0]), np.diag([1.0, 2.0, 1.0])
    >>> top_k(A, B, k=1, method=GenELinK(solver=solvers.AGD())).values.round(6).tolist()
    [3.0]
    """

    def enough(self, state: GradientState, reduction: float) -> float:
        """Steps t with 2·exp(−t/√Q) ≤ δ (Theorem 8)."""
        if not state.bounds.known:
            return np.inf
        return float(np.ceil(np.sqrt(state.bounds.kappa) * np.log(2 / max(reduction, 1e-300))))

    def corrections(self, state: GradientState, r0: Block) -> Iterator[Step]:
        """y₊ ← x + r(x)/β, x ← y₊ + (√Q − 1)/(√Q + 1)·(y₊ − y), with r(x) = r₀ − Bx."""
        B, bounds = state.operator, state.bounds
        x, y, r = np.zeros_like(r0), np.zeros_like(r0), r0
        x_before, r_before = x, r
        for t in count():
            if t > 0:
                r = r0 - B @ x
            if 0 < t < 16 or t % 16 == 1:
                fresh = bounds.seen(*quotients(x - x_before, r_before - r))
                if fresh.upper > bounds.upper:  # the steps were too long: begin again
                    x, y, r = np.zeros_like(r0), np.zeros_like(r0), r0
                bounds = fresh
            y_next = x + r / bounds.upper
            move = y_next - y
            if t % 8 == 7:  # restart the columns that go uphill
                move[:, column_dots(r, move) < 0] = 0.0
            # y₊ is at least as good as x, whose residual is known: f(y₊) ≤ f(x) − ‖r‖²/2β.
            measure = partial(energies, x, r0, r, bounds.lower)
            yield Step(y_next, measure, as_expected=bounds is state.bounds)
            x_before, r_before = x, r
            x, y = y_next + momentum(bounds.kappa) * move, y_next


def momentum(kappa: float) -> float:
    """The share of the last move that Nesterov's method repeats, (√κ − 1)/(√κ + 1).

    Examples
    --------
    >>> momentum(9.0)
    0.5
    """
    root = np.sqrt(kappa)
    return float((root - 1) / (root + 1))
