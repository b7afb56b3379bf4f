"""Every route to k canonical pairs of two views in memory, by the speeds of a machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from genelin.eigen.methods.davidson import Davidson
from genelin.eigen.methods.dense import Dense, OrDense, has_few
from genelin.eigen.methods.diagonal_cca import WhitenedSVD, is_diagonal
from genelin.eigen.methods.dual_cca import FewRows
from genelin.eigen.planning.machine import Machine, Profile
from genelin.eigen.planning.plan import Route
from genelin.operators import Rows
from genelin.operators.row_gram import KEPT
from genelin.problems import SMALL, Pencil, TwoView, estimated_entries, worth_forming
from genelin.solvers import CG, IncompleteCholesky

__all__ = [
    "OUTER_ITERATIONS",
    "SKINNY",
    "STEPS",
    "Moment",
    "basis_memory",
    "basis_seconds",
    "decomposing",
    "forming",
    "moment_of",
    "moment_pairs",
    "ranked",
    "view_routes",
]

MANY_COLUMNS = 1.5  # columns to a row from which on rows are decomposed
INSTANT = 128  # columns up to which covariances are decomposed in no time
OUTER_ITERATIONS = 20  # outer iterations that `Davidson` needs, as a rule
STEPS = 20  # and steps of each of its solves where B is not known to be easy
TRIED, LATER = 12, 1.5  # the same after a trial, and how many more steps later solves take
SPARE = 0.8  # part of the memory that a route may take, beside the data
GUESS = 2.0**0.5  # how far off a guess may be: of the outer iterations, of the steps of solves
CAUTION = 2.6  # how much longer dense solutions may take to be worth it for sparse views
UPDATED = 120.0  # bytes of memory that a step of a solve goes through for every number of a block
SKINNY = 4.0  # how much slower dense products with few columns are, for each number
CENTRED = 2.0  # and again through rows that are centred on the way
COUNTED = 1.4  # columns that are counted, for every one that is foreseen
LANCZOS = 20  # products with a diagonal problem for every pair


def ranked(routes: list[Route], machine: Machine, guesses: int = 2) -> tuple[Route, ...]:
    """Those that fit in memory first, then by time; that of an iteration may well be longer."""

    def key(route: Route) -> tuple[bool, float]:
        certain = isinstance(route.method, Dense | FewRows)
        return not fits(route, machine), route.seconds * (1.0 if certain else GUESS**guesses)

    return tuple(sorted(routes, key=key))


def fits(route: Route, machine: Machine) -> bool:
    """Whether the machine has the memory for it, beside the data."""
    return route.memory + _held(route.problem) <= SPARE * machine.memory


def _held(problem: Pencil | TwoView) -> float:
    """Bytes of the data that are in memory: numbers, and as many indices of half their size."""
    if isinstance(problem, Pencil):
        return 12.0 * problem.data_size
    return 12.0 * sum(rows.stored for rows in (problem.X, problem.Y) if rows.in_memory)


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
    return Moment(entries, forming, thin * entries, 2 * CENTRED * thin * stored)


def view_routes(problem: TwoView, k: int, machine: Machine, steps: int | None) -> tuple[Route, ...]:
    """Routes to k canonical pairs; `steps` of a solve where they are known."""
    profile = machine.profile
    if is_diagonal(problem):
        direct = [_diagonal_route(problem, k, profile), _dense_route(problem, k, profile)]
        return ranked(direct, machine)
    dense = _dense_route(problem, k, profile)
    direct = [dense, *_few_rows_routes(problem, k, profile)]
    if max(problem.splits) <= SMALL:
        return ranked(direct, machine)
    moments = [moment_of(*pair, profile) for pair in moment_pairs(problem)]
    wanted = [worth_forming(*pair, problem.form) for pair in moment_pairs(problem)]
    alternatives = [wanted] if problem.form is not None else [wanted, [not any(wanted)] * 3]
    solves = (OUTER_ITERATIONS, STEPS) if steps is None else (TRIED, round(LATER * steps))
    routes = [
        _davidson_route(problem, k, profile, solves, moments, formed) for formed in alternatives
    ]
    if problem.form is None and fits(dense, machine):
        routes = [_limited(route, dense, _sweeps(solves) * Davidson.width(k)) for route in routes]
    return ranked([*routes, *direct], machine, guesses=2 if steps is None else 1)


def _limited(route: Route, dense: Route, columns: float) -> Route:
    """A route of so many columns, which is left for the dense one when that would be done."""
    longer = max(dense.seconds / route.seconds, _caution(route.problem))
    most = round(COUNTED * columns * longer)
    method = OrDense(replace(route.method, max_applications=most))
    reason = f"{route.reason}, dense after {most} columns"
    memory = max(route.memory, dense.memory)
    return replace(route, method=method, memory=memory, reason=reason)


def _caution(problem: TwoView) -> float:
    """What a dense solution counts for: iterations on sparse views are often shorter than foreseen.

    Not so for dense views: with hardly more rows than columns, most correlations are close to one.
    """
    return CAUTION if problem.X.is_sparse and problem.Y.is_sparse else 1.0


def _sweeps(solves: tuple[int, int]) -> float:
    """Sweeps over the data of outer iterations with so many steps each."""
    outer, steps = solves
    return outer * (4.0 + steps)  # expansions in double precision count twice


def moment_pairs(problem: TwoView) -> tuple[tuple[Rows, Rows], ...]:
    """The views of which S_x, S_y and S_xy are made."""
    X, Y = problem.X, problem.Y
    return (X, X), (Y, Y), (X, Y)


def _dense_route(problem: TwoView, k: int, profile: Profile) -> Route:
    dx, dy = (float(d) for d in problem.splits)
    numbers = dx**2 + dy**2 + dx * dy
    seconds = forming(problem, profile) + decomposing(dx, dy, k, profile)
    seconds *= _caution(problem)
    reason = "covariances in one pass, their factors, and one decomposition"
    return Route("dense", seconds, 1.0, 24 * numbers, reason, problem, Dense())


def _few_rows_routes(problem: TwoView, k: int, profile: Profile) -> list[Route]:
    """Products between rows, where they are much fewer than columns and not much fewer than k."""
    views, n = (problem.X, problem.Y), float(problem.X.n)
    free = problem.form is None and all(rows.in_memory for rows in views)
    if not free or max(problem.splits) < max(MANY_COLUMNS * n, INSTANT) or 4 * k > n:
        return []
    sizes, seconds = [min(float(rows.d), n) for rows in views], 0.0
    for rows, size in zip(views, sizes, strict=True):
        product = profile.entry if rows.is_sparse else profile.multiply
        seconds += 2 * product * rows.stored * size + profile.decompose * size**3
    seconds += profile.multiply * n * sizes[0] * sizes[1] + _last(min(sizes), k, profile)
    copies = sum(rows.stored for rows in views if not rows.is_sparse and rows.stored <= KEPT)
    memory = 8 * (4 * n * sum(sizes) + 2 * sizes[0] * sizes[1] + copies)
    memory += 32.0 * k * sum(problem.splits)
    reason = f"products between {problem.X.n} rows instead of columns, and their decomposition"
    return [Route("few rows", seconds, 3.0, memory, reason, problem, FewRows())]


def forming(problem: TwoView, profile: Profile) -> float:
    """Seconds for all covariances as dense matrices."""
    (dx, dy), x, y = problem.splits, float(problem.X.stored), float(problem.Y.stored)
    return profile.multiply * (x * (dx + dy) + y * dy)


def decomposing(dx: float, dy: float, k: int, profile: Profile) -> float:
    """Seconds for their factors and the decomposition of the whitened cross-covariance."""
    smaller = min(dx, dy)
    products = dx**3 + dy**3 + 2 * dx * dy * smaller
    return profile.multiply * products + _last(smaller, k, profile)


def _last(d: float, k: int, profile: Profile) -> float:
    """Seconds for k singular vectors of d, from a product of the matrix with itself."""
    return (profile.reduce if has_few(k, d) else profile.decompose) * d**3


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
    sweeps = _sweeps(solves)
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
    solved = problem if plain else problem.replace(form=all(formed))
    return Route(name, seconds, passes, memory, reason, solved, _davidson(problem, formed))


def _davidson(problem: TwoView, formed: list[bool]) -> Davidson:
    """The method, with a better preconditioner where the entries of both covariances are sparse."""
    if formed[0] and formed[1] and problem.X.is_sparse and problem.Y.is_sparse:
        return Davidson(solver=CG(preconditioner=IncompleteCholesky()))
    return Davidson()
