"""Rows that are not in memory as one matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Part", "RowSource", "Task"]


@dataclass(frozen=True)
class Part:
    """A block of consecutive rows."""

    start: int
    x: Any
    y: Any = None
    weights: NDArray[np.float64] | None = None


class Task:
    """What is computed from every part."""

    def __call__(self, part: Part) -> tuple[Any, ...]:
        """Of one part."""
        raise NotImplementedError

    def merge(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        """Element-wise sum."""
        return tuple(x + y for x, y in zip(a, b, strict=True))


class RowSource(Protocol):
    """Rows that are read in parts."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    is_sparse: bool
    stored: int
    name: str

    def summed(
        self,
        task: Task,
        other: RowSource | None = None,
        weights: NDArray[np.float64] | None = None,
        columns: int = 1,
    ) -> tuple[Any, ...]:
        """Merge over all parts."""

    def taken(self, rows: NDArray[np.int64]) -> Any:
        """Some rows."""

    def beside(self, matrix: Any) -> RowSource:
        """An in-memory matrix as a source."""
