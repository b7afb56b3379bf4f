"""Which method runs when the user does not say."""

from __future__ import annotations

from typing import Any

from genelin.eigen.ccalin import CCALin
from genelin.eigen.dense import Dense
from genelin.eigen.genelink import GenELinK
from genelin.problems import SMALL, Pencil, TwoView

__all__ = ["default_method"]

OPAQUE = 256  # size up to which an operator without entries is multiplied out


def default_method(problem: Pencil | TwoView, k: int) -> Any:
    """Dense and direct where d is small; else the paper's iteration, locally optimal, with CG.

    Examples
    --------
    >>> import numpy as np
    >>> default_method(Pencil(np.eye(3)), k=1)
    Dense()
    """
    if isinstance(problem, TwoView):
        small = max(problem.X.d, problem.Y.d) <= SMALL
        return Dense() if small else CCALin(locally_optimal=True, reduction=1e-2)
    explicit = all(operator.entries() is not None for operator in (problem.A, problem.B))
    if problem.d <= (SMALL if explicit else OPAQUE) or k > problem.d // 4:
        return Dense()
    return GenELinK(locally_optimal=True, reduction=1e-2)
