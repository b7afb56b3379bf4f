"""Sparse Cholesky factors of B as preconditioners: complete, or on the pattern of B alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from genelin.errors import NotPositiveDefiniteError, not_positive_definite
from genelin.linalg.column_products import EPS, Block, Vector
from genelin.operators import Operator
from genelin.operators.base import Entries
from genelin.solvers.direct import invert
from genelin.solvers.preconditioners.jacobi import SLACK, Factors, Prepared, entries_of, perron

__all__ = ["IncompleteCholesky", "SparseCholesky"]

Solve = Callable[[Block], Block]


@dataclass(frozen=True)
class IncompleteCholesky:
    """M = LLᵀ, L with no entries but where B has them: IC(0) of Meijerink and Van der Vorst.

    For a sparse B that couples neighbours, such as a mesh. Where a pivot breaks down, the
    diagonal is raised by a factor 1 + α, with the least α of 10⁻⁷, 10⁻⁶, … that does (Manteuffel
    1980). The mean of centred sparse data is a term of rank one, and subtracted as far as M stays
    positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from genelin import solvers
    >>> K = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(500, 500))
    >>> cg = solvers.CG(preconditioner=solvers.IncompleteCholesky())
    >>> b, state = np.ones(500), cg.init(K)  # tridiagonal: nothing is left out
    >>> cg.solve(state, b, np.zeros(500), reduction=1e-10).iterations <= 3
    True
    """

    def prepare(self, operator: Operator) -> Prepared:
        """Factor the sparse part of B."""
        from genelin import kernels

        entries = _sparse_entries(operator, "IncompleteCholesky")
        core, diagonal = _without_dead(entries.core)
        order = _short_rows_first(core)
        L, spread = _incomplete(core[order][:, order], diagonal[order])
        sizes = abs(L)
        data = Factors(L.data, spread)

        def apply(R: Block) -> Block:
            rows = data.like(R), L.indices, L.indptr
            return np.asarray(kernels.cholesky_solve(rows, R, order))

        largest = perron(lambda w: sizes @ (sizes.T @ w), len(diagonal))
        return Prepared(_centred(apply, entries.minus, operator), (1 + SLACK) * largest)


@dataclass(frozen=True)
class SparseCholesky:
    """M = B by a sparse factorisation (SuperLU): one or two steps of CG, which then measure it.

    For a sparse B whose factors have few more entries than B itself. Against `Direct` it gains
    what `CG` gains: errors that are known, and digits that rounding has taken.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from genelin import solvers
    >>> K = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(500, 500))
    >>> cg = solvers.CG(preconditioner=solvers.SparseCholesky())
    >>> cg.solve(cg.init(K), np.ones(500), np.zeros(500), reduction=1e-10).iterations <= 2
    True
    """

    def prepare(self, operator: Operator) -> Prepared:
        """Factor the sparse part of B, with a ridge at the level of rounding."""
        entries = _sparse_entries(operator, "SparseCholesky")
        core, diagonal = _without_dead(entries.core)
        ridge = len(diagonal) * EPS
        while True:
            try:
                inverse = invert(core + sparse.diags_array(ridge * diagonal))
                break
            except NotPositiveDefiniteError:
                ridge *= 10
                if ridge > np.sqrt(EPS):
                    raise

        def apply(R: Block) -> Block:
            return inverse(R.astype(np.float64, copy=False)).astype(R.dtype, copy=False)

        sizes = abs(core)
        largest = perron(lambda w: sizes @ w, len(diagonal)) + ridge * float(diagonal.max())
        return Prepared(_centred(apply, entries.minus, operator), (1 + SLACK) * largest)


def _sparse_entries(operator: Operator, name: str) -> Entries:
    entries = entries_of(operator, name)
    if not sparse.issparse(entries.core):
        raise ValueError(
            f"{name} needs a sparse B, but this one is dense: use solvers.BlockJacobi(), "
            "solvers.Nystrom() or solvers.Direct(), or pass B as a sparse matrix"
        )
    return entries


def _without_dead(core: Any) -> tuple[Any, Vector]:
    """The matrix and its diagonal, with ones for features whose row is zero."""
    diagonal = np.asarray(core.diagonal(), dtype=np.float64)
    if np.any(diagonal < 0):
        raise not_positive_definite(f"diagonal entry {int(diagonal.argmin())} is negative")
    dead = diagonal == 0
    if not dead.any():
        return core.tocsr(), diagonal
    if np.any((abs(core) @ np.ones(len(dead)))[dead] > 0):
        worst = int(np.flatnonzero(dead)[0])
        raise not_positive_definite(f"diagonal entry {worst} is zero in a row that is not")
    return (core + sparse.diags_array(dead.astype(np.float64))).tocsr(), diagonal + dead


def _incomplete(core: Any, diagonal: Vector) -> tuple[Any, float]:
    """L of IC(0), and how far its pivots spread for a core of unit diagonal."""
    from genelin import kernels

    scale = 1.0 / np.sqrt(diagonal)
    lower = sparse.tril(core, format="csr")
    lower.sum_duplicates()  # sorts the rows too: diagonals come last
    lengths = np.diff(lower.indptr)
    lower.data = lower.data * np.repeat(scale, lengths) * scale[lower.indices]
    alpha = 0.0
    while not kernels.incomplete_cholesky(L := lower.copy(), alpha):
        alpha = max(10 * alpha, 1e-7)
    spread = 1.0 / float(L.diagonal().min()) ** 2
    L.data = L.data * np.repeat(1.0 / scale, lengths)
    return L, spread


def _short_rows_first(core: Any) -> NDArray[np.intp]:
    """An order in which rows with many entries come last: they would slow down all others.

    Rows of about the same length stay in place, since the order of a mesh is a good one.
    """
    lengths = np.maximum(np.diff(core.indptr), 1)
    return np.argsort(np.floor(np.log2(lengths) / 2), kind="stable")


def _centred(inverse: Solve, minus: Vector | None, operator: Operator) -> Solve:
    """(M − t·vvᵀ)⁻¹ from M⁻¹ ≈ core⁻¹, where B = core − vvᵀ; t = 1 if M is the core itself.

    With u = M⁻¹v, t is such that M − t·vvᵀ and B agree on u: uᵀBu > 0 keeps it positive definite.
    Where that is lost in rounding, t = 0: the inverse would blow up what is no more than rounding.
    """
    if minus is None or not minus.any():
        return inverse
    u = inverse(minus[:, None])
    length = float(minus @ u[:, 0])
    left = float(u[:, 0] @ (operator @ u)[:, 0]) / length  # 1 − t·vᵀu
    if left < np.sqrt(EPS):
        return inverse
    left = min(left, 1.0)
    column, factor = Factors(u, 1.0 / left), (1.0 - left) / (length * left)

    def apply(R: Block) -> Block:
        v = column.like(R)
        return np.asarray(inverse(R) + v * (factor * (v.T @ R)), dtype=R.dtype)

    return apply
