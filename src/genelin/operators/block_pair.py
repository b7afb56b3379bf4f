"""The block pair of CCA: A = [0, S_xy; S_yx, 0] and B = [S_x, 0; 0, S_y]."""

from __future__ import annotations

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
    """[0, C; Cᵀ, 0] for a cross-covariance C; one pass over the data serves both halves.

    Examples
    --------
    >>> import numpy as np
    >>> A = OffDiagonal(Cross(np.array([[1.0], [3.0]]), np.array([[0.0, 1.0], [2.0, 1.0]])))
    >>> (A @ np.eye(3)).tolist()
    [[0.0, 3.0, 2.0], [3.0, 0.0, 0.0], [2.0, 0.0, 0.0]]
    """

    def __init__(self, cross: Cross | Compressed) -> None:
        d = sum(cross.shape)
        super().__init__((d, d))
        self.cross = cross
        self.flops, self.reads = 2.0 * cross.flops, cross.reads
        self.n_rows = cross.n_rows

    def on_rows(self, rows: Any) -> OffDiagonal:
        """The pair from some rows of both views."""
        return OffDiagonal(self.cross.on_rows(rows))

    def _apply(self, V: Block) -> Block:
        return stacked(*self.halves(*np.split(V, [self.cross.shape[0]])))

    def halves(self, Vx: Block, Vy: Block) -> tuple[Block, Block]:
        """S_xy·Vy and S_xyᵀ·Vx, each in memory of its own."""
        return self.cross.both(Vx, Vy)

    def pencil_product(self, B: Operator) -> PencilProduct | None:
        """θB − A where both stream through the same sparse rows."""
        match self.cross, B.diagonal_blocks:
            case Cross() as cross, (Gram() as x, Gram() as y) if Sweep.fits(cross, x, y):
                return Sweep(cross, x, y)
        return None

    def in_float32(self) -> OffDiagonal | None:
        """The pair in float32, if the cross-covariance can be had so."""
        cross = self.cross.in_float32()
        if not isinstance(cross, Cross):
            return None
        twin = OffDiagonal(cross)
        twin.dtype = np.dtype(np.float32)
        return twin

    def diagonal(self) -> Vector:
        """Zeros."""
        return np.zeros(self.shape[0])
