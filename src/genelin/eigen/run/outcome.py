"""Where a run ended."""

from __future__ import annotations

from dataclasses import dataclass

from genelin.eigen.certify.residual_check import Gap, ResidualCheck
from genelin.eigen.subspace.ritz_basis import (
    RitzBasis,
)
from genelin.linalg.column_products import Vector
from genelin.results import Status, Trace

__all__ = ["Outcome"]


@dataclass(frozen=True)
class Outcome:
    """Where the loop ended: `status` is CONVERGED if the check agrees, else why it ended."""

    basis: RitzBasis
    residuals: Vector
    gap: Gap
    status: Status
    trace: Trace
    check: ResidualCheck
