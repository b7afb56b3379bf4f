"""Files: rows that are read in blocks, written whole or not at all, looked at before believed."""

from genelin.io.archive import load_archive, save_archive
from genelin.io.atomic import folder_written_atomically, write_atomically
from genelin.io.checkpoint import Checkpoint
from genelin.io.convert import convert
from genelin.io.open_rows import StoredRows, open_rows

__all__ = [
    "Checkpoint",
    "StoredRows",
    "convert",
    "folder_written_atomically",
    "load_archive",
    "open_rows",
    "save_archive",
    "write_atomically",
]
