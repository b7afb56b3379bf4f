"""`genelin convert`: data as a folder that is read row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from genelin.cli.exit_codes import BadInputError
from genelin.cli.options import force, json_flag

__all__ = ["convert"]


@click.command(short_help="Turn data into a folder that is read without loading all of it.")
@click.argument("source", metavar="SRC", type=click.Path())
@click.argument("folder", metavar="DST", type=click.Path())
@click.option(
    "--columns",
    multiple=True,
    metavar="NAMES",
    help="Columns of a table: names with commas between them, first:last, or a pattern.",
)
@click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first line of a CSV file holds names; told by its content if not said.",
)
@force
@json_flag
def convert(
    source: str,
    folder: str,
    columns: tuple[str, ...],
    header: bool | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the rows of SRC to the folder DST, which `genelin cca` reads without loading all of it.

    SRC is anything that `genelin cca` reads.
    """
    from genelin import io
    from genelin.cli.console import Screen
    from genelin.cli.outputs import Output

    screen = Screen(as_json)
    if not Path(source).exists():
        raise BadInputError(f"there is no file {source}: check the path")
    place = Path(folder)
    with Output(place.parent, [place.name], force), screen.listening():
        data, names = _readable(source, columns, header)
        stored = io.convert(data, folder, overwrite=force, columns=names)
    n, d = stored.shape
    screen.line(f"{n:,} × {d:,} rows and columns of {stored.dtype}: {folder}")
    screen.result(
        {"command": "convert", "shape": [n, d], "dtype": str(stored.dtype), "folder": folder}
    )


def _readable(
    source: str, columns: tuple[str, ...], header: bool | None
) -> tuple[Any, list[str] | None]:
    """What `genelin.io.convert` is to read: the path itself wherever it can, and which columns."""
    from genelin.cli.read_views import is_table, read_view, streamable_columns

    if not is_table(source):
        if columns or source.lower().endswith((".mtx", ".mtx.gz")):
            return read_view(source, columns, "--columns").rows, None
        return source, None
    names = streamable_columns(source, columns, "--columns", header)
    if names is None:
        return read_view(source, columns, "--columns", header).rows, None
    return source, names
