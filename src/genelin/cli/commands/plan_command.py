"""`genelin plan`: what `genelin cca` would do, and at what cost."""

from __future__ import annotations

from typing import Any

import click

from genelin.cli.options import json_flag, problem_options, table_options

__all__ = ["plan"]


@click.command(short_help="What `cca` would do, at what cost, and why.")
@click.argument("x", metavar="X", type=click.Path())
@click.argument("y", metavar="[Y]", type=click.Path(), required=False)
@problem_options
@table_options
@click.option(
    "--tol", type=float, default=1e-6, show_default=True, help="Largest residual of a pair."
)
@json_flag
def plan(
    x: str,
    y: str | None,
    k: int,
    x_columns: tuple[str, ...],
    y_columns: tuple[str, ...],
    header: bool | None,
    as_json: bool,
    **problem: Any,
) -> None:
    """Say what `genelin cca X Y` would do: routes with seconds, passes and memory, the best first.

    The speed of this machine is measured, which takes about a second, and an iteration is begun.
    """
    from genelin import plan_cca
    from genelin.cli.console import Screen
    from genelin.cli.read_views import read_views

    screen = Screen(as_json)
    first, second = read_views(x, y, x_columns, y_columns, header)
    with screen.listening():
        found = plan_cca(first.rows, second.rows, k, **problem)
    screen.line(f"plan for {found.task}")
    screen.table(
        ["", "route", "seconds", "passes", "memory", "why"],
        (
            [
                "→" if route is found.chosen else "",
                route.name,
                f"{route.seconds:.2g}",
                f"{route.passes:.3g}",
                _bytes(route.memory),
                route.why,
            ]
            for route in found.routes
        ),
    )
    names = ("name", "seconds", "passes", "memory", "reason")
    routes = [{name: getattr(route, name) for name in names} for route in found.routes]
    screen.result({"command": "plan", "task": found.task, "routes": routes})


def _bytes(count: float) -> str:
    from rich.filesize import decimal

    return decimal(round(count))
