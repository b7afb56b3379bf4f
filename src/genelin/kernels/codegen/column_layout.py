"""How blocks lie in memory while kernels go through sparse rows.

Entries need rows of blocks here and there. Such a row takes as long as the cache lines that it
touches, and longer where what goes into a register lies across two of them. So kernels see blocks
in two parts: the last four columns may lie elsewhere than those before them, if these fill lines.
"""

from __future__ import annotations

from typing import Any

from genelin.kernels.codegen.loop_builder import HALF
from genelin.kernels.codegen.row_kernels import laid, summed
from genelin.kernels.compiled import compiled, threads
from genelin.system.buffer_pool import LINE, empty, in_line
from genelin.system.threads import equal, in_threads

__all__ = ["FULL", "filled_up", "first_columns", "outs_for", "parted", "room_for", "worthwhile"]

WHOLE = 2 * HALF  # columns of which lines are full
FULL = HALF  # columns that are worked on together, at least
PIECE = 64  # rows that are still in the cache of a core when the next columns have their turn


@compiled
def _summed(outs, apart, into, first, last):
    for low in range(first, last, PIECE):
        summed(outs, apart, into, low, min(low + PIECE, last))


@compiled
def _laid(V, into, out, first, last):
    for low in range(first, last, PIECE):
        laid(V, into, out, low, min(low + PIECE, last))


def worthwhile(stored: int, k: int) -> int:
    """Threads worth starting for so many products."""
    most = stored * k // 2**18
    return min(threads(), most) if most > 1 else 1


def _shares(block: Any) -> list[tuple[int, int]]:
    """Row ranges of a block, to be moved by one thread each."""
    return equal(len(block), worthwhile(block.size, 1))


def filled_up(V: Any) -> Any:
    """V by rows, with zeros for columns beyond a multiple of four: two take as long as eight.

    Rows that fill cache lines begin at one: a row across lines takes as long as two rows.
    """
    (d, k), wide = V.shape, -(-V.shape[1] // FULL) * FULL
    fills_lines = wide * V.itemsize % LINE == 0
    if k == wide and V.flags.c_contiguous and (in_line(V) or not fills_lines):
        return V
    out = empty((d, wide), V.dtype)

    def fill(first: int, last: int) -> None:
        out[first:last, :k] = V[first:last]
        out[first:last, k:] = 0

    in_threads(fill, _shares(V))
    return out


def first_columns(out: Any, k: int) -> Any:
    """Without the columns that filled it up."""
    if out.shape[1] == k:
        return out
    cut = empty((len(out), k), out.dtype)

    def move(first: int, last: int) -> None:
        cut[first:last] = out[first:last, :k]

    in_threads(move, _shares(cut))
    return cut


def parted(block: Any) -> tuple[Any, Any]:
    """All columns but the last four, and those: where they are, so that both are alike to Numba."""
    return block[:, :-HALF], block[:, -HALF:]


def room_for(V: Any, product: Any, count: int, moved: bool, same: bool) -> Any:
    """Where some threads find V, and add to products of their own.

    Parameters
    ----------
    V : the block, filled up to a multiple of four.
    product : room for the sum of the products.
    count : how many threads.
    moved : whether blocks may be laid out anew, which takes a while.
    same : whether entries need the same rows of V and of products.
    """
    halves = V.shape[1] % WHOLE and 2 * V.shape[1] * V.itemsize % LINE == 0
    if moved and same and halves:
        return _Beside(V, product, count)
    return (_InPlace if product.flags.c_contiguous else _Apart)(V, product, count)


class _InPlace:
    """Where `count` threads find V, and leave a product each; that of the first is the sum."""

    def __init__(self, V: Any, product: Any, count: int) -> None:
        self._given, self._product = parted(filled_up(V)), product
        self._others = [empty(product.shape, product.dtype) for _ in range(count - 1)]

    def of(self, t: int) -> tuple[Any, Any]:
        """V and zeros, for thread t."""
        out = self._others[t - 1] if t else self._product
        out.fill(0)
        return self._given, parted(out)

    def sum(self) -> None:
        """Add up the products of all threads."""

        def add(first: int, last: int) -> None:
            for other in self._others:
                self._product[first:last] += other[first:last]

        if self._others:
            in_threads(add, _shares(self._product))


class _Apart:
    """The same for some of the columns, with V and products in memory of their own."""

    def __init__(self, V: Any, product: Any, count: int) -> None:
        self._given, self._product = parted(filled_up(V)), product
        self._own = empty((count, *product.shape), V.dtype)
        self._outs = parted(self._own.reshape(-1, V.shape[1]))

    def of(self, t: int) -> tuple[Any, Any]:
        """V and zeros, for thread t."""
        self._own[t].fill(0)
        return self._given, parted(self._own[t])

    def sum(self) -> None:
        """Add up the products of all threads."""
        given = (self._outs, len(self._product), self._product)
        in_threads(_summed, [(*given, *span) for span in _shares(self._product)])


class _Beside(_Apart):
    """The same, with rows of V and of products beside each other: half lines of both make one.

    For the entries of one matrix, which need both of them.
    """

    def __init__(self, V: Any, product: Any, count: int) -> None:
        self._V, self._product = V, product
        self._own = empty((count, len(V), 2 * V.shape[1]), V.dtype)
        self._outs = self._halves(self._own.reshape(-1, 2 * V.shape[1]))[1]

    def of(self, t: int) -> tuple[Any, Any]:
        """V and zeros, for thread t."""
        given, out = self._halves(self._own[t])
        _laid(self._V, given, out, 0, len(self._V))
        return given, out

    def _halves(self, both: Any) -> tuple[Any, Any]:
        """V, and the product with its last columns first."""
        k = self._V.shape[1]
        return parted(both[:, :k]), (both[:, k + HALF :], both[:, k : k + HALF])


def outs_for(parts: int, shape: tuple[int, int], dtype: Any) -> Any:
    """Room for a product of this shape by each of some threads, (threads, rows, columns).

    There are a few rows more than asked for, so that all products begin at a cache line.
    """
    rows, columns = shape
    return empty((parts, -(-rows // LINE) * LINE, columns), dtype)
