"""How fast this machine is at the few things that a plan is made of."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from genelin.linalg import leading_pairs
from genelin.linalg.sparse_cholesky import factored, predicted_fill
from genelin.system.memory import total_memory
from genelin.system.threads import blas_threads

__all__ = ["DEFAULT_PROFILE", "Machine", "Profile", "default_machine", "measured", "seconds_of"]


@dataclass(frozen=True)
class Profile:
    """Seconds per elementary piece of work.

    Attributes
    ----------
    multiply : a multiplication and an addition in a large dense product.
    decompose : d³ of a symmetric eigenproblem of size d.
    reduce : d³ of its reduction to tridiagonal form, which is enough for a few vectors.
    sweep : a stored entry of sparse rows and a column, in the fused product with XᵀX.
    entry : a stored entry of a sparse matrix and a column, in a plain product.
    form : a multiplication in forming a sparse XᵀX.
    touch : a byte of memory that is written.
    factor : an entry of sparse factors, to find it.
    threads, blas_threads : of compiled kernels and of BLAS, with which this was measured.
    """

    multiply: float
    decompose: float
    reduce: float
    sweep: float
    entry: float
    form: float
    touch: float
    factor: float
    threads: int = 1
    blas_threads: int = 1


# Two cores of a server.
DEFAULT_PROFILE = Profile(4e-11, 2e-10, 5e-11, 1.2e-9, 5e-10, 1e-8, 2e-10, 1e-7, 2, 2)


@dataclass(frozen=True)
class Machine:
    """What a plan depends on besides the problem: the same machine makes the same plan.

    Attributes
    ----------
    profile : its speeds.
    memory : bytes that a process may have, its data included.
    """

    profile: Profile
    memory: float


def default_machine() -> Machine:
    """The machine for which methods are chosen: usual speeds, and all memory that there is.

    Examples
    --------
    >>> default_machine() == default_machine()
    True
    """
    return Machine(DEFAULT_PROFILE, total_memory())


def measured() -> Profile:
    """The profile of this machine, from half a second of trials; once in a process.

    It is measured anew where there are other numbers of threads than before.

    Examples
    --------
    >>> measured().multiply < measured().decompose
    True
    """
    from genelin.kernels.compiled import threads

    return _profile(threads(), blas_threads())


@cache
def _profile(threads: int, blas_threads: int) -> Profile:
    return _timed(threads, blas_threads)


def _timed(threads: int, blas_threads: int) -> Profile:
    """By trials with as many threads as there are now."""
    rng = np.random.default_rng(0)
    M, S = rng.standard_normal((2, 768, 768))
    X, V = _rows(rng, n=60_000, d=30_000), rng.standard_normal((30_000, 24)).astype(np.float32)
    square, mesh = X.T @ X, _mesh(side=100)
    return Profile(
        multiply=seconds_of(lambda: M @ S) / M.shape[0] ** 3,
        decompose=seconds_of(lambda: eigh(S + S.T)) / S.shape[0] ** 3,
        reduce=seconds_of(lambda: leading_pairs(S + S.T, 1)) / S.shape[0] ** 3,
        sweep=seconds_of(lambda: _sweep(X, V)) / (X.nnz * V.shape[1]),
        entry=seconds_of(lambda: _product(square, V)) / (square.nnz * V.shape[1]),
        form=seconds_of(lambda: X.T @ X) / float(np.square(np.diff(X.indptr)).sum()),
        touch=seconds_of(lambda: np.ones(2**22)) / 2**25,
        factor=seconds_of(lambda: factored(mesh)) / predicted_fill(mesh).factoring(1.0),
        threads=threads,
        blas_threads=blas_threads,
    )


def _rows(rng: np.random.Generator, n: int, d: int, nonzeros: int = 6) -> Any:
    """Random sparse rows whose features follow a power law."""
    columns = np.minimum(d * rng.random((n, nonzeros)) ** 3, d - 1).astype(np.int32)
    values = np.ones(n * nonzeros, dtype=np.float32)
    indptr = np.arange(0, n * nonzeros + 1, nonzeros, dtype=np.int32)
    return sparse.csr_array((values, columns.ravel(), indptr), shape=(n, d))


def _mesh(side: int) -> Any:
    """Neighbours on a square."""
    line = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    return sparse.kronsum(line, line, format="csr")


def _sweep(X: Any, V: Any) -> Any:
    from genelin.kernels import cross_times

    return cross_times(X, X, V)


def _product(M: Any, V: Any) -> Any:
    from genelin.kernels import times

    return times(M, V)


def seconds_of(work: Callable[[], Any], repeats: int = 3) -> float:
    """The best of a few runs after one to warm up.

    Examples
    --------
    >>> seconds_of(lambda: None) < 1.0
    True
    """
    work()
    best = np.inf
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return float(best)
