"""Canonical pairs out of the block pair, their signs, and the solution made of them."""

from __future__ import annotations

import numpy as np

from genelin.eigen.run.meter import Meter
from genelin.eigen.run.outcome import Outcome
from genelin.eigen.subspace.ritz_basis import Products, RitzBasis
from genelin.linalg import column_dots
from genelin.linalg.column_products import Block, Vector
from genelin.linalg.tall_skinny import by_rows
from genelin.problems import Pencil, TwoView
from genelin.results import CCASolution, Status, Trace

__all__ = ["canonical_solution", "fix_signs", "halves", "mirrored"]


def fix_signs(W: Block) -> Block:
    """Make the entry of largest magnitude positive in every column, the first of several."""
    highest, lowest = W.max(axis=0), W.min(axis=0)
    signs = np.where(highest >= -lowest, 1.0, -1.0)
    for column in np.flatnonzero((highest == -lowest) & (highest > 0)):
        signs[column] = np.sign(W[np.abs(W[:, column]).argmax(), column])
    signed: Block = np.empty(W.shape)  # of its own, since it stays

    def piece(rows: slice) -> None:
        np.multiply(W[rows], signs, out=signed[rows])

    by_rows(piece, len(W), W.size)
    return signed


def mirrored(pencil: Pencil, pairs: RitzBasis) -> RitzBasis:
    """Pairs (φ; ψ)/√2 with values σ, followed by (−φ; ψ)/√2 with values −σ."""
    flip = np.ones((pencil.d, 1))
    flip[: pencil.B.diagonal_blocks[0].shape[0]] = -1.0
    parts = pairs.products
    image = Products(flip * parts.V, -flip * parts.AV, flip * parts.BV)
    return RitzBasis(parts.beside(image), np.concatenate([pairs.theta, -pairs.theta]))


def halves(pencil: Pencil, W: Block) -> tuple[Block, Block]:
    """Weights φ and ψ from vectors (φ; ψ)/√2."""
    Phi, Psi = np.split(np.sqrt(2.0) * W, [pencil.B.diagonal_blocks[0].shape[0]])
    return Phi, Psi


def canonical_solution(
    problem: TwoView,
    pairs: tuple[Vector, Block, Block],
    residuals: Vector,
    bound: float,
    status: Status,
    meter: Meter,
    outcome: Outcome | None = None,
    gap_certified: bool = False,
) -> CCASolution:
    """Signs, and the plain correlations of the scores: those of S, without the ridge."""
    sigma, Phi, Psi = pairs
    signed = fix_signs(Phi)
    Psi = Psi * np.where(column_dots(signed, Phi) < 0, -1.0, 1.0)
    x_var, y_var = problem.score_variances(Phi, Psi)
    spread = np.sqrt(x_var * y_var)
    scores = np.divide(sigma, spread, out=np.zeros_like(sigma), where=spread > 0)
    return CCASolution(
        residuals=residuals,
        sin_theta_bound=bound,
        status=status,
        cost=meter.cost(),
        trace=outcome.trace if outcome is not None else Trace(),
        correlations=np.minimum(sigma, 1.0) if problem.weights == (1.0, 1.0) else sigma,
        x_weights=signed,
        y_weights=Psi,
        score_correlations=np.minimum(scores, 1.0),
        gap_certified=gap_certified,
    )
