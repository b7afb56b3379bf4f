"""Files of arrays: NumPy's `.npy`, SciPy's sparse `.npz`, Zarr, and the X of an AnnData file."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genelin.errors import DataError
from genelin.io.extras import storage
from genelin.io.numbers import Fill, Flat, Zipped, npy_flat, npy_header
from genelin.io.readers import CsrReader, DenseReader, PieceReader, Pieces, Reader, check_shape

__all__ = ["ZarrReader", "open_h5ad", "open_npy", "open_npz"]

BAND = 1 << 23  # bytes of rows that are read together where a format has no chunks
CSR = ("indptr", "indices", "data")


def open_npy(path: Path) -> Reader:
    """A matrix that np.save has written, by rows or by columns."""
    flat, shape, fortran = npy_flat(path)
    return DenseReader(str(path), flat, shape, path, fortran)


def open_npz(path: Path) -> Reader:
    """A CSR matrix that scipy.sparse.save_npz has written."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {name.removesuffix(".npy") for name in archive.namelist()}
            if missing := {*CSR, "format", "shape"} - members:
                raise DataError(
                    f"{path} lacks {', '.join(sorted(missing))}: it is not a sparse matrix of "
                    "scipy.sparse.save_npz; save dense arrays with np.save"
                )
            kind = bytes(_member(archive, path, "format").item()).decode()
            shape = tuple(int(length) for length in _member(archive, path, "shape"))
            arrays = [_zipped(archive, path, name) for name in CSR]
    except (zipfile.BadZipFile, EOFError) as error:
        raise DataError(f"{path} is not a zip archive, or is damaged: {error}") from error
    _check_by_rows(path, kind)
    return CsrReader(str(path), (arrays[0], arrays[1], arrays[2]), shape, [path], orderly=False)


def _member(archive: zipfile.ZipFile, path: Path, name: str) -> NDArray[Any]:
    with archive.open(f"{name}.npy") as file:
        shape, _, dtype = npy_header(file, f"{path}, array {name!r}")
        if dtype.hasobject:
            raise DataError(f"{path}, array {name!r} holds Python objects, not numbers")
        return np.frombuffer(file.read(), dtype).reshape(shape)


def _zipped(archive: zipfile.ZipFile, path: Path, name: str) -> Zipped:
    member = f"{name}.npy"
    with archive.open(member) as file:
        shape, _, dtype = npy_header(file, f"{path}, array {name!r}")
        if len(shape) != 1 or dtype.hasobject:
            raise DataError(f"{path}, array {name!r} is not a plain array of numbers")
        room = archive.getinfo(member).file_size - file.tell()
    numbers = Zipped(path, member, dtype, shape[0])
    if room != shape[0] * dtype.itemsize:
        raise DataError(f"{numbers.place} has {room:,} bytes, not {shape[0]:,} numbers of {dtype}")
    return numbers


def _check_by_rows(path: Path, kind: str) -> None:
    if kind != "csr":
        raise DataError(
            f"{path} holds a sparse matrix in format {kind!r}, which cannot be read by rows: store "
            "X.tocsr()"
        )


class ZarrReader(PieceReader):
    """A dense Zarr array, read in bands of whole chunks."""

    def __init__(self, path: Path) -> None:
        zarr = storage("zarr", path)
        found = _zarr_opened(zarr, path)
        if not hasattr(found, "chunks"):
            inside = ", ".join(sorted(name for name, _ in found.arrays())) or "nothing"
            raise DataError(f"{path} is a group with {inside}: open one array of it, path/name")
        about = found.metadata.to_dict()
        _check_codecs(path, [about.get(part) for part in ("filters", "compressor", "codecs")])
        check_shape(str(path), found.shape)
        n, d = found.shape
        band = int((getattr(found, "shards", None) or found.chunks)[0])
        starts = np.append(np.arange(0, n, band), n)
        self.band_bytes = min(band, n) * d * found.dtype.itemsize
        watched = [path / name for name in ("zarr.json", ".zarray") if (path / name).exists()]
        super().__init__(str(path), starts, d, found.dtype, watched)

    @contextmanager
    def opened(self) -> Iterator[Pieces]:
        """A band at a time."""
        zarr = storage("zarr", self.name)
        array = _zarr_opened(zarr, Path(self.name))

        def pieces(band: int) -> Iterator[NDArray[Any]]:
            first, last = int(self._starts[band]), int(self._starts[band + 1])
            try:
                yield np.asarray(array[first:last])
            except (ValueError, RuntimeError, OSError) as error:
                raise DataError(
                    f"{self.name}: the chunks of rows {first} to {last - 1} cannot be read: {error}"
                ) from error

        yield pieces


def _zarr_opened(zarr: Any, path: Path) -> Any:
    try:
        return zarr.open(str(path), mode="r")
    except Exception as error:  # what Zarr raises differs by version and format
        raise DataError(f"{path} is not a Zarr array, or is damaged: {error}") from error


def _check_codecs(path: Path, codecs: Any) -> None:
    """Refuse chunks that are Python objects: reading them would run what they say."""
    if hasattr(codecs, "get_config"):  # of Zarr's format 2, in early versions of Zarr 3
        codecs = codecs.get_config()
    if isinstance(codecs, Mapping):
        if any(str(codecs.get(key)).endswith("pickle") for key in ("id", "name")):
            raise DataError(
                f"{path} has chunks in Python's pickle format, which can run code when they are "
                "read: write the array anew without that codec"
            )
        codecs = list(codecs.values())
    if isinstance(codecs, list | tuple):
        for part in codecs:
            _check_codecs(path, part)


def open_h5ad(path: Path) -> tuple[Reader, list[str] | None]:
    """The X of an AnnData file, dense or CSR, and the names of its variables."""
    with _h5_opened(path) as file:
        if "X" not in file:
            raise DataError(
                f"{path} has no X, only {', '.join(sorted(file)) or 'nothing'}: it is not an "
                "AnnData file"
            )
        names, X = _variables(file), file["X"]
        if hasattr(X, "shape"):
            return _h5_dense(path, X), names
        kind = str(X.attrs.get("encoding-type", X.attrs.get("h5sparse_format", "")))
        _check_by_rows(path, kind.removesuffix("_matrix"))
        if missing := {*CSR} - set(X):
            raise DataError(f"{path}: X lacks {', '.join(sorted(missing))}: write it anew")
        shape = tuple(int(length) for length in X.attrs.get("shape", X.attrs.get("h5sparse_shape")))
        arrays = [
            H5Numbers(path, f"X/{name}", X[name].dtype, int(X[name].shape[0])) for name in CSR
        ]
    chosen = (arrays[0], arrays[1], arrays[2])
    return CsrReader(str(path), chosen, shape, [path], orderly=False), names


def _variables(file: Any) -> list[str] | None:
    """The index of the table `var`."""
    var = file.get("var")
    index = None if var is None else var.attrs.get("_index")
    if index is None or index not in var or not hasattr(var[index], "asstr"):
        return None
    return [str(name) for name in var[index].asstr()[:]]


def _h5_dense(path: Path, X: Any) -> Reader:
    """Read past HDF5 where X lies in one piece; else in bands of whole chunks."""
    offset = X.id.get_offset() if X.chunks is None else None
    if offset is not None and X.ndim == 2 and X.dtype.kind in "biuf":
        flat = Flat(path, int(offset), X.dtype, int(X.size))
        flat.check_size(exactly=False)
        return DenseReader(str(path), flat, X.shape, path)
    return H5Reader(path, X)


class H5Reader(PieceReader):
    """A dense data set `X` in HDF5, read in bands of whole chunks."""

    def __init__(self, path: Path, X: Any) -> None:
        check_shape(f"{path}, X", X.shape)
        n, d = X.shape
        rows = X.chunks[0] if X.chunks else 1
        band = rows * max(1, BAND // max(1, rows * d * X.dtype.itemsize))
        self.band_bytes = rows * d * X.dtype.itemsize
        starts = np.append(np.arange(0, n, band), n)
        super().__init__(str(path), starts, d, X.dtype, [path])

    @contextmanager
    def opened(self) -> Iterator[Pieces]:
        """A band at a time."""
        path = Path(self.name)
        with _h5_opened(path) as file:
            X = file["X"]

            def pieces(band: int) -> Iterator[NDArray[Any]]:
                with _h5_translated(path):
                    yield X[int(self._starts[band]) : int(self._starts[band + 1])]

            yield pieces


@dataclass(frozen=True)
class H5Numbers:
    """A one-dimensional data set in HDF5."""

    path: Path
    name: str
    dtype: np.dtype[Any]
    size: int

    @property
    def place(self) -> str:
        """The file and the data set."""
        return f"{self.path}, array {self.name!r}"

    @contextmanager
    def opened(self) -> Iterator[Fill]:
        """Read straight into place."""
        with _h5_opened(self.path) as file:
            found = file[self.name]

            def fill(first: int, out: NDArray[Any]) -> None:
                if out.size:
                    with _h5_translated(self.path):
                        found.read_direct(out, np.s_[first : first + len(out)])

            yield fill


@contextmanager
def _h5_opened(path: Path) -> Iterator[Any]:
    h5py = storage("h5py", path)
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise DataError(f"{path} is not an HDF5 file, or is damaged: {error}") from error
    with file:
        yield file


@contextmanager
def _h5_translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
