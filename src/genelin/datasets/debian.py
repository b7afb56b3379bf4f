"""Paths of the files in Debian's packages: directories against the words of base names."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from genelin.datasets.bunches import Views
from genelin.datasets.fetch import Progress, Source, fetch
from genelin.errors import DataError
from genelin.io.formats.svmlight import open_bytes

__all__ = ["debian_paths"]

MIRROR = "https://deb.debian.org/debian/dists/bookworm/main/"
WORD = re.compile("[a-z]+|[0-9]+")


def debian_paths(
    files: str | Path | Iterable[str | Path] = "amd64",
    seen: int = 5,
    *,
    progress: Progress | None = None,
) -> Views:
    r"""Directories of a path against the words of its base name, for every file of Debian 12.

    A row is a path of a `Contents` index. X holds its directories, Y the runs of letters a–z or of
    digits in its base name, lower-cased; both as binary bags.

    Parameters
    ----------
    files : architectures such as "amd64" and "all" (`debian/Contents-amd64.gz` in a data folder),
        or paths of such indices; one or several.
    seen : features that occur in fewer rows are left out.
    progress : of the download, see `fetch.download`.

    Examples
    --------
    >>> import gzip, pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "Contents-toy.gz"
    >>> with gzip.open(file, "wt") as index:
    ...     _ = index.write("usr/bin/python3  python/python3\nusr/bin/perl5  perl/perl\n")
    >>> views = debian_paths(file, seen=1)
    >>> views.x_names.tolist(), views.y_names.tolist()
    (['usr', 'bin'], ['python', '3', 'perl', '5'])
    """
    if not isinstance(seen, int | np.integer) or seen < 1:
        raise ValueError(f"seen={seen!r} must be a whole number of at least 1")
    names = [files] if isinstance(files, str | Path) else list(files)
    indices = [_index(name, progress) for name in names]
    folders, words = _Bags(), _Bags()
    for path in _paths(indices):
        *above, base = path.split("/")
        folders.add(above)
        words.add(WORD.findall(base.lower()))
    place = ", ".join(map(str, indices))
    X, x_names = folders.matrix(seen, place)
    Y, y_names = words.matrix(seen, place)
    return Views(
        f"Debian paths, {' + '.join(str(name) for name in names)}",
        X,
        Y,
        f"{X.shape[0]:,} paths of files in Debian 12: their directories, and the words of their "
        f"base names, each seen in at least {seen} paths.",
        "Public index of the Debian archive (debian.org); names of files, no contents.",
        x_names,
        y_names,
    )


def _index(name: str | Path, progress: Progress | None) -> Path:
    if isinstance(name, Path) or "/" in name or "." in name:
        return Path(name)
    file = f"Contents-{name}.gz"
    # Point releases change the file, so that no checksum is known; gzip has its own.
    return fetch(Source(f"debian/{file}", (MIRROR + file,)), progress=progress)


def _paths(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        with open_bytes(file) as lines:
            for number, raw in enumerate(lines, 1):
                parts = raw.decode(errors="replace").rstrip("\n").rsplit(None, 1)
                if len(parts) != 2:
                    raise DataError(f"{file}, line {number}: not a path and its packages")
                yield parts[0].rstrip()


class _Bags:
    """Rows of distinct words; words are numbered in the order in which they are first met."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._entries, self._lengths = array("i"), array("i")

    def add(self, words: list[str]) -> None:
        """Add a row."""
        codes = self._codes
        row = dict.fromkeys([codes.setdefault(word, len(codes)) for word in words])
        self._entries.extend(row)
        self._lengths.append(len(row))

    def matrix(self, seen: int, where: str) -> tuple[Any, NDArray[np.str_]]:
        """Binary rows over the words in at least `seen` of them, and these words."""
        entries = np.frombuffer(self._entries, np.int32)
        n, counts = len(self._lengths), np.bincount(entries, minlength=len(self._codes))
        kept = np.flatnonzero(counts >= seen)
        if not len(kept):
            raise DataError(f"{where}: no word is seen in {seen} rows: lower `seen`")
        position = np.full(len(counts), -1, np.int32)
        position[kept] = np.arange(len(kept), dtype=np.int32)
        columns = position[entries]
        stays = columns >= 0
        ends = np.cumsum(np.frombuffer(self._lengths, np.int32))
        indptr = np.concatenate([[0], np.cumsum(stays)])[np.concatenate([[0], ends])]
        X = sparse.csr_array(
            (np.ones(indptr[-1]), columns[stays], indptr.astype(np.int32)), shape=(n, len(kept))
        )
        X.sort_indices()
        return X, np.array(list(self._codes))[kept]
