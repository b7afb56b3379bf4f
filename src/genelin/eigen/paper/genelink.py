"""GenELinK (Algorithm 2): the top-k generalized eigenspace through a linear solver."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from genelin.eigen.paper.algorithms import start_of_paper
from genelin.eigen.paper.outer_loop import Iteration, run
from genelin.eigen.run.canonical_pairs import fix_signs
from genelin.eigen.run.meter import Meter
from genelin.eigen.run.method import Method, Request
from genelin.eigen.run.outcome import Outcome
from genelin.eigen.subspace.ritz_basis import start_block
from genelin.linalg.column_products import Block, Vector
from genelin.operators import Shifted
from genelin.problems import Pencil
from genelin.results import EigenSolution, Status

__all__ = ["GenELinK"]


@dataclass(frozen=True)
class GenELinK(Iteration, Method):
    """W ← GS_B(B⁻¹AW), with B⁻¹ a warm-started black-box solve (Algorithm 2).

    Once per outer iteration every one of the k systems is reduced by the factor δ from the start
    WΓ, Γ = (WᵀBW)⁻¹WᵀAW. The basis is rotated to Ritz vectors, which leaves its span alone and
    makes Γ diagonal. See `Iteration` for the parameters.

    Parameters
    ----------
    solver, reduction, iterations, max_iter, locally_optimal, batch, scaled_start : see `Iteration`.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import GenELinK, solvers, top_k
    >>> A, B = np.diag([6.0, -8.0, 1.0]), np.diag([1.0, 2.0, 1.0])
    >>> top_k(A, B, k=2, method=GenELinK(solver=solvers.AGD())).values.round(6).tolist()
    [6.0, -4.0]
    """

    solves: ClassVar = (Pencil,)

    def solve(self, request: Request) -> EigenSolution:
        """By orthogonal iteration."""
        problem, k = request.problem, request.k
        meter = Meter(problem.data_size)
        pencil = meter.metered(problem)
        start = self._start(pencil, self.columns(k, pencil.d), request.rng)
        if pencil.which == "LM" or self.locally_optimal:
            outcome = run(pencil, start, self, request, meter)
            values = outcome.basis.theta
        else:
            outcome, values = self._run_shifted(pencil, start, request, meter)
        status = outcome.status
        if status is Status.CONVERGED and outcome.gap.none and not self.locally_optimal:
            status = Status.NO_GAP
        return EigenSolution(
            residuals=outcome.residuals,
            sin_theta_bound=outcome.gap.sine,
            status=status,
            cost=meter.cost(),
            trace=outcome.trace,
            values=values,
            vectors=fix_signs(outcome.basis.W),
            gap_certified=outcome.gap.certified,
        )

    def _start(self, pencil: Pencil, k: int, rng: np.random.Generator) -> Block:
        """W̃₀ with entries from N(0, 1), in the units of B where `scaled_start` says so."""
        return start_of_paper(pencil, k, rng, self.scaled_start)

    def _run_shifted(
        self, pencil: Pencil, start: Block, request: Request, meter: Meter
    ) -> tuple[Outcome, Vector]:
        """LA and SA: ±A + σB has the same vectors, and what is wanted on top in magnitude."""
        sign = 1.0 if pencil.which == "LA" else -1.0
        far = replace(pencil, which="SA" if sign > 0 else "LA")
        end = run(
            far,
            start_block(pencil, 1, request.rng),
            Iteration(self.solver, locally_optimal=True, max_iter=50),
            Request(far, 1, 1e-2, request.rng),
            Meter(0.0),
        )
        theta, residual = float(end.basis.theta[0]), float(end.residuals[0])
        margin = residual if np.isfinite(residual) else abs(theta)
        shift = max(0.0, margin - sign * theta)  # the far end lies above −shift
        shifted = replace(pencil, A=Shifted(pencil.A, pencil.B, shift, sign), which="LM")

        def shown(theta: Vector) -> Vector:
            return sign * (theta - shift)

        request = replace(request, k=start.shape[1])
        outcome = run(shifted, start, self, request, meter, shown)
        return outcome, shown(outcome.basis.theta)
