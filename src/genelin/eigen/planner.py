"""What runs when the user does not say: every route's cost, and the cheapest one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genelin.eigen.basis import start_block
from genelin.eigen.cluster import ClusterSpec
from genelin.eigen.correction import Correctors
from genelin.eigen.davidson import Davidson
from genelin.eigen.dense import Dense
from genelin.eigen.iteration import Callback
from genelin.eigen.machine import STOCK, Profile, measured, memory_at_hand, seconds_of
from genelin.eigen.rehearsal import rehearsed
from genelin.eigen.whitened import WhitenedSVD, is_diagonal
from genelin.io.checkpoint import UNKEPT, Journal
from genelin.operators import Operator, Rows
from genelin.problems import SMALL, Pencil, TwoView, estimated_entries, worth_forming
from genelin.results import EigenSolution, Status
from genelin.solvers import CG, IncompleteCholesky

__all__ = [
    "OUTER",
    "STEPS",
    "Moment",
    "OrDense",
    "Plan",
    "Route",
    "basis_memory",
    "basis_seconds",
    "best_route",
    "decomposing",
    "duration",
    "forming",
    "in_bytes",
    "moment_of",
    "moment_pairs",
    "planned",
    "surveyed",
    "trial_steps",
]

OPAQUE = 256  # size up to which operators without entries are multiplied out at once
OUTER = 20  # outer iterations that `Davidson` needs, as a rule
STEPS = 20  # and steps of each of its solves where B is not known to be easy
TRIED, LATER = 12, 1.5  # the same after a trial, and how many more steps later solves take
SPARE = 0.8  # part of the free memory that a route may take
GUESS = 2.0**0.5  # how far off a guess may be: of the outer iterations, of the steps of solves
UPDATED = 120.0  # bytes of memory that a step of a solve goes through for every number of a block
SKINNY = 4.0  # how much slower dense products with few columns are, for each number
LANCZOS = 20  # products with a diagonal problem for every pair
USUAL = 1e-6  # tolerance that outer iterations are foreseen for
LONGEST = 300.0  # seconds of a route that is begun for a plan


@dataclass(frozen=True)
class OrDense:
    """An iteration with a budget, and the dense solution once that is spent.

    To multiply out operators of size d takes 2d columns: an iteration that has taken as many
    without an answer has at most doubled the cost.
    """

    first: Any

    def __call__(
        self,
        problem: Pencil,
        k: int,
        tol: float = 1e-8,
        rng: np.random.Generator | int | None = 0,
        callback: Callback | None = None,
        journal: Journal = UNKEPT,
    ) -> EigenSolution:
        """Solve `problem` for k pairs."""
        limited: EigenSolution = self.first(problem, k, tol, rng, callback, journal)
        if limited.converged or limited.status is Status.STOPPED:
            return limited
        dense = Dense()(problem, k, tol, rng)
        return replace(dense, cost=limited.cost + dense.cost, trace=limited.trace)


@dataclass(frozen=True)
class Route:
    """One way to solve a problem, and what it would cost.

    Attributes
    ----------
    name : what is done.
    seconds, passes, memory : time, reads of all rows of the data, bytes beyond the input (on a
        cluster, of a worker, its share of the input included).
    reason : what the figures rest on.
    problem, method : run `method(problem, k, …)`.
    traffic, client_memory : on a cluster, bytes on all links, and bytes that the client needs.
    trial : reads of the data that were needed to choose it.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import plan_top_k
    >>> route = plan_top_k(np.diag(np.arange(1.0, 101.0)), k=3).chosen
    >>> route.name, route.method
    ('dense', Dense())
    """

    name: str
    seconds: float
    passes: float
    memory: float
    reason: str
    problem: Any
    method: Any
    traffic: float = 0.0
    client_memory: float = 0.0
    trial: float = 0.0


@dataclass(frozen=True)
class Plan:
    """Routes to a solution with their predicted cost, the one to be taken first.

    Iterations are foreseen as typical, or by the first few of them: the time of an iterative route
    grows when eigenvalues next to the k-th are close.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import plan_top_k
    >>> plan = plan_top_k(np.diag(np.arange(1.0, 101.0)), k=3)
    >>> plan.chosen.name, len(plan.routes)
    ('dense', 2)
    """

    task: str
    routes: tuple[Route, ...]
    cluster: ClusterSpec | None = None

    @property
    def chosen(self) -> Route:
        """The route that `method=None` takes."""
        return self.routes[0]

    def __str__(self) -> str:
        names = ["seconds", "passes", "memory"]
        if self.cluster is not None:
            names = ["seconds", "passes", "worker memory", "client memory", "traffic"]
        rows: list[tuple[str, ...]] = [("", "route", *names, "why")]
        for route in self.routes:
            mark = "→" if route is self.chosen else " "
            rows.append((mark, route.name, *self._figures(route)))
        widths = [max(len(row[column]) for row in rows) for column in range(2 + len(names))]
        lines = [f"plan for {self.task}" + (f" on {self.cluster}" if self.cluster else "")]
        for mark, name, *numbers, why in rows:
            cells = [f"{cell:>{w}}" for cell, w in zip(numbers, widths[2:], strict=True)]
            lines.append(f"{mark:{widths[0]}} {name:{widths[1]}}  {'  '.join(cells)}  {why}")
        return "\n".join(lines)

    def _figures(self, route: Route) -> tuple[str, ...]:
        """The cells of a route, its reason last."""
        sizes, reason = [route.memory], route.reason
        if self.cluster is not None:
            sizes += [route.client_memory, route.traffic]
            short = [
                name
                for name, size in zip(("workers", "client"), sizes, strict=False)
                if size > self.cluster.memory
            ]
            reason = f"too little memory: {', '.join(short)}; {reason}" if short else reason
        return f"{route.seconds:.2g}", f"{route.passes:.3g}", *map(in_bytes, sizes), reason


def planned(
    problem: Pencil | TwoView,
    k: int,
    profile: Profile,
    steps: int | None = None,
    column: float | None = None,
) -> Plan:
    """Routes to k pairs, the one to be taken first.

    Where they are known: `steps` of a solve, and seconds of products of A and B with a `column`.
    """
    if isinstance(problem, TwoView):
        routes = _view_routes(problem, k, profile, steps)
        x, y = (f"{rows.n} × {rows.d}" for rows in (problem.X, problem.Y))
        return Plan(f"{k} canonical pairs of X ({x}) and Y ({y})", routes)
    column = _per_column(problem, profile) if column is None else column
    routes = _pencil_routes(problem, k, profile, column)
    return Plan(f"{k} eigenpairs ({problem.which}) of a pencil of size {problem.d}", routes)


def surveyed(problem: Pencil | TwoView, k: int, tol: float) -> Plan:
    """The plan by the measured speed of this machine, and a trial solve with B.

    Its first route is the one that is taken by stock figures where no method is named; an iteration
    on two data sets in memory is begun, unless that would be long. What is longer or shorter than
    was foreseen is so for the same iteration on other operators, too.
    """
    taken = best_route(problem, k)
    plan = planned(problem, k, measured(), trial_steps(problem), _tried_column(problem, k))
    first, *others = sorted(plan.routes, key=lambda route: route.name != taken.name)
    told = _foretold(first, k, tol)
    ratio = told.seconds / first.seconds
    rest = (
        replace(route, seconds=ratio * route.seconds)
        if isinstance(route.method, Davidson)
        else route
        for route in others
    )
    return replace(plan, routes=(told, *rest))


def _foretold(route: Route, k: int, tol: float) -> Route:
    """An iterative route down to a tolerance, as its first iterations foretell it."""
    problem = route.problem
    if not isinstance(route.method, Davidson):
        return route
    if not isinstance(problem, TwoView):
        longer = math.log10(tol) / math.log10(USUAL)
        return replace(route, seconds=longer * route.seconds, passes=longer * route.passes)
    if route.seconds > LONGEST or not (problem.X.at_hand and problem.Y.at_hand):
        return route
    tried = rehearsed(route.method, replace(problem), k, tol)
    reason = f"{route.reason.split(';')[0]}; {tried.reason}"
    return replace(route, seconds=tried.seconds, passes=tried.passes, reason=reason)


def best_route(problem: Pencil | TwoView, k: int) -> Route:
    """The cheapest route by stock figures; there is a trial only where it may save a long time.

    Examples
    --------
    >>> import numpy as np
    >>> best_route(Pencil(np.eye(3)), k=1).method
    Dense()
    """
    chosen = planned(problem, k, STOCK).chosen
    if isinstance(problem, TwoView) and _worth_a_trial(problem, k, chosen):
        steps = trial_steps(problem)
        return replace(planned(problem, k, STOCK, steps).chosen, trial=1.0 + (steps or 0))
    return chosen


def _worth_a_trial(problem: TwoView, k: int, chosen: Route) -> bool:
    """Whether solves of few steps would make another route than a dense one much cheaper."""
    if not isinstance(chosen.method, Dense) or not (problem.X.at_hand and problem.Y.at_hand):
        return False
    easy = planned(problem, k, STOCK, 1).chosen
    if easy.method == chosen.method:
        return False
    through_rows = planned(replace(problem, form=False), k, STOCK).routes
    trial = max(route.seconds for route in through_rows if route.method != chosen.method) / OUTER
    return chosen.seconds - easy.seconds > trial


def trial_steps(problem: Pencil | TwoView) -> int | None:
    """Steps that a correction takes, from one of two random columns through the data.

    None where no iteration would be of use.
    """
    if isinstance(problem, Pencil) or max(problem.splits) <= SMALL or is_diagonal(problem):
        return None
    pencil, cg = replace(problem, form=False).pencil, CG()
    W = start_block(pencil, 2, np.random.default_rng(0))
    inverse = cg.approximate_inverse(cg.init(pencil.B))
    if inverse is None:
        return STEPS
    both, correctors = np.arange(2), Correctors(pencil, inverse, 2)
    return correctors.plain(pencil.A @ W, both, Davidson.reduction, STEPS).steps


def _ranked(routes: list[Route], guesses: int = 2) -> tuple[Route, ...]:
    """Those that fit in memory first, then by time; that of an iteration may well be longer."""
    free = SPARE * memory_at_hand()

    def key(route: Route) -> tuple[bool, float]:
        certain = isinstance(route.method, Dense)
        return route.memory > free, route.seconds * (1.0 if certain else GUESS**guesses)

    return tuple(sorted(routes, key=key))


# --- Pencils -----------------------------------------------------------------------------------


def _pencil_routes(problem: Pencil, k: int, profile: Profile, column: float) -> tuple[Route, ...]:
    d, explicit = problem.d, _is_explicit(problem)
    dense = _dense_pencil(problem, profile, 0.0 if explicit else column)
    iterative = _iterative(problem, k, profile, column)
    if k > d // 4 or d <= (SMALL if explicit else OPAQUE):
        return dense, iterative
    if d <= SMALL:
        either = OrDense(Davidson(max_applications=2 * d))
        reason = f"{iterative.reason}; multiplied out after {2 * d} columns"
        seconds = min(iterative.seconds, 2 * dense.seconds)
        memory = max(iterative.memory, dense.memory)
        return (
            replace(iterative, reason=reason, method=either, seconds=seconds, memory=memory),
            dense,
        )
    return _ranked([iterative, dense])


def _is_explicit(problem: Pencil) -> bool:
    return all(part.entries() is not None for part in problem.operators)


def _tried_column(problem: Pencil | TwoView, k: int) -> float | None:
    """Seconds of products with a column of a block, if that cannot be told but by a trial."""
    if isinstance(problem, TwoView) or _is_explicit(problem):
        return None
    V = start_block(problem, min(Davidson.width(k), problem.d), np.random.default_rng(0))
    return float(seconds_of(lambda: (problem.A @ V, problem.B @ V), repeats=1) / V.shape[1])


def _dense_pencil(problem: Pencil, profile: Profile, column: float) -> Route:
    d, reason = float(problem.d), "a factorisation of B and all eigenvectors"
    explicit = _is_explicit(problem)
    seconds = (profile.decompose + 3 * profile.multiply) * d**3 + d * column
    if not explicit:
        reason = f"A and B multiplied out, then {reason}"
    passes = 1.0 if explicit else d
    return Route("dense", seconds, passes, 40 * d**2, reason, problem, Dense())


def _iterative(problem: Pencil, k: int, profile: Profile, column: float) -> Route:
    width = Davidson.width(k)
    seconds = OUTER * (1 + STEPS) * width * column
    seconds += basis_seconds(problem.d, width, STEPS, profile)
    reason = f"about {OUTER} outer iterations of {STEPS} steps on {width} columns"
    memory, passes = basis_memory(problem.d, width), OUTER * (1.0 + STEPS)
    return Route("Davidson", seconds, passes, memory, reason, problem, Davidson())


def _per_column(problem: Pencil, profile: Profile) -> float:
    """Seconds of the products of A and B with one column of a block."""
    return sum(
        operator.flops / 2 * (SKINNY * profile.multiply if _is_dense(operator) else profile.entry)
        for operator in problem.operators
    )


def _is_dense(operator: Operator) -> bool:
    entries = operator.entries()
    return entries is not None and isinstance(entries.core, np.ndarray)


def basis_seconds(d: float, width: int, steps: int, profile: Profile, outer: int = OUTER) -> float:
    """Products with the basis in all outer iterations, and updates of blocks in all steps."""
    products = outer * 8 * d * width * (width * Davidson.blocks / 2) * profile.multiply
    updates = outer * steps * UPDATED * d * width * profile.touch
    return products + updates + basis_memory(d, width) * profile.touch


def basis_memory(d: float, width: int) -> float:
    """Three blocks of the size of the basis, and a few of the size of one expansion."""
    return 8.0 * d * width * (3 * Davidson.blocks + 8)


# --- Two views ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moment:
    """XᵀY of two views (or of one with itself): what it costs to form and to apply."""

    entries: float  # stored once formed
    forming: float  # seconds
    formed: float  # seconds of a product with one column
    streamed: float  # the same through the rows


def moment_of(x: Rows, y: Rows, profile: Profile) -> Moment:
    """What XᵀY costs by the speeds of a profile."""
    stored = float(x.stored if x is y else x.stored + y.stored)
    if x.is_sparse and y.is_sparse:
        entries = estimated_entries(x, y)
        return Moment(
            entries, profile.form * x.pairs_with(y), profile.entry * entries, profile.sweep * stored
        )
    entries, thin = float(x.d) * y.d, SKINNY * profile.multiply
    forming = profile.multiply * min(x.stored * y.d, y.stored * x.d)
    return Moment(entries, forming, thin * entries, 2 * thin * stored)


def _view_routes(
    problem: TwoView, k: int, profile: Profile, steps: int | None
) -> tuple[Route, ...]:
    if is_diagonal(problem):
        return _ranked([_diagonal_route(problem, k, profile), _dense_route(problem, profile)])
    dense = _dense_route(problem, profile)
    if max(problem.splits) <= SMALL:
        return (dense,)
    moments = [moment_of(*pair, profile) for pair in moment_pairs(problem)]
    wanted = [worth_forming(*pair, problem.form) for pair in moment_pairs(problem)]
    alternatives = [wanted] if problem.form is not None else [wanted, [not any(wanted)] * 3]
    solves = (OUTER, STEPS) if steps is None else (TRIED, round(LATER * steps))
    routes = [
        _davidson_route(problem, k, profile, solves, moments, formed) for formed in alternatives
    ]
    return _ranked([*routes, dense], guesses=2 if steps is None else 1)


def moment_pairs(problem: TwoView) -> tuple[tuple[Rows, Rows], ...]:
    """The views of which S_x, S_y and S_xy are made."""
    X, Y = problem.X, problem.Y
    return (X, X), (Y, Y), (X, Y)


def _dense_route(problem: TwoView, profile: Profile) -> Route:
    dx, dy = (float(d) for d in problem.splits)
    numbers = dx**2 + dy**2 + dx * dy
    seconds = forming(problem, profile) + decomposing(dx, dy, profile)
    reason = "covariances in one pass, their factors, and one decomposition"
    return Route("dense", seconds, 1.0, 24 * numbers, reason, problem, Dense())


def forming(problem: TwoView, profile: Profile) -> float:
    """Seconds for all covariances as dense matrices."""
    (dx, dy), x, y = problem.splits, float(problem.X.stored), float(problem.Y.stored)
    return profile.multiply * (x * (dx + dy) + y * dy)


def decomposing(dx: float, dy: float, profile: Profile) -> float:
    """Seconds for their factors and the decomposition of the whitened cross-covariance."""
    smaller = min(dx, dy)
    products = dx**3 + dy**3 + 2 * dx * dy * smaller
    return profile.multiply * products + profile.decompose * smaller**3


def _diagonal_route(problem: TwoView, k: int, profile: Profile) -> Route:
    entries = float(min(problem.X.stored, problem.Y.stored))
    columns = LANCZOS * (k + 1)
    seconds = (profile.form + 2 * columns * 4 * profile.entry) * entries
    seconds += 4 * columns * (2 * k + 1) * sum(problem.splits) * profile.multiply
    memory = 16 * entries + 8.0 * sum(problem.splits) * (4 * k + 20)
    reason = "covariances are diagonal: Lanczos on the whitened cross-covariance"
    return Route("diagonal", seconds, 1.0, memory, reason, problem, WhitenedSVD())


def _davidson_route(
    problem: TwoView,
    k: int,
    profile: Profile,
    solves: tuple[int, int],
    moments: list[Moment],
    formed: list[bool],
) -> Route:
    """`Davidson` with some of S_x, S_y and S_xy formed; outer iterations, and steps of each."""
    (outer, steps), width, d = solves, Davidson.width(k), sum(problem.splits)
    sweeps = outer * (4.0 + steps)  # expansions in double precision count twice
    products = sweeps * width
    chosen = [moment for moment, is_formed in zip(moments, formed, strict=True) if is_formed]
    rest = [moment for moment in moments if moment not in chosen]
    streamed = moments[:2] if len(rest) == 3 else rest  # all three take one sweep
    seconds = basis_seconds(d, width, steps, profile, outer)
    seconds += sum(moment.forming for moment in chosen)
    seconds += products * sum(moment.formed for moment in chosen)
    seconds += products * sum(moment.streamed for moment in streamed)
    memory = basis_memory(d, width) + 24 * sum(moment.entries for moment in chosen)
    passes = 2.0 * bool(chosen) + sweeps * bool(rest)
    most = max(moment.entries for moment in chosen or moments)
    name = "covariances formed" if chosen else "data as operator"
    reason = (
        f"{most:.1g} entries in a covariance, {problem.data_size:.1g} in the data; about {outer} "
        f"outer iterations of {steps} steps"
    )
    plain = formed == [worth_forming(*pair, problem.form) for pair in moment_pairs(problem)]
    solved = problem if plain else replace(problem, form=all(formed))
    return Route(name, seconds, passes, memory, reason, solved, _davidson(problem, formed))


def _davidson(problem: TwoView, formed: list[bool]) -> Davidson:
    """The method, with a better preconditioner where the entries of both covariances are sparse."""
    if formed[0] and formed[1] and problem.X.is_sparse and problem.Y.is_sparse:
        return Davidson(solver=CG(preconditioner=IncompleteCholesky()))
    return Davidson()


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them.

    Examples
    --------
    >>> duration(0.25), duration(90), duration(9000), duration(1e6)
    ('0.25 s', '90 s', '2.5 h', '12 d')
    """
    for length, unit in ((86400.0, "d"), (3600.0, "h")):
        if seconds >= 2 * length:
            return f"{seconds / length:.{0 if seconds >= 10 * length else 1}f} {unit}"
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:.0f} s"


def in_bytes(count: float) -> str:
    """A number of bytes in the unit that suits it."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
