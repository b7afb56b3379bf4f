"""Files as others have left them: what is no file is refused, what a decoder says gets a place."""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from genelin.errors import DataError

__all__ = ["decoding", "regular", "said", "shortened"]

KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
SYSTEM = (errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE, errno.ENFILE)
DAMAGED = "cannot be read: it is damaged, or was written wrongly"
LONGEST = 300  # letters of what a decoder says


def regular(path: str | Path) -> Path:
    """The path of a file that ends: pipes, devices and folders are refused before they are opened.

    Examples
    --------
    >>> regular("no/such/file.npy")
    Traceback (most recent call last):
        ...
    genelin.errors.DataError: no/such/file.npy does not exist
    """
    path = Path(path)
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DataError(f"{path} does not exist") from error
    if not stat.S_ISREG(mode):
        kind = next((kind for is_kind, kind in KINDS if is_kind(mode)), "no file")
        raise DataError(f"{path} is {kind}, not a file: save what it holds, and give that file")
    return path


@contextmanager
def decoding(place: object, what: str = DAMAGED) -> Iterator[None]:
    """Turn whatever a decoder raises over damaged bytes into a DataError that names the place.

    Libraries raise many types, and others in other versions. Only calls into them belong in here.
    Libraries that are missing and errors of the system, such as missing rights, stay as they are.

    Examples
    --------
    >>> import zlib
    >>> with decoding("X.bin"):
    ...     zlib.decompress(b"no stream")
    Traceback (most recent call last):
        ...
    genelin.errors.DataError: X.bin cannot be read: it is damaged, or was written wrongly (...)
    """
    try:
        yield
    except (DataError, ImportError):
        raise
    except MemoryError as error:
        raise DataError(f"{place} needs more memory than there is ({said(error)})") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno in SYSTEM:
            raise
        raise DataError(f"{place} {what} ({said(error)})") from error


def said(error: BaseException) -> str:
    r"""What an error says, in one line; its type where it says nothing.

    Examples
    --------
    >>> said(ValueError("two\nlines")), said(EOFError())
    ('two lines', 'EOFError')
    """
    text = " ".join(str(error).split()) or type(error).__name__
    return shortened(text, LONGEST)


def shortened(text: str, longest: int) -> str:
    r"""A text of no more letters than that, all of which can be printed.

    Examples
    --------
    >>> shortened("bodyweight", 5), shortened("a\x00b", 5)
    ('body…', 'a�b')
    """
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join(letter if letter.isprintable() else "�" for letter in text)
