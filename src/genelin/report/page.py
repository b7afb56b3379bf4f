"""`write_report`: one HTML file that needs nothing else, and asks nobody for anything."""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from genelin import __version__
from genelin.eigen.costs.plan import Plan
from genelin.estimators.displays import AGAINST
from genelin.io import write_atomically
from genelin.io.damaged_files import shortened
from genelin.report.charts import (
    MARKS,
    bokeh,
    convergence_chart,
    scores_chart,
    value_series,
    values_chart,
)
from genelin.report.report_model import Array, ReportModel, report_model_of
from genelin.report.reproduction_steps import call, settings_rows, snippet, written
from genelin.report.score_sample import Drawn, drawn_scores, held_out_correlations
from genelin.report.summary_text import cautions, plural, power, verdict
from genelin.report.timing_breakdown import bytes_in_words, seconds_in_words, time_shares

__all__ = ["write_report"]

MOST_COMPONENTS = 200  # in tables and pickers
MOST_FEATURES = 15  # of a view, for one component
LONGEST, LONGEST_TITLE = 80, 300  # letters of a name, and of what is told of it on hovering
UNBROKEN = r'<span class="unbroken">\g<0></span>'
NUMBER = re.compile(r"\d[\d.]*e-?\d+")


def write_report(
    path: str | Path,
    estimator: Any,
    *,
    X: Any = None,
    y: Any = None,
    x_names: Any = None,
    y_names: Any = None,
    held_out: Any = None,
    title: str | None = None,
    settings: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    plan: Any = None,
    timings: Mapping[str, float] | None = None,
    warnings: Iterable[Any] = (),
) -> Path:
    """Write a report of a fit: one HTML file that is read offline, on any screen, and in print.

    It tells what was run on what data, the verdict, the values with their certificates, how the
    residual fell, scores and loadings, where the time went, what to be careful about, and how to
    reproduce it. Needs Bokeh and Jinja (`pip install "genelin[report]"`).

    Parameters
    ----------
    path : of the file; one that exists is replaced once the new one is complete.
    estimator : fitted `CCA` or `GeneralizedEigen`; or a `CCASolution` or `EigenSolution`.
    X, y : data whose scores are drawn (of at most 2000 rows, chosen at random); None for none. For
        `GeneralizedEigen`, y are classes that give the points their colours.
    x_names, y_names : names of features; None takes those of data frames, else x0, x1, …
    held_out : (X, y) with rows that were not in the fit, or the k correlations of their scores.
    title : of the page.
    settings : more of what is needed to do it again, such as the command; `tol` of a solution.
    data : more about the data, such as where they came from.
    plan : from `plan_cca` or `plan_top_k`, set beside what happened.
    timings : seconds of what came before and after the fit, such as reading.
    warnings : of the run: texts, `Warning` objects, or what `warnings.catch_warnings` recorded.

    Returns
    -------
    Path
        `path`.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_linnerud
    >>> from genelin import CCA
    >>> from genelin.report import write_report
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> cca = CCA(n_components=2).fit(X, Y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(f"{folder}/report.html", cca, X=X, y=Y).read_text("utf-8")
    >>> "2 components, all certified to" in page
    True
    """
    path, settings = Path(path), dict(_checked(settings, "settings"))
    if not path.parent.is_dir():
        raise FileNotFoundError(f"path={str(path)!r}: there is no folder {str(path.parent)!r}")
    if plan is not None and not isinstance(plan, Plan):
        raise TypeError(f"plan is a {type(plan).__name__}: give that of plan_cca or plan_top_k")
    model = report_model_of(estimator, x_names, y_names, settings.get("tol"), X=X, y=y)
    left = held_out_correlations(model, held_out)
    drawn = drawn_scores(model, X, y, min(len(model.values), MOST_COMPONENTS))
    headline, trust = verdict(model)
    series = value_series(model, left)
    charts = {
        "values": values_chart(model, series),
        "convergence": convergence_chart(model, log=False),
        "convergence-log": convergence_chart(model, log=True),
        "scores": None if drawn is None else scores_chart(drawn),
    }
    content = _rendered(
        title=title or _title(model),
        written=_now(),
        version=__version__,
        model=model,
        headline=headline,
        trust=trust,
        cautions=cautions(model, left, warnings),
        data=_data_rows(model, X, y, drawn) + _texts(_checked(data, "data")),
        values=_value_rows(model, left),
        series=series,
        held_out=left is not None,
        plan=plan,
        method=_method(model),
        shares=time_shares(model.solution, _checked(timings, "timings")),
        curve=_curve(model),
        against=AGAINST,
        drawn=drawn,
        loadings=_loadings(model),
        settings=settings_rows(model, settings),
        snippet=snippet(model),
        versions=_versions(),
        charts={name: item for name, item in charts.items() if item is not None},
    )
    write_atomically(path, content.encode("utf-8", "replace"))
    return path


def _checked(given: Any, name: str) -> Mapping[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"{name} is a {type(given).__name__}: give a dict, names to what they mean")
    return given or {}


def _now() -> dict[str, str]:
    """The time, for machines and for people."""
    now = datetime.now().astimezone()
    said = f"{now.day} {now.strftime('%B %Y, %H:%M')}"
    return {"exact": now.isoformat(timespec="seconds"), "said": said}


def _title(model: ReportModel) -> str:
    return "Canonical correlations" if model.two_views else "Generalized eigenvectors"


# --- What stands in the tables -------------------------------------------------------------------


def _data_rows(model: ReportModel, X: Any, y: Any, drawn: Drawn | None) -> list[tuple[str, str]]:
    rows = [("Run", call(model))]
    if not model.two_views and model.estimator is None:
        return [*rows, ("Size of A and B", f"{len(model.views[0].features):,}")]
    if model.rows is not None:
        rows.append(("Rows fitted", f"{model.rows:,}"))
    elif drawn is not None:
        rows.append(("Rows", f"{drawn.total:,}"))
    for view, matrix in zip(model.views, (X, y), strict=False):
        name = f"Features of {view.name}" if view.name else "Features"
        kind = _kind(matrix)
        rows.append((name, f"{len(view.features):,}{kind and f' ({kind})'}"))
    return rows


def _texts(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in given.items()]


def _kind(matrix: Any) -> str:
    """Where a matrix is, and how it is stored."""
    if matrix is None:
        return ""
    is_sparse = bool(sparse.issparse(matrix) or getattr(matrix, "is_sparse", False))
    path, dtype = getattr(matrix, "path", None), getattr(matrix, "dtype", None)
    kind = type(matrix).__name__ if dtype is None else f"{'sparse ' if is_sparse else ''}{dtype}"
    stored = getattr(matrix, "nnz", getattr(matrix, "stored", None))
    if is_sparse and stored is not None:
        kind += f", {stored / max(1, matrix.shape[0] * matrix.shape[1]):.2%} of entries stored"
    return kind if path is None else f"{path}, {kind}"


def _value_rows(model: ReportModel, held_out: Array | None) -> list[dict[str, Any]]:
    scores = getattr(model.solution, "score_correlations", None)
    residuals, met = model.relative_residuals, model.certified
    return [
        {
            "number": place + 1,
            "value": float(model.values[place]),
            "score": None if scores is None else float(scores[place]),
            "held_out": None if held_out is None else float(held_out[place]),
            "residual": float(residuals[place]),
            "certified": bool(met[place]),
        }
        for place in range(min(len(model.values), MOST_COMPONENTS))
    ]


def _method(model: ReportModel) -> str:
    if model.solution.route:
        name, _, reason = model.solution.route.partition(": ")
        return f"chosen by genelin: {name} ({reason})"
    method = getattr(model.estimator, "method", None)
    return "as chosen by genelin" if method is None else f"as asked for: {written(method)}"


def _curve(model: ReportModel) -> list[Any]:
    """Some records of the trace, for the table beside the picture."""
    trace = model.solution.trace
    kept = np.unique(np.linspace(0, len(trace) - 1, min(len(trace), 20)).astype(int))
    return [trace[int(place)] for place in kept]


def _loadings(model: ReportModel) -> list[list[dict[str, Any]]]:
    """Component → view → the features that contribute most, and how long their bars are."""
    components = []
    for place in range(min(len(model.values), MOST_COMPONENTS)):
        sides = []
        for view in model.views:
            largest = view.largest(place, MOST_FEATURES)
            longest = max((abs(number) for _, number in largest), default=0.0) or 1.0
            bars = [
                {
                    "name": shortened(name, LONGEST),
                    "full": shortened(name, LONGEST_TITLE),
                    "number": number,
                    "percent": 100 * abs(number) / longest,
                }
                for name, number in largest
            ]
            left_out = len(view.features) - len(bars)
            sides.append({"view": view.name, "bars": bars, "left_out": left_out})
        components.append(sides)
    return components


def _versions() -> list[tuple[str, str]]:
    names = ("numpy", "scipy", "scikit-learn", "numba", "bokeh")
    versions = [(name, metadata.version(name)) for name in names]
    return [("genelin", __version__), ("Python", platform.python_version()), *versions]


# --- From tables to a page -----------------------------------------------------------------------


def _rendered(charts: dict[str, Any], **content: Any) -> str:
    try:
        import jinja2
        from markupsafe import Markup, escape
    except ImportError as error:
        raise ImportError(
            "a report is written with Jinja, which is not installed: pip install 'genelin[report]'"
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("genelin.report", "page"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "bytes": bytes_in_words,
        "seconds": seconds_in_words,
        "plural": plural,
        "power": power,
        "unbroken": lambda text: Markup(NUMBER.sub(UNBROKEN, str(escape(text)))),
        "value": _number,
    }
    library = bokeh().resources.Resources(mode="inline", components=["bokeh"], log_level="warn")
    scripts = ["\n".join(library.js_raw), _file("page.js")]
    page: str = environment.get_template("page.html").render(
        **content,
        policy=_policy(scripts),
        scripts=[Markup(script) for script in scripts],
        style=Markup(_file("page.css")),
        charts_json=Markup(_json(charts)),
        marks=MARKS,
        most_components=MOST_COMPONENTS,
    )
    return page


def _file(name: str) -> str:
    return (resources.files("genelin.report") / "page" / name).read_text("utf-8")


def _policy(scripts: list[str]) -> str:
    """Only these scripts run, and nothing is fetched from anywhere."""
    digests = (base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _number(number: float) -> str:
    """Four places, or powers of ten, with a minus that is as long as a digit."""
    text = f"{number:.4f}" if 1e-3 <= abs(number) < 1e4 or number == 0 else f"{number:.3e}"
    return text.replace("-", "−", 1) if number < 0 else text
