"""Accelerated gradient descent on minibatches that grow, as in the paper's large experiment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genelin.linalg.column_products import Block
from genelin.solvers.agd import momentum
from genelin.solvers.stochastic import Pace, RowState, StochasticSolver

__all__ = ["MinibatchAGD"]


@dataclass(frozen=True)
class MinibatchAGD(StochasticSolver):
    """Accelerated gradient descent whose every gradient sees a fresh minibatch of rows.

    An epoch is a run of accelerated steps from an exact residual, so that the noise of a minibatch
    is in proportion to the error left. Where it is still too much, minibatches grow, in the end to
    all rows: then it is `AGD`.

    Parameters
    ----------
    batch : rows of the first minibatches; None shares n rows among the steps of the first epoch.
    sampling, seed, bounds, max_iter : see `SVRG`.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import operators, solvers
    >>> X = np.random.default_rng(0).standard_normal((2000, 5))
    >>> B, agd = operators.Gram(X, reg=0.1), solvers.MinibatchAGD(batch=200)
    >>> solution = agd.solve(agd.init(B), B @ np.ones(5), np.zeros(5), reduction=1e-14)
    >>> solution.value.round(6).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """

    def _first_pace(self, state: RowState) -> Pace:
        """As many rows as the minibatches asked for, or n; in the end √κ steps with all rows."""
        n, steps = state.rows.n, self._steps(state)
        first = n if self.batch is None else min(self.batch, n) * steps
        return Pace(min(first, n * steps), n * steps)

    def _steps(self, state: RowState) -> int:
        """T with 2·exp(−T/√Q) ≤ 1/10 (Theorem 8)."""
        return int(np.ceil(3.0 * np.sqrt(state.bounds.kappa)))

    def _reaches_all(self, state: RowState, pace: Pace) -> bool:
        """Whether all the steps are taken that theory asks for."""
        return self._split(state, pace)[0] >= self._steps(state) and pace.slower == 1.0

    def _split(self, state: RowState, pace: Pace) -> tuple[int, int]:
        """Steps of an epoch, and rows per step."""
        n = state.rows.n
        smallest = min(n, self.batch or max(64, n // 64))
        steps = int(np.clip(pace.rows // smallest, 1, self._steps(state)))
        return steps, min(pace.rows // steps, n)

    def _epoch(self, state: RowState, r: Block, pace: Pace) -> Block:
        """y₊ ← x + (r − B̂x)/β, x ← y₊ + momentum·(y₊ − y), with a fresh B̂ in every step."""
        rows, (steps, batch) = state.rows, self._split(state, pace)
        beta = state.smoothness / batch * (batch < rows.n) + state.bounds.upper
        beta *= pace.slower
        Q = min(beta / state.bounds.lower, (steps / 3.0) ** 2 + 1.0)
        x, y = np.zeros_like(r), np.zeros_like(r)
        for _ in range(steps):
            if batch == rows.n:
                gradient = state.operator @ x - r
            else:
                sample = rows.sample(batch, state.rng, by_norm=self.sampling == "norms")
                gradient = rows.estimate(x, sample) - r
            y_next = x - gradient / beta
            x, y = y_next + momentum(Q) * (y_next - y), y_next
        return y
