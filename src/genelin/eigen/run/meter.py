"""Wall time and counts of a run."""

from __future__ import annotations

import time
from dataclasses import replace

from genelin.linalg.column_products import Block, Vector
from genelin.operators import Counter, Counting
from genelin.problems import Pencil
from genelin.results import Cost, Record

__all__ = ["Meter", "guarded"]


class Meter:
    """Wall time and counts of a run, from the moment it is made."""

    def __init__(self, data_size: float, setup: tuple[float, float] = (0.0, 0.0)) -> None:
        self._began = time.perf_counter()
        self.counter = Counter(data_size, passes=setup[0], flops=setup[1])

    def metered(self, pencil: Pencil) -> Pencil:
        """The pencil with a meter on A and B."""
        return replace(
            pencil, A=Counting(pencil.A, self.counter), B=Counting(pencil.B, self.counter)
        )

    def cost(self) -> Cost:
        """What was spent so far."""
        counter = self.counter
        seconds = time.perf_counter() - self._began
        return Cost(counter.passes, counter.applications, counter.flops, seconds)

    def carry(self, before: Cost) -> None:
        """Count what an earlier run has spent on the same problem."""
        self._began -= before.seconds
        self.counter.passes += before.passes
        self.counter.applications += before.applications
        self.counter.flops += before.flops

    def record(self, t: int, inner: int, residual: float, theta: Vector) -> Record:
        """The record of outer iteration t."""
        cost = self.cost()
        return Record(
            t, cost.seconds, cost.passes, cost.flops, cost.applications, inner, residual, theta
        )


def guarded(values: Block) -> Block:
    """A view that a callback cannot write to."""
    view = values.view()
    view.flags.writeable = False
    return view
