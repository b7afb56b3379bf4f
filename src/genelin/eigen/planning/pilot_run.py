"""The first iterations of a run, to see how long all of it would take."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from genelin.eigen.methods.lanczos import Lanczos
from genelin.eigen.run.checkpointer import Checkpointer, State
from genelin.linalg.column_products import Block
from genelin.problems import Pencil, TwoView
from genelin.results import Record

__all__ = ["PilotRun", "lanczos_pilot_run", "pilot_run"]

ITERATIONS = 3  # outer ones: the start, and two corrections
EXPANSION = 4.0  # sweeps over the data beside those of a solve: expansions in double precision
MOST, SHAPE, LEAST = 80.0, 0.55, 10.0  # sweeps for a digit: MOST·residual^SHAPE, as a rule
CHECK = 10.0  # sweeps for the check of the residuals
RESTARTS = 3  # of `Lanczos`: its progress is that of the last two


@dataclass(frozen=True)
class PilotRun:
    """What a whole run would take, and the residual that its first iterations left.

    Examples
    --------
    >>> PilotRun(seconds=3.5, passes=40.0, iterations=3, tried=0.8, residual=0.2).reason
    '3 iterations took 0.8 s and left a residual of 0.2'
    """

    seconds: float
    passes: float
    iterations: int  # that were tried
    tried: float  # seconds that they took
    residual: float

    @property
    def reason(self) -> str:
        """What the figures rest on."""
        return (
            f"{self.iterations} iterations took {self.tried:.2g} s and left a residual of "
            f"{self.residual:.1g}"
        )


class _SeenEnoughError(Exception):
    """Ends a run from its callback: nothing of it is looked at any more."""


def pilot_run(method: Any, problem: TwoView, k: int, tol: float) -> PilotRun:
    """Begin to solve a problem, and tell from that how long the rest would take, down to `tol`.

    Where the first corrections leave a small residual, values are far apart and the rest is short;
    where they do not, solves grow longer. How much longer is a rule of thumb from problems of
    several kinds, whose runs agree with it within a factor of two or so.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import Davidson
    >>> views = np.random.default_rng(0).standard_normal((2, 90, 40))
    >>> tried = pilot_run(Davidson(), TwoView(*views, reg=1.0), k=2, tol=1e-8)
    >>> 0 < tried.tried <= tried.seconds
    True
    """
    records: list[Record] = []

    def watch(record: Record, _: Block) -> None:
        records.append(record)
        if len(records) == ITERATIONS:
            raise _SeenEnoughError

    began = time.perf_counter()
    try:
        found = method(problem, k, tol, callback=watch)
    except _SeenEnoughError:
        return _extrapolated(records, time.perf_counter() - began, tol)
    seconds = time.perf_counter() - began
    return PilotRun(seconds, found.cost.passes, len(records), seconds, records[-1].residual)


def _extrapolated(records: list[Record], tried: float, tol: float) -> PilotRun:
    """The whole from its first iterations: sweeps that are left, at the price of those so far.

    That is the lower price of two: memory that is used for the first time takes longer.
    """
    first, last = records[0], records[-1]
    sweeps = [record.inner_iterations + EXPANSION for record in records[1:]]
    price = min(
        (after.seconds - before.seconds) / count
        for before, after, count in zip(records, records[1:], sweeps, strict=False)
    )
    digits = math.log10(max(last.residual / tol, 1.0))
    left = CHECK + digits * max(LEAST, MOST * min(last.residual, 1.0) ** SHAPE)
    passes = last.passes + left * (last.passes - first.passes) / sum(sweeps)
    return PilotRun(tried + left * price, passes, len(records), tried, last.residual)


class _Restarts(Checkpointer):
    """Ends a run of `Lanczos` at its third restart, or where another method takes over."""

    def __init__(self) -> None:
        self.state: State | None = None

    def save(self, state: State) -> None:
        """See whether that was enough."""
        if "marks" not in state.numbers:
            raise _SeenEnoughError
        self.state = state
        if len(state.numbers["marks"]) >= RESTARTS:
            raise _SeenEnoughError

    def extrapolated(self, tried: float, steps: float, most: int) -> PilotRun | None:
        """The whole from what was seen, and from the steps that were predicted."""
        marks = [] if self.state is None else self.state.numbers["marks"]
        if self.state is None or len(marks) < 2:
            return None
        (before, then), (now, missing) = marks[0], marks[-1]
        rate = math.log(max(then / missing, 1.0)) / (now - before)
        end = now + min(math.log(max(missing, 1.0)), rate * most) / rate if rate else steps
        whole = max(math.sqrt(end * steps), float(now))
        residual = self.state.records[-1].residual
        return PilotRun(tried * whole / now, whole, now, tried, residual)


def lanczos_pilot_run(
    method: Lanczos, problem: Pencil, k: int, tol: float, steps: float
) -> PilotRun | None:
    """Begin to solve a pencil by Lanczos: the rest by its progress, and by `steps` predicted.

    Residuals fall slowly at first, and ever faster: of the steps by their progress so far and of
    those that were predicted, which know nothing of it, the mean (that of the logarithms) is taken;
    without any progress, what was predicted. None where another method took over at once.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> A = sparse.diags_array(1.0 / np.arange(1, 5001)).tocsr()
    >>> tried = lanczos_pilot_run(Lanczos(), Pencil(A), k=3, tol=1e-8, steps=60)
    >>> 0 < tried.tried <= tried.seconds
    True
    """
    watch, began = _Restarts(), time.perf_counter()
    try:
        found = method(problem, k, tol, checkpoint=watch)
    except _SeenEnoughError:
        return watch.extrapolated(time.perf_counter() - began, steps, method.steps(k))
    seconds, last = time.perf_counter() - began, found.trace[-1]
    return PilotRun(seconds, found.cost.passes, last.iteration, seconds, last.residual)
