"""Figure 2: linear convergence, the sines of the principal angles on a logarithmic scale."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genelin.experiments.cases import described
from genelin.experiments.drawing import (
    LOOKS,
    every_so_many,
    figure_with,
    log_axis,
    markdown,
    save,
    short,
)
from genelin.experiments.records import RunRecord
from genelin.io import write_atomically

__all__ = ["Line", "draw_figure2", "line_of"]

FLOOR = 1e-8  # what is smaller is drawn there


@dataclass(frozen=True)
class Line:
    """The straight line through log sin θ_B against outer iterations.

    Attributes
    ----------
    rate : sin θ_B shrinks by the factor 1 − rate an iteration; the theory promises about ρ.
    r2 : share of the variance of log sin θ_B that the line explains.
    decades : that sin θ_B falls by on it.
    monotone : whether sin θ_B never rises, from the first point on.
    intercept : its natural logarithm at iteration 0.

    Examples
    --------
    >>> from genelin import CCALin
    >>> from genelin.datasets import digits_halves
    >>> from genelin.experiments import line_of, record_run
    >>> line = line_of(record_run(digits_halves(), CCALin(), k=2, reg=0.1, tol=1e-7))
    >>> bool(line.r2 > 0.98 and line.monotone)
    True
    """

    rate: float
    r2: float
    decades: float
    monotone: bool
    intercept: float


def line_of(run: RunRecord, below: float = 0.5) -> Line:
    """Fit a line to log sin θ_B of a run, from the first sine under `below` on.

    Examples
    --------
    >>> from genelin import CCALin
    >>> from genelin.datasets import digits_halves
    >>> from genelin.experiments import line_of, record_run
    >>> run = record_run(digits_halves(), CCALin(), k=2, reg=0.1, tol=1e-7)
    >>> bool(line_of(run).decades > 5)
    True
    """
    t, sines = run.column("iteration"), run.column("sin_theta_b")
    close = np.flatnonzero(sines <= below)
    if len(close) < 3:
        raise ValueError(f"sin θ_B is below {below:g} at {len(close)} points: too few for a line")
    t, logs = t[close[0] :], np.log(np.maximum(sines[close[0] :], 1e-300))
    slope, intercept = np.polyfit(t, logs, 1)
    left = logs - (slope * t + intercept)
    return Line(
        rate=float(-np.expm1(slope)),
        r2=float(1 - left @ left / np.sum((logs - logs.mean()) ** 2)),
        decades=float((logs[0] - logs[-1]) / np.log(10)),
        monotone=bool(np.all(np.diff(sines) <= 1e-12)),
        intercept=float(intercept),
    )


def draw_figure2(runs: list[RunRecord], folder: Path, name: str) -> list[Path]:
    """The sines of all starts with their lines, against iterations, and against flops."""
    starts = [run for run in runs if run.problem["label"] != "default"]
    default = next(run for run in runs if run.problem["label"] == "default")
    lines = [line_of(run) for run in starts]
    note = (
        f"{described(starts[0].dataset, starts[0].problem)}. CCALin with AGD, δ = "
        f"{starts[0].settings['reduction']:g}, from {len(starts)} random starts; lines fitted from "
        f"sin θ_B ≤ ½ on have R² ≥ {min(line.r2 for line in lines):.4f}. Default: {default.method}."
    )
    figure, (left, right) = figure_with(2, "Figure 2: linear convergence", note)
    _against(left, starts, default, "iteration")
    _against(right, starts, default, "flops")
    t = starts[0].column("iteration")[starts[0].column("sin_theta_b") <= 0.5][[0, -1]]
    fitted = np.exp(lines[0].intercept + np.log1p(-lines[0].rate) * t)
    left.plot(t, fitted, color="#cc0000", linewidth=2.0, linestyle=(0, (1, 2)), label="fitted line")
    left.set(xlabel="outer iteration", ylabel="sine")
    right.set_xlabel("FLOPs")
    log_axis(right.xaxis)
    left.legend(fontsize=8, loc="upper right")
    table = folder / f"{name}.md"
    write_atomically(table, _table(starts, lines).encode())
    return [*save(figure, folder, name), table]


def _against(axis: Any, starts: list[RunRecord], default: RunRecord, by: str) -> None:
    first = starts[0]
    for run in starts[1:]:
        axis.plot(run.column(by), run.column("sin_theta_b"), color="#9fc5e8", linewidth=0.8)
    sines = first.column("sin_theta_b")
    marks = every_so_many(len(sines), 10)
    label = "sin θ$_B$ (paler: other starts)"
    axis.plot(first.column(by), sines, **LOOKS[1].line(label=label, markevery=marks))
    # θ_x and θ_y zigzag between iterations, so that lines would hide each other
    shown = every_so_many(len(sines), 20)
    for name, look in zip("xy", LOOKS[2:], strict=False):
        y = first.column(f"sin_theta_{name}")[shown]
        mark = look.mark(label=f"sin θ$_{name}$", markersize=6, markeredgewidth=1.0)
        axis.plot(first.column(by)[shown], y, **mark)
    found = default.column("sin_theta_b")
    label = f"default, sin θ$_B$ to {short(found[-1])}"
    drawn = LOOKS[0].line(label=label, markersize=9)
    axis.plot(default.column(by), np.maximum(found, FLOOR), **drawn)
    axis.set_yscale("log")
    axis.set_ylim(bottom=FLOOR / 2)


def _table(starts: list[RunRecord], lines: list[Line]) -> str:
    """Each start: decades, R², rate beside ρ, monotone, PCC at the end."""
    header = ("start", "iterations", "decades", "R²", "rate", "θ_B monotone", "final PCC")
    rows = [
        (
            str(run.seed),
            str(run.points[-1].iteration),
            f"{line.decades:.1f}",
            f"{line.r2:.4f}",
            f"{line.rate:.4f}",
            "yes" if line.monotone else "no",
            f"{run.points[-1].pcc:.8f}",
        )
        for run, line in zip(starts, lines, strict=True)
    ]
    return markdown(header, rows)
