"""Diagonal blocks of B, each with its own Cholesky factor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from genelin.errors import not_positive_definite
from genelin.linalg.column_products import EPS, Block
from genelin.operators import Operator
from genelin.operators.base import Entries
from genelin.solvers.preconditioners.jacobi import SLACK, Factors, Prepared, entries_of, perron
from genelin.validation import check_count, settle, shown

__all__ = ["BlockJacobi"]

MOST = np.iinfo(np.intp).max

Members = NDArray[np.intp]  # (blocks, size): the features of blocks of one size


@dataclass(frozen=True)
class BlockJacobi:
    """M = the diagonal blocks of B: features that go together are solved together.

    Needs the entries of B. Features in no block are on their own, as in `Jacobi`.

    Parameters
    ----------
    size : of blocks of neighbouring features, where `blocks` is not given.
    blocks : for instance [[0, 3], [1, 2, 4]]: groups of features that do not overlap. For two
        views they would have to be the same in both.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.linalg import block_diag
    >>> from genelin import solvers
    >>> B = block_diag([[2.0, 1.0], [1.0, 3.0]], [[5.0, 4.0], [4.0, 5.0]])
    >>> cg = solvers.CG(preconditioner=solvers.BlockJacobi(size=2))
    >>> cg.solve(cg.init(B), np.arange(4.0), np.zeros(4), reduction=1e-12).iterations
    1
    """

    size: int = 64
    blocks: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        settle(self, check_count, "size")
        if self.blocks is not None:
            object.__setattr__(self, "blocks", _groups(self.blocks))

    def prepare(self, operator: Operator) -> Prepared:
        """Factor all blocks."""
        d = operator.shape[0]
        groups = _by_size(self._blocks(d))
        entries = entries_of(operator, "BlockJacobi")
        inverses, largest = [], 0.0
        for members in groups:
            blocks = _taken(entries, members, d)
            inverse, spread = _inverse_roots(blocks, members)
            inverses.append((members, Factors(inverse, spread)))
            largest = max(largest, _bound(np.abs(blocks)))

        def apply(R: Block) -> Block:
            Z = np.empty_like(R)
            for members, factors in inverses:
                root = factors.like(R)
                Z[members] = root.transpose(0, 2, 1) @ (root @ R[members])
            return Z

        return Prepared(apply, (1 + SLACK) * (largest or 1.0))

    def _blocks(self, d: int) -> list[NDArray[np.intp]]:
        if self.blocks is None:
            cuts = np.arange(self.size, d, self.size)
            return np.split(np.arange(d), cuts)
        blocks = [np.array(block, dtype=np.intp) for block in self.blocks if block]
        for i, block in enumerate(blocks):
            if block.min() < 0 or block.max() >= d:
                raise ValueError(
                    f"blocks[{i}] of BlockJacobi names a feature outside 0 … {d - 1}: blocks are "
                    "for a B of one size (for two views of different size, give `size`)"
                )
        named = np.bincount(np.concatenate([*blocks, np.empty(0, np.intp)]), minlength=d)
        if named.max(initial=0) > 1:
            twice = int(named.argmax())
            raise ValueError(
                f"feature {twice} is named more than once by blocks of BlockJacobi: they must not "
                "overlap"
            )
        return blocks + [np.array([j]) for j in np.flatnonzero(named == 0)]


def _groups(blocks: Any) -> tuple[tuple[int, ...], ...]:
    """Groups of features as plain numbers."""
    array = isinstance(blocks, np.ndarray) and blocks.ndim > 0
    if not array and not isinstance(blocks, list | tuple | range | Iterator):
        raise ValueError(
            f"blocks={shown(blocks)} of BlockJacobi must be a list of lists of feature numbers"
        )
    groups = []
    for i, block in enumerate(blocks):
        try:
            group = np.atleast_1d(np.asarray(block))
        except ValueError:  # not rectangular
            group = np.empty((0, 0))
        if group.ndim != 1 or (group.size and group.dtype.kind not in "iu"):
            raise ValueError(f"blocks[{i}] of BlockJacobi must be a list of feature numbers")
        if group.size and (group.min() < 0 or group.max() > MOST):
            raise ValueError(f"blocks[{i}] of BlockJacobi names features beyond 0 … {MOST}")
        groups.append(tuple(group.tolist()))
    return tuple(groups)


def _by_size(blocks: list[NDArray[np.intp]]) -> list[Members]:
    """The same blocks, those of one size stacked."""
    sizes = np.array([len(block) for block in blocks])
    return [
        np.stack([blocks[i] for i in np.flatnonzero(sizes == size)]) for size in np.unique(sizes)
    ]


def _taken(entries: Entries, members: Members, d: int) -> Block:
    """The diagonal blocks of B for one size, (blocks, size, size); dead features get a one."""
    if sparse.issparse(entries.core):
        blocks = _taken_sparse(entries.core, members, d)
    else:
        blocks = np.asarray(entries.core[members[:, :, None], members[:, None, :]], np.float64)
    noise = 100 * EPS * np.diagonal(blocks, axis1=1, axis2=2).copy()
    if entries.minus is not None:
        v = entries.minus[members]
        blocks = blocks - v[:, :, None] * v[:, None, :]
    diagonal = np.diagonal(blocks, axis1=1, axis2=2)
    dead = diagonal <= noise
    coupled = np.abs(blocks).sum(axis=2) > np.sqrt(EPS) * np.abs(blocks).max(initial=0.0)
    if np.any(dead & ((diagonal < -noise) | coupled)):
        worst = int(members[dead & ((diagonal < -noise) | coupled)][0])
        raise not_positive_definite(
            f"diagonal entry {worst} is not positive in a row that is not 0"
        )
    which, place = np.nonzero(dead)
    blocks[which, place] = blocks[which, :, place] = 0.0
    blocks[which, place, place] = 1.0
    return blocks


def _taken_sparse(core: Any, members: Members, d: int) -> Block:
    """From a sparse matrix: entries whose row and column belong to the same block."""
    count, size = members.shape
    block, place = np.full(d, -1), np.zeros(d, dtype=np.intp)
    block[members.ravel()] = np.repeat(np.arange(count), size)
    place[members.ravel()] = np.tile(np.arange(size), count)
    coo = core.tocoo()
    inside = (block[coo.row] == block[coo.col]) & (block[coo.row] >= 0)
    row, column, values = coo.row[inside], coo.col[inside], coo.data[inside]
    blocks = np.zeros((count, size, size))
    np.add.at(blocks, (block[row], place[row], place[column]), values)
    return blocks


def _bound(sizes: Block) -> float:
    """A bound on the eigenvalues of all blocks, from the magnitudes of their entries."""
    shape = sizes.shape[:2]
    return perron(lambda w: (sizes @ w.reshape(*shape, 1)).ravel(), shape[0] * shape[1])


def _inverse_roots(blocks: Block, members: Members) -> tuple[Block, float]:
    """T with TᵀT = block⁻¹ for every block, and the spread of the factors.

    Blocks are scaled to unit diagonal. One that is singular to rounding gets a tiny ridge; every
    principal block of a positive definite B has a factor.
    """
    size = blocks.shape[1]
    scale = 1.0 / np.sqrt(np.diagonal(blocks, axis1=1, axis2=2))
    scaled = scale[:, :, None] * blocks * scale[:, None, :]
    ridge = 0.0
    while True:
        try:
            L = np.linalg.cholesky(scaled + ridge * np.eye(size))
        except np.linalg.LinAlgError:
            L = np.zeros_like(scaled)
        pivots = np.diagonal(L, axis1=1, axis2=2) ** 2
        if pivots.min() > size * EPS:
            break
        if ridge > np.sqrt(EPS):
            lowest = np.linalg.eigvalsh(scaled)[:, 0]
            worst = members[int(lowest.argmin())]
            raise not_positive_definite(
                f"its block of features {worst[0]} … {worst[-1]} has, after scaling, the "
                f"eigenvalue {lowest.min():.3g}"
            )
        ridge = max(10 * ridge, 10 * size * EPS)
    return np.linalg.inv(L) * scale[:, None, :], float(1.0 / pivots.min())
