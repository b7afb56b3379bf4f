"""The report of a run, from what the command line knows of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from genelin.cli.views import View

__all__ = ["load_report", "write_page"]


def load_report() -> Any:
    """The module that draws; a ModuleNotFoundError says what to install, before a long fit."""
    from genelin import report
    from genelin.report import charts

    charts.bokeh()
    return report


def write_page(
    path: Path,
    estimator: Any,
    views: Sequence[View | None],
    record: Mapping[str, Any],
    timings: Mapping[str, float] | None = None,
) -> None:
    """Write the page; views that are None (their files are gone) have no scores in it."""
    x, y = views
    names = [source["columns"] for source in record["inputs"]]
    rows = (None, None) if x is None or y is None else (x.rows, y.rows)
    load_report().write_report(
        path,
        estimator,
        X=rows[0],
        y=rows[1],
        x_names=names[0],
        y_names=names[1],
        held_out=record["held_out_correlations"],
        settings={"command": shlex.join(["genelin", *record["arguments"]])},
        data=dict(zip("XY", (source["path"] for source in record["inputs"]), strict=True)),
        timings=timings,
        warnings=record["warnings"],
    )
