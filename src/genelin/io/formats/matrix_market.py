"""Matrix Market files, `.mtx`: read in chunks of whole lines, every place looked at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from genelin.errors import DataError
from genelin.io.block_readers import BIGGEST, check_shape
from genelin.io.formats.npz import check_rows
from genelin.io.formats.svmlight import CHUNK, long_numbers, open_bytes, whole_lines

__all__ = ["read_mtx", "unpacked_size"]

HEADER = 1 << 16  # bytes of a line before the entries
BEFORE = 1 << 16  # lines of comments
FORMS = ("coordinate", "array")
FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")


@dataclass(frozen=True)
class Banner:
    """What the lines before the entries say, and how many there are."""

    form: str
    field: str
    symmetry: str
    shape: tuple[int, int]
    entries: int
    lines: int


def read_mtx(path: str | Path) -> Any:
    r"""A matrix of numbers: an ndarray or a CSR array, entries in the same place added.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "A.mtx"
    >>> _ = path.write_text(
    ...     "%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 1 0.5\n2 1 3\n"
    ... )
    >>> read_mtx(path).toarray().tolist()
    [[0.5, 3.0], [3.0, 0.0]]
    """
    path = Path(path)
    with open_bytes(path) as file:
        banner = _banner(file, path)
    check_shape(str(path), banner.shape)
    check_rows(path, banner.shape[0], banner.entries)
    least = banner.entries * _shortest(banner)
    if unpacked_size(path, least) < least:
        raise DataError(
            f"{path} promises {banner.entries:,} entries and is too short for them: it was cut "
            "off, or its header is damaged"
        )
    places, values = _entries(path, banner)
    return (
        _sparse(banner, places, values) if banner.form == "coordinate" else _dense(banner, values)
    )


def unpacked_size(path: str | Path, enough: float) -> float:
    """Bytes of a text file; of a compressed one, counted until there are enough."""
    path = Path(path)
    if path.suffix not in (".gz", ".bz2", ".xz"):
        return float(path.stat().st_size)
    size = 0
    with open_bytes(path) as file:
        while size <= enough and (piece := file.read(1 << 20)):
            size += len(piece)
    return float(size)


def _banner(file: IO[bytes], path: Path) -> Banner:
    first = _line(file, path, 1)
    words = first.lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise DataError(
            f"{path} cannot be read: its first line is {first[:60]!r}, not a header of Matrix "
            "Market such as '%%MatrixMarket matrix coordinate real general'"
        )
    for word, known in zip(words[2:], (FORMS, FIELDS, SYMMETRIES), strict=True):
        if word not in known:
            raise DataError(
                f"{path}, line 1: {word[:40]!r} cannot be read, only {', '.join(known)}"
            )
    form, field, symmetry = words[2:]
    if form == "array" and field == "pattern":
        raise DataError(f"{path}, line 1: a pattern needs places: it cannot be an array")
    return _sized(file, path, form, field, symmetry)


def _sized(file: IO[bytes], path: Path, form: str, field: str, symmetry: str) -> Banner:
    """With the line of sizes, the first that is no comment."""
    for number in range(2, BEFORE):
        line = _line(file, path, number)
        if line.strip() and not line.startswith("%"):
            break
    else:
        raise DataError(f"{path} has {BEFORE:,} lines of comments and no line of sizes")
    words, expected = line.split(), 2 + (form == "coordinate")
    plain = all(word.isascii() and word.isdigit() and len(word) < 19 for word in words)
    if len(words) != expected or not plain:
        raise DataError(f"{path}, line {number}: {line[:60]!r} is not a line of {expected} sizes")
    n, d, *rest = map(int, words)
    if symmetry != "general" and n != d:
        raise DataError(f"{path}, line {number}: a {symmetry} matrix cannot be {n} × {d}")
    whole = {"general": n * d, "skew-symmetric": n * (n - 1) // 2}.get(symmetry, n * (n + 1) // 2)
    return Banner(form, field, symmetry, (n, d), rest[0] if rest else whole, number)


def _line(file: IO[bytes], path: Path, number: int) -> str:
    line = file.readline(HEADER)
    if not line or len(line) == HEADER:
        why = "is too long" if line else "is missing: the file was cut off"
        raise DataError(f"{path} cannot be read: line {number} {why}")
    return line.decode("utf-8", "replace").rstrip("\r\n")


def _shortest(banner: Banner) -> int:
    """Bytes of the shortest line; the last one may lack its end."""
    return {"array": 2, "coordinate": 4 if banner.field == "pattern" else 6}[banner.form]


def _entries(path: Path, banner: Banner) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Places and values of all entries, in the order of the file."""
    from genelin.kernels.matrix_market_text import PROBLEMS, parse_entries

    index = np.int32 if max(banner.shape) <= BIGGEST else np.int64
    placed, valued = banner.form == "coordinate", banner.field != "pattern"
    places = np.empty((banner.entries if placed else 0, 2), index)
    values = np.empty(banner.entries if valued else 0)
    shape, count, lines = np.array(banner.shape), 0, banner.lines
    with open_bytes(path) as file:
        for number in range(1, banner.lines + 1):
            _line(file, path, number)
        for text in whole_lines(file, CHUNK, str(path)):
            letters, here = np.frombuffer(text, np.uint8), text.count(b"\n") + 1
            slow = np.empty((here, 3), np.int64)
            count, hard, code, line = parse_entries(letters, count, shape, places, values, slow)
            if code:
                raise DataError(f"{path}, line {lines + line + 1}: {PROBLEMS[code]}")
            at, first, last = slow[:hard].T  # digits that take more than one rounding
            values[at] = long_numbers(letters, first, last)
            lines += here - 1
    if count != banner.entries:
        raise DataError(
            f"{path} promises {banner.entries:,} entries and has {count:,}: it was cut off, or its "
            "header is damaged"
        )
    return places, values


def _sparse(banner: Banner, places: NDArray[Any], values: NDArray[np.float64]) -> Any:
    """Entries, and their mirror images where only one half is stored."""
    rows, columns = places[:, 0], places[:, 1]
    values = values if banner.field != "pattern" else np.ones(len(places))
    if banner.symmetry != "general":
        off, sign = rows != columns, -1.0 if banner.symmetry == "skew-symmetric" else 1.0
        mirrored = columns[off], rows[off]
        rows, columns = np.append(rows, mirrored[0]), np.append(columns, mirrored[1])
        values = np.append(values, sign * values[off])
    return sparse.coo_array((values, (rows, columns)), shape=banner.shape).tocsr()


def _dense(banner: Banner, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers by columns, of one half where the other is its mirror image."""
    n, d = banner.shape
    if banner.symmetry == "general":
        return values.reshape(d, n).T
    X, skew = np.zeros((n, n)), banner.symmetry == "skew-symmetric"
    columns, rows = np.triu_indices(n, int(skew))  # by columns of the lower half
    X[rows, columns] = values
    X[columns, rows] = -values if skew else values
    return X
