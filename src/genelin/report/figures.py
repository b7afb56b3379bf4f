"""`write_figures`: the pictures of a report as files."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from genelin.estimators.displays import (
    ConvergenceDisplay,
    CorrelationsDisplay,
    LoadingsDisplay,
    ScoresDisplay,
)
from genelin.io import write_atomically
from genelin.io.damaged_files import shortened
from genelin.report.report_model import ReportModel, report_model_of
from genelin.report.score_sample import Drawn, drawn_scores, held_out_correlations

__all__ = ["write_figures"]

FORMATS = ("png", "svg", "pdf")
MOST_FEATURES = 15
LONGEST = 40  # letters of a name beside a picture


def write_figures(
    folder: str | Path,
    estimator: Any,
    formats: Sequence[str] = ("png", "svg"),
    *,
    X: Any = None,
    y: Any = None,
    x_names: Any = None,
    y_names: Any = None,
    held_out: Any = None,
    components: int = 1,
) -> list[Path]:
    """Write the pictures of a fit as files: values, convergence, scores, loadings.

    Those that a fit does not have are left out: convergence of a direct solution, scores without
    data. Needs matplotlib (`pip install "genelin[plot]"`).

    Parameters
    ----------
    folder : where to; it is made if need be.
    estimator, X, y, x_names, y_names, held_out : as for `write_report`.
    formats : any of "png", "svg" and "pdf".
    components : of how many components scores and loadings are drawn, a file for each.

    Returns
    -------
    list of Path
        the files.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_linnerud
    >>> from genelin import CCA
    >>> from genelin.report import write_figures
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_figures(folder, CCA(2).fit(X, Y), ["svg"])]
    ['values.svg', 'loadings-1.svg']
    """
    formats = [formats] if isinstance(formats, str) else list(formats)
    unknown = [kind for kind in formats if kind not in FORMATS]
    if unknown or not formats:
        raise ValueError(f"formats={formats!r}: give some of {', '.join(FORMATS)}")
    model = report_model_of(estimator, x_names, y_names, X=X, y=y)
    k = len(model.values)
    if not isinstance(components, int | np.integer) or not 1 <= components <= k:
        raise ValueError(f"components={components!r} must be an integer from 1 to {k}")
    drawn = drawn_scores(model, X, y, k)
    left = held_out_correlations(model, held_out)
    folder, files = Path(folder), []
    folder.mkdir(parents=True, exist_ok=True)
    for name, display in _pictures(model, drawn, left, components):
        for kind in formats:
            files.append(folder / f"{name}.{kind}")
            write_atomically(files[-1], _encoded(display.figure_, kind))
        _close(display.figure_)
    return files


def _pictures(
    model: ReportModel, drawn: Drawn | None, held_out: Any, components: int
) -> Iterator[tuple[str, Any]]:
    """Names of the pictures that a fit has, and their displays."""
    yield "values", _values(model, held_out)
    trace = model.solution.trace
    if len(trace):
        against, residual = trace.column("seconds"), trace.column("residual")
        curve = ConvergenceDisplay(
            against=against, residual=residual, by="seconds", tol=model.tol, name="residual"
        )
        yield "convergence", curve.plot()
    for component in range(components):
        if drawn is not None:
            yield f"scores-{component + 1}", _scores(model, drawn, component)
        yield f"{model.contributions}-{component + 1}", _loadings(model, component)


def _values(model: ReportModel, held_out: Any) -> CorrelationsDisplay:
    scores = getattr(model.solution, "score_correlations", None)
    display = CorrelationsDisplay(
        canonical_correlations=model.values, score_correlations=scores, held_out=held_out
    ).plot()
    display.ax_.set(xlabel=model.component, ylabel=model.value)
    return display


def _scores(model: ReportModel, drawn: Drawn, component: int) -> ScoresDisplay:
    """One component in both views, or beside the next where there is one view."""
    labels = None if drawn.groups is None else np.array(drawn.classes)[drawn.groups]
    views = [matrix.astype(np.float64) for matrix in drawn.scores.values()]
    last = views[-1].shape[1] - 1
    other = component if model.two_views else min(component + 1, last)
    display = ScoresDisplay(
        x_scores=views[0][:, component],
        y_scores=views[-1][:, other],
        component=component,
        labels=labels,
    ).plot()
    if not model.two_views:
        display.ax_.set(
            xlabel=f"score on component {component + 1}",
            ylabel=f"score on component {other + 1}",
            title="",
        )
    return display


def _loadings(model: ReportModel, component: int) -> LoadingsDisplay:
    sides = [view.largest(component, MOST_FEATURES) for view in model.views]
    x, y = sides if model.two_views else (sides[0], [])
    display = LoadingsDisplay(
        x_loadings=np.array([number for _, number in x]),
        y_loadings=np.array([number for _, number in y]),
        x_names=[_plain(name) for name, _ in x],
        y_names=[_plain(name) for name, _ in y],
        component=component,
    ).plot()
    display.ax_.set_xlabel(f"{model.contribution}, {model.component} {component + 1}")
    if not model.two_views:
        display.ax_.get_legend().remove()
    return display


def _plain(name: str) -> str:
    """A name that matplotlib does not read as mathematics, and that fits beside a picture."""
    return shortened(name, LONGEST).replace("$", r"\$")


def _encoded(figure: Any, kind: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150)
    return buffer.getvalue()


def _close(figure: Any) -> None:
    import matplotlib.pyplot as plt

    plt.close(figure)
