"""Figure 3: total correlation captured against FLOPs, on large sparse data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from genelin.baselines import (
    DWCCA,
    NWCCA,
    PCACCA,
    MomentumALS,
    RandomizedCCA,
    StochasticAppGrad,
)
from genelin.eigen.paper.ccalin import CCALin
from genelin.experiments.cases import Case, described
from genelin.experiments.drawing import LOOKS, figure_with, log_axis, markdown, save
from genelin.experiments.records import Point, RunRecord, exact_answer, record_run
from genelin.io import write_atomically
from genelin.problems import TwoView
from genelin.solvers import AGD, MinibatchAGD

__all__ = ["draw_figure3", "flops_to", "large_runs"]

DONE = 0.9995  # PCC at which an iterative method ends
DEAR = 10.0  # or when it has cost so many times what CCALin took
SHARES = (0.9, 0.99, 0.999)


def _methods(case: Case) -> dict[str, Any]:
    """Those of the paper's Figure 3, then others; the default, which is None, comes first."""
    return {
        "default": None,
        "CCALin + stochastic AGD": CCALin(solver=MinibatchAGD(), reduction=case.reduction),
        "S-AppGrad": StochasticAppGrad(epochs=30.0, records=5),
        "PCA-CCA": PCACCA(),
        "NW-CCA": NWCCA(),
        "DW-CCA": DWCCA(),
        "RandomizedCCA (2014)": RandomizedCCA(),
        "MomentumALS (2019)": MomentumALS(),
        "CCALin + AGD": CCALin(solver=AGD(max_iter=10**6), reduction=case.reduction),
    }


def large_runs(case: Case, growth: float = 1.1) -> Iterator[RunRecord]:
    """Every method until it captures 99.95 % of the best TCC, or has cost far too much.

    What is dear is known from CCALin, the second to run. Covariances are not formed but by the
    default, which decides for itself: the baselines of the paper read the data.
    """
    X, Y = case.views
    exact = exact_answer(TwoView(X, Y, case.reg, case.center), case.k)
    settings: dict[str, Any] = {"k": case.k, "reg": case.reg, "center": case.center, "tol": 1e-6}
    facts, limit = case.on_record, np.inf
    for label, method in _methods(case).items():

        def done(point: Point, most: float = limit) -> bool:
            return point.pcc >= DONE or point.flops > most

        run = record_run(
            case.views,
            method,
            **settings,
            form=None if method is None else False,
            exact=exact,
            growth=1.0 if method is None else growth,
            until=done,
            facts=facts | {"label": label},
        )
        if label.startswith("CCALin + stochastic"):
            limit = DEAR * run.points[-1].flops
        yield run


def flops_to(run: RunRecord, share: float) -> float:
    """FLOPs at which a run has `share` of the best TCC, between its points; inf if it never has.

    Examples
    --------
    >>> from genelin.baselines import NWCCA
    >>> from genelin.datasets import digits_halves
    >>> from genelin.experiments import flops_to, record_run
    >>> run = record_run(digits_halves(), NWCCA(), k=2, reg=1e-2)
    >>> flops_to(run, 0.5) == run.points[0].flops, flops_to(run, 1.1)
    (True, inf)
    """
    flops, pcc = run.column("flops"), run.column("pcc")
    enough = np.flatnonzero(pcc >= share)
    if not len(enough):
        return np.inf
    j = int(enough[0])
    if j == 0:
        return float(flops[0])
    part = (share - pcc[j - 1]) / (pcc[j] - pcc[j - 1])
    return float(flops[j - 1] * (flops[j] / flops[j - 1]) ** part)


def draw_figure3(runs: list[RunRecord], folder: Path, name: str) -> list[Path]:
    """TCC against FLOPs: iterative methods as curves, one-shot methods as single marks."""
    first = runs[0]
    note = (
        f"{described(first.dataset, first.problem)}, nonzeros {first.problem['nonzeros']:,}. FLOPs "
        "by one rule for all: two for every stored entry and column of a product, and the dense "
        "work on blocks. Horizontal: the best TCC, and 99 % of it. Single marks are one-shot."
    )
    figure, (axis,) = figure_with(1, "Figure 3: correlation captured against FLOPs", note, 8.5)
    for run, look in zip(runs, LOOKS, strict=False):
        flops, tcc, label = run.column("flops"), run.column("tcc"), run.problem["label"]
        if len(run.points) == 1:
            axis.plot(flops, tcc, **look.mark(label=label))
        else:
            axis.plot(flops, tcc, **look.line(label=label))
    for share, dash in ((1.0, "-"), (0.99, (0, (2, 2)))):
        axis.axhline(share * first.best, color="#999999", linewidth=0.8, linestyle=dash, zorder=0)
    axis.set(xlabel="FLOPs", ylabel="TCC", ylim=(0, 1.05 * first.best))
    log_axis(axis.xaxis)
    axis.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    table = folder / f"{name}.md"
    write_atomically(table, _table(runs).encode())
    return [*save(figure, folder, name), table]


def _table(runs: list[RunRecord]) -> str:
    """FLOPs to 90, 99 and 99.9 % of the best TCC, and how many times those of the default."""
    base = flops_to(runs[0], 0.99)
    header = ("method", "TCC at its end", *(f"FLOPs to {share:.1%}" for share in SHARES))
    rows = []
    for run in runs:
        cells = [f"{flops:.2e}" for flops in (flops_to(run, share) for share in SHARES)]
        cells = ["never" if cell == "inf" else cell for cell in cells]
        times = flops_to(run, 0.99) / base
        rows.append(
            (
                run.problem["label"],
                f"{run.points[-1].tcc:.4f} ({run.points[-1].pcc:.2%}, {run.status})",
                *cells,
                f"{times:.1f}" if np.isfinite(times) else "–",
            )
        )
    return markdown((*header, "times the default"), rows)
