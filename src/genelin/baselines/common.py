"""What all baselines share: covariances on one meter, canonical pairs of two spans, the ending."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import svd

from genelin.eigen.certify.residual_check import ResidualCheck
from genelin.eigen.run.canonical_pairs import canonical_solution, mirrored
from genelin.eigen.run.checkpointer import State
from genelin.eigen.run.meter import Meter, guarded
from genelin.eigen.run.method import Method, Request
from genelin.eigen.subspace.ritz_basis import Products, RitzBasis
from genelin.linalg import column_dots, orthonormalise
from genelin.linalg.column_products import Block, Vector
from genelin.operators import BlockDiagonal, Counting, OffDiagonal, Operator
from genelin.problems import Pencil, TwoView
from genelin.results import CCASolution, Record, Status, Trace
from genelin.solvers import CG
from genelin.system.cached import cached_property
from genelin.validation import check_count, settle

__all__ = ["Baseline", "Covariances", "Pairs", "Run", "check_ending"]

STALE = 1000  # iterations without one per cent of progress


@dataclass(frozen=True)
class Pairs:
    """Canonical pairs between two spans: W orthonormal in S, WₓᵀS_xyW_y = diag σ, with products.

    Blocks of (d₁ + d₂, m): W = (W_x; W_y), AW = (S_xyW_y; S_yxW_x), BW = (S_xW_x; S_yW_y).
    """

    sigma: Vector
    W: Block
    AW: Block
    BW: Block

    @property
    def residual(self) -> Block:
        """(S_xyψ − σS_xφ; S_yxφ − σS_yψ)."""
        return self.AW - self.BW * self.sigma

    def head(self, k: int) -> Pairs:
        """The first k."""
        return Pairs(self.sigma[:k], self.W[:, :k], self.AW[:, :k], self.BW[:, :k])


class Baseline(Method):
    """A method for two views to compare with."""

    solves: ClassVar = (TwoView,)


class Covariances:
    """S_x, S_y and S_xy of a problem on one meter, by the rule of `Cost`.

    Views of deficient rank are taken as they are: spans never leave the range of S.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.problem: TwoView = request.problem
        problem, self.rng = self.problem, request.rng
        self.meter = Meter(problem.data_size, problem.setup)
        counter = self.meter.counter
        self.S_x, self.S_y, self.S_xy = (
            Counting(operator, counter) for operator in (problem.S_x, problem.S_y, problem.S_xy)
        )
        blocks = BlockDiagonal((problem.S_x, problem.S_y))
        self.pencil = self.meter.metered(Pencil(OffDiagonal(problem.S_xy), blocks))
        self.d1 = problem.splits[0]
        self.spent: Record  # by a one-shot method

    @property
    def d(self) -> int:
        """d₁ + d₂."""
        return self.pencil.d

    def halves(self, V: Block) -> tuple[Block, Block]:
        """The parts of a stacked block."""
        return V[: self.d1], V[self.d1 :]

    def count_dense(self, flops: float) -> None:
        """Work on blocks beside the products."""
        self.meter.counter.flops += flops

    def scale(self) -> Vector:
        """Standard deviations of all features, ridge included; 1 where there is none."""
        diagonal = np.concatenate([self.problem.S_x.diagonal(), self.problem.S_y.diagonal()])
        return np.sqrt(np.where(diagonal > 0, diagonal, 1.0))

    def start(self, m: int) -> Block:
        """A Gaussian block in the units of the features."""
        return np.asarray(self.rng.standard_normal((self.d, m)) / self.scale()[:, None])

    @cached_property
    def _check(self) -> ResidualCheck:
        cg = CG()
        return ResidualCheck(self.pencil, cg, cg.init(self.pencil.B))

    def residuals(self, pairs: Pairs) -> Vector:
        """Upper bounds on the residuals of (φ, ψ)/√2 in the B⁻¹-norm."""
        return self._check.residuals(_ritz_basis(pairs))

    def rotated(self, W: Block, AW: Block, BW: Block) -> Pairs:
        """Canonical pairs from halves that are orthonormal already."""
        left, sigma, right = svd(W[: self.d1].T @ AW[: self.d1], full_matrices=False)

        def turned(V: Block, first: Block, second: Block) -> Block:
            x, y = self.halves(V)
            return np.vstack([x @ first, y @ second])

        L, R = left, right.T
        return Pairs(sigma, turned(W, L, R), turned(AW, R, L), turned(BW, L, R))

    def pairs(self, Zx: Block, Zy: Block, k: int) -> Pairs:
        """The k leading canonical pairs between span(Zx) and span(Zy).

        What was spent is noted before S_yxΦ, which only the certificate needs.
        """
        (Wx, SWx), (Wy, SWy) = _basis(Zx, self.S_x, k), _basis(Zy, self.S_y, k)
        to_x = self.S_xy @ Wy
        left, sigma, right = svd(Wx.T @ to_x, full_matrices=False)
        m = min(k, len(sigma))
        left, right = left[:, :m], right[:m].T
        self.count_dense(14.0 * (Zx.size * Zx.shape[1] + Zy.size * Zy.shape[1]))
        self.spent = self.meter.record(1, 0, 0.0, guarded(sigma[:m]))
        Wx, to_y = Wx @ left, self.S_xy.T @ (Wx @ left)
        W, AW = np.vstack([Wx, Wy @ right]), np.vstack([to_x @ right, to_y])
        return Pairs(sigma[:m], W, AW, np.vstack([SWx @ left, SWy @ right]))

    def solution(
        self,
        pairs: Pairs,
        reason: Status,
        records: list[Record],
        residuals: Vector | None = None,
    ) -> CCASolution:
        """The pairs with their certificate: CONVERGED only if they meet `tol` and none was missed.

        Else `reason` says why they ended. The gap is searched only for pairs that meet `tol`.
        """
        residuals = self.residuals(pairs) if residuals is None else residuals
        status, sine = reason, 1.0
        if residuals.max() <= self.request.tol * pairs.sigma[0]:
            both = mirrored(self.pencil, _ritz_basis(pairs))
            gap = self._check.gap(both, np.concatenate([residuals, residuals]), self.rng)
            sine = gap.sine
            if not gap.missed:
                status = Status.NO_GAP if gap.none else Status.CONVERGED
        elif reason is Status.CONVERGED:
            status = Status.STAGNATED
        Phi, Psi = self.halves(pairs.W)
        found = (pairs.sigma, Phi, Psi)
        solution = canonical_solution(self.problem, found, residuals, sine, status, self.meter)
        return replace(solution, trace=Trace(records))

    def one_shot(self, pairs: Pairs) -> CCASolution:
        """The solution of a method without iterations: one record, of what it cost by itself."""
        residuals = self.residuals(pairs)
        record = replace(self.spent, residual=float(residuals.max()) / _largest(pairs.sigma))
        if self.request.callback is not None:
            self.request.callback(record, guarded(pairs.W / np.sqrt(2.0)))
        return self.solution(pairs, Status.ONE_SHOT, [record], residuals)


class Run:
    """The records of an iterative baseline, and when it ends.

    The residual on record is an estimate, with the diagonal of S in place of S. Where it meets
    `tol`, it is verified by solves with S, and trusted less if they disagree.
    """

    def __init__(self, covariances: Covariances, iterations: int | None, max_iter: int) -> None:
        self.covariances, request = covariances, covariances.request
        self.k, self.tol, self.callback = request.k, request.tol, request.callback
        self.iterations, self.max_iter, self.checkpoint = iterations, max_iter, request.checkpoint
        self.records: list[Record] = []
        self.verified: Vector | None = None
        self._scale = covariances.scale()[:, None]
        self._distrust, self._best, self._since = 1.0, np.inf, 0

    def load(self) -> Mapping[str, Block]:
        """The blocks with which an earlier run has ended, to go on from there; none at first."""
        left = self.checkpoint.load()
        if left is None:
            return {}
        with self.checkpoint.resuming():
            self.covariances.meter.carry(left.cost)
            self.records = list(left.trace)
            distrust, best, since = left.numbers["verdict"]
            self._distrust, self._best, self._since = float(distrust), float(best), int(since)
        return left.arrays

    def save(self, **blocks: Block) -> None:
        """Note the blocks from which the next iteration begins."""
        numbers = {"verdict": [self._distrust, self._best, self._since]}
        self.checkpoint.save(State(blocks, numbers, self.records, self.covariances.meter.cost()))

    def verdict(self, pairs: Pairs, inner: int = 0) -> Status | None:
        """Record an iteration; None to go on, else why it ends."""
        pairs = pairs.head(self.k)
        scaled = pairs.residual / self._scale
        estimate = float(np.sqrt(column_dots(scaled, scaled).max() / 2)) / _largest(pairs.sigma)
        t = len(self.records) + 1
        self.records.append(self.covariances.meter.record(t, inner, estimate, guarded(pairs.sigma)))
        self.verified = None
        W = guarded(pairs.W / np.sqrt(2.0))
        if self.callback is not None and self.callback(self.records[-1], W):
            return Status.STOPPED
        if self.iterations is not None:
            return Status.FIXED_ITERATIONS if t >= self.iterations else None
        if estimate * self._distrust <= self.tol and self._agrees(pairs, estimate):
            return Status.CONVERGED
        if self._is_stale(estimate):
            return Status.STAGNATED
        return Status.MAX_ITERATIONS if t >= self.max_iter else None

    def _is_stale(self, estimate: float) -> bool:
        """Whether the estimate has not fallen by one per cent for long."""
        if estimate < 0.99 * self._best:
            self._best, self._since = estimate, 0
        else:
            self._since += 1
        return self._since >= STALE

    def _agrees(self, pairs: Pairs, estimate: float) -> bool:
        """Whether the true residuals meet `tol`."""
        self.verified = self.covariances.residuals(pairs)
        relative = float(self.verified.max()) / _largest(pairs.sigma)
        if relative <= self.tol:
            return True
        ratio = relative / max(estimate, 1e-300)
        self._distrust = max(2.0 * self._distrust, ratio if np.isfinite(ratio) else 0.0)
        self.verified = None
        return False


def check_ending(settings: Any) -> None:
    """Refuse counts of iterations that are none."""
    settle(settings, check_count, "max_iter")
    settle(settings, check_count, "iterations", optional=True)


def _basis(Z: Block, S: Operator, k: int) -> tuple[Block, Block]:
    """An S-orthonormal basis of span(Z), filled up at random if that has fewer than k columns."""
    W, SW = orthonormalise(Z, S)
    if W.shape[1] >= k:
        return W, SW
    return orthonormalise(Z, S, spare=np.random.default_rng(0).standard_normal(Z.shape))


def _largest(sigma: Vector) -> float:
    """σ₁, and something above zero where nothing correlates."""
    return max(float(sigma.max()), 1e-300)


def _ritz_basis(pairs: Pairs) -> RitzBasis:
    """(φ; ψ)/√2 with values σ, as Ritz vectors of the block pair."""
    root = np.sqrt(2.0)
    return RitzBasis(Products(pairs.W / root, pairs.AW / root, pairs.BW / root), pairs.sigma)
