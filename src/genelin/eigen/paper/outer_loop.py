"""The outer loop of the paper: orthogonal iteration on B⁻¹A, every B⁻¹ a warm-started solve."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from genelin.eigen.certify.residual_check import Gap, ResidualCheck
from genelin.eigen.paper.algorithms import IterationState, genelink, gram_schmidt, with_last_step
from genelin.eigen.paper.row_subsampling import RowSubsampling
from genelin.eigen.run.checkpointer import Checkpointer, State, restore
from genelin.eigen.run.meter import Meter, guarded
from genelin.eigen.run.method import Request
from genelin.eigen.run.outcome import Outcome
from genelin.eigen.subspace.ritz_basis import (
    RitzBasis,
    first_basis,
    refreshed,
    start_block,
)
from genelin.linalg import magnitudes
from genelin.linalg.column_products import Block, Vector
from genelin.problems import Pencil
from genelin.results import Record, Status, Trace
from genelin.solvers import CG, as_solver
from genelin.validation import check_count, check_flag, check_number, settle

__all__ = ["Iteration", "run"]

PATIENCE = 50  # outer iterations without one per cent of progress


@dataclass(frozen=True)
class Iteration:
    """Settings shared by GenELin, GenELinK and CCALin.

    Parameters
    ----------
    solver : a solver of `genelin.solvers`, or a function f(B, b, u0, delta) -> u1.
    reduction : δ, the factor by which every solve reduces the squared B-norm error: a number, or
        a function of the outer iteration such as `theory.TwoPhase`.
    iterations : run exactly so many outer iterations, as in the paper; None stops on `tol`.
    max_iter : most outer iterations when stopping on `tol`.
    locally_optimal : keep the best of span[W, B⁻¹AW, last step] instead of B⁻¹AW alone, with a
        few guard columns. Beyond the paper: faster, and λ and −λ are told apart.
    batch : take outer iterations on fresh subsets of so many rows, which double when they no
        longer help, until all rows are used (the remark in §4.1). None: all rows from the start.
    scaled_start : whether random columns are in the units of B (of its diagonal, and of each view),
        which the paper's Gaussian start is not; None: of views, and where units differ by more than
        ten.
    """

    solver: Any = CG()  # noqa: RUF009 - frozen
    reduction: float | Callable[[int], float] = 1e-4
    iterations: int | None = None
    max_iter: int = 2000
    locally_optimal: bool = False
    batch: int | None = None
    scaled_start: bool | None = None

    def __post_init__(self) -> None:
        as_solver(self.solver)
        if not callable(self.reduction):
            otherwise = ", or be a function of iterations"
            settle(self, check_number, "reduction", least=0, below=1, otherwise=otherwise)
        settle(self, check_count, "max_iter")
        settle(self, check_count, "iterations", "batch", optional=True)
        settle(self, check_flag, "locally_optimal")
        settle(self, check_flag, "scaled_start", optional=True)

    def columns(self, k: int, d: int) -> int:
        """Columns to iterate for k wanted pairs: k, and guards in a locally optimal run."""
        return min(k + max(2, k // 4), d) if self.locally_optimal else k

    def dense_flops(self, d: int, k: int, inner: int) -> float:
        """Work on (d, k) blocks in one outer iteration, by the rule of `Cost`."""
        return (40.0 if self.locally_optimal else 14.0) * d * k**2 + 10.0 * d * k * inner

    def delta(self, t: int) -> float:
        """δ of outer iteration t, counted from 0."""
        return self.reduction(t) if callable(self.reduction) else self.reduction


def run(
    pencil: Pencil,
    start: Block,
    settings: Iteration,
    request: Request,
    meter: Meter,
    shown: Callable[[Vector], Vector] = lambda theta: theta,
) -> Outcome:
    """Iterate from `start`, or from where an earlier run was, until its first k pairs are good.

    `pencil` is metered; `shown` undoes a shift of its eigenvalues.
    """
    k, tol, rng, checkpoint = request.k, request.tol, request.rng, request.checkpoint
    solver, subsets = as_solver(settings.solver), RowSubsampling(pencil, settings.batch, rng)
    factor = solver.init(pencil.B)
    check, monitor = ResidualCheck(pencil, solver, factor), _Monitor(settings, tol)
    start, direction, records = _resumed(checkpoint, start, meter, monitor, subsets)
    part = subsets.draw() if subsets.active else pencil
    basis = first_basis(part, start, direction)
    advance = with_last_step if settings.locally_optimal else gram_schmidt
    while True:
        of_part = factor if part is pencil else solver.init(part.B)
        for state in genelink(
            part, basis, solver, of_part, settings.delta, advance, first=len(records)
        ):
            basis = state.basis
            records.append(_recorded(state, settings, request, meter, shown))
            reason = monitor.reason(pencil, state, records[-1], part is pencil)
            reason = _stopped(request, records[-1], basis) or reason
            subsets.update(records[-1].residual)
            if reason is not None:
                break
            arrays = basis.arrays if part is pencil else {"W": basis.W}
            checkpoint.save(State(arrays, monitor.numbers | subsets.numbers, records, meter.cost()))
            if part is not pencil:  # other rows for the next iteration, or all of them
                break
        if reason is None:
            part = subsets.draw() if subsets.active else pencil
            basis = first_basis(part, basis.W)
            continue
        part, basis = pencil, refreshed(pencil, basis)
        pairs = basis.head(k)
        residuals, top = check.residuals(pairs), _largest(shown(pairs.theta))
        good = bool(residuals.max() <= tol * top)
        if not good and reason is Status.CONVERGED:
            if monitor.overrules(residuals, top):
                continue
            reason = Status.SOLVER_FAILED
        gap = check.gap(pairs, residuals, rng)
        if good and gap.missed and monitor.starts_over():
            width = basis.W.shape[1]
            basis = first_basis(pencil, np.hstack([gap.vectors, basis.W])).head(width)
            continue
        narrowly = reason is Status.CONVERGED and gap.narrowly(residuals, tol * top)
        residuals = residuals + gap.hidden
        if narrowly and monitor.overrules(residuals, top):
            continue
        status = _ending(good, residuals.max() <= tol * top, gap, reason)
        return Outcome(pairs, residuals, gap, status, Trace(records), check)


def _recorded(
    state: IterationState,
    settings: Iteration,
    request: Request,
    meter: Meter,
    shown: Callable[[Vector], Vector],
) -> Record:
    """The record of an outer iteration, whose work on blocks is counted."""
    inner, theta = state.solution.iterations, shown(state.basis.theta[: request.k])
    d, width = state.basis.W.shape
    meter.counter.flops += settings.dense_flops(d, width, inner)
    relative = float(state.estimates[: request.k].max()) / _largest(theta)
    return meter.record(state.t + 1, inner, relative, guarded(theta))


def _stopped(request: Request, record: Record, basis: RitzBasis) -> Status | None:
    """Whether the callback wants to stop."""
    tell = request.callback
    if tell is not None and tell(record, guarded(basis.W[:, : request.k])):
        return Status.STOPPED
    return None


def _ending(good: bool, surely: bool, gap: Gap, reason: Status) -> Status:
    """How a run ends whose residuals are `good`, `surely` so with what rounding may hide."""
    if not good:
        return reason
    if not surely:
        return Status.STAGNATED
    # Missed time and again: what comes next cannot be told from these pairs.
    return Status.NO_GAP if gap.missed else Status.CONVERGED


def _resumed(
    checkpoint: Checkpointer, start: Block, meter: Meter, monitor: _Monitor, subsets: RowSubsampling
) -> tuple[Block, Block | None, list[Record]]:
    """Where to begin, with which direction and records: at `start`, or where an earlier run was."""
    left = checkpoint.load()
    if left is None:
        return start, None, []
    with checkpoint.resuming():
        meter.carry(left.cost)
        monitor.set(left.numbers)
        subsets.set(left.numbers)
        W, direction = left.arrays["W"], left.arrays.get("direction")
        if W.shape != start.shape or (direction is not None and len(direction) != len(start)):
            raise ValueError(f"a block of shape {W.shape}, expected {start.shape}")
        return W, direction, list(left.trace)


def _largest(theta: Vector) -> float:
    """|θ₁|, and something above zero where A is zero."""
    return max(float(np.abs(theta).max()), 1e-300)


class _Monitor:
    """Decides when to stop, and why."""

    kept = ("best", "since", "next_look", "seen", "distrust", "overruled", "misses", "restarts")

    def __init__(self, settings: Iteration, tol: float) -> None:
        self.settings, self.tol = settings, tol
        self.best, self.since = np.inf, 0
        self.next_look, self.seen = PATIENCE, np.inf
        self.distrust, self.overruled = 1.0, 0
        self.misses, self.restarts = 0, 0

    @property
    def numbers(self) -> dict[str, float]:
        """All that it remembers."""
        return {name: getattr(self, name) for name in self.kept}

    def set(self, numbers: Mapping[str, Any]) -> None:
        """Remember what an earlier run did."""
        restore(self, self.kept, numbers)

    def reason(
        self, pencil: Pencil, state: IterationState, record: Record, whole: bool
    ) -> Status | None:
        """Why the run ends after this iteration, on the whole of the rows or not; None to go on."""
        spent = self.spent(record)
        if not whole or spent is Status.FIXED_ITERATIONS:
            return spent
        return self.verdict(pencil, record, state.basis, state.solution.converged)

    def verdict(
        self, pencil: Pencil, record: Record, basis: RitzBasis, reduced: bool
    ) -> Status | None:
        """None to go on; CONVERGED if the estimates say so; else the reason to give up."""
        if self.settings.iterations is not None:
            return None
        estimate = record.residual * self.distrust
        self._watch(estimate)
        if estimate <= self._target(record.ritz_values):
            return Status.CONVERGED
        if estimate <= self.tol and self.since >= PATIENCE // 5:
            return Status.CONVERGED
        self.misses = 0 if reduced else self.misses + 1
        if min(self.misses, self.since) >= PATIENCE // 10:
            return Status.SOLVER_FAILED
        if self.since >= PATIENCE and estimate < 1e-5:
            return Status.STAGNATED
        last = record.iteration >= self.settings.max_iter
        suspicious = self._is_slow(record.iteration, estimate) or last
        suspicious = suspicious and not self.settings.locally_optimal
        if suspicious and no_gap_at(pencil, basis, self.settings.solver):
            return Status.NO_GAP
        return Status.MAX_ITERATIONS if last else None

    def spent(self, record: Record) -> Status | None:
        """Whether all the iterations are done that were asked for, or allowed."""
        if self.settings.iterations is not None:
            return Status.FIXED_ITERATIONS if record.iteration >= self.settings.iterations else None
        return Status.MAX_ITERATIONS if record.iteration >= self.settings.max_iter else None

    def _is_slow(self, iteration: int, estimate: float) -> bool:
        """After 50, 100, 200, … iterations: whether the estimate has not halved since."""
        if iteration < self.next_look:
            return False
        before, self.seen = self.seen, estimate
        self.next_look *= 2
        return estimate > 0.5 * min(before, 1.0)

    def _watch(self, estimate: float) -> None:
        if estimate < 0.99 * self.best:
            self.best, self.since = estimate, 0
        else:
            self.since += 1

    def _target(self, theta: Vector) -> float:
        """tol·|θ_k|/|θ₁|, so that sin θ ≤ tol/ρ; at most a thousand times below tol."""
        sizes = np.abs(theta)
        largest = float(sizes.max())
        spread = float(sizes.min()) / largest if largest > 0 else 1.0
        return self.tol * min(max(spread, 1e-3), 1.0)

    def overrules(self, residuals: Vector, top: float) -> bool:
        """The check saw more than the estimate: trust it less and go on, three times at most."""
        self.overruled += 1
        verified = float(residuals.max()) / top
        self.distrust *= max(2.0, verified / max(self.best, 1e-300))
        self.best, self.since = np.inf, 0
        return self.overruled <= 3 and np.isfinite(self.distrust)

    def starts_over(self) -> bool:
        """A pair was missed: go on with it in the basis, three times at most."""
        self.restarts += 1
        self.best, self.since = np.inf, 0
        return self.settings.iterations is None and self.restarts <= 3


def no_gap_at(pencil: Pencil, basis: RitzBasis, solver: Any) -> bool:
    """Whether pairs k and k + 1 are equal in magnitude, by a locally optimal run of k + 1 pairs."""
    k = basis.W.shape[1]
    if k == pencil.d:
        return False
    settings = Iteration(solver=solver, locally_optimal=True, max_iter=30, reduction=1e-2)
    rng = np.random.default_rng(k)
    extra = start_block(pencil, settings.columns(k + 1, pencil.d) - k, rng)
    request = Request(pencil, k + 1, 1e-6, rng)
    wider = run(pencil, np.hstack([basis.W, extra]), settings, request, Meter(0.0))
    sizes = magnitudes(wider.basis.theta, pencil.which)
    return bool(sizes[k - 1] - sizes[k] <= 1e-6 * np.abs(sizes).max())
