"""Which method runs when the user does not say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genelin.eigen.davidson import Davidson
from genelin.eigen.dense import Dense
from genelin.eigen.iteration import Callback
from genelin.eigen.whitened import WhitenedSVD, is_diagonal
from genelin.problems import SMALL, Pencil, TwoView
from genelin.results import EigenSolution, Status

__all__ = ["OrDense", "default_method"]


OPAQUE = 256  # size up to which operators without entries are multiplied out at once


@dataclass(frozen=True)
class OrDense:
    """An iteration with a budget, and the dense solution once that is spent.

    To multiply out operators of size d takes 2d columns: an iteration that has taken as many
    without an answer has at most doubled the cost.
    """

    first: Any

    def __call__(
        self,
        problem: Pencil,
        k: int,
        tol: float = 1e-8,
        rng: np.random.Generator | int | None = 0,
        callback: Callback | None = None,
    ) -> EigenSolution:
        """Solve `problem` for k pairs."""
        limited: EigenSolution = self.first(problem, k, tol, rng, callback)
        if limited.status in (Status.CONVERGED, Status.STOPPED):
            return limited
        dense = Dense()(problem, k, tol, rng)
        return replace(dense, cost=limited.cost + dense.cost, trace=limited.trace)


def default_method(problem: Pencil | TwoView, k: int) -> Any:
    """Dense and direct where d is small; else the accelerated iteration.

    Examples
    --------
    >>> import numpy as np
    >>> default_method(Pencil(np.eye(3)), k=1)
    Dense()
    """
    if isinstance(problem, TwoView):
        if max(problem.splits) <= SMALL:
            return Dense()
        return WhitenedSVD() if is_diagonal(problem) else Davidson()
    d = problem.d
    explicit = all(operator.entries() is not None for operator in problem.operators)
    if k > d // 4 or d <= (SMALL if explicit else OPAQUE):
        return Dense()
    return OrDense(Davidson(max_applications=2 * d)) if d <= SMALL else Davidson()
