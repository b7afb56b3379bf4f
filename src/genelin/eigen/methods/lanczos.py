"""Well separated values, where B is easily whitened: Lanczos on TᵀAT with TᵀBT = I."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from time import perf_counter
from typing import Any, ClassVar, cast

import numpy as np

from genelin.eigen.certify.residual_check import CLEAR, Gap, ResidualCheck, distance_behind
from genelin.eigen.costs.facts import Facts, WhiteningCost
from genelin.eigen.costs.formulas import SKINNY
from genelin.eigen.costs.pilot_run import LONGEST, PilotRun
from genelin.eigen.costs.plan import Route
from genelin.eigen.methods.davidson import USUAL, Davidson
from genelin.eigen.methods.davidson_run import largest
from genelin.eigen.run.canonical_pairs import fix_signs
from genelin.eigen.run.checkpointer import State, restore
from genelin.eigen.run.meter import Meter, guarded
from genelin.eigen.run.method import Method, Request, as_method
from genelin.eigen.subspace.krylov_space import KrylovSpace
from genelin.eigen.subspace.multiplicity import (
    Pairs,
    Round,
    complete_multiplicities,
    kept_of,
    largest_cluster,
)
from genelin.eigen.subspace.ritz_basis import Products, RitzBasis
from genelin.eigen.subspace.whitening import ByFactor, Rooted, Whitening, by_root
from genelin.errors import not_positive_definite
from genelin.linalg import SparseFactor, column_dots, column_norms
from genelin.linalg.column_products import Block, Vector
from genelin.linalg.tall_skinny import tall_dot, tall_times
from genelin.problems import Pencil
from genelin.results import EigenSolution, Record, Status, Trace
from genelin.system.buffer_pool import buffer_pool
from genelin.system.threads import one_blas_thread
from genelin.validation import check_count, check_method, settle

__all__ = ["Lanczos", "LanczosRun"]

SAFE = 0.5  # of the tolerance, for what is estimated
OVERLAP = 0.03  # of the tolerance: what blocks of the space may have in common
SOONEST = 60  # steps before which the space does not take all of its room
SOON = 0.25  # of the steps that there may be, after which the end is predicted
COUNTED = 768  # size up to which eigenvalues beyond the gap are counted
SHORT = 2**15  # rows of blocks up to which Ritz pairs take longer than a step
KEPT = ("steps", "marks")

RESTARTS = 3  # of a pilot run, whose progress is that of the last two
AGAIN = 3  # times as many as predicted that are granted
SHORTEST = 60  # that may be taken at least
THROUGH = 1.5  # times that a column goes through the space, about


@dataclass(frozen=True)
class Lanczos(Method):
    """Block Lanczos with thick restarts on TᵀAT, TᵀBT = I.

    For a B whose root is cheap: the identity, a diagonal, a dense matrix or a sparse one with few
    entries in its Cholesky factor; and well separated values. A step costs one product of A with
    a few columns, and little more: a residual is known without its vector. Where that converges
    slowly, another method takes over.

    As many copies of a multiple eigenvalue are found as there are columns: where so many are
    alike, further rounds with fresh random columns look for others beside them, until one finds
    fewer than it has columns.

    Parameters
    ----------
    columns : of a block.
    room : most columns of the space; None: 2k + 80 or two more, by fours.
    max_steps : by which the end should come; None: 300 + 10k. From a fourth of them on it is
        predicted, and where it is farther away,
    further : is the method that takes over.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from genelin import Lanczos, top_k
    >>> A = sparse.diags_array(1.0 / np.arange(1, 5001)).tocsr()
    >>> solution = top_k(A, k=3, method=Lanczos())
    >>> solution.values.round(6).tolist(), solution.cost.applications < 200
    ([1.0, 0.5, 0.333333], True)
    """

    solves: ClassVar = (Pencil,)

    columns: int = 4
    room: int | None = None
    max_steps: int | None = None
    further: Any = Davidson()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        settle(self, check_count, "columns")
        settle(self, check_count, "room", "max_steps", optional=True)
        check_method("further", self.further)
        if Pencil not in as_method(self.further).solves:
            raise TypeError(
                f"further={self.further!r} must be a method for pencils, such as Davidson()"
            )

    def estimate(self, facts: Facts) -> list[Route]:
        """Steps on a few columns, where a whitening transform of B is cheap."""
        white, d = facts.whitening, float(facts.problem.d)
        if white is None:
            return []
        steps, memory = facts.lanczos_steps, 8.0 * d * (self.most(facts.k) + 5 * self.columns)
        seconds = white.setup + steps * self._step_seconds(facts, white)
        reason = f"B is whitened by {white.name}"
        prediction = f"about {steps} steps on {self.columns} columns"
        memory += white.memory
        figures = (seconds, float(steps), memory)
        return [Route("Lanczos", *figures, reason, facts.problem, self, prediction=prediction)]

    def followed(self, route: Route, others: list[Route], facts: Facts) -> Route:
        """As many steps as take about as long as the next best route, which then takes over."""
        white, steps = facts.whitening, int(route.passes)
        assert white is not None  # or there was no route
        further = min(others, key=lambda other: other.seconds)
        spent = further.seconds / white.caution - white.setup
        most = max(int(spent / self._step_seconds(facts, white)), SHORTEST)
        granted = max(self.steps(facts.k), AGAIN * steps)
        most = max(min(most, granted), 3 * steps // 2)
        return replace(route, method=Lanczos(max_steps=most, further=further.method))

    def _step_seconds(self, facts: Facts, white: WhiteningCost) -> float:
        """Of one step: a product, the whitening, and work on the space."""
        known = facts.problem.A.entries() is not None
        product = facts.product_seconds(facts.problem.A) if known else facts.column_seconds
        work = THROUGH * SKINNY * facts.profile.multiply * facts.problem.d * self.most(facts.k)
        return float(self.columns * (product + white.column + work))

    def solve(self, request: Request) -> EigenSolution:
        """By Lanczos, or by the method that takes over."""
        problem, k, meter = request.problem, request.k, Meter(request.problem.data_size)
        further, left = as_method(self.further, "further"), request.checkpoint.load()
        if self._fits(k, problem.d) and (left is None or "F" in left.arrays):
            with buffer_pool(), one_blas_thread():
                found = LanczosRun(self, request, meter).outcome(left)
            if isinstance(found, EigenSolution):
                return found
            if found.shape[1] and isinstance(further, Davidson):
                further = replace(further, start=found)
        solution = cast("EigenSolution", further.solve(request))
        meter.carry(replace(solution.cost, seconds=0.0))  # this clock has gone on
        return replace(solution, cost=meter.cost())

    def piloted(self, route: Route, facts: Facts, tol: float) -> Route:
        """The first restarts: the rest by their progress, and by the steps that were predicted.

        Residuals fall slowly at first, and ever faster: of the steps by their progress so far and
        of those that were predicted, which know nothing of it, the mean (that of the logarithms) is
        taken; without any progress, what was predicted.
        """
        problem, k = route.problem, facts.k
        longer = math.log10(tol) / math.log10(USUAL)
        route = replace(route, seconds=longer * route.seconds, passes=longer * route.passes)
        if route.seconds > LONGEST or not self._fits(k, problem.d):
            return route
        began = perf_counter()
        with buffer_pool(), one_blas_thread():
            request = Request(problem, k, tol, np.random.default_rng(0))
            run = LanczosRun(self, request, Meter(problem.data_size))
            marks = list(islice(run.restarts(), RESTARTS))
        tried, last = perf_counter() - began, run.records[-1]
        if isinstance(run.found, EigenSolution):
            passes = run.found.cost.passes
            return route.after(PilotRun(tried, passes, last.iteration, tried, last.residual))
        if len(marks) < 2:
            return route
        (before, then), (now, missing) = marks[0], marks[-1]
        rate = math.log(max(then / missing, 1.0)) / (now - before)
        left = min(math.log(max(missing, 1.0)), rate * self.steps(k))
        end = now + left / rate if rate else route.passes
        whole = max(math.sqrt(end * route.passes), float(now))
        return route.after(PilotRun(tried * whole / now, whole, now, tried, last.residual))

    def steps(self, k: int) -> int:
        """Steps by which the end should come."""
        return 300 + 10 * k if self.max_steps is None else self.max_steps

    def most(self, k: int) -> int:
        """Columns that the space has room for."""
        return -(-k // 2) * 4 + 80 if self.room is None else self.room

    def kept(self, k: int) -> int:
        """Those that a restart keeps, by fours."""
        return kept_of(k, self.most(k))

    def _fits(self, k: int, d: int) -> bool:
        """Whether there is room for a few blocks beyond what is kept, in a problem of size d."""
        return self.kept(k) + 4 * self.columns <= self.most(k) <= d // 2


class LanczosRun:
    """One run of the iteration."""

    def __init__(self, settings: Lanczos, request: Request, meter: Meter) -> None:
        problem, self.meter = request.problem, meter
        self.settings, self.pencil = settings, meter.metered(problem)
        self.k, self.tol, self.rng = request.k, request.tol, request.rng
        self.callback, self.checkpoint = request.callback, request.checkpoint
        self.white = _whitening(problem, meter)
        self.space = KrylovSpace(
            self._product, problem.d, settings.most(self.k), OVERLAP * self.tol
        )
        self.steps = 0
        self.every = 4 if problem.d <= SHORT else 2 if problem.d <= 4 * SHORT else 1  # steps
        self.marks: list[tuple[int, float]] = []  # steps, and what is missing, at restarts
        self.records: list[Record] = []
        self.found: EigenSolution | Block | None = None

    def _product(self, V: Block) -> Block:
        """TᵀAT V."""
        return self.white.whitened(self.pencil.A @ self.white.lifted(V))

    def outcome(self, left: State | None) -> EigenSolution | Block:
        """The solution, or vectors to go on with where another method had better take over."""
        for _ in self.restarts(left):
            pass
        assert self.found is not None  # with the last restart
        return self.found

    def restarts(self, left: State | None = None) -> Iterator[tuple[int, float]]:
        """Steps, and how many times too large residuals are, at every restart up to the last."""
        if left is None:
            self.space.begin(self._random(self.settings.columns))
        else:
            with self.checkpoint.resuming():
                self._resume(left)
        while True:
            theta, U, residuals = self._step()
            stopped = self._told(theta, U, residuals)
            missing = self._missing(theta, residuals)
            if stopped or missing <= 1:
                self.found = self._ended(theta, U, residuals, stopped)
                return
            if self._full:
                if self._too_slow(missing):
                    self.found = self._vectors(U[:, : self._worth_keeping(theta, residuals)])
                    return
                with self.checkpoint.undisturbed():
                    self.space.restart(theta, U, self.settings.kept(self.k))
                    self.checkpoint.save(self._state())
                yield self.marks[-1]

    def _ended(
        self, theta: Vector, U: Block, residuals: Vector, stopped: bool
    ) -> EigenSolution | Block:
        """The solution with all copies; vectors to go on with where they are not found or good."""
        few = self.settings.columns
        columns = -(-(self.k + 1) // few) * few  # products like those of whole blocks
        found = Pairs(theta[:columns], self.space.vectors(U[:, :columns]), residuals[:columns])
        if stopped:
            return self._examined(found, stopped)
        search = Round(
            self._product,
            self._random,
            self.pencil.which,
            self.k,
            absolute=SAFE * self.tol * largest(theta[: self.k]),
            relative=0.0,
            share=OVERLAP,
            floor=0.0 if self.pencil.which == "LM" else float(theta[-1]),
            steps=self.settings.steps(self.k),
        )
        complete = complete_multiplicities(search, found, few, columns)
        if complete is None:
            return found.V[:, :0]
        return self._examined(complete, stopped)

    def _step(self) -> tuple[Vector, Block, Vector]:
        """Grow the space, until it holds the pairs that are wanted: its Ritz pairs, their norms."""
        space, d = self.space, self.pencil.d
        while True:
            space.grow()
            self.steps += 1
            width = self.settings.columns
            self.meter.counter.flops += 8.0 * d * width * space.size
            lost = width - space.width
            if lost:  # an invariant space was met: others are looked for beside it
                space.widen(self._random(lost))
            if space.size > self.k and (self._full or self.steps % self.every == 0):
                theta, U, residuals = space.ritz(self.pencil.which)
                small = largest(theta[: self.k]) / largest(theta)  # what is wanted, against ‖S‖
                space.limit = OVERLAP * self.tol * small
                return theta, U, residuals

    @property
    def _full(self) -> bool:
        """Whether it is time for a restart: what comes to its end soon does with less memory."""
        most, kept = self.space.most, self.settings.kept(self.k)
        room = most if self.steps >= SOONEST else (most + kept) // 2
        return self.space.size + self.space.width > room

    def _random(self, columns: int) -> Block:
        return self.rng.standard_normal((self.pencil.d, columns))

    def _told(self, theta: Vector, U: Block, residuals: Vector) -> bool:
        """Record an iteration, and tell the callback of it; True if that wants to stop."""
        relative = float(residuals[: self.k].max()) / largest(theta[: self.k])
        values = guarded(theta[: self.k])
        self.records.append(self.meter.record(len(self.records) + 1, 1, relative, values))
        if self.callback is None:
            return False
        return bool(self.callback(self.records[-1], guarded(self._vectors(U[:, : self.k]))))

    def _missing(self, theta: Vector, residuals: Vector) -> float:
        """How many times too large the residuals are, of k pairs and of the one behind them."""
        goal, k = SAFE * self.tol * largest(theta[: self.k]), self.k
        clear = SAFE * CLEAR * distance_behind(theta, k, self.pencil.which)
        return float(max(residuals[:k].max() / goal, residuals[k] / max(goal, clear)))

    def _too_slow(self, missing: float) -> bool:
        """Whether the end is too far away, by the progress of the last two restarts."""
        self.marks.append((self.steps, missing))
        most = self.settings.steps(self.k)
        if self.steps < SOON * most or len(self.marks) < 3:
            return False
        before, then = self.marks[-3]
        rate = np.log(max(then / missing, 1.0)) / (self.steps - before)
        return bool(np.log(missing) > rate * (most - self.steps))

    def _worth_keeping(self, theta: Vector, residuals: Vector) -> int:
        """With how many pairs another method may begin: none where copies could be missing."""
        k, columns = self.k, self.settings.columns
        seen, doubt = theta[: k + 1], residuals[: k + 1]
        clustered = (
            largest_cluster(seen, 2 * np.maximum(doubt, self.tol * largest(seen))) >= columns
        )
        return 0 if clustered else Davidson.width(k)

    def _vectors(self, U: Block) -> Block:
        """The Ritz vectors of these coordinates, T QU."""
        return self.white.lifted(self.space.vectors(U))

    def _examined(self, found: Pairs, stopped: bool) -> EigenSolution | Block:
        """The solution, if its residuals hold what was estimated; else vectors to go on with."""
        k, all_checked = self.k, self._checked(found.V)
        bounds = column_norms(self.white.whitened(all_checked.residual))[: k + 1]
        checked, residuals = all_checked.head(k + 1), bounds[:k]
        good = bool(residuals.max() <= self.tol * largest(checked.theta))
        gap = self._gap(checked, bounds)
        if not stopped and (not good or gap.missed):
            return checked.W
        pairs, residuals = checked.head(k), residuals + gap.hidden
        status = Status.TIED if gap.none else Status.CONVERGED
        if gap.missed or residuals.max() > self.tol * largest(checked.theta):
            status = Status.STOPPED if stopped else Status.STAGNATED
        return EigenSolution(
            residuals=residuals,
            sin_theta_bound=gap.sine,
            status=status,
            cost=self.meter.cost(),
            trace=Trace(self.records),
            values=pairs.theta,
            vectors=fix_signs(pairs.W),
            gap_certified=gap.certified,
        )

    def _checked(self, V: Block) -> RitzBasis:
        """The vectors TV, made orthonormal to rounding, and their values.

        They are nearly so, and stay in place.
        """
        W, (A, B) = self.white.lifted(V), self.pencil.operators
        L = np.linalg.cholesky(tall_dot(W, W if B.is_identity else B @ W))
        W = tall_times(W, np.linalg.inv(L).T)
        AW = A @ W
        return RitzBasis(Products(W, AW, W if B.is_identity else B @ W), column_dots(W, AW))

    def _gap(self, checked: RitzBasis, bounds: Vector) -> Gap:
        """What comes next: the guard where that can tell, else what a short search finds."""
        pairs, residuals = checked.head(self.k), bounds[: self.k]
        check = ResidualCheck(self.pencil, Rooted(self.white), self.pencil.B)
        gap = check.guarded(checked, bounds)
        if gap is None:
            return check.gap(pairs, residuals, self.rng, seen=checked.W[:, self.k :], steps=2)
        return check.counted(gap, pairs) if self.pencil.d <= COUNTED else gap

    def _state(self) -> State:
        """The space after a restart, and what is known of its progress."""
        numbers = {name: getattr(self, name) for name in KEPT}
        return State(self.space.arrays, numbers, self.records, self.meter.cost())

    def _resume(self, left: State) -> None:
        """Go on where an earlier run was."""
        restore(self, KEPT, left.numbers)
        self.marks = [(int(steps), float(missing)) for steps, missing in self.marks]
        self.records = list(left.trace)
        self.meter.carry(left.cost)
        self.space.refill(left.arrays)


def _whitening(problem: Pencil, meter: Meter) -> Whitening:
    """T with TᵀBT = I."""
    B, d = problem.B, problem.d
    if B.entries() is None:
        raise ValueError(
            "Lanczos needs the entries of B, which this operator does not give: pass B as an array "
            "or a sparse matrix, or use method=None or Davidson()"
        )
    white = by_root(B)
    if white is None:
        raise not_positive_definite("a pivot of its Cholesky factor is not above rounding")
    if isinstance(white, ByFactor):
        meter.counter.flops += d**3 / 3
    elif isinstance(white, SparseFactor):
        meter.counter.flops += float(white.L.nnz) ** 2 / d
    return white
