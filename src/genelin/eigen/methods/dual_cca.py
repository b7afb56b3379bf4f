"""Two views with fewer rows than columns: products between rows instead of columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, cast

import numpy as np

from genelin.eigen.costs.facts import Facts
from genelin.eigen.costs.formulas import singular_seconds
from genelin.eigen.costs.plan import Route
from genelin.eigen.methods.davidson import Davidson
from genelin.eigen.methods.dense import Dense, decomposed, top_singular
from genelin.eigen.run.checkpointer import NO_CHECKPOINT
from genelin.eigen.run.meter import Meter
from genelin.eigen.run.method import Method, Request
from genelin.eigen.subspace.whitening import whitened_by
from genelin.linalg import column_norms
from genelin.linalg.column_products import EPS, Block, Vector
from genelin.operators import Gram
from genelin.operators.row_gram import KEPT, RowSpace
from genelin.problems import SMALL, Pencil, TwoView
from genelin.results import CCASolution
from genelin.system.threads import blas_for

__all__ = ["FewRows"]

MANY_COLUMNS = 1.5  # columns to a row from which on rows are decomposed (benchmarks/plans.py)
INSTANT = 128  # columns up to which covariances are decomposed in no time


@dataclass(frozen=True)
class FewRows(Method):
    """The SVD of whitened scores, (XT_x)ᵀ(YT_y)/n with T_xᵀS_xT_x = I and T_yᵀS_yT_y = I.

    Weights of a view with more columns than rows lie in the span of its rows, whatever the ridge:
    it has an orthonormal basis Q = ZᵀU w^{-½} from ZZᵀ = U diag(w) Uᵀ, Z the rows over √n, and
    QᵀS_xQ is diagonal. A view with fewer columns than rows is whitened as `Dense` does it. Costs
    O(n²d + n³), and n² numbers of memory. Should the rows span less than k dimensions, or their
    products lose what matters beside a ridge (columns of very different sizes) or to the
    tolerance, `Dense` or `Davidson` takes over.

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

    solves: ClassVar = (TwoView,)
    certain: ClassVar = True

    def handles(self, problem: Pencil | TwoView, k: int) -> bool:
        """Where rows are in memory, fewer than columns and not much fewer than k."""
        if not isinstance(problem, TwoView) or problem.form is not None or not problem.in_memory:
            return False
        n = problem.X.n
        return max(problem.splits) >= max(MANY_COLUMNS * n, INSTANT) and 4 * k <= n

    def estimate(self, facts: Facts) -> list[Route]:
        """Products between rows, and their decomposition."""
        problem, profile, n = facts.problem, facts.profile, float(facts.problem.X.n)
        sizes, seconds = [min(float(d), n) for d in problem.splits], 0.0
        for rows, size in zip(problem.views, sizes, strict=True):
            product = profile.entry if rows.is_sparse else profile.multiply
            seconds += 2 * product * rows.stored * size + profile.decompose * size**3
        seconds += profile.multiply * n * sizes[0] * sizes[1]
        seconds += singular_seconds(min(sizes), facts.k, profile)
        dense = (rows.stored for rows in problem.views if not rows.is_sparse)
        copies = sum(stored for stored in dense if stored <= KEPT)
        memory = 8 * (4 * n * sum(sizes) + 2 * sizes[0] * sizes[1] + copies)
        memory += 32.0 * facts.k * sum(problem.splits)
        reason = f"products between {problem.X.n} rows instead of columns, and their decomposition"
        return [Route("few rows", seconds, 3.0, memory, reason, problem, self)]

    def solve(self, request: Request) -> CCASolution:
        """By products between rows; there is nothing to call back."""
        problem, k, tol = request.problem, request.k, request.tol
        if not (problem.X.in_memory and problem.Y.in_memory):
            raise ValueError("FewRows needs X and Y in memory: use method=None or Davidson()")
        meter = Meter(problem.data_size)
        x, y = (_view(gram) for gram in (problem.S_x, problem.S_y))
        further: Method = Dense() if max(problem.splits) <= SMALL else Davidson()
        request = replace(request, checkpoint=NO_CHECKPOINT)
        if k > min(x.scores.shape[1], y.scores.shape[1]) or max(x.blur, y.blur) > tol:
            return cast("CCASolution", further.solve(request))
        counter = meter.counter
        counter.passes += 3.0  # products or covariances, weights, scores
        counter.flops += x.flops + y.flops + 2.0 * x.scores.size * y.scores.shape[1]
        with blas_for(problem.X.n):
            P, sigma, Q = top_singular(x.scores.T @ y.scores, k, counter)
        left, right, top = x.lift(P[:, :k]), y.lift(Q[:, :k]), sigma[:k]
        rests = x.rest(left, right, top), y.rest(right, left, top)
        found = decomposed(problem, (sigma, left.weights, right.weights), rests, tol, meter)
        return found if found.converged else cast("CCASolution", further.solve(request))


def _view(gram: Gram) -> _View:
    return (_ByRows if gram.shape[0] > gram.rows.n else _ByColumns)(gram)


class _Lifted(NamedTuple):
    """Weights of the columns of a view, and what follows from them.

    Attributes
    ----------
    weights : (d, k) W.
    scores : ZW, from the data once more.
    coordinates : TᵀW for the whitening T.
    doubt : what rounding may have added to W outside the span of the rows, by columns.
    """

    weights: Block
    scores: Block
    coordinates: Block
    doubt: Vector


class _View(ABC):
    """A view through T, TᵀST = I, of its covariance S = weight·ZᵀZ + reg·I, Z the rows over √n.

    Attributes
    ----------
    scores : (n, r) ZT.
    flops : what that took.
    blur : error of TᵀST = I by rounding in the products that T comes from.
    lost : the norm in S⁻¹ of Zᵀu, for unit vectors u of scores that T leaves out.
    """

    scores: Block
    flops: float
    blur: float = 0.0
    lost: float = 0.0

    def __init__(self, gram: Gram) -> None:
        self._space, self._weight, self._reg = RowSpace(gram), gram.weight, gram.reg

    @abstractmethod
    def lift(self, P: Block) -> _Lifted:
        """Weights TP of the columns."""

    def rest(self, own: _Lifted, other: _Lifted, sigma: Vector) -> Vector:
        """The norm in S⁻¹ of Zᵀ(other scores) − σSW: its part in the range of T, and the rest."""
        apart = other.scores - own.scores * (self._weight * sigma)
        inner = self.scores.T @ apart - own.coordinates * (self._reg * sigma)
        outer = sigma * self._reg**0.5 * own.doubt + self.lost * self._left_out(apart)
        return np.asarray(np.hypot(column_norms(inner), outer))

    def _left_out(self, scores: Block) -> Vector:
        """Lengths of scores outside those that T has."""
        return np.zeros(scores.shape[1])


class _ByRows(_View):
    """T = ZᵀU(w·w̃)^{-½} for ZZᵀ = U diag(w) Uᵀ and w̃ = weight·w + reg; S is reg·I elsewhere."""

    def __init__(self, gram: Gram) -> None:
        super().__init__(gram)
        n = gram.rows.n
        products = self._space.products()
        with blas_for(n):
            w, U = np.linalg.eigh(products)
        noise = n * EPS * max(w[-1], 0.0)
        kept = w > noise
        dropped = column_norms(self._space.transposed_times(U[:, ~kept])) ** 2
        w, self._U, self._dropped = w[kept], U[:, kept], U[:, ~kept]
        whole = gram.weight * w + gram.reg
        if gram.reg > 0:
            self.lost = float(np.sqrt(dropped / (dropped + gram.reg)).max(initial=0.0))
            self.blur = max(float(noise / whole.min(initial=np.inf)), self.lost)
        self._size = float(np.sqrt(w.sum()))
        self._roots = (np.sqrt(w) * np.sqrt(whole))[:, None]
        self.scores = self._U * np.sqrt(w / whole)
        self.flops = 2.0 * n * gram.rows.stored + 10.0 * n**3

    def _left_out(self, scores: Block) -> Vector:
        return column_norms(self._dropped.T @ scores)

    def lift(self, P: Block) -> _Lifted:
        """Weights TP = ZᵀC of the columns; sums over n rows are off by n·eps·‖Z‖·‖c‖ at most.

        They are made orthonormal in S once more: products tell small w only to n·eps·w₁.
        """
        C = self._U @ (P / self._roots)
        W = self._space.transposed_times(C)
        scores = self._space.times(W)
        gram = self._weight * scores.T @ scores + self._reg * W.T @ W
        squares, R = np.linalg.eigh(gram)
        turn = (R / np.sqrt(np.maximum(squares, EPS))) @ R.T
        C, W, scores = C @ turn, W @ turn, scores @ turn
        doubt = len(C) * EPS * self._size * column_norms(C)
        return _Lifted(W, scores, self.scores.T @ C, doubt)


class _ByColumns(_View):
    """T from the covariance of a view with fewer columns than rows."""

    def __init__(self, gram: Gram) -> None:
        super().__init__(gram)
        self._T = whitened_by(gram.formed().entries().dense())
        self.scores = self._space.times(self._T)
        self.flops = 4.0 * gram.rows.stored * gram.shape[0] + gram.shape[0] ** 3

    def lift(self, P: Block) -> _Lifted:
        """Weights TP of the columns."""
        W = self._T @ P
        return _Lifted(W, self._space.times(W), self._T.T @ W, np.zeros(P.shape[1]))
