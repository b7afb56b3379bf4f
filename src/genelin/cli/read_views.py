"""Files as views: matrices, tables with named columns, and folders that stay on disk."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from genelin.cli.exit_codes import BadInputError

__all__ = [
    "View",
    "is_table",
    "read_matrix",
    "read_view",
    "read_views",
    "refuse_mismatch",
    "streamable_columns",
]

SEPARATED = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")
TABLES = (*SEPARATED, *PARQUET, ".arrow", ".feather", ".ipc")
MATRICES = (".npy", ".npz", ".mtx")
MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
LOOKED_AT = 1000  # lines by which the kinds of columns are told
SHARE = 0.4  # of the free memory that a view may take; larger ones stay on disk
PER_NUMBER = 25  # most letters of a number in a text file
SMALL = 1e7  # bytes of a sparse matrix file that need no second look


@dataclass(frozen=True)
class View:
    """Rows that the estimators read, with the names of their columns where they have any."""

    rows: Any
    names: list[str] | None
    path: str

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n, d = self.rows.shape
        return int(n), int(d)

    def __str__(self) -> str:
        n, d = self.shape
        return f"{self.path} ({n:,} × {d:,})"


def read_views(
    x: str,
    y: str | None,
    x_columns: Sequence[str],
    y_columns: Sequence[str],
    header: bool | None = None,
) -> tuple[View, View]:
    """Two views of the same rows: two files, or two sets of columns of one table."""
    if y is None and not (x_columns and y_columns):
        raise BadInputError(
            f"only {x} was given: name a second file, or choose the columns of both views with "
            "--x-columns and --y-columns"
        )
    if y is None:
        return _split_table(x, x_columns, y_columns, header)
    first = read_view(x, x_columns, "--x-columns", header)
    second = read_view(y, y_columns, "--y-columns", header)
    refuse_mismatch(first, second)
    return first, second


def refuse_mismatch(x: View, y: View) -> None:
    """Refuse views with different numbers of rows."""
    if x.shape[0] != y.shape[0]:
        raise BadInputError(
            f"{x.path} has {x.shape[0]:,} rows but {y.path} has {y.shape[0]:,}: row i of both must "
            "describe the same observation"
        )


def _split_table(
    path: str, x_columns: Sequence[str], y_columns: Sequence[str], header: bool | None
) -> tuple[View, View]:
    """Two views out of one table, which is read once."""
    _refuse_absent(path)
    if not is_table(path):
        raise BadInputError(f"{path} has no named columns: give two files, or one table")
    choices = ((x_columns, "--x-columns"), (y_columns, "--y-columns"))
    first, second = _read_table(path, choices, header)
    if shared := set(first.names or ()) & set(second.names or ()):
        raise BadInputError(
            f"column {min(shared)!r:.60} is in both views: leave it out of --x-columns or "
            "--y-columns"
        )
    return first, second


def is_table(path: str) -> bool:
    """Whether a file has named columns, by its suffix."""
    return _kind(path) in TABLES and Path(path).is_file()


def read_view(
    path: str, columns: Sequence[str] = (), option: str = "--x-columns", header: bool | None = None
) -> View:
    """One view, from any format."""
    _refuse_absent(path)
    if is_table(path):
        return _read_table(path, [(columns, option)], header)[0]
    if columns:
        raise BadInputError(
            f"{option} chooses columns of tables (CSV, TSV, Parquet, Arrow), but {path} is none: "
            "leave it out"
        )
    if _kind(path) in MATRICES and Path(path).is_file() and not _is_vast(path):
        return View(read_matrix(path), None, path)
    return _open_stored(path)


def _is_vast(path: str) -> bool:
    """Whether a sparse matrix is better left on disk; .npy files are mapped, not loaded."""
    if _kind(path) != ".npz" or Path(path).stat().st_size < SMALL:
        return False
    from genelin.io import open_rows

    return open_rows(path).nbytes > _memory()


def _memory() -> float:
    """Bytes that a view may take in memory."""
    from genelin.system.memory import available_memory

    return SHARE * available_memory()


def read_matrix(path: str) -> Any:
    """A matrix of a .npy, .npz or .mtx file; a vector becomes a column."""
    _refuse_absent(path)
    readers = {".npy": _read_npy, ".npz": _read_npz, ".mtx": _read_mtx}
    reader = readers.get(_kind(path))
    if reader is None:
        raise BadInputError(f"{path} is not a matrix file: give .npy, .npz or .mtx")
    from genelin.io.block_readers import check_shape, floating
    from genelin.io.damaged_files import regular

    regular(path)
    matrix = reader(path)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    check_shape(path, matrix.shape)
    floating(matrix.dtype, path)
    return matrix


def _refuse_absent(path: str) -> None:
    """Refuse what is not there, and what is neither a file nor a folder."""
    if not Path(path).exists():
        raise BadInputError(f"there is no file {path}: check the path")
    from genelin.io.damaged_files import regular

    if not Path(path).is_dir():
        regular(path)


def _kind(path: str) -> str:
    """The suffix that tells the format; that of a compressed file is the one before."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if len(suffixes) > 1 and suffixes[-1] == ".gz":
        return suffixes[-2]
    return suffixes[-1] if suffixes else ""


# --- Matrices ----------------------------------------------------------------------------------


def _read_npy(path: str) -> Any:
    """Mapped, once the file is as long as its header says."""
    from genelin.io.block_readers import floating
    from genelin.io.number_streams import npy_flat

    flat, shape, fortran = npy_flat(Path(path))
    floating(flat.dtype, path)
    if not flat.size:
        return np.empty(shape)  # nothing to map
    order: Any = "F" if fortran else "C"
    return np.memmap(path, flat.dtype, "r", flat.offset, shape, order)


def _read_npz(path: str) -> Any:
    from genelin.io.formats.npz import load_npz

    return load_npz(Path(path))


def _read_mtx(path: str) -> Any:
    from genelin.io.formats.matrix_market import read_mtx

    return read_mtx(path)


def _open_stored(path: str, columns: Sequence[str] | None = None) -> View:
    """What `genelin.io` reads in blocks: folders of rows, zarr, h5ad, vast tables."""
    from genelin.io import open_rows

    stored = open_rows(path, columns=columns)
    names = stored.column_names
    return View(stored, None if names is None else [str(name) for name in names], path)


# --- Tables ------------------------------------------------------------------------------------


def _read_table(
    path: str, choices: Sequence[tuple[Sequence[str], str]], header: bool | None
) -> list[View]:
    """A view for every choice of columns (and the option that made it), from one read."""
    from genelin.io.block_readers import check_shape

    kind = _kind(path)
    settings, schema = _described(path, header)
    chosen = [_chosen(schema, columns, path, option) for columns, option in choices]
    together = list(dict.fromkeys(chain(*chosen)))
    if _table_bytes(path, kind, len(together)) > _memory():
        return [_open_vast(path, kind, names) for names in chosen]
    with _polars_errors(path):
        frame = _load(path, kind, settings, together)
    check_shape(path, frame.shape)
    _refuse_missing(frame, path)
    return [View(frame.select(names).to_numpy(order="c"), names, path) for names in chosen]


def _table_bytes(path: str, kind: str, columns: int) -> float:
    """What a table takes in memory; of a text file, at least so much."""
    import polars as pl

    if kind in SEPARATED:
        from genelin.io.formats.matrix_market import unpacked_size

        return 8.0 * unpacked_size(path, PER_NUMBER * _memory() / 8) / PER_NUMBER
    scan = pl.scan_parquet if kind in PARQUET else pl.scan_ipc
    with _polars_errors(path):
        return 8.0 * columns * int(scan(path).select(pl.len()).collect().item())


def _open_vast(path: str, kind: str, names: list[str]) -> View:
    """A table that stays on disk."""
    if kind in SEPARATED:
        raise BadInputError(
            f"{path} does not fit in memory: turn it into a folder with `genelin convert`, and "
            "give that folder instead"
        )
    return _open_stored(path, names)


def streamable_columns(
    path: str, columns: Sequence[str], option: str, header: bool | None
) -> list[str] | None:
    """Columns of a table that `genelin.io` reads in blocks; None if it does not read this one."""
    settings, schema = _described(path, header)
    names = _chosen(schema, columns, path, option)
    plain = {"separator": ",", "has_header": True}
    common = _kind(path) != ".tsv" and all(settings.get(key, v) == v for key, v in plain.items())
    return names if common and not path.endswith((".gz", ".txt")) else None


@contextmanager
def _polars_errors(path: str) -> Iterator[None]:
    """Errors of Polars in one line, with the name of the file."""
    try:
        import polars as pl
    except ImportError as error:
        raise ImportError('tables need polars: pip install "genelin[cli]"') from error
    from genelin.io.damaged_files import decoding, said

    with decoding(path, f"cannot be read as {_kind(path)}, or is damaged"):
        try:
            yield
        except pl.exceptions.PanicException as error:  # not an Exception
            raise ValueError(said(error)) from error


def _described(path: str, header: bool | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """How a text file is laid out, and the columns of a table with their kinds."""
    kind = _kind(path)
    settings = _layout(path, kind, header) if kind in SEPARATED else {}
    with _polars_errors(path):
        return settings, _schema(path, kind, settings)


def _layout(path: str, kind: str, header: bool | None) -> dict[str, Any]:
    """Separator and header of a text file, by its first line."""
    from genelin.io.damaged_files import decoding

    opened = gzip.open if path.endswith(".gz") else open
    with (
        opened(path, "rt", encoding="utf-8", newline="") as file,
        decoding(path, "is not a table in text: give CSV, Parquet, .npy, .npz or .mtx"),
    ):
        first = file.readline(2**20).strip("\ufeff\r\n")
        separator = "\t" if kind == ".tsv" else max(",;\t", key=first.count)
        cells = next(csv.reader([first], delimiter=separator))
    if not first:
        raise BadInputError(f"{path} is empty")
    if header is None:
        header = not all(_is_number(cell) for cell in cells)
    return {"separator": separator, "has_header": header, "null_values": MISSING}


def _is_number(cell: str) -> bool:
    if cell.strip() in MISSING:
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _schema(path: str, kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    import polars as pl

    if kind in SEPARATED:
        return dict(
            pl.read_csv(path, n_rows=LOOKED_AT, infer_schema_length=LOOKED_AT, **settings).schema
        )
    read = pl.read_parquet_schema if kind in PARQUET else pl.read_ipc_schema
    return dict(read(path))


def _load(path: str, kind: str, settings: dict[str, Any], names: list[str]) -> Any:
    import polars as pl

    if kind in SEPARATED:
        return _load_text(path, settings, names).select(names)
    if kind in PARQUET:
        return pl.read_parquet(path, columns=names).select(names)
    frame = pl.read_ipc(path, columns=names).select(names)
    _check_batches(path, len(frame))
    return frame


def _check_batches(path: str, rows: int) -> None:
    """Polars takes a batch to be as short as it says, whatever its columns hold; PyArrow looks."""
    from genelin.io.formats.tables import arrow_batches

    try:
        found = sum(arrow_batches(Path(path))[1])
    except ImportError:
        return  # of the extra `storage`
    if found != rows:
        raise BadInputError(f"{path} has {found:,} rows, of which {rows:,} can be read")


def _load_text(path: str, settings: dict[str, Any], names: list[str]) -> Any:
    """Numbers of a text file; words for missing ones are looked for only if there are any words."""
    import polars as pl

    floats: dict[str, Any] = dict.fromkeys(names, pl.Float64)
    quick = settings | {"null_values": None}
    try:
        return pl.read_csv(path, columns=names, schema_overrides=floats, **quick)
    except pl.exceptions.ComputeError:
        return pl.read_csv(path, columns=names, schema_overrides=floats, **settings)


def _chosen(schema: dict[str, Any], patterns: Sequence[str], path: str, option: str) -> list[str]:
    """Columns by name, `first:last`, or a pattern with `*`; all of them if nothing is asked for."""
    names = _selected(list(schema), patterns, path, option)
    _refuse_text(schema, names, path, option)
    return names


def _selected(there: list[str], patterns: Sequence[str], path: str, option: str) -> list[str]:
    if not patterns:
        return there
    names: dict[str, None] = {}
    for entry in patterns:
        for pattern in [entry] if entry in there else entry.split(","):
            found = _matching(there, pattern.strip())
            if not found:
                shown = ", ".join(f"{name:.40}" for name in there[:8]) + (
                    ", …" if len(there) > 8 else ""
                )
                raise BadInputError(
                    f"{path} has no column {pattern.strip()!r} for {option}: it has {shown}"
                )
            names |= dict.fromkeys(found)
    return list(names)


def _matching(there: list[str], pattern: str) -> list[str]:
    if pattern in there:
        return [pattern]
    first, colon, last = pattern.partition(":")
    if colon and first in there and last in there:
        return there[there.index(first) : there.index(last) + 1]
    return [name for name in there if fnmatchcase(name, pattern)]


def _refuse_text(schema: dict[str, Any], names: list[str], path: str, option: str) -> None:
    import polars as pl

    for name in names:
        kind = schema[name]
        if not (kind.is_numeric() or kind in (pl.Boolean, pl.Null)):
            raise BadInputError(
                f"column {name!r:.60} of {path} holds {kind}, not numbers: leave it out by "
                f"choosing columns with {option}"
            )


def _refuse_missing(frame: Any, path: str) -> None:
    counts = frame.null_count().row(0)
    for name, count in zip(frame.columns, counts, strict=True):
        if count:
            row = frame[name].is_null().arg_max()
            raise BadInputError(
                f"column {name!r:.60} of {path} has no value in row {row}, counted from 0 "
                f"({sum(counts)} such cells in all): drop or fill them first"
            )


# --- Data that come along ----------------------------------------------------------------------


def digits_views() -> tuple[View, View]:
    """Left and right halves of handwritten digits."""
    from genelin.datasets import digits_halves

    digits = digits_halves()
    x_names, y_names = (
        None if names is None else [str(name) for name in names]
        for names in (digits.x_names, digits.y_names)
    )
    return (
        View(digits.X, x_names, "left halves of digits"),
        View(digits.Y, y_names, "right halves of digits"),
    )
