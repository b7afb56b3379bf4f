"""`genelin`: the group of all commands. A command's module is loaded when it is called."""

from __future__ import annotations

import importlib
from typing import Any

import click

from genelin import __version__
from genelin.cli.exit_codes import MEANINGS

__all__ = ["app"]

# Command → its module and its line in the help.
COMMANDS = {
    "cca": ("cca_command", "Canonical correlations of two files, or of columns of one table."),
    "eig": ("eig_command", "Top-k generalized eigenvectors of two matrices, A v = λ B v."),
    "transform": ("transform_command", "Scores of new rows under a fitted model."),
    "plan": ("plan_command", "What `cca` would do, at what cost, and why."),
    "report": ("report_command", "Draw the report of a finished run again."),
    "convert": (
        "convert_command",
        "Turn data into a folder that is read without loading all of it.",
    ),
    "reproduce": ("reproduce_command", "Run the experiments of the paper again."),
    "demo": ("cca_command", "The whole job on handwritten digits that come with scikit-learn."),
    "completion": ("completion", "Print the script that completes commands in your shell."),
}
CODES = "\n".join(f"{code:>5}  {meaning}" for code, meaning in MEANINGS.items())
EPILOG = f"""\b
Exit codes:
{CODES}

\b
Examples:
  genelin cca left.csv right.csv -k 5 --reg 1e-3 -o out/
  genelin cca table.parquet --x-columns 'gene_*' --y-columns height,weight -k 2 -o out/
  genelin transform out/ new.csv -o scores.parquet
"""


class _Commands(click.Group):
    """Commands by name, so that the help does not load what it lists."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"genelin.cli.commands.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _show_version(ctx: click.Context, parameter: Any, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from genelin.cli.versions import versions

    click.echo("\n".join(f"{name} {version}" for name, version in versions().items()))
    ctx.exit()


@click.group(
    cls=_Commands,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help=f"Versions of genelin ({__version__}) and of what it stands on.",
)
def app() -> None:
    """Canonical correlations and top-k generalized eigenvectors of large, sparse data.

    Every command prints JSON with --json, overwrites nothing without --force, and says in one line
    what is wrong with its input.
    """
