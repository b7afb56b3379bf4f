"""Files that are damaged, or that lie: refused in a sentence and at no cost, or read rightly."""

import gzip
import json
import os
import socket
import struct
import sys
import threading
import warnings
import zipfile
import zlib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from genelin import CCA, CCALin, Davidson, top_k, top_k_cca
from genelin.cli.commands.transform_command import read_run
from genelin.cli.exit_codes import BadInputError
from genelin.cli.read_views import read_matrix, read_view
from genelin.datasets import url_reputation
from genelin.errors import DataError
from genelin.experiments.records import read_records
from genelin.io import Checkpoint, convert, load_archive, open_rows, save_archive
from genelin.io.damaged_files import decoding
from genelin.io.formats.matrix_market import read_mtx
from genelin.io.formats.svmlight import long_numbers, read_svmlight

N, D = 60, 5
BOMB = 200 << 20  # bytes of zeros


def dense():
    return np.random.default_rng(0).standard_normal((N, D))


def counts():
    return sparse.random_array((N, D), density=0.4, rng=np.random.default_rng(1)).tocsr()


def peak_of(use):
    """What a refusal says, and by how many bytes memory in use has grown meanwhile (Linux)."""

    def status(name):
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))

    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    before = status("VmRSS")
    with pytest.raises(DataError) as refused:
        use()
    return str(refused.value), status("VmHWM") - before


linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is told by /proc")


# --- Whole numbers -----------------------------------------------------------------------------


def npz_of(path, X, **others):
    """A sparse matrix as SciPy writes it, with some arrays in the place of its own."""
    arrays = {"indptr": X.indptr, "indices": X.indices, "data": X.data}
    np.savez(path, **({"format": np.bytes_(X.format), "shape": X.shape} | arrays | others))
    return path


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize("beyond", [2**31, 2**32, 2**40])
def test_indices_are_not_narrowed_before_they_are_looked_at(tmp_path, dtype, beyond):
    X = counts()
    indices = X.indices.astype(dtype)
    indices[7] += dtype(beyond)
    path = npz_of(tmp_path / "X.npz", X, indices=indices)
    said = rf"indices.*entry 7 \(row \d+\) has the column index {indices[7]}, but there are 5"
    for use in (lambda: open_rows(path).verify(), lambda: open_rows(path).load()):
        with pytest.raises(DataError, match=said):
            use()
    with pytest.raises(DataError, match=said):
        read_matrix(str(path))


def test_h5ad_indices_are_not_narrowed(tmp_path):
    h5py = pytest.importorskip("h5py")
    X = counts()
    with h5py.File(tmp_path / "X.h5ad", "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", X.shape
        group["data"], group["indptr"] = X.data, X.indptr.astype(np.int64)
        group["indices"] = X.indices.astype(np.int64) + 2**32 * (np.arange(X.nnz) == 3)
    with pytest.raises(DataError, match=r"entry 3 \(row \d+\) has the column index 42949673\d\d"):
        open_rows(tmp_path / "X.h5ad").verify()


def test_folders_and_their_pointers_are_not_narrowed(tmp_path):
    X = counts()
    path = npz_of(tmp_path / "X.npz", X, indptr=X.indptr.astype(np.uint64) + np.uint64(2**63))
    with pytest.raises(DataError, match=r"indptr.*entry 0 is 9,223,372,036,854,775,808.*int64"):
        open_rows(path).verify()
    for name in ("format", "shape"):
        with pytest.raises(DataError, match=name):
            open_rows(npz_of(path, X, **{name: np.array([60.5, 5.0])}))
    with pytest.raises(DataError, match="shape"):
        open_rows(npz_of(path, X, shape=np.array([2**63, 5], np.uint64)))


@pytest.mark.parametrize(("kind", "name"), [("csc", "indices"), ("bsr", "indices"), ("coo", "row")])
def test_other_sparse_formats_look_at_indices_too(tmp_path, kind, name):
    X = counts()
    other = X.asformat(kind) if kind != "bsr" else X.tobsr((2, 1))
    sparse.save_npz(tmp_path / "X.npz", other)
    np.testing.assert_array_equal(read_matrix(str(tmp_path / "X.npz")).toarray(), X.toarray())
    with np.load(tmp_path / "X.npz") as archive:
        arrays = {part: archive[part] for part in archive}
    arrays[name] = arrays[name].astype(np.int64) + 2**32
    np.savez(tmp_path / "X.npz", **arrays)
    with pytest.raises(DataError, match=rf"X\.npz, array '{name}'.*ind"):
        read_matrix(str(tmp_path / "X.npz"))


def test_diagonals_are_read(tmp_path):
    X = sparse.dia_array((np.ones((2, 6)), [0, -1]), shape=(6, 6))
    sparse.save_npz(tmp_path / "X.npz", X)
    np.testing.assert_array_equal(read_matrix(str(tmp_path / "X.npz")).toarray(), X.toarray())
    for offset in (2**32 - 3, -6, 6):
        path = npz_of(
            tmp_path / "X.npz", X.tocsr(), format=b"dia", data=X.data, offsets=[0, offset]
        )
        with pytest.raises(DataError, match=rf"X\.npz, array 'offsets': entry 1 is .*{offset}"):
            read_matrix(str(path))


def test_tables_say_where_there_is_nothing_and_what_cannot_be_printed(tmp_path):
    empty = tmp_path / "X.csv.gz"
    empty.write_bytes(gzip.compress(b""))
    with pytest.raises(DataError, match=r"X\.csv\.gz"):
        convert(empty, tmp_path / "rows")
    parquet, table = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow").table
    (tmp_path / "X").mkdir()
    for i, name in enumerate(("c0", "\x00\x15")):
        parquet.write_table(table({name: [1.0]}), tmp_path / "X" / f"{i}.parquet")
    with pytest.raises(DataError, match="the same columns") as refused:
        open_rows(tmp_path / "X")
    assert str(refused.value).isprintable()


def test_what_does_not_fit_in_memory_is_not_called_damaged():
    with (
        pytest.raises(DataError, match=r"X\.npz needs more memory than there is"),
        decoding("X.npz"),
    ):
        raise MemoryError


# --- Archives ----------------------------------------------------------------------------------


def rezipped(path, method=zipfile.ZIP_DEFLATED, **others):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", method, compresslevel=1) as archive:
        for name, content in (
            members | {f"{name}.npy": other for name, other in others.items()}
        ).items():
            archive.writestr(name, content)


def header(shape, descr="<f8"):
    text = str({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@linux
@pytest.mark.parametrize("name", ["format", "shape", "indices", "data"])
@pytest.mark.parametrize("head", [header((3,)), b"\x93NUMPY\x02\x00" + struct.pack("<I", BOMB)])
def test_zip_bombs_are_not_unpacked(tmp_path, name, head):
    path = tmp_path / "X.npz"
    sparse.save_npz(path, counts())
    rezipped(path, **{name: head + bytes(BOMB)})
    for use in (lambda: open_rows(path).load(), lambda: read_matrix(str(path))):
        said, taken = peak_of(use)
        assert f"{path}, array '{name}'" in said
        assert taken < 64 << 20


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_archives_are_packed_as_numpy_packs_them(tmp_path, method):
    sparse.save_npz(tmp_path / "X.npz", counts())
    rezipped(tmp_path / "X.npz", method)
    with pytest.raises(DataError, match="packed in a way that NumPy does not use"):
        open_rows(tmp_path / "X.npz")


def test_damaged_streams_are_named(tmp_path):
    path = tmp_path / "X.npz"
    sparse.save_npz(path, sparse.random_array((2000, 50), density=0.5, rng=0).tocsr())
    content = bytearray(path.read_bytes())
    at = content.find(b"data.npy") + 4000
    content[at : at + 200] = bytes(200)
    path.write_bytes(content)
    for use in (lambda: open_rows(path).load(), lambda: read_matrix(str(path))):
        with pytest.raises(DataError, match=r"X\.npz, array 'data' cannot be read: it is damaged"):
            use()


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'shape': ('''" + b" " * 90, "NumPy's format"),
        (header((-N, -D)), r"the shape \(-60, -5\)"),
        (header((N, 10**18)), "bytes, but its header asks for"),
        (header((N, True)), "the shape"),
        (header((N, D), "|V0"), "bytes, but its header asks for|not numbers"),
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31), "a header of 2,147,483,648 bytes"),
        (b"\x93NUMPY\x03\x00\x10\x00\x00\x00" + b" " * 16, "is for records"),
    ],
)
def test_headers_of_numpy(tmp_path, head, said):
    (tmp_path / "X.npy").write_bytes(head + dense().tobytes())
    for use in (open_rows, lambda path: read_matrix(str(path))):
        with pytest.raises(DataError, match=rf"X\.npy.*({said})"):
            use(tmp_path / "X.npy")


@pytest.mark.parametrize(
    "array", [np.ones(()), np.ones((2, 2, 2)), np.ones((0, 3)), np.array([["a"]])]
)
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_matrices_have_rows_and_columns_of_numbers(tmp_path, array, suffix):
    path = tmp_path / f"X{suffix}"
    (np.save if suffix == ".npy" else np.savez)(path, array)
    with pytest.raises(DataError, match=rf"X\{suffix}"):
        read_matrix(str(path))


# --- What is no file ---------------------------------------------------------------------------


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def bound(path):
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(path))


@pytest.mark.skipif(sys.platform == "win32", reason="there are none")
@pytest.mark.parametrize(
    ("make", "kind"), [(pipe, "a pipe"), (device, "a device"), (Path.mkdir, "")]
)
@pytest.mark.parametrize(
    "suffix", [".npy", ".npz", ".mtx", ".csv", ".parquet", ".arrow", ".svm", ".h5ad"]
)
def test_what_is_no_file_is_refused_at_once(tmp_path, make, kind, suffix):
    path = tmp_path / f"X{suffix}"
    make(path)
    uses = [lambda: open_rows(path), lambda: convert(path, tmp_path / "rows")]
    uses += [lambda: read_view(str(path))] if suffix != ".svm" else [lambda: read_svmlight(path)]
    for use in uses:
        with pytest.raises(DataError, match=rf"X\{suffix} is {kind}"):
            use()


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are none")
def test_sockets_are_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bound(Path("X.npy"))
    with pytest.raises(DataError, match=r"X\.npy is a socket, not a file"):
        open_rows("X.npy")


@pytest.mark.skipif(sys.platform == "win32", reason="there are none")
def test_pipes_in_the_place_of_headers_models_and_records(tmp_path):
    rows = convert(dense(), tmp_path / "rows").path
    (rows / "header.json").unlink()
    pipe(rows / "header.json")
    pipe(tmp_path / "checkpoint.safetensors")
    uses = {
        "header": lambda: open_rows(rows),
        "model": lambda: CCA.load(tmp_path / "checkpoint.safetensors"),
        "state": lambda: top_k(np.eye(3), checkpoint=tmp_path, resume=True),
        "run": lambda: read_run(tmp_path / "checkpoint.safetensors"),
        "records": lambda: read_records(tmp_path / "checkpoint.safetensors"),
        "urls": lambda: url_reputation(tmp_path / "checkpoint.safetensors"),
    }
    for use in uses.values():
        with pytest.raises(ValueError, match="is a pipe, not a file"):
            use()


def test_a_pipe_does_not_hang_a_command(tmp_path, capfd):
    from genelin.cli.main import main

    if not hasattr(os, "mkfifo"):
        pytest.skip("there are none")
    pipe(tmp_path / "X.csv")
    ended = []
    worker = threading.Thread(
        target=lambda: ended.append(main(["plan", f"{tmp_path}/X.csv", f"{tmp_path}/X.csv"])),
        daemon=True,
    )
    worker.start()
    worker.join(60)
    assert ended == [2]
    assert "X.csv is a pipe, not a file" in capfd.readouterr().err


# --- Folders of rows ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shape", [60.5, 5]),
        ("shape", [60.0, 5]),
        ("shape", [True, 5]),
        ("shape", [-60, 5]),
        ("shape", [2**70, 5]),
        ("stored", 60.5),
        ("stored", 7),
        ("dtype", "<f4"),
        ("columns", "abcde"),
        ("columns", [1, 2, 3, 4, 5]),
    ],
)
def test_headers_hold_whole_numbers_and_names(tmp_path, name, value):
    folder = convert(dense(), tmp_path / "rows").path
    content = json.loads((folder / "header.json").read_text()) | {name: value}
    (folder / "header.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"header"):
        open_rows(folder)


def test_arrays_of_csr_have_one_dimension(tmp_path):
    folder = convert(counts(), tmp_path / "rows").path
    indices = np.load(folder / "indices.npy")[:, None]
    np.save(folder / "indices.npy", indices)
    content = json.loads((folder / "header.json").read_text())
    content["arrays"]["indices"]["shape"] = list(indices.shape)
    content["arrays"]["indices"]["bytes"] = (folder / "indices.npy").stat().st_size
    (folder / "header.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="one dimension"):
        open_rows(folder)


@pytest.mark.parametrize("value", [1e200, -1e308])
@pytest.mark.parametrize("place", [(3, 2), (slice(None), 2)])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_numbers_that_overflow_are_refused_in_chunks_as_in_memory(
    tmp_path, value, place, is_sparse
):
    X = dense()
    X[place] = value
    X = sparse.csr_array(X) if is_sparse else X
    x, y = (convert(rows, tmp_path / name).path for rows, name in ((X, "x"), (dense(), "y")))
    for memory in (500, 1e9):
        with pytest.raises(ValueError, match=r"has numbers of the order .* leave the range"):
            top_k_cca(open_rows(x, max_memory=memory), open_rows(y, max_memory=memory), k=1)


# --- Text --------------------------------------------------------------------------------------


@linux
@pytest.mark.parametrize("letter", [b" ", b"1", b"\0"])
def test_lines_without_end(tmp_path, letter):
    path = tmp_path / "X.svm.gz"
    path.write_bytes(gzip.compress(letter * BOMB, 1))
    said, taken = peak_of(lambda: convert(path, tmp_path / "rows"))
    assert "X.svm.gz has a line of more than" in said
    assert taken < 100 << 20  # a line, and what is read of it at a time


def test_rows_without_an_entry(tmp_path):
    (tmp_path / "X.svm").write_text("1\n-1\n")
    for use in (read_svmlight, lambda path: convert(path, tmp_path / "rows")):
        with pytest.raises(DataError, match="has rows, but not an entry"):
            use(tmp_path / "X.svm")


def test_numbers_with_many_digits():
    words = ["0.1234567890123456789", "1e-320", "123456789012345678901234567890", "1" * 90, "5e400"]
    text = " ".join(words).encode()
    ends = np.cumsum([len(word) + 1 for word in words]) - 1
    first = np.append(0, ends[:-1] + 1)
    found = long_numbers(np.frombuffer(text, np.uint8), first, ends)
    assert found.tolist() == [float(word) for word in words]


HEAD = "%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("3 1 2\n1 2 3\n", "first line"),
        (HEAD + "2 2 1\n3 1 5\n", r"line 3: there is no such row"),
        (HEAD + "2 2 1\n4294967297 1 5\n", r"line 3: there is no such row"),
        (HEAD + "2 2 1\n1 0 5\n", r"line 3: there is no such column"),
        (HEAD + "% a comment\n2 2 1\n1 1 5-3\n", r"line 4: a value is missing or not a number"),
        (HEAD + "2 2 1\n1 1\n", r"too short|line 3: a value is missing"),
        (HEAD + "2 2 1\n1 1 5 6\n", "line 3: there is more on the line"),
        (HEAD + "2 2 1\n1.0 1 5\n", "line 3: a row or column is not a whole number"),
        (HEAD + "2 2 1\n1 1 5\n1 2 5\n", "line 4: there are more entries"),
        (HEAD + "2 2 2\n1 1 5\n     ", "promises 2 entries and has 1"),
        (HEAD + "2 2 1000000000000\n1 1 5\n", "too short for them"),
        (HEAD + "1000000000000000 2 1\n1 1 5.5\n", "is its header damaged"),
        (HEAD + "2.5 2 1\n1 1 5\n", "line 2: '2.5 2 1' is not a line of 3 sizes"),
        (HEAD + "0 2 0\n", "empty"),
        (HEAD.replace("real", "complex") + "2 2 1\n1 1 5 1\n", "'complex' cannot be read"),
        (HEAD.replace("general", "symmetric") + "2 3 1\n1 1 5\n", "cannot be 2 × 3"),
        (HEAD.replace("coordinate real", "array pattern") + "2 3\n", "cannot be an array"),
        ("%%MatrixMarket matrix array real general\n3 2\n1\n2\n3\n4\n5\n", "promises 6 entries"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_damaged_matrix_market_files(tmp_path, text, said, packed):
    path = tmp_path / ("A.mtx.gz" if packed else "A.mtx")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    with pytest.raises(DataError, match=rf"A\.mtx.*({said})"):
        read_matrix(str(path))


@pytest.mark.filterwarnings("ignore:The default value for `spmatrix`:DeprecationWarning")
@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
@pytest.mark.parametrize("field", ["real", "integer", "pattern"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_matrix_market_files_as_scipy_reads_them(tmp_path, symmetry, field, is_sparse):
    from scipy.io import mmread, mmwrite

    X = np.random.default_rng(2).standard_normal((7, 7)) * 100
    X = {"symmetric": X + X.T, "skew-symmetric": X - X.T}.get(symmetry, X)
    X = np.where(np.abs(X) > 60, X, 0)
    X = X.astype(int) if field == "integer" else X
    if field == "pattern" and (symmetry == "skew-symmetric" or not is_sparse):
        pytest.skip("there is none")
    given = sparse.coo_array(X) if is_sparse else X
    mmwrite(tmp_path / "A.mtx", given, symmetry=symmetry, field=field)
    expected, found = mmread(tmp_path / "A.mtx"), read_mtx(tmp_path / "A.mtx")
    assert sparse.issparse(found) == is_sparse
    for each in (expected, found):
        assert each.shape == (7, 7)
    as_array = [each.toarray() if is_sparse else each for each in (found, expected)]
    np.testing.assert_array_equal(*as_array)


# --- HDF5, Zarr, tables ------------------------------------------------------------------------


def h5ad(path, **options):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=dense(), **options)
        file.create_group("var").attrs["_index"] = "gene"
        file["var/gene"] = [f"gene number {j}" for j in range(D)]
    return h5py


@linux
@pytest.mark.parametrize("content", [bytes(BOMB), bytes(8)], ids=["bomb", "short"])
def test_chunks_of_hdf5_unpack_to_a_chunk(tmp_path, content):
    h5py = h5ad(tmp_path / "X.h5ad", chunks=(16, 3), compression="gzip")
    with h5py.File(tmp_path / "X.h5ad", "r+") as file:
        file["X"].id.write_direct_chunk((16, 0), zlib.compress(content, 1))
    said, taken = peak_of(lambda: open_rows(tmp_path / "X.h5ad").load())
    assert "X.h5ad: the chunk at (16, 0) of /X does not unpack to the 384 bytes of a chunk" in said
    assert taken < 64 << 20


@pytest.mark.parametrize(
    "options", [{"compression": "lzf"}, {"compression": "gzip", "shuffle": True}]
)
@pytest.mark.parametrize("checksum", [False, True])
def test_packed_chunks_are_read(tmp_path, options, checksum):
    h5py = h5ad(tmp_path / "X.h5ad", chunks=(16, 3), fletcher32=checksum, **options)
    np.testing.assert_array_equal(open_rows(tmp_path / "X.h5ad").load(), dense())
    if options["compression"] == "lzf":
        with h5py.File(tmp_path / "X.h5ad", "r+") as file:
            _, packed = file["X"].id.read_direct_chunk((0, 0))
            file["X"].id.write_direct_chunk((0, 0), packed[:-20])
        with pytest.raises(DataError, match=r"does not unpack|cannot be read"):
            open_rows(tmp_path / "X.h5ad").load()


@linux
@pytest.mark.parametrize("what", ["texts", "attribute", "heap"])
def test_texts_of_hdf5_are_no_longer_than_the_file(tmp_path, what):
    path = tmp_path / "X.h5ad"
    h5ad(path)
    content = bytearray(path.read_bytes())
    heap = content.find(b"GCOL")
    if what == "heap":
        content[heap + 8 : heap + 16] = struct.pack("<Q", 2**31)
    else:
        length = 13 if what == "texts" else 4
        place = struct.pack("<IQ", length, heap)
        at = content.find(place)
        assert at > 0
        content[at : at + 4] = struct.pack("<I", 2**31 - 2**20)
    path.write_bytes(content)
    said, taken = peak_of(lambda: open_rows(path))
    assert "X.h5ad" in said
    assert taken < 64 << 20


@pytest.mark.parametrize("kind", ["link", "storage"])
def test_hdf5_in_other_files_is_refused(tmp_path, kind):
    h5py = h5ad(tmp_path / "X.h5ad")
    h5ad(tmp_path / "Y.h5ad")
    with h5py.File(tmp_path / "X.h5ad", "r+") as file:
        del file["X"]
        if kind == "link":
            file["X"] = h5py.ExternalLink("Y.h5ad", "X")
        else:
            file.create_dataset("X", (N, D), "f8", external=[(str(tmp_path / "raw"), 0, 8 * N * D)])
    with pytest.raises(DataError, match=r"X\.h5ad: X lies in other files"):
        open_rows(tmp_path / "X.h5ad")


@pytest.mark.parametrize("shape", ["wide", [60.5, 5], [60, 5, 1], [-60, 5]])
def test_shapes_of_anndata(tmp_path, shape):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "X.h5ad", "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", shape
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(counts(), name)
    with pytest.raises(DataError, match=r"X\.h5ad.*shape"):
        open_rows(tmp_path / "X.h5ad")


def zarr_array(path, **options):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(str(path), shape=(N, D), chunks=(16, 3), dtype="f8", **options)
    array[:] = dense()
    return path


@linux
@pytest.mark.parametrize("codec", ["Gzip", "Zstd", "Blosc"])
def test_chunks_of_zarr_unpack_to_a_chunk(tmp_path, codec):
    codecs, numcodecs = pytest.importorskip("zarr.codecs"), pytest.importorskip("numcodecs")
    path = zarr_array(tmp_path / "X.zarr", compressors=getattr(codecs, f"{codec}Codec")())
    pack = {"Gzip": numcodecs.GZip, "Zstd": numcodecs.Zstd, "Blosc": numcodecs.Blosc}[codec]()
    for content in (bytes(BOMB), bytes(24)):
        (path / "c" / "1" / "0").write_bytes(pack.encode(content))
        said, taken = peak_of(lambda: open_rows(path).load())
        assert "rows 16 to 31" in said or "c/1/0 does not unpack to the 384 bytes" in said
        assert taken < 64 << 20


def test_shapes_of_zarr_without_chunks(tmp_path):
    path = zarr_array(tmp_path / "X.zarr")
    content = json.loads((path / "zarr.json").read_text()) | {"shape": [10**12, D]}
    (path / "zarr.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"X\.zarr has the shape .* chunks, and only \d+ of them"):
        open_rows(path)


@pytest.mark.skipif(sys.platform == "win32", reason="there are none")
def test_a_pipe_in_the_place_of_a_chunk(tmp_path):
    path = zarr_array(tmp_path / "X.zarr")
    (path / "c" / "0" / "0").unlink()
    pipe(path / "c" / "0" / "0")
    with pytest.raises(DataError, match="is a pipe"):
        open_rows(path).load()


def test_batches_of_arrow_that_contradict_themselves(tmp_path):
    pa = pytest.importorskip("pyarrow")
    whole = pa.table({f"c{j}": dense()[:, j] for j in range(D)})
    with pa.ipc.new_file(tmp_path / "X.arrow", whole.schema) as sink:
        sink.write_table(whole, max_chunksize=25)
    content = (tmp_path / "X.arrow").read_bytes()
    counted = struct.pack("<q", 25)
    at = content.find(counted)
    (tmp_path / "X.arrow").write_bytes(content[:at] + bytes(8) + content[at + 8 :])
    for use in (lambda path: open_rows(path).load(), lambda path: read_view(str(path))):
        with pytest.raises((DataError, BadInputError), match=r"X\.arrow"):
            use(tmp_path / "X.arrow")


def test_tables_without_rows(tmp_path):
    pl = pytest.importorskip("polars")
    pl.DataFrame(schema={"a": pl.Float64, "b": pl.Float64}).write_parquet(tmp_path / "X.parquet")
    with pytest.raises(DataError, match=r"X\.parquet is empty"):
        read_view(str(tmp_path / "X.parquet"))


def test_messages_are_one_line_that_can_be_printed():
    with pytest.raises(DataError) as refused, decoding("X.bin"):
        raise RuntimeError("two\nlines, \x07 and " + "more " * 999)
    text = str(refused.value)
    assert text.startswith("X.bin cannot be read: it is damaged")
    assert text.isprintable()
    assert len(text) < 500
    with pytest.raises(PermissionError), decoding("X.bin"):
        raise PermissionError(13, "no rights", "X.bin")


# --- Checkpoints, runs, records ----------------------------------------------------------------


def resealed(path, change):
    """The file with other contents under a checksum that is right."""
    header, arrays = load_archive(path, "genelin.checkpoint", 1)
    change(header, arrays)
    save_archive(path, "genelin.checkpoint", 1, header, arrays)


STATES = {
    "counts": lambda header, arrays: arrays["trace"].__setitem__((0, 0), np.inf),
    "cost": lambda header, arrays: header["state"].update(cost=[np.nan] * 4),
    "numbers": lambda header, arrays: header["state"].update(numbers={}),
    "kinds": lambda header, arrays: header["state"]["numbers"].update(
        dict.fromkeys(header["state"]["numbers"], "a")
    ),
    "random": lambda header, arrays: header["state"].update(random={"bit_generator": "open"}),
    "NaN": lambda header, arrays: [
        block.__setitem__((0, 0), np.nan) for name, block in arrays.items() if "state." in name
    ],
    "shape": lambda header, arrays: arrays.update(
        {name: block[:1, :1] for name, block in arrays.items() if "state." in name}
    ),
}


@pytest.mark.parametrize("method", [Davidson(), CCALin()], ids=["davidson", "ccalin"])
@pytest.mark.parametrize("change", STATES)
def test_states_that_do_not_fit_are_said_to_be_damaged(tmp_path, change, method):
    X, Y = (np.random.default_rng(seed).standard_normal((80, 20)) for seed in (1, 2))

    def views(**options):
        return top_k_cca(X, Y, k=2, method=method, tol=1e-10, **options)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = Checkpoint(tmp_path, 0.0)
        views(checkpoint=kept, callback=lambda record, _: record.iteration >= 2)
    resealed(kept.path, STATES[change])
    with pytest.raises(ValueError, match=r"checkpoint\.safetensors .*damaged.*resume=False"):
        views(checkpoint=kept, resume=True)


@pytest.mark.parametrize("name", ["values", "vectors", "residuals"])
@pytest.mark.parametrize("harm", ["NaN", "shape"])
def test_answers_that_are_none_are_refused(tmp_path, name, harm):
    A = np.diag(np.arange(1.0, 41.0))
    top_k(A, k=2, method=Davidson(), checkpoint=tmp_path)

    def change(header, arrays):
        if harm == "shape":
            arrays[name] = arrays[name][:-1]
        else:
            arrays[name][-1] = np.nan

    resealed(Checkpoint(tmp_path).path, change)
    with pytest.raises(ValueError, match=r"checkpoint\.safetensors.*resume=False"):
        top_k(A, k=2, method=Davidson(), checkpoint=tmp_path, resume=True)


def test_runs_name_their_columns(tmp_path):
    views = [{"path": "x.csv", "columns": ["a"]}, {"path": "y.csv", "columns": [3]}]
    (tmp_path / "run.json").write_text(json.dumps({"command": "cca", "inputs": views}))
    with pytest.raises(BadInputError, match=r"run\.json is damaged"):
        read_run(tmp_path / "run.json")


def test_records_that_are_no_text(tmp_path):
    (tmp_path / "runs.jsonl").write_bytes(b'\n{"dataset": "\xff"}\n')
    with pytest.raises(ValueError, match=r"runs\.jsonl, line 2: not the record of a run"):
        read_records(tmp_path / "runs.jsonl")


# --- The adversary -----------------------------------------------------------------------------


@linux
@pytest.mark.parametrize(
    "kind", ["npy", "npz", "mtx", "csv", "parquet", "arrow", "h5ad", "zarr", "rows"]
)
def test_some_damage_to_every_format(kind):
    for library in ("h5py", "pyarrow", "zarr"):
        pytest.importorskip(library)
    if kind == "arrow" and tuple(map(int, version("polars").split(".")[:2])) < (1, 3):
        pytest.skip("Polars of that time reads other numbers where metadata are damaged")
    sys.path.insert(0, str(Path(__file__).parents[2]))
    try:
        from fuzz.files import play
    finally:
        sys.path.pop(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in range(20):
            play(kind, np.random.default_rng([0, *kind.encode(), case]))
