"""An end of the spectrum where values are clustered, by factors of A − σB from just beyond it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from genelin.eigen.costs.facts import STORED, Facts, one_sided, sparse_core
from genelin.eigen.costs.plan import Route
from genelin.eigen.costs.spectrum_probe import beyond_the_end
from genelin.eigen.methods.davidson import (
    OUTER_ITERATIONS,
    Davidson,
    basis_memory,
    iteration_seconds,
)
from genelin.eigen.run.meter import Meter
from genelin.eigen.run.method import Method, Request
from genelin.eigen.subspace.krylov_space import KrylovSpace
from genelin.eigen.subspace.multiplicity import Round, complete_multiplicities, converged, kept_of
from genelin.eigen.subspace.ritz_basis import start_block
from genelin.eigen.subspace.search_spaces import Basis
from genelin.linalg import SparseFactor, sparse_factor
from genelin.linalg.column_products import Block, Vector
from genelin.linalg.sparse_cholesky import predicted_fill
from genelin.problems import Pencil, TwoView
from genelin.results import EigenSolution, Status
from genelin.system.buffer_pool import buffer_pool
from genelin.system.threads import one_blas_thread
from genelin.validation import check_number, settle

__all__ = ["ShiftInvert"]

GUARDS = 2  # pairs behind the k-th that are asked for, to see the gap
PROBES, DEPTH = 4, 3  # random columns that look for what was missed, and steps that they take
COLUMNS, SPARE = 4, 40  # of a block of Lanczos, and of its space beyond two for every pair
STEPS = 400  # of Lanczos, at most
NEAR = 0.03  # of the accuracy: what blocks may have in common
FINER, FINEST = 0.1, 1e-14  # accuracy of 1/(λ − σ) against that of λ, and what is tried at last
Step = Callable[[Block], Block]
CHECKS = 2  # iterations of `Davidson` on what was found
SOLVES = 7  # columns that are solved for with factors, for every pair (benchmarks/plans.py)
CHECKING = 3.0  # outer iterations whose time it takes to check what was found


@dataclass(frozen=True)
class ShiftInvert(Method):
    """Lanczos on (A − σB)⁻¹B: the smallest values (or, of −A, the largest) from factors of A − σB.

    For sparse A and B with cheap factors, and an end of the spectrum at which values are close
    together by the measure of all of it, such as the low modes of a mesh or of a graph: 1/(λ − σ)
    spreads them out. `Davidson` checks what was found, beside random columns that look for what
    was missed, and does the whole work where no σ beyond the end is known.

    Parameters
    ----------
    shift : σ, below all eigenvalues for which="SA", above for "LA". None: just beyond zero, if A
        is semidefinite; else what the rows of A say (Gershgorin), if B is diagonal.

    Examples
    --------
    >>> from scipy import sparse
    >>> from genelin import ShiftInvert, top_k
    >>> K = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(3000, 3000)).tocsr()
    >>> solution = top_k(K, k=2, which="SA", method=ShiftInvert())
    >>> [f"{value:.4e}" for value in solution.values]
    ['1.0959e-06', '4.3836e-06']
    """

    solves: ClassVar = (Pencil,)

    shift: float | None = None

    def __post_init__(self) -> None:
        settle(self, check_number, "shift", optional=True, otherwise=", or None")

    def handles(self, problem: Pencil | TwoView, k: int) -> bool:
        """Where A and B are sparse matrices, at one end of the spectrum."""
        if not isinstance(problem, Pencil) or problem.which == "LM":
            return False
        return all(sparse_core(part) is not None for part in problem.operators)

    def estimate(self, facts: Facts) -> list[Route]:
        """Where values are clustered: a factorisation, and solves with it."""
        if facts.clustering is None:
            return []
        A, B = one_sided(facts.problem)
        fill, count = predicted_fill(abs(A) + abs(B)), facts.k + GUARDS
        entry = facts.profile.factor
        seconds = fill.factoring(entry) + SOLVES * count * fill.solving(entry)
        seconds += CHECKING * iteration_seconds(facts) / OUTER_ITERATIONS
        reason = (
            f"values are clustered at this end: factors of about {fill.entries:.1g} entries "
            "separate them"
        )
        memory = STORED * fill.entries + basis_memory(facts.problem.d, Davidson.width(facts.k))
        passes = float(SOLVES * count)
        return [Route("shift and invert", seconds, passes, memory, reason, facts.problem, self)]

    def solve(self, request: Request) -> EigenSolution:
        """By factors; the callback sees what `Davidson` makes of the pairs."""
        problem, k, tol, rng = request.problem, request.k, request.tol, request.rng
        meter = Meter(problem.data_size)

        def run(method: Davidson) -> EigenSolution:
            found = cast("EigenSolution", method.solve(request))
            meter.carry(replace(found.cost, seconds=0.0))  # this clock has gone on
            return replace(found, cost=meter.cost())

        start, matrices = None, one_sided(problem)
        many = request.checkpoint.resumed or 2 * _room(k + GUARDS) > problem.d
        with buffer_pool(), one_blas_thread():
            factor = None if many else self._factor(problem, *matrices, meter)
        if factor is not None:
            for accuracy in (tol * FINER, FINEST):
                with buffer_pool(), one_blas_thread():
                    start = _found(meter, problem, factor, k + GUARDS, accuracy, rng)
                found = run(Davidson(start=start, max_iter=CHECKS))
                if found.converged or found.status is Status.STOPPED:
                    return found
        return run(Davidson(start=start))

    def _factor(self, problem: Pencil, A: Any, B: Any, meter: Meter) -> SparseFactor | None:
        """That of A − σB, positive definite; None where no such σ is known."""
        given = self.shift
        if given is not None:
            shifts = [given if problem.which == "SA" else -given]
        else:
            shifts = beyond_the_end(A, B)
        for sigma in shifts:
            factor = sparse_factor(A - sigma * B)
            if factor.L is not None:
                meter.counter.flops += float(factor.L.nnz) ** 2 / problem.d
                return factor
            if given is not None:
                raise ValueError(
                    f"shift={given:g} is not beyond the end of the spectrum: "
                    f"{factor.negative or 'some'} of the eigenvalues lie there or beyond. Choose "
                    "it farther out, or None"
                )
        return None


def _room(count: int) -> int:
    """Columns of the space that so many pairs are found in."""
    return 2 * count + SPARE


def _found(
    meter: Meter, problem: Pencil, factor: SparseFactor, count: int, accuracy: float, rng: Any
) -> Block:
    """The vectors of so many pairs, and of what random columns see beside them."""
    pencil, counter = meter.metered(problem), meter.counter

    def half(V: Block) -> Block:
        """TᵀBV for TTᵀ = (A − σB)⁻¹, which comes with a solve by T."""
        counter.flops += 4.0 * factor.L.nnz * V.shape[1]
        return factor.whitened(pencil.B @ V)

    def inverted(V: Block) -> Block:
        """TᵀBT V, whose values are 1/(λ − σ)."""
        return half(factor.lifted(V))

    def step(V: Block) -> Block:
        """(A − σB)⁻¹B V."""
        return factor.lifted(half(V))

    U = _leading(inverted, problem.d, count, accuracy, rng)
    W = step(factor.lifted(U))  # one more step takes rounding out of them
    return _probed(pencil, W, step, rng)


def _leading(product: Step, d: int, count: int, accuracy: float, rng: Any) -> Block:
    """Vectors of the largest values of a positive definite matrix, by block Lanczos.

    Their residuals are small against their own values, which may be far from each other, unless
    that takes too long.
    """

    def random(columns: int) -> Block:
        block: Block = rng.standard_normal((d, columns))
        return block

    def done(theta: Vector, residuals: Vector) -> int:
        good = len(theta) > count and np.all(residuals[:count] <= accuracy * theta[:count])
        return count if good else 0

    def limit(theta: Vector) -> float:
        return NEAR * accuracy * float(theta[:count][-1] / theta[0])

    space = KrylovSpace(product, d, _room(count), NEAR * accuracy)
    space.begin(random(COLUMNS))
    found = converged(space, random, "LA", done, limit, kept_of(count, space.most), STEPS)
    if found is None:
        U = space.ritz("LA")[1]
        return space.vectors(U[:, :count])
    search = Round(product, random, "LA", count - 1, 0.0, accuracy, NEAR, 0.0, STEPS)
    complete = complete_multiplicities(search, found, COLUMNS, count)
    return found.V if complete is None else complete.V


def _probed(pencil: Pencil, W: Block, step: Step, rng: Any) -> Block:
    """W, and what some steps of a few random columns see beside it.

    A single column sees one vector of several with the same value, but for rounding.
    """
    basis = Basis(pencil.B, W.shape[1] + PROBES * DEPTH)
    basis.add(W)
    Z = start_block(pencil, PROBES, rng)
    for _ in range(DEPTH):
        Z = step(basis.add(Z))
    return basis.Q
