"""Factorisations: dense Cholesky, sparse LU, division for a diagonal B."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigvalsh

from genelin.errors import not_positive_definite
from genelin.linalg import range_basis, unit_diagonal
from genelin.linalg.column_products import EPS, Block, Vector
from genelin.linalg.sparse_cholesky import factored, is_diagonal_matrix
from genelin.operators import Operator
from genelin.results import LinearSolution
from genelin.solvers.base import LinearSolver

__all__ = ["Direct", "invert"]

Solve = Callable[[Block], Block]


@dataclass(frozen=True)
class DirectState:
    """An operator and the application of its (pseudo-)inverse."""

    operator: Operator
    inverse: Solve


@dataclass(frozen=True)
class Direct(LinearSolver):
    """Solve exactly: Cholesky for dense B, sparse LU for sparse B, O(d) for diagonal B.

    A covariance of sparse data stays sparse: centring is a rank-one term (Sherman & Morrison).
    A singular dense covariance is inverted on its range. Every solve corrects the start, which is
    a step of iterative refinement when the start is good.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from genelin import solvers
    >>> direct = solvers.Direct()
    >>> state = direct.init(sparse.diags_array([2.0, 4.0]))
    >>> direct.solve(state, np.ones(2), np.zeros(2), reduction=0.0).value.tolist()
    [0.5, 0.25]
    """

    trusted: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    def _prepare(self, operator: Operator) -> DirectState:
        entries = operator.entries()
        if entries is None:
            raise ValueError(
                "Direct needs the entries of B, which this operator does not give: pass B as an "
                "array or a sparse matrix, or use solvers.CG"
            )
        inverse = invert(entries.core)
        if entries.minus is not None:
            inverse = _subtract_rank_one(inverse, entries.minus)
        return DirectState(operator, inverse)

    def _approximate_inverse(self, state: DirectState) -> Solve:
        return state.inverse

    def _lowest(self, state: DirectState) -> float:
        return 1.0

    def _advance(
        self, state: DirectState, rhs: Block, x0: Block, reduction: float, residual: Block | None
    ) -> LinearSolution:
        r0 = rhs - state.operator @ x0 if residual is None else residual
        met = np.ones(rhs.shape[1], dtype=bool)
        return LinearSolution(x0 + state.inverse(r0), 1, met)


def invert(M: Any) -> Solve:
    """M⁻¹ of a dense or sparse matrix, the pseudo-inverse of a singular dense or diagonal one."""
    if not sparse.issparse(M):
        return _invert_dense(M)
    diagonal = M.diagonal()
    if is_diagonal_matrix(M):
        return _invert_diagonal(diagonal)
    if np.any(diagonal <= 0):
        raise not_positive_definite(f"diagonal entry {int(np.argmin(diagonal))} is not positive")
    factors = factored(M)
    if factors is None:
        raise not_positive_definite("a pivot of its factorisation is zero")
    if np.any(factors.pivots <= 0):  # all pivots of a positive definite matrix are positive
        raise not_positive_definite("a pivot of its factorisation is not positive")
    return factors.solve


def _invert_diagonal(diagonal: Vector) -> Solve:
    if np.any(diagonal < 0):
        raise not_positive_definite(f"diagonal entry {int(np.argmin(diagonal))} is not positive")
    inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
    return lambda R: R * inverse[:, None]


def _invert_dense(M: Block) -> Solve:
    """Cholesky of the scaled matrix; the pseudo-inverse on its range where that fails."""
    scaled, scale = unit_diagonal(M)
    if np.any(np.diagonal(M) < 0):
        raise not_positive_definite(f"diagonal entry {int(np.argmin(np.diagonal(M)))} is negative")
    try:
        factor = cho_factor(scaled, lower=True, check_finite=False)
        if np.diagonal(factor[0]).min() > np.sqrt(len(M) * EPS):
            return lambda R: scale[:, None] * cho_solve(factor, scale[:, None] * R)
    except LinAlgError:
        pass
    lowest = float(eigvalsh(scaled, subset_by_index=[0, 0], check_finite=False)[0])
    if lowest < -np.sqrt(EPS):
        raise not_positive_definite(f"an eigenvalue, after scaling, is {lowest:.3g}")
    Q, weights = range_basis(M)
    return lambda R: Q @ ((Q.T @ R) / weights[:, None])


def _subtract_rank_one(inverse: Solve, v: Vector) -> Solve:
    """(G − vvᵀ)⁻¹ from G⁻¹, by the formula of Sherman and Morrison."""
    u = inverse(v[:, None])
    remainder = float(1.0 - v @ u[:, 0])
    if remainder <= len(v) * EPS:
        raise not_positive_definite("the centred covariance is singular")

    def solve(R: Block) -> Block:
        S = inverse(R)
        return S + np.outer(u[:, 0], v @ S) / remainder

    return solve
