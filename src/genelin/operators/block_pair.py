"""The block pair of CCA: A = [0, S_xy; S_yx, 0] and B = [S_x, 0; 0, S_y]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from genelin.linalg.column_products import Block, Vector
from genelin.linalg.tall_skinny import stacked
from genelin.operators.base import Operator, PencilProduct
from genelin.operators.covariance import Cross, Gram, own_products
from genelin.operators.two_view_sweep import Sweep

__all__ = ["BlockDiagonal", "Compressed", "OffDiagonal"]


class BlockDiagonal(Operator):
    """diag(blocks): the systems in it can be solved separately.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin.operators import Identity, as_operator
    >>> B = BlockDiagonal((as_operator(np.diag([2.0, 3.0])), Identity(1)))
    >>> (B @ np.ones(3)).tolist()
    [2.0, 3.0, 1.0]
    """

    def __init__(self, blocks: tuple[Operator, ...]) -> None:
        d = sum(block.shape[0] for block in blocks)
        super().__init__((d, d))
        self.diagonal_blocks = blocks
        self.splits = np.cumsum([block.shape[0] for block in blocks])[:-1].tolist()
        self.flops = sum(block.flops for block in blocks)
        self.reads = sum(block.reads for block in blocks)
        self.lambda_min_bound = min(block.lambda_min_bound for block in blocks)
        counts = {block.n_rows for block in blocks}
        self.n_rows = counts.pop() if len(counts) == 1 else 0

    def on_rows(self, rows: Any) -> BlockDiagonal:
        """The blocks from some of their rows."""
        return BlockDiagonal(tuple(block.on_rows(rows) for block in self.diagonal_blocks))

    def _apply(self, V: Block) -> Block:
        parts = np.split(V, self.splits)
        together = own_products(self.diagonal_blocks, parts)
        if together is not None:
            return stacked(*together)
        products = (block @ part for block, part in zip(self.diagonal_blocks, parts, strict=True))
        return stacked(*products)

    def diagonal(self) -> Vector | None:
        """The diagonals of the blocks, one after the other."""
        parts = [block.diagonal() for block in self.diagonal_blocks]
        known = [part for part in parts if part is not None]
        return np.concatenate(known) if len(known) == len(parts) else None

    def in_float32(self) -> BlockDiagonal | None:
        """The blocks in float32, if all of them can be had so."""
        blocks = [block.in_float32() for block in self.diagonal_blocks]
        if any(block is None for block in blocks):
            return None
        twin = BlockDiagonal(tuple(block for block in blocks if block is not None))
        twin.dtype = np.dtype(np.float32)
        return twin


class Compressed(Operator):
    """LᵀCR for an operator C and bases L and R (None: the identity).

    Examples
    --------
    >>> import numpy as np
    >>> C = Cross(np.array([[1.0, 0.0], [3.0, 1.0]]), np.array([[0.0], [2.0]]))
    >>> (Compressed(C, np.ones((2, 1)), None) @ np.ones(1)).tolist()
    [4.0]
    """

    def __init__(self, cross: Cross, left: Block | None, right: Block | None) -> None:
        rows = cross.shape[0] if left is None else left.shape[1]
        columns = cross.shape[1] if right is None else right.shape[1]
        super().__init__((rows, columns))
        self._cross, self._left, self._right = cross, left, right
        self.flops, self.reads = cross.flops, cross.reads
        self.flops += 2.0 * sum(basis.size for basis in (left, right) if basis is not None)
        self.n_rows = cross.n_rows

    def on_rows(self, rows: Any) -> Compressed:
        """The same between some rows of both views."""
        return Compressed(self._cross.on_rows(rows), self._left, self._right)

    def both(self, Vx: Block, Vy: Block) -> tuple[Block, Block]:
        """LᵀCR Vy and RᵀCᵀL Vx."""
        Vx = Vx if self._left is None else self._left @ Vx
        Vy = Vy if self._right is None else self._right @ Vy
        to_x, to_y = self._cross.both(Vx, Vy)
        to_x = to_x if self._left is None else self._left.T @ to_x
        return to_x, to_y if self._right is None else self._right.T @ to_y

    def _apply(self, V: Block) -> Block:
        return self.both(np.empty((self.shape[0], 0)), V)[0]

    def _apply_transposed(self, V: Block) -> Block:
        return self.both(V, np.empty((self.shape[1], 0)))[1]


class OffDiagonal(Operator):
    """Covariances between views off the diagonal, zeros on it: [0, C; Cᵀ, 0] for two of them.

    One pass over the data serves both halves of a covariance.

    Parameters
    ----------
    crosses : the covariance of two views, or {(i, j): that of views i < j} for all pairs.

    Examples
    --------
    >>> import numpy as np
    >>> A = OffDiagonal(Cross(np.array([[1.0], [3.0]]), np.array([[0.0, 1.0], [2.0, 1.0]])))
    >>> (A @ np.eye(3)).tolist()
    [[0.0, 3.0, 2.0], [3.0, 0.0, 0.0], [2.0, 0.0, 0.0]]
    """

    def __init__(
        self, crosses: Cross | Compressed | Mapping[tuple[int, int], Cross | Compressed]
    ) -> None:
        self.crosses = crosses if isinstance(crosses, Mapping) else {(0, 1): crosses}
        first = self.crosses[0, 1]
        others = (self.crosses[0, j].shape[1] for j in range(2, self._views))
        self.sizes = (*first.shape, *others)
        super().__init__((sum(self.sizes), sum(self.sizes)))
        self.flops = 2.0 * sum(cross.flops for cross in self.crosses.values())
        self.reads = sum(cross.reads for cross in self.crosses.values())
        self.n_rows = first.n_rows

    @property
    def _views(self) -> int:
        return 1 + max(j for _, j in self.crosses)

    def on_rows(self, rows: Any) -> OffDiagonal:
        """The operator from some rows of all views."""
        return OffDiagonal({pair: cross.on_rows(rows) for pair, cross in self.crosses.items()})

    def _apply(self, V: Block) -> Block:
        return stacked(*self.parts(*np.split(V, np.cumsum(self.sizes)[:-1])))

    def parts(self, *blocks: Block) -> tuple[Block, ...]:
        """Σ_j C_ij V_j for every view i, each in memory of its own."""
        if len(blocks) == 2:
            return self.crosses[0, 1].both(*blocks)
        products: list[Any] = [0.0] * len(blocks)
        for (i, j), cross in self.crosses.items():
            to_i, to_j = cross.both(blocks[i], blocks[j])
            products[i], products[j] = products[i] + to_i, products[j] + to_j
        return tuple(products)

    def pencil_product(self, B: Operator) -> PencilProduct | None:
        """θB − A where two views stream through the same sparse rows."""
        match list(self.crosses.values()), B.diagonal_blocks:
            case [Cross() as cross], (Gram() as x, Gram() as y) if Sweep.fits(cross, x, y):
                return Sweep(cross, x, y)
        return None

    def in_float32(self) -> OffDiagonal | None:
        """The operator in float32, if all covariances can be had so."""
        crosses = {pair: cross.in_float32() for pair, cross in self.crosses.items()}
        known = {pair: cross for pair, cross in crosses.items() if isinstance(cross, Cross)}
        if len(known) < len(crosses):
            return None
        twin = OffDiagonal(known)
        twin.dtype = np.dtype(np.float32)
        return twin

    def diagonal(self) -> Vector:
        """Zeros."""
        return np.zeros(self.shape[0])
