"""Optional libraries, asked for where they are used."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["storage"]


def storage(module: str, path: Any) -> Any:
    """Import a library of the extra `storage`, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise ImportError(f'{path} needs {library}: pip install "genelin[storage]"') from error
