"""Outer iterations on fresh subsets of rows (the remark in §4.1), which grow until all are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from genelin.problems import Pencil

__all__ = ["RowSubsampling"]


class RowSubsampling:
    """A pencil from a fresh random subset of its rows for every outer iteration.

    A subset tells the space apart only up to its own noise: when residuals stop falling, subsets
    double, and in the end `active` is False and the pencil itself is left.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import TwoView
    >>> X = np.random.default_rng(0).standard_normal((1000, 2))
    >>> subsets = RowSubsampling(TwoView(X, X, reg=0.1).pencil, 100, np.random.default_rng(0))
    >>> subsets.active, subsets.draw().A.n_rows
    (True, 100)
    """

    def __init__(self, pencil: Pencil, batch: int | None, rng: np.random.Generator) -> None:
        self._pencil, self._rng = pencil, rng
        self._largest: int = max(pencil.A.n_rows, pencil.B.n_rows)
        if batch is not None and not (pencil.A.n_rows and pencil.B.n_rows):
            raise ValueError(
                f"batch={batch} needs A and B made of rows of data: pass operators.Gram, or two "
                "data sets (with reg > 0 where their columns are dependent); or leave batch=None"
            )
        self.batch: int = self._largest if batch is None else batch
        self._best: float = np.inf
        self._since = 0

    @property
    def numbers(self) -> dict[str, float]:
        """What the size of the next subset depends on."""
        return {"batch": self.batch, "subset_best": self._best, "subset_since": self._since}

    def set(self, numbers: Mapping[str, Any]) -> None:
        """Go on from the numbers of an earlier run."""
        self.batch, self._best = int(numbers["batch"]), float(numbers["subset_best"])
        self._since = int(numbers["subset_since"])

    @property
    def active(self) -> bool:
        """Whether a subset is smaller than the whole."""
        return self.batch < self._largest

    def draw(self) -> Pencil:
        """The pencil from a fresh subset: the same rows for A and B if they have as many."""
        A, B = self._pencil.A, self._pencil.B
        rows = self._rows(A.n_rows)
        other = rows if A.n_rows == B.n_rows else self._rows(B.n_rows)
        return replace(self._pencil, A=A.on_rows(rows), B=B.on_rows(other))

    def _rows(self, n: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.sort(self._rng.choice(n, min(self.batch, n), replace=False))

    def update(self, residual: float) -> None:
        """Double the subsets after two residuals that did not fall by a fifth."""
        if not self.active:
            return
        if residual < 0.8 * self._best:
            self._best, self._since = residual, 0
            return
        self._since += 1
        if self._since >= 2:
            self.batch, self._since = 2 * self.batch, 0
