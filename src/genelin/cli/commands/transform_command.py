"""`genelin transform`: scores of new rows under a fitted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from genelin.cli.exit_codes import BadInputError
from genelin.cli.options import force, json_flag, table_options

if TYPE_CHECKING:
    from genelin.cli.read_views import View

__all__ = ["load_model", "read_run", "transform"]


@click.command(short_help="Scores of new rows under a fitted model.")
@click.argument("model", type=click.Path())
@click.argument("x", metavar="X", type=click.Path())
@click.argument("y", metavar="[Y]", type=click.Path(), required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    required=True,
    metavar="FILE",
    help="Where the scores go: a .parquet or .csv file.",
)
@table_options
@force
@json_flag
def transform(
    model: str,
    x: str,
    y: str | None,
    output: str,
    x_columns: tuple[str, ...],
    y_columns: tuple[str, ...],
    header: bool | None,
    force: bool,
    as_json: bool,
) -> None:
    """Project X, and Y if it is given, on the weights of MODEL.

    MODEL is the folder or the model.safetensors that `genelin cca` has written. Of a table, the
    columns that the model was fitted on are taken by name.
    """
    from genelin.cli.console import Screen
    from genelin.cli.outputs import SCORES, Output, score_columns, write_scores
    from genelin.cli.read_views import refuse_mismatch

    file = Path(output)
    file = file if file.suffix else file.with_suffix(".parquet")
    if file.suffix not in SCORES:
        raise BadInputError(f"-o {output}: scores are written as .parquet or .csv")
    screen = Screen(as_json)
    with Output(file.parent, [file.name], force) as destination:
        estimator, names = load_model(model)
        views = [_view(estimator, "x", x, x_columns or names["x"], header)]
        if y is not None or y_columns:
            views.append(_view(estimator, "y", y or x, y_columns or names["y"], header))
            refuse_mismatch(*views)
        with screen.listening():
            scores = estimator.transform(*(view.rows for view in views))
        columns = score_columns(*(scores if len(views) == 2 else [scores]))
        write_scores(destination.path(file.name), columns)
        destination.publish()
    rows = len(columns["x1"])
    screen.line(f"{rows:,} rows of {', '.join(columns)}: {file}")
    screen.result(
        {"command": "transform", "rows": rows, "columns": list(columns), "file": str(file)}
    )


def load_model(path: str) -> tuple[Any, dict[str, Any]]:
    """An estimator from its file or the folder of its run, and the columns it was fitted on."""
    from genelin import CCA

    file = Path(path) / "model.safetensors" if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise BadInputError(f"there is no model at {file}: give what `genelin cca -o` has written")
    estimator = CCA.load(file)
    names = estimator.__dict__.pop("feature_names_in_", None)  # columns are chosen here
    chosen = {"x": () if names is None else tuple(map(str, names)), "y": ()}
    run = file.with_name("run.json")
    if run.exists():
        chosen["y"] = tuple(read_run(run)["inputs"][1]["columns"] or ())
    return estimator, chosen


def read_run(path: Path) -> dict[str, Any]:
    """What run.json says; refused if it is not one."""
    from genelin.io.damaged_files import regular, said

    regular(path)
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        columns = [view["columns"] for view in record["inputs"]]
        paths = [view["path"] for view in record["inputs"]]
        named = [name for names in columns for name in names or ()]
        if not all(isinstance(text, str) for text in (*paths, *named)):
            raise TypeError("a path or a name of a column is not text")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInputError(
            f"{path} is damaged ({said(error)}): run `genelin cca` again"
        ) from error
    if record.get("command") not in ("cca", "demo") or len(columns) != 2:
        raise BadInputError(f"{path} is not that of a run of `genelin cca`")
    return record


def _view(
    estimator: Any, view: Literal["x", "y"], path: str, columns: Any, header: bool | None
) -> View:
    """The rows of one view, with the columns that the model knows."""
    from genelin.cli.read_views import is_table, read_view

    known = len(getattr(estimator, f"{view}_rotations_"))
    rows = read_view(path, columns if is_table(path) else (), f"--{view}-columns", header)
    if rows.shape[1] != known:
        raise BadInputError(
            f"{path} has {rows.shape[1]} columns, but the model was fitted on {known}: give the "
            f"same columns, or choose them with --{view}-columns"
        )
    return rows
