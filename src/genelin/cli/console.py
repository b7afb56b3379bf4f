"""What is shown: results on stdout, everything said on the way on stderr."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

import click
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

__all__ = ["Screen", "jsonable"]

WIDE = 160  # columns of a page that is not a terminal
PLAIN: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": True}


class Screen:
    """Results for a person or, with `as_json`, for a machine.

    Attributes
    ----------
    warnings : what the library warned of so far, in its words.
    """

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self.warnings: list[str] = []
        self._out, self._notes = _console(sys.stdout), _console(sys.stderr)

    def note(self, text: str) -> None:
        """Something on the way: nobody needs it later."""
        if not self.as_json:
            self._notes.print(text, style="dim", **PLAIN)

    def line(self, text: str, style: str = "") -> None:
        """A line of the result."""
        if not self.as_json:
            self._out.print(text, style=style, **PLAIN)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A table of the result; cells that look like numbers stand to the right."""
        if self.as_json:
            return
        lines = [list(row) for row in rows]
        table = Table(box=box.SIMPLE_HEAD if self._out.is_terminal else None, pad_edge=False)
        for place, name in enumerate(columns):
            numbers = all(_is_number(line[place]) for line in lines)
            table.add_column(name, justify="right" if numbers else "left", no_wrap=numbers)
        for line in lines:
            table.add_row(*map(_escaped, line))
        self._out.print(table, highlight=False)

    def verdict(self, record: Mapping[str, Any]) -> None:
        """How far an answer can be trusted, what it took, and where its files are."""
        self.line(_verdict(record), "bold green" if record["converged"] else "bold red")
        route = f"; {record['route']}" if record["route"] else ""
        self.line(
            f"{record['iterations']} iterations, {record['cost']['passes']:.4g} passes over the "
            f"data, {record['cost']['seconds']:.2g} s{route}"
        )
        for path in record.get("files", {}).values():
            self.line(f"  {path}")

    def result(self, content: Mapping[str, Any]) -> None:
        """The whole result, for machines."""
        if self.as_json:
            click.echo(json.dumps(jsonable(content), ensure_ascii=False, allow_nan=False))

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Show warnings of the library as lines, and what it prints on stderr.

        Progress goes there too: a bar where stderr is a terminal, else a line now and then.
        """
        with warnings.catch_warnings(record=True) as caught, redirect_stdout(sys.stderr):
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            try:
                yield
            finally:
                fresh = [" ".join(str(warning.message).split()) for warning in caught]
                for text in dict.fromkeys(fresh):
                    self.warnings.append(text)
                    if not self.as_json:
                        self._notes.print(f"warning: {text}", style="yellow", **PLAIN)


def jsonable(value: Any) -> Any:
    """`value` in the terms of JSON, which has no infinity and no arrays.

    Examples
    --------
    >>> jsonable({"a": np.array([1.0, np.inf])})
    {'a': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): jsonable(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return jsonable(value.tolist())
    if isinstance(value, list | tuple):
        return [jsonable(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _console(stream: Any) -> Console:
    console = Console(file=stream)
    return console if console.is_terminal else Console(file=stream, width=WIDE, soft_wrap=True)


def _is_number(text: str) -> bool:
    try:
        float(text.lstrip("≤ "))
    except ValueError:
        return text in ("", "—")
    return True


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _verdict(record: Mapping[str, Any]) -> str:
    worst, bound = max(record["residuals"]), record["sin_theta_bound"]
    sure = "and none can have been missed" if record["gap_certified"] else "with high probability"
    angle = f"sin θ to the true space ≤ {bound:.1e}" if bound < 1 else "no bound on the angle"
    if not record["converged"]:
        return f"{record['status']}: {record['advice']} Largest residual {worst:.1e}; {angle}."
    tied = f" {record['advice']}" if record["advice"] else ""
    pairs = f"{len(record['residuals'])} pairs, all certified to {worst:.1e}"
    return f"{pairs}; {angle} {sure}.{tied}" if bound < 1 else f"{pairs}; {angle}.{tied}"
