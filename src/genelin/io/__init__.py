"""Files: written whole or not at all, and looked at before they are believed."""

from genelin.io.archive import load_archive, save_archive
from genelin.io.atomic import write_atomically
from genelin.io.checkpoint import Checkpoint

__all__ = ["Checkpoint", "load_archive", "save_archive", "write_atomically"]
