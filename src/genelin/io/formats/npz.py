"""Archives of arrays, `.npz`: what every member declares is compared with what is there first."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from genelin.errors import DataError
from genelin.io.block_readers import CsrReader, check_shape, floating
from genelin.io.damaged_files import decoding, regular
from genelin.io.number_streams import Zipped, npy_header, reading, zip_member
from genelin.io.prefetch import loaded
from genelin.system.memory import available_memory

__all__ = ["Member", "load_npz", "npz_kind", "npz_members"]

MODEST, SPARSEST = 2**22, 100  # rows that nobody doubts; beyond these, how many for each entry
SHORT = 1024  # bytes of a member that says how the others are read
ARRAYS = {  # of the formats of scipy.sparse.save_npz
    "csr": ("indptr", "indices", "data"),
    "csc": ("indptr", "indices", "data"),
    "bsr": ("indptr", "indices", "data"),
    "coo": ("row", "col", "data"),
    "dia": ("offsets", "data"),
}


@dataclass(frozen=True)
class Member:
    """An array in an archive: its header, which agrees with the bytes that are there."""

    path: Path
    name: str
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @property
    def place(self) -> str:
        """The archive and the array."""
        return f"{self.path}, array {self.name!r}"

    def numbers(self) -> Zipped:
        """Its numbers, to be read forwards."""
        if len(self.shape) != 1 or self.dtype.kind not in "biufc":
            raise DataError(f"{self.place} is not a plain array of numbers")
        return self._numbers()

    def _numbers(self) -> Zipped:
        return Zipped(self.path, f"{self.name}.npy", self.dtype, int(np.prod(self.shape)))

    def load(self, dtype: Any = None) -> NDArray[Any]:
        """The whole array, whole numbers as an integer `dtype` only where they fit."""
        if self.dtype.kind not in "biufcSU":
            raise DataError(
                f"{self.place} holds {self.dtype}, not numbers: save X.astype(float) in its place"
            )
        numbers = self._numbers()
        out = np.empty(numbers.size, dtype or self.dtype)
        with reading(numbers, out.dtype) as fill:
            fill(0, out)
        return out.reshape(self.shape, order="F" if self.fortran else "C")


def npz_members(path: Path) -> dict[str, Member]:
    """The arrays of an archive by name; only their headers are read."""
    with decoding(path), zipfile.ZipFile(regular(path)) as archive:
        names = [name for name in archive.namelist() if name.endswith(".npy")]
        return {name.removesuffix(".npy"): _member(archive, path, name) for name in names}


def _member(archive: zipfile.ZipFile, path: Path, member: str) -> Member:
    name = member.removesuffix(".npy")
    place = f"{path}, array {name!r}"
    with decoding(place), zip_member(archive, member, place) as file:
        shape, fortran, dtype = npy_header(file, place)
        room = archive.getinfo(member).file_size - file.tell()
    size = int(np.prod(shape, dtype=object))
    if dtype.hasobject:
        raise DataError(f"{place} holds Python objects, not numbers")
    if room != size * dtype.itemsize:
        raise DataError(f"{place} has {room:,} bytes, not {size:,} numbers of {dtype}")
    return Member(path, name, shape, fortran, dtype)


def npz_kind(members: dict[str, Member]) -> tuple[str, tuple[int, ...]]:
    """The format and the shape of a sparse matrix."""
    kind, shape = members["format"], members["shape"]
    if kind.shape != () or kind.dtype.kind not in "SU" or kind.dtype.itemsize > SHORT:
        raise DataError(f"{kind.place} is not the name of a format of scipy.sparse.save_npz")
    if len(shape.shape) != 1 or shape.shape[0] > 2 or shape.dtype.kind not in "iu":
        raise DataError(f"{shape.place} does not hold two whole numbers, rows and columns")
    name = kind.load().item()
    with decoding(kind.place):
        name = name.decode() if isinstance(name, bytes) else name
    return name, tuple(shape.load().tolist())


def load_npz(path: Path) -> Any:
    """The one matrix of an archive: dense, or sparse as scipy.sparse.save_npz writes it.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "X.npz"
    >>> sparse.save_npz(path, sparse.coo_array(np.eye(2)))
    >>> load_npz(path).toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    members = npz_members(path)
    if "format" not in members and len(members) == 1:
        (member,) = members.values()
        floating(member.dtype, member.place)
        return member.load()
    if "format" not in members:
        shown = ", ".join(list(members)[:5])
        raise DataError(
            f"{path} holds {len(members)} arrays ({shown}): save one matrix in a file, with "
            "scipy.sparse.save_npz or numpy.save"
        )
    if "shape" not in members:
        raise DataError(f"{path} lacks shape: write it anew with scipy.sparse.save_npz")
    kind, shape = npz_kind(members)
    if kind not in ARRAYS:
        raise DataError(f"{path} has the format {kind!r:.40}: write it with scipy.sparse.save_npz")
    if missing := [name for name in ARRAYS[kind] if name not in members]:
        raise DataError(f"{path} lacks {', '.join(missing)}: write it anew")
    if len(shape) != 2:
        raise DataError(f"{path} must have two dimensions, rows and columns, got {shape}")
    return _sparse(path, kind, shape, [members[name] for name in ARRAYS[kind]])


def _sparse(path: Path, kind: str, shape: tuple[int, ...], arrays: list[Member]) -> Any:
    """A CSR array, once every index has been looked at in its own type."""
    check_shape(str(path), shape)
    floating(arrays[-1].dtype, arrays[-1].place)
    check_rows(path, shape[0], int(np.prod(arrays[-1].shape)))
    n, d = shape
    with decoding(path):
        if kind == "csr":
            return _by_rows(path, (n, d), arrays)
        if kind == "csc":
            return _by_rows(path, (d, n), arrays).T.tocsr()
        if kind == "coo":
            return _by_entries(path, (n, d), arrays)
        if kind == "bsr":
            return _by_blocks(path, (n, d), arrays)
        return _by_diagonals(path, (n, d), arrays)


def check_rows(path: Path, rows: int, stored: int) -> None:
    """Refuse a number of rows far beyond what is stored, each of which would take a pointer."""
    if rows > max(SPARSEST * stored, MODEST):
        raise DataError(
            f"{path} promises {rows:,} rows and has {stored:,} entries: is its header damaged? "
            "Leave out rows without an entry"
        )


def _by_rows(path: Path, shape: tuple[int, int], arrays: list[Member]) -> Any:
    indptr, indices, data = (member.numbers() for member in arrays)
    reader = CsrReader(str(path), (indptr, indices, data), shape, [path], orderly=False)
    return loaded(reader, available_memory() / 4)


def _by_entries(path: Path, shape: tuple[int, int], arrays: list[Member]) -> Any:
    rows, columns, data = arrays
    if not rows.shape == columns.shape == data.shape or len(data.shape) != 1:
        raise DataError(
            f"{path}: row, col and data have the shapes {rows.shape}, {columns.shape} and "
            f"{data.shape}, which must be the same: write it anew"
        )
    places = [_within(member, 0, length) for member, length in zip(arrays, shape, strict=False)]
    return sparse.coo_array((data.load(), places), shape=shape).tocsr()


def _by_diagonals(path: Path, shape: tuple[int, int], arrays: list[Member]) -> Any:
    offsets, data = arrays
    fits = len(data.shape) == 2 and len(offsets.shape) == 1 and data.shape[0] == offsets.shape[0]
    if not fits or data.shape[1] > sum(shape) or offsets.shape[0] > sum(shape):
        raise DataError(
            f"{path}: offsets and data have the shapes {offsets.shape} and {data.shape}, which are "
            f"not those of diagonals of a matrix of {shape[0]} rows and {shape[1]} columns: write "
            "it anew"
        )
    places = _within(offsets, 1 - shape[0], shape[1])
    return sparse.dia_array((data.load(), places), shape=shape).tocsr()


def _within(member: Member, first: int, end: int) -> NDArray[np.int64]:
    """Indices from `first` on, below `end`."""
    if member.dtype.kind not in "iu":
        raise DataError(f"{member.place} has dtype {member.dtype}, not whole numbers")
    indices = member.load(np.int64)
    wrong = np.flatnonzero((indices < first) | (indices >= end))
    if wrong.size:
        raise DataError(
            f"{member.place}: entry {wrong[0]} is the index {indices[wrong[0]]}, but they go from "
            f"{first} to {end - 1}: the file was altered or written wrongly; write the data anew"
        )
    return indices


def _by_blocks(path: Path, shape: tuple[int, int], arrays: list[Member]) -> Any:
    """Blocks of one size: their places are looked at like those of single entries."""
    indptr, indices, data = arrays
    if len(data.shape) != 3 or 0 in data.shape[1:] or data.shape[0] != indices.numbers().size:
        raise DataError(f"{data.place} has the shape {data.shape}, not that of blocks: write anew")
    height, width = data.shape[1:]
    if shape[0] % height or shape[1] % width:
        raise DataError(
            f"{path} has the shape {shape}, which blocks of {data.shape[1:]} do not fill"
        )
    blocks = (shape[0] // height, shape[1] // width)
    _by_rows(path, blocks, [indptr, indices, indices])
    parts = data.load(), indices.load(np.int64), indptr.load(np.int64)
    return sparse.bsr_array(parts, shape=shape).tocsr()
