"""The report of a run, from what the command line knows of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from genelin.cli.read_views import View

__all__ = ["refuse_undrawable", "write_page"]

NEEDED = ("bokeh", "jinja2")


def refuse_undrawable() -> None:
    """Say what to install, before a long fit and without loading it."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise ImportError(
            f'the report needs {" and ".join(missing)}: pip install "genelin[report]", or leave it '
            "out with --no-report"
        )


def write_page(
    path: Path,
    estimator: Any,
    views: Sequence[View | None],
    record: Mapping[str, Any],
    timings: Mapping[str, float] | None = None,
) -> None:
    """Write the page; views that are None (their files are gone) have no scores in it."""
    from genelin.report import write_report

    x, y = views
    names = [source["columns"] for source in record["inputs"]]
    rows = (None, None) if x is None or y is None else (x.rows, y.rows)
    write_report(
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
