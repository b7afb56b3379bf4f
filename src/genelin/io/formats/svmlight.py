"""Files in svmlight format, read in chunks of whole lines: memory does not grow with the file."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from genelin.errors import DataError
from genelin.io.damaged_files import regular, said

__all__ = [
    "Base",
    "Chunk",
    "long_numbers",
    "open_bytes",
    "read_svmlight",
    "stream_svmlight",
    "whole_lines",
]

CHUNK = 1 << 23  # bytes of text
WIDTH, SLICE = 32, 1 << 14  # letters of a number, and numbers, that are worked on together
LONGEST = 1 << 25  # bytes of a line
UNPACKING = (EOFError, OSError, lzma.LZMAError, zlib.error)  # bzip2 has an OSError without number
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@dataclass(frozen=True)
class Chunk:
    """Some rows: labels and a CSR matrix in three arrays, with the indices of the file.

    `lowest` and `highest` are (index, line), lines counted from 1.

    Examples
    --------
    >>> import io
    >>> chunk = next(stream_svmlight(io.BytesIO(b"+1 3:0.5 7:1")))
    >>> chunk.labels.tolist(), chunk.indices.tolist(), chunk.highest
    ([1.0], [3, 7], (7, 1))
    """

    name: str
    labels: NDArray[np.float64]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    lowest: tuple[int, int] | None
    highest: tuple[int, int] | None


@contextmanager
def open_bytes(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file to read its bytes, through gzip, bzip2 or xz by its suffix.

    Examples
    --------
    >>> with open_bytes("no/such/file.gz"):
    ...     pass
    Traceback (most recent call last):
        ...
    genelin.errors.DataError: no/such/file.gz does not exist
    """
    path = regular(path)
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as file:
            yield file
    except UNPACKING as error:
        if isinstance(error, OSError) and (error.errno is not None or isinstance(error, DataError)):
            raise
        raise DataError(f"{path} is damaged or cut off: {said(error)}") from error


def stream_svmlight(
    file: str | Path | IO[bytes], chunk: int = CHUNK, name: str | None = None
) -> Iterator[Chunk]:
    r"""Parse a file in svmlight format, about `chunk` bytes of whole lines at a time.

    Lines are `label index:value …`, with indices in ascending order; `qid:` and what follows a
    `#` are skipped, and so are empty lines. What is wrong is reported with file and line.

    Examples
    --------
    >>> import io
    >>> list(stream_svmlight(io.BytesIO(b"1 3:1\n-1 4:1 5:\n"), name="Day0.svm"))
    Traceback (most recent call last):
        ...
    ValueError: Day0.svm, line 2: a value is missing or not a number (is the line truncated?)
    """
    if isinstance(file, str | Path):
        with open_bytes(file) as opened:
            yield from stream_svmlight(opened, chunk, str(file))
        return
    name = str(getattr(file, "name", "svmlight")) if name is None else name
    lines = 0
    for text in whole_lines(file, chunk, name):
        yield _parsed(text, name, lines)
        lines += text.count(b"\n")


def whole_lines(file: IO[bytes], chunk: int, name: str) -> Iterator[bytes]:
    """Text in pieces that end with a line, but for the last; a line that never ends is refused."""
    begun, length, lines = list[bytes](), 0, 0  # of the line that goes on
    while piece := file.read(chunk):
        cut = piece.rfind(b"\n") + 1
        if cut:
            text = b"".join([*begun, piece[:cut]])
            lines += text.count(b"\n")
            yield text
            begun, length = [], 0
        begun.append(piece[cut:])
        length += len(piece) - cut
        if length > max(LONGEST, chunk):
            raise DataError(
                f"{name} has a line of more than {LONGEST:,} bytes, after {lines:,} others: is it "
                "damaged, or no text?"
            )
    if length:
        yield b"".join(begun)


def _parsed(text: bytes, name: str, lines: int) -> Chunk:
    """The rows of whole lines, of which `lines` came before."""
    from genelin.kernels.svmlight_text import PROBLEMS, parse_svmlight

    letters = np.frombuffer(text, np.uint8)
    most, entries = text.count(b"\n") + 1, text.count(b":")
    labels, indptr = np.empty(most), np.empty(most + 1, np.int64)
    indices, values = np.empty(entries, np.int32), np.empty(entries)
    slow = np.empty((most + entries, 4), np.int64)
    rows, count, hard, low, low_line, high, high_line, code, line = parse_svmlight(
        letters, labels, indptr, indices, values, slow
    )
    if code:
        raise ValueError(f"{name}, line {lines + line + 1}: {PROBLEMS[code]}")
    hard_ones, kind = slow[:hard], slow[:hard, 0] > 0  # digits that take more than one rounding
    for out, chosen in ((labels, hard_ones[~kind]), (values, hard_ones[kind])):
        out[chosen[:, 1]] = long_numbers(letters, chosen[:, 2], chosen[:, 3])
    return Chunk(
        name,
        labels[:rows],
        indptr[: rows + 1],
        indices[:count],
        values[:count],
        (int(low), lines + low_line + 1) if count else None,
        (int(high), lines + high_line + 1) if count else None,
    )


def long_numbers(
    letters: NDArray[np.uint8], first: NDArray[np.int64], last: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Numbers in text, from letters `first` … `last` − 1 each, with the digits of Python.

    Examples
    --------
    >>> text = np.frombuffer(b"0.1234567890123456789 2e-300", np.uint8)
    >>> long_numbers(text, np.array([0, 22]), np.array([21, 28])).tolist()
    [0.12345678901234568, 2e-300]
    """
    numbers, lengths = np.empty(len(first)), last - first
    short = lengths <= WIDTH
    for start in range(0, len(first), SLICE):
        chosen = np.flatnonzero(short[start : start + SLICE]) + start
        places = first[chosen, None] + np.arange(WIDTH)
        words = letters[np.minimum(places, len(letters) - 1)]
        words[places >= last[chosen, None]] = 0
        numbers[chosen] = words.view(f"S{WIDTH}")[:, 0].astype(np.float64)
    for at in np.flatnonzero(~short):
        numbers[at] = float(letters[first[at] : last[at]].tobytes())
    return numbers


class Base:
    """Whether indices begin at 0 or at 1, from what the files show; the two must not be mixed.

    Index 0 tells of the one, index d of the other; where neither is seen, the format's custom
    holds, which is 1.

    Examples
    --------
    >>> import io
    >>> base = Base(columns=7)
    >>> for name, text in (("a.svm", b"1 0:1"), ("b.svm", b"1 7:1")):
    ...     for chunk in stream_svmlight(io.BytesIO(text), name=name):
    ...         base.heed(chunk)
    Traceback (most recent call last):
        ...
    ValueError: b.svm, line 1: index 7 of 7 columns counts from 1, but a.svm, line 1 has index 0...
    """

    def __init__(
        self, columns: int | None = None, zero_based: bool | Literal["auto"] = "auto"
    ) -> None:
        self._columns, self._asked = columns, zero_based
        self._zero: str | None = None  # where index 0 was seen
        self._last: str | None = None  # where index d was seen

    @property
    def first(self) -> int:
        """The index of the first column: 0 or 1."""
        if self._asked == "auto":
            return 0 if self._zero else 1
        return 0 if self._asked else 1

    def heed(self, chunk: Chunk) -> None:
        """Look at the extreme indices of a chunk, and refuse what cannot be."""
        if chunk.lowest is None or chunk.highest is None:
            return
        low, high = chunk.lowest, chunk.highest
        if low[0] == 0:
            self._zero = self._zero or f"{chunk.name}, line {low[1]}"
            if self._asked is False:
                raise ValueError(
                    f"{self._zero}: index 0 in a file that counts from 1 (zero_based=False)"
                )
        if self._columns is None:
            return
        d, place = self._columns, f"{chunk.name}, line {high[1]}"
        if high[0] > d:
            raise ValueError(f"{place}: index {high[0]} is beyond the {d} columns")
        if high[0] == d:
            self._last = self._last or place
            if self._asked is True:
                raise ValueError(
                    f"{place}: index {d} of {d} columns in a file that counts from 0 "
                    "(zero_based=True)"
                )
        if self._zero and self._last:
            raise ValueError(
                f"{self._last}: index {d} of {d} columns counts from 1, but {self._zero} has index "
                "0: read files that count from 0 and from 1 apart, each with zero_based="
            )


def read_svmlight(
    files: str | Path | Iterable[str | Path],
    columns: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
) -> tuple[Any, NDArray[np.float64]]:
    r"""All rows of one or more files in svmlight format: a CSR array and the labels.

    Parameters
    ----------
    files : one path or several, read in order; `.gz`, `.bz2` and `.xz` are unpacked on the way.
    columns : their number; None takes the largest index.
    zero_based : whether indices count from 0; "auto" goes by what is seen, see `Base`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "rows.svm"
    >>> _ = file.write_text("+1 1:0.5 3:2\n-1 2:1\n")
    >>> X, labels = read_svmlight(file)
    >>> X.toarray().tolist(), labels.tolist()
    ([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]], [1.0, -1.0])
    """
    paths = [files] if isinstance(files, str | Path) else list(files)
    base, chunks = Base(columns, zero_based), list[Chunk]()
    for path in paths:
        for chunk in stream_svmlight(path):
            base.heed(chunk)
            chunks.append(chunk)
    if not chunks:
        raise DataError(f"there is not a row in {', '.join(map(str, paths)) or 'no file'}")
    indices = np.concatenate([chunk.indices for chunk in chunks]) - np.int32(base.first)
    width = columns if columns is not None else int(indices.max(initial=-1)) + 1
    if width < 1:
        raise DataError(
            f"{', '.join(map(str, paths))} has rows, but not an entry: pass columns= if that is "
            "right"
        )
    matrix = sparse.csr_array(
        (np.concatenate([chunk.values for chunk in chunks]), indices, stacked(chunks)),
        shape=(sum(len(chunk.labels) for chunk in chunks), width),
    )
    return matrix, np.concatenate([chunk.labels for chunk in chunks])


def stacked(chunks: Iterable[Chunk]) -> NDArray[np.int64]:
    """The row pointers of all chunks, one after the other."""
    lengths = [np.diff(chunk.indptr) for chunk in chunks]
    return np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
