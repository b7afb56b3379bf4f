"""`open_rows`: rows on disk, whatever their format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genelin.errors import DataError
from genelin.io.block_readers import MemoryReader, Reader
from genelin.io.damaged_files import regular
from genelin.io.formats.folder import HEADER, open_folder, verify_folder
from genelin.io.formats.hdf5 import open_h5ad
from genelin.io.formats.numpy_files import open_npy, open_npz
from genelin.io.formats.tables import ArrowReader, ParquetReader
from genelin.io.formats.zarr_arrays import ZarrReader
from genelin.io.prefetch import BlockSource, block_limits, loaded, prefetched, taken_from
from genelin.system.memory import available_memory

__all__ = ["StoredRows", "open_rows"]

DEFAULT = 1e9  # bytes
KINDS: dict[str, tuple[tuple[str, ...], bytes]] = {  # suffixes, and how files begin
    "NumPy": ((".npy",), b"\x93NUMPY"),
    "SciPy sparse": ((".npz",), b"PK"),
    "HDF5": ((".h5ad", ".h5", ".hdf5"), b"\x89HDF\r\n\x1a\n"),
    "Parquet": ((".parquet", ".pq"), b"PAR1"),
    "Arrow IPC": ((".arrow", ".feather", ".ipc"), b"ARROW1"),
}
TEXT = (".svm", ".svmlight", ".libsvm", ".csv")
PACKED = (".gz", ".bz2", ".xz")


class StoredRows:
    """Rows on disk, to be handed to `CCA`, `top_k_cca` or `plan_cca` like a matrix.

    Attributes
    ----------
    path : where they are.
    shape, dtype : of the matrix; dtype is that of the blocks, float32 or float64.
    is_sparse : whether blocks are CSR arrays.
    stored : entries, zeros of sparse rows not counted.
    nbytes : what the matrix takes in memory.
    column_names : where the format has them, else None.
    max_memory : bytes that a pass over the rows may take.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "X.npy"
    >>> np.save(path, np.arange(6.0).reshape(3, 2))
    >>> rows = open_rows(path)
    >>> rows.shape, rows.dtype.name, rows.nbytes, rows.column_names
    ((3, 2), 'float64', 48, None)
    >>> rows.load().tolist()
    [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    """

    def __init__(
        self, path: Path, reader: Reader, names: Sequence[str] | None, max_memory: float
    ) -> None:
        self.path, self._reader, self.max_memory = path, reader, max_memory
        self.shape, self.dtype, self.stored = reader.shape, reader.dtype, reader.stored
        self.is_sparse, self.ndim = reader.is_sparse, 2
        self.column_names = None if names is None else np.array(names, dtype=object)
        if names is not None and len(names) != self.shape[1]:
            raise DataError(f"{path} names {len(names)} columns, but has {self.shape[1]}")
        if reader.band_bytes > max_memory:
            raise DataError(
                f"{path} has chunks that are unpacked {reader.band_bytes:,} bytes of rows at a "
                f"time, more than max_memory={max_memory:,.0f}: store it in chunks of fewer rows, "
                "or give more memory"
            )

    def __repr__(self) -> str:
        kind = f"{self.stored:,} entries" if self.is_sparse else "dense"
        return f"<StoredRows {str(self.path)!r}: {self.shape[0]} × {self.shape[1]}, {kind}>"

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """What the matrix takes in memory."""
        return int(self._reader.bytes_before(np.array([self.shape[0]]))[0])

    def row_source(self) -> BlockSource:
        """How fits read the rows, a pass at a time.

        Rows that take at most a quarter of `max_memory` are loaded, and worked on in memory.
        """
        if self.nbytes <= self.max_memory / 4:
            return BlockSource(MemoryReader(str(self.path), self.load()), self.max_memory)
        return BlockSource(self._reader, self.max_memory)

    def load(self) -> Any:
        """All rows in memory: an ndarray or a CSR array."""
        if self.nbytes > available_memory():
            raise MemoryError(
                f"{self.path} takes {self.nbytes:,} bytes in memory, {available_memory():,.0f} are "
                "free: pass the opened rows themselves, they are read in blocks"
            )
        self._reader.check_unchanged()
        matrix = loaded(self._reader, self.max_memory)
        self._reader.check_unchanged()
        return matrix

    def take(self, rows: NDArray[np.int64]) -> Any:
        """Some rows in memory, in the order given."""
        self._reader.check_unchanged()
        return taken_from(self._reader, rows)

    def blocks(self) -> Any:
        """Iterate over consecutive blocks of rows; each is valid until the next is asked for."""
        limits = block_limits([self._reader], 0, self.max_memory)
        self._reader.check_unchanged()
        yield from prefetched(self._reader.blocks(limits))
        self._reader.check_unchanged()

    def verify(self) -> None:
        """Read everything once: checksums where the format has them, indices, lengths.

        Examples
        --------
        >>> import tempfile
        >>> from genelin.io import convert
        >>> rows = convert(np.eye(3), f"{tempfile.mkdtemp()}/eye.rows")
        >>> rows.verify()
        >>> with open(rows.path / "data.npy", "r+b") as file:
        ...     _ = file.seek(-1, 2), file.write(b"!")
        >>> open_rows(rows.path).verify()
        Traceback (most recent call last):
            ...
        genelin.errors.DataError: ...data.npy was altered: its SHA-256 is ...
        """
        for _ in self.blocks():
            pass
        if (self.path / HEADER).exists():
            verify_folder(self.path)


def open_rows(
    path: str | Path, *, max_memory: float | None = None, columns: Sequence[str] | None = None
) -> StoredRows:
    """Open rows on disk; nothing but headers is read.

    Parameters
    ----------
    path : a folder that `genelin.io.convert` has written, `.npy`, `.npz` (scipy.sparse.save_npz of
        a CSR array), a dense Zarr array, Parquet (a file, or a folder of files), Arrow IPC, or
        `.h5ad` (the X of an AnnData file, dense or CSR). Text (svmlight, CSV) must be converted
        first.
    max_memory : bytes that a pass over the rows may take, both views together; by default 1 GB, or
        a quarter of the free memory if that is less.
    columns : names of the columns to use, of Parquet and Arrow tables.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from genelin import top_k_cca
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 4))
    >>> np.save(folder / "X.npy", X)
    >>> np.save(folder / "Y.npy", X[:, :3] + rng.standard_normal((500, 3)))
    >>> X, Y = open_rows(folder / "X.npy"), open_rows(folder / "Y.npy")
    >>> X.shape, Y.shape
    ((500, 4), (500, 3))
    """
    path, memory = Path(path), budget(max_memory)
    if not path.exists():
        raise DataError(f"{path} does not exist")
    opener = _folder_opener(path) if path.is_dir() else _file_opener(path)
    if columns is not None:
        if opener not in (ParquetReader, ArrowReader):
            raise ValueError(f"columns= is for Parquet and Arrow tables, {path} is none")
        reader = opener(path, columns)
    else:
        reader = opener(path)
    if isinstance(reader, tuple):
        return StoredRows(path, reader[0], reader[1], memory)
    return StoredRows(path, reader, getattr(reader, "names", None), memory)


def budget(max_memory: float | None) -> float:
    """Bytes for a pass."""
    if max_memory is None:
        return min(DEFAULT, available_memory() / 4)
    if isinstance(max_memory, bool) or not isinstance(max_memory, int | float | np.number):
        raise TypeError(f"max_memory={max_memory!r} must be a number of bytes, e.g. 2e9")
    if not max_memory > 0:
        raise ValueError(f"max_memory={max_memory!r} must be a positive number of bytes, e.g. 2e9")
    return float(max_memory)


def is_text(path: Path) -> bool:
    """Whether a file can only be read from front to back, by its suffix."""
    suffixes = [suffix for suffix in path.suffixes if suffix not in PACKED]
    return bool(suffixes) and suffixes[-1] in TEXT


def _folder_opener(path: Path) -> Callable[..., Any]:
    if (path / HEADER).exists():
        return open_folder
    if any((path / name).exists() for name in ("zarr.json", ".zarray", ".zgroup")):
        return ZarrReader
    if any(path.glob("*.parquet")):
        return ParquetReader
    raise DataError(
        f"{path} is a folder without {HEADER}, Zarr metadata or Parquet files: write one with "
        "genelin.io.convert"
    )


def _file_opener(path: Path) -> Callable[..., Any]:
    """By what a file begins with, which must agree with its suffix."""
    regular(path)
    if is_text(path):
        raise DataError(
            f"{path} is text, which would be parsed anew in every pass: convert it once, "
            "genelin.io.convert(path, folder), and open the folder"
        )
    with open(path, "rb") as file:
        start = file.read(8)
    begun = [kind for kind, (_, magic) in KINDS.items() if start.startswith(magic)]
    named = [kind for kind, (suffixes, _) in KINDS.items() if path.suffix in suffixes]
    if named and named != begun:
        raise DataError(
            f"{path} is not a {named[0]} file: it begins with {start!r}, not with "
            f"{KINDS[named[0]][1]!r}; is it damaged, or another format under this name?"
        )
    if not begun:
        known = ", ".join(suffixes[0] for suffixes, _ in KINDS.values())
        raise DataError(
            f"{path} begins with {start!r}, which is no format that is known: {known}, Zarr, a "
            f"folder of genelin, or, through genelin.io.convert, {', '.join(TEXT)}"
        )
    openers = {
        "NumPy": open_npy,
        "SciPy sparse": open_npz,
        "HDF5": open_h5ad,
        "Parquet": ParquetReader,
        "Arrow IPC": ArrowReader,
    }
    return openers[begun[0]]
