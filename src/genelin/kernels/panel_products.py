"""Products of tall blocks by panels: four columns of a block lie together, row by row."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from genelin.kernels.codegen.row_kernels import FOUR, added, dotted
from genelin.kernels.compiled import compiled, threads
from genelin.system.threads import equal, in_threads

__all__ = ["panels_add", "panels_dot", "panels_gram", "panels_rotate", "panels_times"]

PIECE = 256  # rows of a block that stay in the cache while all panels have their turn
WORTH = 2**15  # numbers of panels and of a block that are worth a thread


@compiled
def _dot(panels, W, C, first, last):
    for low in range(first, last, PIECE):
        high = min(low + PIECE, last)
        for p in range(len(panels)):
            dotted(panels[p], W, C[FOUR * p : FOUR * p + FOUR], low, high)


@compiled
def _add(panels, C, W, gram, first, last):
    for low in range(first, last, PIECE):
        high = min(low + PIECE, last)
        for p in range(len(panels)):
            added(panels[p], C[FOUR * p : FOUR * p + FOUR], W, low, high)
        if len(gram):
            dotted(W, W, gram, low, high)


@compiled
def _times(panels, C, out, first, last):
    for low in range(first, last, PIECE):
        high = min(low + PIECE, last)
        out[low:high] = 0
        for p in range(len(panels)):
            added(panels[p], C[FOUR * p : FOUR * p + FOUR], out, low, high)


@compiled
def _rotate(panels, C, kept, room, first, last):
    for low in range(first, last, PIECE):
        high = min(low + PIECE, last)
        rows = high - low
        room[:] = 0
        for p in range(len(panels)):
            added(panels[p, low:high], C[FOUR * p : FOUR * p + FOUR], room, 0, rows)
        for p in range(len(kept)):
            for i in range(rows):
                for c in range(FOUR):
                    kept[p, low + i, c] = room[i, FOUR * p + c]


@compiled
def _gram(panels, total, first, last):
    for low in range(first, last, PIECE):
        high = min(low + PIECE, last)
        for p in range(len(panels)):
            for q in range(p + 1):
                dotted(panels[p], panels[q], total[p, q], low, high)


def panels_dot(panels: Any, W: Any) -> Any:
    """QᵀW for a block Q in panels, an array (count, d, 4), and a W with contiguous rows."""

    def share(first: int, last: int) -> Any:
        C = np.zeros((FOUR * len(panels), W.shape[1]))
        _dot(panels, W, C, first, last)
        return C

    return sum(in_threads(share, _spans(panels, W.shape[1])))


def panels_add(panels: Any, C: Any, W: Any) -> Any:
    """W += QC in place; WᵀW for a W of four columns, else nothing."""
    if not W.flags.c_contiguous:
        raise ValueError("W is not contiguous, and would not be changed: copy it first")
    size = FOUR if W.shape[1] == FOUR else 0

    def share(first: int, last: int) -> Any:
        gram = np.zeros((size, size))
        _add(panels, C, W, gram, first, last)
        return gram

    return sum(in_threads(share, _spans(panels, W.shape[1])))


def panels_times(panels: Any, C: Any, out: Any) -> None:
    """Out = QC, in memory with contiguous rows that is no part of Q."""
    in_threads(partial(_times, panels, C, out), _spans(panels, out.shape[1]))


def panels_rotate(panels: Any, C: Any) -> None:
    """Q ← QC in place, for a C with a multiple of four columns, no more than rows."""
    kept = panels[: C.shape[1] // FOUR]

    def share(first: int, last: int) -> None:
        _rotate(panels, C, kept, np.empty((PIECE, C.shape[1])), first, last)

    in_threads(share, _spans(panels, FOUR * len(panels)))


def panels_gram(panels: Any) -> Any:
    """QᵀQ."""
    count = len(panels)

    def share(first: int, last: int) -> Any:
        total = np.zeros((count, count, FOUR, FOUR))
        _gram(panels, total, first, last)
        return total

    total = sum(in_threads(share, _spans(panels, FOUR * len(panels))))
    lower = total.transpose(0, 2, 1, 3).reshape(FOUR * count, FOUR * count)
    return np.tril(lower) + np.tril(lower, -1).T


def _spans(panels: Any, others: int) -> list[tuple[int, int]]:
    """Rows of every thread, for products of panels and so many other columns."""
    count, d, _ = panels.shape
    most = d * (FOUR * count + others) // WORTH
    return equal(d, min(threads(), most) if most > 1 else 1)
