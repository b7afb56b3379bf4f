"""Preconditioners: M ≈ B with M⁻¹ cheap to apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from genelin.linalg.column_products import Block, Vector
from genelin.linalg.tall_skinny import by_rows
from genelin.operators import Operator
from genelin.operators.base import Entries
from genelin.system.buffer_pool import empty

__all__ = ["Factors", "Identical", "Jacobi", "Preconditioner", "Prepared", "entries_of", "perron"]

SLACK = 1e-6  # by which bounds on M, computed in float64, are raised
SWEEPS = 10  # of the power iteration that sharpens a bound on λ_max(M)


@dataclass(frozen=True)
class Prepared:
    """M⁻¹ as a function of (d, m) blocks, and a number that no eigenvalue of M exceeds.

    M is symmetric and positive definite, so that λ_min(M⁻¹B) ≥ λ_min(B) / largest: certificates
    of `CG` rest on it. A float32 block gives a float32 block. Where M is diagonal, `diagonal` is
    that of M⁻¹.
    """

    apply: Callable[[Block], Block]
    largest: float
    diagonal: Vector | None = None


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
        return Prepared(lambda R: R, 1.0, np.ones(operator.shape[0]))


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
            Z, factors = empty(R.shape, R.dtype), inverse.astype(R.dtype, copy=False)

            def piece(rows: slice) -> None:
                np.multiply(R[rows], factors[rows], out=Z[rows])

            by_rows(piece, len(R), R.size)
            return Z  # type: ignore[no-any-return]

        return Prepared(apply, float(safe.max()), inverse[:, 0])


def entries_of(operator: Operator, name: str) -> Entries:
    """The entries of B, or an error that says what else there is for an operator without them."""
    entries = operator.entries()
    if entries is None:
        raise ValueError(
            f"{name} needs the entries of B, which this operator does not give: pass B as an array "
            "or a sparse matrix, or use solvers.Nystrom(), which needs products only"
        )
    return entries


class Factors:
    """An array of a factorisation in the precision of a block, as far as that bears it.

    Single precision would spoil M⁻¹ where the factors spread over more than four digits
    (`spread`): they stay in double precision then.
    """

    def __init__(self, array: Any, spread: float) -> None:
        self._double = array
        self._single = array.astype(np.float32) if spread < 1e4 else array

    def like(self, R: Block) -> Any:
        """The array to use with the block R."""
        return self._single if R.dtype == np.float32 else self._double


def perron(times: Callable[[Vector], Vector], d: int) -> float:
    """A bound on ρ(N) for a nonnegative matrix N: max (Nw)ᵢ/wᵢ, with any w > 0 (Collatz)."""
    w, bound = np.ones(d), np.inf
    for _ in range(SWEEPS):
        Nw = times(w)
        bound = min(bound, float((Nw / w).max()))
        w = np.maximum(Nw / Nw.max(), 1e-100)
    return bound
