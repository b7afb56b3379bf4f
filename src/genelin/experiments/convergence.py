"""The runs behind Figures 1 and 2: CCALin with AGD from random starts, and the default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from genelin.eigen.paper.ccalin import CCALin
from genelin.experiments.cases import Case
from genelin.experiments.records import Point, RunRecord, exact_answer, record_run
from genelin.problems import TwoView
from genelin.solvers import AGD

__all__ = ["convergence_runs"]

STARTS = 5
GOAL = 1e-7  # sin θ_B at which a run ends


def convergence_runs(case: Case, starts: int = STARTS) -> Iterator[RunRecord]:
    """CCALin with AGD until sin θ_B ≤ 1e-7, from so many random starts; then the default."""
    settings: dict[str, Any] = {"k": case.k, "reg": case.reg, "center": case.center, "tol": 1e-10}
    exact = exact_answer(TwoView(case.views.X, case.views.Y, case.reg, case.center), case.k)
    method = CCALin(solver=AGD(max_iter=10**6), reduction=case.reduction, max_iter=10**5)
    facts = case.on_record

    def reached(point: Point) -> bool:
        return point.sin_theta_b <= GOAL

    for seed in range(starts):
        yield record_run(
            case.views,
            method,
            **settings,
            seed=seed,
            exact=exact,
            until=reached,
            facts=facts | {"label": "CCALin + AGD"},
        )
    yield record_run(case.views, **settings, exact=exact, facts=facts | {"label": "default"})
