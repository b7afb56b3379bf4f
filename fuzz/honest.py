"""Small honest files of every format that genelin reads: what the attack on files damages."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import tarfile
import warnings
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.io import mmwrite

__all__ = ["FORMATS", "PENCIL", "SEALED", "VARIANTS", "counts", "dense"]

N, D = 60, 5
PENCIL = np.diag(np.arange(1.0, 41.0))
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
SEALED = ("model", "solution", "state")  # safetensors with a checksum


@cache
def dense() -> NDArray[np.float64]:
    """Rows of numbers."""
    return np.random.default_rng(0).standard_normal((N, D))


@cache
def counts() -> Any:
    """Sparse rows."""
    return sparse.random_array((N, D), density=0.4, rng=np.random.default_rng(1)).tocsr()


def npy(folder: Path, kind: str) -> Path:
    """By rows, by columns, of other types, and in version 2 of the format."""
    X = {
        "f": np.asfortranarray(dense()),
        "4": dense().astype(">f4"),
        "i": (9 * dense()).astype("i2"),
    }
    with open(folder / "X.npy", "wb") as file:
        np.lib.format.write_array(file, X.get(kind, dense()), (2, 0) if kind == "2" else None)
    return folder / "X.npy"


def npz(folder: Path, kind: str) -> Path:
    """Dense, or sparse in a format of SciPy, packed or not (a capital letter)."""
    if kind.lower() == "dense":
        (np.savez if kind == "dense" else np.savez_compressed)(folder / "X.npz", X=dense())
    else:
        X = counts().asformat(kind.lower())
        sparse.save_npz(folder / "X.npz", X, compressed=kind != kind.lower())
    return folder / "X.npz"


def mtx(folder: Path, kind: str) -> Path:
    """Entries or all numbers, general or symmetric, packed or not."""
    form, _, packed = kind.partition(" ")
    path = folder / "X.mtx"
    square = counts().T @ counts()
    X: Any = {"array": dense(), "symmetric": sparse.coo_array(square)}.get(form, counts().tocoo())
    options = {"field": "pattern"} if form == "pattern" else {}
    mmwrite(path, X, symmetry="symmetric" if form == "symmetric" else "general", **options)
    return _packed(path, packed)


def _packed(path: Path, suffix: str) -> Path:
    if not suffix:
        return path
    text = path.read_bytes()
    path.unlink()
    path = path.with_name(path.name + suffix)
    path.write_bytes(PACKERS[suffix](text))
    return path


def table(folder: Path, kind: str) -> Path:
    """Text with a line of names (or none), by commas, semicolons or tabs."""
    suffix, _, packed = kind.partition(" ")
    separator = {".tsv": "\t", ".txt": ";"}.get(suffix, ",")
    names = separator.join(f"c{j}" for j in range(D))
    lines = [separator.join(f"{value:.9g}" for value in row) for row in dense().tolist()]
    text = "\n".join([names, *lines] if suffix != ".txt" else lines) + "\n"
    (folder / f"X{suffix}").write_text(text)
    return _packed(folder / f"X{suffix}", packed)


def _arrow_table(kind: str) -> Any:
    import pyarrow as pa

    X = dense().astype("f4") if kind.endswith("4") else dense()
    return pa.table({f"c{j}": X[:, j] for j in range(D)})


def parquet(folder: Path, kind: str) -> Path:
    """One file, or a folder of them; packed in several ways."""
    import pyarrow.parquet as pq

    options: dict[str, Any] = {"compression": kind.removesuffix("4"), "row_group_size": 25}
    if kind != "parts":
        pq.write_table(_arrow_table(kind), folder / "X.parquet", **options)
        return folder / "X.parquet"
    (folder / "X").mkdir()
    for i, start in enumerate(range(0, N, 25)):
        pq.write_table(_arrow_table("8").slice(start, 25), folder / "X" / f"{i}.parquet")
    return folder / "X"


def arrow(folder: Path, kind: str) -> Path:
    """IPC files of several batches, packed or not."""
    import pyarrow as pa

    whole, options = (
        _arrow_table(kind),
        pa.ipc.IpcWriteOptions(compression=None if kind in ("", "4") else kind),
    )
    path = folder / ("X.feather" if kind else "X.arrow")
    with pa.ipc.new_file(path, whole.schema, options=options) as sink:
        sink.write_table(whole, max_chunksize=25)
    return path


def svmlight(folder: Path, kind: str) -> Path:
    """Lines of labels and entries."""
    X = counts()
    with open(folder / "X.svm", "w", encoding="utf-8") as file:
        for i in range(N):
            at = slice(X.indptr[i], X.indptr[i + 1])
            entries = zip(X.indices[at] + 1, X.data[at], strict=True)
            file.write(" ".join([f"{i % 2}", *(f"{j}:{value:.9g}" for j, value in entries)]) + "\n")
    return _packed(folder / "X.svm", kind)


def h5ad(folder: Path, kind: str) -> Path:
    """The X of AnnData: dense or CSR, in one piece, in chunks, or in packed chunks."""
    import h5py

    form, how, version = [*kind.split(" "), "", ""][:3]
    chunks = {"": {}, "chunks": {"chunks": True}}.get(how, {"compression": how})
    with h5py.File(folder / "X.h5ad", "w", libver=version or "earliest") as file:
        if form == "csr":
            group = file.create_group("X")
            group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", (N, D)
            for name in ("data", "indices", "indptr"):
                group.create_dataset(name, data=getattr(counts(), name), **chunks)
        else:
            pieces = chunks and {**chunks, "chunks": (16, 3)}
            file.create_dataset("X", data=dense(), **pieces)
        var = file.create_group("var")
        var.attrs["_index"] = "gene"
        var["gene"] = [f"c{j}" for j in range(D)]
    return folder / "X.h5ad"


def zarr(folder: Path, kind: str) -> Path:
    """Version 2 and 3, by several ways to pack chunks."""
    import numcodecs
    import zarr as library
    from zarr import codecs

    version, how = int(kind[0]), kind[2:]
    modern: dict[str, Any] = {
        "gzip": codecs.GzipCodec(),
        "zstd": codecs.ZstdCodec(),
        "blosc": codecs.BloscCodec(),
    }
    older = {"gzip": numcodecs.GZip(), "zstd": numcodecs.Zstd(), "blosc": numcodecs.Blosc()}
    array = library.create_array(
        str(folder / "X.zarr"),
        shape=(N, D),
        chunks=(16, 3),
        dtype="f8",
        zarr_format=version,
        compressors=(modern if version == 3 else older).get(how),
        shards=(32, 3) if how == "shards" else None,
    )
    array[:] = dense()
    return folder / "X.zarr"


def rows(folder: Path, kind: str) -> Path:
    """Genelin's own folders."""
    from genelin.io import convert

    return convert(counts() if kind == "csr" else dense(), folder / "X.rows").path


def model(folder: Path, kind: str) -> Path:
    """A fitted CCA, or one that has read a stream."""
    from genelin import CCA

    X, Y = dense()[:, :3], dense()[:, 2:] + counts().toarray()[:, 2:]
    cca = CCA(n_components=2)
    (cca.partial_fit if kind == "stream" else cca.fit)(X, Y)
    cca.save(folder / "model.safetensors")
    return folder / "model.safetensors"


def solution(folder: Path, kind: str) -> Path:
    """A checkpoint of a run that has ended."""
    from genelin import Davidson, top_k

    top_k(PENCIL, k=2, method=Davidson(), checkpoint=folder)
    return folder / "checkpoint.safetensors"


def state(folder: Path, kind: str) -> Path:
    """A checkpoint of a run that was stopped."""
    from genelin import Davidson, top_k
    from genelin.io import Checkpoint

    def enough(record: Any, _: Any) -> bool:
        return bool(record.iteration >= 2)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it did not converge
        top_k(PENCIL, k=2, method=Davidson(), callback=enough, checkpoint=Checkpoint(folder, 0.0))
    return folder / "checkpoint.safetensors"


def run(folder: Path, kind: str) -> Path:
    """What `genelin cca` writes of a run, beside its model."""
    model(folder, "")
    views = [{"path": f"{name}.csv", "columns": list(name)} for name in ("abc", "def")]
    (folder / "run.json").write_text(json.dumps({"command": "cca", "inputs": views}, indent=1))
    return folder / "run.json"


def records(folder: Path, kind: str) -> Path:
    """Runs of experiments, a line for each."""
    from genelin.baselines import NWCCA
    from genelin.datasets import digits_halves
    from genelin.experiments.records import record_run, write_records

    return write_records(
        folder / "runs.jsonl", [record_run(digits_halves(), NWCCA(), k=2, reg=1e-3)]
    )


def words(folder: Path, kind: str) -> Path:
    """Text whose words are counted."""
    lines = [f"the {'cat' if i % 3 else 'dog'} sat on mat {i % 7}" for i in range(40)]
    (folder / "words.txt").write_text("\n".join(lines) + "\n")
    return _packed(folder / "words.txt", kind)


def debian(folder: Path, kind: str) -> Path:
    """An index of paths and packages."""
    lines = [f"usr/{'bin' if i % 2 else 'share'}/tool{i % 5} admin/pack{i}" for i in range(60)]
    (folder / "Contents").write_text("\n".join(lines) + "\n")
    return _packed(folder / "Contents", kind)


def url(folder: Path, kind: str) -> Path:
    """Days of URLs, in an archive or in one file."""
    text = svmlight(folder, "").read_bytes()
    (folder / "X.svm").unlink()
    if not kind:
        (folder / "url.svm").write_bytes(text)
        return folder / "url.svm"
    with tarfile.open(folder / "url.tar.gz", "w:gz") as archive:
        parts = {"url/FeatureTypes": b"1\n3\n", "url/Day0.svm": text, "url/Day1.svm": text}
        for name, content in parts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, BytesIO(content))
    return folder / "url.tar.gz"


SPARSE = ("csr", "csc", "coo", "bsr", "dia")
VARIANTS: dict[str, tuple[Callable[[Path, str], Path], tuple[str, ...]]] = {
    "npy": (npy, ("", "f", "4", "i", "2")),
    "npz": (npz, ("dense", "DENSE", *SPARSE, *(kind.upper() for kind in SPARSE))),
    "mtx": (mtx, ("array", "real", "symmetric", "pattern", "real .gz", "array .gz")),
    "csv": (table, (".csv", ".csv .gz", ".txt")),
    "tsv": (table, (".tsv", ".tsv .gz")),
    "parquet": (parquet, ("snappy", "none4", "zstd", "gzip", "parts")),
    "arrow": (arrow, ("", "4", "zstd", "lz4")),
    "svmlight": (svmlight, ("", ".gz", ".bz2", ".xz")),
    "h5ad": (
        h5ad,
        tuple(
            f"{form}{how}"
            for form in ("dense", "csr")
            for how in ("", " chunks", " gzip", " lzf", "  latest", " gzip latest")
        ),
    ),
    "zarr": (
        zarr,
        tuple(f"{v} {how}" for v in (2, 3) for how in ("none", "gzip", "zstd", "blosc"))
        + ("3 shards",),
    ),
    "rows": (rows, ("dense", "csr")),
    "model": (model, ("", "stream")),
    "solution": (solution, ("",)),
    "state": (state, ("",)),
    "run": (run, ("",)),
    "records": (records, ("",)),
    "words": (words, ("", ".gz", ".bz2", ".xz")),
    "debian": (debian, ("", ".gz")),
    "url": (url, ("", "tar")),
}
FORMATS = tuple(VARIANTS)
