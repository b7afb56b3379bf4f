"""One-shot baselines: an SVD or two in place of whitening, or a random projection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh, qr, svd
from scipy.sparse.linalg import LinearOperator, eigsh, svds

from genelin.baselines.common import Baseline, Covariances
from genelin.eigen.run.method import Request
from genelin.linalg.column_products import Block, Vector
from genelin.operators import Operator
from genelin.results import CCASolution
from genelin.validation import check_count, settle

__all__ = ["DWCCA", "NWCCA", "PCACCA", "RandomizedCCA"]

Rng = np.random.Generator | int | None
LANCZOS_TOL = 1e-8  # relative, of ARPACK
SMALL = 64  # columns up to which a dense decomposition is the simplest


@dataclass(frozen=True)
class NWCCA(Baseline):
    """Non-whitening CCA: spans of the top-k singular vectors of S_xy itself (Witten et al. 2009).

    Witten, Tibshirani and Hastie put the identity in place of S_x and S_y; with `scale=True` of
    `top_k_cca` columns have unit variance, as they assume. Within the two spans the canonical pairs
    are returned; the paper's TCC depends on the spans alone.

    The status is `ONE_SHOT`, with a `ConvergenceWarning`, unless the pairs happen to be exact. The
    trace has one record, the cost of the method without that of its certificate.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from genelin import top_k_cca
    >>> from genelin.baselines import NWCCA
    >>> X = np.diag([3.0, 1.0, 1.0, 1.0])
    >>> Y = np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     pairs = top_k_cca(X, Y, k=1, center=False, reg=0.1, method=NWCCA())
    >>> pairs.status.label
    'one-shot estimate'
    """

    def solve(self, request: Request) -> CCASolution:
        """By the SVD of the cross-covariance."""
        k, rng = request.k, request.rng
        covariances = Covariances(request)
        U, V = _top_singular(covariances, covariances.S_xy, k, rng)
        return covariances.one_shot(covariances.pairs(U, V, k))


@dataclass(frozen=True)
class DWCCA(Baseline):
    """Diagonal whitening: the SVD of D_x^{-½}S_xyD_y^{-½}, D the diagonal of S (Lu & Foster 2014).

    Exact where both covariances are diagonal, as for indicators. Otherwise as `NWCCA`.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import top_k_cca
    >>> from genelin.baselines import DWCCA
    >>> X = np.eye(4)[[0, 0, 1, 1, 2, 3]]
    >>> Y = np.eye(4)[[0, 0, 1, 2, 2, 3]]
    >>> pairs = top_k_cca(X, Y, k=1, reg=1e-2, center=False, method=DWCCA())
    >>> pairs.converged, pairs.correlations.round(4).tolist()
    (True, [0.9709])
    """

    def solve(self, request: Request) -> CCASolution:
        """By the SVD of a sparse matrix."""
        problem, k, rng = request.problem, request.k, request.rng
        covariances = Covariances(request)
        x_root, y_root = (_inverse_root(S.diagonal()) for S in (problem.S_x, problem.S_y))
        U, V = _top_singular(covariances, covariances.S_xy, k, rng, x_root, y_root)
        pairs = covariances.pairs(x_root[:, None] * U, y_root[:, None] * V, k)
        return covariances.one_shot(pairs)


@dataclass(frozen=True)
class PCACCA(Baseline):
    """CCA between the leading principal components of both views (as in Ma, Lu & Foster 2015).

    Otherwise as `NWCCA`.

    Parameters
    ----------
    components : of each view; None takes 10·k, or all if there are fewer.

    Examples
    --------
    >>> from genelin import top_k_cca
    >>> from genelin.baselines import PCACCA
    >>> from genelin.datasets import two_view_gaussian
    >>> X, Y = two_view_gaussian(2000, d=8)
    >>> top_k_cca(X, Y, k=2, method=PCACCA(components=8)).converged  # all of them: exact
    True
    """

    components: int | None = None

    def __post_init__(self) -> None:
        settle(self, check_count, "components", optional=True)

    def solve(self, request: Request) -> CCASolution:
        """By an SVD between principal components."""
        k, rng = request.k, request.rng
        covariances = Covariances(request)
        wanted = 10 * k if self.components is None else self.components
        if wanted < k:
            raise ValueError(f"components={wanted} must be at least k={k}")
        P, Q = (_top_eigen(covariances, S, wanted, rng) for S in (covariances.S_x, covariances.S_y))
        return covariances.one_shot(covariances.pairs(P, Q, k))


@dataclass(frozen=True)
class RandomizedCCA(Baseline):
    """CCA on the range of S_xy, found by a random projection (Mineiro & Karampatziakis 2014).

    Q_x and Q_y are bases of S_xyΩ and S_yxΩ after `power` passes; CCA is exact within them. Their
    last pass is two here: one through S_x and S_y, one through S_xy. Otherwise as `NWCCA`.

    Parameters
    ----------
    oversample : columns beyond k, as many as fit.
    power : passes over the data before the last, 1 at least.

    Examples
    --------
    >>> from genelin import top_k_cca
    >>> from genelin.baselines import RandomizedCCA
    >>> from genelin.datasets import two_view_gaussian
    >>> X, Y = two_view_gaussian(2000, d=8)
    >>> top_k_cca(X, Y, k=2, method=RandomizedCCA(oversample=6)).converged  # the whole space
    True
    """

    oversample: int = 100
    power: int = 1

    def __post_init__(self) -> None:
        settle(self, check_count, "power")
        settle(self, check_count, "oversample", least=0)

    def solve(self, request: Request) -> CCASolution:
        """By a random projection."""
        problem, k, rng = request.problem, request.k, request.rng
        covariances = Covariances(request)
        m = min(k + self.oversample, *problem.splits)
        Q = rng.standard_normal((covariances.d, m))
        for _ in range(self.power):
            parts = covariances.halves(covariances.pencil.A @ Q)
            Q = np.vstack([qr(part, mode="economic")[0] for part in parts])
            covariances.count_dense(4.0 * Q.size * m)
        return covariances.one_shot(covariances.pairs(*covariances.halves(Q), k))


def _inverse_root(diagonal: Vector) -> Vector:
    """D^{-½}, zero where D is."""
    roots: Vector = np.zeros_like(diagonal)
    np.divide(1.0, np.sqrt(diagonal), out=roots, where=diagonal > 0)
    return roots


def _top_singular(
    covariances: Covariances,
    cross: Operator,
    k: int,
    rng: np.random.Generator,
    left: Vector | None = None,
    right: Vector | None = None,
) -> tuple[Block, Block]:
    """Top-k singular vectors of diag(left)·C·diag(right): by Lanczos, or a dense SVD if small."""

    def times(factors: Vector | None, V: Any) -> Any:
        return V if factors is None else (factors * V.T).T

    rows, columns = cross.shape
    if 4 * k >= min(rows, columns) or max(rows, columns) <= SMALL:
        dense = times(left, cross @ np.diag(np.ones(columns) if right is None else right))
        U, _, Vt = svd(dense, full_matrices=False)
        covariances.count_dense(14.0 * rows * columns * min(rows, columns))
        return U[:, :k], Vt[:k].T
    operator = LinearOperator(
        cross.shape,
        matvec=lambda v: times(left, cross @ times(right, np.ravel(v))),
        rmatvec=lambda v: times(right, cross.T @ times(left, np.ravel(v))),
        dtype=np.float64,
    )
    before = covariances.meter.counter.applications
    start = rng.standard_normal(min(rows, columns))
    U, sigma, Vt = svds(operator, k, tol=LANCZOS_TOL, v0=start, ncv=_basis(k, len(start)))
    _count_lanczos(covariances, before, _basis(k, len(start)), len(start))
    falling = np.argsort(-sigma)
    return U[:, falling], Vt[falling].T


def _top_eigen(
    covariances: Covariances, S: Operator, wanted: int, rng: np.random.Generator
) -> Block:
    """Leading eigenvectors of S; all of them, the identity, if that many are wanted."""
    d = S.shape[0]
    if wanted >= d:
        return np.eye(d)
    if 4 * wanted >= d or d <= SMALL:
        covariances.count_dense(9.0 * d**3)
        return np.asarray(eigh(S @ np.eye(d))[1][:, ::-1][:, :wanted])
    operator = LinearOperator(S.shape, matvec=lambda v: S @ np.ravel(v), dtype=np.float64)
    before, size = covariances.meter.counter.applications, _basis(wanted, d)
    start = rng.standard_normal(d)
    _, V = eigsh(operator, wanted, which="LA", tol=LANCZOS_TOL, v0=start, ncv=size)
    _count_lanczos(covariances, before, size, d)
    vectors: Block = V[:, ::-1]
    return vectors


def _basis(k: int, d: int) -> int:
    """ARPACK's basis for k vectors."""
    return min(max(2 * k + 1, 20), d - 1)


def _count_lanczos(covariances: Covariances, before: int, basis: int, d: int) -> None:
    """4·d flops a vector of the basis and step, to keep it orthogonal."""
    covariances.count_dense(4.0 * d * basis * (covariances.meter.counter.applications - before))
