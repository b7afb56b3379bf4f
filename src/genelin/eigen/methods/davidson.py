"""The accelerated default: residuals of all steps so far, corrected, in one growing space."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from contextlib import closing
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice
from time import perf_counter
from typing import Any

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray

from genelin.eigen.certify.residual_check import CLEAR, Gap, ResidualCheck, distance_behind
from genelin.eigen.costs.facts import Facts
from genelin.eigen.costs.formulas import moment_pairs
from genelin.eigen.costs.machine import Profile
from genelin.eigen.costs.pilot_run import ITERATIONS, LONGEST, PilotRun, extrapolated
from genelin.eigen.costs.plan import Route
from genelin.eigen.methods.dense import CAUTION, Dense, OrDense
from genelin.eigen.methods.initial_guess import (
    beside,
    frequent_features_guess,
    guess_for_pencil,
    guess_for_views,
    streams,
)
from genelin.eigen.run.canonical_pairs import canonical_solution, fix_signs, halves, mirrored
from genelin.eigen.run.checkpointer import State, restore
from genelin.eigen.run.meter import Meter, guarded
from genelin.eigen.run.method import Method, Request
from genelin.eigen.run.outcome import Outcome
from genelin.eigen.subspace.correction_equation import CorrectionEquation
from genelin.eigen.subspace.feature_order import FeatureOrder
from genelin.eigen.subspace.ritz_basis import Products, RitzBasis, start_block, within_range
from genelin.eigen.subspace.search_spaces import SearchSpace, Space, SplitSpace
from genelin.errors import too_many_pairs
from genelin.linalg import column_dots, magnitudes
from genelin.linalg.column_products import Block, Vector
from genelin.problems import Pencil, TwoView, is_diagonal, worth_forming
from genelin.results import CCASolution, EigenSolution, Record, Status, Trace
from genelin.solvers import CG, IncompleteCholesky, as_solver
from genelin.system.buffer_pool import buffer_pool
from genelin.system.threads import one_blas_thread
from genelin.validation import check_count, check_number, settle

__all__ = [
    "OUTER_ITERATIONS",
    "STEPS",
    "USUAL",
    "Davidson",
    "basis_memory",
    "basis_seconds",
    "held_up",
    "iteration_seconds",
]

# What is predicted of a run, by benchmarks/plans.py.
OUTER_ITERATIONS = 20  # as a rule
STEPS = 20  # of each of its solves where B is not known to be easy
USUAL = 1e-6  # tolerance that outer iterations are predicted for
FEWEST = 30  # steps of Lanczos where all digits are seen
TRIED, LATER = 12, 1.5  # outer iterations after a trial, and how many more steps later solves take
EASY = 6  # steps of a solve with a B that is well conditioned, and half of those where it is not
CLUSTERED = 20.0  # how much longer it takes at an end where values are clustered, at least
UPDATED = 120.0  # bytes that a step of a solve goes through for every number of a block
COUNTED = 1.4  # columns that are counted, for every one that is predicted

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


@dataclass(frozen=True)
class Davidson(Method):
    """Rayleigh–Ritz in the span of all corrections, which restarts from its best pairs.

    A warm-started step of GenELin is WΓ plus B⁻¹ applied to the residual, roughly. Here those
    corrections are kept, and the best pairs of their span are taken: for two data sets with one
    basis for each view (so that k columns do, not 2k). Near the end the residuals are corrected
    by s(θB − A) on the complement of W (Sleijpen & Van der Vorst 1996), for which the solver lends
    its preconditioner; a solver without one corrects by B⁻¹ to the end.

    Parameters
    ----------
    solver : a solver of `genelin.solvers`, or a function f(B, b, u0, delta) -> u1.
    reduction : of the error by every inner solve, in the norm of its preconditioner.
    steps : most steps of an inner solve.
    blocks : size of the space at which it restarts, in blocks of k columns and a few.
    keep : blocks that a restart keeps.
    max_iter : most outer iterations.
    max_applications : most columns to which A and B are applied, about, before the run gives up;
        its residuals are then unknown (inf).
    start : a previous solution of a similar problem, or (d, m) vectors, to begin with; for two
        data sets a solution or a pair of blocks (for X, for Y).

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import Davidson, top_k
    >>> rng = np.random.default_rng(0)
    >>> A, B = np.diag(np.linspace(-2.0, 1.0, 300)), np.diag(np.linspace(1.0, 9.0, 300))
    >>> solution = top_k(A, B, k=2, method=Davidson())
    >>> solution.values.round(4).tolist()
    [-2.0, -1.9381]
    >>> len(top_k(A, B, k=2, method=Davidson(start=solution)).trace)
    1
    """

    solver: Any = CG()  # noqa: RUF009 - frozen
    reduction: float = 0.1
    steps: int = 40
    blocks: int = 6
    keep: int = 2
    max_iter: int = 1000
    max_applications: float = np.inf
    start: Any = None

    def __post_init__(self) -> None:
        as_solver(self.solver)
        settle(self, check_number, "reduction", least=0, below=1)
        settle(self, check_count, "steps", "blocks", "keep", "max_iter")
        settle(self, check_number, "max_applications", least=0, infinite=True)
        if self.blocks <= self.keep:
            raise ValueError(f"blocks={self.blocks} must be more than keep={self.keep}")

    def handles(self, problem: Pencil | TwoView, k: int) -> bool:
        """All problems but views with diagonal covariances."""
        return not (isinstance(problem, TwoView) and is_diagonal(problem))

    def estimate(self, facts: Facts) -> list[Route]:
        """Outer iterations, their solves, and work on the basis."""
        if not isinstance(facts.problem, TwoView):
            return [_pencil_route(facts)]
        problem = facts.problem
        wanted = [worth_forming(*pair, problem.form) for pair in moment_pairs(problem)]
        choices = [wanted] if problem.form is not None else [wanted, [not any(wanted)] * 3]
        return [_views_route(facts, formed) for formed in choices]

    def followed(self, route: Route, others: list[Route], facts: Facts) -> Route:
        """Where a dense solution fits, it takes over once the iteration has taken as long."""
        problem, dense = (
            facts.problem,
            [other for other in others if isinstance(other.method, Dense)],
        )
        if not dense:
            return route
        if not isinstance(problem, TwoView):
            return _pencil_or_dense(route, dense[0], facts) if facts.multiplied_out else route
        if problem.form is not None or not dense[0].fits(facts):
            return route
        longer = max(dense[0].seconds / route.seconds, CAUTION if problem.is_sparse else 1.0)
        most = round(COUNTED * _sweeps(facts) * self.width(facts.k) * longer)
        return replace(
            route,
            method=OrDense(replace(route.method, max_applications=most)),
            memory=max(route.memory, dense[0].memory),
            prediction=f"{route.prediction}, dense after {most} columns",
        )

    def piloted(self, route: Route, facts: Facts, tol: float) -> Route:
        """Two views in memory: the first outer iterations. A pencil: a look at the spectrum."""
        problem = route.problem
        if not isinstance(problem, TwoView):
            longer = math.log10(tol) / math.log10(USUAL) * held_up(facts)
            return replace(route, seconds=longer * route.seconds, passes=longer * route.passes)
        if route.seconds > LONGEST or not problem.in_memory:
            return route
        request, began = Request(problem.replace(), facts.k, tol, default_rng(0)), perf_counter()
        with closing(self.begin(request)) as records:
            seen = list(islice(records, ITERATIONS))
        tried, last = perf_counter() - began, seen[-1]
        if len(seen) < ITERATIONS:
            found = PilotRun(tried, last.passes, len(seen), tried, last.residual)
        else:
            found = extrapolated(seen, tried, tol)
        return route.after(found)

    def solve(self, request: Request) -> EigenSolution | CCASolution:
        """By one search space, or by one for each view."""
        with buffer_pool(sparing=_out_of_core(request.problem)):
            if isinstance(request.problem, TwoView):
                return self._solve_views(request)
            return self._solve_pencil(request)

    def begin(self, request: Request) -> Generator[Record, None, None]:
        """The records of a run, as long as they are asked for."""
        with buffer_pool(sparing=_out_of_core(request.problem)):
            if isinstance(request.problem, TwoView):
                request, start, _ = self._ordered(request)
                run, guess = self._run_on_views(request, start)
            else:
                run, guess = self._run_on_pencil(request), self.start
            yield from run.iterations(guess)

    def _solve_pencil(self, request: Request) -> EigenSolution:
        run = self._run_on_pencil(request)
        outcome = run.outcome(self.start)
        return EigenSolution(
            residuals=outcome.residuals,
            sin_theta_bound=outcome.gap.sine,
            status=outcome.status,
            cost=run.meter.cost(),
            trace=outcome.trace,
            values=outcome.basis.theta,
            vectors=fix_signs(outcome.basis.W),
            gap_certified=outcome.gap.certified,
        )

    def _run_on_pencil(self, request: Request) -> _Run:
        meter = Meter(request.problem.data_size)
        pencil = meter.metered(request.problem)
        space = SearchSpace(pencil, self.blocks * self.width(request.k))
        return _Run(self, request, pencil, space, meter)

    def _solve_views(self, request: Request) -> CCASolution:
        request, start, ordering = self._ordered(request)
        run, guess = self._run_on_views(request, start)
        outcome, problem = run.outcome(guess), request.problem
        Phi, Psi = problem.lift(*halves(run.pencil, outcome.basis.W))
        pairs, gap = (outcome.basis.theta, Phi, Psi), outcome.gap
        found = canonical_solution(
            problem,
            pairs,
            outcome.residuals,
            gap.sine,
            outcome.status,
            run.meter,
            outcome,
            gap.certified,
        )
        if ordering is None:
            return found
        Wx, Wy = ordering.back(found.x_weights, found.y_weights)
        return replace(found, x_weights=Wx, y_weights=Wy)

    def _ordered(
        self, request: Request
    ) -> tuple[Request, tuple[Block, Block] | None, FeatureOrder | None]:
        """The request and the start for features by frequency, where rows are streamed."""
        problem = request.problem
        start = guess_for_views(self.start, problem)
        if not (problem.X.in_memory and streams(problem)):
            return request, start, None
        ordering = FeatureOrder.of(problem)
        ordered = ordering.problem(problem)
        callback = ordering.told(request.callback, ordered)
        start = None if start is None else ordering.into(*start)
        return replace(request, problem=ordered, callback=callback), start, ordering

    def _run_on_views(
        self, request: Request, start: tuple[Block, Block] | None
    ) -> tuple[_Run, tuple[Block, ...] | None]:
        """A run, and where it begins: beside pairs of the most frequent features."""
        problem, k = request.problem, request.k
        meter = Meter(problem.data_size, problem.setup)
        pencil = meter.metered(problem.pencil)
        space = SplitSpace(pencil, self.blocks * self.width(k))
        run = _Run(self, request, pencil, space, meter, problem.semidefinite)
        if not request.checkpoint.resumed and (start is None or start[0].shape[1] < k):
            frequent = frequent_features_guess(problem, self.width(k), meter.counter)
            if frequent is not None:
                start = frequent if start is None else beside(start, frequent)
        return run, None if start is None else problem.restrict(*start)

    @staticmethod
    def width(k: int) -> int:
        """Columns of a block: k wanted pairs and a few that guard the gap."""
        return k + max(3, k // 5)


def _out_of_core(problem: Pencil | TwoView) -> bool:
    return isinstance(problem, TwoView) and not problem.X.in_memory


# --- What it costs -----------------------------------------------------------------------------


def _views_route(facts: Facts, formed: list[bool]) -> Route:
    """With some of S_x, S_y and S_xy formed."""
    problem, width = facts.problem, Davidson.width(facts.k)
    outer, steps = _solves(facts)
    chosen = [moment for moment, kept in zip(facts.moments, formed, strict=True) if kept]
    rest = [moment for moment in facts.moments if moment not in chosen]
    streamed = facts.moments[:2] if len(rest) == 3 else rest  # all three take one sweep
    sweeps, d = _sweeps(facts), sum(problem.splits)
    seconds = basis_seconds(d, width, steps, facts.profile, outer)
    seconds += sum(moment.forming for moment in chosen)
    seconds += sweeps * width * sum(moment.formed for moment in chosen)
    seconds += sweeps * width * sum(moment.streamed for moment in streamed)
    memory = basis_memory(d, width) + 24 * sum(moment.entries for moment in chosen)
    passes = 2.0 * bool(chosen) + sweeps * bool(rest)
    most = max(moment.entries for moment in chosen or facts.moments)
    reason = f"{most:.1g} entries in a covariance, {problem.data_size:.1g} in the data"
    prediction = f"about {outer} outer iterations of {steps} steps"
    plain = formed == [worth_forming(*pair, problem.form) for pair in moment_pairs(problem)]
    solved = problem if plain else problem.replace(form=all(formed))
    name = "covariances formed" if chosen else "data as operator"
    sparse_entries = formed[0] and formed[1] and problem.is_sparse
    solver = CG(preconditioner=IncompleteCholesky()) if sparse_entries else CG()
    method = Davidson(solver=solver)
    figures = (seconds, passes, memory)
    return Route(name, *figures, reason, solved, method, prediction=prediction)


def _solves(facts: Facts) -> tuple[int, int]:
    """Outer iterations, and steps of the solves in them."""
    if facts.steps is None:
        return OUTER_ITERATIONS, STEPS
    return TRIED, round(LATER * facts.steps)


def _sweeps(facts: Facts) -> float:
    """Sweeps over the data of all iterations; expansions in double precision count twice."""
    outer, steps = _solves(facts)
    return outer * (4.0 + steps)


def _pencil_route(facts: Facts) -> Route:
    problem, easy, width = facts.problem, facts.easy_B, Davidson.width(facts.k)
    seconds, steps = iteration_seconds(facts), _pencil_steps(easy)
    reason = "products, and solves with B"
    prediction = f"about {OUTER_ITERATIONS} outer iterations of {steps} steps on {width} columns"
    passes = OUTER_ITERATIONS * (1.0 + steps)
    if facts.clustering is not None:
        seconds, passes = CLUSTERED * seconds, CLUSTERED * passes
        prediction = f"{prediction}, and many more where values are clustered"
    memory = basis_memory(problem.d, width)
    figures = (seconds, passes, memory)
    return Route("Davidson", *figures, reason, problem, Davidson(), prediction=prediction)


def _pencil_steps(easy: bool | None) -> int:
    return STEPS if easy is None else EASY if easy else 2 * EASY


def iteration_seconds(facts: Facts) -> float:
    """Seconds of all iterations on a pencil whose values are not clustered."""
    width, steps = Davidson.width(facts.k), _pencil_steps(facts.easy_B)
    seconds = OUTER_ITERATIONS * (1 + steps) * width * facts.column_seconds
    return seconds + basis_seconds(facts.problem.d, width, steps, facts.profile)


def held_up(facts: Facts) -> float:
    """How many times as long as predicted a pencil takes, where a look at the spectrum can tell.

    Lanczos takes as many steps as 1/√gap, in which corrections grow longer, too.
    """
    if facts.easy_B is not True or facts.clustering is not None:
        return 1.0
    return math.sqrt(max(facts.lanczos_steps / FEWEST, 1.0))


def _pencil_or_dense(route: Route, dense: Route, facts: Facts) -> Route:
    """Operators of which only products are known, not many: multiplied out in the end."""
    columns = 2 * facts.problem.d
    return replace(
        route,
        prediction=f"{route.prediction}; multiplied out after {columns} columns",
        method=OrDense(Davidson(max_applications=columns)),
        seconds=min(route.seconds, 2 * dense.seconds),
        memory=max(route.memory, dense.memory),
    )


def basis_seconds(
    d: float, width: int, steps: int, profile: Profile, outer: int = OUTER_ITERATIONS
) -> float:
    """Products with the basis in all outer iterations, and updates of blocks in all steps."""
    products = outer * 8 * d * width * (width * Davidson.blocks / 2) * profile.multiply
    updates = outer * steps * UPDATED * d * width * profile.touch
    return products + updates + basis_memory(d, width) * profile.touch


def basis_memory(d: float, width: int) -> float:
    """Three blocks of the size of the basis, and a few of the size of one expansion."""
    return 8.0 * d * width * (3 * Davidson.blocks + 8)


# --- One run -----------------------------------------------------------------------------------


class _Run:
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
