"""Where a run keeps what it needs to go on, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Checkpoint"]

FILE = "checkpoint.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """Where a run keeps its state, and how often.

    The state is written after an outer iteration once `every` seconds have passed since the last
    time (later where writing is slow, so that it takes a twentieth of the time at most), when the
    run ends, and when an exception ends it, Ctrl-C included. One folder serves one run: two at
    the same time would replace each other's state.

    Parameters
    ----------
    folder : where the file is kept; made if need be.
    every : seconds between two writes; 0 writes after every outer iteration.

    Examples
    --------
    >>> import tempfile
    >>> from genelin import Davidson, top_k
    >>> A = np.diag(np.arange(1.0, 301.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(folder, every=5.0)
    ...     first = top_k(A, k=2, method=Davidson(), checkpoint=checkpoint)
    ...     again = top_k(A, k=2, method=Davidson(), checkpoint=checkpoint, resume=True)
    >>> again.values.round(6).tolist(), again.cost == first.cost
    ([300.0, 299.0], True)
    """

    folder: str | Path
    every: float = 60.0

    def __post_init__(self) -> None:
        if not isinstance(self.folder, str | Path) or not str(self.folder):
            raise TypeError(f"checkpoint={self.folder!r} must be a folder or a Checkpoint")
        number = isinstance(self.every, int | float | np.number)
        if not number or isinstance(self.every, bool) or not 0 <= self.every < np.inf:
            raise ValueError(f"every={self.every!r} must be a number of seconds, not negative")

    @classmethod
    def of(cls, given: Any) -> Checkpoint:
        """A checkpoint as it is, or one in the folder that is named."""
        return given if isinstance(given, cls) else cls(given)

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self.folder) / FILE

    @property
    def exists(self) -> bool:
        """Whether a run has left something here."""
        return self.path.exists()

    def part(self, name: str) -> Checkpoint:
        """A checkpoint in a folder within, for one of several runs."""
        return Checkpoint(Path(self.folder) / name, self.every)
