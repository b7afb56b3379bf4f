"""Progress of a fit on the terminal: a bar where rich is installed, else a line now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np

from genelin.linalg.column_products import Block
from genelin.results import CCASolution, EigenSolution, Record

__all__ = ["Progress", "showing"]


class Progress:
    """A callback that shows the residual on its way to `tol`; a context that cleans up.

    Parameters
    ----------
    tol : where the residual is going.
    every : seconds between two plain lines; 0 shows every iteration.
    rich : False forces plain lines, True a bar; None draws a bar in terminals and notebooks.
        Without rich installed there are plain lines.
    name : what stands before the bar.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import GenELinK, top_k
    >>> with Progress(tol=0.1, every=60, rich=False) as progress:
    ...     A = np.diag([2.0, 1.0])
    ...     solution = top_k(A, k=1, method=GenELinK(), tol=0.1, callback=progress)
    iteration 1: residual 2.5e-01, tol 1.0e-01, 2 passes, ...
    """

    def __init__(
        self, tol: float, every: float = 1.0, rich: bool | None = None, name: str = "CCA"
    ) -> None:
        self.tol, self.every, self._name = tol, every, name
        self._bar = None if rich is False else _rich_bar(always=bool(rich))
        self._task: Any = None
        self._first: float | None = None
        self._last = -np.inf

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task(self._name, total=1.0, note="first products")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, record: Record, W: Block | None = None) -> None:
        """Show a record; never stops the run."""
        self._first = record.residual if self._first is None else self._first
        if self._bar is not None:
            note = (
                f"iteration {record.iteration}, {record.passes:.4g} passes, residual "
                f"{record.residual:.1e}"
            )
            self._bar.update(self._task, completed=self._done(record.residual), note=note)
            return
        now = time.perf_counter()
        if now - self._last >= self.every:
            self._last = now
            _say(
                f"iteration {record.iteration}: residual {record.residual:.1e}, tol "
                f"{self.tol:.1e}, {record.passes:.4g} passes, {record.seconds:.1f} s"
            )

    def _done(self, residual: float) -> float:
        """How far the residual has come, in digits, of the way from its first value to `tol`."""
        way = np.log(max(self._first or 1.0, self.tol * 1.001) / self.tol)
        return float(np.clip(1.0 - np.log(max(residual, self.tol) / self.tol) / way, 0.0, 1.0))

    def finish(self, solution: CCASolution | EigenSolution) -> None:
        """Say how the run ended."""
        text = (
            f"{solution.status.label} after {max(1, len(solution.trace))} iterations, "
            f"{solution.cost.passes:.4g} passes, {solution.cost.seconds:.1f} s"
        )
        if self._bar is not None:
            self._bar.update(self._task, completed=1.0, note=text)
        else:
            _say(text)


@contextmanager
def showing(verbose: int, tol: float, name: str = "CCA") -> Iterator[Progress | None]:
    """A `Progress` for verbose = 1 (now and then) or 2 (every iteration), None for 0.

    Examples
    --------
    >>> with showing(0, 1e-6) as progress:
    ...     print(progress)
    None
    """
    if not verbose:
        yield None
        return
    with Progress(tol, every=0.0 if verbose > 1 else 1.0, name=name) as progress:
        yield progress


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - what `verbose` asks for


def _rich_bar(always: bool) -> Any:
    """A bar, or None without rich or where it could not be drawn again and again."""
    try:
        from rich import console, progress
    except ImportError:
        return None
    screen = console.Console()
    if not (always or screen.is_terminal or screen.is_jupyter):
        return None
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=14),  # all of it fits in 80 columns
        progress.TimeRemainingColumn(),
        progress.TextColumn("left"),
        progress.TextColumn("{task.fields[note]}"),
    )
    return progress.Progress(*columns, console=screen)
