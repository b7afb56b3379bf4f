"""Interactive pictures as JSON for BokehJS; text that others wrote never enters them as markup."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from genelin.estimators.displays import AGAINST
from genelin.report.report_model import Array, ReportModel
from genelin.report.score_sample import Drawn

__all__ = [
    "MARKS",
    "Mark",
    "Series",
    "bokeh",
    "convergence_chart",
    "scores_chart",
    "value_series",
    "values_chart",
]

MOST_RECORDS = 1000  # points of a curve
BLUE, ORANGE, GREEN, PINK, OCHRE = "#2f86c9", "#d55e00", "#009e73", "#cc79a7", "#a07800"


class Mark(NamedTuple):
    """How points of a class look: told apart by shape and colour, on light and on dark paper."""

    colour: str
    shape: str
    symbol: str


SHAPES = {
    "circle": "●",
    "triangle": "▲",
    "square": "■",
    "diamond": "◆",
    "inverted_triangle": "▼",
    "star": "★",
    "hex": "⬢",
    "plus": "✚",
    "square_pin": "✦",
    "triangle_pin": "✧",
}
MARKS = [
    Mark((BLUE, ORANGE, GREEN, PINK, OCHRE)[place % 5], shape, symbol)
    for place, (shape, symbol) in enumerate(SHAPES.items())
]


def bokeh() -> Any:
    """The package, or how to get it."""
    try:
        import bokeh.embed
        import bokeh.models
        import bokeh.plotting
        import bokeh.resources
    except ImportError as error:
        raise ImportError(
            "a report is drawn with Bokeh, which is not installed: pip install 'genelin[report]'"
        ) from error
    return bokeh


class Series(NamedTuple):
    """A curve over the components."""

    label: str
    numbers: Array
    mark: Mark
    dash: str


def value_series(model: ReportModel, held_out: Array | None) -> list[Series]:
    """The values of all components, and what is left of them in plain scores and held-out rows."""
    series = [Series("of the fit", model.values, MARKS[0], "solid")]
    scores = getattr(model.solution, "score_correlations", None)
    if scores is not None and not np.allclose(scores, model.values, atol=1e-3):
        series.append(Series("of scores, without the ridge", scores, MARKS[2], "dotted"))
    if held_out is not None:
        series.append(Series("of scores of held-out rows", held_out, MARKS[1], "dashed"))
    return series


def values_chart(model: ReportModel, series: list[Series]) -> dict[str, Any]:
    """Curves over the components."""
    k = len(model.values)
    columns: dict[str, Any] = {f"s{place}": line.numbers for place, line in enumerate(series)}
    columns["component"] = np.arange(1, k + 1)
    tips = [(line.label, f"@s{place}{{0.0000}}") for place, line in enumerate(series)]
    figure = _figure(model.component, model.value, "values")
    source = bokeh().models.ColumnDataSource(columns)
    for place, line in enumerate(series):
        look = {"source": source, "color": line.mark.colour}
        if model.two_views:
            figure.line("component", f"s{place}", line_dash=line.dash, line_width=2, **look)
        else:
            ends = {"x0": "component", "x1": "component", "y0": 0.0, "y1": f"s{place}"}
            figure.segment(**ends, line_width=2, **look)
        size = 9 if k <= 50 else 5
        points = figure.scatter("component", f"s{place}", marker=line.mark.shape, size=size, **look)
        _hover(figure, points, [(model.component, "@component"), *tips])
    figure.xaxis.ticker = bokeh().models.BasicTicker(min_interval=1, num_minor_ticks=0)
    figure.x_range = bokeh().models.Range1d(0.5, k + 0.5)
    lowest = min(float(line.numbers.min()) for line in series)
    if model.two_views:
        figure.y_range.start = min(0.0, 1.1 * lowest)
    return _item(figure)


def convergence_chart(model: ReportModel, log: bool) -> dict[str, Any] | None:
    """The residual over time, passes, iterations or flops; None for a direct solution."""
    trace = model.solution.trace
    if not len(trace):
        return None
    kept = np.unique(np.linspace(0, len(trace) - 1, min(len(trace), MOST_RECORDS)).astype(int))
    columns = {by: trace.column(by)[kept] for by in AGAINST}
    columns["residual"] = np.maximum(trace.column("residual")[kept], np.finfo(float).tiny)
    columns["against"] = columns["seconds"]
    name = "convergence-log" if log else "convergence"
    axes: dict[str, Any] = {"x_axis_type": "log" if log else "linear", "y_axis_type": "log"}
    figure = _figure(AGAINST["seconds"], "relative residual", name, **axes)
    models = bokeh().models
    source = models.ColumnDataSource(columns, name=f"{name}-source")
    look = {"source": source, "color": BLUE}
    figure.line("against", "residual", line_width=2, **look)
    size = 7 if len(kept) <= 100 else 4
    points = figure.scatter("against", "residual", size=size, **look)
    tips = [
        ("iteration", "@iteration"),
        ("residual", "@residual{0.0e+0}"),
        ("time", "@seconds{0.000} s"),
        ("passes", "@passes{0.0}"),
    ]
    _hover(figure, points, tips)
    if model.tol is not None:
        line = models.Span(
            location=model.tol, dimension="width", line_dash="dotted", line_width=2, name="tol"
        )
        figure.add_layout(line)
        lowest = min(float(columns["residual"].min()), model.tol)
        figure.y_range = models.Range1d(lowest / 3, 3 * float(columns["residual"].max()))
    return _item(figure)


def scores_chart(drawn: Drawn) -> dict[str, Any]:
    """A point for every row; page.js puts the chosen components into x and y."""
    columns: dict[str, Any] = {"row": drawn.rows + 1}
    for view, matrix in drawn.scores.items():
        columns |= {f"{view}{place}": matrix[:, place] for place in range(matrix.shape[1])}
    columns["x"], columns["y"] = (columns[name] for name in drawn.axes)
    groups = [0] * len(drawn.rows) if drawn.groups is None else drawn.groups.tolist()
    columns["colour"] = [MARKS[group].colour for group in groups]
    columns["shape"] = [MARKS[group].shape for group in groups]
    tips = [("row", "@row"), ("horizontal", "@x{0.000}"), ("vertical", "@y{0.000}")]
    if drawn.classes:
        columns["class"] = [drawn.classes[group] for group in groups]
        tips.append(("class", "@class"))
    figure = _figure("", "", "scores", height=420)
    source = bokeh().models.ColumnDataSource(columns, name="scores-source")
    size = 5.0 if len(drawn.rows) > 500 and not drawn.classes else 7.0
    look = {"source": source, "size": size, "fill_alpha": 0.5, "line_alpha": 0.0}
    points = figure.scatter("x", "y", color="colour", marker="shape", **look)
    _hover(figure, points, tips)
    return _item(figure)


def _figure(across: str, up: str, name: str, *, height: int = 340, **axes: Any) -> Any:
    figure = bokeh().plotting.figure(
        sizing_mode="stretch_width",
        height=height,
        min_width=200,
        tools="box_zoom,pan,wheel_zoom,zoom_in,zoom_out,reset,save",
        active_drag=None,
        active_scroll=None,
        toolbar_location="above",
        x_axis_label=across,
        y_axis_label=up,
        name=name,
        background_fill_color=None,  # the page shows through, light or dark
        border_fill_color=None,
        outline_line_color=None,
        **axes,
    )
    figure.toolbar.logo = None
    css = "@media print { :host { display: none; } }"
    figure.toolbar.stylesheets = [bokeh().models.InlineStyleSheet(css=css)]
    return figure


def _hover(figure: Any, points: Any, tips: list[tuple[str, str]]) -> None:
    tool = bokeh().models.HoverTool(renderers=[points], tooltips=tips, visible=False)
    figure.add_tools(tool)


def _item(figure: Any) -> dict[str, Any]:
    item: dict[str, Any] = bokeh().embed.json_item(figure)
    return item
