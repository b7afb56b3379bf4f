"""The dense reference: one factorisation, exact up to rounding, for d that fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import lapack, svd

from genelin.eigen.costs.facts import Facts
from genelin.eigen.costs.formulas import decomposing, forming, has_few
from genelin.eigen.costs.plan import Route
from genelin.eigen.run.canonical_pairs import canonical_solution, fix_signs
from genelin.eigen.run.meter import Meter
from genelin.eigen.run.method import Method, Request
from genelin.eigen.subspace.ritz_basis import ROUNDING
from genelin.eigen.subspace.whitening import (
    ByDiagonal,
    ByFactor,
    Plain,
    Whitening,
    by_diagonal,
    by_factor,
    whitening_of,
)
from genelin.errors import not_positive_definite, too_many_pairs
from genelin.linalg import (
    ScaledFactor,
    column_norms,
    leading_pairs,
    magnitudes,
    range_basis,
    scaled_factor,
)
from genelin.linalg.block_products import magnitudes_times, times
from genelin.linalg.column_products import EPS, Block, Vector
from genelin.linalg.diagonal_scaling import column_sums, scaled_by
from genelin.operators import Counter, Entries, Operator
from genelin.problems import Pencil, TwoView
from genelin.results import CCASolution, EigenSolution, Status, Trace
from genelin.system.threads import blas_for

# What a dense solution counts for beside sparse views, on which iterations are often shorter than
# predicted; with hardly more dense rows than columns, most correlations are close to one, and they
# are not.
CAUTION = 2.6
UNITS = 4  # of rounding in a sum, relative to the sum of the magnitudes of its terms

__all__ = ["CAUTION", "Dense", "OrDense", "decomposed", "sine_bound", "status_of", "top_singular"]


@dataclass(frozen=True)
class Dense(Method):
    """Eigenvectors of L⁻¹AL⁻ᵀ, B = LLᵀ; for two views the SVD of L_x⁻¹ S_xy L_y⁻ᵀ.

    Costs O(d³) and d² numbers of memory. A singular covariance of data is whitened on its range.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import Dense, top_k
    >>> top_k(np.diag([1.0, -3.0, 2.0]), k=1, method=Dense()).values.tolist()
    [-3.0]
    """

    certain: ClassVar = True

    def estimate(self, facts: Facts) -> list[Route]:
        """A product, a decomposition."""
        views = isinstance(facts.problem, TwoView)
        return [_views_route(facts) if views else _pencil_route(facts)]

    def solve(self, request: Request) -> EigenSolution | CCASolution:
        """By a decomposition: nothing is random, and there is nothing to call back."""
        problem, k, tol = request.problem, request.k, request.tol
        d = max(problem.splits) if isinstance(problem, TwoView) else problem.d
        with blas_for(d):
            if isinstance(problem, TwoView):
                return _dense_cca(problem, k, tol)
            return _dense_pencil(problem, k, tol)


@dataclass(frozen=True)
class OrDense(Method):
    """An iteration with a budget, and the dense solution once that is spent.

    An iteration that has taken as long as a dense solution without an answer has at most doubled
    the cost, if both were predicted well. One that ends at the floor of rounding is as good as the
    dense solution of two views.

    Attributes
    ----------
    first : the iteration.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import Davidson, top_k
    >>> A = np.diag(np.linspace(1.0, 2.0, 400))
    >>> top_k(A, k=1, method=OrDense(Davidson(max_applications=20))).values.tolist()
    [2.0]
    """

    first: Method

    def with_settings(self, settings: Mapping[str, Any]) -> Method:
        """The iteration with these settings: alone, where they say how long to go on."""
        first = self.first.with_settings(settings)
        return first if "max_iter" in settings else OrDense(first)

    def piloted(self, route: Route, facts: Facts, tol: float) -> Route:
        """As the iteration, with the decomposition at most as long behind it."""
        begun, dense = self.first.piloted(route, facts, tol), Dense().estimate(facts)[0]
        limited: Route = replace(begun, seconds=min(begun.seconds, 2 * dense.seconds))
        return limited

    @property
    def iteration(self) -> Method:
        """The method that begins."""
        return self.first

    def solve(self, request: Request) -> Any:
        """By the iteration, then by the decomposition if need be."""
        limited = self.first.solve(request)
        views = isinstance(request.problem, TwoView)
        ends = (Status.STOPPED, Status.STAGNATED) if views else (Status.STOPPED,)
        if limited.converged or limited.status in ends:
            return limited
        dense = Dense().solve(request)
        return replace(dense, cost=limited.cost + dense.cost, trace=limited.trace)


def _pencil_route(facts: Facts) -> Route:
    problem, profile, d = facts.problem, facts.profile, float(facts.problem.d)
    reason = "a factorisation of B, and a reduction to tridiagonal form"
    column = 0.0 if facts.is_explicit else facts.column_seconds
    seconds = (profile.reduce + profile.multiply) * d**3 + d * column
    if 4 * facts.k > problem.d:
        seconds, reason = seconds + profile.decompose * d**3, f"{reason} with all their vectors"
    if not facts.is_explicit:
        reason = f"A and B multiplied out, then {reason}"
    passes = 1.0 if facts.is_explicit else d
    return Route("dense", seconds, passes, 40 * d**2, reason, problem, Dense())


def _views_route(facts: Facts) -> Route:
    problem, profile = facts.problem, facts.profile
    dx, dy = (float(d) for d in problem.splits)
    seconds = forming(problem, profile) + decomposing(dx, dy, facts.k, profile)
    seconds *= CAUTION if problem.is_sparse else 1.0
    reason = "covariances in one pass, their factors, and one decomposition"
    memory = 24 * (dx**2 + dy**2 + dx * dy)
    return Route("dense", seconds, 1.0, memory, reason, problem, Dense())


def _dense_pencil(problem: Pencil, k: int, tol: float) -> EigenSolution:
    meter = Meter(problem.data_size)
    metered, rooted = meter.metered(problem), by_diagonal(problem.B)
    A, B = _entries(metered.A), problem.B if rooted is not None else _entries(metered.B)
    white = _factored(B, problem.B) if rooted is None else rooted
    M = _scaled(A, white)
    size = float(column_sums(M.T).max())
    if isinstance(white, ByFactor):  # the lower triangle of L⁻¹AL⁻ᵀ
        size /= white.condition * white.norm
        M = lapack.dsygst(M, white.L, lower=1, overwrite_a=1)[0]
    values, U = leading_pairs(M, k, problem.which)
    meter.counter.flops += (11.0 if 4 * k > problem.d else 4.0) * problem.d**3
    top, sizes = values[:k], magnitudes(values, problem.which)
    W = white.lifted(U)
    found = column_norms(white.whitened(times(A, W) - _product(B, W) * top))
    noise = magnitudes_times(A, np.abs(W)) + _magnitudes(B, W) * np.abs(top)
    largest, doubt = float(np.abs(values[: k + 1]).max()), UNITS * EPS / white.condition
    residuals = (found + UNITS * EPS * white.hidden(noise)) * (1 + min(2 * doubt, 1.0))
    gap = float(sizes[k - 1] - sizes[k]) if k < problem.d else np.inf
    gap -= UNITS * EPS * size + doubt * largest
    return EigenSolution(
        residuals=residuals,
        sin_theta_bound=sine_bound(residuals, gap, float(np.abs(top).max())),
        status=status_of(residuals, gap, tol, float(np.abs(top).max())),
        cost=meter.cost(),
        trace=Trace(),
        values=top,
        vectors=fix_signs(W),
        gap_certified=gap > 0,
    )


def _scaled(A: Block, white: Plain | ByDiagonal | ByFactor) -> Block:
    """DAD for the scale of B, not A itself; columns lie together, as LAPACK has them."""
    return (np.array(A) if isinstance(white, Plain) else scaled_by(A, white.scale)).T


def _factored(B: Block, operator: Operator) -> ByFactor:
    """T by the factor of B that its operator has, or by one of its own."""
    known = operator.factor()
    white = by_factor(known if isinstance(known, ScaledFactor) else scaled_factor(B))
    if white is None:
        rank = range_basis(B)[0].shape[1]
        raise not_positive_definite(f"its numerical rank is {rank} of {len(B)}")
    return white


def _dense_cca(problem: TwoView, k: int, tol: float) -> CCASolution:
    meter = Meter(problem.data_size)
    grams, cross = (problem.S_x.formed(), problem.S_y.formed()), problem.S_xy.formed()
    (S_x, S_y), S_xy = (gram.entries().dense() for gram in grams), cross.dense()
    meter.counter.passes += 2.0  # the covariances and the cross-covariance
    meter.counter.flops += sum(part.setup_flops for part in (*grams, cross))
    x, y = whitening_of(S_x), whitening_of(S_y)
    (d1, d2), counter = S_xy.shape, meter.counter
    counter.flops += (d1**3 + d2**3) / 3 + d1 * d2 * (d1 + d2)  # whitening
    U, sigma, V = top_singular(x.whitened(y.whitened(S_xy.T).T), k, counter)
    if len(sigma) < k:
        raise too_many_pairs(k, len(sigma))
    Phi, Psi, top = x.lifted(U[:, :k]), y.lifted(V[:, :k]), sigma[:k]
    rests = _rests(x, S_x, Phi, S_xy, Psi, top), _rests(y, S_y, Psi, S_xy.T, Phi, top)
    doubt = UNITS * EPS * (1 / x.condition + 1 / y.condition)
    return decomposed(problem, (sigma, Phi, Psi), rests, tol, meter, doubt)


def _rests(
    white: Whitening, S_x: Block, Phi: Block, S_xy: Block, Psi: Block, sigma: Vector
) -> Vector:
    """The norm of S_xy Ψ − σS_x Φ in that of S_x⁻¹, with what rounding may hide of it."""
    noise = magnitudes_times(S_xy, np.abs(Psi)) + magnitudes_times(S_x, np.abs(Phi)) * sigma
    rest = S_xy @ Psi - (S_x @ Phi) * sigma
    return column_norms(white.whitened(rest)) + UNITS * EPS * white.hidden(noise)


def decomposed(
    problem: TwoView,
    pairs: tuple[Vector, Block, Block],
    rests: tuple[Vector, Vector],
    tol: float,
    meter: Meter,
    doubt: float = 0.0,
) -> CCASolution:
    """The solution of a decomposition, which tells the gap; k columns, and more values if any.

    `rests` are what S_xy Ψ and S_yx Φ differ by from σS_x Φ and σS_y Ψ, in the norms of S_x⁻¹
    and S_y⁻¹; `doubt` is the rounding in whitened covariances.
    """
    sigma, Phi, Psi = pairs
    k = Phi.shape[1]
    top, following = sigma[:k], float(sigma[k]) if k < len(sigma) else 0.0
    residuals = np.sqrt((rests[0] ** 2 + rests[1] ** 2) / 2) * (1 + min(2 * doubt, 1.0))
    gap = float(top[-1]) - following - doubt
    bound = sine_bound(np.concatenate([residuals, residuals]), gap, float(top[0]))
    status = status_of(residuals, gap, tol, float(top[0]))
    return canonical_solution(
        problem, (top, Phi, Psi), residuals, bound, status, meter, gap_certified=gap > 0
    )


def top_singular(M: Block, k: int, counter: Counter) -> tuple[Block, Vector, Block]:
    """The leading k + 1 singular triplets at least.

    A few of many come from the eigenvectors of MMᵀ, which squares the values: where that cost
    digits, all come from the SVD.
    """
    rows = len(M)
    if has_few(k, rows) and rows <= M.shape[1]:
        squares, U = leading_pairs(M @ M.T, k + 1, "LA")
        counter.flops += 2 * rows**2 * M.shape[1] + 2 * rows**3  # reduced to tridiagonal form
        sigma = np.sqrt(np.maximum(squares[: k + 1], 0.0))
        if sigma[-1] > 1e-3 * sigma[0]:
            V = (M.T @ U) / sigma
            if column_norms(M @ V - U * sigma).max() <= 1e-13 * len(M) ** 0.5 * sigma[0]:
                return U, sigma, V
    if has_few(k, M.shape[1]) and M.shape[1] < rows:
        V, sigma, U = top_singular(M.T, k, counter)
        return U, sigma, V
    U, sigma, Vt = svd(M, full_matrices=False, check_finite=False)
    counter.flops += 14 * M.size * min(M.shape)
    return U, sigma, Vt.T


def _product(B: Block | Operator, W: Block) -> Block:
    """B @ W, of a matrix or an operator."""
    return B @ W if isinstance(B, Operator) else times(B, W)


def _magnitudes(B: Block | Operator, W: Block) -> Block:
    """|B||W|."""
    entries = B.entries() if isinstance(B, Operator) else Entries(B)
    assert entries is not None  # those of a diagonal
    return entries.magnitudes_times(np.abs(W))


def _entries(operator: Operator) -> Block:
    """The matrix, by its entries or by its products with the identity."""
    entries = operator.entries()
    return operator @ np.eye(operator.shape[0]) if entries is None else entries.dense()


def sine_bound(residuals: Vector, gap: float, largest: float) -> float:
    """‖R‖ / gap, and 1 where the gap is not above rounding."""
    total = float(np.linalg.norm(residuals)) + ROUNDING * largest
    return min(total / gap, 1.0) if gap > total else 1.0


def status_of(residuals: Vector, gap: float, tol: float, largest: float) -> Status:
    """Converged, with a gap or without one, or stagnated at the accuracy of a decomposition."""
    if residuals.max(initial=0.0) > tol * largest:
        return Status.STAGNATED
    scales = float(np.linalg.norm(residuals)) + ROUNDING * largest, 1e-6 * largest
    return Status.TIED if gap <= 2 * min(scales) else Status.CONVERGED
