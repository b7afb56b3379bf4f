"""Every route to k pairs of a pencil, by the speeds of a machine."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from genelin.eigen.methods.davidson import Davidson
from genelin.eigen.methods.dense import Dense, OrDense
from genelin.eigen.methods.lanczos import Lanczos
from genelin.eigen.methods.shift_invert import GUARDS, ShiftInvert, one_sided, sparse_core
from genelin.eigen.planning.machine import Machine, Profile
from genelin.eigen.planning.plan import Route
from genelin.eigen.planning.two_view_costs import (
    OUTER_ITERATIONS,
    SKINNY,
    STEPS,
    basis_memory,
    basis_seconds,
    ranked,
)
from genelin.eigen.subspace.spectrum_probe import clustering, digits_seen
from genelin.eigen.subspace.whitening import by_diagonal
from genelin.linalg.sparse_cholesky import is_diagonal_matrix, predicted_fill
from genelin.operators import Operator
from genelin.problems import SMALL, Pencil

__all__ = ["held_up", "is_explicit", "pencil_routes", "per_column"]

FEWER = 768  # size up to which a sparse A with a diagonal B is taken as dense at once
OPAQUE = 256  # size up to which operators without entries are multiplied out at once
CROWDED = 20.0  # how much longer an iteration takes at an end where values crowd, at least
SOLVES = 7  # columns that are solved for with factors, for every pair
CHECKING = 3.0  # outer iterations whose time it takes to check what was found with them
BLOCKS = 60  # steps that `Lanczos` needs for one pair, as a rule
STEEP, WIDER = 8.0, 20  # steps by the measure of `clustering`, and pairs that take twice as many
AGAIN = 3  # times as many as foreseen that are granted to it
SHORTEST = 60  # steps that it may take at least
SLACK = 2.0  # how many times less than other methods need is spent on a trial
SEEN, CLEAR = 480, 4.0  # steps for every digit less, and digits below which there are more
FEWEST = 30  # those where all digits are seen
EASY = 6  # steps of a solve with a B that is well conditioned, and half of those where it is not
THROUGH = 1.5  # times that a column goes through the space, about
MOST_FACTORED, FACTORED = 2.0**32, 40.0  # bytes for factors of a dense B, and for a number of it
STORED = 40.0  # bytes for an entry of factors, while they are found


def pencil_routes(problem: Pencil, k: int, machine: Machine, column: float) -> tuple[Route, ...]:
    """Routes to k pairs of a pencil, by seconds of products of A and B with a column."""
    profile = machine.profile
    d, explicit = problem.d, is_explicit(problem)
    dense = _dense_pencil(problem, k, profile, 0.0 if explicit else column)
    root = _root(problem, profile)
    apart = root is not None and not root.dense and sparse_core(problem.A) is not None
    at_once = (FEWER if apart else SMALL) if explicit else OPAQUE
    small = k > d // 4 or d <= at_once
    easy = None if small else _is_easy(problem.B)
    iterative = _iterative(problem, k, profile, column, easy)
    if small:
        return dense, iterative
    if d <= SMALL and not explicit:
        return _opaque(iterative, dense)
    crowd = _crowd(problem)
    others = [*_crowded(problem, k, profile, iterative, crowd), dense]
    if root is None:
        return ranked(others, machine)
    steps = _steps_of_lanczos(problem, k, crowd, dear=easy is True)
    by_lanczos = _by_lanczos(problem, k, profile, root, column, others, steps)
    return ranked([*others, by_lanczos], machine)


@dataclass(frozen=True)
class _Root:
    """T with TᵀBT = I.

    Attributes
    ----------
    name : what it is.
    setup, column : seconds to find it, and of both products with a column.
    memory : bytes that it takes.
    dense : whether it is a dense matrix.
    slack : how many times less than the next best method needs is spent on a trial with it.
    """

    name: str
    setup: float = 0.0
    column: float = 0.0
    memory: float = 0.0
    dense: bool = False
    slack: float = 1.0


def _root(problem: Pencil, profile: Profile) -> _Root | None:
    """The root of B that is cheap to have, if there is one."""
    B, d = problem.B, float(problem.d)
    if by_diagonal(B) is not None:
        return _Root("diagonal")
    if B.fill is not None and B.fill.is_sparse:
        setup, column = B.fill.factoring(profile.factor), 2 * profile.entry * B.fill.entries
        return _Root("a sparse factor", setup, column, STORED * B.fill.entries, slack=SLACK)
    known = B.entries() is not None and any(map(_is_dense, problem.operators))
    if not known or FACTORED * d**2 > MOST_FACTORED:
        return None
    setup, column = profile.multiply * d**3 / 3, SKINNY * profile.multiply * d**2
    return _Root("a Cholesky factor", setup, column, 16 * d**2, dense=True)


def _opaque(iterative: Route, dense: Route) -> tuple[Route, ...]:
    """Operators of which only products are known, not many."""
    columns = 2 * iterative.problem.d
    reason = f"{iterative.reason}; multiplied out after {columns} columns"
    either = replace(
        iterative,
        reason=reason,
        method=OrDense(Davidson(max_applications=columns)),
        seconds=min(iterative.seconds, 2 * dense.seconds),
        memory=max(iterative.memory, dense.memory),
    )
    return either, dense


def _by_lanczos(
    problem: Pencil,
    k: int,
    profile: Profile,
    root: _Root,
    column: float,
    others: list[Route],
    steps: int,
) -> Route:
    """Lanczos, where a root of B is cheap; the cheapest of the others takes over if need be."""
    method, d = Lanczos(), float(problem.d)
    work = THROUGH * SKINNY * profile.multiply * d * method.most(k)
    product = column if problem.A.entries() is None else _product(problem.A, profile)
    step = method.columns * (product + root.column + work)
    further = min(others, key=lambda route: route.seconds)
    most = max(int((further.seconds / root.slack - root.setup) / step), SHORTEST)
    granted = max(method.steps(k), AGAIN * steps)
    method = Lanczos(max_steps=max(min(most, granted), 3 * steps // 2), further=further.method)
    reason = f"the root of B is {root.name}: about {steps} steps on {method.columns} columns"
    memory = 8.0 * d * (method.most(k) + 5 * method.columns) + root.memory
    seconds = root.setup + steps * step
    return Route("Lanczos", seconds, float(steps), memory, reason, problem, method)


def _steps_of_lanczos(problem: Pencil, k: int, crowd: float | None, dear: bool) -> int:
    """Steps that `Lanczos` needs.

    Where they are dear, and B is so well conditioned that its diagonal can stand for it, the
    spectrum is looked at first.
    """
    A, B = (sparse_core(operator) for operator in problem.operators)
    if crowd is not None:
        return max(BLOCKS + 2 * k, round(STEEP * (1 + k / WIDER) * crowd))
    if not dear or A is None:
        return BLOCKS + 2 * k
    digits = max(digits_seen(A, B, k, problem.which), 1.0)
    return round(SEEN / digits * max(1.0, CLEAR / digits))


def held_up(problem: Pencil, k: int) -> float:
    """How many times as long as foreseen `Davidson` takes, where a look at the spectrum can tell.

    Lanczos takes as many steps as 1/√gap, in which the corrections of `Davidson` grow longer, too.
    """
    if _is_easy(problem.B) is not True or _crowd(problem) is not None:
        return 1.0
    return math.sqrt(max(_steps_of_lanczos(problem, k, None, dear=True) / FEWEST, 1.0))


def _is_easy(B: Operator) -> bool | None:
    """Whether a sparse B is well conditioned by its diagonal, beside which it has other entries."""
    core = sparse_core(B)
    if core is None or is_diagonal_matrix(core):
        return None
    return clustering(core, sparse.diags_array(core.diagonal())) is None


def is_explicit(problem: Pencil) -> bool:
    """Whether the entries of A and B are known."""
    return all(part.entries() is not None for part in problem.operators)


def _dense_pencil(problem: Pencil, k: int, profile: Profile, column: float) -> Route:
    d, reason = float(problem.d), "a factorisation of B, and a reduction to three diagonals"
    explicit = is_explicit(problem)
    seconds = (profile.reduce + profile.multiply) * d**3 + d * column
    if 4 * k > problem.d:
        seconds, reason = seconds + profile.decompose * d**3, f"{reason} with all their vectors"
    if not explicit:
        reason = f"A and B multiplied out, then {reason}"
    passes = 1.0 if explicit else d
    return Route("dense", seconds, passes, 40 * d**2, reason, problem, Dense())


def _crowd(problem: Pencil) -> float | None:
    """How values crowd at the end that is wanted, if they do, and entries are at hand to tell."""
    explicit = all(sparse_core(operator) is not None for operator in problem.operators)
    return clustering(*one_sided(problem)) if explicit and problem.which != "LM" else None


def _crowded(
    problem: Pencil, k: int, profile: Profile, iterative: Route, crowd: float | None
) -> list[Route]:
    """The iteration, or what it takes at an end where values crowd, beside factors of A − σB."""
    if crowd is None:
        return [iterative]
    A, B = one_sided(problem)
    fill, count = predicted_fill(abs(A) + abs(B)), k + GUARDS
    seconds = fill.factoring(profile.factor) + SOLVES * count * fill.solving(profile.factor)
    seconds += CHECKING * iterative.seconds / OUTER_ITERATIONS
    reason = f"values crowd at this end: factors of about {fill.entries:.1g} entries spread them"
    memory = STORED * fill.entries + basis_memory(problem.d, Davidson.width(k))
    solves = float(SOLVES * count)
    inverted = Route("shift and invert", seconds, solves, memory, reason, problem, ShiftInvert())
    longer = replace(
        iterative,
        seconds=CROWDED * iterative.seconds,
        passes=CROWDED * iterative.passes,
        reason=f"{iterative.reason}, and many more where values crowd",
    )
    return [inverted, longer]


def _iterative(
    problem: Pencil, k: int, profile: Profile, column: float, easy: bool | None
) -> Route:
    width, steps = Davidson.width(k), STEPS if easy is None else EASY if easy else 2 * EASY
    seconds = OUTER_ITERATIONS * (1 + steps) * width * column
    seconds += basis_seconds(problem.d, width, steps, profile)
    reason = f"about {OUTER_ITERATIONS} outer iterations of {steps} steps on {width} columns"
    memory, passes = basis_memory(problem.d, width), OUTER_ITERATIONS * (1.0 + steps)
    return Route("Davidson", seconds, passes, memory, reason, problem, Davidson())


def per_column(problem: Pencil, profile: Profile) -> float:
    """Seconds of the products of A and B with one column of a block."""
    return sum(_product(operator, profile) for operator in problem.operators)


def _product(operator: Operator, profile: Profile) -> float:
    """Seconds of the product of one of them."""
    return (
        operator.flops / 2 * (SKINNY * profile.multiply if _is_dense(operator) else profile.entry)
    )


def _is_dense(operator: Operator) -> bool:
    entries = operator.entries()
    return entries is not None and isinstance(entries.core, np.ndarray)
