"""Two views with fewer rows than columns: products between rows instead of columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from genelin.eigen.davidson import Davidson
from genelin.eigen.dense import decomposed, top_singular, whitened_by
from genelin.eigen.iteration import Callback, Meter
from genelin.io.checkpoint import UNKEPT, Journal
from genelin.linalg import column_norms
from genelin.linalg.columns import EPS, Block, Vector
from genelin.operators import Gram
from genelin.operators.row_space import RowSpace
from genelin.problems import TwoView
from genelin.results import CCASolution

__all__ = ["FewRows"]


@dataclass(frozen=True)
class FewRows:
    """The SVD of whitened scores, (XT_x)ᵀ(YT_y)/n with T_xᵀS_xT_x = I and T_yᵀS_yT_y = I.

    Weights of a view with more columns than rows lie in the span of its rows, whatever the ridge:
    it has an orthonormal basis Q = ZᵀU w^{-½} from ZZᵀ = U diag(w) Uᵀ, Z the rows over √n, and
    QᵀS_xQ is diagonal. A view with fewer columns than rows is whitened as `Dense` does it. Costs
    O(n²d + n³), and n² numbers of memory. Should the rows span less than k dimensions, `Davidson`
    takes over.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import FewRows, top_k_cca
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((20, 500)), rng.standard_normal((20, 300))
    >>> few, many = (top_k_cca(X, Y, k=2, reg=1.0, method=m) for m in (FewRows(), None))
    >>> np.allclose(few.correlations, many.correlations)
    True
    """

    def __call__(
        self,
        problem: TwoView,
        k: int,
        tol: float = 1e-6,
        rng: np.random.Generator | int | None = 0,
        callback: Callback | None = None,
        journal: Journal = UNKEPT,
    ) -> CCASolution:
        """Solve `problem` for k canonical pairs; there is nothing to call back."""
        if not (problem.X.at_hand and problem.Y.at_hand):
            raise ValueError("FewRows needs X and Y in memory: use method=None or Davidson()")
        meter = Meter(problem.data_size)
        x, y = (_view(gram) for gram in (problem.S_x, problem.S_y))
        if k > min(x.scores.shape[1], y.scores.shape[1]):
            return Davidson()(problem, k, tol, rng, callback, journal)
        counter = meter.counter
        counter.passes += 6.0  # products or covariances, weights, scores, and three for residuals
        counter.flops += x.flops + y.flops + 2.0 * x.scores.size * y.scores.shape[1]
        U, sigma, V = top_singular(x.scores.T @ y.scores, k, counter)
        Phi, Psi, top = x.lift(U[:, :k]), y.lift(V[:, :k]), sigma[:k]
        scores = x.space.times(Phi), y.space.times(Psi)
        rests = x.rest(Phi, scores, top), y.rest(Psi, scores[::-1], top)
        return decomposed(problem, (sigma, Phi, Psi), rests, tol, meter)


def _view(gram: Gram) -> _View:
    return (_ByRows if gram.shape[0] > gram.rows.n else _ByColumns)(gram)


class _View(ABC):
    """A view in coordinates in which its covariance S = weight·ZᵀZ + reg·I is the identity.

    Attributes
    ----------
    space : Z, rows over √n.
    scores : (n, r) rows in those coordinates.
    flops : what that took.
    """

    scores: Block
    flops: float

    def __init__(self, gram: Gram) -> None:
        self.space, self._weight, self._reg = RowSpace(gram), gram.weight, gram.reg

    @abstractmethod
    def lift(self, P: Block) -> Block:
        """Weights of columns from whitened coordinates."""

    @abstractmethod
    def norms(self, R: Block) -> Vector:
        """Norms of columns in S⁻¹."""

    def rest(self, W: Block, scores: tuple[Block, Block], sigma: Vector) -> Vector:
        """What the cross-covariance times other weights differs by from σSW, in the norm of S⁻¹.

        `scores` are Z times the weights W, and those of the other view.
        """
        own, other = scores
        inner = other - own * (self._weight * sigma)
        return self.norms(self.space.transposed_times(inner) - W * (self._reg * sigma))


class _ByRows(_View):
    """In the span of the rows, where S = Q diag(w̃) Qᵀ with w̃ = weight·w + reg."""

    def __init__(self, gram: Gram) -> None:
        super().__init__(gram)
        n = gram.rows.n
        w, U = np.linalg.eigh(self.space.products())
        kept = w > n * EPS * max(w[-1], 0.0)
        self._w, self._U = w[kept], U[:, kept]
        self._whole = gram.weight * self._w + gram.reg
        self.scores = self._U * np.sqrt(self._w / self._whole)
        self.flops = 2.0 * n * gram.rows.stored + 10.0 * n**3

    def lift(self, P: Block) -> Block:
        """Weights of columns from whitened coordinates."""
        inner = P / np.sqrt(self._w * self._whole)[:, None]
        return self.space.transposed_times(self._U @ inner)

    def norms(self, R: Block) -> Vector:
        """Norms of columns in S⁻¹; outside the span of the rows S is reg·I, or nothing."""
        roots = np.sqrt(self._w)[:, None]
        inside = (self._U.T @ self.space.times(R)) / roots  # QᵀR
        outside = R - self.space.transposed_times(self._U @ (inside / roots))
        squares = column_norms(inside / np.sqrt(self._whole)[:, None]) ** 2
        if self._reg > 0:
            squares = squares + column_norms(outside) ** 2 / self._reg
        return np.asarray(np.sqrt(squares))


class _ByColumns(_View):
    """By the covariance of a view with fewer columns than rows."""

    def __init__(self, gram: Gram) -> None:
        super().__init__(gram)
        self._T = whitened_by(gram.formed().entries().dense())
        self.scores = self.space.times(self._T)
        self.flops = 4.0 * gram.rows.stored * gram.shape[0] + gram.shape[0] ** 3

    def lift(self, P: Block) -> Block:
        """Weights of columns from whitened coordinates."""
        return self._T @ P

    def norms(self, R: Block) -> Vector:
        """Norms of columns in S⁻¹."""
        return column_norms(self._T.T @ R)
