"""Damage to files: bytes, words of text, and lies that only who knows the format can tell."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import shutil
import socket
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.honest import PACKERS, SEALED, D, N, dense

__all__ = ["damaged"]

Random = np.random.Generator
Tool = Callable[[Random, Path], None]
BOMB = 400 << 20  # bytes of zeros
NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 60.5, 1e200, -1e308, float("nan"), float("inf"), True, None, "", "a", [], {}),
    *(2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -(2**40)),
    *(10**6, 10**9, 10**12, N, D, N + 1, D + 1, N - 1, [1, 2], "<f8", "6", "\ud800"[:0], "nan"),
)
WORDS = (
    *(
        b"1e200",
        b"-1e308",
        b"1e999",
        b"nan",
        b"inf",
        b"-1",
        b"0",
        b"60.5",
        b"4294967297",
        b"",
        b":",
    ),
    *(b"9" * 30, b"18446744073709551617", b"\0", b"\xff\xfe", b"\xc3", b'"', b"#", b",", b"1:1"),
    *(b"true", b"null", b"{", b"]", b"[", b"qid:3", b"\r\n", b"\n\n", b"%", b"complex", b"array"),
    *(
        b"2147483647:1",
        b"2147483648:1",
        b"0:1",
        b"5:1e400",
        b"1 1 1",
        b"5:",
        b"  ",
        b"0x1p3",
        b"1_0",
    ),
    *(b"skew-symmetric", b"pattern", b"symmetric", b"hermitian", b"integer", b"coordinate", b";"),
)
OPENERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
}


def damaged(kind: str, path: Path, rng: Random) -> tuple[str, bool]:
    """Damage a file or folder: by what, and whether nothing but a refusal is right."""
    if rng.random() < 0.01:
        return _irregular(path, rng), True
    special = SPECIAL.get(kind, ())
    if special and rng.random() < 0.5:
        tool = special[rng.integers(len(special))]
        tool(rng, path)
        return tool.__name__, False
    file = _one_file(path, rng)
    unpack = OPENERS.get(file.suffix)
    text = unpack is not None or kind in TEXT or file.suffix == ".json" or file.name == ".zarray"
    raw = file.read_bytes()
    if unpack and rng.random() < 0.7:
        content = _of_text(rng, unpack(raw))
        file.write_bytes(PACKERS[file.suffix](content))
        return "packed text", False
    changes = _of_text if text and not unpack and rng.random() < 0.6 else _of_bytes
    for _ in range(1 + rng.integers(3)):
        raw = changes(rng, raw)
    file.write_bytes(raw)
    return changes.__name__, False


TEXT = ("mtx", "csv", "tsv", "svmlight", "run", "records", "words", "debian")


def _one_file(path: Path, rng: Random) -> Path:
    """The file, or one of the folder."""
    if path.is_file():
        return path
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return files[rng.integers(len(files))]


# --- Anything ----------------------------------------------------------------------------------


def _of_bytes(rng: Random, raw: bytes) -> bytes:
    """Flip, cut, insert, double, blank or move bytes."""
    content, size = bytearray(raw), len(raw)
    if not size:
        return rng.bytes(9)
    at = int(rng.integers(size))
    if rng.random() < 0.5:  # where headers and footers are
        at = int(min(rng.exponential(60), size - 1))
        at = at if rng.random() < 0.5 else size - 1 - at
    span = int(min(1 + rng.exponential(12), size - at))
    way = rng.integers(9)
    if way == 0:
        content[at] ^= 1 << int(rng.integers(8))
    elif way == 1:
        content[at] = (0, 255, 127, 128, 1, 32, 45, 57)[rng.integers(8)]
    elif way == 2:
        del content[at:]
    elif way == 3:
        content[at:at] = rng.bytes(span)
    elif way == 4:
        content[at : at + span] = content[at : at + span] * 2
    elif way == 5:
        content[at : at + span] = bytes(span)
    elif way == 6:
        del content[at : at + span]
    elif way == 7:
        other = int(rng.integers(size))
        content[at : at + span] = content[other : other + span]
    else:
        value = (2**31, 2**32 + 1, 2**62, -1, 10**9, 2**24)[rng.integers(6)]
        content[at : at + 8] = struct.pack("<q", value)
    return bytes(content)


def _of_text(rng: Random, raw: bytes) -> bytes:
    """Put other words in the place of words, or double and drop lines."""
    if rng.random() < 0.2:
        return _of_bytes(rng, raw)
    if rng.random() < 0.3:
        lines = raw.split(b"\n")
        at, other = (int(i) for i in rng.integers(len(lines), size=2))
        lines[at : at + 1] = [[lines[at]] * 2, [], [lines[other]], [lines[at] + lines[other]]][
            rng.integers(4)
        ]
        return b"\n".join(lines)
    at = int(rng.integers(len(raw) + 1)) if rng.random() < 0.7 else int(rng.exponential(30))
    first = next((i for i in range(min(at, len(raw)), 0, -1) if raw[i - 1] in b" ,:;\t\n[]{}"), 0)
    last = next((i for i in range(at, len(raw)) if raw[i] in b" ,:;\t\n[]{}"), len(raw))
    return raw[:first] + WORDS[rng.integers(len(WORDS))] + raw[last:]


def _irregular(path: Path, rng: Random) -> str:
    """A pipe, an endless device, a socket or a folder in the place of a file."""
    file = path if path.is_file() else _metadata(path)
    file.unlink()
    kind = ("pipe", "zeros", "socket", "folder")[rng.integers(4)]
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "zeros":
        file.symlink_to("/dev/zero")
    elif kind == "folder":
        file.mkdir()
    else:
        here = os.getcwd()
        os.chdir(file.parent)  # paths of sockets are short
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(file.name)
        os.chdir(here)
    return kind


def _metadata(folder: Path) -> Path:
    names = ("header.json", "zarr.json", ".zarray", "1.parquet")
    return next(folder / name for name in names if (folder / name).exists())


def _number(rng: Random) -> Any:
    return NUMBERS[rng.integers(len(NUMBERS))]


def _edited(rng: Random, content: Any) -> Any:
    """JSON with one value, somewhere inside, that is another one."""
    if isinstance(content, dict) and content and rng.random() < 0.93:
        name = list(content)[rng.integers(len(content))]
        if rng.random() < 0.05:
            return {key: value for key, value in content.items() if key != name}
        return content | {name: _edited(rng, content[name])}
    if isinstance(content, list) and content and rng.random() < 0.85:
        at = int(rng.integers(len(content)))
        return [*content[:at], _edited(rng, content[at]), *content[at + 1 :]]
    return _number(rng)


def _edit_json(rng: Random, file: Path) -> None:
    file.write_text(
        json.dumps(_edited(rng, json.loads(file.read_text(encoding="utf-8")))), encoding="utf-8"
    )


def _strange(rng: Random, array: np.ndarray) -> np.ndarray:
    """An array that is like another one, but for one thing."""
    flat = np.array(array)
    way = rng.integers(9) if flat.ndim and flat.dtype.kind in "biuf" else rng.integers(3, 5)
    if way == 0 and flat.size and flat.dtype.kind in "iu":
        flat = flat.astype((np.int64, np.uint64)[rng.integers(2)])
        flat[rng.integers(len(flat))] += flat.dtype.type(2 ** int(rng.integers(31, 63)))
    elif way == 1 and flat.size:
        value = (np.nan, np.inf, 1e200, -1.0, 1e300)[rng.integers(5)]
        with np.errstate(invalid="ignore"):
            flat.flat[rng.integers(flat.size)] = np.asarray(value).astype(flat.dtype)
    elif way == 2:
        flat = flat.astype(
            ("f4", ">f8", "c16", "i8", "u8", "U5", "S3", "?", "f2", "M8[s]")[rng.integers(10)]
        )
    elif way == 3:
        flat = flat[..., None]
    elif way == 4:
        flat = flat[:-1] if flat.ndim else flat[None]
    elif way == 5:
        flat = np.concatenate([flat.ravel(), flat.ravel()[:3]])
    elif way == 6:
        flat = np.zeros(0, flat.dtype)
    elif way == 7 and flat.size:
        flat.flat[rng.integers(flat.size)] = flat.flat[rng.integers(flat.size)]
    else:
        flat = np.asarray(_number(rng) or 0) if rng.random() < 0.5 else flat[::-1]
        flat = flat.astype("f8") if flat.dtype.kind == "O" else flat
    return flat


# --- NumPy and SciPy ---------------------------------------------------------------------------


def _header(rng: Random, shape: Any = None, descr: str = "") -> bytes:
    """A header of NumPy's format that may say anything."""
    shapes = (
        f"({N}, {D})",
        f"({N}, {10**12})",
        f"(-{N}, -{D})",
        f"({N}.5, {D})",
        "()",
        f"({2**70},)",
    )
    shapes += (
        f"({N}, {D}, 1)",
        "(0, 5)",
        f"({N}, True)",
        f"[{N}, {D}]",
        f"({N * D},)",
        "'a'",
        "(1e200, 2)",
    )
    kinds = (
        "'<f8'",
        "'|O'",
        "'<U9999999'",
        "'|V0'",
        "[('a', '<f8')]",
        "'<f3'",
        "'<c16'",
        "'>i8'",
        "17",
    )
    kinds += ("'(2,)<f8'", "'<f16'", "'|b1'", "'M8[s]'", "None", "'" + "a" * 300 + "'")
    text = "{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}".format(
        descr or kinds[rng.integers(len(kinds)) if rng.random() < 0.6 else 0],
        ("False", "True", "0", "None", "'a'", "1e9")[rng.integers(6) if rng.random() < 0.2 else 0],
        shape or shapes[rng.integers(len(shapes))],
    )
    if rng.random() < 0.2:
        strange = ("[" * 200, "(1, ", "'''", "1L", "\\", "import os", "{" * 100, "{'descr':")
        text = strange[rng.integers(len(strange))] + text
    if rng.random() < 0.1:
        text += " " * int(rng.integers(20_000))
    encoded = text.encode() + b"\n"
    version = int(rng.integers(1, 5))
    length = (
        len(encoded) if rng.random() < 0.9 else int(rng.integers(2**31 if version > 1 else 2**16))
    )
    return (
        b"\x93NUMPY"
        + bytes([version, 0])
        + struct.pack("<H" if version == 1 else "<I", length % (2**16 if version == 1 else 2**32))
        + encoded
    )


def npy_header(rng: Random, path: Path) -> None:
    """Another header before the same numbers."""
    path.write_bytes(_header(rng) + dense().tobytes())


def npy_array(rng: Random, path: Path) -> None:
    """Another array."""
    np.save(path, _strange(rng, dense()))


def _members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zip(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", method, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def npz_array(rng: Random, path: Path) -> None:
    """Another array in the place of one."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive}
    name = list(arrays)[rng.integers(len(arrays))]
    arrays[name] = _strange(rng, arrays[name])
    np.savez(path, **arrays)


def npz_members(rng: Random, path: Path) -> None:
    """Members that change places, are lost, renamed, or packed by other means."""
    members = _members(path)
    names = list(members)
    one, other = (names[i] for i in rng.integers(len(names), size=2))
    way = rng.integers(5)
    if way == 0:
        members[one], members[other] = members[other], members[one]
    elif way == 1:
        del members[one]
    elif way == 2:
        members[("/", "a.npy", "X", "../x.npy", "format.npy")[rng.integers(5)]] = members.pop(one)
    elif way == 3:
        members[one] = _of_bytes(rng, members[one])
    else:
        members[one] = _header(rng) + members[one][128:]
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    _zip(path, members, methods[rng.integers(4)])


def npz_bomb(rng: Random, path: Path) -> None:
    """A member that unpacks to hundreds of megabytes; rarely, for it takes long to make."""
    if rng.random() < 0.9:
        return npz_members(rng, path)
    members = _members(path)
    name = list(members)[rng.integers(len(members))]
    head = members[name][:128] if rng.random() < 0.5 else _header(rng, f"({BOMB // 8},)", "'<f8'")
    if rng.random() < 0.2:
        head = b"\x93NUMPY\x02\0" + struct.pack("<I", BOMB)
    members[name] = head + bytes(BOMB)
    return _zip(path, members)


def npz_lies(rng: Random, path: Path) -> None:
    """Sizes, methods and flags in the directory of the archive."""
    raw = bytearray(path.read_bytes())
    entry = raw.rfind(b"PK\x01\x02") if rng.random() < 0.7 else raw.find(b"PK\x03\x04")
    field = int(rng.integers(4, 46))
    raw[entry + field : entry + field + 1] = rng.bytes(1)
    if rng.random() < 0.3:
        raw[entry + 24 : entry + 28] = struct.pack("<I", int(rng.integers(2**32)))
    path.write_bytes(raw)


# --- Tables ------------------------------------------------------------------------------------


def _strange_table(rng: Random) -> Any:
    import pyarrow as pa

    columns: dict[str, Any] = {f"c{j}": pa.array(dense()[:, j]) for j in range(D)}
    X, name = dense()[:, 0], f"c{rng.integers(D)}"
    others: tuple[Callable[[], Any], ...] = (
        lambda: pa.array([None, *X[1:].tolist()]),
        lambda: pa.array([str(value) for value in X]),
        lambda: pa.array([str(value) for value in X]).dictionary_encode(),
        lambda: pa.array(X.astype("i8")),
        lambda: pa.array(np.full(N, 2**63 + 1, "u8")),
        lambda: pa.array([[1.0]] * N),
        lambda: pa.array(X > 0),
        lambda: pa.array(X.astype("f2")),
        lambda: pa.array(np.where(X > 0, np.nan, X)),
        lambda: pa.array(np.full(N, 1e200)),
        lambda: pa.nulls(N),
        lambda: pa.array(X.astype("i8")).cast(pa.decimal128(30, 2)),
        lambda: pa.array(X.astype("M8[s]")),
    )
    columns[name] = others[rng.integers(len(others))]()
    whole = pa.table(columns)
    if rng.random() < 0.1:
        whole = whole.slice(0, 0)
    if rng.random() < 0.1:
        whole = whole.rename_columns(["c0"] * D)
    return whole


def parquet_table(rng: Random, path: Path) -> None:
    """Other columns."""
    import pyarrow.parquet as pq

    pq.write_table(_strange_table(rng), path if path.is_file() else path / "1.parquet")


def parquet_footer(rng: Random, path: Path) -> None:
    """The footer of another table, or one that was changed."""
    import pyarrow.parquet as pq

    file = path if path.is_file() else path / "1.parquet"
    if rng.random() < 0.5:
        other = io.BytesIO()
        pq.write_table(_strange_table(rng), other, row_group_size=int(rng.integers(1, 90)))
        foot = other.getvalue()
    else:
        foot = file.read_bytes()
    length = struct.unpack("<I", foot[-8:-4])[0]
    footer, raw = foot[-8 - length : -8], file.read_bytes()
    for _ in range(rng.integers(3)):
        footer = _of_bytes(rng, footer)
    body = raw[: -8 - struct.unpack("<I", raw[-8:-4])[0]]
    file.write_bytes(body + footer + struct.pack("<I", len(footer)) + b"PAR1")


def arrow_table(rng: Random, path: Path) -> None:
    """Other columns."""
    import pyarrow as pa

    whole = _strange_table(rng)
    with pa.ipc.new_file(path, whole.schema) as sink:
        sink.write_table(whole, max_chunksize=25)


def arrow_words(rng: Random, path: Path) -> None:
    """Whole numbers of metadata: lengths, offsets, counts."""
    raw = bytearray(path.read_bytes())
    for _ in range(1 + rng.integers(3)):
        at = int(rng.integers(len(raw) // 8)) * 8
        value = (2**31, 2**40, -1, 2**62, 0, 1, 10**9, 24, 2**63 - 1)[rng.integers(9)]
        raw[at : at + 8] = struct.pack("<q", value)
    path.write_bytes(raw)


# --- Text --------------------------------------------------------------------------------------


def packed_bomb(rng: Random, path: Path) -> None:
    """A packed text that has no end; rarely, for it takes long to make."""
    if path.suffix not in PACKERS or rng.random() < 0.97:
        raw = path.read_bytes()
        return path.write_bytes(_of_bytes(rng, raw)) and None
    letter = (b" ", b"1", b"\0", b":", b"1 1:1 ")[rng.integers(5)]
    raw = letter * (BOMB // 4 // len(letter))
    quick = {
        ".gz": lambda text: gzip.compress(text, 1),
        ".xz": lambda text: lzma.compress(text, preset=0),
    }
    path.write_bytes(quick.get(path.suffix, PACKERS[path.suffix])(raw))
    return None


def mtx_header(rng: Random, path: Path) -> None:
    """Other numbers of rows, columns and entries."""
    raw = path.read_bytes()
    text = OPENERS.get(path.suffix, bytes)(raw).split(b"\n")
    at = next(i for i, line in enumerate(text) if not line.startswith(b"%"))
    words = text[at].split()
    for _ in range(1 + rng.integers(2)):
        words[rng.integers(len(words))] = str(_number(rng)).encode()
    text[at] = b" ".join(words)
    path.write_bytes(PACKERS.get(path.suffix, bytes)(b"\n".join(text)))


# --- HDF5 and Zarr -----------------------------------------------------------------------------


def h5ad_parts(rng: Random, path: Path) -> None:
    """Other arrays, shapes, attributes and links."""
    import h5py

    with h5py.File(path, "r+") as file:
        X = file["X"]
        way = rng.integers(8)
        if way == 0:
            strange = _strange(rng, dense())
            del file["X"]
            file["X"] = strange if strange.dtype.kind not in "UM" else "words"
        elif way == 1:
            del file["X"]
            file["X"] = (
                h5py.ExternalLink("/dev/zero", "X") if rng.random() < 0.5 else h5py.SoftLink("/X")
            )
        elif way == 2 and isinstance(X, h5py.Group):
            shapes = (
                [60, 2**40],
                60.5,
                [60.5, 5],
                [-60, -5],
                [2**62, 5],
                [60, 5, 5],
                [60, 6],
                "60",
            )
            kinds = ("csc_matrix", "", 3, [1, 2], "csr", np.nan, b"csr_matrix", "csr_matrix" * 9)
            name, values = (("shape", shapes), ("encoding-type", kinds))[rng.integers(2)]
            X.attrs[name] = values[rng.integers(8)]
        elif way == 3:
            del file["var/gene"]
            file["var/gene"] = (np.arange(D), [b"\xff"] * D, ["a"], "a", [["a"] * D])[
                rng.integers(5)
            ]
        elif way == 4:
            file["var"].attrs["_index"] = ("", "nothing", 3, "gene", [1, 2], ".")[rng.integers(6)]
        elif isinstance(X, h5py.Group):
            name = ("indptr", "indices", "data")[rng.integers(3)]
            strange = _strange(rng, X[name][:])
            del X[name]
            if rng.random() < 0.9:
                X[name] = strange if strange.dtype.kind not in "UM" else "words"
        else:
            del file["X"]
            file.create_dataset("X", (N, D), "f8", external=[("/dev/zero", 0, 10**6)])


def h5ad_bomb(rng: Random, path: Path) -> None:
    """A packed chunk that is another one; sometimes one without end."""
    import zlib

    import h5py

    with h5py.File(path, "r+") as file:
        X = file["X"] if hasattr(file["X"], "shape") else file["X/data"]
        if X.chunks is None:
            return
        heavy = rng.random() < 0.05 and X.compression is not None
        content = (
            zlib.compress(bytes(BOMB), 1)
            if heavy
            else _of_bytes(rng, X.id.read_direct_chunk((0,) * X.ndim)[1])
        )
        content = content or b"\0"
        X.id.write_direct_chunk((0,) * X.ndim, content, int(rng.integers(3)) if not heavy else 0)


def zarr_metadata(rng: Random, path: Path) -> None:
    """Another value in the metadata."""
    _edit_json(rng, _metadata(path))


def zarr_chunk(rng: Random, path: Path) -> None:
    """A chunk that is lost, damaged, another one, a pipe, or one without end."""
    import numcodecs

    chunks = [
        file
        for file in sorted(path.rglob("*"))
        if file.is_file() and ".z" not in file.name and file.suffix != ".json"
    ]
    file, other = (chunks[i] for i in rng.integers(len(chunks), size=2))
    way = rng.integers(5)
    if way == 0:
        file.unlink()
    elif way == 1:
        file.write_bytes(other.read_bytes())
    elif way == 2 and rng.random() < 0.1:
        codecs = (numcodecs.GZip(1), numcodecs.Zstd(1), numcodecs.Blosc())
        file.write_bytes(codecs[rng.integers(3)].encode(bytes(BOMB)))
    elif way == 3:
        file.unlink()
        os.mkfifo(file) if rng.random() < 0.5 else file.symlink_to("/dev/zero")
    else:
        file.write_bytes(_of_bytes(rng, file.read_bytes()))


# --- genelin's own -----------------------------------------------------------------------------


def rows_header(rng: Random, path: Path) -> None:
    """Another value in the header."""
    _edit_json(rng, path / "header.json")


def rows_array(rng: Random, path: Path) -> None:
    """An array that is not what it was, and a header that agrees with it, checksum and all."""
    import hashlib

    file = sorted(path.glob("*.npy"))[rng.integers(len(list(path.glob("*.npy"))))]
    strange = _strange(rng, np.load(file))
    np.save(file, strange)
    header = json.loads((path / "header.json").read_text())
    header["arrays"][file.stem] = {
        "dtype": strange.dtype.str,
        "shape": list(strange.shape),
        "bytes": file.stat().st_size,
        "sha256": hashlib.sha256(np.ascontiguousarray(strange).tobytes()).hexdigest(),
    }
    if file.stem == "data":
        header |= {"dtype": strange.dtype.str, "stored": strange.size}
    (path / "header.json").write_text(json.dumps(header))


def resealed(rng: Random, path: Path) -> None:
    """Other numbers or another header under a checksum that is right."""
    from safetensors import safe_open

    from genelin.io.archive import save_archive

    with safe_open(path, framework="np") as file:
        metadata = file.metadata()
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    header = json.loads(metadata["header"])
    if rng.random() < 0.5:
        header = _edited(rng, header)
    else:
        name = list(arrays)[rng.integers(len(arrays))]
        strange = _strange(rng, arrays[name])
        arrays[name] = strange if strange.dtype.kind in "biuf" else np.zeros(1)
        if rng.random() < 0.2:
            del arrays[name]
    save_archive(path, metadata["kind"], int(metadata["version"]), header, arrays)


def run_json(rng: Random, path: Path) -> None:
    """Another value in run.json."""
    _edit_json(rng, path)


def record_line(rng: Random, path: Path) -> None:
    """Another value in a line."""
    line = _edited(rng, json.loads(path.read_text(encoding="utf-8").splitlines()[0]))
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")


def url_archive(rng: Random, path: Path) -> None:
    """Other contents in an archive that is whole."""
    import tarfile

    if not path.name.endswith(".tar.gz"):
        return path.write_bytes(_of_text(rng, path.read_bytes())) and None
    with tarfile.open(path) as archive:
        parts = {entry.name: archive.extractfile(entry).read() for entry in archive}
    name = list(parts)[rng.integers(len(parts))]
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for part, content in parts.items():
            entry = tarfile.TarInfo(part)
            content = _of_text(rng, content) if part == name else content
            entry.size = len(content)
            if part == name and rng.random() < 0.1:
                entry.type, entry.linkname, entry.size = (
                    (tarfile.FIFOTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE)[rng.integers(3)],
                    "/dev/zero",
                    0,
                )
            archive.addfile(entry, io.BytesIO(content) if entry.size else None)
    return None


SPECIAL: dict[str, tuple[Tool, ...]] = {
    "npy": (npy_header, npy_array),
    "npz": (npz_array, npz_array, npz_members, npz_bomb, npz_lies),
    "mtx": (mtx_header, packed_bomb),
    "csv": (packed_bomb,),
    "tsv": (packed_bomb,),
    "svmlight": (packed_bomb,),
    "parquet": (parquet_table, parquet_footer),
    "arrow": (arrow_table, arrow_words),
    "h5ad": (h5ad_parts, h5ad_parts, h5ad_bomb),
    "zarr": (zarr_metadata, zarr_chunk),
    "rows": (rows_header, rows_array),
    **dict.fromkeys(SEALED, (resealed,)),
    "run": (run_json,),
    "records": (record_line,),
    "url": (url_archive,),
}


def copied(source: Path, folder: Path) -> Path:
    """A copy of a file with what lies beside it, or of a folder."""
    shutil.copytree(source.parent, folder, dirs_exist_ok=True)
    return folder / source.name
