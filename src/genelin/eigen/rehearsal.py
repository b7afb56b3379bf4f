"""The first iterations of a run, to see how long all of it would take."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from genelin.linalg.columns import Block
from genelin.problems import TwoView
from genelin.results import Record

__all__ = ["Rehearsal", "rehearsed"]

ITERATIONS = 3  # outer ones: the start, and two corrections
EXPANSION = 4.0  # sweeps over the data beside those of a solve: expansions in double precision
MOST, SHAPE, LEAST = 80.0, 0.55, 10.0  # sweeps for a digit: MOST·residual^SHAPE, as a rule
CHECK = 10.0  # sweeps for the check of the residuals


@dataclass(frozen=True)
class Rehearsal:
    """What a whole run would take, and the residual that its first iterations left.

    Examples
    --------
    >>> Rehearsal(seconds=3.5, passes=40.0, iterations=3, tried=0.8, residual=0.2).reason
    '3 outer iterations took 0.8 s and left a residual of 0.2'
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
            f"{self.iterations} outer iterations took {self.tried:.2g} s and left a residual of "
            f"{self.residual:.1g}"
        )


class _SeenEnoughError(Exception):
    """Ends a run from its callback: nothing of it is looked at any more."""


def rehearsed(method: Any, problem: TwoView, k: int, tol: float) -> Rehearsal:
    """Begin to solve a problem, and tell from that how long the rest would take, down to `tol`.

    Where the first corrections leave a small residual, values are far apart and the rest is short;
    where they do not, solves grow longer. How much longer is a rule of thumb from problems of
    several kinds, whose runs agree with it within a factor of two or so.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import Davidson
    >>> views = np.random.default_rng(0).standard_normal((2, 90, 40))
    >>> tried = rehearsed(Davidson(), TwoView(*views, reg=1.0), k=2, tol=1e-8)
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
    return Rehearsal(seconds, found.cost.passes, len(records), seconds, records[-1].residual)


def _extrapolated(records: list[Record], tried: float, tol: float) -> Rehearsal:
    """The whole from its first iterations: sweeps that are left, at the price of those so far."""
    first, last = records[0], records[-1]
    sweeps = sum(record.inner_iterations + EXPANSION for record in records[1:])
    digits = math.log10(max(last.residual / tol, 1.0))
    left = CHECK + digits * max(LEAST, MOST * min(last.residual, 1.0) ** SHAPE)
    seconds = tried + left * (last.seconds - first.seconds) / sweeps
    passes = last.passes + left * (last.passes - first.passes) / sweeps
    return Rehearsal(seconds, passes, len(records), tried, last.residual)
