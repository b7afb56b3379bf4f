"""Arrays and a JSON header in one safetensors file, with a checksum over both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from genelin.io.atomic import write_atomically
from genelin.io.damaged_files import regular, said

__all__ = ["load_archive", "save_archive"]

INSTALL = 'files need safetensors: pip install "genelin[io]"'
UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError)
KINDS = ("f", "i", "u", "b")  # of numbers that an array may hold


def save_archive(
    path: str | Path, kind: str, version: int, header: Any, arrays: Mapping[str, Any]
) -> None:
    """Write `arrays` and a `header` of JSON to `path`.

    Parameters
    ----------
    path : where to.
    kind, version : what the file is, and in which version of its layout.
    header : anything that JSON can hold.
    arrays : names and arrays of numbers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_archive(f"{folder}/a", "thing", 1, {"k": 2}, {"v": np.arange(2.0)})
    ...     header, arrays = load_archive(f"{folder}/a", "thing", 1)
    >>> header, arrays["v"].tolist()
    ({'k': 2}, [0.0, 1.0])
    """
    try:
        from safetensors.numpy import save
    except ImportError as error:
        raise ImportError(INSTALL) from error
    content = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = json.dumps(header)
    metadata = {
        "kind": kind,
        "version": str(version),
        "header": text,
        "sha256": _checksum(kind, str(version), text, content),
    }
    write_atomically(path, save(content, metadata=metadata))


def load_archive(path: str | Path, kind: str, version: int) -> tuple[Any, dict[str, Any]]:
    """Read what `save_archive` has written; anything else is refused with a ValueError.

    Examples
    --------
    >>> load_archive("no/such/file", "thing", 1)
    Traceback (most recent call last):
        ...
    FileNotFoundError: path='no/such/file': there is no such file
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise ImportError(INSTALL) from error
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"path={str(path)!r}: there is no such file")
    regular(path)
    try:
        with safe_open(path, framework="np") as file:
            metadata = dict(file.metadata() or {})
            content = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, *UNREADABLE) as error:
        raise damaged(path, said(error)) from error
    return _checked(path, kind, version, metadata, content), content


def damaged(path: str | Path, why: str) -> ValueError:
    """The error for a file that cannot be believed."""
    return ValueError(f"{path} is not a file of genelin, or is damaged: {why}")


def _checked(
    path: Path, kind: str, version: int, metadata: dict[str, str], content: dict[str, Any]
) -> Any:
    """The header, once kind, version and checksum are what they should be."""
    if missing := {"kind", "version", "header", "sha256"} - set(metadata):
        raise damaged(path, f"it lacks {', '.join(sorted(missing))}")
    if metadata["kind"] != kind:
        raise ValueError(f"{path} holds a {metadata['kind'][:40]!r}, not a {kind!r}")
    found = metadata["version"]
    if not (found.isascii() and found.isdigit() and len(found) < 6):
        raise damaged(path, "its version is not a number")
    if int(found) != version:
        raise ValueError(
            f"{path} has layout {found}, this genelin reads layout {version}: use the version of "
            "genelin that wrote it, or update"
        )
    if strange := [name for name, array in content.items() if array.dtype.kind not in KINDS]:
        raise damaged(path, f"array {strange[0][:40]!r} does not hold numbers")
    if metadata["sha256"] != _checksum(kind, found, metadata["header"], content):
        raise damaged(path, "its checksum does not match")
    try:
        return json.loads(metadata["header"])
    except (ValueError, RecursionError) as error:
        raise damaged(path, "its header is not JSON") from error


def _checksum(kind: str, version: str, header: str, content: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps([kind, version, header]).encode())
    for name in sorted(content):
        array = content[name]
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
