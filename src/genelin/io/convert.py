"""`convert`: rows of any kind into the folder format, in bounded memory."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import sparse

from genelin.errors import DataError
from genelin.io.atomic import folder_written_atomically
from genelin.io.block_readers import BIGGEST, MemoryReader, floating
from genelin.io.damaged_files import regular
from genelin.io.formats.folder import FolderWriter, is_rows_folder
from genelin.io.formats.svmlight import Base, stream_svmlight
from genelin.io.formats.tables import stream_csv
from genelin.io.open_rows import PACKED, StoredRows, budget, is_text, open_rows
from genelin.io.prefetch import block_limits
from genelin.operators import as_rows

__all__ = ["convert"]

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def convert(
    source: Any,
    folder: str | Path,
    *,
    overwrite: bool = False,
    max_memory: float | None = None,
    dtype: Any = None,
    columns: Sequence[str] | None = None,
    width: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
) -> StoredRows:
    r"""Write rows to a folder that `open_rows` reads fast, and open it.

    The folder appears when all of it is on disk; if something fails, what was there stays.

    Parameters
    ----------
    source : a path that `open_rows` takes; a file in svmlight format (`.svm`, `.svmlight`,
        `.libsvm`, also packed as `.gz`, `.bz2` or `.xz`; labels are not kept) or a `.csv` file
        with a line of names; opened rows; a matrix in memory, dense or sparse, or a data frame;
        or an iterable of blocks of rows, all dense or all sparse.
    folder : where to.
    overwrite : whether a folder of rows that is there may be replaced.
    max_memory : bytes, see `open_rows`.
    dtype : float32 or float64; None keeps float32 and turns all else into float64.
    columns : names of the columns to use, of tables.
    width : number of columns of an svmlight file; None takes the largest index.
    zero_based : whether the indices of an svmlight file count from 0; "auto" goes by what is seen.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "rows.svm").write_text("+1 1:0.5 3:2\n-1 2:1\n")
    >>> rows = convert(folder / "rows.svm", folder / "rows")
    >>> rows.shape, rows.stored
    ((2, 3), 3)
    >>> rows.load().toarray().tolist()
    [[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]]
    """
    folder, memory = Path(folder), budget(max_memory)
    _check_target(folder, overwrite)
    wanted = None if dtype is None else np.dtype(dtype)
    if wanted is not None and wanted not in (np.float32, np.float64):
        raise ValueError(f"dtype={dtype!r} must be float32 or float64")
    write = _writing(source, memory, wanted, columns, (width, zero_based), folder)
    with _disk_full_explained(folder), folder_written_atomically(folder) as aside:
        write(aside)
    return open_rows(folder, max_memory=max_memory)


def _check_target(folder: Path, overwrite: bool) -> None:
    if not folder.exists():
        return
    if not overwrite:
        raise FileExistsError(f"{folder} is there already: pass overwrite=True, or another folder")
    if not is_rows_folder(folder):
        raise FileExistsError(
            f"{folder} is there and is not a folder of rows: it is not replaced, choose another"
        )


@contextmanager
def _disk_full_explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        free = shutil.disk_usage(folder.parent).free
        raise OSError(
            error.errno,
            f"there is no room to write {folder} ({error.strerror}; {free:,} bytes are free): "
            "nothing was changed; free some space, or choose a folder on another disk",
        ) from error


def _writing(
    source: Any,
    memory: float,
    dtype: Any,
    columns: Sequence[str] | None,
    svmlight: tuple[int | None, bool | Literal["auto"]],
    folder: Path,
) -> Callable[[Path], None]:
    """What writes the rows of `source` into an empty folder."""
    if isinstance(source, str | Path):
        path = Path(source)
        if is_text(path):
            regular(path)
            if _suffix(path) == ".csv":
                return lambda aside: _write_csv(path, columns, dtype, aside)
            return lambda aside: _write_svmlight(path, *svmlight, dtype, aside)
        source = open_rows(path, max_memory=memory, columns=columns)
    elif columns is not None:
        raise ValueError("columns= is for paths of tables: choose columns of a matrix beforehand")
    if isinstance(source, StoredRows):
        names = None if source.column_names is None else source.column_names.tolist()
        _check_room(source.nbytes, source.dtype, dtype, folder)
        return lambda aside: _write_blocks(source.blocks(), names, dtype, aside)
    if _is_matrix(source):
        matrix = as_rows(source, "source").matrix
        held = MemoryReader("source", matrix)
        limits = block_limits([held], 0, memory)
        names = _names(source)
        return lambda aside: _write_blocks(held.blocks(limits), names, dtype, aside)
    if not isinstance(source, Iterable):
        raise TypeError(
            f"source is a {type(source).__name__}: pass a path, opened rows, a matrix, or an "
            "iterable of blocks of rows"
        )
    return lambda aside: _write_blocks(iter(source), None, dtype, aside)


def _suffix(path: Path) -> str:
    return [suffix for suffix in path.suffixes if suffix not in PACKED][-1]


def _is_matrix(source: Any) -> bool:
    return sparse.issparse(source) or hasattr(source, "__array__")


def _names(frame: Any) -> list[str] | None:
    names = getattr(frame, "columns", None)
    return None if names is None else [str(name) for name in names]


def _check_room(nbytes: int, held: Any, dtype: Any, folder: Path) -> None:
    """Refuse at once what cannot fit; what is written may be smaller for sparse rows."""
    if not folder.parent.is_dir():
        return  # the writer says so
    needed = nbytes * (np.dtype(dtype or held).itemsize / np.dtype(held).itemsize) / 2
    free = shutil.disk_usage(folder.parent).free
    if needed > free:
        raise OSError(
            errno.ENOSPC,
            f"{folder} would take at least {needed:,.0f} bytes, {free:,} are free: free some "
            "space, or choose a folder on another disk",
        )


@contextmanager
def _written(writer: FolderWriter) -> Iterator[FolderWriter]:
    try:
        yield writer
    except BaseException:
        writer.abandon()
        raise


def _write_blocks(
    blocks: Iterator[Any],
    names: list[str] | None,
    dtype: Any,
    aside: Path,
    source: object = "source",
) -> None:
    first = next(blocks, None)
    if first is None:
        raise DataError(f"{source} is empty: there is not a block of rows in it")
    first = _block(first, 0, 0)
    kind = np.dtype(dtype or floating(first.dtype, "source, block 0"))
    d, is_sparse = first.shape[1], bool(sparse.issparse(first))
    if d == 0:
        raise DataError(f"{source} is empty: its blocks have shape {first.shape}")
    with _written(FolderWriter(aside, d, kind, is_sparse)) as writer:
        writer.add(first)
        for number, block in enumerate(blocks, start=1):
            block = _block(block, number, writer.rows)
            _check_block(block, number, writer, kind if dtype is None else None)
            writer.add(block)
        if not writer.rows:
            raise DataError(f"{source} is empty: there is not a row in its blocks of {d} columns")
        writer.finish(names)


def _block(block: Any, number: int, row: int) -> Any:
    """A block as an array of numbers or a canonical CSR array."""
    place = f"source, block {number} (from row {row})"
    if not sparse.issparse(block):
        block = np.asarray(block)
    floating(block.dtype, place)
    if block.ndim != 2:
        raise DataError(f"{place} has shape {block.shape}: blocks need rows and columns")
    if sparse.issparse(block):
        block = sparse.csr_array(block)
        if not block.has_canonical_format:
            block = block.copy()  # what was given stays as it is
            block.sum_duplicates()
    return block


def _check_block(block: Any, number: int, writer: FolderWriter, kind: Any) -> None:
    """All blocks must have the same width and be of one kind."""
    place = f"source, block {number} (from row {writer.rows})"
    if block.shape[1] != writer.columns:
        raise DataError(
            f"{place} has {block.shape[1]} columns, the blocks before have {writer.columns}: "
            "blocks must have the same columns"
        )
    if bool(sparse.issparse(block)) != writer.is_sparse:
        raise DataError(f"{place}: dense and sparse blocks are mixed; make them all the same")
    if kind == np.float32 and floating(block.dtype, place) == np.float64:
        raise DataError(
            f"{place} has dtype {block.dtype}, the first block has float32: pass dtype=, float32 "
            "to round or float64 to keep all digits"
        )


def _write_csv(path: Path, columns: Sequence[str] | None, dtype: Any, aside: Path) -> None:
    names: list[str] = []

    def blocks() -> Iterator[Any]:
        for block, found in stream_csv(path, columns):
            names[:] = found
            yield block

    _write_blocks(blocks(), names, dtype, aside, path)


def _write_svmlight(
    path: Path, width: int | None, zero_based: bool | Literal["auto"], dtype: Any, aside: Path
) -> None:
    """One reading of the text; indices count from 1 until a 0 is seen, and are corrected then."""
    base, highest = Base(width, zero_based), -1
    writer = FolderWriter(aside, width or BIGGEST, dtype or np.float64, is_sparse=True)
    with _written(writer):
        for chunk in stream_svmlight(path):
            base.heed(chunk)
            if chunk.highest is not None:
                highest = max(highest, chunk.highest[0])
            writer.rows += len(chunk.labels)
            writer.add_entries(chunk.indptr, chunk.indices - np.int32(1), chunk.values)
        if not writer.rows:
            raise DataError(f"there is not a row in {path}")
        if base.first == 0:
            writer.shift_indices(1)
        writer.columns = width or highest - base.first + 1
        if writer.columns < 1:
            raise DataError(f"{path} has rows, but not an entry: pass width= if that is right")
        writer.finish(None)
