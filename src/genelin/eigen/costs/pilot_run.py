"""The first iterations of a run, to see how long all of it would take."""

from __future__ import annotations

import math
from dataclasses import dataclass

from genelin.results import Record

__all__ = ["ITERATIONS", "LONGEST", "PilotRun", "extrapolated"]

LONGEST = 300.0  # seconds of a route that is begun for a plan
ITERATIONS = 3  # outer ones: the start, and two corrections
EXPANSION = 4.0  # sweeps over the data beside those of a solve: expansions in double precision
MOST, SHAPE, LEAST = 80.0, 0.55, 10.0  # sweeps for a digit: MOST·residual^SHAPE, as a rule
CHECK = 10.0  # sweeps for the check of the residuals


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


def extrapolated(records: list[Record], tried: float, tol: float) -> PilotRun:
    """The whole from its first outer iterations, down to `tol`.

    Where the first corrections leave a small residual, values are far apart and the rest is short;
    where they do not, solves grow longer. How much longer is a rule of thumb from problems of
    several kinds, whose runs agree with it within a factor of two or so. A sweep has the lower
    price of two: memory that is used for the first time takes longer.
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
