"""Tables of growth: measured exponents beside those of the paper, and their figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genelin.experiments.drawing import LOOKS, figure_with, log_axis, markdown, save, short
from genelin.experiments.records import RunRecord, value_at
from genelin.experiments.sweeps import Table
from genelin.experiments.warm_start import growth_exponent
from genelin.io import write_atomically

__all__ = ["Growth", "draw_table", "growths"]

SYMBOLS = {"kappa": "κ", "rho": "ρ", "kappa, few rows": "κ, few rows", "epsilon": "log(1/ε)"}


@dataclass(frozen=True)
class Growth:
    """The cost of a method against one parameter: points, measured exponent and predicted one."""

    label: str
    by: str
    x: tuple[float, ...]
    cost: tuple[float, ...]
    expected: tuple[float, ...]
    measured: float
    predicted: float


def growths(table: Table, runs: list[RunRecord]) -> list[Growth]:
    """Exponents of all methods in all parameters; that of ε from the base problem."""
    found = []
    for label in table.methods:
        own = [run for run in runs if run.problem["label"] == label]
        found += [_growth(table, label, by, own) for by in table.varied]
        base = next(run for run in own if run.problem["by"] == "base")
        if len(base.points) > 1:
            decades = round(-np.log10(base.problem["last"]))
            epsilons = tuple(10.0**-j for j in range(2, decades + 1))
            costs = tuple(_cost(table, base, epsilon) for epsilon in epsilons)
            logs = tuple(np.log(1 / epsilon) for epsilon in epsilons)
            p = growth_exponent(epsilons, costs)
            found.append(Growth(label, "epsilon", logs, costs, logs, p, 1.0))
    return found


def _cost(table: Table, run: RunRecord, goal: float) -> float:
    """FLOPs or rows to sin θ ≤ goal; of a method without iterations, all of them."""
    column = "flops" if table.unit == "FLOPs" else "passes"
    spent = value_at(run, "sin_theta_b", goal, column)
    if not np.isfinite(spent):
        raise ValueError(
            f"{run.problem['label']} ended at sin θ = {run.points[-1].sin_theta_b:.1e} "
            f"({run.status}) on {run.problem}: it has no cost to {goal:g}"
        )
    return spent if column == "flops" else spent * run.problem["n"]


def _growth(table: Table, label: str, by: str, runs: list[RunRecord]) -> Growth:
    runs = [run for run in runs if run.problem["by"] == by]
    x = tuple(float(run.problem[by.split(",")[0]]) for run in runs)
    costs = tuple(_cost(table, run, run.problem["goal"]) for run in runs)
    expected = tuple(table.predicted(label, run.problem) for run in runs)
    return Growth(label, by, x, costs, expected, _slope(x, costs), _slope(x, expected))


def _slope(x: Any, y: Any) -> float:
    """Exponent of a power law, by least squares in logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def draw_table(table: Table, runs: list[RunRecord], folder: Path, name: str) -> list[Path]:
    """A panel for each parameter: measured costs as marks, predicted growth as lines."""
    found, goal = growths(table, runs), short(runs[0].problem["goal"])
    given = ", ".join(
        f"{SYMBOLS.get(name, name)} = {value:g}" for name, value in table.base.items()
    )
    note = (
        f"Generated problems of exact spectrum, one parameter varied from {given}. Marks: "
        f"{table.unit} to sin θ ≤ {goal}, measured. Lines: the paper's growth through their "
        "mean; for the default that of fast matrix inversion, "
        f"although it is {_methods(runs)} here. Inner reduction δ = 1e-4."
    )
    parameters = [*table.varied, "epsilon"]
    figure, axes = figure_with(len(parameters), f"{table.title}, growth of cost", note, 3.4)
    for axis, by in zip(axes, parameters, strict=True):
        for growth in (one for one in found if one.by == by):
            look = LOOKS[list(table.methods).index(growth.label)]
            scale = np.exp(np.mean(np.log(np.divide(growth.cost, growth.expected))))
            axis.plot(growth.x, growth.cost, **look.mark(markersize=7))
            line = look.line(marker="", linewidth=1.0)
            axis.plot(growth.x, scale * np.array(growth.expected), **line)
        axis.set_xlabel(SYMBOLS.get(by, by))
        log_axis(axis.yaxis)
        if by != "epsilon":
            _label_values(axis, found, by)
    axes[0].set_ylabel(f"{table.unit} to sin θ ≤ {goal}")
    axes[-1].set_ylabel(f"{table.unit} to sin θ ≤ ε")
    _legend(figure, table)
    path = folder / f"{name}.md"
    write_atomically(path, _markdown(found, list(table.methods), parameters).encode())
    return [*save(figure, folder, name), path]


def _methods(runs: list[RunRecord]) -> str:
    names = {run.method for run in runs if run.problem["label"] == "default"}
    return " and ".join(sorted(names))


def _label_values(axis: Any, found: list[Growth], by: str) -> None:
    """A logarithmic axis with the values themselves as its ticks."""
    from matplotlib.ticker import NullLocator

    x = next(growth.x for growth in found if growth.by == by)
    axis.set_xscale("log")
    axis.set_xticks(x, [f"{value:g}" for value in x])
    axis.xaxis.set_minor_locator(NullLocator())


def _legend(figure: Any, table: Table) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], **look.line(label=label))
        for label, look in zip(table.methods, LOOKS, strict=False)
    ]
    figure.legend(handles=handles, loc="outside right center", fontsize=8, frameon=False)


def _markdown(found: list[Growth], labels: list[str], parameters: list[str]) -> str:
    """Exponents as `measured (predicted)`."""
    cells = {(one.label, one.by): f"{one.measured:.2f} ({one.predicted:.2f})" for one in found}
    header = ("method", *(SYMBOLS.get(by, by) for by in parameters))
    rows = [(label, *(cells.get((label, by), "–") for by in parameters)) for label in labels]
    return markdown(header, rows)
