"""Figure 1: global convergence of PCC and of the principal angles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from genelin.experiments.cases import described
from genelin.experiments.drawing import LOOKS, every_so_many, figure_with, save
from genelin.experiments.records import RunRecord

__all__ = ["draw_figure1"]

CURVES = (("pcc", "PCC"), ("sin_theta_b", "cos θ$_B$"))
ANGLES = (("sin_theta_x", "cos θ$_x$"), ("sin_theta_y", "cos θ$_y$"))


def draw_figure1(runs: list[RunRecord], folder: Path, name: str) -> list[Path]:
    """PCC, cos θ_B, cos θ_x and cos θ_y of the first start, against outer iterations."""
    run = next(run for run in runs if run.problem["label"] != "default")
    default = next(run for run in runs if run.problem["label"] == "default")
    note = (
        f"{described(run.dataset, run.problem)}. CCALin with AGD, δ = "
        f"{run.settings['reduction']:g}, from the random start of seed {run.seed}. Default: "
        f"{default.method}."
    )
    figure, (axis,) = figure_with(1, "Figure 1: global convergence", note, 7.5)
    shown = _interesting(run)
    for (column, label), look in zip(CURVES + ANGLES, LOOKS[1:], strict=False):
        y = _cosines(run, column)[:shown]
        axis.plot(
            run.column("iteration")[:shown],
            y,
            **look.line(label=label, markevery=every_so_many(len(y))),
        )
    _draw_default(axis, default, run.column("iteration")[shown - 1])
    axis.set(xlabel="outer iteration", ylabel="cosine, or proportion", ylim=(-0.03, 1.06))
    axis.legend(loc="lower right")
    return save(figure, folder, name)


def _cosines(run: RunRecord, column: str) -> Any:
    values = run.column(column)
    return values if column == "pcc" else np.sqrt(np.clip(1 - values**2, 0.0, 1.0))


def _interesting(run: RunRecord) -> int:
    """Points until nothing moves on a linear scale: a half more than to sin θ_B ≤ 0.1."""
    close = np.flatnonzero(run.column("sin_theta_b") <= 0.1)
    return min(len(run.points), 1 + int(1.5 * close[0])) if len(close) else len(run.points)


def _draw_default(axis: Any, run: RunRecord, last: float) -> None:
    """PCC of the default, an iteration a mark; of a method without any, its answer."""
    shown = run.column("iteration") <= last
    look = LOOKS[0].line(label="PCC, default", markersize=9)
    axis.plot(run.column("iteration")[shown], run.column("pcc")[shown], **look)
