"""The paper's central claim: warm starts make inner steps grow as log(1/ε), not as log²(1/ε)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from genelin.datasets import Views
from genelin.eigen.methods.davidson import Davidson
from genelin.eigen.paper.ccalin import CCALin
from genelin.experiments.cases import described
from genelin.experiments.drawing import LOOKS, figure_with, markdown, save
from genelin.experiments.records import Point, RunRecord, exact_answer, record_run, value_at
from genelin.io import write_atomically
from genelin.linalg.column_products import Block
from genelin.operators import Operator
from genelin.problems import TwoView
from genelin.results import LinearSolution
from genelin.solvers import AGD, LinearSolver

__all__ = ["ColdStart", "draw_warm_start", "growth_exponent", "warm_start_runs"]

DEFAULT = "Davidson (default for large d)"
EPSILONS = tuple(10.0**-j for j in range(2, 11))


@dataclass(frozen=True)
class ColdStart(LinearSolver):
    """A solver that forgets the start it is given and begins at zero.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import solvers
    >>> cold, B, b = ColdStart(), np.diag([1.0, 4.0]), np.ones(2)
    >>> near = np.array([1.0, 0.25]) + 1e-6
    >>> warm = solvers.AGD().solve(cold.init(B), b, near, 1e-2).value
    >>> again = cold.solve(cold.init(B), b, near, 1e-2).value
    >>> bool(abs(warm - [1.0, 0.25]).max() < 1e-6 < abs(again - [1.0, 0.25]).max())
    True
    """

    solver: LinearSolver = field(default_factory=AGD)

    def _prepare(self, operator: Operator) -> Any:
        return self.solver._prepare(operator)

    def _advance(
        self, state: Any, rhs: Block, x0: Block, reduction: float, residual: Block | None
    ) -> LinearSolution:
        return self.solver._advance(state, rhs, np.zeros_like(rhs), reduction, rhs)


def warm_start_runs(
    views: Views, k: int, reg: float, epsilons: tuple[float, ...] = EPSILONS, **facts: Any
) -> Iterator[RunRecord]:
    """One warm run to the smallest ε, a cold run for each ε, and Davidson.

    Warm solves reduce their error by a constant factor δ. Cold ones must reach, from zero, what
    sin θ ≤ ε needs in every iteration: a relative error of ε·ρ/(4γ).
    """
    exact = exact_answer(TwoView(views.X, views.Y, reg), k + 1)
    sigma = exact.correlations
    rho, gamma = float(1 - sigma[k] / sigma[k - 1]), float(sigma[0] / sigma[k - 1])
    answer = exact_answer(TwoView(views.X, views.Y, reg), k)
    facts |= {"rho": rho, "gamma": gamma}

    def run(label: str, method: Any, epsilon: float) -> RunRecord:
        def reached(point: Point) -> bool:
            return point.sin_theta_b <= epsilon

        return record_run(
            views,
            method,
            k=k,
            reg=reg,
            tol=1e-13,
            exact=answer,
            until=reached,
            facts=facts | {"label": label, "epsilon": epsilon},
        )

    agd = AGD(max_iter=10**6)
    # θ_B of the runs is that of the 2k-dimensional space; δ for it by Theorem 6, at cos θ = 1
    delta = rho**2 / (64 * 2 * k * gamma**2)
    yield run("warm", CCALin(solver=agd, reduction=delta), min(epsilons))
    for epsilon in epsilons:
        accuracy = epsilon * rho / (4 * gamma)
        cold = CCALin(solver=ColdStart(agd), reduction=accuracy**2, iterations=10**4)
        yield run("cold", cold, epsilon)
    yield run(DEFAULT, Davidson(), min(epsilons))


def growth_exponent(epsilons: Any, counts: Any) -> float:
    """The p of a + b·logᵖ(1/ε), fitted by least squares to counts of steps.

    Examples
    --------
    >>> import numpy as np
    >>> epsilons = 10.0 ** -np.arange(2, 11)
    >>> logs = np.log(1 / epsilons)
    >>> round(growth_exponent(epsilons, 40 + 3 * logs), 3)
    1.0
    >>> round(growth_exponent(epsilons, 10 + logs**2), 3)
    2.0
    """
    logs, counts = np.log(1 / np.asarray(epsilons)), np.asarray(counts, dtype=np.float64)

    def misfit(p: float) -> float:
        terms = np.stack([np.ones_like(logs), (logs / logs[-1]) ** p], axis=1)
        left = counts - terms @ np.linalg.lstsq(terms, counts, rcond=None)[0]
        return float(left @ left)

    from scipy.optimize import minimize_scalar

    return float(minimize_scalar(misfit, bounds=(0.2, 4.0), method="bounded").x)


def _counts(runs: list[RunRecord]) -> dict[str, tuple[list[float], list[float]]]:
    """Inner steps to every ε: of the warm run and the default from one trace, of cold runs each."""
    cold = sorted((run.problem["epsilon"], run.points[-1].inner) for run in runs[1:-1])
    epsilons = [epsilon for epsilon, _ in reversed(cold)]
    found = {"cold": (epsilons, [float(inner) for _, inner in reversed(cold)])}
    for run in (runs[0], runs[-1]):
        steps = [value_at(run, "sin_theta_b", epsilon, "inner") for epsilon in epsilons]
        found[run.problem["label"]] = (epsilons, steps)
    return {label: found[label] for label in (DEFAULT, "warm", "cold")}


def draw_warm_start(groups: list[list[RunRecord]], folder: Path, name: str) -> list[Path]:
    """Inner steps against ε, warm, cold and by Davidson; a panel for each data set."""
    notes = [
        f"{described(runs[0].dataset, runs[0].problem)}, ρ = {runs[0].problem['rho']:.3f}"
        for runs in groups
    ]
    note = "; ".join(notes) + ". Steps of AGD (of CG for Davidson), both views summed."
    figure, axes = figure_with(len(groups), "Warm against cold starts of linear solves", note)
    rows = []
    for axis, runs in zip(axes, groups, strict=True):
        for (label, (epsilons, counts)), look in zip(
            _counts(runs).items(), (LOOKS[0], LOOKS[1], LOOKS[2]), strict=True
        ):
            p = growth_exponent(epsilons, counts)
            text = label if label == DEFAULT else f"{label}: log$^{{{p:.2f}}}$(1/ε)"
            axis.plot(epsilons, counts, **look.line(label=text))
            steps = (f"{count:,.0f}" for count in (counts[0], counts[len(counts) // 2], counts[-1]))
            rows.append((runs[0].dataset, label, *steps, f"{p:.2f}"))
        axis.set(xscale="log", yscale="log", xlabel="ε, the sine that is reached")
        axis.set(ylabel="inner steps in total", title=runs[0].dataset)
        axis.invert_xaxis()
        axis.legend(fontsize=9)
    middle = groups[0][1:-1][len(groups[0][1:-1]) // 2].problem["epsilon"]
    ends = (groups[0][1].problem["epsilon"], middle, groups[0][-2].problem["epsilon"])
    header = ("data", "start", *(f"steps to {epsilon:.0e}" for epsilon in ends), "exponent p")
    table = folder / f"{name}.md"
    write_atomically(table, markdown(header, rows).encode())
    return [*save(figure, folder, name), table]
