"""An end of the spectrum where values crowd, by factors of A − σB from just beyond it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

from genelin.eigen.basis import start_block
from genelin.eigen.davidson import Davidson
from genelin.eigen.iteration import Callback, Meter
from genelin.eigen.spaces import Basis
from genelin.eigen.spectrum import beyond_the_end
from genelin.io.checkpoint import UNKEPT, Journal
from genelin.linalg.columns import Block, Vector
from genelin.linalg.factors import SymmetricFactors, factored
from genelin.operators import Operator
from genelin.problems import Pencil
from genelin.results import EigenSolution, Status
from genelin.threads import one_blas_thread

__all__ = ["GUARDS", "ShiftInvert", "one_sided", "sparse_core"]

GUARDS = 2  # pairs behind the k-th that are asked for, to see the gap
PROBES, DEPTH = 4, 3  # random columns that look for what was missed, and steps that they take
RESTARTS = 40  # of Lanczos, at most
Step = Callable[[Block], Block]
FINER = 1e-2  # accuracy of 1/(λ − σ) against that of λ, which may be close to zero
CHECKS = 2  # iterations of `Davidson` on what was found


@dataclass(frozen=True)
class ShiftInvert:
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

    shift: float | None = None

    def __post_init__(self) -> None:
        number = isinstance(self.shift, int | float | np.number) and np.isfinite(self.shift)
        if self.shift is not None and not number:
            raise ValueError(f"shift={self.shift!r} must be a finite number, or None")

    def __call__(
        self,
        problem: Pencil,
        k: int,
        tol: float = 1e-8,
        rng: np.random.Generator | int | None = 0,
        callback: Callback | None = None,
        journal: Journal = UNKEPT,
    ) -> EigenSolution:
        """Solve `problem` for k pairs; the callback sees what `Davidson` makes of them."""
        rng, meter = np.random.default_rng(rng), Meter(problem.data_size)

        def run(method: Davidson) -> EigenSolution:
            found = method(problem, k, tol, rng, callback, journal)
            meter.carry(replace(found.cost, seconds=0.0))  # this clock has gone on
            return replace(found, cost=meter.cost())

        start, many, matrices = None, 2 * (k + GUARDS) >= problem.d, one_sided(problem)
        factors = None if journal.begun or many else self._factors(problem, *matrices, meter)
        if factors is not None:
            for accuracy in (tol * FINER, 0.0):
                start = _found(meter, problem, factors, k + GUARDS, accuracy, rng)
                found = run(Davidson(start=start, max_iter=CHECKS))
                if found.converged or found.status is Status.STOPPED:
                    return found
        return run(Davidson(start=start))

    def _factors(self, problem: Pencil, A: Any, B: Any, meter: Meter) -> SymmetricFactors | None:
        """Those of A − σB, positive definite; None where no such σ is known."""
        if self.shift is None:
            for sigma in beyond_the_end(A, B):
                factors = factored(A - sigma * B)
                if factors is not None:
                    meter.counter.flops += float(factors.entries) ** 2 / problem.d
                    if not factors.negative:
                        return factors
            return None
        given = factored(A - (self.shift if problem.which == "SA" else -self.shift) * B)
        if given is None or given.negative:
            raise ValueError(
                f"shift={self.shift:g} is not beyond the end of the spectrum: "
                f"{'some' if given is None else given.negative} of the eigenvalues lie there or "
                "beyond. Choose it farther out, or None"
            )
        return given


def _found(
    meter: Meter, problem: Pencil, factors: SymmetricFactors, count: int, accuracy: float, rng: Any
) -> Block | None:
    """The vectors of so many pairs and of probes, or of fewer pairs where Lanczos gives up."""
    pencil, counter = meter.metered(problem), meter.counter

    def inverse(R: Block) -> Block:
        counter.flops += 4.0 * factors.entries * R.shape[1]
        return factors.solve(R)

    def step(V: Block) -> Block:
        return inverse(pencil.B @ V)

    W = _by_lanczos(pencil, inverse, count, accuracy, rng)
    if W.shape[1] < count:
        return W if W.shape[1] else None
    return _probed(pencil, step(W), step, rng)  # one more step takes rounding out of W


def _by_lanczos(pencil: Pencil, inverse: Step, count: int, accuracy: float, rng: Any) -> Block:
    """The vectors that ARPACK finds, fewer than `count` where it gives up."""
    d = pencil.d
    A, B = (_linear(part.__matmul__, d) for part in pencil.operators)
    try:
        with one_blas_thread():  # many would wait for each other on single vectors
            vectors: Block = eigsh(
                A,
                count,
                M=None if pencil.B.is_identity else B,
                sigma=0.0,  # ARPACK sees 1/(λ − σ), and is not told σ
                OPinv=_linear(lambda v: inverse(v[:, None])[:, 0], d),
                ncv=min(max(2 * count + 1, 20), d),
                maxiter=RESTARTS,
                tol=accuracy,
                v0=rng.standard_normal(d),
            )[1]
    except ArpackNoConvergence as few:
        vectors = few.eigenvectors
    except ArpackError:
        vectors = np.empty((d, 0))
    return vectors


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


def _linear(product: Callable[[Vector], Vector], d: int) -> LinearOperator:
    """A function of vectors, as SciPy likes it."""
    return LinearOperator((d, d), matvec=lambda v: product(np.ravel(v)), dtype=np.float64)


def one_sided(problem: Pencil) -> tuple[Any, Any]:
    """A and B whose smallest values are wanted, as sparse matrices."""
    A, B = (sparse_core(operator) for operator in problem.operators)
    if A is None or B is None:
        raise ValueError(
            "ShiftInvert needs A and B as sparse matrices: use method=None or Davidson()"
        )
    if problem.which == "LM":
        raise ValueError(
            'ShiftInvert finds one end of the spectrum: ask for which="SA" or "LA", or use '
            "method=None"
        )
    return (A if problem.which == "SA" else -A), B


def sparse_core(operator: Operator) -> Any:
    """The entries of an operator if they are those of a sparse matrix and nothing else."""
    entries = operator.entries()
    if entries is None or entries.minus is not None or not sparse.issparse(entries.core):
        return None
    return entries.core
