"""Where files of real data are found, and how they come there: GENELIN_DATA, cache, download."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, TextIO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from genelin.errors import DataError

__all__ = [
    "ProgressBar",
    "Source",
    "cache_folder",
    "data_folders",
    "download",
    "fetch",
    "find",
    "only_in",
]

Progress = Callable[[int, int | None], Any]
PIECE = 1 << 16
TIMEOUT = 30.0  # seconds without a byte


@dataclass(frozen=True)
class Source:
    """A file: its place below a data folder, where to get it, and how to know that it is right.

    Attributes
    ----------
    path : below GENELIN_DATA or the cache, with `/`.
    urls : tried in order; none where the file may not be handed on.
    sha256 : None where the file changes at its source.
    advice : what else to say when it cannot be had.

    Examples
    --------
    >>> Source("toy/rows.gz", ("https://example.org/rows.gz",)).path
    'toy/rows.gz'
    """

    path: str
    urls: tuple[str, ...] = ()
    sha256: str | None = None
    advice: str = ""


def cache_folder() -> Path:
    """The user's own folder of data: GENELIN_CACHE, or what the platform keeps for caches.

    Examples
    --------
    >>> cache_folder().name
    'genelin'
    """
    named = os.environ.get("GENELIN_CACHE")
    if named:
        return Path(named).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "genelin"


_ONLY: ContextVar[Path | None] = ContextVar("_ONLY", default=None)


@contextmanager
def only_in(folder: Path) -> Iterator[None]:
    """Look for files in this folder and nowhere else, for as long as the context lasts.

    Examples
    --------
    >>> with only_in(Path("data")):
    ...     data_folders()
    [...Path('data')]
    """
    token = _ONLY.set(folder)
    try:
        yield
    finally:
        _ONLY.reset(token)


def data_folders() -> list[Path]:
    """Where files are looked for, in this order: GENELIN_DATA, then the cache.

    Examples
    --------
    >>> data_folders()[-1] == cache_folder()
    True
    """
    only = _ONLY.get()
    if only is not None:
        return [only]
    named = os.environ.get("GENELIN_DATA")
    if not named:
        return [cache_folder()]
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataError(f"GENELIN_DATA={named} is not a folder: correct it, or unset it")
    return [folder, cache_folder()]


def find(*paths: str) -> Path | None:
    """The first of the files that exists in a data folder.

    Examples
    --------
    >>> find("no/such/file.gz") is None
    True
    """
    places = (folder / path for folder in data_folders() for path in paths)
    return next((place for place in places if place.exists()), None)


def fetch(source: Source, *others: str, progress: Progress | None = None) -> Path:
    """The file of `source`, or one of `others` that do as well; downloaded if need be.

    Examples
    --------
    >>> from genelin.datasets import fetch
    >>> fetch.fetch(fetch.Source("no/such/file.gz"))
    Traceback (most recent call last):
        ...
    genelin.errors.DataError: no/such/file.gz is in none of the data folders...
    """
    found = find(source.path, *others)
    if found is not None:
        return found
    target, failures = cache_folder() / source.path, []
    for url in source.urls:
        try:
            return download(url, target, source.sha256, progress)
        except OSError as error:
            failures.append(f"{url}: {error}")
    folders = " or ".join(str(folder / source.path) for folder in data_folders())
    tried = f" Tried {'; '.join(failures)}." if failures else ""
    get = f"get it from {source.urls[0]}, and " if source.urls else ""
    advice = f" {source.advice}" if source.advice else ""
    raise DataError(
        f"{source.path} is in none of the data folders.{tried} To have it, {get}put it at "
        f"{folders}.{advice}"
    )


def download(
    url: str,
    path: str | Path,
    sha256: str | None = None,
    progress: Progress | None = None,
    attempts: int = 3,
) -> Path:
    """Get `url` to `path`: complete and checked, or not at all.

    Bytes go to `path` + ".part", which is renamed at the end. A transfer that breaks off is taken
    up where it ended, now and by a later call, if the server can (Range) and the file is still
    the same there (If-Range); otherwise it begins anew.

    Parameters
    ----------
    url, path : from where, to where.
    sha256 : checksum in hexadecimal digits; a file that differs is deleted.
    progress : called as progress(bytes so far, bytes in all or None); None draws a bar on a
        terminal.
    attempts : how often to go on after a broken transfer, with growing pauses.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "here.txt").write_text("some bytes")
    >>> there = download((folder / "here.txt").as_uri(), folder / "there.txt")
    >>> there.read_text()
    'some bytes'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part, tag = path.with_name(path.name + ".part"), path.with_name(path.name + ".part.tag")
    progress = ProgressBar(path.name) if progress is None else progress
    for attempt in range(attempts):
        try:
            _transfer(url, part, tag, progress)
            break
        except HTTPError as error:
            if error.code < 500 or attempt == attempts - 1:
                raise DataError(f"the server answered {error.code} {error.reason}") from error
        except (OSError, HTTPException) as error:
            if attempt == attempts - 1:
                raise DataError(f"{error or type(error).__name__} ({attempts} attempts)") from error
        time.sleep(0.2 * 4**attempt)
    _check(part, tag, sha256)
    part.replace(path)
    tag.unlink(missing_ok=True)
    return path


def _transfer(url: str, part: Path, tag: Path, progress: Progress) -> None:
    """One request: append to the part, or begin it anew; raise if it ends early."""
    have = part.stat().st_size if part.exists() and tag.exists() else 0
    request = Request(url, headers={"User-Agent": "genelin"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", tag.read_text(encoding="latin-1"))
    try:
        answer = urlopen(request, timeout=TIMEOUT)
    except HTTPError as error:
        if error.code == 416:  # the part is no beginning of what is there now
            part.unlink()
        raise OSError("the server refused the range") if error.code == 416 else error from None
    with answer:
        goes_on = have and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        have = have if goes_on else 0
        length = answer.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        validator = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        if validator and not validator.startswith("W/"):
            tag.write_text(validator, encoding="latin-1")
        else:
            tag.unlink(missing_ok=True)
        with part.open("ab" if goes_on else "wb") as file:
            while piece := answer.read(PIECE):
                file.write(piece)
                have += len(piece)
                progress(have, total)
    if total is not None and have < total:
        raise OSError(f"the transfer ended after {have} of {total} bytes")
    if part.stat().st_size != have:
        part.unlink()
        raise OSError("another download writes to the same file")


def _check(part: Path, tag: Path, sha256: str | None) -> None:
    """Compare the checksum; what differs is deleted, so that the next attempt begins anew."""
    if sha256 is None:
        return
    with part.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256.lower():
        part.unlink()
        tag.unlink(missing_ok=True)
        raise DataError(
            f"its SHA-256 is {found}, not {sha256}: the file was changed or damaged on its way, "
            "and is not kept"
        )


class ProgressBar:
    r"""A line on a terminal that tells how far a download is; silent elsewhere.

    Examples
    --------
    >>> import io
    >>> screen = io.StringIO()
    >>> ProgressBar("rows.gz", screen, shown=True)(512, 1024)
    >>> screen.getvalue()
    '\rrows.gz  50 %, 0.0 of 0.0 MB'
    """

    def __init__(self, name: str, screen: TextIO | None = None, shown: bool | None = None) -> None:
        self._name = name
        self._screen = sys.stderr if screen is None else screen
        self._shown = self._screen.isatty() if shown is None else shown
        self._last = -1

    def __call__(self, done: int, total: int | None) -> None:
        """Show `done` of `total` bytes, a hundred times at most."""
        step = done // (1 << 20) if total is None else 100 * done // max(total, 1)
        if not self._shown or step == self._last:
            return
        self._last = step
        megabytes = f"{done / 1e6:.1f}"
        text = (
            f"{megabytes} MB" if total is None else f"{step} %, {megabytes} of {total / 1e6:.1f} MB"
        )
        end = "\n" if done == total else ""
        self._screen.write(f"\r{self._name}  {text}{end}")
        self._screen.flush()
