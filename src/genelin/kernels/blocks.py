"""How blocks lie in memory while kernels go through sparse rows.

Entries need rows of blocks here and there. Such a row takes as long as the lines of memory that it
touches, and longer where what goes into a register lies across two of them. So kernels see blocks
in two parts: the columns that fill lines, eight by eight, and four that may be left.
"""

from __future__ import annotations

from typing import Any

from genelin.kernels.compiled import compiled, threads
from genelin.kernels.loops import HALF
from genelin.kernels.rows import laid, summed
from genelin.room import LINE, empty, in_line
from genelin.threads import equal, in_threads

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
    return max(1, min(threads(), stored * k // 2**18))


def _shares(block: Any) -> list[tuple[int, int]]:
    """Row ranges of a block, to be moved by one thread each."""
    return equal(len(block), worthwhile(block.size, 1))


def filled_up(V: Any) -> Any:
    """V by rows, with zeros for columns beyond a multiple of four: two take as long as eight."""
    (d, k), wide = V.shape, -(-V.shape[1] // FULL) * FULL
    if k == wide and V.strides[1] == V.itemsize:
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


def parted(V: Any, moved: bool) -> Any:
    """V in two parts, filled up to a multiple of four.

    It is copied if it may be `moved` for that, or if rows that fill lines do not begin at one.
    """
    V = filled_up(V)
    rest = V.shape[1] % WHOLE > 0
    if (rest and not moved) or (not rest and V.flags.c_contiguous and in_line(V)):
        return _views(V)
    into = _parts(V.shape, V.dtype)
    in_threads(_summed, [(V, len(V), into, *span) for span in _shares(V)])
    return into


def _views(block: Any) -> tuple[Any, Any]:
    """Both parts of a block where they are."""
    cut = block.shape[1] // WHOLE * WHOLE
    return block[:, :cut], block[:, cut:]


def _parts(shape: tuple[int, int], dtype: Any) -> tuple[Any, Any]:
    """Room for a block in two parts."""
    (rows, columns), rest = shape, shape[1] % WHOLE
    return empty((rows, columns - rest), dtype), empty((rows, rest), dtype)


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
    rest, size = V.shape[1] % WHOLE, V.shape[1] * V.itemsize
    if moved and same and rest and 2 * size % LINE == 0:
        return _Beside(V, product, count)
    if moved and (rest or not product.flags.c_contiguous):
        return _Apart(V, product, count)
    return _InPlace(V, product, count)


class _InPlace:
    """Where `count` threads find V, and leave a product each; that of the first is the sum."""

    def __init__(self, V: Any, product: Any, count: int) -> None:
        self._given, self._product = parted(V, moved=False), product
        self._others = [empty(product.shape, product.dtype) for _ in range(count - 1)]

    def of(self, t: int) -> tuple[Any, Any]:
        """V and zeros, for thread t."""
        out = self._others[t - 1] if t else self._product
        out.fill(0)
        return self._given, _views(out)

    def sum(self) -> None:
        """Add up the products of all threads."""

        def add(first: int, last: int) -> None:
            for other in self._others:
                self._product[first:last] += other[first:last]

        if self._others:
            in_threads(add, _shares(self._product))


class _Apart:
    """The same, with both parts of V and of the products apart."""

    def __init__(self, V: Any, product: Any, count: int) -> None:
        self._product, d = product, len(product)
        self._given, self._outs = parted(V, moved=True), _parts((count * d, V.shape[1]), V.dtype)

    def of(self, t: int) -> tuple[Any, Any]:
        """V and zeros, for thread t."""
        out = self._rows(self._outs, t)
        for part in out:
            part.fill(0)
        return self._given, out

    def _rows(self, parts: Any, t: int) -> Any:
        d = len(self._product)
        return tuple(part[t * d : (t + 1) * d] for part in parts)

    def sum(self) -> None:
        """Add up the products of all threads."""
        given = (self._outs, len(self._product), self._product)
        in_threads(_summed, [(*given, *span) for span in _shares(self._product)])


class _Beside(_Apart):
    """The same, with rows of V and of products beside each other: half lines of both make one.

    For the entries of one matrix, which need both of them.
    """

    def __init__(self, V: Any, product: Any, count: int) -> None:
        (d, k), self._V, self._product = V.shape, V, product
        both, rest = empty((count * d, 2 * k), V.dtype), k % WHOLE
        self._given = both[:, : k - rest], both[:, k - rest : k]
        self._outs = both[:, k + rest :], both[:, k : k + rest]

    def of(self, t: int) -> tuple[Any, Any]:
        """V and zeros, for thread t."""
        given, out = (self._rows(parts, t) for parts in (self._given, self._outs))
        _laid(self._V, given, out, 0, len(self._V))
        return given, out


def outs_for(parts: int, shape: tuple[int, int], dtype: Any) -> Any:
    """Room for a product of this shape by each of some threads, (threads, rows, columns).

    There are a few rows more than asked for, so that all products begin at a line of memory.
    """
    rows, columns = shape
    return empty((parts, -(-rows // LINE) * LINE, columns), dtype)
