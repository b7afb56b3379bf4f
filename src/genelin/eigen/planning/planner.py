"""What runs when the user does not say: the cheapest route, by stock figures and by trials."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from genelin.eigen.methods.davidson import Davidson
from genelin.eigen.methods.dense import Dense, OrDense
from genelin.eigen.methods.diagonal_cca import is_diagonal
from genelin.eigen.methods.lanczos import Lanczos
from genelin.eigen.planning.machine import Machine, default_machine, measured, seconds_of
from genelin.eigen.planning.pencil_costs import held_up, is_explicit, pencil_routes, per_column
from genelin.eigen.planning.pilot_run import lanczos_pilot_run, pilot_run
from genelin.eigen.planning.plan import Plan, Route
from genelin.eigen.planning.two_view_costs import OUTER_ITERATIONS, STEPS, view_routes
from genelin.eigen.subspace.correction_equation import CorrectionEquation
from genelin.eigen.subspace.ritz_basis import start_block
from genelin.problems import SMALL, Pencil, TwoView
from genelin.solvers import CG

__all__ = ["best_route", "measured_plan", "planned", "trial_steps"]

USUAL = 1e-6  # tolerance that outer iterations are foreseen for
LONGEST = 300.0  # seconds of a route that is begun for a plan


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
    if isinstance(problem, TwoView):
        routes = view_routes(problem, k, machine, steps)
        x, y = (f"{rows.n} × {rows.d}" for rows in (problem.X, problem.Y))
        return Plan(f"{k} canonical pairs of X ({x}) and Y ({y})", routes)
    column = per_column(problem, machine.profile) if column is None else column
    routes = pencil_routes(problem, k, machine, column)
    return Plan(f"{k} eigenpairs ({problem.which}) of a pencil of size {problem.d}", routes)


def measured_plan(problem: Pencil | TwoView, k: int, tol: float) -> Plan:
    """The plan by the measured speed of this machine, and a trial solve with B.

    Its first route is the one that is taken by stock figures where no method is named; an iteration
    on two data sets in memory is begun, unless that would be long. What is longer or shorter than
    was foreseen is so for the same iteration on other operators, too.
    """
    machine = default_machine()
    taken = best_route(problem, k, machine)
    machine = replace(machine, profile=measured())
    plan = planned(problem, k, machine, trial_steps(problem), _tried_column(problem, k))
    first, *others = sorted(plan.routes, key=lambda route: route.name != taken.name)
    told = _with_pilot_run(first, k, tol)
    ratio = told.seconds / first.seconds
    rest = [
        replace(route, seconds=ratio * route.seconds)
        if isinstance(_iteration(route.method), Davidson)
        else route
        for route in others
    ]
    direct = [route.seconds for route in rest if isinstance(route.method, Dense)]
    if isinstance(told.method, OrDense) and direct:
        told = replace(told, seconds=min(told.seconds, 2 * direct[0]))
    return replace(plan, routes=(told, *rest))


def _iteration(method: Any) -> Any:
    """What a method begins with."""
    return method.first if isinstance(method, OrDense) else method


def _with_pilot_run(route: Route, k: int, tol: float) -> Route:
    """An iterative route down to a tolerance, as its first iterations foretell it."""
    problem, method = route.problem, _iteration(route.method)
    if not isinstance(method, Davidson | Lanczos):
        return route
    if not isinstance(problem, TwoView):
        longer = math.log10(tol) / math.log10(USUAL)
        longer *= held_up(problem, k) if isinstance(method, Davidson) else 1.0
        route = replace(route, seconds=longer * route.seconds, passes=longer * route.passes)
        if route.seconds > LONGEST or isinstance(method, Davidson):
            return route
        tried = lanczos_pilot_run(method, problem, k, tol, route.passes)
    elif route.seconds > LONGEST or not (problem.X.in_memory and problem.Y.in_memory):
        return route
    else:
        tried = pilot_run(method, problem.replace(), k, tol)
    if tried is None:
        return route
    reason = f"{route.reason.split(';')[0]}; {tried.reason}"
    return replace(route, seconds=tried.seconds, passes=tried.passes, reason=reason)


def best_route(problem: Pencil | TwoView, k: int, machine: Machine | None = None) -> Route:
    """The cheapest route by stock figures; there is a trial only where it may save a long time.

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
    if not isinstance(chosen.method, Dense) or not (problem.X.in_memory and problem.Y.in_memory):
        return False
    easy = planned(problem, k, machine, 1).chosen
    if easy.method == chosen.method:
        return False
    through_rows = planned(problem.replace(form=False), k, machine).routes
    trial = (
        max(route.seconds for route in through_rows if route.method != chosen.method)
        / OUTER_ITERATIONS
    )
    return chosen.seconds - easy.seconds > trial


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
    both, correctors = np.arange(2), CorrectionEquation(pencil, inverse, 2)
    return correctors.plain(pencil.A @ W, both, Davidson.reduction, STEPS).steps


def _tried_column(problem: Pencil | TwoView, k: int) -> float | None:
    """Seconds of products with a column of a block, if that cannot be told but by a trial."""
    if isinstance(problem, TwoView) or is_explicit(problem):
        return None
    V = start_block(problem, min(Davidson.width(k), problem.d), np.random.default_rng(0))
    return float(seconds_of(lambda: (problem.A @ V, problem.B @ V), repeats=1) / V.shape[1])
