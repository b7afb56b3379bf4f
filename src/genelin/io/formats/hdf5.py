"""The X of an AnnData file, or of any HDF5 file: dense or CSR."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from io import RawIOBase
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genelin.errors import DataError
from genelin.io.block_readers import (
    SMALL,
    CsrReader,
    DenseReader,
    PieceReader,
    Pieces,
    Reader,
    check_by_rows,
    check_chunk,
    check_present,
    check_shape,
)
from genelin.io.damaged_files import decoding, regular
from genelin.io.number_streams import Fill, Flat
from genelin.io.optional_libraries import storage

__all__ = ["open_h5ad"]

BAND = 1 << 23  # bytes of rows that are read together where chunks are small
CSR = ("indptr", "indices", "data")
OBJECT = 16  # bytes of the header of an object in a global heap, and of the heap itself
SPARE = 4096  # bytes by which a packed chunk may be longer than one that is not
DEFLATE, SHUFFLE, FLETCHER, LZF = 1, 2, 3, 32000  # filters of HDF5, by number
CHECKSUM = 4  # bytes
TEXT = np.dtype([("length", "<u4"), ("place", "<u8"), ("number", "<u4")])  # as it is stored
ATTRIBUTES = (b"_index\0", b"encoding-type\0", b"h5sparse_format\0")  # that are read
GLOBAL_HEAP = b"GCOL"
HEAPS = (GLOBAL_HEAP, b"HEAP")  # whose length is 8 bytes from the ninth on


def open_h5ad(path: Path) -> tuple[Reader, list[str] | None]:
    """The X of an AnnData file, dense or CSR, and the names of its variables."""
    with _watched(path) as file, decoding(path):
        if "X" not in file:
            raise DataError(
                f"{path} has no X, only {', '.join(sorted(file)) or 'nothing'}: it is not an "
                "AnnData file"
            )
        X = _found(file, "X", path)
        if hasattr(X, "shape"):
            reader = _h5_dense(path, X)
            return reader, _variables(file, path, reader.shape[1])
        kind = str(X.attrs.get("encoding-type", X.attrs.get("h5sparse_format", "")))
        check_by_rows(path, kind.removesuffix("_matrix"))
        if missing := {*CSR} - set(X):
            raise DataError(f"{path}: X lacks {', '.join(sorted(missing))}: write it anew")
        shape = np.asarray(X.attrs.get("shape", X.attrs.get("h5sparse_shape")))
        if shape.shape != (2,) or shape.dtype.kind not in "iu":
            raise DataError(f"{path}: the shape of X is not two whole numbers: write it anew")
        arrays = [H5Numbers.of(path, f"X/{name}", _found(X, name, path)) for name in CSR]
        chosen, sizes = (arrays[0], arrays[1], arrays[2]), tuple(shape.tolist())
        by_rows = CsrReader(str(path), chosen, sizes, [path], orderly=False)
        return by_rows, _variables(file, path, by_rows.shape[1])


def _variables(file: Any, path: Path, columns: int) -> list[str] | None:
    """The index of the table `var`: a name for every column."""
    var = file.get("var")
    index = None if var is None else var.attrs.get("_index")
    if not isinstance(index, str) or index not in var or not hasattr(var[index], "asstr"):
        return None
    names = _found(var, index, path)
    if names.dtype.kind not in "OS" or names.ndim != 1:
        return None
    if len(names) != columns:
        raise DataError(f"{path} names {len(names):,} columns, but X has {columns:,}")
    _check_texts(names, path)
    return [str(name) for name in names.asstr()[:]]


def _check_texts(names: Any, path: Path) -> None:
    """Texts of any length must not be longer than the file, for HDF5 makes room before it looks."""
    size, itemsize = path.stat().st_size, TEXT.itemsize
    if names.dtype.kind != "O" or names.file.id.get_create_plist().get_sizes()[0] != 8:
        return  # of a fixed length, or with places in fewer bytes
    for content in _stored_texts(names, path):
        if len(content) % itemsize:
            raise DataError(f"{path}: the texts of {names.name} are cut off: it is damaged")
        if np.any(np.frombuffer(content, TEXT)["length"] > size):
            raise DataError(f"{path}: {names.name} has a text that is longer than the file")


def _stored_texts(names: Any, path: Path) -> Iterator[bytes]:
    """The lengths and places of texts, as far as they can be had."""
    held = TEXT.itemsize * prod(names.chunks or names.shape)
    if names.chunks:
        for first in range(0, len(names), names.chunks[0]):
            if names.id.get_chunk_info_by_coord((first,)).size:
                used, packed = _packed(names, (first,))
                content = _unpacked(used, packed, held)
                if content is not None:
                    shuffled = np.frombuffer(content, np.uint8).reshape(TEXT.itemsize, -1)
                    yield shuffled.T.tobytes() if SHUFFLE in used else content
    elif (offset := names.id.get_offset()) is not None:
        with open(path, "rb") as file:
            file.seek(offset)
            yield file.read(held)


def _h5_dense(path: Path, X: Any) -> Reader:
    """Read past HDF5 where X lies in one piece; else in bands of whole chunks."""
    offset = X.id.get_offset() if X.chunks is None else None
    if offset is not None and X.ndim == 2 and X.dtype.kind in "biuf":
        flat = Flat(path, int(offset), X.dtype, int(X.size))
        flat.check_size(exactly=False)
        return DenseReader(str(path), flat, X.shape, path)
    return H5Reader(path, X)


class Looked:
    """How far the packed chunks of a data set have been looked at: once is enough."""

    def __init__(self) -> None:
        self._to = 0

    def look(self, X: Any, first: int, last: int) -> None:
        """Refuse chunks of these rows that unpack to more than a chunk holds."""
        if X.chunks is None or last <= self._to:
            return
        goes_on = first <= self._to
        first = max(first, self._to)
        starts = [range(first // X.chunks[0] * X.chunks[0], last, X.chunks[0])]
        starts += [range(0, n, step) for n, step in zip(X.shape[1:], X.chunks[1:], strict=True)]
        for place in product(*starts):
            _check_unpacked(X, place)
        if goes_on:
            self._to = last


def _check_unpacked(X: Any, place: tuple[int, ...]) -> None:
    """A chunk must unpack to what a chunk holds: HDF5 itself believes whatever it finds."""
    held = prod(X.chunks) * X.dtype.itemsize
    size = X.id.get_chunk_info_by_coord(place).size
    if not size:
        return  # never written
    plain = not X.id.get_create_plist().get_nfilters()  # of which HDF5 reads no more than it finds
    length = size if plain or size > 2 * held + SPARE else _unpacked_length(X, place, held)
    if length not in (held, held + CHECKSUM * bool(X.fletcher32)):
        raise DataError(
            f"{X.file.filename}: the chunk at {place} of {X.name} does not unpack to the {held:,} "
            "bytes of a chunk: it is damaged, or was written wrongly"
        )


def _unpacked_length(X: Any, place: tuple[int, ...], held: int) -> int:
    """To how many bytes a chunk unpacks, counted as far as is needed."""
    used, packed = _packed(X, place)
    if used[-1:] == [LZF]:
        from genelin.kernels.lzf_length import lzf_length

        return int(lzf_length(np.frombuffer(packed, np.uint8)))
    content = _unpacked(used, packed, held)
    return held if content is None else len(content)  # of other filters, nothing can be told


def _packed(X: Any, place: tuple[int, ...]) -> tuple[list[int], bytes]:
    """The filters that a chunk has gone through, but for a checksum at its end, and its bytes."""
    settings = X.id.get_create_plist()
    filters = [settings.get_filter(i)[0] for i in range(settings.get_nfilters())]
    mask, packed = X.id.read_direct_chunk(place)
    used = [kind for i, kind in enumerate(filters) if not mask >> i & 1]
    return (used[:-1], packed[:-CHECKSUM]) if used[-1:] == [FLETCHER] else (used, packed)


def _unpacked(used: list[int], packed: bytes, held: int) -> bytes | None:
    """A chunk before it was packed, still shuffled; None where it was packed by other means."""
    if used[-1:] == [DEFLATE]:
        used, packed = used[:-1], zlib.decompressobj().decompress(packed, held + CHECKSUM + 1)
    return None if set(used) - {SHUFFLE, FLETCHER} else packed


class H5Reader(PieceReader):
    """A dense data set `X` in HDF5, read in bands of whole chunks."""

    def __init__(self, path: Path, X: Any) -> None:
        check_shape(f"{path}, X", X.shape)
        n, d = X.shape
        rows = X.chunks[0] if X.chunks else 1
        band = rows * max(1, BAND // max(1, rows * d * X.dtype.itemsize))
        self.band_bytes = min(rows, n) * d * X.dtype.itemsize
        starts = np.append(np.arange(0, n, band), n)
        super().__init__(str(path), starts, d, X.dtype, [path])
        self._looked = Looked()

    @contextmanager
    def opened(self) -> Iterator[Pieces]:
        """A band at a time."""
        path = Path(self.name)
        with _opened(path) as file:
            with decoding(path):
                X = _found(file, "X", path)

            def pieces(band: int) -> Iterator[NDArray[Any]]:
                first, last = int(self._starts[band]), int(self._starts[band + 1])
                with decoding(f"{path}, rows {first} to {last - 1} of X"):
                    self._looked.look(X, first, last)
                    yield X[first:last]

            yield pieces


@dataclass(frozen=True)
class H5Numbers:
    """A one-dimensional data set in HDF5."""

    path: Path
    name: str
    dtype: np.dtype[Any]
    size: int
    looked: Looked = field(default_factory=Looked, compare=False, repr=False)

    @classmethod
    def of(cls, path: Path, name: str, found: Any) -> H5Numbers:
        """What a data set holds, if it is one of numbers in a row."""
        numbers = cls(path, name, getattr(found, "dtype", np.dtype("V0")), 0)
        if numbers.dtype.kind not in "biufc" or found.ndim != 1:
            raise DataError(f"{numbers.place} is not a plain array of numbers")
        return cls(path, name, found.dtype, int(found.shape[0]))

    @property
    def place(self) -> str:
        """The file and the data set."""
        return f"{self.path}, array {self.name!r}"

    @contextmanager
    def opened(self) -> Iterator[Fill]:
        """Read straight into place."""
        with _opened(self.path) as file:
            with decoding(self.place):
                found = _found(file, self.name, self.path)

            def fill(first: int, out: NDArray[Any]) -> None:
                if out.size:
                    with decoding(self.place):
                        self.looked.look(found, first, first + len(out))
                        found.read_direct(out, np.s_[first : first + len(out)])

            yield fill


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    h5py = storage("h5py", path)
    with decoding(path, "is not an HDF5 file, or is damaged"):
        file = h5py.File(regular(path), "r")
    with file:
        yield file


def _text_length(content: bytes, name: bytes) -> int:
    """The length that metadata give to the text of an attribute; 0 where there is none.

    Before the name stand a version and three lengths: of the name, of the datatype (whose class 9
    is text of any length) and of the shape, which follow; then comes the text's own.
    """
    at = content.find(name)
    for version, start in ((1, at - 8), (2, at - 8), (3, at - 9)):
        if start < 0 or content[start] != version:
            continue
        sizes = struct.unpack_from("<HHH", content, start + 2)
        steps = [-(-size // 8) * 8 if version == 1 else size for size in sizes]
        kind, text = at + steps[0], at + sum(steps)
        if sizes[0] == len(name) and text + 4 <= len(content) and content[kind] & 15 == 9:
            return int.from_bytes(content[text : text + 4], "little")
    return 0


class _Watched(RawIOBase):
    """A file whose heaps and texts are no longer than it is: HDF5 makes room before it looks."""

    def __init__(self, path: Path) -> None:
        self._file = open(regular(path), "rb", buffering=0)  # noqa: SIM115 - closed with this
        self._size = path.stat().st_size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        got = self._file.readinto(buffer) or 0
        content = bytes(memoryview(buffer)[:got])
        if content[:4] in HEAPS and int.from_bytes(content[8:16], "little") > self._size:
            raise OSError("a heap in it is longer than the file")
        if content[:4] == GLOBAL_HEAP and not _heap_ends(content):
            raise OSError("an object of a heap in it has no length")
        if any(_text_length(content, name) > self._size for name in ATTRIBUTES):
            raise OSError("a text in it is longer than the file")
        return got

    def close(self) -> None:
        self._file.close()
        super().close()


def _heap_ends(content: bytes) -> bool:
    """Whether the objects of a global heap lead from one to the next: HDF5 would go on for ever."""
    end, place = min(int.from_bytes(content[8:16], "little"), len(content)), OBJECT
    while place + OBJECT <= end:
        length = int.from_bytes(content[place + 8 : place + 16], "little")
        used = any(content[place : place + 2])  # number 0 is what is free, its header included
        step = OBJECT + -(-length // 8) * 8 if used else length
        if step == 0:
            return False
        place += step
    return True


@contextmanager
def _watched(path: Path) -> Iterator[Any]:
    """Open a file to look at what it says of itself."""
    h5py = storage("h5py", path)
    with closing(_Watched(path)) as watched:
        with decoding(path, "is not an HDF5 file, or is damaged"):
            file = h5py.File(watched, "r")
        with file:
            yield file


def _found(group: Any, name: str, path: Path) -> Any:
    """A group or a data set, with all its numbers in this very file."""
    h5py = storage("h5py", path)
    found = None
    if not isinstance(group.get(name, getlink=True), h5py.ExternalLink):
        found = group[name]
    stored = isinstance(found, h5py.Dataset)
    if found is None or (stored and (found.is_virtual or found.external)):
        raise DataError(f"{path}: {name} lies in other files: write it anew, into one file")
    if stored:
        _check_stored(found, path)
    return found


def _check_stored(found: Any, path: Path) -> None:
    """What a data set promises must be there."""
    if found.shape is None:
        raise DataError(f"{path}: {found.name} does not hold numbers")
    place, itemsize = f"{path}, {found.name}", found.dtype.itemsize
    if found.chunks:
        check_chunk(place, found.chunks, found.shape, itemsize)
        check_present(place, found.shape, found.chunks, found.id.get_num_chunks)
    elif prod(found.shape) * itemsize > max(SMALL, path.stat().st_size):
        raise DataError(
            f"{place} has the shape {found.shape}, for which the file is too short: it was cut "
            "off, or is damaged"
        )
