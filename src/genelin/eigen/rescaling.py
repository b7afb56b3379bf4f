"""Pencils in units of their own: no square of a number leaves the range of floating point."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genelin.eigen.run.meter import guarded
from genelin.linalg.column_products import Block
from genelin.operators import Scaled
from genelin.problems import Pencil
from genelin.results import Callback, EigenSolution, Record, Trace

__all__ = ["Units", "in_units"]

FAR = 1e30  # from 1: what is within has fourth powers of values that are floats
REACH = 1e290  # the same for values as they are returned


@dataclass(frozen=True)
class Units:
    """A = αÂ and B = βB̂ for powers of four: λ = (α/β)·λ̂ and v = v̂/√β, without rounding.

    Examples
    --------
    >>> Units(4.0, 16.0).value, Units(4.0, 16.0).length
    (0.25, 0.25)
    """

    alpha: float
    beta: float

    @property
    def value(self) -> float:
        """Of an eigenvalue."""
        return self.alpha / self.beta

    @property
    def length(self) -> float:
        """Of an eigenvector's entries."""
        return float(1.0 / np.sqrt(self.beta))

    @property
    def plain(self) -> bool:
        """Whether numbers are as they were."""
        return self.alpha == self.beta == 1.0

    def method(self, method: Any) -> Any:
        """The method, with a shift in these units if it has one."""
        shift = getattr(method, "shift", None)
        return method if self.plain or shift is None else replace(method, shift=shift / self.value)

    def told(self, callback: Callback | None) -> Callback | None:
        """A callback that sees values and vectors of the caller's pencil."""
        if callback is None or self.plain:
            return callback

        def tell(record: Record, W: Block) -> object:
            return callback(self._record(record), guarded(W * self.length))

        return tell

    def _record(self, record: Record) -> Record:
        return replace(record, ritz_values=guarded(record.ritz_values * self.value))

    def back(self, solution: EigenSolution) -> EigenSolution:
        """The solution of the caller's pencil."""
        if self.plain:
            return solution
        return replace(
            solution,
            values=solution.values * self.value,
            vectors=solution.vectors * self.length,
            residuals=solution.residuals * self.value,
            trace=Trace([self._record(record) for record in solution.trace]),
        )


def in_units(pencil: Pencil, rng: np.random.Generator) -> tuple[Pencil, Units]:
    """The pencil with numbers near 1, if they are very far from it, and its units.

    Examples
    --------
    >>> pencil, units = in_units(Pencil(np.diag([4e-95, 1e-95])), np.random.default_rng(0))
    >>> units.plain, bool(0.1 < (pencil.A @ np.ones(2)).max() < 10)
    (False, True)
    """
    alpha, beta = (
        _unit(operator, name, rng) for operator, name in ((pencil.A, "A"), (pencil.B, "B"))
    )
    units = Units(alpha, beta)
    if units.plain:
        return pencil, units
    logarithm = np.log10(alpha) - np.log10(beta)
    if abs(logarithm) > np.log10(REACH):
        raise ValueError(
            f"eigenvalues of A v = λ B v are of the order 1e{logarithm:+.0f}, which leaves the "
            "range of floating point: divide A or B by the size of its entries"
        )
    A = pencil.A if alpha == 1 else Scaled(pencil.A, 1 / alpha)
    B = pencil.B if beta == 1 else Scaled(pencil.B, 1 / beta)
    return replace(pencil, A=A, B=B), units


def _unit(operator: Any, name: str, rng: np.random.Generator) -> float:
    """A power of four near the size of its products, or 1 where these are not far from it."""
    with np.errstate(over="ignore", invalid="ignore"):
        size = float(np.abs(operator @ rng.standard_normal((operator.shape[0], 1))).max())
    if not np.isfinite(size) or size > REACH:
        raise ValueError(
            f"{name} has numbers whose products leave the range of floating point: divide {name} "
            "by the size of its entries"
        )
    if size == 0 or 1 / FAR < size < FAR:
        return 1.0
    return float(4.0 ** round(np.log2(size) / 2))
