"""GenELin (Algorithm 1): the top generalized eigenvector through a linear solver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genelin.eigen.paper.genelink import GenELinK
from genelin.eigen.run.method import Request
from genelin.linalg.column_products import Block
from genelin.problems import Pencil
from genelin.results import EigenSolution

__all__ = ["GenELin"]


@dataclass(frozen=True)
class GenELin(GenELinK):
    """w ← B⁻¹Aw / ‖B⁻¹Aw‖_B from the start βw, β = wᵀAw / wᵀBw (Algorithm 1).

    It is GenELinK with k = 1 and a start from the unit sphere.

    Parameters
    ----------
    solver, reduction, iterations, max_iter, locally_optimal, batch, scaled_start : see `Iteration`.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import GenELin, solvers, top_k
    >>> A, B = np.diag([6.0, -8.0, 1.0]), np.diag([1.0, 2.0, 1.0])
    >>> top_k(A, B, k=1, method=GenELin(solver=solvers.CG())).values.round(6).tolist()
    [6.0]
    """

    def solve(self, request: Request) -> EigenSolution:
        """By power iteration."""
        if request.k != 1:
            raise ValueError(
                f"GenELin finds one eigenvector, got k={request.k}: use GenELinK for more"
            )
        return super().solve(request)

    def _start(self, pencil: Pencil, k: int, rng: np.random.Generator) -> Block:
        """w̃₀ uniform on the unit sphere, unless `scaled_start` puts it in the units of B."""
        w = super()._start(pencil, k, rng)
        return w / np.linalg.norm(w)
