"""Algorithms 1 to 3 of the paper, as loops to lay beside its boxes.

They are generators of states: when to stop, what to check, which rows to read and who watches is up
to whoever asks for the next one. Algorithm 4, accelerated gradient descent, is `solvers.AGD`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from genelin.eigen.subspace.ritz_basis import (
    RitzBasis,
    locally_optimal,
    refreshed,
    ritz_basis,
    start_block,
)
from genelin.linalg import column_dots, orthonormalise
from genelin.linalg.column_products import Block, Vector
from genelin.problems import Pencil
from genelin.results import LinearSolution
from genelin.solvers import LinearSolver

__all__ = [
    "IterationState",
    "genelink",
    "gram_schmidt",
    "halves_projected",
    "start_of_paper",
    "with_last_step",
]

UNEVEN = 100.0  # ratio of squared units of coordinates, beyond which a start is in these units
RENEWED = 10  # locally optimal steps after which products are computed anew


@dataclass(frozen=True)
class IterationState:
    """An outer iteration: the solve W̃ ≈ B⁻¹AW, how far it moved, and the basis made of it."""

    t: int
    before: RitzBasis
    solution: LinearSolution
    left: Block  # AW − BW̃
    estimates: Vector  # of the residuals of W
    basis: RitzBasis

    @property
    def move(self) -> Block:
        """W̃ − WΓ."""
        return self.solution.value - self.before.W * self.before.theta


Advance = Callable[[Pencil, RitzBasis, Block, Block, int], RitzBasis]


def gram_schmidt(pencil: Pencil, basis: RitzBasis, W: Block, left: Block, t: int) -> RitzBasis:
    """W ← GS_B(W̃), rotated to Ritz vectors: the span of the paper's iteration."""
    W, BW = orthonormalise(W, pencil.B, basis.AW - left, spare=basis.W)
    return ritz_basis(pencil, W, BW)


def with_last_step(pencil: Pencil, basis: RitzBasis, W: Block, left: Block, t: int) -> RitzBasis:
    """Beyond the paper: the best of span[W, W̃, last step]."""
    improved = locally_optimal(pencil, basis, W - basis.W * basis.theta)
    return refreshed(pencil, improved) if t % RENEWED == RENEWED - 1 else improved


def genelink(
    pencil: Pencil,
    basis: RitzBasis,
    solver: LinearSolver,
    factor: Any,
    delta: Callable[[int], float],
    advance: Advance = gram_schmidt,
    first: int = 0,
) -> Iterator[IterationState]:
    """Algorithm 2, GenELinK; with one column Algorithm 1, GenELin.

    ::

        W ← GS_B(W̃₀)
        for t = 0, 1, …
            Γ ← (WᵀBW)⁻¹ WᵀAW
            W̃ ← B⁻¹AW, solved from WΓ until the squared error is δ times what it was
            W ← GS_B(W̃)

    The basis is rotated to Ritz vectors, which leaves its span alone and makes Γ = diag θ.

    Examples
    --------
    >>> from genelin.eigen.subspace.ritz_basis import first_basis
    >>> from genelin.solvers import CG
    >>> pencil, cg = Pencil(np.diag([3.0, 2.0, 1.0]), np.diag([1.0, 2.0, 1.0])), CG()
    >>> start = first_basis(pencil, np.ones((3, 1)))
    >>> states = genelink(pencil, start, cg, cg.init(pencil.B), lambda t: 1e-4)
    >>> [round(float(next(states).basis.theta[0]), 3) for _ in range(4)]
    [2.5, 2.929, 2.992, 2.999]
    """
    for t in count(first):
        W, AW, theta = basis.W, basis.AW, basis.theta
        solution = solver.solve(factor, AW, W * theta, delta(t), residual=basis.residual)
        left = AW - pencil.B @ solution.value if solution.residual is None else solution.residual
        estimates = _estimates(basis, solution.value, left, delta(t))
        following = advance(pencil, basis, solution.value, left, t)
        yield IterationState(t, basis, solution, left, estimates, following)
        basis = following


def start_of_paper(
    pencil: Pencil, k: int, rng: np.random.Generator, scaled: bool | None = None
) -> Block:
    """W̃₀ with entries from N(0, 1), as in Algorithms 2 and 3.

    In units of B, its diagonal and its diagonal blocks, where `scaled`; None: only where squared
    units differ by more than `UNEVEN`, since random columns would not see small ones.

    Examples
    --------
    >>> even, uneven = Pencil(np.eye(2)), Pencil(np.eye(2), np.diag([1.0, 1e-6]))
    >>> bool(np.all(abs(start_of_paper(even, 1, np.random.default_rng(0))) < 1))
    True
    >>> bool(np.any(abs(start_of_paper(uneven, 1, np.random.default_rng(0))) > 100))
    True
    """
    if scaled is None:
        diagonal = pencil.B.diagonal()
        known = np.ones(1) if diagonal is None else diagonal[diagonal > 0]
        scaled = bool(known.max(initial=0.0) > UNEVEN * known.min(initial=np.inf))
    return start_block(pencil, k, rng) if scaled else rng.standard_normal((pencil.d, k))


def halves_projected(W: Block, cut: int, k: int, rng: np.random.Generator) -> tuple[Block, Block]:
    """The end of Algorithm 3, CCALin, after GenELinK on A = [0, S_xy; S_yx, 0], B = diag(S_x, S_y).

    ::

        (W_x; W_y) ← W, with 2k columns
        U ← a Gaussian matrix, 2k × k
        W_x ← GS_{S_x}(W_x U),  W_y ← GS_{S_y}(W_y U)

    GS is left to the caller, who takes canonical pairs between both spans at once.
    """
    U = rng.standard_normal((W.shape[1], k))
    return W[:cut] @ U, W[cut:] @ U


def _estimates(basis: RitzBasis, W: Block, left: Block, delta: float) -> Vector:
    """Of ‖Aw − θBw‖ in the B⁻¹-norm: the error of the start, ‖w̃ − θw‖_B / (1 − √δ) at most."""
    move = W - basis.W * basis.theta
    moved = np.maximum(column_dots(move, basis.residual - left), 0.0)
    return np.asarray(np.sqrt(moved) / (1.0 - np.sqrt(delta)))
