"""CCALin (Algorithm 3): canonical correlations through the top-2k space of the block pair."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from scipy.linalg import svd

from genelin.eigen.paper.algorithms import halves_projected, start_of_paper
from genelin.eigen.paper.outer_loop import Iteration, run
from genelin.eigen.run.canonical_pairs import canonical_solution
from genelin.eigen.run.meter import Meter
from genelin.eigen.run.method import Method, Request
from genelin.eigen.run.outcome import Outcome
from genelin.eigen.subspace.ritz_basis import Products, RitzBasis, within_range
from genelin.errors import too_many_pairs
from genelin.linalg import orthonormalise
from genelin.linalg.column_products import Block, Vector
from genelin.operators import Operator
from genelin.problems import Pencil, TwoView
from genelin.results import CCASolution, Status
from genelin.validation import check_choice

__all__ = ["CCALin"]


@dataclass(frozen=True)
class CCALin(Iteration, Method):
    """CCA by GenELinK on A = [0, S_xy; S_yx, 0], B = diag(S_x, S_y) (Algorithm 3).

    The systems in S_x and S_y are solved separately, so a view's scale does not matter.

    Parameters
    ----------
    solver, reduction, iterations, max_iter, locally_optimal, batch, scaled_start : see `Iteration`.
    projection : "ritz" takes the best k pairs that the halves of the 2k-dimensional space hold;
        "random" is the paper's Gaussian projection to k dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import CCALin, solvers, top_k_cca
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.standard_normal((300, 2))
    >>> X = np.hstack([Z, rng.standard_normal((300, 3))])
    >>> Y = np.hstack([Z[:, :1], rng.standard_normal((300, 3))])
    >>> pairs = top_k_cca(X, Y, k=1, method=CCALin(solver=solvers.AGD()))
    >>> pairs.correlations.round(6).tolist()
    [1.0]
    """

    solves: ClassVar = (TwoView,)

    projection: Literal["ritz", "random"] = "ritz"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("projection", self.projection, "ritz", "random")

    def solve(self, request: Request) -> CCASolution:
        """By orthogonal iteration on the block pair."""
        problem, k, rng = request.problem, request.k, request.rng
        meter = Meter(problem.data_size, problem.setup)
        pencil = meter.metered(problem.pencil)
        scaled = self.scaled_start is not False  # so that the scale of a view does not matter
        start = start_of_paper(pencil, self.columns(2 * k, pencil.d), rng, scaled)
        if problem.semidefinite and not request.checkpoint.resumed:
            start = within_range(pencil, start)
        goal = self._block_tol(request.tol, k)
        outcome = run(pencil, start, self, replace(request, k=2 * k, tol=goal), meter)
        Wx, Wy = np.split(outcome.basis.W, [pencil.B.diagonal_blocks[0].shape[0]])
        if self.projection == "random":
            Wx, Wy = halves_projected(outcome.basis.W, len(Wx), k, rng)
        pairs = _canonical_pairs(pencil, Wx, Wy, k)
        if len(pairs[0]) < k:
            raise too_many_pairs(k, len(pairs[0]))
        return self._conclude(request, pencil, pairs, outcome, meter)

    def _block_tol(self, tol: float, k: int) -> float:
        """Tolerance for the 2k-space: a random projection may lose k²/ζ² (Lemma 14, ζ = 0.1)."""
        return tol if self.projection == "ritz" else max(0.01 * tol / k**2, 1e-13)

    def _conclude(
        self,
        request: Request,
        pencil: Pencil,
        pairs: tuple[Vector, Block, Block],
        outcome: Outcome,
        meter: Meter,
    ) -> CCASolution:
        """Residuals, angle and status of the pairs themselves, not of the 2k-space."""
        problem, tol = request.problem, request.tol
        sigma, Phi, Psi = pairs
        both = _block_basis(pencil, sigma, Phi, Psi)
        residuals = outcome.check.residuals(both.head(len(sigma)))
        twice = np.concatenate([residuals, residuals])
        gap = outcome.check.gap(both, twice, request.rng, seen=outcome.gap.vectors)
        residuals = residuals + gap.hidden[: len(sigma)]
        status = outcome.status
        if residuals.max() <= tol * sigma[0]:
            status = Status.NO_GAP if gap.none and not self.locally_optimal else Status.CONVERGED
        elif status is Status.CONVERGED:
            status = Status.STAGNATED
        pairs = (sigma, *problem.lift(Phi, Psi))
        return canonical_solution(problem, pairs, residuals, gap.sine, status, meter, outcome)


def _canonical_pairs(pencil: Pencil, Wx: Block, Wy: Block, k: int) -> tuple[Vector, Block, Block]:
    """Orthonormal bases of the halves, and the SVD of the cross-covariance between them.

    Of the 2k columns of a half only k are independent in the end: GS drops the rest.
    """
    S_x, S_y = pencil.B.diagonal_blocks
    Wx, Wy = _half(Wx, S_x, k), _half(Wy, S_y, k)
    d1 = len(Wx)
    AW = pencil.A @ np.vstack([np.zeros((d1, Wy.shape[1])), Wy])
    left, sigma, right = svd(Wx.T @ AW[:d1], full_matrices=False)
    return sigma[:k], Wx @ left[:, :k], Wy @ right[:k].T


def _half(W: Block, S: Operator, k: int) -> Block:
    """An S-orthonormal basis of a half, of k columns at least."""
    basis, _ = orthonormalise(W, S, drop=1e-10)
    if basis.shape[1] < k:
        basis, _ = orthonormalise(W, S)
    if basis.shape[1] < k:
        fresh, diagonal = np.random.default_rng(0).standard_normal((len(W), k)), S.diagonal()
        if S.lambda_min_bound > 0 and diagonal is not None:
            fresh /= np.sqrt(diagonal)[:, None]
        else:  # what S itself makes of random columns lies in its range
            fresh = S @ fresh
            fresh /= np.maximum(np.abs(fresh).max(axis=0), 1e-300)
        basis, _ = orthonormalise(basis, S, spare=fresh, columns=k)
    return basis


def _block_basis(pencil: Pencil, sigma: Vector, Phi: Block, Psi: Block) -> RitzBasis:
    """(φ, ψ)/√2 and (−φ, ψ)/√2: Ritz vectors of the block pair with values σ and −σ."""
    W = np.block([[Phi, -Phi], [Psi, Psi]]) / np.sqrt(2.0)
    products = Products(W, pencil.A @ W, pencil.B @ W)
    return RitzBasis(products, np.concatenate([sigma, -sigma]))
