"""The one writer: aside first, then renamed, so that no reader ever sees half a file."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["folder_written_atomically", "write_atomically"]


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write `content` to `path`; what was there stays until all of it is on disk.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(f"{folder}/note", b"whole")
    ...     (Path(folder) / "note").read_bytes(), len(os.listdir(folder))
    (b'whole', 1)
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"path={str(path)!r}: there is no folder {str(path.parent)!r}")
    handle, aside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, _permissions(path))
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise


def _permissions(path: Path, fresh: int = 0o666) -> int:
    """Those of what is replaced, or what something new would get."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return fresh & ~mask


@contextmanager
def folder_written_atomically(path: str | Path) -> Iterator[Path]:
    """A new folder to write into, that takes the place of `path` when all of it is on disk.

    Where something fails, the new folder is removed and what was at `path` stays.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with folder_written_atomically(f"{place}/notes") as folder:
    ...         _ = (folder / "one").write_bytes(b"1")
    ...     os.listdir(place), os.listdir(f"{place}/notes")
    (['notes'], ['one'])
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"folder={str(path)!r}: there is no folder {str(path.parent)!r}")
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield aside
        for file in aside.iterdir():
            _sync(file)
        os.chmod(aside, _permissions(path, 0o777))
        _sync(aside)
        _replace_folder(aside, path)
        _sync(path.parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _replace_folder(aside: Path, path: Path) -> None:
    """Rename; an old folder steps aside first, and comes back if the new one cannot take over."""
    if not path.exists():
        os.replace(aside, path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    os.replace(path, old / path.name)
    try:
        os.replace(aside, path)
    except BaseException:
        os.replace(old / path.name, path)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    """Make sure that a file, or the list of a folder, is on disk."""
    if path.is_dir() and not hasattr(os, "O_DIRECTORY"):
        return  # Windows cannot open folders
    # Windows syncs only what is open for writing, POSIX opens folders only for reading.
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
