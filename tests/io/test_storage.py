"""Rows on disk: every format gives the same matrix, blocks are bounded, damage is named."""

import errno
import gzip
import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from genelin import CCA, CCALin, datasets, solvers, top_k_cca
from genelin.errors import DataError
from genelin.io import convert, open_rows
from genelin.io.block_readers import MemoryReader
from genelin.io.formats.numpy_files import open_npz
from genelin.io.prefetch import BlockSource, block_limits
from genelin.operators import ChunkedRows, Part, Task, as_rows

N, D = 700, 9
SMALL = 20_000  # bytes: a few dozen blocks


class Moments(Task):
    """Sums that notice a row that is missing, moved or read twice."""

    def __call__(self, part: Part):
        rows = part.start + np.arange(part.x.shape[0])
        x = part.x.toarray() if sparse.issparse(part.x) else np.array(part.x, float)
        w = np.ones(len(rows)) if part.weights is None else part.weights
        out = (len(rows), (rows * w) @ x, x.T @ (w[:, None] * x))
        if part.y is not None:
            y = part.y.toarray() if sparse.issparse(part.y) else part.y
            out += (x.T @ y,)
        return out


def dense(dtype=np.float64, seed=0):
    X = np.random.default_rng(seed).standard_normal((N, D)) * 10
    return X.astype(dtype)


def counts(dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return sparse.random_array((N, D), density=0.3, rng=rng, dtype=dtype).tocsr()


def entries(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def write_npy(folder, X):
    np.save(folder / "X.npy", X)
    return folder / "X.npy"


def write_fortran(folder, X):
    return write_npy(folder, np.asfortranarray(X))


def write_folder(folder, X):
    return convert(X, folder / "X.rows").path


def write_zarr(folder, X, **options):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(
        str(folder / "X.zarr"), shape=X.shape, chunks=(64, 4), dtype=X.dtype, **options
    )
    array[:] = X
    return folder / "X.zarr"


def write_zarr_2(folder, X):
    return write_zarr(folder, X, zarr_format=2)


def table(X):
    pa = pytest.importorskip("pyarrow")
    return pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])})


def write_parquet(folder, X):
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(table(X), folder / "X.parquet", row_group_size=150)
    return folder / "X.parquet"


def write_parquet_parts(folder, X):
    pq = pytest.importorskip("pyarrow.parquet")
    (folder / "parts").mkdir()
    for i, start in enumerate(range(0, N, 250)):
        pq.write_table(table(X[start : start + 250]), folder / "parts" / f"{i}.parquet")
    return folder / "parts"


def write_arrow(folder, X, **options):
    pa = pytest.importorskip("pyarrow")
    whole = table(X)
    with pa.ipc.new_file(folder / "X.arrow", whole.schema, **options) as sink:
        sink.write_table(whole, max_chunksize=130)
    return folder / "X.arrow"


def write_feather(folder, X):
    feather = pytest.importorskip("pyarrow.feather")
    feather.write_feather(table(X), folder / "X.feather", compression="zstd")
    return folder / "X.feather"


def write_h5ad(folder, X, **options):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "X.h5ad", "w") as file:
        if sparse.issparse(X):
            group = file.create_group("X")
            group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", X.shape
            for name in ("data", "indices", "indptr"):
                group.create_dataset(name, data=getattr(X, name), maxshape=(None,), chunks=(50,))
        else:
            file.create_dataset("X", data=X, **options)
        var = file.create_group("var")
        var.attrs["_index"] = "gene"
        var["gene"] = [f"c{j}" for j in range(D)]
    return folder / "X.h5ad"


def write_h5ad_packed(folder, X):
    return write_h5ad(folder, X, chunks=(70, 5), compression="gzip")


def write_npz(folder, X):
    sparse.save_npz(folder / "X.npz", X)
    return folder / "X.npz"


DENSE = [
    write_npy,
    write_fortran,
    write_folder,
    write_zarr,
    write_zarr_2,
    write_parquet,
    write_parquet_parts,
    write_arrow,
    write_feather,
    write_h5ad,
    write_h5ad_packed,
]
SPARSE = [write_folder, write_npz, write_h5ad]
CASES = [
    *((write, dense(dtype)) for write in DENSE for dtype in (np.float32, np.float64)),
    *((write, counts(dtype)) for write in SPARSE for dtype in (np.float32, np.float64)),
    *((write, dense(np.int16)) for write in DENSE),
    (write_npy, dense(np.uint8)),
    (write_npy, dense(">f4")),
    (write_npy, dense(np.float16)),
    (write_npy, dense() > 0),
]


@pytest.mark.parametrize(("write", "X"), CASES)
def test_every_format_gives_the_same_rows(tmp_path, write, X):
    rows = open_rows(write(tmp_path, X), max_memory=SMALL)
    assert rows.shape == X.shape
    assert rows.dtype == (np.float32 if X.dtype.newbyteorder("=") == np.float32 else np.float64)
    assert rows.is_sparse == sparse.issparse(X)
    assert rows.stored == (X.nnz if rows.is_sparse else X.size)
    expected = entries(X).astype(rows.dtype)
    loaded = rows.load()
    np.testing.assert_array_equal(entries(loaded), expected)
    assert loaded.dtype == rows.dtype
    source = rows.row_source()
    w = np.linspace(0, 1, N)
    got = source.summed(Moments(), weights=w)
    wanted = Moments()(Part(0, expected, None, w))
    assert got[0] == N
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    chosen = np.array([0, 1, 5, 129, 130, 131, 400, N - 1])
    np.testing.assert_array_equal(entries(source.taken(chosen)), expected[chosen])
    np.testing.assert_array_equal(entries(rows.take(chosen[::-1])), expected[chosen[::-1]])
    assert source.taken(chosen[:0]).shape == (0, D)
    rows.verify()
    np.testing.assert_array_equal(entries(pickle.loads(pickle.dumps(rows)).load()), expected)


@pytest.mark.parametrize("write", [write_parquet, write_arrow, write_h5ad, write_h5ad_packed])
def test_names_come_along(tmp_path, write):
    rows = open_rows(write(tmp_path, dense()))
    assert rows.column_names.tolist() == [f"c{j}" for j in range(D)]
    again = convert(rows, tmp_path / "copy")
    assert again.column_names.tolist() == rows.column_names.tolist()


@pytest.mark.parametrize("write", [write_parquet, write_parquet_parts, write_arrow])
def test_columns_of_tables_can_be_chosen(tmp_path, write):
    X = dense()
    path = write(tmp_path, X)
    rows = open_rows(path, columns=["c4", "c1"], max_memory=SMALL)
    np.testing.assert_array_equal(rows.load(), X[:, [4, 1]])
    assert rows.column_names.tolist() == ["c4", "c1"]
    with pytest.raises(DataError, match="has no column 'z'"):
        open_rows(path, columns=["z"])
    with pytest.raises(ValueError, match="for Parquet and Arrow"):
        open_rows(write_npy(tmp_path, X), columns=["c1"])


@pytest.mark.parametrize("x", [dense(np.float32), counts()])
@pytest.mark.parametrize("y", [dense(seed=1), counts(np.float32, seed=1)])
def test_two_views_are_read_side_by_side(tmp_path, x, y):
    (tmp_path / "x").mkdir()
    (tmp_path / "y").mkdir()
    X = open_rows(write_folder(tmp_path / "x", x), max_memory=SMALL).row_source()
    Y = open_rows(write_folder(tmp_path / "y", y), max_memory=SMALL).row_source()
    cross = entries(x).astype(float).T @ entries(y)
    for other in (Y, X.beside(y)):
        np.testing.assert_allclose(X.summed(Moments(), other)[3], cross, rtol=1e-5)
    np.testing.assert_allclose(X.beside(y).summed(Moments(), X)[3], cross.T, rtol=1e-5)
    with pytest.raises(ValueError, match="700 rows, the matrix beside it 699"):
        X.beside(entries(y)[1:])


def test_views_that_do_not_go_together_are_refused(tmp_path):
    X = open_rows(write_npy(tmp_path, dense()), max_memory=SMALL).row_source()
    np.save(tmp_path / "Y.npy", dense()[1:])
    Y = open_rows(tmp_path / "Y.npy", max_memory=SMALL).row_source()
    with pytest.raises(DataError, match=r"X\.npy has 700 rows and .*Y\.npy has 699"):
        X.summed(Moments(), Y)
    elsewhere = SimpleNamespace(name="cluster", shape=X.shape)
    with pytest.raises(TypeError, match="is on disk and cluster is not"):
        X.summed(Moments(), elsewhere)


@given(
    n=st.integers(1, 400),
    d=st.integers(1, 40),
    columns=st.integers(0, 50),
    memory=st.integers(1, 10**6),
    density=st.floats(0, 1),
)
def test_blocks_cover_all_rows_and_keep_to_the_budget(n, d, columns, memory, density):
    rng = np.random.default_rng(n)
    X = MemoryReader("x", sparse.random_array((n, d), density=density, rng=rng).tocsr())
    Y = MemoryReader("y", np.ones((n, 3), np.float32))
    limits = block_limits([X, Y], columns, memory)
    assert limits[0][0] == 0
    assert limits[-1][1] == n
    assert all(a[1] == b[0] for a, b in pairwise(limits))
    for start, stop in limits:
        assert start < stop
        ends = np.array([start, stop])
        used = 3 * np.diff(X.bytes_before(ends)) + 4 * np.diff(Y.bytes_before(ends))
        assert stop - start == 1 or used[0] + 24 * columns * (stop - start) <= memory


def test_the_next_block_is_read_while_one_is_worked_on():
    read = [threading.Event() for _ in range(200)]
    X = np.arange(100.0)[:, None]

    class Waiting(Task):
        def __call__(self, part):
            following = part.start + part.x.shape[0]
            assert following == 100 or read[following].wait(60), "nothing is read ahead"
            return (1,)

    class Noting(MemoryReader):
        in_memory = False

        def blocks(self, limits):
            for (start, _), block in zip(limits, super().blocks(limits), strict=True):
                read[start].set()
                yield block

    (parts,) = BlockSource(Noting("X", X), 24 * 4).summed(Waiting(), columns=0)
    assert parts == 25


def test_rows_that_fit_are_read_once(tmp_path):
    path = write_npy(tmp_path, dense())
    source = open_rows(path).row_source()
    path.unlink()
    assert source.summed(Moments())[0] == N
    path = write_npy(tmp_path, dense())
    source = open_rows(path, max_memory=3 * N * D * 8).row_source()
    path.unlink()
    with pytest.raises(DataError, match=r"X\.npy is gone"):
        source.summed(Moments())


def test_an_error_in_a_task_ends_the_pass(tmp_path):
    class Wrong(Task):
        def __call__(self, part):
            raise ZeroDivisionError(part.start)

    source = open_rows(write_npy(tmp_path, dense()), max_memory=SMALL).row_source()
    with pytest.raises(ZeroDivisionError):
        source.summed(Wrong())
    assert source.summed(Moments())[0] == N


def test_budgets_are_numbers_of_bytes(tmp_path):
    path = write_npy(tmp_path, dense())
    for wrong in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="positive number of bytes"):
            open_rows(path, max_memory=wrong)
    with pytest.raises(TypeError, match="number of bytes"):
        open_rows(path, max_memory="1 GB")


def test_a_pass_takes_no_more_memory_than_allowed(tmp_path):
    with open(tmp_path / "X.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": (300_000, 100)}
        )
        for _ in range(3):
            file.write(np.ones((100_000, 100), np.float32).data)
    program = """
import resource, sys, numpy as np
from genelin.io import open_rows
from genelin.operators import Task
class Sum(Task):
    def __call__(self, part):
        return (part.x.sum(dtype=float),)
def anonymous():
    text = open("/proc/self/status").read()
    return 1024 * int(text.split("RssAnon:")[1].split()[0])
class Watched(Sum):
    peak = 0
    def __call__(self, part):
        Watched.peak = max(Watched.peak, anonymous())
        return super().__call__(part)
rows = open_rows(sys.argv[1], max_memory=40e6)
before = anonymous()
total, = rows.row_source().summed(Watched())
print(total, Watched.peak - before)
"""
    if not Path("/proc/self/status").exists():
        pytest.skip("there is no /proc/self/status here")
    total, grown = run(program, tmp_path / "X.npy").split()
    assert float(total) == 3e7
    assert float(grown) < 40e6


def run(program, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        **options,
    ).stdout


# --- the same answer as in memory ----------------------------------------------------------------


def on_disk(folder, views, memory):
    return [
        convert(view, folder / name, max_memory=memory)
        for name, view in zip("xy", views, strict=True)
    ]


def same_correlations(folder, views, memory, **settings):
    expected = top_k_cca(*views, **settings)
    X, Y = on_disk(folder, views, memory)
    assert isinstance(as_rows(X), ChunkedRows)
    got = top_k_cca(X, Y, **settings)
    np.testing.assert_allclose(got.correlations, expected.correlations, atol=1e-8)
    assert got.converged
    return X, Y, got


@pytest.mark.parametrize("form", [None, False])
def test_mnist_from_disk(tmp_path, mnist_halves, form):
    views = [half[::20] for half in mnist_halves]
    settings = {"k": 5, "reg": 1e-3, "form": form, "tol": 1e-8}
    same_correlations(tmp_path, views, 2e6, **settings)


def test_ptb_from_disk(tmp_path, ptb_bigrams):
    views = [view[:60_000] for view in ptb_bigrams]
    same_correlations(tmp_path, views, 1e6, k=5, reg=1e-4, center=False, tol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("center", [False, True])
def test_sparse_topics_from_disk(tmp_path, dtype, center):
    views = [view.astype(dtype) for view in tuple(datasets.sparse_topics(3000, 150))]
    settings = {"k": 3, "reg": 1e-2, "center": center, "form": False, "tol": 1e-8}
    same_correlations(tmp_path, views, 1e5, **settings)


def test_one_view_on_disk_and_one_in_memory(tmp_path):
    X, Y = (view.astype(kind) for view, kind in zip(gaussian(), ("f4", "f8"), strict=True))
    expected = top_k_cca(X, Y, k=3).correlations
    stored = convert(X, tmp_path / "x", max_memory=SMALL)
    for views in ((stored, Y), (stored, sparse.csr_array(Y))):
        np.testing.assert_allclose(top_k_cca(*views, k=3).correlations, expected, atol=1e-8)
    np.testing.assert_allclose(top_k_cca(Y, stored, k=3).correlations, expected, atol=1e-8)


def gaussian(n=2000):
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((n, 3))
    return [shared @ rng.standard_normal((3, d)) + rng.standard_normal((n, d)) + 5 for d in (12, 8)]


def test_the_estimator_takes_rows_on_disk(tmp_path):
    pytest.importorskip("pyarrow")
    import pandas as pd

    X, Y = gaussian()
    pd.DataFrame(X, columns=[f"x{j}" for j in range(12)]).to_parquet(tmp_path / "X.parquet")
    np.save(tmp_path / "Y.npy", Y)
    expected = CCA(3).fit(X, Y)
    rows = [open_rows(tmp_path / name, max_memory=SMALL) for name in ("X.parquet", "Y.npy")]
    got = CCA(3).fit(*rows)
    np.testing.assert_allclose(
        got.canonical_correlations_, expected.canonical_correlations_, atol=1e-8
    )
    assert got.feature_names_in_.tolist() == [f"x{j}" for j in range(12)]
    for one, other in zip(got.transform(*rows), expected.transform(X, Y), strict=True):
        np.testing.assert_allclose(np.abs(one), np.abs(other), atol=1e-6)


def test_nan_in_a_far_chunk_is_reported_with_its_row(tmp_path):
    X, Y = gaussian()
    X[1871, 4] = np.nan
    paths = [write_npy(tmp_path, X), tmp_path / "Y.npy"]
    np.save(paths[1], Y)
    X, Y = (open_rows(path, max_memory=SMALL) for path in paths)
    with pytest.raises(ValueError, match=r"X\.npy has NaN at row 1871, column 4"):
        top_k_cca(X, Y, k=2)


def test_small_files_are_worked_on_in_memory(tmp_path):
    X, Y = on_disk(tmp_path, gaussian(), None)
    assert not isinstance(as_rows(X), ChunkedRows)
    method = CCALin(solver=solvers.SVRG())  # takes rows in random order
    found = top_k_cca(X, Y, k=2, method=method, tol=1e-4).correlations
    np.testing.assert_allclose(found, top_k_cca(*gaussian(), k=2).correlations, atol=1e-3)


# --- convert ------------------------------------------------------------------------------------


def blocks_of(X, sizes=(100, 0, 1, 399, 200)):
    start = 0
    for size in sizes:
        yield X[start : start + size]
        start += size


@pytest.mark.parametrize("X", [dense(np.float32), dense(), counts(np.float32), counts()])
def test_blocks_are_written_as_they_come(tmp_path, X):
    rows = convert(blocks_of(X), tmp_path / "rows", max_memory=SMALL)
    assert rows.dtype == X.dtype
    np.testing.assert_array_equal(entries(rows.load()), entries(X))
    rows.verify()
    data = np.load(tmp_path / "rows" / "data.npy")  # any NumPy reads the arrays
    np.testing.assert_array_equal(data, X.data if sparse.issparse(X) else X)


def test_dtype_can_be_chosen(tmp_path):
    X = dense()
    rows = convert(X, tmp_path / "rows", dtype=np.float32)
    np.testing.assert_array_equal(rows.load(), X.astype(np.float32))
    mixed = [X[:100].astype(np.float32), X[100:]]
    with pytest.raises(DataError, match=r"block 1 \(from row 100\) has dtype float64"):
        convert(mixed, tmp_path / "mixed")
    assert convert(mixed, tmp_path / "mixed", dtype="float64").dtype == np.float64
    with pytest.raises(ValueError, match="float32 or float64"):
        convert(X, tmp_path / "ints", dtype=int)


def test_frames_keep_their_names(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(dense()[:, :3], columns=list("abc"))
    assert convert(frame, tmp_path / "rows").column_names.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("suffix", [".svm", ".libsvm.gz"])
def test_svmlight_is_converted_as_a_stream(tmp_path, monkeypatch, base, suffix):
    from sklearn.datasets import dump_svmlight_file

    X = counts()
    text = tmp_path / f"rows{suffix}"
    with (gzip.open if suffix.endswith("gz") else open)(text, "wb") as file:
        dump_svmlight_file(X, np.ones(N), file, zero_based=not base)
    monkeypatch.setattr("genelin.io.formats.svmlight.CHUNK", 1 << 10)
    rows = convert(text, tmp_path / "rows")
    np.testing.assert_allclose(entries(rows.load()), entries(X), rtol=1e-15)
    rows.verify()
    assert convert(text, tmp_path / "wide", width=20).shape == (N, 20)
    with pytest.raises(ValueError, match="beyond the 3 columns"):
        convert(text, tmp_path / "narrow", width=3)
    with pytest.raises(DataError, match="convert it once"):
        open_rows(text)


def test_csv_is_converted_as_a_stream(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    X = dense()
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(D)])
    frame.to_csv(tmp_path / "X.csv", index=False)
    rows = convert(tmp_path / "X.csv", tmp_path / "rows")
    np.testing.assert_allclose(rows.load(), X, rtol=1e-15)
    assert rows.column_names.tolist() == list(frame.columns)
    chosen = convert(tmp_path / "X.csv", tmp_path / "some", columns=["c2"], dtype="float32")
    assert chosen.shape == (N, 1)
    frame.loc[613, "c3"] = None
    frame.to_csv(tmp_path / "X.csv", index=False)
    with pytest.raises(DataError, match=r"X\.csv: column 'c3' has no value in row 613"):
        convert(tmp_path / "X.csv", tmp_path / "more")
    (tmp_path / "X.csv").write_text("a,b\n1,2\nx,3\n")
    with pytest.raises(DataError, match=r"X\.csv cannot be read as a table.*'x'"):
        convert(tmp_path / "X.csv", tmp_path / "more")


def test_unsorted_indices_of_others_are_sorted(tmp_path):
    X = sparse.csr_array(
        (np.array([1.0, 2.0, 3.0, 4.0]), np.array([2, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 3)
    )
    path = write_npz(tmp_path, X)
    rows = open_rows(path)
    np.testing.assert_array_equal(rows.load().toarray(), [[2, 0, 1], [0, 7, 0]])
    copy = convert(path, tmp_path / "rows")
    assert copy.stored == 3
    copy.verify()


def test_existing_folders_are_not_overwritten_unasked(tmp_path):
    rows = convert(dense(), tmp_path / "rows")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        convert(dense(), tmp_path / "rows")
    convert(rows, tmp_path / "rows", overwrite=True, dtype="float32")  # onto itself
    assert open_rows(tmp_path / "rows").dtype == np.float32
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious").write_text("!")
    with pytest.raises(FileExistsError, match="not a folder of rows"):
        convert(dense(), tmp_path / "other", overwrite=True)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        convert(dense(), tmp_path / "no" / "rows")
    assert sorted(os.listdir(tmp_path)) == ["other", "rows"]


def failing(blocks):
    yield from blocks
    raise RuntimeError("the source broke off")


def test_what_breaks_off_leaves_nothing_behind(tmp_path):
    convert(dense(), tmp_path / "rows")
    with pytest.raises(RuntimeError, match="broke off"):
        convert(failing(blocks_of(dense(seed=1))), tmp_path / "rows", overwrite=True)
    with pytest.raises(RuntimeError, match="broke off"):
        convert(failing(blocks_of(counts())), tmp_path / "new")
    assert os.listdir(tmp_path) == ["rows"]
    np.testing.assert_array_equal(open_rows(tmp_path / "rows").load(), dense())


FILL = """
import resource, sys
import numpy as np
from genelin.io import convert
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    convert(sys.argv[1], sys.argv[2], overwrite=True)
except OSError as error:
    print(error.errno, error)
"""


@pytest.mark.parametrize("X", [np.ones((200, 100)), sparse.eye_array(20_000).tocsr()])
def test_a_full_disk_changes_nothing(tmp_path, X):
    pytest.importorskip("resource")
    convert(dense(), tmp_path / "rows")
    path = write_npz(tmp_path, X) if sparse.issparse(X) else write_npy(tmp_path, X)
    before = sorted(os.listdir(tmp_path))
    said = run(FILL, path, tmp_path / "rows")
    assert said.startswith(f"{errno.EFBIG} ")
    assert "no room to write" in said
    assert "nothing was changed" in said
    assert sorted(os.listdir(tmp_path)) == before
    np.testing.assert_array_equal(open_rows(tmp_path / "rows").load(), dense())


def test_what_cannot_fit_is_refused_at_once(tmp_path, monkeypatch):
    path = write_npy(tmp_path, dense())
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(OSError, match="would take at least") as caught:
        convert(path, tmp_path / "rows")
    assert caught.value.errno == errno.ENOSPC


# --- what is wrong on disk ----------------------------------------------------------------------


def edited(folder, **changes):
    header = json.loads((folder / "header.json").read_text())
    for name, value in changes.items():
        header[name] = value
    (folder / "header.json").write_text(json.dumps(header))


def set_entry(folder, name, at, value):
    values = np.lib.format.open_memmap(folder / f"{name}.npy", mode="r+")
    values[at] = value
    values.flush()


def test_a_missing_path_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.npy does not exist"):
        open_rows(tmp_path / "nothing.npy")
    with pytest.raises(DataError, match=r"nothing\.svm does not exist"):
        convert(tmp_path / "nothing.svm", tmp_path / "rows")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"without header\.json"):
        open_rows(tmp_path / "folder")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".h5ad", ".parquet", ".arrow"])
def test_wrong_magic(tmp_path, suffix):
    path = tmp_path / f"X{suffix}"
    path.write_bytes(b"label,c0\n1,2\n")
    with pytest.raises(DataError, match=r"X\.\w+ is not a .* file: it begins with b'label"):
        open_rows(path)
    path.rename(tmp_path / "X.dat")
    with pytest.raises(DataError, match="no format that is known"):
        open_rows(tmp_path / "X.dat")


@pytest.mark.parametrize(
    "write",
    [*DENSE[:3], write_parquet, write_arrow, write_h5ad, write_npz],
    ids=lambda w: w.__name__,
)
def test_truncated_files(tmp_path, write):
    path = write(tmp_path, counts() if write is write_npz else dense())
    file = path / "data.npy" if path.is_dir() else path
    os.truncate(file, file.stat().st_size - 100)
    with pytest.raises(DataError, match=file.name.replace(".", r"\.")):
        open_rows(path)


@pytest.mark.parametrize("write", [write_npy, write_fortran, write_folder])
def test_files_that_change_during_a_fit(tmp_path, write):
    path = write(tmp_path, dense())
    file = path / "data.npy" if path.is_dir() else path

    class Cutting(Moments):
        def __call__(self, part):
            if part.start:
                os.truncate(file, 1000)
            return super().__call__(part)

    class Touching(Moments):
        def __call__(self, part):
            if part.start:
                with open(file, "r+b") as opened:
                    opened.seek(-1, 2)
                    opened.write(b"!")
            return super().__call__(part)

    for task, said in ((Touching, "was altered since"), (Cutting, "ends before|was altered")):
        source = open_rows(path, max_memory=SMALL).row_source()
        with pytest.raises(DataError, match=said):
            source.summed(task())


def test_altered_bytes_are_found(tmp_path):
    for X in (dense(), counts()):
        rows = convert(X, tmp_path / "rows", overwrite=True)
        set_entry(rows.path, "data", 5 if sparse.issparse(X) else (3, 2), 9.0)
        with pytest.raises(DataError, match="altered since it was opened"):
            rows.load()
        with pytest.raises(DataError, match=r"data\.npy was altered: its SHA-256"):
            open_rows(rows.path).verify()


@pytest.mark.parametrize(
    ("name", "at", "value", "said"),
    [
        ("indices", 300, D, r"indices\.npy: entry 300 \(row \d+\) has the column index 9"),
        ("indices", 300, -1, r"indices\.npy: entry 300 \(row \d+\) has the column index -1"),
        ("indptr", 0, 1, r"indptr\.npy: pointer 0 is 1, but the first must be 0"),
        ("indptr", 350, 0, r"indptr\.npy: pointer 350 is 0, but it is below"),
        ("indptr", N, 10**9, r"indptr\.npy: pointer 700 is 1,000,000,000, but the last must"),
        ("indptr", 20, 10**9, r"indptr\.npy: pointer 21 is \d+, but it is below"),
    ],
)
def test_indices_that_cannot_be(tmp_path, name, at, value, said):
    rows = convert(counts(), tmp_path / "rows")
    set_entry(rows.path, name, at, value)
    for use in (lambda r: r.load(), lambda r: r.row_source(), lambda r: r.verify()):
        with pytest.raises(DataError, match=said):
            use(open_rows(rows.path))


def test_indices_must_ascend(tmp_path):
    X = sparse.csr_array(np.ones((4, 3)))
    for value, at in ((0, 7), (2, 7)):
        rows = convert(X, tmp_path / "rows", overwrite=True)
        set_entry(rows.path, "indices", at, value)
        with pytest.raises(DataError, match=r"\(row 2\).*must ascend within a row"):
            open_rows(rows.path).load()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": "other"}, "not the header of a folder of rows"),
        ({"version": 2}, "has version 2, this genelin reads version 1"),
        ({"kind": "coo"}, "not the header"),
        ({"shape": [N, D + 1]}, "header and arrays disagree"),
        ({"shape": [N - 1, D]}, "header and arrays disagree"),
        ({"shape": "many"}, "not the header"),
        ({"columns": ["a"]}, "it names 1 columns of 9"),
        ({"arrays": {}}, "not the header"),
    ],
)
def test_headers_that_lie(tmp_path, changes, said):
    rows = convert(dense(), tmp_path / "rows")
    edited(rows.path, **changes)
    with pytest.raises(DataError, match=said):
        open_rows(rows.path)


def test_arrays_that_disagree_with_the_header(tmp_path):
    rows = convert(counts(), tmp_path / "rows")
    data = np.load(rows.path / "data.npy")
    np.save(rows.path / "data.npy", data[1:])
    with pytest.raises(DataError, match=r"data\.npy has .*header and arrays disagree"):
        open_rows(rows.path)
    np.save(rows.path / "data.npy", data.astype(np.float32))
    with pytest.raises(DataError, match=r"data\.npy has dtype <f4"):
        open_rows(rows.path)
    (rows.path / "data.npy").unlink()
    with pytest.raises(DataError, match=r"data\.npy is missing"):
        open_rows(rows.path)
    (rows.path / "header.json").write_text("{")
    with pytest.raises(DataError, match=r"header\.json is not the header"):
        open_rows(rows.path)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.ones((2, 2), complex), "complex"),
        (np.array([["a", "b"]]), "not numbers"),
        (np.ones(3), "two dimensions"),
        (np.ones((2, 2, 2)), "two dimensions"),
        (np.ones((0, 3)), "is empty"),
        (np.ones((3, 0)), "is empty"),
        (np.array([[None, 1]]), "Python objects"),
        (np.ones((2, 2), "datetime64[s]"), "not numbers"),
    ],
)
def test_arrays_that_are_not_rows_of_numbers(tmp_path, array, said):
    np.save(tmp_path / "X.npy", array, allow_pickle=True)
    with pytest.raises(DataError, match=rf"X\.npy.*{said}"):
        open_rows(tmp_path / "X.npy")


def test_blocks_of_unequal_width(tmp_path):
    X = dense()
    with pytest.raises(DataError, match=r"block 2 \(from row 400\) has 8 columns.*have 9"):
        convert([X[:100], X[100:400], X[400:, 1:]], tmp_path / "rows")
    with pytest.raises(DataError, match=r"block 1 .*dense and sparse"):
        convert([X[:100], counts()], tmp_path / "rows")
    with pytest.raises(DataError, match=r"block 1 .*shape \(9,\)"):
        convert([X[:100], X[0]], tmp_path / "rows")
    with pytest.raises(DataError, match="not a block"):
        convert(iter([]), tmp_path / "rows")
    with pytest.raises(DataError, match="not a row"):
        convert([X[:0]], tmp_path / "rows")
    with pytest.raises(TypeError, match="source is a int"):
        convert(3, tmp_path / "rows")
    (tmp_path / "empty.svm").write_text("")
    with pytest.raises(DataError, match="not a row in"):
        convert(tmp_path / "empty.svm", tmp_path / "rows")
    assert os.listdir(tmp_path) == ["empty.svm"]


def test_parts_of_unequal_width(tmp_path):
    path = write_parquet_parts(tmp_path, dense())
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(table(dense()[:, 1:]), path / "1.parquet")
    with pytest.raises(DataError, match=r"1\.parquet has 8 columns .*0\.parquet has 9"):
        open_rows(path)


def test_tables_with_more_than_numbers(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"id": ["a", "b"], "v": [1.0, None]}), tmp_path / "X.parquet")
    with pytest.raises(DataError, match=r"X\.parquet: column 'id' holds string"):
        open_rows(tmp_path / "X.parquet")
    rows = open_rows(tmp_path / "X.parquet", columns=["v"])
    with pytest.raises(DataError, match=r"column 'v' has no value in row 1"):
        rows.load()


def test_sparse_matrices_by_columns(tmp_path):
    sparse.save_npz(tmp_path / "X.npz", counts().tocsc())
    with pytest.raises(DataError, match=r"X\.npz .*'csc'.*tocsr"):
        open_rows(tmp_path / "X.npz")
    np.savez(tmp_path / "Y.npz", a=np.ones(3))
    with pytest.raises(DataError, match=r"Y\.npz lacks data"):
        open_rows(tmp_path / "Y.npz")


def test_hdf5_without_rows(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file["obs"] = 1
    with pytest.raises(DataError, match=r"a\.h5ad has no X, only obs"):
        open_rows(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "b.h5ad", "w") as file:
        file.create_group("X").attrs["encoding-type"] = "csc_matrix"
    with pytest.raises(DataError, match="'csc'"):
        open_rows(tmp_path / "b.h5ad")


def test_chunks_must_fit(tmp_path):
    pytest.importorskip("zarr")
    path = write_zarr(tmp_path, dense())
    with pytest.raises(DataError, match="unpacked 4,608 bytes of rows at a time"):
        open_rows(path, max_memory=4000)
    path = write_h5ad_packed(tmp_path, dense())
    with pytest.raises(DataError, match="unpacked 5,040 bytes of rows at a time"):
        open_rows(path, max_memory=4000)


class Trap:
    """Unpickled, it leaves a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


def test_zarr_chunks_that_are_pickles_are_refused(tmp_path, monkeypatch):
    pytest.importorskip("zarr")
    pickles = pytest.importorskip("numcodecs.pickles")
    monkeypatch.setattr(pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    path = tmp_path / "X.zarr"
    path.mkdir()
    about = {"zarr_format": 2, "shape": [4, 2], "chunks": [4, 2], "dtype": "<f8", "order": "C"}
    codecs = {"compressor": None, "filters": [{"id": "pickle", "protocol": 5}]}
    (path / ".zarray").write_text(json.dumps(about | codecs | {"fill_value": 0.0}))
    (path / "0.0").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    with pytest.raises(DataError, match="pickle"):
        open_rows(path).load()
    assert not (tmp_path / "sprung").exists()


def test_zarr_groups_name_their_arrays(tmp_path):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
    group.create_array("X", shape=(4, 2), dtype="f4")[:] = 1
    with pytest.raises(DataError, match="is a group with X"):
        open_rows(tmp_path / "g.zarr")
    assert open_rows(tmp_path / "g.zarr" / "X").shape == (4, 2)
    group.create_array("v", shape=(4,), dtype="f4")
    with pytest.raises(DataError, match="two dimensions"):
        open_rows(tmp_path / "g.zarr" / "v")


@pytest.mark.parametrize(
    ("name", "library"), [("X.parquet", "pyarrow"), ("X.h5ad", "h5py"), ("X.zarr", "zarr")]
)
def test_missing_libraries_are_named(tmp_path, monkeypatch, name, library):
    writers = {"X.parquet": write_parquet, "X.h5ad": write_h5ad, "X.zarr": write_zarr}
    path = writers[name](tmp_path, dense())
    for module in [m for m in sys.modules if m.split(".")[0] == library]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf'needs {library}: pip install "genelin\[storage\]"'):
        open_rows(path)


def test_sparse_blocks_are_not_copied(tmp_path):
    """They lie in the buffers that they were read into."""
    X = sparse.random_array((3000, 40), density=0.2, rng=np.random.default_rng(0), format="csr")
    sparse.save_npz(tmp_path / "X.npz", X)
    reader = open_npz(tmp_path / "X.npz")
    for block in reader.blocks([(0, 1500), (1500, 3000)]):
        assert block.data.base is not None
        assert block.indices.base is not None
