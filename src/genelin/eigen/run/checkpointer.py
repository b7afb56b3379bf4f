"""What a method tells of its progress, and takes over from an earlier run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from genelin.results import Cost, Record, Trace

__all__ = ["NO_CHECKPOINT", "Checkpointer", "State", "restore"]


@dataclass(frozen=True)
class State:
    """What a run needs to go on: blocks of numbers, plain numbers, and its story so far."""

    arrays: Mapping[str, Any]
    numbers: Mapping[str, Any]
    records: list[Record]
    cost: Cost
    iterations: int = field(default=-1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "iterations", len(self.records))  # the list itself grows on

    @property
    def trace(self) -> Trace:
        """The records up to this state."""
        return Trace(self.records[: self.iterations])


class Checkpointer:
    """What a method tells of its progress, and hears of an earlier run; this one keeps nothing."""

    resumed = False  # whether an earlier run has left a state

    def load(self) -> State | None:
        """The state of an earlier run; the random generator is set back to where it was."""
        return None

    def save(self, state: State) -> None:
        """Take note of where the run is, after an outer iteration and its callback.

        The arrays must not change as long as no other state is saved: work that changes them, up
        to the next `save`, is done `undisturbed`.
        """

    def undisturbed(self) -> AbstractContextManager[None]:
        """A context in which Ctrl-C waits, where a state is kept."""
        return nullcontext()

    def resuming(self) -> AbstractContextManager[None]:
        """A context for taking over a state: one that does not fit is said to be damaged."""
        return nullcontext()


NO_CHECKPOINT = Checkpointer()


def restore(target: Any, names: Iterable[str], numbers: Mapping[str, Any]) -> None:
    """Set attributes to the numbers of a state, each of the kind that it has.

    Examples
    --------
    >>> class Run:
    ...     steps, marks = 0, [1.0]
    >>> run = Run()
    >>> restore(run, ["steps"], {"steps": 3, "marks": []})
    >>> run.steps
    3
    """
    for name in names:
        before, value = getattr(target, name), numbers[name]
        if not _alike(before, value):
            raise TypeError(f"{name} is {value!r:.40}")
        setattr(target, name, value)


def _alike(before: Any, value: Any) -> bool:
    """Whether a value from JSON can stand for another one: a number, or lists of numbers."""
    if isinstance(before, bool) or isinstance(value, bool):
        return isinstance(before, bool) and isinstance(value, bool)
    if isinstance(before, int):
        return isinstance(value, int) and abs(value) < 2**53
    if isinstance(before, float | np.number):
        return isinstance(value, int | float) and not np.isnan(float(value))
    return isinstance(value, list) and all(_alike(0.0, number) for number in _flat(value))


def _flat(values: list[Any]) -> Iterator[Any]:
    for value in values:
        yield from _flat(value) if isinstance(value, list) else (value,)
