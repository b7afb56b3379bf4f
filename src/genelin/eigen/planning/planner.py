"""How the default is chosen: every method that handles a problem is asked what it would cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from genelin.eigen.costs.facts import Facts
from genelin.eigen.costs.machine import Machine, default_machine, measured, seconds_of
from genelin.eigen.costs.plan import Plan, Route
from genelin.eigen.methods.davidson import OUTER_ITERATIONS, STEPS, Davidson
from genelin.eigen.registry import METHODS
from genelin.eigen.subspace.correction_equation import CorrectionEquation
from genelin.eigen.subspace.ritz_basis import start_block
from genelin.problems import SMALL, Pencil, TwoView, is_diagonal
from genelin.solvers import CG

__all__ = ["best_route", "measured_plan", "planned", "trial_steps"]

GUESS = 2.0**0.5  # how far off a guess may be: of the outer iterations, of the steps of solves
FEWER = 768  # size up to which a sparse A with a diagonal B is taken as dense at once
OPAQUE = 256  # size up to which operators without entries are multiplied out at once


def planned(
    problem: Pencil | TwoView,
    k: int,
    machine: Machine,
    steps: int | None = None,
    column: float | None = None,
) -> Plan:
    """Routes to k pairs, the one to be taken first.

    Where they are known: `steps` of a solve, and seconds of products of A and B with a `column`.
    """
    facts = Facts(problem, k, machine, steps, column)
    small = _is_small(facts)
    facts = replace(facts, probe=not small)
    routes = [route for method in _methods(facts, small) for route in method.estimate(facts)]
    routes = [
        route.method.followed(route, [other for other in routes if other is not route], facts)
        for route in routes
    ]
    return Plan(_task(problem, k), _ranked(routes, facts, small))


def _methods(facts: Facts, small: bool) -> list[Any]:
    """Registered methods that handle the problem; of a small one those that are certain."""
    methods = [row.load()() for row in METHODS.values() if row.group == "planned"]
    methods = [method for method in methods if method.handles(facts.problem, facts.k)]
    if not (small or _is_opaque(facts)):
        return methods
    pencil = isinstance(facts.problem, Pencil)
    return [method for method in methods if method.certain or (pencil and method == Davidson())]


def _is_small(facts: Facts) -> bool:
    """Whether a decomposition takes no time to speak of, or so many pairs are wanted."""
    problem = facts.problem
    if isinstance(problem, TwoView):
        return max(problem.splits) <= SMALL
    if facts.k > problem.d // 4:
        return True
    if not facts.is_explicit:
        return bool(problem.d <= OPAQUE)
    white = facts.whitening
    quick = white is not None and not white.dense and facts.matrices[0] is not None
    return bool(problem.d <= (FEWER if quick else SMALL))


def _is_opaque(facts: Facts) -> bool:
    return isinstance(facts.problem, Pencil) and facts.multiplied_out


def _ranked(routes: list[Route], facts: Facts, small: bool) -> tuple[Route, ...]:
    """Those that fit in memory first, then by time; that of an iteration may well be longer.

    Of a small problem a certain one is first; of operators without entries the iteration is.
    """
    guesses = 2 if facts.steps is None else 1

    def key(route: Route) -> tuple[bool, bool, float]:
        certain = route.method.certain
        first = certain == small if small or _is_opaque(facts) else True
        return not first, not route.fits(facts), route.seconds * (1 if certain else GUESS**guesses)

    return tuple(sorted(routes, key=key))


def _task(problem: Pencil | TwoView, k: int) -> str:
    if isinstance(problem, TwoView):
        x, y = (f"{rows.n} × {rows.d}" for rows in problem.views)
        return f"{k} canonical pairs of X ({x}) and Y ({y})"
    return f"{k} eigenpairs ({problem.which}) of a pencil of size {problem.d}"


def best_route(problem: Pencil | TwoView, k: int, machine: Machine | None = None) -> Route:
    """The cheapest route by usual speeds; there is a trial only where it may save a long time.

    Examples
    --------
    >>> import numpy as np
    >>> best_route(Pencil(np.eye(3)), k=1).method
    Dense()
    """
    machine = machine or default_machine()
    chosen = planned(problem, k, machine).chosen
    if isinstance(problem, TwoView) and _worth_a_trial(problem, k, machine, chosen):
        steps = trial_steps(problem)
        return replace(planned(problem, k, machine, steps).chosen, trial=1.0 + (steps or 0))
    return chosen


def _worth_a_trial(problem: TwoView, k: int, machine: Machine, chosen: Route) -> bool:
    """Whether solves of few steps would make another route than a dense one much cheaper."""
    if not (chosen.method.certain and problem.in_memory):
        return False
    easy = planned(problem, k, machine, 1).chosen
    if easy.method == chosen.method:
        return False
    through_rows = planned(problem.replace(form=False), k, machine).routes
    trial = max(route.seconds for route in through_rows if route.method != chosen.method)
    return chosen.seconds - easy.seconds > trial / OUTER_ITERATIONS


def trial_steps(problem: Pencil | TwoView) -> int | None:
    """Steps that a correction takes, from one of two random columns through the data.

    None where no iteration would be of use.
    """
    if isinstance(problem, Pencil) or max(problem.splits) <= SMALL or is_diagonal(problem):
        return None
    pencil, cg = problem.replace(form=False).pencil, CG()
    W = start_block(pencil, 2, np.random.default_rng(0))
    inverse = cg.approximate_inverse(cg.init(pencil.B))
    if inverse is None:
        return STEPS
    both, corrections = np.arange(2), CorrectionEquation(pencil, inverse, 2)
    return corrections.plain(pencil.A @ W, both, Davidson.reduction, STEPS).steps


# --- Plans that are printed: by the measured speed of this machine, and the first iterations -----


def measured_plan(problem: Pencil | TwoView, k: int, tol: float) -> Plan:
    """The plan by the measured speed of this machine, and a trial solve with B.

    Its first route is the one that is taken by usual speeds where no method is named; an iteration
    on two data sets in memory is begun, unless that would be long. What is longer or shorter than
    was predicted is so for the same iteration on other operators, too.
    """
    machine = default_machine()
    taken = best_route(problem, k, machine)
    machine = replace(machine, profile=measured())
    plan = planned(problem, k, machine, trial_steps(problem), _tried_column(problem, k))
    first, *others = sorted(plan.routes, key=lambda route: route.name != taken.name)
    facts = Facts(problem, k, machine)
    begun = first.method.piloted(first, facts, tol)
    ratio, kind = begun.seconds / first.seconds, type(first.method.iteration)
    rest = (
        replace(route, seconds=ratio * route.seconds)
        if type(route.method.iteration) is kind and not route.method.certain
        else route
        for route in others
    )
    return replace(plan, routes=(begun, *rest))


def _tried_column(problem: Pencil | TwoView, k: int) -> float | None:
    """Seconds of products with a column of a block, if that cannot be told but by a trial."""
    if isinstance(problem, TwoView) or Facts(problem, k, default_machine()).is_explicit:
        return None
    V = start_block(problem, min(Davidson.width(k), problem.d), np.random.default_rng(0))
    return float(seconds_of(lambda: (problem.A @ V, problem.B @ V), repeats=1) / V.shape[1])
