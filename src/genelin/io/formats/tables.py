"""Tables: Parquet (one file or a folder of them), Arrow IPC, and CSV as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genelin.errors import DataError
from genelin.io.block_readers import MOST, PieceReader, Pieces
from genelin.io.damaged_files import decoding, regular, shortened
from genelin.io.optional_libraries import storage

__all__ = ["ArrowReader", "ParquetReader", "arrow_batches", "stream_csv"]

BROKEN = "cannot be read as a table, or is damaged"
PIECE = 1 << 22  # bytes of a piece of a table


class _Table(PieceReader):
    """Record batches of numbers under names."""

    def __init__(
        self, path: Path, schema: Any, starts: Any, columns: Sequence[str] | None, files: list[Path]
    ) -> None:
        with decoding(path, BROKEN):
            there = schema.names  # which may not be text
        self.names = _chosen(path, there, columns)
        dtype = _common_type(path, schema, self.names)
        super().__init__(str(path), np.asarray(starts, np.int64), len(self.names), dtype, files)

    @property
    def _rows(self) -> int:
        """Of a piece."""
        return max(64, PIECE // (len(self.names) * self.dtype.itemsize))

    def _array(self, batch: Any, first: int) -> NDArray[Any]:
        """Rows of a batch, of which the first is row `first` of the table."""
        out = np.empty((batch.num_rows, len(self.names)), self.dtype)
        batch.validate(full=True)  # no length or bitmap of a file is believed
        for j, name in enumerate(self.names):
            column = batch.column(name)
            if column.null_count:
                missing = column.is_null().to_numpy(zero_copy_only=False)
                row = first + int(np.flatnonzero(missing)[0])
                raise DataError(
                    f"{self.name}: column {name!r:.60} has no value in row {row}: drop such rows "
                    "or impute them before the table is written"
                )
            out[:, j] = column.to_numpy(zero_copy_only=False)
        return out


class ParquetReader(_Table):
    """Parquet files, whose row groups are unpacked a few rows at a time."""

    def __init__(self, path: Path, columns: Sequence[str] | None = None) -> None:
        parquet = storage("pyarrow.parquet", path)
        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        for file in files:
            regular(file)
        footers, schemas = [], []
        for file in files:
            with decoding(file, BROKEN):
                footers.append(parquet.read_metadata(file))
                schemas.append(parquet.read_schema(file))
                _check_rows(file, footers[-1])
                _check_names(file, schemas[-1].names, files[0], schemas[0].names)
        sizes = [
            (file, group, footer.row_group(group).num_rows)
            for file, footer in zip(files, footers, strict=True)
            for group in range(footer.num_row_groups)
        ]
        self._groups = [(file, group) for file, group, _ in sizes]
        starts = np.cumsum([0, *(rows for _, _, rows in sizes)])
        super().__init__(path, schemas[0], starts, columns, files)

    @contextmanager
    def opened(self) -> Iterator[Pieces]:
        """One file is open at a time."""
        parquet = storage("pyarrow.parquet", self.name)
        with ExitStack() as stack:
            at: dict[Path, Any] = {}

            def pieces(number: int) -> Iterator[NDArray[Any]]:
                path, group = self._groups[number]
                first = int(self._starts[number])
                with decoding(path, BROKEN):
                    if path not in at:
                        stack.close()
                        at.clear()
                        at[path] = stack.enter_context(parquet.ParquetFile(path))
                    batches = at[path].iter_batches(
                        self._rows, row_groups=[group], columns=self.names, use_threads=False
                    )
                    for batch in batches:
                        yield self._array(batch, first)
                        first += batch.num_rows

            yield pieces


def arrow_batches(path: Path) -> tuple[Any, list[int]]:
    """The schema of an Arrow IPC file, and the rows of its batches, with which columns agree."""
    arrow = storage("pyarrow", path)
    with decoding(path, BROKEN), arrow.memory_map(str(regular(path))) as file:
        reader = arrow.ipc.open_file(file)
        rows = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
        return reader.schema, rows


class ArrowReader(_Table):
    """An Arrow IPC file (Feather, version 2), mapped into memory."""

    def __init__(self, path: Path, columns: Sequence[str] | None = None) -> None:
        schema, rows = arrow_batches(path)
        super().__init__(path, schema, np.cumsum([0, *rows]), columns, [path])

    @contextmanager
    def opened(self) -> Iterator[Pieces]:
        """Batches are cut into pieces without a copy."""
        arrow = storage("pyarrow", self.name)
        with arrow.memory_map(self.name) as file:
            with decoding(self.name, BROKEN):
                reader = arrow.ipc.open_file(file)

            def pieces(number: int) -> Iterator[NDArray[Any]]:
                with decoding(self.name, BROKEN):
                    batch, first = reader.get_batch(number), int(self._starts[number])
                    for start in range(0, batch.num_rows, self._rows):
                        yield self._array(batch.slice(start, self._rows), first + start)

            yield pieces


def stream_csv(path: Path, columns: Sequence[str] | None = None) -> Iterator[tuple[Any, list[str]]]:
    """Blocks of a CSV file with a line of names, and the names."""
    arrow, csv = storage("pyarrow", path), storage("pyarrow.csv", path)
    regular(path)
    with decoding(path, BROKEN):
        names = _chosen(path, csv.open_csv(path).schema.names, columns)
        options = csv.ConvertOptions(
            include_columns=names, column_types=dict.fromkeys(names, arrow.float64())
        )
        row = 0
        for batch in csv.open_csv(path, convert_options=options):
            for name, column in zip(names, batch.columns, strict=True):
                if column.null_count:
                    missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
                    raise DataError(
                        f"{path}: column {name!r:.60} has no value in row {row + int(missing[0])}: "
                        "drop such rows or impute them"
                    )
            yield np.column_stack([column.to_numpy() for column in batch.columns]), names
            row += batch.num_rows


def _chosen(path: Path, names: list[str], columns: Sequence[str] | None) -> list[str]:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{path} has two columns {twice!r:.60}: rename one of them")
    if columns is None:
        return list(names)
    if missing := [name for name in columns if name not in names]:
        raise DataError(f"{path} has no column {missing[0]!r}: it has {_listed(names[:20])}")
    return list(columns)


def _listed(names: list[str]) -> str:
    return ", ".join(shortened(name, 40) for name in names)


def _check_rows(file: Path, footer: Any) -> None:
    """The row groups hold the rows of the file."""
    groups = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
    if min(groups, default=0) < 0 or sum(groups) != footer.num_rows or footer.num_rows > MOST:
        raise DataError(
            f"{file} promises {footer.num_rows:,} rows, and its row groups {sum(groups):,}: it is "
            "damaged; write it anew"
        )


def _check_names(file: Path, names: list[str], first: Path, expected: list[str]) -> None:
    """Files of one table have the same columns."""
    if names != expected:
        raise DataError(
            f"{file} has {len(names)} columns ({_listed(names[:5])}, …), {first} has "
            f"{len(expected)} ({_listed(expected[:5])}, …): chunks of one table must have the "
            "same columns"
        )


def _common_type(path: Path, schema: Any, names: list[str]) -> np.dtype[Any]:
    """float32 if all columns are, else float64; what is not a number is refused."""
    types = storage("pyarrow.types", path)
    kinds = [schema.field(name).type for name in names]
    for name, kind in zip(names, kinds, strict=True):
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise DataError(
                f"{path}: column {name!r:.60} holds {kind}, not numbers: name the columns to use, "
                "open_rows(path, columns=[…]), or encode it first"
            )
    return np.dtype(np.float32 if all(map(types.is_float32, kinds)) else np.float64)
