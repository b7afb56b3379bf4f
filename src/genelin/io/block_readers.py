"""Blocks of rows out of files: whatever the format, limits in and matrices out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from genelin.errors import DataError
from genelin.io.number_streams import BeyondError, Numbers, reading
from genelin.system.cached import cached_property

__all__ = ["CsrReader", "DenseReader", "MemoryReader", "PieceReader", "Reader", "floating"]

Limits = Iterable[tuple[int, int]]
Pieces = Callable[[int], Iterator[NDArray[Any]]]
MANY = 1 << 20  # pointers that are looked at together
BIGGEST = 2**31 - 1
SMALL = 1 << 26  # bytes of a chunk that may be larger than all the data
MANY_CHUNKS, SHARE = 10_000, 1000  # of so many chunks, one in a thousand must be there
MOST = 2**58  # numbers of any matrix: their bytes can still be counted


def floating(dtype: np.dtype[Any], place: str) -> np.dtype[Any]:
    """In what stored numbers are worked with: float32 stays, all else becomes float64."""
    if dtype.kind == "c":
        raise DataError(
            f"{place} is complex ({dtype}): store its real part if that is all there is"
        )
    if dtype.kind not in "biuf":
        raise DataError(
            f"{place} has dtype {dtype}, not numbers: encode categories and text, and store floats"
        )
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize == 4 else np.float64)


def check_shape(name: str, shape: tuple[int, ...]) -> None:
    """Rows and columns, some of each."""
    if len(shape) != 2:
        raise DataError(f"{name} must have two dimensions, rows and columns, got {shape}")
    if 0 in shape:
        raise DataError(f"{name} is empty, with shape {shape}: there is nothing to solve")
    if not all(0 < length < MOST for length in shape):
        raise DataError(f"{name} has the shape {shape}, which no data have: it is damaged")


def check_by_rows(path: Path, kind: str) -> None:
    """Sparse matrices are read by rows."""
    if kind != "csr":
        raise DataError(
            f"{path} holds a sparse matrix in format {kind!r:.40}, which cannot be read by rows: "
            "store X.tocsr()"
        )


def check_chunk(name: str, chunk: tuple[int, ...], shape: tuple[int, ...], itemsize: int) -> None:
    """A chunk is unpacked as a whole: a large one must not be larger than all the data."""
    if len(chunk) != len(shape) or not all(type(length) is int and length > 0 for length in chunk):
        raise DataError(f"{name} has chunks of shape {chunk}, the data {shape}: it is damaged")
    if prod(chunk) * itemsize > max(SMALL, 2 * prod(shape) * itemsize):
        raise DataError(
            f"{name} has chunks of shape {chunk}, far larger than the data, {shape}: it is "
            "damaged, or store it in smaller chunks"
        )


def check_present(
    name: str, shape: tuple[int, ...], chunk: tuple[int, ...], stored: Callable[[], int]
) -> None:
    """Missing chunks count as zeros, but where there are hardly any the shape is wrong."""
    promised = prod(-(-length // part) for length, part in zip(shape, chunk, strict=True))
    if promised > MANY_CHUNKS and (there := stored()) < promised // SHARE:
        raise DataError(
            f"{name} has the shape {shape}, {promised:,} chunks, and only {there:,} of them are "
            "there: it is damaged, or was not written to the end"
        )


class Reader(ABC):
    """Rows in files.

    Attributes
    ----------
    name : what messages call it.
    shape : rows and columns.
    dtype : of the blocks, float32 or float64.
    stored : entries, zeros of sparse rows not counted.
    files : that it reads from.
    is_sparse : whether blocks are CSR arrays.
    """

    is_sparse = False
    in_memory = False
    band_bytes = 0  # of rows that the format can only unpack together

    def __init__(
        self, name: str, shape: tuple[int, ...], dtype: Any, stored: int, files: Iterable[Path]
    ) -> None:
        check_shape(name, shape)
        if not 0 <= stored < MOST:
            raise DataError(f"{name} has {stored:,} numbers, which no data have: it is damaged")
        self.name, self.shape, self.stored = name, (int(shape[0]), int(shape[1])), int(stored)
        self.dtype = floating(np.dtype(dtype), name)
        self.watch(files)

    def watch(self, files: Iterable[Path]) -> None:
        """Files that must not change while they are read."""
        self.files = tuple(files)
        self._stamps = self._stamped()

    def _stamped(self) -> tuple[tuple[int, int, int], ...]:
        found = (path.stat() for path in self.files)
        return tuple((entry.st_size, entry.st_mtime_ns, entry.st_ino) for entry in found)

    def check_unchanged(self) -> None:
        """Files that changed since they were opened are refused: a fit needs the same rows."""
        try:
            now = self._stamped()
        except FileNotFoundError as error:
            raise DataError(f"{error.filename} is gone since it was opened") from error
        for path, before, after in zip(self.files, self._stamps, now, strict=True):
            if before != after:
                raise DataError(
                    f"{path} was altered since it was opened (from {before[0]:,} to {after[0]:,} "
                    "bytes, or later in time): let what writes it finish, then open_rows again"
                )

    @abstractmethod
    def bytes_before(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bytes in memory of all rows before each of `rows`."""

    @abstractmethod
    def blocks(self, limits: Limits) -> Iterator[Any]:
        """Rows start … stop − 1 for ascending limits; a block lasts until the next but one."""


class Buffers:
    """Two places that take turns: one is filled while the other is worked on.

    They hold numbers, not bytes: SciPy copies arrays that look short against what they are part of.
    """

    def __init__(self, dtype: Any) -> None:
        self._dtype = np.dtype(dtype)
        self._kept = [np.empty(0, dtype)] * 2
        self._turn = 0

    def next(self, size: int) -> NDArray[Any]:
        """Room for `size` numbers."""
        self._turn = 1 - self._turn
        if len(self._kept[self._turn]) < size:
            self._kept[self._turn] = np.empty(0, self._dtype)  # freed before the larger one
            self._kept[self._turn] = np.empty(size, self._dtype)
        return self._kept[self._turn][:size]


class DenseReader(Reader):
    """Dense rows, or columns, one after the other."""

    def __init__(
        self, name: str, numbers: Numbers, shape: tuple[int, ...], path: Path, fortran: bool = False
    ) -> None:
        super().__init__(name, shape, numbers.dtype, numbers.size, [path])
        self._numbers, self._fortran = numbers, fortran

    def bytes_before(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """All rows have the same length."""
        return rows * (self.shape[1] * self.dtype.itemsize)

    def blocks(self, limits: Limits) -> Iterator[NDArray[Any]]:
        """Read with as few calls as the order allows: one, or one for each column."""
        n, d = self.shape
        buffers = Buffers(self.dtype)
        with reading(self._numbers, self.dtype) as fill:
            for start, stop in limits:
                out = buffers.next((stop - start) * d)
                if not self._fortran:
                    fill(start * d, out)
                    yield out.reshape(stop - start, d)
                    continue
                columns = out.reshape(d, stop - start)
                for j in range(d):
                    fill(j * n + start, columns[j])
                yield columns.T


class CsrReader(Reader):
    """Sparse rows: three arrays as in a scipy CSR array.

    Where `orderly` is false, indices may be unsorted or repeated, as SciPy allows: such rows are
    sorted, and entries in the same place added.
    """

    is_sparse = True

    def __init__(
        self,
        name: str,
        arrays: tuple[Numbers, Numbers, Numbers],  # indptr, indices, data
        shape: tuple[int, ...],
        files: Iterable[Path],
        orderly: bool,
    ) -> None:
        self._indptr, self._indices, self._data = arrays
        super().__init__(name, shape, self._data.dtype, self._data.size, files)
        self._orderly = orderly
        for numbers in (self._indptr, self._indices):
            if numbers.dtype.kind not in "iu":
                raise DataError(f"{numbers.place} has dtype {numbers.dtype}, not whole numbers")
        expected = (self.shape[0] + 1, self.stored)
        for numbers, size in zip((self._indptr, self._indices), expected, strict=True):
            if numbers.size != size:
                raise DataError(
                    f"{numbers.place} has {numbers.size:,} numbers, but {self.shape[0]:,} rows "
                    f"with {self.stored:,} entries need {size:,}: header and arrays disagree; "
                    "write the data anew"
                )
        self._index_dtype = np.dtype(np.int32 if self.shape[1] <= BIGGEST else np.int64)

    @cached_property
    def _grid(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Some rows, with the number of entries before them; all pointers are looked at once."""
        n = self.shape[0]
        step = 1 + n // 2**18
        marks, last = [np.zeros(1, np.int64)], 0
        with reading(self._indptr, np.int64) as fill:
            for start in range(0, n + 1, step * (1 + MANY // step)):
                pointers = np.empty(min(step * (1 + MANY // step), n + 1 - start), np.int64)
                fill(start, pointers)
                self._check_pointers(pointers, start, last)
                last = int(pointers[-1])
                marks.append(pointers[::step])
        if last != self.stored:
            raise self._wrong_pointer(n, last, f"the last must be {self.stored:,}")
        counts = np.concatenate(marks[1:])
        rows = np.arange(0, n + 1, step)
        if rows[-1] != n:
            rows, counts = np.append(rows, n), np.append(counts, self.stored)
        return rows, counts

    def _check_pointers(self, pointers: NDArray[np.int64], start: int, last: int) -> None:
        """Row pointers begin at 0 and never fall."""
        if start == 0 and pointers[0] != 0:
            raise self._wrong_pointer(0, int(pointers[0]), "the first must be 0")
        fallen = np.flatnonzero(np.diff(pointers, prepend=last) < 0)
        if fallen.size:
            row = int(fallen[0])
            raise self._wrong_pointer(start + row, int(pointers[row]), "it is below the one before")

    def _wrong_pointer(self, row: int, value: int, why: str) -> DataError:
        return DataError(
            f"{self._indptr.place}: pointer {row} is {value:,}, but {why}: the file was altered or "
            "written wrongly; write the data anew"
        )

    def bytes_before(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Entries and pointers; between the rows of the grid, in proportion."""
        grid, counts = self._grid
        entry = self.dtype.itemsize + self._index_dtype.itemsize
        before = np.ceil(np.interp(rows, grid, counts)).astype(np.int64)
        return before * entry + rows * 12

    def blocks(self, limits: Limits) -> Iterator[Any]:
        """Read the three arrays side by side; every index is looked at before it is used."""
        kinds = (np.int64, self._index_dtype, self.dtype)
        pointers, columns, values = map(Buffers, kinds)
        with (
            reading(self._indptr, np.int64) as read_pointers,
            reading(self._indices, self._index_dtype) as read_columns,
            reading(self._data, self.dtype) as read_values,
        ):
            seen = (-1, 0)  # a row, and the number of entries before it
            for start, stop in limits:
                indptr = pointers.next(stop - start + 1)
                if seen[0] == start:
                    indptr[0] = seen[1]
                else:
                    read_pointers(start, indptr[:1])
                read_pointers(start + 1, indptr[1:])
                first, last = int(indptr[0]), int(indptr[-1])
                seen = stop, last
                self._check_pointers(indptr, start, 0)
                if last > self.stored:
                    raise self._wrong_pointer(stop, last, f"there are {self.stored:,} entries")
                indptr -= first
                indices = columns.next(last - first)
                data = values.next(last - first)
                try:
                    read_columns(first, indices)
                except BeyondError as error:
                    at = error.at - first
                    raise self._wrong_index((start, first), indptr, at, error.value) from error
                read_values(first, data)
                yield self._matrix(start, first, indptr, indices, data)

    def _matrix(self, start: int, first: int, indptr: Any, indices: Any, data: Any) -> Any:
        from genelin.kernels.csr_checks import first_misplaced

        d = self.shape[1]
        strange, disordered = first_misplaced(indptr, indices, d)
        wrong = strange if strange >= 0 else (disordered if self._orderly else -1)
        if wrong >= 0:
            raise self._wrong_index((start, first), indptr, wrong, int(indices[wrong]))
        if len(indices) <= BIGGEST and indices.dtype == np.int32:
            indptr = indptr.astype(np.int32)
        shape = (len(indptr) - 1, d)
        matrix = sparse.csr_array((data, indices, indptr), shape=shape, copy=False)
        if disordered >= 0:
            matrix.sum_duplicates()
        matrix.has_sorted_indices = matrix.has_canonical_format = True
        return matrix

    def _wrong_index(
        self, begin: tuple[int, int], indptr: NDArray[Any], at: int, value: int
    ) -> DataError:
        """The error for entry `at` of a block that begins with a row and an entry of the file."""
        start, first = begin
        row = start + int(np.searchsorted(indptr, at, side="right")) - 1
        why = (
            "indices must ascend within a row, each at most once"
            if 0 <= value < self.shape[1]
            else f"there are {self.shape[1]:,} columns"
        )
        return DataError(
            f"{self._indices.place}: entry {first + at} (row {row}) has the column index {value}, "
            f"but {why}: the file was altered or written wrongly; write it anew, e.g. with "
            "genelin.io.convert from the original"
        )


class PieceReader(Reader):
    """Dense rows that come in pieces of the format's own, in groups that can be reached at once."""

    def __init__(
        self, name: str, starts: NDArray[np.int64], columns: int, dtype: Any, files: Iterable[Path]
    ) -> None:
        n = int(starts[-1])
        super().__init__(name, (n, columns), dtype, n * columns, files)
        self._starts = starts  # the first row of every group, and n

    @abstractmethod
    def opened(self) -> AbstractContextManager[Pieces]:
        """A function from the number of a group to its rows, piece by piece."""

    def bytes_before(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """All rows have the same length."""
        return rows * (self.shape[1] * self.dtype.itemsize)

    def blocks(self, limits: Limits) -> Iterator[NDArray[Any]]:
        """Copy pieces together; groups without a row that is asked for are not read."""
        d, buffers = self.shape[1], Buffers(self.dtype)
        low = high = 0  # rows of the current piece
        coming: Iterator[NDArray[Any]] = iter(())
        group, piece = -1, np.empty((0, d))
        with self.opened() as pieces:
            for start, stop in limits:
                out = buffers.next((stop - start) * d).reshape(stop - start, d)
                at = start
                while at < stop:
                    while not low <= at < high:
                        wanted = int(np.searchsorted(self._starts, at, side="right")) - 1
                        if wanted != group:
                            group, coming, high = wanted, pieces(wanted), int(self._starts[wanted])
                        piece = self._checked(next(coming, None), group, high)
                        low, high = high, high + len(piece)
                    last = min(stop, high)
                    out[at - start : last - start] = piece[at - low : last - low]
                    at = last
                yield out

    def _checked(self, piece: NDArray[Any] | None, group: int, row: int) -> NDArray[Any]:
        """A piece of a group, which begins at a row."""
        if piece is None or not len(piece):
            found = "ends early"
        elif piece.ndim != 2 or piece.shape[1] != self.shape[1]:
            found = f"has pieces of shape {piece.shape}"
        elif row + len(piece) > self._starts[group + 1]:
            found = f"has more than its {self._starts[group + 1] - self._starts[group]} rows"
        else:
            return piece
        raise DataError(
            f"{self.name}, chunk {group} (from row {self._starts[group]}) {found}, where "
            f"{self.shape[1]} columns were promised: write the data anew"
        )


class MemoryReader(Reader):
    """A matrix that is in memory already."""

    in_memory = True

    def __init__(self, name: str, matrix: Any) -> None:
        self.is_sparse = bool(sparse.issparse(matrix))
        stored = matrix.nnz if self.is_sparse else matrix.size
        super().__init__(name, matrix.shape, matrix.dtype, stored, [])
        self.matrix = matrix

    def bytes_before(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """As if they were read: blocks are to fit the cache."""
        if not self.is_sparse:
            return rows * (self.shape[1] * self.dtype.itemsize)
        entries: NDArray[np.int64] = self.matrix.indptr[rows].astype(np.int64)
        return entries * (4 + self.dtype.itemsize) + rows * 12

    def blocks(self, limits: Limits) -> Iterator[Any]:
        """Views, not copies."""
        X = self.matrix
        for start, stop in limits:
            if not self.is_sparse:
                yield X[start:stop]
                continue
            first, last = X.indptr[start], X.indptr[stop]
            entries = X.data[first:last], X.indices[first:last]
            part = sparse.csr_array(
                (*entries, X.indptr[start : stop + 1] - first),
                shape=(stop - start, self.shape[1]),
                copy=False,
            )
            part.has_sorted_indices = part.has_canonical_format = True
            yield part
