"""The accelerated default: residuals of all steps so far, corrected, in one growing space."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from time import perf_counter
from typing import Any

import numpy as np
from numpy.random import default_rng

from genelin.eigen.costs.facts import Facts
from genelin.eigen.costs.formulas import moment_pairs
from genelin.eigen.costs.machine import Profile
from genelin.eigen.costs.pilot_run import ITERATIONS, LONGEST, PilotRun, extrapolated
from genelin.eigen.costs.plan import Route
from genelin.eigen.methods.davidson_run import DavidsonRun
from genelin.eigen.methods.dense import CAUTION, Dense, OrDense
from genelin.eigen.methods.initial_guess import (
    beside,
    frequent_features_guess,
    guess_for_views,
    streams,
)
from genelin.eigen.run.canonical_pairs import canonical_solution, fix_signs, halves
from genelin.eigen.run.meter import Meter
from genelin.eigen.run.method import Method, Request
from genelin.eigen.subspace.feature_order import FeatureOrder
from genelin.eigen.subspace.search_spaces import SearchSpace, SplitSpace
from genelin.linalg.column_products import Block
from genelin.problems import Pencil, TwoView, is_diagonal, worth_forming
from genelin.results import CCASolution, EigenSolution, Record
from genelin.solvers import CG, IncompleteCholesky, as_solver
from genelin.system.buffer_pool import buffer_pool
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

    def _run_on_pencil(self, request: Request) -> DavidsonRun:
        meter = Meter(request.problem.data_size)
        pencil = meter.metered(request.problem)
        space = SearchSpace(pencil, self.blocks * self.width(request.k))
        return DavidsonRun(self, request, pencil, space, meter)

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
    ) -> tuple[DavidsonRun, tuple[Block, ...] | None]:
        """A run, and where it begins: beside pairs of the most frequent features."""
        problem, k = request.problem, request.k
        meter = Meter(problem.data_size, problem.setup)
        pencil = meter.metered(problem.pencil)
        space = SplitSpace(pencil, self.blocks * self.width(k))
        run = DavidsonRun(self, request, pencil, space, meter, problem.semidefinite)
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
