"""Numbers that lie one after the other: in a file, in a member of an archive, in HDF5."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from genelin.errors import DataError

__all__ = ["Fill", "Flat", "Numbers", "Zipped", "npy_flat", "npy_header", "reading"]

Fill = Callable[[int, NDArray[Any]], None]  # fill(first, out): numbers first … first + len(out) − 1
SLICE = 1 << 17  # numbers that are converted at a time
HEADERS: dict[Any, Any] = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


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


@contextmanager
def reading(numbers: Numbers, dtype: Any) -> Iterator[Fill]:
    """Read numbers as another `dtype`, in slices that stay in the cache."""
    with numbers.opened() as fill:
        if numbers.dtype == dtype:
            yield fill
            return
        scratch = np.empty(min(SLICE, numbers.size), numbers.dtype)

        def converted(first: int, out: NDArray[Any]) -> None:
            for start in range(0, len(out), SLICE):
                piece = scratch[: min(SLICE, len(out) - start)]
                fill(first + start, piece)
                out[start : start + SLICE] = piece

        yield converted


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
        with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
            npy_header(file, self.place)
            at = 0

            def fill(first: int, out: NDArray[Any]) -> None:
                nonlocal at
                try:
                    file.seek((first - at) * self.dtype.itemsize, os.SEEK_CUR)
                    _fill(file, out, self)
                except (zipfile.BadZipFile, zlib.error) as error:
                    raise DataError(f"{self.place} is damaged: {error}") from error
                at = first + len(out)

            yield fill


def npy_header(file: IO[bytes], place: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and dtype of an array in NumPy's format."""
    try:
        version = npy.read_magic(file)
        if version not in HEADERS:
            raise ValueError(f"version {version} of the format is for records, not for numbers")
        shape, fortran, dtype = HEADERS[version](file)
    except (ValueError, EOFError) as error:
        raise DataError(f"{place} is not an array in NumPy's format: {error}") from error
    return tuple(int(length) for length in shape), bool(fortran), dtype


def npy_flat(path: Path, exactly: bool = True) -> tuple[Flat, tuple[int, ...], bool]:
    """Where the numbers of an `.npy` file lie, its shape, and whether columns come first."""
    with open(path, "rb") as file:
        shape, fortran, dtype = npy_header(file, str(path))
        flat = Flat(path, file.tell(), dtype, int(np.prod(shape, dtype=object)))
    if dtype.hasobject:
        raise DataError(
            f"{path} holds Python objects, not numbers: save X.astype(float) in its place"
        )
    flat.check_size(exactly)
    return flat, shape, fortran
