"""The randomized Nyström preconditioner of Frangella, Tropp and Udell (2023)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular, svd

from genelin.errors import not_positive_definite
from genelin.linalg.column_products import EPS, Block, Vector
from genelin.linalg.tall_skinny import subtract_product, tall_dot
from genelin.operators import Operator
from genelin.solvers.preconditioners.jacobi import SLACK, Factors, Prepared
from genelin.validation import check_count, generator, settle

__all__ = ["Nystrom"]

SPREAD = 1e-9  # part of the largest eigenvalue below which a direction of the sketch is dropped:
# M⁻¹ is computed as a difference, whose rounding would reach its own smallest eigenvalue


@dataclass(frozen=True)
class Nystrom:
    """The leading part of B from `rank` products: M = √D(U(Λ + μ)Uᵀ + (λ + μ)(I − UUᵀ))√D.

    D is the diagonal of B (I where B does not give it), UΛUᵀ the randomized Nyström approximation
    of S − μI with S = D^(−1/2) B D^(−1/2), λ its last eigenvalue, and μ what is known of the
    smallest one of S, from a ridge. Needs products only; pays where the spectrum of S falls fast.

    Parameters
    ----------
    rank : columns of the sketch, to each of which B is applied once.
    rng : seed of the sketch, or a generator.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import solvers
    >>> rng = np.random.default_rng(0)
    >>> Q = np.linalg.qr(rng.standard_normal((200, 200)))[0]
    >>> B, b = (Q * np.arange(1.0, 201) ** -2) @ Q.T, rng.standard_normal(200)
    >>> for preconditioner in (solvers.Jacobi(), solvers.Nystrom(rank=100)):
    ...     cg = solvers.CG(preconditioner=preconditioner)
    ...     print(cg.solve(cg.init(B), b, np.zeros(200), reduction=1e-8).iterations < 60)
    False
    True
    """

    rank: int = 100
    rng: np.random.Generator | int = 0

    def __post_init__(self) -> None:
        settle(self, check_count, "rank")
        generator(self.rng)

    def prepare(self, operator: Operator) -> Prepared:
        """Sketch B."""
        d = operator.shape[0]
        diagonal = operator.diagonal()
        diagonal = np.ones(d) if diagonal is None else diagonal
        safe = np.where(diagonal > 0, diagonal, 1.0)
        scale = 1.0 / np.sqrt(safe)
        mu = operator.lambda_min_bound / float(safe.max())
        U, weights = self._sketched(operator, scale, mu)
        kept = weights > SPREAD * weights.max(initial=0.0)
        U, weights = U[:, kept], weights[kept] + mu
        rest = float(weights[-1]) if len(weights) else (mu or 1.0)
        W = scale[:, None] * U
        spread = float(weights[0]) / rest if len(weights) else 1.0
        plain = Factors((scale**2 / rest)[:, None], spread)
        low, weighted = Factors(W, spread), Factors(W * (1 / rest - 1 / weights), spread)

        def apply(R: Block) -> Block:
            Z = np.asarray(R * plain.like(R))
            subtract_product(Z, weighted.like(R), tall_dot(low.like(R), R))
            return Z.astype(R.dtype, copy=False)

        return Prepared(apply, (1 + SLACK) * _largest(U, weights, rest, safe))

    def _sketched(self, operator: Operator, scale: Vector, mu: float) -> tuple[Block, Vector]:
        """U and Λ, in descending order, of the Nyström approximation of S − μI."""
        d = operator.shape[0]
        rng = generator(self.rng)
        Omega, _ = np.linalg.qr(rng.standard_normal((d, min(self.rank, d))))
        Y = scale[:, None] * (operator @ (scale[:, None] * Omega)) - mu * Omega
        size = float(np.linalg.norm(Y))
        if size == 0:
            return Omega[:, :0], np.empty(0)
        shift = np.sqrt(d) * EPS * size
        while True:  # the shift keeps the small matrix positive definite, and is taken off again
            try:
                core = Omega.T @ Y
                C = cholesky((core + core.T) / 2 + shift * np.eye(len(core)), lower=False)
                break
            except LinAlgError:
                shift *= 10
            if shift > np.sqrt(EPS) * size:
                lowest = float(np.linalg.eigvalsh((core + core.T) / 2)[0])
                raise not_positive_definite(f"a direction with wᵀBw = {lowest:.3g} < 0 was met")
        F = solve_triangular(C, (Y + shift * Omega).T, trans="T", lower=False).T
        U, sigma, _ = svd(F, full_matrices=False, check_finite=False)
        return U, np.maximum(sigma**2 - shift, 0.0)


def _largest(U: Block, weights: Vector, rest: float, D: Vector) -> float:
    """A bound on λ_max of √D(U·weights·Uᵀ + rest·(I − UUᵀ))√D = rest·D + √D·U(weights − rest)Uᵀ√D.

    The second term has rank as U: its norm is that of a small matrix.
    """
    top = float(D.max())
    if not len(weights):
        return rest * top
    V = np.sqrt(D)[:, None] * U * np.sqrt(np.maximum(weights - rest, 0.0))
    low_rank = float(np.linalg.norm(tall_dot(V, V), 2))
    return min(top * float(weights.max()), rest * top + low_rank)
