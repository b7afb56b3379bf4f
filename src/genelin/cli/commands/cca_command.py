"""`genelin cca` and `genelin demo`: from files to correlations, a model, scores and a report."""

from __future__ import annotations

import importlib
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from genelin.cli.exit_codes import BadInputError, ExitCode
from genelin.cli.options import (
    SOLVERS,
    MethodChoice,
    force,
    json_flag,
    method_of,
    problem_options,
    table_options,
)

if TYPE_CHECKING:
    from genelin.cli.console import Screen
    from genelin.cli.outputs import RunFolder
    from genelin.cli.read_views import View

__all__ = ["cca", "demo"]

MODEL, TRACE, REPORT, RUN = "model.safetensors", "trace.jsonl", "report.html", "run.json"
FILES = (MODEL, "scores.parquet", "scores.csv", TRACE, RUN, REPORT)


@dataclass(frozen=True)
class Settings:
    """What is to be found, and how."""

    k: int
    reg: Any = 0.0
    shrinkage: Any = None
    center: bool = True
    scale: bool = False
    method: str = "auto"
    solver: str | None = None
    tol: float = 1e-6
    max_iter: int | None = None
    held_out: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class OutputOptions:
    """What is to be written, and where."""

    output: str | None
    scores: str = "parquet"
    report: bool = True
    force: bool = False
    resume: bool = False


@click.command(short_help="Canonical correlations of two files, or of columns of one table.")
@click.argument("x", metavar="X", type=click.Path())
@click.argument("y", metavar="[Y]", type=click.Path(), required=False)
@problem_options
@table_options
@click.option(
    "--tol", type=float, default=1e-6, show_default=True, help="Largest residual of a pair."
)
@click.option("--max-iter", type=click.IntRange(min=1), help="Most outer iterations.")
@click.option(
    "--method",
    type=MethodChoice("views"),
    default="auto",
    show_default=True,
    help="How to solve; auto takes the cheapest way.",
)
@click.option("--solver", type=click.Choice(SOLVERS), help="Linear solver inside ccalin.")
@click.option(
    "--held-out",
    type=click.FloatRange(0.0, 1.0, max_open=True),
    default=0.0,
    metavar="FRACTION",
    help="Keep a random part of the rows out of the fit, and say how they correlate.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), default=0, help="Of the start and split."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    metavar="FOLDER",
    help="Keep model, scores, trace and report there.",
)
@click.option(
    "--scores",
    type=click.Choice(["parquet", "csv", "none"]),
    default="parquet",
    show_default=True,
    help="Format of the scores.",
)
@click.option("--report/--no-report", default=True, help="Draw report.html.  [default: yes]")
@click.option("--resume", is_flag=True, help="Go on where an interrupted run was.")
@force
@json_flag
def cca(
    x: str,
    y: str | None,
    x_columns: tuple[str, ...],
    y_columns: tuple[str, ...],
    header: bool | None,
    output: str | None,
    scores: str,
    report: bool,
    resume: bool,
    force: bool,
    as_json: bool,
    **problem: Any,
) -> int:
    """Find the top canonical correlations of X and Y, two files with the same rows.

    Files may be .npy, .npz (scipy.sparse), .mtx, CSV, TSV, Parquet, Arrow, or a folder that
    `genelin convert` has made. One table is enough where --x-columns and --y-columns
    choose from it.

    \b
    With -o FOLDER it writes
      model.safetensors   for `genelin transform`, or CCA.load in Python
      scores.parquet      x1 … xk and y1 … yk, a row for every row of the data
      trace.jsonl         a line for every outer iteration
      report.html         one page with all of it
      run.json            what was run, and what came out
    """  # noqa: D301 - a backspace, which keeps lines as they are
    from genelin.cli.console import Screen
    from genelin.cli.read_views import read_views

    screen, began = Screen(as_json), time.perf_counter()
    output_options = OutputOptions(output, scores, report, force, resume)
    with _destination(output_options) as destination:
        screen.note(f"reading {x}" + (f" and {y}" if y else ""))
        _load_estimator_beside()
        views = read_views(x, y, x_columns, y_columns, header)
        context = FitContext(
            "cca", views, Settings(**problem), output_options, time.perf_counter() - began, header
        )
        return _done(screen, context, destination)


@click.command(short_help="The whole job on handwritten digits that come with scikit-learn.")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default="genelin-demo",
    show_default=True,
    metavar="FOLDER",
    help="Where model, scores, trace and report go.",
)
@force
@json_flag
def demo(output: str, force: bool, as_json: bool) -> int:
    """Canonical correlations of the left and right halves of 1,797 handwritten digits.

    The data come with scikit-learn. A fifth of the images is held out. The method is the paper's:
    CCALin (Algorithm 3) with accelerated gradient descent (Algorithm 4).
    """
    from genelin.cli.console import Screen
    from genelin.cli.read_views import digits_views

    settings = Settings(5, reg=1e-2, method="ccalin", solver="agd", held_out=0.2)
    output_options, screen = OutputOptions(output, force=force), Screen(as_json)
    with _destination(output_options) as destination:
        return _done(
            screen, FitContext("demo", digits_views(), settings, output_options), destination
        )


# --- The fit -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class FitContext:
    """Data, settings, and what is to become of the answer."""

    command: str
    views: tuple[View, View]
    settings: Settings
    output_options: OutputOptions
    reading: float = 0.0  # seconds
    header: bool | None = None  # of CSV files


def _load_estimator_beside() -> None:
    """Import what the fit needs while files are being read, which takes about as long."""

    def load() -> None:
        with suppress(Exception):  # the fit imports it again, and says what is wrong
            importlib.import_module("genelin.estimators.cca")

    threading.Thread(target=load, daemon=True).start()


def _destination(output_options: OutputOptions) -> Any:
    """Where results will go; refused before any work if that cannot be."""
    from genelin.cli.outputs import run_folder
    from genelin.cli.report_pages import refuse_undrawable

    destination = run_folder(
        output_options.output, FILES, output_options.force, output_options.resume
    )
    if output_options.report and output_options.output is not None:
        refuse_undrawable()
    return destination


def _done(screen: Screen, context: FitContext, destination: RunFolder | None) -> int:
    """Fit, write, show."""
    from genelin.cli.outputs import interruptible

    _refuse_k(context)
    x, y = context.views
    screen.note(f"fitting {context.settings.k} pairs of {x} and {y}")
    held = _held_out(x.shape[0], context.settings)
    with interruptible(destination):
        estimator = _fitted(screen, context, destination, held)
        scores = None
        if destination is not None or held is not None:
            with screen.listening():
                scores = estimator.transform(x.rows, y.rows)
        record = _record(context, estimator, None if held is None else _correlations(scores, held))
        record["warnings"] = screen.warnings
        if destination is not None:
            _write(destination, context, estimator, scores, held, record)
            record["files"] = destination.publish(ended=record["converged"])
    _show(screen, record)
    return ExitCode.DONE if record["converged"] else ExitCode.NOT_CONVERGED


def _refuse_k(context: FitContext) -> None:
    narrow = min(context.views, key=lambda view: view.shape[1])
    if context.settings.k > narrow.shape[1]:
        raise BadInputError(
            f"-k {context.settings.k} is more than the {narrow.shape[1]} columns of {narrow.path}: "
            "ask for fewer pairs"
        )


def _held_out(n: int, settings: Settings) -> Any:
    """Which rows are left out of the fit: an array of booleans, or None."""
    import numpy as np

    if not settings.held_out:
        return None
    count = round(settings.held_out * n)
    if count < 2 or n - count < 2:
        raise BadInputError(
            f"--held-out {settings.held_out:g} of {n} rows leaves {count} out and {n - count} in: "
            "both need two at least"
        )
    held = np.zeros(n, dtype=bool)
    held[np.random.default_rng(settings.seed).choice(n, count, replace=False)] = True
    return held


def _fitted(screen: Screen, context: FitContext, destination: RunFolder | None, held: Any) -> Any:
    """The estimator; held-out rows are there, with weight 0."""
    from genelin import CCA

    (x, y), settings = context.views, context.settings
    estimator = CCA(
        settings.k,
        reg=settings.reg,
        shrinkage=settings.shrinkage,
        center=settings.center,
        scale=settings.scale,
        method=method_of(settings.method, settings.solver),
        tol=settings.tol,
        max_iter=settings.max_iter,
        random_state=settings.seed,
        verbose=0 if screen.as_json else 1,
        **({} if destination is None else destination.begin()),
    )
    with screen.listening():
        return estimator.fit(x.rows, y.rows, None if held is None else 1.0 - held)


def _correlations(scores: Any, held: Any) -> list[float]:
    """Correlations of the scores of the rows that were held out, component by component."""
    from genelin.estimators.canonical_scores import mean_correlation

    U, V = scores
    return [mean_correlation(U[held, j : j + 1], V[held, j : j + 1]) for j in range(U.shape[1])]


def _record(context: FitContext, estimator: Any, held_out: list[float] | None) -> dict[str, Any]:
    """What was run and what came out, for run.json and --json."""
    from genelin.cli.outputs import ending
    from genelin.cli.versions import versions

    solution = estimator.solution_
    return {
        "command": context.command,
        "arguments": list(click.get_current_context().obj),
        "correlations": solution.correlations,
        "residuals": solution.residuals,
        "score_correlations": solution.score_correlations,
        "held_out_correlations": held_out,
        **ending(solution),
        "settings": asdict(context.settings),
        "inputs": [
            {"path": view.path, "shape": list(view.shape), "columns": view.names}
            for view in context.views
        ],
        "header": context.header,
        "versions": versions(),
    }


def _write(
    destination: RunFolder,
    context: FitContext,
    estimator: Any,
    scores: Any,
    held: Any,
    record: dict[str, Any],
) -> None:
    """All files, aside."""
    import numpy as np

    from genelin.cli.outputs import score_columns, write_json, write_scores, write_trace
    from genelin.cli.report_pages import write_page

    x, _ = context.views
    estimator.set_params(checkpoint=None, resume=False, verbose=0)  # those were of this run
    estimator.__dict__.pop("feature_names_in_", None)  # pages get names and rows by themselves
    if context.output_options.report:
        timings = {"reading": context.reading} if context.reading else None
        write_page(destination.path(REPORT), estimator, context.views, record, timings)
    if x.names is not None:
        estimator.feature_names_in_ = np.array(x.names, dtype=object)
    estimator.save(destination.path(MODEL))
    write_trace(destination.path(TRACE), estimator.solution_.trace)
    if context.output_options.scores != "none":
        columns = score_columns(*scores) | ({} if held is None else {"held_out": held})
        write_scores(destination.path(f"scores.{context.output_options.scores}"), columns)
    write_json(destination.path(RUN), record)


def _show(screen: Screen, record: dict[str, Any]) -> None:
    """The table, the verdict, and where everything is."""
    held_out = record["held_out_correlations"]
    columns = {
        "pair": [f"{j + 1}" for j in range(len(record["correlations"]))],
        "correlation": [f"{value:.6f}" for value in record["correlations"]],
        "error ≤": [f"{error:.1e}" for error in record["residuals"]],
        "of scores": [f"{value:.6f}" for value in record["score_correlations"]],
    }
    if held_out is not None:
        columns["held out"] = [f"{value:.6f}" for value in held_out]
    screen.table(list(columns), zip(*columns.values(), strict=True))
    screen.verdict(record)
    screen.result(record)
