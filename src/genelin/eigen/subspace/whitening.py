"""T with TᵀBT = I: what turns a pencil into the eigenproblem of one symmetric matrix, TᵀAT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.linalg import solve_triangular

from genelin.linalg import (
    ScaledFactor,
    SparseFactor,
    column_dots,
    column_norms,
    range_basis,
    scaled_factor,
)
from genelin.linalg.column_products import Block, Vector
from genelin.linalg.tall_skinny import by_rows
from genelin.operators import Operator
from genelin.results import LinearSolution
from genelin.solvers.base import Energy, LinearSolver
from genelin.system.buffer_pool import empty

__all__ = [
    "ByDiagonal",
    "ByFactor",
    "Plain",
    "Rooted",
    "Whitening",
    "by_diagonal",
    "by_factor",
    "by_root",
    "whitened_by",
    "whitening_of",
]


SMALL = 128  # rows of a factor whose inverse is looked at row by row


class Whitening(Protocol):
    """Products with T and with Tᵀ."""

    def whitened(self, M: Block) -> Block:
        """TᵀM."""
        ...

    def lifted(self, U: Block) -> Block:
        """TU."""
        ...

    def hidden(self, noise: Block) -> Vector:
        """‖Tᵀe‖ for errors |e| ≤ noise: at most, or the root of the mean square over signs."""
        ...

    @property
    def condition(self) -> float:
        """1/κ of B with unit diagonal, roughly."""
        ...


@dataclass(frozen=True)
class Plain:
    """T = I, for B = I."""

    condition: ClassVar[float] = 1.0

    def whitened(self, M: Block) -> Block:
        """M itself."""
        return M

    def lifted(self, U: Block) -> Block:
        """U itself."""
        return U

    def hidden(self, noise: Block) -> Vector:
        """‖e‖ at most."""
        return column_norms(noise)


@dataclass(frozen=True)
class ByDiagonal:
    """T = B^{-½} of a diagonal B, by its diagonal."""

    scale: Vector
    condition: ClassVar[float] = 1.0

    def whitened(self, M: Block) -> Block:
        """TᵀM."""
        out: Block = empty(M.shape)

        def piece(rows: slice) -> None:
            np.multiply(M[rows], self.scale[rows, None], out=out[rows])

        by_rows(piece, len(M), M.size)
        return out

    def lifted(self, U: Block) -> Block:
        """TU."""
        return self.whitened(U)

    def hidden(self, noise: Block) -> Vector:
        """‖Tᵀe‖ at most."""
        return column_norms(self.whitened(noise))


@dataclass(frozen=True)
class ByFactor:
    """T = DL⁻ᵀ for LLᵀ = DBD, which has ones on its diagonal."""

    L: Block
    scale: Vector
    condition: float
    norm: float  # of DBD

    def whitened(self, M: Block) -> Block:
        """TᵀM."""
        scaled = self.scale[:, None] * M
        return np.asarray(solve_triangular(self.L, scaled, lower=True, check_finite=False))

    def lifted(self, U: Block) -> Block:
        """TU."""
        solved = solve_triangular(self.L, U, lower=True, trans="T", check_finite=False)
        return np.asarray(self.scale[:, None] * solved)

    def hidden(self, noise: Block) -> Vector:
        """‖Tᵀe‖: by its rows where B is small, else through the norm of L⁻¹."""
        if len(self.L) <= SMALL:
            return _through(self.lifted(np.eye(len(self.L))), noise)
        through = np.sqrt(self.condition * self.norm)
        return np.asarray(column_norms(self.scale[:, None] * noise) / through)


@dataclass(frozen=True)
class OnRange:
    """T of fewer columns, which span the range of a singular B."""

    T: Block
    condition: float

    def whitened(self, M: Block) -> Block:
        """TᵀM."""
        return self.T.T @ M

    def lifted(self, U: Block) -> Block:
        """TU."""
        return self.T @ U

    def hidden(self, noise: Block) -> Vector:
        """‖Tᵀe‖ by the rows of T."""
        return _through(self.T, noise)


def _through(T: Block, noise: Block) -> Vector:
    """The root of the mean square of ‖Tᵀe‖ over the signs of e, |e| = noise."""
    squares: Vector = np.sqrt(column_dots(T.T, T.T) @ noise**2)
    return squares


@dataclass(frozen=True)
class Rooted(LinearSolver):
    """B⁻¹ = TTᵀ: exact, with norms that are those of TᵀR."""

    white: Whitening
    trusted: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    def _prepare(self, operator: Operator) -> Operator:
        return operator

    def _approximate_inverse(self, state: Any) -> Any:
        return lambda R: self.white.lifted(self.white.whitened(R))

    def _lowest(self, state: Any) -> float:
        return 1.0

    def _advance(
        self, state: Operator, rhs: Block, x0: Block, reduction: float, residual: Block | None
    ) -> LinearSolution:
        r0 = rhs - state @ x0 if residual is None else residual
        met = np.ones(rhs.shape[1], dtype=bool)
        return LinearSolution(x0 + self.white.lifted(self.white.whitened(r0)), 1, met)

    def _energy(self, state: Operator, R: Block, enough: float | Vector) -> Energy:
        root = self.white.whitened(R)
        met = np.ones(R.shape[1], dtype=bool)
        return Energy(column_norms(root) ** 2, met, self.white.lifted(root), R)


def by_diagonal(B: Operator) -> Plain | ByDiagonal | None:
    """For the identity, or another diagonal B; None for others.

    Examples
    --------
    >>> from scipy import sparse
    >>> from genelin.operators import as_operator
    >>> by_diagonal(as_operator(sparse.diags_array([4.0, 1.0]).tocsr())).lifted(np.ones((2, 1)))
    array([[0.5],
           [1. ]])
    >>> by_diagonal(as_operator(np.ones((2, 2))))
    """
    if B.is_identity:
        return Plain()
    entries, diagonal = B.entries(), B.diagonal()
    if entries is None or diagonal is None or not entries.is_diagonal:
        return None
    return ByDiagonal(1.0 / np.sqrt(diagonal)) if diagonal.min() > 0 else None


def by_factor(factor: ScaledFactor) -> ByFactor | None:
    """By Cholesky; None where B is singular, or a pivot of it is at the level of rounding."""
    if not factor.is_sound:
        return None
    return ByFactor(factor.L, factor.scale, factor.condition, factor.norm)


def by_root(B: Operator) -> Whitening | None:
    """By a diagonal or a factor, whichever is there; None where there is none that is sound.

    Examples
    --------
    >>> from genelin.operators import as_operator
    >>> by_root(as_operator(np.array([[4.0, 0.0], [0.0, 1.0]]))).lifted(np.ones((2, 1))).tolist()
    [[0.5], [1.0]]
    >>> by_root(as_operator(np.ones((2, 2))))
    """
    white = by_diagonal(B)
    factor = B.factor() if white is None else None
    if isinstance(factor, SparseFactor):
        return factor if factor.is_sound else None
    return white if factor is None else by_factor(factor)


def whitening_of(B: Block) -> ByFactor | OnRange:
    """By the Cholesky factor of the scaled matrix, or on its range if it is singular."""
    factored = by_factor(scaled_factor(B))
    if factored is not None:
        return factored
    Q, weights = range_basis(B)
    condition = float(weights.min() / weights.max()) if len(weights) else 1.0
    return OnRange(Q / np.sqrt(weights), condition)


def whitened_by(B: Block) -> Block:
    """T itself: as many columns as B has, or as its range if it is singular."""
    whitening = whitening_of(B)
    return whitening.T if isinstance(whitening, OnRange) else whitening.lifted(np.eye(len(B)))
