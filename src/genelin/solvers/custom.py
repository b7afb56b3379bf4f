"""The user's own linear solver, f(B, b, u0, delta) -> u1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from genelin.errors import SolverError
from genelin.linalg import column_dots
from genelin.linalg.column_products import Block, Vector
from genelin.operators import Operator
from genelin.results import LinearSolution
from genelin.solvers.base import LinearSolver

__all__ = ["Custom", "as_solver"]


@dataclass(frozen=True)
class CustomState:
    """The operator that the function is given."""

    operator: Operator


@dataclass(frozen=True)
class Custom(LinearSolver):
    """A function f(B, b, u0, delta) -> u1 as a solver, checked at every call.

    B is an operator with `B @ V`, `B.shape` and `B.diagonal()`; b, u0 and u1 are (d, m) blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import GenELinK, top_k
    >>> def exact(B, b, u0, delta):
    ...     return np.linalg.solve(B @ np.eye(B.shape[0]), b)
    >>> top_k(np.diag([1.0, 3.0]), np.eye(2), k=1, method=GenELinK(solver=exact)).values.tolist()
    [3.0]
    """

    function: Callable[[Operator, Block, Block, float], Any]

    @property
    def name(self) -> str:
        """What error messages call it."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def _prepare(self, operator: Operator) -> CustomState:
        return CustomState(operator)

    def _advance(
        self, state: CustomState, rhs: Block, x0: Block, reduction: float, residual: Block | None
    ) -> LinearSolution:
        B = state.operator
        answer = np.asarray(self.function(B, rhs.copy(), x0.copy(), reduction))
        if answer.dtype.kind not in "biuf":
            raise SolverError(
                f"solver {self.name!r} returned {answer.dtype} values, expected real numbers"
            )
        value = answer.astype(np.float64)
        if value.shape != rhs.shape:
            raise SolverError(
                f"solver {self.name!r} returned shape {value.shape}, expected {rhs.shape}: it gets "
                "a block of right-hand sides and must return one solution per column"
            )
        if not np.all(np.isfinite(value)):
            raise SolverError(
                f"solver {self.name!r} returned NaN or inf: shorten its step, or start it at u0"
            )
        r0 = rhs - B @ x0 if residual is None else residual
        r1 = rhs - B @ value
        self._refuse_divergence(np.abs(column_dots(x0, rhs - r0)), value - x0, r0, r1)
        return LinearSolution(value, 1, np.ones(rhs.shape[1], dtype=bool), r1)

    def _refuse_divergence(self, started: Vector, move: Block, r0: Block, r1: Block) -> None:
        """‖e₀‖² − ‖e₁‖² = moveᵀ(r₀ + r₁) must not be negative, up to rounding in ‖u₀‖²_B."""
        decrease = column_dots(move, r0 + r1)
        moved = column_dots(move, r0 - r1)  # ‖move‖²_B
        worse = (decrease < -1e-6 * moved) & (moved > 1e-10 * started) & (moved > 0)
        if np.any(worse):
            column = int(np.flatnonzero(worse)[0])
            raise SolverError(
                f"solver {self.name!r} diverges: in column {column} of the block the error in the "
                "B-norm grew instead of falling by the factor delta. Shorten its step, or start "
                "it at u0."
            )


def as_solver(solver: Any) -> LinearSolver:
    """A solver of the library as it is, a function wrapped in `Custom`.

    Examples
    --------
    >>> as_solver("cg")
    Traceback (most recent call last):
        ...
    TypeError: solver='cg' is not a linear solver: ...
    """
    if isinstance(solver, LinearSolver):
        return solver
    if callable(solver) and not isinstance(solver, type):
        return Custom(solver)
    raise TypeError(
        f"solver={solver!r} is not a linear solver: pass solvers.CG(), solvers.AGD(), … or a "
        "function f(B, b, u0, delta) -> u1"
    )
