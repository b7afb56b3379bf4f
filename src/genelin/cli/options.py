"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from genelin.eigen.registry import METHODS

__all__ = [
    "MethodChoice",
    "Numbers",
    "force",
    "json_flag",
    "method_of",
    "problem_options",
    "table_options",
]

Command = TypeVar("Command", bound=Callable[..., Any])

SOLVERS = ("gd", "agd", "cg", "direct", "svrg", "asvrg", "minibatch-agd")
COMMANDS = {"views": "cca", "pencils": "eig"}  # kind of problem → the command that solves it


class Numbers(click.ParamType):  # type: ignore[type-arg]
    """One number for both views, or two with a comma between them."""

    name = "number[,number]"

    def convert(self, value: Any, param: Any, ctx: Any) -> float | tuple[float, float]:
        """`1e-4` or `1e-4,1e-3`."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        try:
            parts = [float(part) for part in value.split(",")]
        except ValueError:
            parts = []
        if len(parts) not in (1, 2):
            self.fail(f"{value!r} is not a number, nor two with a comma between them", param, ctx)
        return parts[0] if len(parts) == 1 else (parts[0], parts[1])


class MethodChoice(click.Choice):  # type: ignore[type-arg]
    """Methods of a command; one for the other kind of problem is told from a name that is wrong."""

    def __init__(self, kind: str) -> None:
        names = (name for name, row in METHODS.items() if row.solves in (kind, "both"))
        super().__init__(["auto", *names])

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """One of the choices."""
        if value in METHODS and value not in self.choices:
            kind = METHODS[value].solves
            solves = "two data sets" if kind == "views" else kind
            self.fail(
                f"{value} solves {solves}, as `genelin {COMMANDS[kind]}` does: use one of "
                f"{', '.join(self.choices)}",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


def _stacked(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, in this order in the help."""

    def decorated(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


json_flag = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of text."
)
force = click.option("--force", is_flag=True, help="Replace what is there.")
table_options = _stacked(
    click.option(
        "--x-columns",
        multiple=True,
        metavar="NAMES",
        help="Columns of X in a table: names with commas between them, first:last, or a pattern "
        "such as 'gene_*'. Can be given more than once.",
    ),
    click.option("--y-columns", multiple=True, metavar="NAMES", help="The same for Y."),
    click.option(
        "--header/--no-header",
        default=None,
        help="Whether the first line of CSV files holds names; told by its content if not said.",
    ),
)
problem_options = _stacked(
    click.option(
        "-k",
        "--components",
        "k",
        type=click.IntRange(min=1),
        default=2,
        show_default=True,
        help="Number of canonical pairs.",
    ),
    click.option(
        "--reg",
        type=Numbers(),
        default="0",
        show_default=True,
        help="Ridge added to the covariances, one for both views or two: 1e-4,1e-3.",
    ),
    click.option(
        "--shrinkage",
        type=Numbers(),
        help="Instead of --reg: (1 − s)·S + s·tr(S)/d·I, s in [0, 1].",
    ),
    click.option(
        "--center/--no-center", default=True, help="Subtract column means.  [default: yes]"
    ),
    click.option(
        "--scale/--no-scale",
        default=False,
        help="Divide columns by their standard deviations.  [default: no]",
    ),
)


def method_of(name: str, solver: str | None, max_iter: int | None = None) -> Any:
    """The eigen method of that name, None for "auto"."""
    import genelin

    if name == "auto":
        if solver is not None:
            raise click.UsageError(
                "--solver belongs to the methods of the paper: give --method too"
            )
        return None
    settings: dict[str, Any] = {} if max_iter is None else {"max_iter": max_iter}
    if solver is not None:
        if METHODS[name].group != "paper":
            raise click.UsageError(f"--solver belongs to the methods of the paper, not to {name}")
        settings["solver"] = getattr(genelin.solvers, _class_name(solver))()
    return METHODS[name].load()().with_settings(settings)


def _class_name(solver: str) -> str:
    return {"direct": "Direct", "minibatch-agd": "MinibatchAGD"}.get(solver, solver.upper())
