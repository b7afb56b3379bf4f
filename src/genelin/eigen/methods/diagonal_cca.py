"""Two views whose covariances are diagonal: the SVD of one sparse matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, svds

from genelin.eigen.costs.facts import Facts
from genelin.eigen.costs.plan import Route
from genelin.eigen.methods.davidson import Davidson
from genelin.eigen.methods.dense import sine_bound, status_of
from genelin.eigen.run.canonical_pairs import canonical_solution
from genelin.eigen.run.meter import Meter
from genelin.eigen.run.method import Method, Request
from genelin.linalg import column_norms
from genelin.linalg.column_products import Vector
from genelin.operators import Counter
from genelin.problems import Pencil, TwoView, is_diagonal
from genelin.results import CCASolution
from genelin.system.threads import one_blas_thread

__all__ = ["WhitenedSVD"]

PRODUCTS = 20  # of Lanczos, for every pair (benchmarks/plans.py)


@dataclass(frozen=True)
class WhitenedSVD(Method):
    """Lanczos bidiagonalisation (ARPACK) of S_x^{-½} S_xy S_y^{-½} for diagonal S_x and S_y.

    That is the case of indicators, at most one nonzero in a row of X and of Y, not centred. Where
    ARPACK gives up, `Davidson` takes over.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from genelin import top_k_cca
    >>> X = sparse.csr_array(np.eye(3)[[0, 0, 1, 2, 1, 2]])
    >>> Y = sparse.csr_array(np.eye(3)[[0, 0, 1, 2, 2, 1]])
    >>> top_k_cca(X, Y, k=1, center=False, method=WhitenedSVD()).correlations.round(6).tolist()
    [1.0]
    """

    solves: ClassVar = (TwoView,)
    certain: ClassVar = True

    def handles(self, problem: Pencil | TwoView, k: int) -> bool:
        """Whether both covariances are diagonal."""
        return isinstance(problem, TwoView) and is_diagonal(problem)

    def estimate(self, facts: Facts) -> list[Route]:
        """The cross-covariance, and its products."""
        problem, k, profile = facts.problem, facts.k, facts.profile
        entries, columns = float(min(rows.stored for rows in problem.views)), PRODUCTS * (k + 1)
        seconds = (profile.form + 2 * columns * 4 * profile.entry) * entries
        seconds += 4 * columns * (2 * k + 1) * sum(problem.splits) * profile.multiply
        memory = 16 * entries + 8.0 * sum(problem.splits) * (4 * k + 20)
        reason = "covariances are diagonal: Lanczos on the whitened cross-covariance"
        return [Route("diagonal", seconds, 1.0, memory, reason, problem, self)]

    def solve(self, request: Request) -> CCASolution:
        """By Lanczos bidiagonalisation; there is nothing to call back."""
        problem, k, tol, rng = request.problem, request.k, request.tol, request.rng
        if not is_diagonal(problem):
            raise ValueError(
                "WhitenedSVD needs rows of X and Y with at most one nonzero each, and "
                "center=False: use method=None or Davidson()"
            )
        meter, (x_root, y_root) = Meter(problem.data_size, problem.setup), _roots(problem)
        scaled = problem.S_xy.scaled(x_root, y_root)
        smaller = min(scaled.shape)
        if k + 1 >= smaller:
            return cast("CCASolution", Davidson().solve(request))
        try:
            counted = _counted(scaled, meter.counter, min(max(2 * k + 3, 20), smaller - 1))
            with one_blas_thread():  # many would wait for each other on such short vectors
                U, sigma, Vt = svds(counted, k + 1, v0=rng.standard_normal(smaller))
        except ArpackError:
            return cast("CCASolution", Davidson().solve(request))
        falling = np.argsort(-sigma)
        U, sigma, V = U[:, falling], sigma[falling], Vt[falling].T
        (U, V), top = (U[:, :k], V[:, :k]), sigma[:k]
        parts = scaled @ V - U * top, scaled.T @ U - V * top
        residuals = np.sqrt(sum(column_norms(part) ** 2 for part in parts) / 2)
        gap = float(top[-1] - sigma[k])
        bound = sine_bound(np.concatenate([residuals] * 2), gap, float(top[0]))
        status = status_of(residuals, gap, tol, float(top[0]))
        pairs = (top, x_root[:, None] * U, y_root[:, None] * V)
        return canonical_solution(problem, pairs, residuals, bound, status, meter)


def _counted(M: Any, counter: Counter, basis: int) -> LinearOperator:
    """M with its products on the meter, 4·d flops a vector of Lanczos' basis added to each."""
    flops, transposed = 2.0 * M.nnz + 4.0 * min(M.shape) * basis, M.T.tocsr()

    def product(matrix: Any, v: Any) -> Any:
        counter.applications += 1
        counter.flops += flops
        return matrix @ np.ravel(v)

    return LinearOperator(
        M.shape,
        matvec=lambda v: product(M, v),
        rmatvec=lambda v: product(transposed, v),
        dtype=M.dtype,
    )


def _roots(problem: TwoView) -> tuple[Vector, Vector]:
    """S_x^{-½} and S_y^{-½}; columns that are all zero have no part."""
    x, y = (
        np.divide(1.0, np.sqrt(S), out=np.zeros_like(S), where=S > 0)
        for S in (problem.S_x.diagonal(), problem.S_y.diagonal())
    )
    return x, y
