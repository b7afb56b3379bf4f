"""Both halves of a pair of sparse views at once: s(θB − A)P in one sweep over their rows."""

from __future__ import annotations

import numpy as np

from genelin.data.reductions import PairTimes
from genelin.data.row_blocks import Part
from genelin.linalg.block_products import filled_up
from genelin.linalg.column_products import Block, Vector
from genelin.operators.covariance import Cross, Gram

__all__ = ["Sweep"]


class Sweep:
    """s(θB − A)P for A = [0, S_xy; S_yx, 0] and B = [S_x, 0; 0, S_y] of sparse views, in one sweep.

    Applied one after the other, A and B would each read the rows once. The product is written to
    the same memory every time.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from genelin.operators import as_rows
    >>> x, y = as_rows(sparse.csr_array(np.eye(2))), as_rows(sparse.csr_array(np.ones((2, 1))))
    >>> sweep = Sweep(Cross(x, y), Gram(x), Gram(y))
    >>> KP, curvature = sweep(np.ones((3, 1)), theta=np.array([0.9]), sign=np.ones(1))
    >>> KP.round(3).tolist(), curvature.round(3).tolist()
    ([[-0.05], [-0.05], [-0.1]], [-0.2])
    """

    def __init__(self, cross: Cross, x: Gram, y: Gram) -> None:
        self._x, self._y, self._dtype, self.reads = x, y, cross.dtype, cross.reads
        self._means, self._factors = (
            np.concatenate(
                [
                    np.full(gram.shape[0], missing, cross.dtype) if part is None else part
                    for part, gram in zip(parts, (x, y), strict=True)
                ]
            )
            for parts, missing in ((cross._means, 0.0), (cross._factors, 1.0))
        )
        self._scaled = any(factors is not None for factors in cross._factors)
        self._centred = any(mean is not None for mean in cross._means)
        self._outs = np.empty((0, 0, 0), cross.dtype)

    @staticmethod
    def fits(cross: Cross, x: Gram, y: Gram) -> bool:
        """Whether all three stream through the same sparse rows."""
        streams = all(operator._moment is None for operator in (cross, x, y))
        both_sparse = x.rows.is_sparse and y.rows.is_sparse
        return streams and both_sparse and cross.x is x.rows and cross.y is y.rows

    def __call__(self, P: Block, theta: Vector, sign: Vector) -> tuple[Block, Vector]:
        """The product, which the next call overwrites, and the curvatures pᵀ·s(θB − A)p."""
        from genelin.kernels import finish

        k = P.shape[1]
        P, theta, sign = filled_up(P, theta, sign)
        cut, n, dtype = self._x.shape[0], self._x.rows.n, self._dtype
        halves, grams = (slice(0, cut), slice(cut, len(P))), (self._x, self._y)
        P = np.ascontiguousarray(P, dtype)
        U = P * self._factors[:, None] if self._scaled else P
        own = np.stack([gram.weight * sign * theta / n for gram in grams]).astype(dtype)
        shifts = [self._means[half] @ U[half] for half in halves] if self._centred else []
        shift = np.array(shifts, dtype).reshape(-1, P.shape[1])
        task = PairTimes(U, own, (-sign / n).astype(dtype), shift)
        outs, totals = self._summed(task)
        curvature = np.zeros(P.shape[1])
        for half, gram, total in zip(halves, grams, totals, strict=True):
            ridge = (gram.reg * sign * theta).astype(dtype)
            curvature += finish(outs, P, self._means, self._factors, total, ridge, half)
        return outs[0, : len(P), :k], curvature[:k]

    def _summed(self, task: PairTimes) -> tuple[Block, Block]:
        """The product as a sum over the first axis, and its totals."""
        x, y = self._x.rows, self._y.rows
        if not x.in_memory:
            product, totals = x.summed(task, y, task.U.shape[1])
            return product[None], totals
        self._outs = self._room(task.U.shape)
        return self._outs, task.into(self._outs, Part(0, x.matrix, y.matrix, x.weights))

    def _room(self, shape: tuple[int, int]) -> Block:
        """One product a thread; the last ones where they are of that shape."""
        from genelin.kernels import outs_for
        from genelin.kernels.compiled import threads

        same = self._outs.shape[0] == threads() and self._outs.shape[2] == shape[1]
        return self._outs if same else outs_for(threads(), shape, self._dtype)
