"""One pass over rows on disk: blocks of a bounded size, the next one read by a thread meanwhile."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from genelin.data.row_blocks import Part, RowSource, Task
from genelin.errors import DataError
from genelin.io.block_readers import MemoryReader, Reader
from genelin.operators import as_rows

__all__ = ["BlockSource", "block_limits", "loaded", "prefetched", "taken_from"]

BLOCK = 1 << 24  # bytes of dense rows that are read at a time: they stay in the cache
SPARSE_BLOCK = 1 << 25  # of sparse rows, whose sums are long against their blocks
SPAN = 1 << 24  # bytes read together for some of the rows
GAP = 1 << 16  # bytes between rows that are read rather than skipped

Item = TypeVar("Item")


class BlockSource:
    """Rows of a `Reader` as a `RowSource`.

    A part is valid while its task is called: the memory is used again for the block after next.
    """

    def __init__(self, reader: Reader, max_memory: float) -> None:
        self.reader, self.max_memory = reader, max_memory
        self.shape, self.dtype, self.stored = reader.shape, reader.dtype, reader.stored
        self.is_sparse, self.name = reader.is_sparse, reader.name

    @property
    def held(self) -> Any:
        """The matrix, if it is in memory as a whole."""
        return self.reader.matrix if isinstance(self.reader, MemoryReader) else None

    def summed(
        self,
        task: Task,
        other: RowSource | None = None,
        weights: NDArray[np.float64] | None = None,
        columns: int = 1,
    ) -> tuple[Any, ...]:
        """Merge task(part) over all blocks of rows, of both sources where there are two."""
        readers, memory = [self.reader], self.max_memory
        if other is not None:
            partner = self._partner(other)
            readers.append(partner.reader)
            memory = min(memory, partner.max_memory)
        for reader in readers:
            reader.check_unchanged()
        limits = block_limits(readers, columns, memory)
        total: tuple[Any, ...] | None = None
        with closing(_side_by_side(readers, limits)) as blocks:
            for (start, stop), views in zip(limits, blocks, strict=True):
                own = None if weights is None else weights[start:stop]
                found = task(Part(start, views[0], views[1] if other else None, own))
                total = found if total is None else task.merge(total, found)
        for reader in readers:
            reader.check_unchanged()
        assert total is not None  # there is at least one row
        return total

    def _partner(self, other: RowSource) -> BlockSource:
        if not isinstance(other, BlockSource):
            raise TypeError(
                f"{self.name} is on disk and {other.name} is not: open both with open_rows, or "
                "load one of them into memory"
            )
        if other.shape[0] != self.shape[0]:
            raise DataError(
                f"{self.name} has {self.shape[0]:,} rows and {other.name} has {other.shape[0]:,}: "
                "the views must have the same rows"
            )
        return other

    def taken(self, rows: NDArray[np.int64]) -> Any:
        """Some rows, in memory; what lies far from them is not read."""
        self.reader.check_unchanged()
        return taken_from(self.reader, rows)

    def beside(self, matrix: Any) -> BlockSource:
        """A matrix in memory, as a source that can go with this one."""
        held = MemoryReader("a matrix in memory", as_rows(matrix).matrix)
        if held.shape[0] != self.shape[0]:
            raise ValueError(
                f"{self.name} has {self.shape[0]:,} rows, the matrix beside it {held.shape[0]:,}"
            )
        return BlockSource(held, self.max_memory)


def block_limits(readers: list[Reader], columns: int, memory: float) -> list[tuple[int, int]]:
    """Row ranges of blocks for which `memory` suffices.

    Counted are two buffers for every view (one is read while the other is worked on), a working
    copy in double precision, and three times `columns` numbers for every row. No block is larger
    than it need be: 16 MB (32 MB if sparse), or four times as many rows as columns, so that what
    is summed up for every column is not the larger part of the work.
    """
    n = readers[0].shape[0]
    rows = np.append(np.arange(0, n, 1 + n // 2**18), n).astype(np.int64)
    read = np.sum([reader.bytes_before(rows) for reader in readers], axis=0)
    in_double = [reader.bytes_before(rows) * (8 // reader.dtype.itemsize) for reader in readers]
    copied = np.sum(in_double, axis=0)
    used = 2 * read + copied + 24 * columns * rows
    widest = max(reader.shape[1] for reader in readers)
    least = SPARSE_BLOCK if any(reader.is_sparse for reader in readers) else BLOCK
    enough = max(least, int(read[-1] / n * 4 * widest))
    cuts = [0]
    while cuts[-1] < len(rows) - 1:
        at = cuts[-1]
        fits = np.searchsorted(used, used[at] + memory, side="right") - 1
        suffices = np.searchsorted(read, read[at] + enough, side="left")
        cuts.append(int(min(max(min(fits, suffices), at + 1), len(rows) - 1)))
    return [(int(rows[i]), int(rows[j])) for i, j in pairwise(cuts)]


def _side_by_side(
    readers: list[Reader], limits: list[tuple[int, int]]
) -> Generator[tuple[Any, ...], None, None]:
    """The same rows of all readers; read ahead unless they are all in memory."""
    blocks = zip(*(reader.blocks(limits) for reader in readers), strict=True)
    if all(reader.in_memory for reader in readers):
        yield from blocks
    else:
        yield from prefetched(blocks)


def prefetched(items: Iterator[Item]) -> Generator[Item, None, None]:
    """The items, each made by a thread while the one before is in use.

    Examples
    --------
    >>> list(prefetched(iter("abc")))
    ['a', 'b', 'c']
    """
    with ThreadPoolExecutor(1, thread_name_prefix="genelin-read") as pool:
        end = object()
        coming = pool.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, items, end)
            yield item  # type: ignore[misc]


def loaded(reader: Reader, memory: float) -> Any:
    """All rows in memory, copied block by block into their place."""
    (n, d), at = reader.shape, 0
    blocks = prefetched(reader.blocks(block_limits([reader], 0, memory)))
    if not reader.is_sparse:
        matrix = np.empty((n, d), reader.dtype)
        for block in blocks:
            matrix[at : at + len(block)] = block
            at += len(block)
        return matrix
    row, indptr = 0, np.zeros(n + 1, np.int32 if reader.stored < 2**31 else np.int64)
    indices = np.empty(reader.stored, np.int32 if d < 2**31 else np.int64)
    data = np.empty(reader.stored, reader.dtype)
    for block in blocks:
        rows, entries = block.shape[0], block.nnz
        indptr[row + 1 : row + rows + 1] = block.indptr[1:].astype(indptr.dtype) + at
        indices[at : at + entries], data[at : at + entries] = block.indices, block.data
        row, at = row + rows, at + entries
    matrix = sparse.csr_array((data[:at], indices[:at], indptr), shape=(n, d), copy=False)
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


def taken_from(reader: Reader, rows: NDArray[np.int64]) -> Any:
    """Some rows of a reader, in the order given."""
    n, rows = reader.shape[0], np.asarray(rows, np.int64)
    if len(rows) and not 0 <= rows.min() <= rows.max() < n:
        raise IndexError(f"{reader.name} has rows 0 to {n - 1}, asked for {rows.max()}")
    if not len(rows):
        empty = np.empty((0, reader.shape[1]), reader.dtype)
        return sparse.csr_array(empty) if reader.is_sparse else empty
    ascending, place = np.unique(rows, return_inverse=True)
    spans = _spans(ascending, reader)
    limits = [(int(span[0]), int(span[-1]) + 1) for span in spans]
    found = [
        block[span - span[0]] for span, block in zip(spans, reader.blocks(limits), strict=True)
    ]
    if reader.is_sparse:
        matrix = sparse.csr_array(sparse.vstack(found, format="csr"))
    else:
        matrix = np.concatenate(found)
    return matrix if np.array_equal(ascending, rows) else matrix[place]


def _spans(rows: NDArray[np.int64], reader: Reader) -> list[NDArray[np.int64]]:
    """Cut ascending rows where a long gap follows, and where a span grows long."""
    before = reader.bytes_before(rows)
    cut = np.diff(before, prepend=before[0]) > GAP
    cut |= np.diff(before // SPAN, prepend=before[0] // SPAN) > 0
    return np.split(rows, np.flatnonzero(cut))
