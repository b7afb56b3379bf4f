"""One run of Davidson: the search space, its corrections, and when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from genelin.eigen.certify.residual_check import CLEAR, Gap, ResidualCheck, distance_behind
from genelin.eigen.methods.initial_guess import guess_for_pencil
from genelin.eigen.run.canonical_pairs import mirrored
from genelin.eigen.run.checkpointer import State, restore
from genelin.eigen.run.meter import Meter, guarded
from genelin.eigen.run.method import Request
from genelin.eigen.run.outcome import Outcome
from genelin.eigen.subspace.correction_equation import CorrectionEquation
from genelin.eigen.subspace.ritz_basis import Products, RitzBasis, start_block, within_range
from genelin.eigen.subspace.search_spaces import Space, SplitSpace
from genelin.errors import too_many_pairs
from genelin.linalg import column_dots, magnitudes
from genelin.linalg.column_products import Block, Vector
from genelin.problems import Pencil
from genelin.results import Record, Status, Trace
from genelin.solvers import as_solver
from genelin.system.threads import one_blas_thread

if TYPE_CHECKING:
    from genelin.eigen.methods.davidson import Davidson

__all__ = ["DavidsonRun", "largest"]

NEAR = 0.3  # relative residual below which corrections aim at the pair and not at B⁻¹A
WINDOW = 8  # outer iterations in which the residual should halve
PATIENCE = 40  # outer iterations without one per cent of progress
TRIES = 6  # verifications that may send the iteration back
MOST_KEPT = 2**28  # bytes of a space that is kept whole in a checkpoint
SINGLE = 1e-3  # tolerance that a space in single precision may reach
FINE = 1e-4  # relative residual at which one in double precision takes over for a smaller one
STUCK = 3  # outer iterations without progress after which it takes over too; one near the end
KEPT = (
    *("effort", "steps", "inner", "recent", "distrust", "best", "since", "tries", "single"),
    "overlooked",
)


class DavidsonRun:
    """One run of the iteration on a metered pencil."""

    def __init__(
        self,
        settings: Davidson,
        request: Request,
        pencil: Pencil,
        space: Space,
        meter: Meter,
        semidefinite: bool = False,
    ) -> None:
        self.settings, self.pencil, self.space = settings, pencil, space
        self.k, self.width = request.k, settings.width(request.k)
        self.tol, self.rng, self.callback = request.tol, request.rng, request.callback
        self.meter, self.checkpoint = meter, request.checkpoint
        self.semidefinite, self.split = semidefinite, isinstance(space, SplitSpace)
        self.solver = as_solver(settings.solver)
        self.state = self.solver.init(pencil.B)
        alone = settings.start is None  # others have looked for all of a multiple eigenvalue
        self.check = ResidualCheck(pencil, self.solver, self.state, count_ties=alone)
        self.inverse = self.solver.approximate_inverse(self.state)
        diagonal = self.solver.inverse_diagonal(self.state)
        self.correctors = (
            None
            if self.inverse is None
            else CorrectionEquation(pencil, self.inverse, self.width, diagonal)
        )
        low = None if self.correctors is None else self.correctors.low
        self.single = self.split and not semidefinite and low is not None
        if self.single:
            self.space = SplitSpace(pencil, space.most, low)
        self.records: list[Record] = []
        self.effort, self.steps, self.recent = settings.reduction, settings.steps, list[float]()
        self.distrust, self.best, self.since, self.tries = 2.0, np.inf, 0, 0
        self.inner = 0  # steps of the last correction
        self.overlooked = False  # whether a pair was, that the guards did not tell of
        self.ended: Outcome | None = None

    def outcome(self, start: Any) -> Outcome:
        """Iterate until the check agrees that k pairs are good, or the run has to give up."""
        for _ in self.iterations(start):
            pass
        assert self.ended is not None  # with the last iteration
        return self.ended

    def iterations(self, start: Any) -> Iterator[Record]:
        """The record of every outer iteration, up to the last one."""
        with one_blas_thread():
            left = self.checkpoint.load()
            if left is None:
                Z: Block | None = self._start(start)
            else:
                with self.checkpoint.resuming():
                    Z = self._resumed(left)
            yield from self._iterate(Z)

    def _iterate(self, Z: Block | None) -> Iterator[Record]:
        """With directions to begin with, or None in the middle of an iteration, before a solve."""
        while True:
            grown = 0 if Z is None else self._expanded(Z)
            basis, T, estimates = self._best()
            reason = None
            if Z is not None:
                reason = self._verdict(basis, estimates, grown)
                yield self.records[-1]
            if reason is Status.MAX_ITERATIONS and self._spent:
                self.ended = self._given_up(basis, reason)
                return
            if reason is not None:
                found = self._examined(basis, estimates, reason)
                if isinstance(found, Outcome):
                    self.ended = found
                    return
                Z = found
            elif T is None:
                self.checkpoint.save(self._state(basis))
                Z = self._corrected(basis, estimates)
            else:
                Z = T
            full = self.space.size + Z.shape[1] > self.space.most
            with self.checkpoint.undisturbed():  # what was kept of the space ends with a restart
                if full:
                    self.space.restart(min(self.settings.keep * self.width, self.space.size))
                if full or reason is not None or T is not None:  # else it was kept before the solve
                    self.checkpoint.save(self._state(basis, Z))

    def _expanded(self, Z: Block) -> int:
        """Add directions, and random ones where these leave room for k pairs; how many were new."""
        grown = self.space.expand(Z)
        if self.space.pairs < self.k:
            grown += self.space.expand(self._random(self.width))
        if self.space.pairs < self.k and self.single:  # what is short may be lost in float32
            self._sharpen()
            return self._expanded(Z)
        if self.space.pairs < self.k and self.split:
            raise too_many_pairs(self.k, self.space.pairs)
        return grown

    def _best(self) -> tuple[RitzBasis, Block | None, Vector]:
        """The best pairs of the space, B⁻¹R where it is known, and estimates of the residuals."""
        basis = self.space.ritz(min(self.width, self.space.size))
        T, estimates = self._estimated(basis.residual)
        if not self._too_coarse(basis, estimates):
            return basis, T, estimates
        self._sharpen()
        return self._best()

    def _examined(self, basis: RitzBasis, estimates: Vector, reason: Status) -> Outcome | Block:
        """What the check makes of the pairs: the end, or directions to go on with."""
        checked = self._fresh(basis.head(self.k + 1))
        bounds, E = self.check.verified(checked, self._enough(checked))
        pairs, residuals = checked.head(self.k), bounds[: self.k]
        goal = self.tol * largest(pairs.theta)
        good = bool(residuals.max() <= goal)
        if self.single and not good and reason in (Status.CONVERGED, Status.STAGNATED):
            self._sharpen()
            return E
        if good or reason is not Status.CONVERGED or self.tries >= TRIES:
            gap = self._gap(basis, checked, bounds, self._guarded(basis, estimates))
            narrowly = reason is Status.CONVERGED and gap.narrowly(residuals, goal)
            if good and gap.missed:
                self.overlooked = True
                E = np.hstack([gap.vectors, self._random(self.width)])
            residuals = residuals + gap.hidden[: self.k]
            if self.tries >= TRIES or not ((good and gap.missed) or narrowly):
                good = good and bool(residuals.max() <= goal)
                status, trace = self._ending(reason, good, gap), Trace(self.records)
                return Outcome(pairs, residuals, gap, status, trace, self.check)
        self._doubt(residuals, estimates)
        return E

    def _state(self, basis: RitzBasis, Z: Block | None = None) -> State:
        """The space, or its best pairs where it is large, and what comes next, if that is known."""
        arrays = self.space.arrays
        if sum(array.nbytes for array in arrays.values()) > MOST_KEPT:
            arrays = {"W": basis.W}
        numbers = {name: copy(getattr(self, name)) for name in KEPT}
        arrays = arrays if Z is None else arrays | {"Z": Z}
        return State(arrays, numbers, self.records, self.meter.cost())

    def _resumed(self, left: State) -> Block | None:
        """Where an earlier run was: the directions that it was about to add, if it knew them."""
        restore(self, KEPT, left.numbers)
        if self.single and not self.split:
            raise ValueError("a space in single precision, which a pencil has not")
        self.records = list(left.trace)
        self.meter.carry(left.cost)
        if self.split and not self.single:
            self.space = SplitSpace(self.pencil, self.space.most)
        if "W" in left.arrays:
            self.space.expand(left.arrays["W"])
        else:
            self.space.refill(left.arrays)
        Z = left.arrays.get("Z")
        if self.space.size < self.k or (Z is not None and len(Z) != self.pencil.d):
            raise ValueError(f"a space of {self.space.size} directions, and others to be added")
        return Z

    @property
    def _spent(self) -> bool:
        return self.meter.counter.applications >= self.settings.max_applications

    def _given_up(self, basis: RitzBasis, reason: Status) -> Outcome:
        """The end of the budget: nothing is left to verify residuals with."""
        pairs = basis.head(self.k)
        unknown = np.full(len(pairs.theta), np.inf)
        gap = Gap(0.0, np.inf, np.inf, 0.0, basis.W[:, :0], unknown, unknown, unknown)
        return Outcome(pairs, unknown, gap, reason, Trace(self.records), self.check)

    def _start(self, given: Any) -> Block:
        """Random columns, beside what a previous solution has to offer."""
        known = guess_for_pencil(given, self.pencil)
        Z = self._random(max(self.width - known.shape[1], 1))
        return np.hstack([known, Z])[:, : max(self.space.most, 1)]

    def _random(self, columns: int) -> Block:
        """Random columns in the range of B."""
        Z = start_block(self.pencil, columns, self.rng)
        return within_range(self.pencil, Z) if self.semidefinite else Z

    def _estimated(self, R: Block) -> tuple[Block | None, Vector]:
        """Estimates of the residuals in the B⁻¹-norm, and B⁻¹R where only a solve can tell them."""
        if self.inverse is not None:
            return None, np.sqrt(np.maximum(column_dots(R, self.inverse(R)), 0.0))
        delta = self.settings.reduction**2
        solution = self.solver.solve(self.state, R, np.zeros_like(R), delta, residual=R)
        T, self.inner = solution.value, solution.iterations
        left = R - self.pencil.B @ T if solution.residual is None else solution.residual
        decrease = np.maximum(column_dots(T, R + left), 0.0)
        return T, np.sqrt(decrease / (1.0 - delta))

    def _corrected(self, basis: RitzBasis, estimates: Vector) -> Block:
        """Directions for the next expansion, by a solver with M⁻¹."""
        R = basis.residual
        assert self.correctors is not None  # others have corrected as they estimated
        relative = self.distrust * estimates / largest(basis.theta)
        todo = np.flatnonzero(relative[: self.k] > self.tol)
        if not len(todo):
            return R[:, :0]
        if relative[: self.k].max() > NEAR:
            todo = np.flatnonzero(relative > self.tol)
            found = self.correctors.plain(R, todo, self.effort, self._allowed(len(todo)))
        else:
            todo = np.concatenate([todo, *self._blurred(basis, estimates)])
            sign = _signs(basis.theta[todo], self.pencil.which)
            steps = self._allowed(2 * len(todo))
            found = self.correctors.shifted(basis, todo, sign, self.effort, steps)
        self.inner = found.steps
        return found.directions

    def _blurred(self, basis: RitzBasis, estimates: Vector) -> Iterator[NDArray[np.intp]]:
        """The pairs that cannot tell yet what is behind the k-th: the next one, the other end."""
        sizes = magnitudes(basis.theta, self.pencil.which)
        if len(sizes) > self.k and self.distrust * estimates[self.k] > 0.1 * (
            sizes[self.k - 1] - sizes[self.k]
        ):
            yield np.array([self.k])
        if len(sizes) > self.k + 1 and not self._sees_both_ends(basis, estimates):
            yield np.array([len(sizes) - 1])

    def _guarded(self, basis: RitzBasis, estimates: Vector) -> bool:
        """Whether the guards of the space may tell what comes next."""
        return not self.overlooked and self._sees_both_ends(basis, estimates)

    def _sees_both_ends(self, basis: RitzBasis, estimates: Vector) -> bool:
        """Whether the end of the spectrum where no pair was found is known to be behind the k-th.

        The last pair stands for it, unless that is a mere guard.
        """
        if self.split or self.pencil.which != "LM":
            return True
        sizes, last = np.abs(basis.theta), len(basis.theta) - 1
        distance = float(sizes[: self.k].min() - sizes[last])
        return self.distrust * float(estimates[last]) <= CLEAR * distance

    def _allowed(self, columns: int) -> int:
        """Steps for the next solve, of so many columns each."""
        left = self.settings.max_applications - self.meter.counter.applications
        return int(min(self.steps, max(left // columns, 1)))

    def _verdict(self, basis: RitzBasis, estimates: Vector, grown: int) -> Status | None:
        """None to go on; CONVERGED if the estimates say so; else the reason to give up."""
        k, inner = min(self.k, len(basis.theta)), self.inner
        d, columns = basis.W.shape
        self.meter.counter.flops += 8.0 * d * self.space.size * columns + 10.0 * d * k * inner
        relative = float(estimates[:k].max()) / largest(basis.theta)
        theta = guarded(basis.theta[:k])
        self.records.append(self.meter.record(len(self.records) + 1, inner, relative, theta))
        if self.callback is not None and self.callback(self.records[-1], guarded(basis.W[:, :k])):
            return Status.STOPPED
        estimate = relative * self.distrust
        if k == self.k and estimate <= self.tol:
            return Status.CONVERGED
        self._adapt(estimate)
        self.since = 0 if estimate < 0.99 * self.best else self.since + 1
        self.best = min(self.best, estimate)
        if len(self.records) >= self.settings.max_iter:
            return Status.MAX_ITERATIONS
        if self._spent:
            return Status.MAX_ITERATIONS
        stuck = grown == 0 or (self.since >= PATIENCE and relative < 1e-3)
        return Status.STAGNATED if stuck and k == self.k else None

    def _adapt(self, estimate: float) -> None:
        """Solve more accurately once a few outer iterations in a row have gained little."""
        self.recent.append(estimate)
        if len(self.recent) > WINDOW and estimate > 0.5 * self.recent[-WINDOW]:
            self.steps = min(2 * self.steps, 2 * self.pencil.d)
            self.effort *= 0.6
            self.recent = []

    def _fresh(self, pairs: RitzBasis) -> RitzBasis:
        """The same vectors with products computed anew."""
        if self.single:
            exact = SplitSpace(self.pencil, len(pairs.theta))
            exact.expand(pairs.W)
            return exact.ritz(len(pairs.theta))
        W = np.ascontiguousarray(pairs.W)
        return RitzBasis(Products(W, self.pencil.A @ W, self.pencil.B @ W), pairs.theta)

    def _too_coarse(self, basis: RitzBasis, estimates: Vector) -> bool:
        """Whether rounding of a space in single precision could be in the way from here on."""
        relative = self.distrust * float(estimates[: self.k].max()) / largest(basis.theta)
        stuck = self.since >= (1 if relative < SINGLE else STUCK)
        return self.single and ((relative < FINE and self.tol < SINGLE) or stuck)

    def _sharpen(self) -> None:
        """The best pairs of a space in single precision begin one in double precision."""
        W, most = self.space.ritz(min(self.width, self.space.size)).W, self.space.most
        del self.space  # its memory is used again
        self.space, self.single = SplitSpace(self.pencil, most), False
        self.space.expand(W)
        self.best, self.since = np.inf, 0

    def _doubt(self, residuals: Vector, estimates: Vector) -> None:
        """The check saw more than the estimates: scale them up."""
        self.tries += 1
        ratios = residuals / np.maximum(estimates[: self.k], 1e-300)
        known = ratios[np.isfinite(ratios)]  # others are of columns that no solve could bound
        more = float(known.max()) if len(known) else 10 * self.distrust
        self.distrust = max(self.distrust, more)
        self.best, self.since = np.inf, 0

    @staticmethod
    def _ending(reason: Status, good: bool, gap: Gap) -> Status:
        """What to say of the answer."""
        if good and gap.missed:
            return Status.NO_GAP  # time and again: what comes next cannot be told from these pairs
        if good:
            return Status.TIED if gap.none else Status.CONVERGED
        return Status.STAGNATED if reason is Status.CONVERGED else reason

    def _enough(self, pairs: RitzBasis) -> Vector:
        """Bounds on residuals that settle the matter: of the k pairs, and of the one behind."""
        enough = np.full(len(pairs.theta), self.tol * largest(pairs.theta[: self.k]))
        enough[self.k :] = max(
            enough[0], CLEAR * distance_behind(pairs.theta, self.k, self.pencil.which)
        )
        return enough

    def _gap(self, basis: RitzBasis, checked: RitzBasis, bounds: Vector, guarded: bool) -> Gap:
        """What comes next: the first guard where it is good enough, else what a search finds."""
        k, theta = self.k, checked.theta
        both = float(np.sqrt(2.0)) if self.split else 1.0
        known = guarded and len(theta) > k
        gap = self.check.guarded(checked, bounds, both) if known else None
        pairs, residuals = checked.head(k), bounds[:k]
        if gap is not None:
            return gap if self.split else self.check.counted(gap, pairs)
        guards = basis.W[:, k : k + 3]
        distance = distance_behind(theta, k, self.pencil.which)
        steps = 60 if distance > 1e-2 * largest(theta) else 2
        if self.split:
            pairs, residuals = mirrored(self.pencil, pairs), np.concatenate([residuals] * 2)
            guards = np.hstack([guards, flipped(self.pencil, guards)])
        return self.check.gap(pairs, residuals, self.rng, seen=guards, steps=steps)


def largest(theta: Vector) -> float:
    """|θ₁|, and something above zero where A is zero."""
    return max(float(np.abs(theta).max()), 1e-300)


def flipped(pencil: Pencil, W: Block) -> Block:
    """(−φ; ψ) for (φ; ψ)."""
    Phi, Psi = np.split(W, [pencil.B.diagonal_blocks[0].shape[0]])
    return np.vstack([-Phi, Psi])


def _signs(theta: Vector, which: str) -> Vector:
    """The end of the spectrum to which a pair belongs: 1 for the upper one."""
    if which == "LM":
        return np.where(theta < 0, -1.0, 1.0)
    return np.full(len(theta), 1.0 if which == "LA" else -1.0)
