"""The folder format: `.npy` arrays and a header in JSON, dense rows or CSR (docs/formats.md)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from scipy import sparse

from genelin.errors import DataError
from genelin.io.block_readers import BIGGEST, CsrReader, DenseReader, Reader
from genelin.io.damaged_files import regular, said
from genelin.io.number_streams import Flat, npy_flat, reading

__all__ = ["HEADER", "FolderWriter", "is_rows_folder", "open_folder", "verify_folder"]

HEADER = "header.json"
FORMAT, VERSION = "genelin rows", 1
ARRAYS = {"dense": ("data",), "csr": ("indptr", "indices", "data")}
MOST = 1 << 22  # numbers that are looked at together
LONGEST = 1 << 28  # bytes of a header


@dataclass(frozen=True)
class Header:
    """What `header.json` says."""

    kind: str
    shape: tuple[int, int]
    arrays: dict[str, dict[str, Any]]  # dtype, shape, bytes, sha256 of every array
    columns: list[str] | None


def is_rows_folder(path: Path) -> bool:
    """Whether there is a header of this format."""
    try:
        return bool(json.loads(_header_text(path / HEADER))["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def read_header(folder: Path) -> Header:
    """The header, once it is whole and of a version that is known."""
    path = folder / HEADER
    try:
        content = json.loads(_header_text(path))
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}, not {FORMAT!r}")
        if content["version"] != VERSION:
            raise DataError(
                f"{path} has version {content['version']!r}, this genelin reads version {VERSION}: "
                "use the version of genelin that wrote it, or update"
            )
        kind, (n, d), columns = content["kind"], _counts(content["shape"]), content["columns"]
        arrays = {name: content["arrays"][name] for name in ARRAYS[kind]}
        for entry in arrays.values():
            _counts([*entry["shape"], entry["bytes"]])
            if not isinstance(entry["dtype"], str) or not isinstance(entry["sha256"], str):
                raise TypeError("dtype and sha256 of its arrays must be text")
        data = arrays["data"]
        if content["dtype"] != data["dtype"] or content["stored"] != prod(data["shape"]):
            raise ValueError("its dtype and stored disagree with the array data")
        _check_columns(columns, d)
        return Header(kind, (n, d), arrays, columns)
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path} is not the header of a folder of rows, or is damaged: "
            f"{type(error).__name__}: {said(error)}"
        ) from error


def _header_text(path: Path) -> str:
    if not path.exists():
        raise DataError(f"{path} is missing: {path.parent} is not a folder of rows")
    if regular(path).stat().st_size > LONGEST:
        raise DataError(f"{path} has more than {LONGEST:,} bytes: it is not the header of rows")
    return path.read_text(encoding="utf-8")


def _counts(numbers: Any) -> list[int]:
    """Whole numbers, not negative."""
    for number in numbers:
        if type(number) is not int or number < 0:
            raise ValueError(f"{number!r:.40} stands where a whole number must be")
    return list(numbers)


def _check_columns(columns: Any, d: int) -> None:
    """A name for every column, or none at all."""
    if columns is None:
        return
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise TypeError("its columns must be a list of names, or null")
    if len(columns) != d:
        raise ValueError(f"it names {len(columns)} columns of {d}")


def open_folder(folder: Path) -> tuple[Reader, list[str] | None]:
    """A reader of the rows, and the names of columns; sizes are compared, contents are not read."""
    header = read_header(folder)
    flats = {name: _array(folder, name, header.arrays[name]) for name in header.arrays}
    files = [folder / HEADER, *(flat.path for flat in flats.values())]
    if header.kind == "dense":
        data = flats["data"]
        if header.arrays["data"]["shape"] != list(header.shape):
            raise _disagreeing(folder, "data", header.arrays["data"]["shape"], list(header.shape))
        reader: Reader = DenseReader(str(folder), data, header.shape, data.path)
    else:
        for name in flats:
            if len(header.arrays[name]["shape"]) != 1:
                expected = "one dimension for its kind, csr"
                raise _disagreeing(folder, name, header.arrays[name]["shape"], expected)
        arrays = (flats["indptr"], flats["indices"], flats["data"])
        reader = CsrReader(str(folder), arrays, header.shape, [data.path for data in arrays], True)
    reader.watch(files)
    return reader, header.columns


def _array(folder: Path, name: str, entry: dict[str, Any]) -> Flat:
    """Where an array lies, once the file agrees with the header."""
    path = folder / f"{name}.npy"
    if not path.is_file():
        raise DataError(f"{path} is missing: copy the folder again, or write it anew")
    flat, shape, fortran = npy_flat(path)
    if fortran and len(shape) > 1:
        raise DataError(f"{path} is stored by columns, rows were promised: write the data anew")
    if list(shape) != list(entry["shape"]):
        raise _disagreeing(folder, name, list(shape), entry["shape"])
    if flat.dtype.str != entry["dtype"] or path.stat().st_size != entry["bytes"]:
        found = f"dtype {flat.dtype.str}, {path.stat().st_size:,} bytes"
        raise _disagreeing(folder, name, found, f"dtype {entry['dtype']}, {entry['bytes']:,} bytes")
    return flat


def _disagreeing(folder: Path, name: str, found: Any, expected: Any) -> DataError:
    return DataError(
        f"{folder / name}.npy has {found}, but {HEADER} says {expected}: header and arrays "
        "disagree; copy the folder again, or write it anew"
    )


def verify_folder(folder: Path) -> None:
    """Compare the checksum of every array with that in the header."""
    for name, entry in read_header(folder).arrays.items():
        flat = _array(folder, name, entry)
        digest = hashlib.sha256()
        for piece in _pieces(flat):
            digest.update(piece)  # type: ignore[arg-type]
        if digest.hexdigest() != entry["sha256"]:
            raise DataError(
                f"{flat.path} was altered: its SHA-256 is {digest.hexdigest()[:12]}…, the header "
                f"says {str(entry['sha256'])[:12]}…; copy the folder again, or write it anew"
            )


def _pieces(flat: Flat) -> Iterator[NDArray[Any]]:
    with reading(flat, flat.dtype) as fill:
        for start in range(0, flat.size, MOST):
            piece = np.empty(min(MOST, flat.size - start), flat.dtype)
            fill(start, piece)
            yield piece


class _Growing:
    """An `.npy` file of which the length is not known yet, and its checksum."""

    def __init__(self, path: Path, dtype: Any, width: int | None = None) -> None:
        self.path, self.dtype, self._width = path, np.dtype(dtype).newbyteorder("<"), width
        self._rows, self._digest = 0, hashlib.sha256()
        self._file = open(path, "wb")  # noqa: SIM115 - closed with the writer
        self._write_header()

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._rows,) if self._width is None else (self._rows, self._width)

    def _write_header(self) -> None:
        """NumPy leaves room in headers for the first length to grow."""
        about = {"descr": self.dtype.str, "fortran_order": False, "shape": self.shape}
        self._file.seek(0)
        npy.write_array_header_1_0(self._file, about)

    def add(self, values: NDArray[Any]) -> None:
        values = np.ascontiguousarray(values, self.dtype)
        self._rows += len(values)
        self._digest.update(values.data)
        self._file.write(values.data)

    def add_to_all(self, shift: int) -> None:
        """Change every number that was written."""
        self._file.flush()
        flat = Flat(self.path, _header_length(self.path), self.dtype, self._rows)
        self._digest = hashlib.sha256()
        self._file.seek(flat.offset)
        for piece in _pieces(flat):
            piece += shift
            self._digest.update(piece.data)
            self._file.write(piece.data)

    def close(self) -> None:
        self._write_header()
        self._file.close()

    def abandon(self) -> None:
        """Close whatever the disk says."""
        try:
            self._file.close()
        except OSError:
            self._file.raw.close()

    def entry(self) -> dict[str, Any]:
        return {
            "dtype": self.dtype.str,
            "shape": list(self.shape),
            "bytes": self.path.stat().st_size,
            "sha256": self._digest.hexdigest(),
        }


def _header_length(path: Path) -> int:
    with open(path, "rb") as file:
        npy.read_magic(file)
        npy.read_array_header_1_0(file)
        return file.tell()


class FolderWriter:
    """Write rows block by block into an empty folder; `finish` writes the header last."""

    def __init__(self, folder: Path, columns: int, dtype: Any, is_sparse: bool) -> None:
        self.folder, self.columns, self.is_sparse = folder, columns, is_sparse
        self.rows = self._entries = 0
        index = np.int32 if columns <= BIGGEST else np.int64
        if is_sparse:
            kinds: dict[str, tuple[Any, int | None]] = {
                "indptr": (np.int64, None),
                "indices": (index, None),
                "data": (dtype, None),
            }
        else:
            kinds = {"data": (dtype, columns)}
        self._arrays: dict[str, _Growing] = {}
        with ExitStack() as undo:
            for name, (kind, width) in kinds.items():
                self._arrays[name] = _Growing(folder / f"{name}.npy", kind, width)
                undo.callback(self._arrays[name].abandon)
            if is_sparse:
                self._arrays["indptr"].add(np.zeros(1, np.int64))
            undo.pop_all()

    def add(self, block: Any) -> None:
        """Write a dense block, or a CSR block in canonical format."""
        self.rows += block.shape[0]
        if not self.is_sparse:
            self._arrays["data"].add(block)
            return
        block = sparse.csr_array(block)
        self.add_entries(block.indptr, block.indices, block.data)

    def add_entries(self, indptr: Any, indices: Any, data: Any) -> None:
        """Write the three arrays of a CSR block."""
        self._arrays["indptr"].add(indptr[1:].astype(np.int64) + self._entries)
        self._arrays["indices"].add(indices)
        self._arrays["data"].add(data)
        self._entries += len(data)

    def shift_indices(self, shift: int) -> None:
        """Add to every column index that was written."""
        self._arrays["indices"].add_to_all(shift)

    def finish(self, names: list[str] | None) -> None:
        """Close the arrays and write the header."""
        for array in self._arrays.values():
            array.close()
        content = {
            "format": FORMAT,
            "version": VERSION,
            "kind": "csr" if self.is_sparse else "dense",
            "shape": [self.rows, self.columns],
            "dtype": self._arrays["data"].dtype.str,
            "stored": self._entries if self.is_sparse else self.rows * self.columns,
            "arrays": {name: array.entry() for name, array in self._arrays.items()},
            "columns": names,
        }
        text = json.dumps(content, indent=1) + "\n"
        (self.folder / HEADER).write_text(text, encoding="utf-8")

    def abandon(self) -> None:
        """Close the files after a failure."""
        for array in self._arrays.values():
            array.abandon()
