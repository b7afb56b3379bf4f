"""Honest readers: plain and slow, by other ways than genelin's, every index in full length."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["honest_reading"]

PARTS = {"format", "shape", "indptr", "indices", "data", "row", "col", "offsets"}
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")


def honest_reading(kind: str, path: Path) -> NDArray[np.float64] | None:
    """The matrix in a file; None for what has no matrix, or none that is plainly told."""
    reader = READERS.get(kind)
    return None if reader is None else reader(path)


def npy(path: Path) -> NDArray[np.float64]:
    """By NumPy itself; a vector is a column."""
    X = np.load(path, allow_pickle=False)
    return (X[:, None] if X.ndim == 1 else X).astype(np.float64)


def npz(path: Path) -> NDArray[np.float64]:
    """The arrays by NumPy, put together entry by entry."""
    with zipfile.ZipFile(path) as archive:  # np.load asks how the file begins, zipfile how it ends
        members = {name.removesuffix(".npy"): name for name in archive.namelist()}
        known = PARTS & set(members) if "format" in members else set(members)
        arrays = {
            name: np.lib.format.read_array(io.BytesIO(archive.read(members[name])))
            for name in known
        }
    if "format" not in arrays:
        (X,) = arrays.values()
        return (X[:, None] if X.ndim == 1 else X).astype(np.float64)
    kind = arrays["format"].item()
    shape = tuple(arrays["shape"].tolist())
    return _PUT[kind.decode() if isinstance(kind, bytes) else kind](arrays, shape)


def _by_rows(arrays: dict[str, Any], shape: tuple[int, int]) -> NDArray[np.float64]:
    indptr, indices, data = (arrays[name].tolist() for name in ("indptr", "indices", "data"))
    if len(indptr) != shape[0] + 1 or indptr[0] != 0 or indptr[-1] != len(data):
        raise ValueError("pointers do not fit")
    if len(indices) != len(data):
        raise ValueError("entries do not fit")
    X = np.zeros(shape)
    for row in range(shape[0]):
        if indptr[row + 1] < indptr[row]:
            raise ValueError("pointers fall")
        for at in range(indptr[row], indptr[row + 1]):
            if not 0 <= indices[at] < shape[1]:
                raise ValueError(f"index {indices[at]}")
            X[row, indices[at]] += data[at]
    return X


def _by_columns(arrays: dict[str, Any], shape: tuple[int, int]) -> NDArray[np.float64]:
    return _by_rows(arrays, shape[::-1]).T


def _by_entries(arrays: dict[str, Any], shape: tuple[int, int]) -> NDArray[np.float64]:
    X = np.zeros(shape)
    places = zip(arrays["row"].tolist(), arrays["col"].tolist(), arrays["data"], strict=True)
    for row, column, value in places:
        if not (0 <= row < shape[0] and 0 <= column < shape[1]):
            raise ValueError(f"place {row}, {column}")
        X[row, column] += value
    return X


def _by_blocks(arrays: dict[str, Any], shape: tuple[int, int]) -> NDArray[np.float64]:
    data = arrays["data"]
    _, high, wide = data.shape
    X = np.zeros(shape)
    indptr, indices = arrays["indptr"].tolist(), arrays["indices"].tolist()
    if len(indptr) != shape[0] // high + 1 or indptr[0] or indptr[-1] != len(data):
        raise ValueError("pointers do not fit")
    for row in range(shape[0] // high):
        for at in range(indptr[row], indptr[row + 1]):
            if not 0 <= indices[at] < shape[1] // wide:
                raise ValueError(f"index {indices[at]}")
            left = indices[at] * wide
            X[row * high : row * high + high, left : left + wide] += data[at]
    return X


def _by_diagonals(arrays: dict[str, Any], shape: tuple[int, int]) -> NDArray[np.float64]:
    X = np.zeros(shape)
    for offset, values in zip(arrays["offsets"].tolist(), arrays["data"], strict=True):
        for column in range(min(shape[1], len(values))):
            if 0 <= column - offset < shape[0]:
                X[column - offset, column] += values[column]
    return X


_PUT = {
    "csr": _by_rows,
    "csc": _by_columns,
    "coo": _by_entries,
    "bsr": _by_blocks,
    "dia": _by_diagonals,
}


def _text(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()


def mtx(path: Path) -> NDArray[np.float64] | None:
    """Line by line."""
    first, *rest = _text(path).splitlines()
    _, _, form, field, symmetry = first.lower().split()
    lines = [line.split() for line in rest if line.strip() and not line.startswith("%")]
    if symmetry not in ("general", "symmetric") or field == "complex":
        return None
    shape = int(lines[0][0]), int(lines[0][1])
    X = np.zeros(shape)
    if form == "array":
        places = [
            (i, j)
            for j in range(shape[1])
            for i in range(j if symmetry == "symmetric" else 0, shape[0])
        ]
        entries = [(*place, float(line[0])) for place, line in zip(places, lines[1:], strict=True)]
    else:
        if len(lines) - 1 != int(lines[0][2]):
            raise ValueError(f"{len(lines) - 1} entries of {lines[0][2]}")
        pattern = field == "pattern"
        entries = [
            (int(line[0]) - 1, int(line[1]) - 1, 1.0 if pattern else float(line[2]))
            for line in lines[1:]
        ]
    for i, j, value in entries:
        if not (0 <= i < shape[0] and 0 <= j < shape[1]):
            raise ValueError(f"place {i + 1}, {j + 1}")
        X[i, j] += value
        if symmetry == "symmetric" and i != j:
            X[j, i] += value
    return X


def table(path: Path) -> NDArray[np.float64] | None:
    """By the csv module; None where there are quotes or lines of unequal length."""
    text = _text(path).removeprefix("\ufeff")
    if '"' in text or "\r" in text or "\0" in text:
        return None
    first = text.split("\n", 1)[0]
    tabs = ".tsv" in path.suffixes
    lines = list(
        csv.reader(text.split("\n"), delimiter="\t" if tabs else max(",;\t", key=first.count))
    )
    while lines and not lines[-1]:
        lines.pop()
    if any(len(line) != len(lines[0]) for line in lines) or len(lines[0]) == 1:
        return None
    if not all(_is_number(cell) for cell in lines[0]):
        lines = lines[1:]
    return np.array([[float(cell) for cell in line] for line in lines])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.strip() in MISSING
    return True


def _columns(whole: Any) -> NDArray[np.float64]:
    whole.validate(full=True)  # every chunk by itself
    whole = whole.combine_chunks()
    return np.column_stack(
        [column.to_numpy(zero_copy_only=False).astype(np.float64) for column in whole.columns]
    )


def parquet(path: Path) -> NDArray[np.float64]:
    """Every file as a whole."""
    import pyarrow.parquet as pq

    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    return np.concatenate([_columns(pq.ParquetFile(file).read()) for file in files])


def arrow(path: Path) -> NDArray[np.float64]:
    """As a whole, not mapped."""
    import pyarrow as pa

    with pa.ipc.open_file(pa.py_buffer(path.read_bytes())) as reader:
        return _columns(reader.read_all())


def svmlight(path: Path) -> NDArray[np.float64] | None:
    """Word by word."""
    import bz2
    import lzma

    unpack = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}
    text = unpack.get(path.suffix, bytes)(path.read_bytes())
    lines = [line.split(b"#")[0].split() for line in text.split(b"\n")]
    if any(word.startswith(b"q") for line in lines for word in line):
        return None
    rows = [
        [(int(word.split(b":")[0]), float(word.split(b":")[1])) for word in line[1:]]
        for line in lines
        if line
    ]
    indices = [index for row in rows for index, _ in row]
    base = 0 if 0 in indices else 1
    if max(indices, default=0) > 10**6:
        return None
    X = np.zeros((len(rows), max(indices) - base + 1))
    for i, row in enumerate(rows):
        for index, value in row:
            X[i, index - base] = value
    return X


def h5ad(path: Path) -> NDArray[np.float64]:
    """As a whole, by h5py."""
    import h5py

    with h5py.File(path, "r") as file:
        X = file["X"]
        if hasattr(X, "shape"):
            return np.asarray(X[:], np.float64)
        return _by_rows({name: X[name][:] for name in X}, tuple(X.attrs["shape"].tolist()))


def zarr(path: Path) -> NDArray[np.float64]:
    """As a whole, by Zarr's own store."""
    import zarr as library

    return np.asarray(library.open(str(path), mode="r")[:], np.float64)


def rows(path: Path) -> NDArray[np.float64]:
    """The arrays by NumPy."""
    import json

    shape = json.loads((path / "header.json").read_text())["shape"]
    arrays = {file.stem: np.load(file, allow_pickle=False) for file in path.glob("*.npy")}
    if "indptr" not in arrays:
        return arrays["data"].astype(np.float64)
    return _by_rows(arrays, tuple(shape))


READERS = {
    "npy": npy,
    "npz": npz,
    "mtx": mtx,
    "csv": table,
    "tsv": table,
    "parquet": parquet,
    "arrow": arrow,
    "svmlight": svmlight,
    "h5ad": h5ad,
    "zarr": zarr,
    "rows": rows,
}
