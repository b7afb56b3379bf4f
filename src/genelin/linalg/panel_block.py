"""A tall block that grows by a few columns at a time, four of which lie together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genelin.linalg.column_products import Block
from genelin.linalg.tall_skinny import tall_dot
from genelin.system.buffer_pool import empty

__all__ = ["Panels", "turned"]

FOUR = 4  # columns of a panel


class Panels:
    """A block Q of d rows with room for some columns, in panels of four by rows.

    Products with the last few columns read no others, and a block of four columns that was written
    to the `next_panel` need not be moved. Columns behind those that were put are zero, up to the
    end of their panel.

    Examples
    --------
    >>> Q = Panels(d=3, room=8)
    >>> Q.put(0, np.eye(3, 2))
    >>> Q.dot(slice(1, 2), np.arange(3.0)[:, None]).tolist()
    [[1.0]]
    >>> Q.times(np.ones((2, 1))).tolist()
    [[1.0], [1.0], [0.0]]
    """

    def __init__(self, d: int, room: int) -> None:
        self._all = empty((-(-room // FOUR), d, FOUR))

    def first(self, columns: int) -> NDArray[np.float64]:
        """The panels of the first columns, as they lie in memory: (count, d, 4)."""
        return self._all[: -(-columns // FOUR)]  # type: ignore[no-any-return]

    def refill(self, panels: NDArray[np.float64]) -> None:
        """Take the first panels of another block."""
        self._all[: len(panels)] = panels

    def next_panel(self, size: int, columns: int) -> Block | None:
        """Where so many columns will be put behind others, if they are a panel of their own."""
        place = size // FOUR
        alone = size % FOUR == 0 and columns == FOUR and place < len(self._all)
        return self._all[place] if alone else None

    def put(self, size: int, Z: Block) -> None:
        """Write columns behind so many others."""
        panel = self.next_panel(size, Z.shape[1])
        if panel is not None:
            if panel.ctypes.data != Z.ctypes.data:
                turned(np.ascontiguousarray(Z), np.eye(FOUR), panel)
            return
        for column in range(Z.shape[1]):
            place, lane = divmod(size + column, FOUR)
            self._all[place, :, lane] = Z[:, column]
        self._all[place, :, lane + 1 :] = 0.0

    def dot(self, columns: slice, W: Block) -> Block:
        """QᵀW for some columns of Q."""
        from genelin import kernels

        panels, before = self._covering(columns)
        C: Block = kernels.panels_dot(panels, np.ascontiguousarray(W))
        return C[before : before + columns.stop - columns.start]

    def subtract(self, columns: slice, C: Block, W: Block) -> Block:
        """W −= QC in place for some columns of Q, and WᵀW."""
        from genelin import kernels

        panels, before = self._covering(columns)
        gram: Block = kernels.panels_add(panels, -_filled(C, before), W)
        return gram if len(gram) else tall_dot(W, W)

    def _covering(self, columns: slice) -> tuple[NDArray[np.float64], int]:
        """Panels with these columns, and how many other columns come first."""
        place, before = divmod(columns.start, FOUR)
        return self._all[place : -(-columns.stop // FOUR)], before

    def times(self, U: Block) -> Block:
        """QU for as many columns of Q as U has rows."""
        from genelin import kernels

        out: Block = empty((self._all.shape[1], U.shape[1]))
        kernels.panels_times(self.first(len(U)), _filled(U), out)
        return out

    def rotate(self, X: Block) -> None:
        """Q ← QX in place, for as many columns of Q as X has rows."""
        from genelin import kernels

        kernels.panels_rotate(self.first(len(X)), _filled(_filled(X).T).T.copy())

    def gram(self, size: int) -> Block:
        """QᵀQ of the first columns."""
        from genelin import kernels

        gram: Block = kernels.panels_gram(self.first(size))
        return gram[:size, :size]


def _filled(C: Block, before: int = 0) -> Block:
    """Rows of zeros before C, and behind it up to a multiple of four."""
    rows = before + len(C)
    if before == 0 and rows % FOUR == 0:
        return np.ascontiguousarray(C)
    filled = np.zeros((-(-rows // FOUR) * FOUR, C.shape[1]))
    filled[before:rows] = C
    return filled


def turned(W: Block, T: Block, panel: Block) -> Block:
    """WT of a block of four columns, written to a panel.

    Examples
    --------
    >>> turned(np.eye(4), 2.0 * np.eye(4), np.empty((4, 4)))[0].tolist()
    [2.0, 0.0, 0.0, 0.0]
    """
    from genelin import kernels

    kernels.panels_times(W[None], np.ascontiguousarray(T), panel)
    return panel
