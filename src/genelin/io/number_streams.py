"""Numbers that lie one after the other: in a file, in a member of an archive, in HDF5."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from genelin.errors import DataError
from genelin.io.damaged_files import decoding, regular

__all__ = [
    "BeyondError",
    "Fill",
    "Flat",
    "Numbers",
    "Zipped",
    "npy_flat",
    "npy_header",
    "reading",
    "zip_member",
]

Fill = Callable[[int, NDArray[Any]], None]  # fill(first, out): numbers first … first + len(out) − 1
SLICE = 1 << 17  # numbers that are converted at a time
HEADERS: dict[Any, Any] = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
LONGEST = 10_000  # bytes of a header, as NumPy has it
PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # unpacked no further than asked


class Numbers(Protocol):
    """`size` numbers of a `dtype`; `place` is where they are, for messages."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers as they are stored."""

    @property
    def size(self) -> int:
        """How many there are."""

    @property
    def place(self) -> str:
        """The file, and the array in it."""

    def opened(self) -> AbstractContextManager[Fill]:
        """A function that reads them, from front to back."""


class BeyondError(DataError):
    """A whole number that the type it is read as does not hold."""

    def __init__(self, numbers: Numbers, at: int, value: int, dtype: np.dtype[Any]) -> None:
        super().__init__(
            f"{numbers.place}: entry {at} is {value:,}, which does not fit {dtype}: the file was "
            "altered or written wrongly; write the data anew"
        )
        self.at, self.value = at, value


@contextmanager
def reading(numbers: Numbers, dtype: Any) -> Iterator[Fill]:
    """Read numbers as another `dtype`, in slices that stay in the cache.

    Whole numbers that are read as narrower ones are looked at in their own type first.
    """
    dtype = np.dtype(dtype)
    narrowed = dtype.kind in "iu" and not np.can_cast(numbers.dtype, dtype)
    with numbers.opened() as fill:
        if numbers.dtype == dtype:
            yield fill
            return
        scratch = np.empty(min(SLICE, numbers.size), numbers.dtype)

        def converted(first: int, out: NDArray[Any]) -> None:
            for start in range(0, len(out), SLICE):
                piece = scratch[: min(SLICE, len(out) - start)]
                fill(first + start, piece)
                if narrowed:
                    _check_range(numbers, first + start, piece, dtype)
                out[start : start + SLICE] = piece

        yield converted


def _check_range(numbers: Numbers, first: int, piece: NDArray[Any], dtype: np.dtype[Any]) -> None:
    """Every number must fit the narrower type."""
    limits = np.iinfo(dtype)
    if limits.min <= int(piece.min()) and int(piece.max()) <= limits.max:
        return
    low, high = max(limits.min, np.iinfo(piece.dtype).min), limits.max
    at = int(np.flatnonzero((piece < low) | (piece > high))[0])
    raise BeyondError(numbers, first + at, int(piece[at]), dtype)


def _fill(file: Any, out: NDArray[Any], numbers: Numbers) -> None:
    """Read until `out` is full."""
    rest = memoryview(out.view(np.uint8).data) if out.size else memoryview(b"")
    while rest:
        got = file.readinto(rest)
        if not got:
            raise DataError(
                f"{numbers.place} ends before the {numbers.size:,} numbers that it should hold: "
                "the file was cut off or is still being written; copy it again, or write it anew"
            )
        rest = rest[got:]


@dataclass(frozen=True)
class Flat:
    """Numbers in a file, from a byte `offset` on."""

    path: Path
    offset: int
    dtype: np.dtype[Any]
    size: int

    @property
    def place(self) -> str:
        """The file."""
        return str(self.path)

    @contextmanager
    def opened(self) -> Iterator[Fill]:
        """Read without a buffer in between, and tell the system that all will be read."""
        with open(self.path, "rb", buffering=0) as file:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            yield partial(self._fill, file)

    def _fill(self, file: Any, first: int, out: NDArray[Any]) -> None:
        file.seek(self.offset + first * self.dtype.itemsize)
        _fill(file, out, self)

    def check_size(self, exactly: bool = True) -> None:
        """The file must be as long as its header says."""
        found, expected = self.path.stat().st_size, self.offset + self.size * self.dtype.itemsize
        if found < expected or (exactly and found > expected):
            raise DataError(
                f"{self.path} has {found:,} bytes, but its header asks for {expected:,}: it was "
                "cut off, is still being written, or was altered; copy it again, or write it anew"
            )


@dataclass(frozen=True)
class Zipped:
    """Numbers in an `.npy` member of a zip archive; they can only be read forwards."""

    path: Path
    member: str
    dtype: np.dtype[Any]
    size: int

    @property
    def place(self) -> str:
        """The archive and its member."""
        return f"{self.path}, array {self.member.removesuffix('.npy')!r}"

    @contextmanager
    def opened(self) -> Iterator[Fill]:
        """Unpack as a stream."""
        with ExitStack() as stack:
            with decoding(self.place):
                archive = stack.enter_context(zipfile.ZipFile(regular(self.path)))
                file = stack.enter_context(zip_member(archive, self.member, self.place))
                npy_header(file, self.place)
            at = 0

            def fill(first: int, out: NDArray[Any]) -> None:
                nonlocal at
                with decoding(self.place):
                    file.seek((first - at) * self.dtype.itemsize, os.SEEK_CUR)
                    _fill(file, out, self)
                at = first + len(out)

            yield fill


def zip_member(archive: zipfile.ZipFile, member: str, place: str) -> IO[bytes]:
    """A member of an archive, unpacked as it is read and never beyond the size it declares."""
    if archive.getinfo(member).compress_type not in PLAIN:
        raise DataError(
            f"{place} is packed in a way that NumPy does not use: write it anew, e.g. with "
            "np.savez_compressed or scipy.sparse.save_npz"
        )
    return archive.open(member)


def npy_header(file: IO[bytes], place: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and dtype of an array in NumPy's format."""
    with decoding(place, "is not an array in NumPy's format, or is damaged"):
        version = npy.read_magic(file)
        if version not in HEADERS:
            raise DataError(
                f"{place} has version {version} of NumPy's format, which is for records, not for "
                "numbers: save X.astype(float) in its place"
            )
        counted = file.read(2 if version == (1, 0) else 4)
        length = int.from_bytes(counted, "little")
        if length > LONGEST:
            raise DataError(
                f"{place} is not an array in NumPy's format, or is damaged: it has a header of "
                f"{length:,} bytes"
            )
        shape, fortran, dtype = HEADERS[version](BytesIO(counted + file.read(length)))
    if any(type(length) is not int or length < 0 for length in shape):
        raise DataError(
            f"{place} is not an array in NumPy's format, or is damaged: its header has the shape "
            f"{shape}"
        )
    return shape, bool(fortran), dtype


def npy_flat(path: Path, exactly: bool = True) -> tuple[Flat, tuple[int, ...], bool]:
    """Where the numbers of an `.npy` file lie, its shape, and whether columns come first."""
    with open(regular(path), "rb") as file:
        shape, fortran, dtype = npy_header(file, str(path))
        flat = Flat(path, file.tell(), dtype, int(np.prod(shape, dtype=object)))
    if dtype.hasobject:
        raise DataError(
            f"{path} holds Python objects, not numbers: save X.astype(float) in its place"
        )
    flat.check_size(exactly)
    return flat, shape, fortran
