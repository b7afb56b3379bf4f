"""Stochastic variance-reduced gradients (Johnson & Zhang 2013), and their acceleration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from genelin.linalg.column_products import Block
from genelin.solvers.stochastic import Pace, RowState, StochasticSolver

__all__ = ["ASVRG", "SVRG"]

LONGEST = 2**22  # rows of an epoch: their numbers are held in memory


@dataclass(frozen=True)
class SVRG(StochasticSolver):
    """Variance-reduced stochastic gradients: about (n + κ̃)·log(1/δ) rows read, not n·√κ.

    An epoch takes steps c ← c − η(xᵢxᵢᵀc + reg·c − r) on single rows, or a few at a time, from
    the residual r of the point where it began; the noise of a step is in proportion to the error
    left. It ends in the mean of its later half. For B = XᵀX/n + reg·I given by rows:
    `operators.Gram`, or the covariances of two data sets.

    Parameters
    ----------
    batch : rows per step; None takes as many as cost nothing, by the smoothness of minibatches.
    sampling : "norms" draws rows in proportion to ‖xᵢ‖², for which κ̃ is mean ‖xᵢ‖²/λ_min;
        "uniform" draws them alike, with the paper's κ̃ = max ‖xᵢ‖²/λ_min.
    seed : of the samples. Solves of one `init` go on with the same random numbers.
    bounds : (α, β) around the spectrum; estimated by Lanczos on a sample of rows when None.
    max_iter : most epochs per solve.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import operators, solvers
    >>> X = np.random.default_rng(0).standard_normal((2000, 5))
    >>> B, svrg = operators.Gram(X, reg=0.1), solvers.SVRG()
    >>> solution = svrg.solve(svrg.init(B), B @ np.ones(5), np.zeros(5), reduction=1e-14)
    >>> solution.value.round(6).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """

    def _first_pace(self, state: RowState) -> Pace:
        """Rows enough for the slowest direction, if all rows are; about as many as that is cheap.

        The residual reads all rows anyway, so that an epoch of a quarter of them costs little.
        """
        n, kappa = state.rows.n, self._row_kappa(state)
        rows = min(n, max(8 * kappa, min(n / 4, 64 * kappa)), LONGEST)
        first = max(int(rows), 64 * self._batch(state))
        return Pace(first, max(first, int(min(16 * kappa, LONGEST))))

    def _epoch(self, state: RowState, r: Block, pace: Pace) -> Block:
        """The mean of steps of length 1/(2·smoothness), shorter where the pace says so."""
        rows, batch = state.rows, self._batch(state)
        sample = rows.sample(pace.rows, state.rng, by_norm=self.sampling == "norms")
        smoothness = self._row_kappa(state) * state.bounds.lower / batch
        eta = 0.5 / (smoothness * pace.slower)
        return rows.averaged_steps(r, sample, eta, batch)

    def _reaches_all(self, state: RowState, pace: Pace) -> bool:
        """Half an epoch then shrinks the error of any direction by e⁻² at least."""
        return pace.rows >= 4 * self._row_kappa(state) * pace.slower

    def _batch(self, state: RowState) -> int:
        """Rows per step: up to smoothness/λ_max of them, progress per row is about the same."""
        if self.batch is not None:
            return min(self.batch, state.rows.n)
        free = int(state.smoothness / (4.0 * state.bounds.upper))
        return max(1, min(free, state.rows.best_batch, state.rows.n))

    def _row_kappa(self, state: RowState) -> float:
        """κ̃, or b times the condition number of minibatches of b rows: L̃/b + (1 − 1/b)·λ_max."""
        smoothness = state.smoothness + (self._batch(state) - 1) * state.bounds.upper
        return smoothness / state.bounds.lower


@dataclass(frozen=True)
class ASVRG(SVRG):
    """Accelerated SVRG: about (n + √(n·κ̃))·log(1/δ) rows.

    Epochs of n rows precondition conjugate gradients: each is made B-conjugate to the last four,
    for which its noise is small enough. Where n ≫ κ̃ it does what `SVRG` does.

    Parameters
    ----------
    batch, sampling, seed, bounds, max_iter : see `SVRG`.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import CCALin, solvers, top_k_cca
    >>> rng = np.random.default_rng(0)
    >>> z = rng.standard_normal((1000, 1))
    >>> X = np.hstack([z + rng.standard_normal((1000, 1)), rng.standard_normal((1000, 4))])
    >>> Y = np.hstack([z, rng.standard_normal((1000, 4))])
    >>> pairs = top_k_cca(X, Y, k=1, reg=1e-3, method=CCALin(solver=solvers.ASVRG()))
    >>> bool(abs(pairs.correlations[0] - 0.5**0.5) < 0.03)
    True
    """

    memory: ClassVar[int] = 4

    def _first_pace(self, state: RowState) -> Pace:
        """Epochs of at most n rows."""
        first = super()._first_pace(state).rows
        return Pace(first, first)
