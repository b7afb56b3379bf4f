"""`genelin report`: the page of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from genelin.cli.exit_codes import BadInputError
from genelin.cli.options import force, json_flag

__all__ = ["report"]


@click.command(short_help="Draw the report of a finished run again.")
@click.argument("folder", type=click.Path())
@click.option(
    "--figures", is_flag=True, help="Write the figures as PNG and SVG too, in FOLDER/figures."
)
@force
@json_flag
def report(folder: str, figures: bool, force: bool, as_json: bool) -> None:
    """Write FOLDER/report.html for a run of `genelin cca -o FOLDER`.

    The scores are drawn from the files of the data, if they are still where they were.
    """
    from genelin.cli.commands.transform_command import load_model, read_run
    from genelin.cli.console import Screen
    from genelin.cli.outputs import Output
    from genelin.cli.report_pages import refuse_undrawable, write_page

    run = Path(folder) / "run.json"
    if not run.is_file():
        raise BadInputError(
            f"there is no {run}: give the folder of a run of `genelin cca -o FOLDER`"
        )
    names, screen = ["report.html", *(["figures"] if figures else [])], Screen(as_json)
    refuse_undrawable()
    with Output(folder, names, force) as destination:
        from genelin.report import write_figures

        record, (estimator, _) = read_run(run), load_model(folder)
        with screen.listening():
            write_page(destination.path("report.html"), estimator, _views(screen, record), record)
            if figures:
                write_figures(destination.path("figures"), estimator)
        placed = destination.publish()
    for path in placed.values():
        screen.line(path)
    screen.result({"command": "report", "files": placed})


def _views(screen: Any, record: dict[str, Any]) -> tuple[Any, Any]:
    """The data of a run, or (None, None) if they are gone."""
    from genelin.cli.read_views import digits_views, is_table, read_view

    if record["command"] == "demo":
        return digits_views()
    try:
        first, second = (
            read_view(
                source["path"],
                source["columns"] if is_table(source["path"]) else (),
                header=record.get("header"),
            )
            for source in record["inputs"]
        )
    except (BadInputError, OSError) as error:
        screen.note(f"no scores are drawn: {error}")
        return None, None
    return first, second
