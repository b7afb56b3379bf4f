"""Preconditioners: M ≈ B with M⁻¹ cheap to apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from genelin.linalg.columns import Block
from genelin.operators import Operator

__all__ = ["Identical", "Jacobi", "Preconditioner", "Prepared"]


@dataclass(frozen=True)
class Prepared:
    """M⁻¹ as a function, and the largest eigenvalue of M (so that λ_min(M⁻¹B) ≥ λ_min(B)/it)."""

    apply: Callable[[Block], Block]
    largest: float


class Preconditioner(Protocol):
    """What `CG(preconditioner=…)` takes: an object with `prepare(operator) -> Prepared`."""

    def prepare(self, operator: Operator) -> Prepared:
        """The once-only work."""
        ...


@dataclass(frozen=True)
class Identical:
    """No preconditioning, M = I."""

    def prepare(self, operator: Operator) -> Prepared:
        """Nothing to do."""
        return Prepared(lambda R: R, 1.0)


@dataclass(frozen=True)
class Jacobi:
    """M = diag(B): makes conjugate gradients blind to the scales of the features.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import solvers
    >>> B = np.diag([1.0, 1e6])
    >>> cg = solvers.CG(preconditioner=Jacobi())
    >>> cg.solve(cg.init(B), np.ones(2), np.zeros(2), reduction=1e-12).iterations
    1
    """

    def prepare(self, operator: Operator) -> Prepared:
        """Invert the diagonal; zeros (dead columns, whose residual is zero) count as one."""
        diagonal = operator.diagonal()
        if diagonal is None:
            raise ValueError(
                "Jacobi needs the diagonal of B, which this operator does not give: use "
                "CG(preconditioner=None), or pass B as a matrix"
            )
        safe = np.where(diagonal > 0, diagonal, 1.0)
        inverse = (1.0 / safe)[:, None]

        def apply(R: Block) -> Block:
            return R * inverse.astype(R.dtype, copy=False)

        return Prepared(apply, float(safe.max()))
