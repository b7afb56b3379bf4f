"""The one writer: aside first, then renamed, so that no reader ever sees half a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["write_atomically"]


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


def _permissions(path: Path) -> int:
    """Those of the file that is replaced, or what a new file would get."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
