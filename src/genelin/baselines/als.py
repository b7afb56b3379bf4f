"""Alternating least squares with momentum (Xu & Li 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import svdvals

from genelin.baselines.common import Baseline, Covariances, Run, check_ending
from genelin.eigen.run.method import Request
from genelin.linalg import orthonormalise
from genelin.linalg.column_products import Block
from genelin.operators import Operator
from genelin.results import CCASolution
from genelin.solvers import CG, LinearSolver, as_solver
from genelin.validation import check_count, check_number, settle

__all__ = ["MomentumALS"]

Rng = np.random.Generator | int | None


@dataclass(frozen=True)
class MomentumALS(Baseline):
    """Φ ← S_x⁻¹S_xyΨ − βΦ, then Ψ ← S_y⁻¹S_yxΦ − βΨ, each made orthonormal (Xu & Li 2019, FALS).

    Every half sees the newest other half. S⁻¹ is a warm-started solve, as in `CCALin`. The best β
    is σ²_{k+1}/4; by default σ_{k+1} is estimated with a guard column, in place of their own rule.

    Parameters
    ----------
    solver : a solver of `genelin.solvers`, or a function f(B, b, u0, delta) -> u1.
    reduction : δ, the factor by which every solve reduces the squared error.
    momentum : β; None follows the estimate, 0 is plain alternating least squares (TALS).
    guards : columns beyond k that serve this estimate; at least one if momentum is None.
    iterations : run exactly so many; None stops on `tol`.
    max_iter : most iterations when stopping on `tol`.

    Examples
    --------
    >>> from genelin import top_k_cca
    >>> from genelin.baselines import MomentumALS
    >>> from genelin.datasets import two_view_gaussian
    >>> X, Y = two_view_gaussian(2000, d=8, correlations=[0.9, 0.7], kappa=100.0)
    >>> top_k_cca(X, Y, k=2, method=MomentumALS()).converged
    True
    """

    solver: Any = CG()  # noqa: RUF009 - frozen
    reduction: float = 1e-2
    momentum: float | None = None
    guards: int = 1
    iterations: int | None = None
    max_iter: int = 2000

    def __post_init__(self) -> None:
        as_solver(self.solver)
        check_ending(self)
        settle(self, check_number, "reduction", least=0, below=1)
        limits = {"least": 0, "below": 0.25, "otherwise": ", or be None"}
        settle(self, check_number, "momentum", optional=True, **limits)
        settle(self, check_count, "guards", least=1 if self.momentum is None else 0)

    def solve(self, request: Request) -> CCASolution:
        """By alternating least squares."""
        problem, k = request.problem, request.k
        covariances = Covariances(request)
        m = min(k + self.guards, *problem.splits)
        run = Run(covariances, self.iterations, self.max_iter)
        solver = as_solver(self.solver)
        start = covariances.start(m)
        views = (covariances.S_x, covariances.S_y)
        x, y = (
            _Half(S, part, k, solver)
            for S, part in zip(views, covariances.halves(start), strict=True)
        )
        if left := run.load():
            x.set(left["x"], left["x_older"])
            y.set(left["y"], left["y_older"])
        to_y = covariances.S_xy.T @ x.W
        while True:
            to_x = covariances.S_xy @ y.W
            sigma = svdvals(x.W.T @ to_x)
            (Wx, SWx), (Wy, SWy) = ((half.W[:, :k], half.SW[:, :k]) for half in (x, y))
            blocks = ((Wx, Wy), (to_x[:, :k], to_y[:, :k]), (SWx, SWy))
            pairs = covariances.rotated(*(np.vstack(block) for block in blocks))
            covariances.count_dense(14.0 * covariances.d * m**2 + 10.0 * m * (x.work + y.work))
            reason = run.verdict(pairs, x.steps + y.steps)
            if reason is not None:
                return covariances.solution(pairs, reason, run.records, run.verified)
            following = float(sigma[k]) if k < len(sigma) else 0.0
            beta = following**2 / 4 if self.momentum is None else self.momentum
            # Ritz vectors, so that every column is warm-started by itself.
            turn = SWy.T @ covariances.halves(pairs.W)[1]
            x.turn(SWx.T @ covariances.halves(pairs.W)[0])
            y.turn(turn)
            x.older, to_x[:, :k] = x.older @ turn, to_x[:, :k] @ turn
            y.older = y.W[:, :k] @ x.improve(to_x, beta, self.reduction)
            to_y = covariances.S_xy.T @ x.W
            x.older = x.W[:, :k] @ y.improve(to_y, beta, self.reduction)
            run.save(x=x.W.copy(), y=y.W.copy(), x_older=x.older, y_older=y.older)


class _Half:
    """One view: W orthonormal in S, first k columns with momentum, then guards without.

    `older` is what the k columns were before the other half was last divided by R.
    """

    def __init__(self, S: Operator, start: Block, k: int, solver: LinearSolver) -> None:
        self._S, self._k, self._solver, self._state = S, k, solver, solver.init(S)
        self.W, self.SW = orthonormalise(start, S, spare=start)
        self.older: Block = np.zeros_like(self.W[:, :k])
        self.steps, self.work = 0, 0.0

    def set(self, W: Block, older: Block) -> None:
        """Go on from the columns of an earlier run."""
        self.W, self.SW, self.older = W, self._S @ W, older

    def turn(self, Q: Block) -> None:
        """Rotate the k columns."""
        for V in (self.W, self.SW):
            V[:, : self._k] = V[:, : self._k] @ Q

    def improve(self, to: Block, beta: float, reduction: float) -> Block:
        """W ← the orthonormal part of Z = S⁻¹·to − β·older; returns R⁻¹, Z = WR.

        The other half divided by R keeps the recurrence p ← Mp − β·p₋₁ of unnormalised blocks.
        Guards are S⁻¹·to, made orthogonal to W: they do not act on the recurrence.
        """
        k, warm = self._k, self.W.T @ to
        residual = to - self.SW @ warm
        solution = self._solver.solve(self._state, to, self.W @ warm, reduction, residual=residual)
        self.steps, self.work = solution.iterations, float(solution.iterations * len(to))
        Z = solution.value[:, :k] - beta * self.older
        SZ = self._S @ Z
        W, SW = orthonormalise(Z, self._S, SZ, spare=self.W[:, :k])
        guards = solution.value[:, k:]
        for _ in range(2):
            guards = guards - W @ (SW.T @ guards)
        guards, SG = orthonormalise(guards, self._S, spare=self.W[:, k:])
        self.W, self.SW = np.hstack([W, guards]), np.hstack([SW, SG])
        return np.asarray(np.linalg.pinv(W.T @ SZ, rcond=1e-12))
