"""`genelin reproduce`: the experiments of the paper."""

from __future__ import annotations

import click

from genelin.cli.options import force, json_flag

__all__ = ["reproduce"]


@click.command(short_help="Run the experiments of the paper again.")
@click.argument("what", type=click.Choice(["mnist", "ptb", "url", "solvers", "theory", "all"]))
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default="out/reproduction",
    show_default=True,
    metavar="FOLDER",
    help="Where tables and figures go.",
)
@click.option(
    "--data",
    type=click.Path(),
    metavar="FOLDER",
    help="Where the data sets are; else GENELIN_DATA, the cache, or a download.",
)
@click.option("--quick", is_flag=True, help="Smaller data, in minutes.")
@force
@json_flag
def reproduce(
    what: str, output: str, data: str | None, quick: bool, force: bool, as_json: bool
) -> None:
    """Run the experiments of the paper on WHAT, and write their tables and figures."""
    from pathlib import Path

    from genelin.cli.console import Screen
    from genelin.cli.exit_codes import BadInputError
    from genelin.cli.outputs import Output

    screen = Screen(as_json)
    if data is not None and not Path(data).is_dir():
        raise BadInputError(f"--data {data} is not a folder: name the one that holds the data sets")
    if Path(output).is_dir() and any(Path(output).iterdir()) and not force:
        raise BadInputError(
            f"{output} is not empty: name another folder with -o, or let its files be replaced "
            "with --force"
        )
    with Output(output, (), force), screen.listening():  # a folder that can be written to
        from genelin.experiments import reproduce as run

        files = run(what, output, data=data, quick=quick)
    for file in files:
        screen.line(str(file))
    screen.result({"command": "reproduce", "what": what, "files": [str(file) for file in files]})
