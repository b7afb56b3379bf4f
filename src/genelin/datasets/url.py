"""URL Reputation (Ma, Saul, Savage & Voelker 2009): days of suspicious and harmless URLs."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from genelin.datasets.bunches import Views
from genelin.datasets.fetch import Progress, Source, fetch, find
from genelin.errors import DataError
from genelin.io.damaged_files import regular, said
from genelin.io.formats.svmlight import UNPACKING, Base, Chunk, stream_svmlight

__all__ = ["url_reputation"]

COLUMNS = 3_231_961
FOLDERS = ("url_svmlight", "url_reputation")
ARCHIVE = Source(
    "url_svmlight.tar.gz",
    ("http://www.sysnet.ucsd.edu/projects/url/url_svmlight.tar.gz",),
    advice="An unpacked folder url_svmlight/ will do, and so will LIBSVM's combined file.",
)
COMBINED = ("url_combined.bz2", "url_combined.xz", "url_combined.gz", "url_combined")

Codes = NDArray[np.int64]


def url_reputation(
    path: str | Path | None = None,
    *,
    split: Literal["types", "alternate"] | Codes = "types",
    features: int | tuple[int, int] | None = 100_000,
    rows: int | None = None,
    columns: int = COLUMNS,
    zero_based: bool | Literal["auto"] = "auto",
    progress: Progress | None = None,
) -> Views:
    r"""Two views of the features of URLs (§7.2 of the paper), read as a stream, twice.

    The authors made the features anonymous: which of them are host-based and which lexical is not
    published. What is published is the file `FeatureTypes`, which lists those with real values.

    Parameters
    ----------
    path : a folder of day files (`Day0.svm`, …), a file in svmlight format (the combined one of
        LIBSVM, say), or `url_svmlight.tar.gz`; None looks for these in the data folders.
    split : "types" takes the real-valued features for X and the binary ones for Y: by the file
        `FeatureTypes`, or where that is missing, those that have a value other than 0 and 1 in
        the rows read. "alternate" deals all features out in turn, the most frequent first. An
        array holds the features of X, as the files number them; all others are for Y.
    features : at most so many of each view, the most frequent ones; a pair for X and Y, None for
        all.
    rows : the first so many; None takes all.
    columns : number of features, beyond which an index is wrong.
    zero_based : whether the files count features from 0, see `svmlight.Base`.
    progress : of the download, see `fetch.download`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "Day0.svm"
    >>> _ = file.write_text("+1 1:0.5 3:1\n-1 1:0.2 2:1 3:1\n")
    >>> views = url_reputation(file)
    >>> views.x_names.tolist(), views.y_names.tolist()
    (['feature 1'], ['feature 3', 'feature 2'])
    """
    days = _located(path, progress)
    base = Base(columns, zero_based)

    def chunks() -> Iterator[Chunk]:
        return _first_rows(days.chunks(), rows)

    census = _Census(columns)
    for chunk in chunks():
        base.heed(chunk)
        census.count(chunk)
    if not census.rows:
        raise DataError(f"there is not a row in {days.name}")
    x_columns, y_columns, rule = _views(days.name, census, split, days.feature_types)
    x_most, y_most = features if isinstance(features, tuple) else (features, features)
    x_columns, y_columns = census.leading(x_columns, x_most), census.leading(y_columns, y_most)
    X, Y = _Columns(x_columns, columns), _Columns(y_columns, columns)
    for chunk in chunks():
        X.add(chunk)
        Y.add(chunk)
    return Views(
        f"URL Reputation, {days.name}",
        X.matrix(),
        Y.matrix(),
        f"{census.rows:,} URLs. {rule} Features are anonymous, {len(x_columns):,} + "
        f"{len(y_columns):,} of {columns:,}, numbered as in the files.",
        "CC BY 4.0, from the UCI Machine Learning Repository; cite Ma, Saul, Savage & Voelker, "
        "ICML 2009.",
        _named(x_columns),
        _named(y_columns),
    )


@dataclass(frozen=True)
class _Days:
    """The files of a data set, opened anew for every reading."""

    name: str
    chunks: Callable[[], Iterator[Chunk]]
    feature_types: Codes | None = None


def _located(path: str | Path | None, progress: Progress | None) -> _Days:
    """Folder, archive or single file."""
    found = find(*FOLDERS, ARCHIVE.path, *COMBINED) if path is None else Path(path)
    place = fetch(ARCHIVE, progress=progress) if found is None else found
    if place.is_dir():
        files = sorted(place.glob("Day*.svm*"), key=_day)
        if not files:
            raise DataError(f"{place} has no files Day*.svm")
        types = place / "FeatureTypes"
        listed = (
            _feature_types(regular(types).read_text("utf-8", "replace"), types)
            if types.exists()
            else None
        )
        return _Days(place.name, lambda: _all(files), listed)
    if ".tar" in place.suffixes or place.suffix == ".tgz":
        return _Days(place.name, lambda: _archived(place), _archived_types(place))
    return _Days(place.name, lambda: stream_svmlight(place))


def _day(file: Path) -> tuple[int, str]:
    """Day files in the order of their days."""
    digits = "".join(letter for letter in file.name.split(".")[0] if letter.isdigit())
    return int(digits or 0), file.name


def _all(files: list[Path]) -> Iterator[Chunk]:
    for file in files:
        yield from stream_svmlight(file)


def _opened_tar(place: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(place, "r|*")
    except TypeError as error:  # what tarfile makes of a header of gzip that is cut off
        raise tarfile.ReadError(said(error)) from error


@contextmanager
def _tar(place: Path) -> Iterator[tarfile.TarFile]:
    regular(place)
    try:
        with _opened_tar(place) as archive:
            yield archive
    except (tarfile.TarError, *UNPACKING) as error:
        if isinstance(error, OSError) and (error.errno is not None or isinstance(error, DataError)):
            raise
        raise DataError(f"{place} is damaged or cut off: {said(error)}") from error


def _members(archive: tarfile.TarFile, wanted: str) -> Iterator[tuple[str, IO[bytes]]]:
    for member in archive:
        file = archive.extractfile(member) if wanted in member.name else None
        if file is not None:
            yield member.name, file


def _archived(place: Path) -> Iterator[Chunk]:
    """The days of an archive, in its own order."""
    with _tar(place) as archive:
        for name, file in _members(archive, ".svm"):
            yield from stream_svmlight(file, name=f"{place.name}: {name}")


def _archived_types(place: Path) -> Codes | None:
    with _tar(place) as archive:
        for _, file in _members(archive, "FeatureTypes"):
            return _feature_types(file.read().decode("utf-8", "replace"), place)
    return None


def _feature_types(text: str, file: Path) -> Codes:
    """Numbers of the real-valued features."""
    try:
        return np.array(text.split(), np.int64)
    except (ValueError, OverflowError) as error:
        raise DataError(f"{file}: not a list of feature numbers ({error})") from error


def _first_rows(chunks: Iterator[Chunk], rows: int | None) -> Iterator[Chunk]:
    """The chunks, cut after so many rows."""
    left = rows
    for chunk in chunks:
        n = len(chunk.labels)
        if left is not None and left < n:
            end = int(chunk.indptr[left])
            parts = chunk.labels[:left], chunk.indptr[: left + 1]
            entries = chunk.indices[:end], chunk.values[:end]
            yield Chunk(chunk.name, *parts, *entries, chunk.lowest, chunk.highest)
            return
        yield chunk
        if left is not None:
            left -= n
            if not left:
                return


class _Census:
    """How often every feature occurs, and which have values other than 0 and 1."""

    def __init__(self, columns: int) -> None:
        self.rows = 0
        self.counts = np.zeros(columns + 1, np.int64)  # files count from 0 or from 1
        self.real = np.zeros(columns + 1, dtype=bool)

    def count(self, chunk: Chunk) -> None:
        self.rows += len(chunk.labels)
        np.add.at(self.counts, chunk.indices, 1)
        self.real[chunk.indices[(chunk.values != 0) & (chunk.values != 1)]] = True

    def leading(self, columns: Codes, most: int | None) -> Codes:
        """At most so many of the columns that occur at all, the most frequent first."""
        alive = columns[self.counts[columns] > 0]
        return alive[np.argsort(-self.counts[alive], kind="stable")][:most]


def _views(
    name: str, census: _Census, split: str | Codes, feature_types: Codes | None
) -> tuple[Codes, Codes, str]:
    """The features of X and of Y, and the rule in words."""
    present = np.flatnonzero(census.counts)
    if isinstance(split, str) and split == "alternate":
        dealt = census.leading(present, None)
        return dealt[::2], dealt[1::2], "Features are dealt out in turn, the most frequent first."
    if isinstance(split, str) and split != "types":
        raise ValueError(f"split={split!r} must be 'types', 'alternate' or an array of features")
    if not isinstance(split, str):
        chosen, rule = np.asarray(split, np.int64), "X has the features that were asked for."
    elif feature_types is not None:
        chosen, rule = feature_types, "X has the real-valued features, by the file FeatureTypes."
    else:
        chosen = np.flatnonzero(census.real)
        rule = "X has the features with values other than 0 and 1 (there is no file FeatureTypes)."
    if not len(chosen) or not 0 <= chosen.min() <= chosen.max() < len(census.counts):
        raise ValueError(
            f"{name}: the features of X must be numbers from 0 to {len(census.counts) - 1}, some "
            "of them"
        )
    return np.unique(chosen), np.setdiff1d(present, chosen), rule


class _Columns:
    """Rows over some of the columns, gathered chunk by chunk."""

    def __init__(self, chosen: Codes, columns: int) -> None:
        self._place = np.full(columns + 1, -1, np.int32)
        self._place[chosen] = np.arange(len(chosen), dtype=np.int32)
        self._width = len(chosen)
        self._parts: list[tuple[Any, Any, Any]] = []

    def add(self, chunk: Chunk) -> None:
        place = self._place[chunk.indices]
        kept = place >= 0
        before = np.concatenate([[0], np.cumsum(kept)])
        lengths = np.diff(before[chunk.indptr])
        self._parts.append((chunk.values[kept], place[kept], lengths))

    def matrix(self) -> Any:
        values, indices, lengths = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        X = sparse.csr_array((values, indices, indptr), shape=(len(lengths), self._width))
        X.sort_indices()
        return X


def _named(columns: Codes) -> NDArray[np.str_]:
    return np.array([f"feature {j}" for j in columns.tolist()])
