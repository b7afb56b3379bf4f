"""Tables 1–3 of the paper, measured: how cost grows with n, d, k, κ, ρ and ε."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from genelin.baselines import AppGrad
from genelin.datasets import Views, pencil
from genelin.eigen.paper import theory
from genelin.eigen.paper.ccalin import CCALin
from genelin.eigen.paper.genelink import GenELinK
from genelin.experiments.records import Point, RunRecord, exact_answer, record_pencil, record_run
from genelin.problems import TwoView
from genelin.solvers import AGD, ASVRG, GD, SVRG

__all__ = ["TABLES", "Table", "exact_views", "table_runs"]

DELTA = 1e-4
STEPS = 10**6

Facts = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A table of the paper: the problems, the methods, and the cost that it predicts.

    Attributes
    ----------
    number, title : of the table.
    unit : what is counted, "FLOPs" or "rows read".
    base : the problem of which one parameter at a time is varied.
    varied : the values of each parameter; `kappa, few rows` is κ with 200 rows only.
    methods : by label; None is the default.
    predicted : the cost of a method on a problem, up to a constant and logarithms.
    """

    number: int
    title: str
    unit: str
    base: Facts
    varied: dict[str, tuple[float, ...]]
    methods: dict[str, Any]
    predicted: Callable[[str, Facts], float]


def _table1(label: str, p: Facts) -> float:
    """d²k√κ/ρ against fast matrix inversion."""
    if label == "default":
        return float(p["d"] ** 2.373)
    return float(p["d"] ** 2 * p["k"] * np.sqrt(p["kappa"]) / p["rho"])


def _table2(label: str, p: Facts) -> float:
    """ndk√κ/ρ, ndkκ/ρ², and n·d^1.373 for fast matrix inversion."""
    if label == "default":
        return float(p["n"] * p["d"] ** 1.373)
    condition = p["kappa"] / p["rho"] if label == "AppGrad" else np.sqrt(p["kappa"])
    return float(p["n"] * p["d"] * p["k"] * condition / p["rho"])


def _table3(label: str, p: Facts) -> float:
    """dkn√κ/ρ and its like for other solvers; one or two passes for the default."""
    if label == "default":
        return float(p["n"])
    solver: Any = label.split(" + ")[1]
    sizes = {name: p[name] for name in ("n", "d", "k", "kappa", "rho", "kappa_tilde")}
    return float(theory.table3(solver, epsilon=p["goal"], **sizes) / (p["d"] * p["k"]))


def _ccalin(solver: Any) -> CCALin:
    return CCALin(solver=solver, reduction=DELTA, max_iter=10**4)


TABLES = {
    1: Table(
        1,
        "Table 1: generalized eigenvectors",
        "FLOPs",
        {"d": 200, "k": 4, "kappa": 100.0, "rho": 0.2},
        {
            "d": (100, 200, 400),
            "k": (2, 4, 8, 16),
            "kappa": (25.0, 100.0, 400.0, 1600.0),
            "rho": (0.05, 0.1, 0.2, 0.4),
        },
        {
            "default": None,
            "GenELinK + AGD": GenELinK(solver=AGD(max_iter=STEPS), reduction=DELTA, max_iter=10**4),
        },
        _table1,
    ),
    2: Table(
        2,
        "Table 2: canonical correlations",
        "FLOPs",
        {"n": 2000, "d": 40, "k": 2, "kappa": 25.0, "rho": 0.3},
        {
            "n": (1000, 2000, 4000, 8000),
            "d": (20, 40, 80),
            "k": (1, 2, 4, 8),
            "kappa": (6.25, 25.0, 100.0),
            "rho": (0.15, 0.3, 0.6),
        },
        {
            "default": None,
            "CCALin + AGD": _ccalin(AGD(max_iter=STEPS)),
            "AppGrad": AppGrad(max_iter=STEPS),
        },
        _table2,
    ),
    3: Table(
        3,
        "Table 3: canonical correlations by linear solver",
        "rows read",
        {"n": 8000, "d": 20, "k": 2, "kappa": 25.0, "rho": 0.6},
        {
            "n": (2000, 4000, 8000, 16000),
            "kappa": (10.0, 30.0, 90.0),
            "kappa, few rows": (100.0, 300.0, 900.0),
        },
        {
            "default": None,
            "CCALin + GD": _ccalin(GD(max_iter=STEPS)),
            "CCALin + AGD": _ccalin(AGD(max_iter=STEPS)),
            "CCALin + SVRG": _ccalin(SVRG(max_iter=STEPS)),
            "CCALin + ASVRG": _ccalin(ASVRG(max_iter=STEPS)),
        },
        _table3,
    ),
}


def table_runs(table: Table, quick: bool = False) -> Iterator[RunRecord]:
    """All methods on the base problem and on every variation of it, to sin θ ≤ 1e-6.

    The base problem is followed to 1e-10, for its growth in ε.
    """
    goal, last = (1e-2, 1e-4) if quick else (1e-6, 1e-10)
    problems = [("base", table.base)]
    for by, values in table.varied.items():
        chosen = values[:2] if quick else values
        problems += [(by, _with(table.base, by, value)) for value in chosen]
    for by, facts in problems:
        ends = {"goal": goal, "last": last if by == "base" else goal}
        yield from _runs(table, facts | {"table": table.number, "by": by} | ends)


def _with(base: Facts, by: str, value: float) -> Facts:
    if by == "kappa, few rows":
        return base | {"kappa": value, "n": 200}
    return base | {by: value}


def _runs(table: Table, facts: Facts) -> Iterator[RunRecord]:
    """Every method of a table on one problem."""

    def reached(point: Point) -> bool:
        return bool(point.sin_theta_b <= facts["last"])

    k = int(facts["k"])
    if table.number == 1:
        sizes = {"kappa": facts["kappa"], "rho": facts["rho"]}
        known = pencil(int(facts["d"]), k, gamma=2.0 if k > 1 else 1.0, **sizes)
        for label, method in table.methods.items():
            yield record_pencil(
                known, method, k=k, until=reached, facts=facts | {"label": label}, tol=1e-13
            )
        return
    views = exact_views(int(facts["n"]), int(facts["d"]), k, facts["kappa"], facts["rho"])
    problem = TwoView(views.X, views.Y, center=False)
    facts, exact = facts | {"kappa_tilde": kappa_tilde(problem)}, exact_answer(problem, k)
    for label, method in table.methods.items():
        yield record_run(
            views,
            method,
            k=k,
            center=False,
            form=None if method is None else False,
            tol=1e-13,
            exact=exact,
            growth=1.02 if label == "AppGrad" else 1.0,
            until=reached,
            facts=facts | {"label": label},
        )


def exact_views(n: int, d: int, k: int, kappa: float, rho: float) -> Views:
    """Dense views whose sample has exactly the gap ρ behind k, and covariances of condition κ.

    Correlations fall evenly from 0.9 to 0.75 over the first k, drop by the factor 1 − ρ, and fall
    evenly to zero over the rest.

    Examples
    --------
    >>> from genelin import top_k_cca
    >>> X, Y = exact_views(100, 10, k=2, kappa=4.0, rho=0.2)
    >>> top_k_cca(X, Y, k=3, center=False).correlations.round(6).tolist()
    [0.9, 0.75, 0.6]
    """
    if n < 2 * d:
        raise ValueError(f"n={n} must be at least 2·d = {2 * d}")
    rng = np.random.default_rng(0)
    top = np.linspace(0.9, 0.75, k) if k > 1 else np.array([0.9])
    sigma = np.concatenate([top, np.linspace((1 - rho) * top[-1], 0.0, d - k)])
    Z = np.linalg.qr(rng.standard_normal((n, 2 * d)))[0] * np.sqrt(n)
    halves = (Z[:, :d], sigma * Z[:, :d] + np.sqrt(1 - sigma**2) * Z[:, d:])
    spread = np.logspace(0, -0.5 * np.log10(kappa), d)
    X, Y = ((half @ _turn(rng, d) * spread) @ _turn(rng, d) for half in halves)
    described = f"n = {n}, d = {d} + {d}, exact gap ρ = {rho:g} behind k = {k}, κ = {kappa:g}."
    return Views("exact views", X, Y, described, "Generated; free of rights.", correlations=sigma)


def _turn(rng: np.random.Generator, d: int) -> Any:
    return np.linalg.qr(rng.standard_normal((d, d)))[0]


def kappa_tilde(problem: TwoView) -> float:
    """The paper's κ̃ = max‖xᵢ‖²/σ_min, the larger of both views."""
    views = ((problem.X, problem.S_x), (problem.Y, problem.S_y))
    return max(
        float(
            np.square(rows.matrix).sum(axis=1).max() / np.linalg.eigvalsh(gram.entries().dense())[0]
        )
        for rows, gram in views
    )
