"""Dense Zarr arrays: every chunk is looked at before it is unpacked."""

from __future__ import annotations

import gzip
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genelin.errors import DataError
from genelin.io.block_readers import PieceReader, Pieces, check_chunk, check_present, check_shape
from genelin.io.damaged_files import decoding, regular
from genelin.io.optional_libraries import storage

__all__ = ["ZarrReader"]


class ZarrReader(PieceReader):
    """A dense Zarr array, read in bands of whole chunks."""

    def __init__(self, path: Path) -> None:
        found = _opened(path)
        if not hasattr(found, "chunks"):
            with decoding(path):
                inside = ", ".join(sorted(name for name, _ in found.arrays())) or "nothing"
            raise DataError(f"{path} is a group with {inside}: open one array of it, path/name")
        about = found.metadata.to_dict()
        _check_codecs(path, [about.get(part) for part in ("filters", "compressor", "codecs")])
        check_shape(str(path), found.shape)
        n, d = found.shape
        itemsize = found.dtype.itemsize
        chunk = getattr(found, "shards", None) or found.chunks
        check_chunk(str(path), chunk, found.shape, itemsize)
        check_present(str(path), found.shape, chunk, partial(_stored_files, path))
        band = int(chunk[0])
        starts = np.append(np.arange(0, n, band), n)
        self.band_bytes = min(band, n) * d * itemsize
        watched = [path / name for name in ("zarr.json", ".zarray") if (path / name).exists()]
        super().__init__(str(path), starts, d, found.dtype, watched)

    @contextmanager
    def opened(self) -> Iterator[Pieces]:
        """A band at a time."""
        array = _opened(Path(self.name))

        def pieces(band: int) -> Iterator[NDArray[Any]]:
            first, last = int(self._starts[band]), int(self._starts[band + 1])
            with decoding(f"{self.name}: the chunks of rows {first} to {last - 1}"):
                yield np.asarray(array[first:last])

        yield pieces


def _opened(path: Path) -> Any:
    with decoding(path, "is not a Zarr array, or is damaged"):
        zarr = storage("zarr", path)
        store = _store_class()(path, read_only=True)
        found = zarr.open(store, mode="r")
        if hasattr(found, "chunks"):
            store.hold(found)
        return found


def _check_codecs(path: Path, codecs: Any) -> None:
    """Refuse chunks that are Python objects: reading them would run what they say."""
    if hasattr(codecs, "get_config"):  # of Zarr's format 2, in early versions of Zarr 3
        codecs = codecs.get_config()
    if isinstance(codecs, Mapping):
        if any(str(codecs.get(key)).endswith("pickle") for key in ("id", "name")):
            raise DataError(
                f"{path} has chunks in Python's pickle format, which can run code when they are "
                "read: write the array anew without that codec"
            )
        codecs = list(codecs.values())
    if isinstance(codecs, list | tuple):
        for part in codecs:
            _check_codecs(path, part)


def _stored_files(path: Path) -> int:
    """Files in a folder and in those within."""
    return sum(len(files) for _, _, files in os.walk(path))


@cache
def _store_class() -> Any:
    """A store of files on disk, none of which unpacks to more than a chunk holds."""
    from zarr.storage import LocalStore

    class Store(LocalStore):
        chunk, packed = 0, ""  # bytes of a chunk, and by what it is packed

        def hold(self, array: Any) -> None:
            """Look at the chunks of this array from now on."""
            compressors: Any = getattr(array, "compressors", ())
            plain = getattr(array, "shards", None) is None and not getattr(array, "filters", ())
            if plain and len(compressors) == 1:
                codec = compressors[0]
                name = getattr(codec, "codec_id", type(codec).__name__.removesuffix("Codec"))
                self.chunk, self.packed = prod(array.chunks) * array.dtype.itemsize, name.lower()

        async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
            path = self.root / key
            if path.exists() and not path.is_dir():
                regular(path)
            found = await super().get(key, prototype, byte_range)
            if found is not None and self.chunk and not key.endswith((".json", ".zarray")):
                _check_packed(path, found.to_bytes(), self.packed, self.chunk)
            return found

    return Store


def _check_packed(path: Path, packed: bytes, codec: str, held: int) -> None:
    """What is packed must be as long as a chunk: decoders believe whatever they find."""
    length = _unpacked_length(packed, codec, held)
    if length is not None and length != held:
        raise DataError(
            f"{path} does not unpack to the {held:,} bytes of a chunk: it is damaged, or was "
            "written wrongly"
        )


def _unpacked_length(packed: bytes, codec: str, held: int) -> int | None:
    """How long a chunk says that it is, or is found to be; None where that is not known."""
    if codec == "gzip":
        return len(gzip.GzipFile(fileobj=BytesIO(packed)).read(held + 1))
    if codec == "blosc":  # whose header ends with the lengths unpacked, of a block, and packed
        length, _, size = struct.unpack_from("<III", packed, 4)
        return int(length) if size == len(packed) else -1
    if codec == "lz4":
        return int.from_bytes(packed[:4], "little")
    if codec == "zstd":
        arrow = storage("pyarrow", "Zarr with Zstandard")
        with arrow.CompressedInputStream(arrow.BufferReader(packed), "zstd") as stream:
            return len(stream.read(held + 1))
    return None
