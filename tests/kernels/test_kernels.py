"""Compiled products and sweeps against NumPy and SciPy, on shapes that are easy to get wrong."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from threadpoolctl import ThreadpoolController

from genelin import kernels
from genelin.data.reductions import SparseMoment
from genelin.data.row_blocks import Part
from genelin.data.rows import Rows
from genelin.kernels import cache_model, compiled, csc_products, csr_products
from genelin.kernels.codegen import column_layout
from genelin.linalg.column_products import LARGE, column_dots
from genelin.linalg.tall_skinny import tall_dot, tall_times
from genelin.operators import (
    BlockDiagonal,
    Counter,
    Counting,
    Cross,
    Gram,
    Identity,
    OffDiagonal,
    as_operator,
)
from genelin.problems import estimated_entries
from genelin.system.buffer_pool import LINE
from genelin.system.threads import _Pool, at_most, equal, one_blas_thread


def rows_of(
    n: int, d: int, density: float, seed: int, dtype: type = np.float64
) -> sparse.csr_array:
    """Random CSR rows, some of them empty."""
    X = sparse.random_array((n, d), density=density, rng=np.random.default_rng(seed), format="csr")
    return sparse.csr_array(X.astype(dtype))


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 300),
    d=st.integers(1, 50),
    k=st.integers(1, 35),
    density=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    seed=st.integers(0, 1000),
)
def test_products_are_those_of_scipy(n: int, d: int, k: int, density: float, seed: int) -> None:
    X, Y = rows_of(n, d, density, seed), rows_of(n, d + 1, density, seed + 1)
    V, W = (np.random.default_rng(seed).standard_normal((m, k)) for m in (d, d + 1))
    np.testing.assert_allclose(kernels.times(X, V), X @ V, atol=1e-12)
    np.testing.assert_allclose(kernels.cross_times(X, Y, W)[0], X.T @ (Y @ W), atol=1e-11)
    np.testing.assert_allclose(kernels.cross_times(X, X, V)[0], X.T @ (X @ V), atol=1e-11)
    shift = np.random.default_rng(seed).standard_normal(k)
    product, total = kernels.cross_times(X, Y, W, shift)
    bracket = Y @ W - shift
    np.testing.assert_allclose(product, X.T @ bracket, atol=1e-11)
    np.testing.assert_allclose(total, bracket.sum(axis=0), atol=1e-11)
    weights = np.random.default_rng(seed).random(n)
    exact = (X.T @ (Y * weights[:, None])).toarray()
    np.testing.assert_allclose(kernels.dense_moment(X, Y), (X.T @ Y).toarray(), atol=1e-11)
    np.testing.assert_allclose(kernels.dense_moment(X, Y, weights), exact, atol=1e-11)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("weighted", [False, True])
def test_small_moments_of_many_sparse_rows(kind: type, weighted: bool) -> None:
    """Small enough to be added up as dense ones, by all threads; and the same with more columns."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array((10 * rows_of(40_000, 60, 0.1, 0)).astype(kind))
    Y = sparse.csr_array((10 * rows_of(40_000, 30, 0.1, 1)).astype(kind))
    weights = rng.random(40_000) if weighted else None
    wide = sparse.csr_array((X.data, X.indices, X.indptr), shape=(40_000, 100_000))
    (small,), (large,) = (SparseMoment()(Part(0, M, Y, weights)) for M in (X, wide))
    assert small.shape == (60, 30)
    assert small.dtype == large.dtype == np.float64
    np.testing.assert_allclose(small.toarray(), large[:60].toarray(), rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("groups", [1, 10])
def test_moments_of_long_rows_keep_zeros_only_where_they_are_few(groups: int) -> None:
    """Rows have features of one group each, so that others never meet."""
    n, d, m = 20_000, 200, 20
    rng = np.random.default_rng(0)
    inside = rng.integers(0, d // groups, (n, m))
    columns = inside + (d // groups) * rng.integers(0, groups, (n, 1))
    X = sparse.csr_array((rng.random(n * m), columns.ravel(), np.arange(0, n * m + 1, m)), (n, d))
    X.sum_duplicates()
    (moment,) = SparseMoment()(Part(0, X))
    expected = (X.T @ X).tocsr()
    np.testing.assert_allclose(moment.toarray(), expected.toarray(), rtol=1e-11, atol=1e-9)
    assert moment.nnz == expected.nnz == d * d // groups
    assert 0.8 <= estimated_entries(Rows(X), Rows(X)) / expected.nnz <= 1.5


def test_rows_whose_arrays_are_not_contiguous() -> None:
    X = rows_of(200, 30, 0.2, 0)
    V = np.random.default_rng(0).standard_normal((30, 5))
    twin = X.copy()
    for name in ("data", "indices", "indptr"):
        setattr(twin, name, np.repeat(getattr(X, name), 2)[::2])
    np.testing.assert_allclose(kernels.times(twin, V), X @ V, atol=1e-12)
    np.testing.assert_allclose(kernels.cross_times(twin, twin, V)[0], X.T @ (X @ V), atol=1e-12)


@pytest.mark.parametrize("k", [3, 12, 16, 20, 24, 29, 44])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_threads_and_kinds_of_numbers(k: int, index: type, dtype: type) -> None:
    X = rows_of(30_000, 400, 0.02, 0, dtype)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    V = np.random.default_rng(1).standard_normal((400, k)).astype(dtype)
    exact = X.astype(np.float64) @ V.astype(np.float64)
    bound = 1e-4 if dtype is np.float32 else 1e-11
    product = kernels.times(X, V)
    assert product.dtype == dtype
    np.testing.assert_allclose(product, exact, atol=bound * np.abs(exact).max())
    twice = X.astype(np.float64).T @ exact
    fused = kernels.cross_times(X, X, V)[0]
    np.testing.assert_allclose(fused, twice, atol=bound * np.abs(twice).max())


@pytest.mark.parametrize("k", [7, 20, 48])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_entries_anywhere_in_many_columns(
    k: int, dtype: type, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of blocks are asked for ahead, and the columns of wide blocks come by lines."""
    monkeypatch.setattr(csr_products, "threads", lambda: 2)
    monkeypatch.setattr(cache_model, "MANY", 30_000)
    X, Y = (rows_of(30_000, d, 2 / d, d, dtype) for d in (90_000, 80_000))
    rng = np.random.default_rng(0)
    V, shift = rng.standard_normal((80_000, k)).astype(dtype), rng.standard_normal(k)
    shares = cache_model.cache_misses(X, Y)
    assert cache_model.anywhere(shares)
    assert csr_products._at_once(X, Y, V, shares) == min(k, LINE // V.itemsize)
    weights = rng.random(30_000) if weighted else None
    bracket = (Y.astype(np.float64) @ V - shift) * (weights[:, None] if weighted else 1.0)
    product, total = kernels.cross_times(X, Y, V, shift, weights)
    assert product.dtype == total.dtype == dtype
    bound = 1e-4 if dtype is np.float32 else 1e-11
    np.testing.assert_allclose(product, X.T @ bracket, atol=bound)
    np.testing.assert_allclose(total, bracket.sum(axis=0), rtol=bound, atol=bound)
    np.testing.assert_allclose(kernels.times(Y, V), Y @ V, atol=bound)


def test_rows_in_a_file_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast it may be to go through rows in memory for every line of columns."""
    monkeypatch.setattr(csr_products, "threads", lambda: 2)
    monkeypatch.setattr(cache_model, "MANY", 30_000)
    X = rows_of(30_000, 90_000, 2 / 90_000, 0)
    np.save(tmp_path / "data.npy", X.data)
    mapped = sparse.csr_array(X, copy=True)
    mapped.data = np.load(tmp_path / "data.npy", mmap_mode="r")
    assert not cache_model.from_disk(X)
    assert cache_model.from_disk(X, mapped)
    sweeps, room_for = [], csr_products.room_for
    monkeypatch.setattr(
        csr_products, "room_for", lambda *given: sweeps.append(1) or room_for(*given)
    )
    V = np.random.default_rng(0).standard_normal((90_000, 20))
    for M, times in ((X, 3), (mapped, 1)):
        sweeps.clear()
        np.testing.assert_allclose(kernels.cross_times(M, M, V)[0], X.T @ (X @ V), atol=1e-11)
        assert len(sweeps) == times


@pytest.mark.parametrize("k", [5, 20, 28])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_columns_shared_out_among_threads(
    k: int, index: type, dtype: type, weighted: bool, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows come in chunks that do not divide their number; some are empty, and so are columns."""
    monkeypatch.setattr(csc_products, "CHUNK", 128)
    X, Y = rows_of(1000, 700, 0.02, 0, dtype), rows_of(1000, 90, 0.02, 1, dtype)
    for M in (X, Y):
        M.indices, M.indptr = M.indices.astype(index), M.indptr.astype(index)
    rng = np.random.default_rng(0)
    V, start = rng.standard_normal((90, k)).astype(dtype), rng.standard_normal((1, k))
    V, start = (column_layout.filled_up(M.astype(dtype)) for M in (V, start))
    weights = rng.random(1000).astype(dtype) if weighted else None
    product = np.full((700, V.shape[1]), np.nan, dtype)
    total = csc_products.cross_by_columns(X, Y, V, [0.0], start, weights, product, count)
    bracket = (Y.astype(np.float64) @ V + start) * (weights[:, None] if weighted else 1.0)
    bound = 1e-4 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(product, X.T.astype(np.float64) @ bracket, atol=bound)
    np.testing.assert_allclose(total[0], bracket.sum(axis=0), atol=bound)


def test_which_products_are_shared_out_by_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of short columns and long rows that are sorted; and they are what they should be."""
    monkeypatch.setattr(csr_products, "threads", lambda: 2)
    monkeypatch.setattr(column_layout, "threads", lambda: 2)
    monkeypatch.setattr(csc_products, "AT_HAND", 2**10)
    shared, cross = [], csc_products.cross_by_columns
    monkeypatch.setattr(
        csr_products, "cross_by_columns", lambda *given: shared.append(1) or cross(*given)
    )
    X = rows_of(500, 5000, 0.01, 0)
    tall, turned, mapped = rows_of(5000, 500, 0.01, 0), X.copy(), X.copy()
    for i in range(500):
        row = slice(X.indptr[i], X.indptr[i + 1])
        turned.indices[row], turned.data[row] = X.indices[row][::-1], X.data[row][::-1]
    turned.has_sorted_indices = False
    np.save(tmp_path / "data.npy", X.data)
    mapped.data = np.load(tmp_path / "data.npy", mmap_mode="r")
    for M, by in ((X, True), (tall, False), (turned, False), (mapped, False)):
        shared.clear()
        V = np.random.default_rng(0).standard_normal((M.shape[1], 20))
        np.testing.assert_allclose(kernels.cross_times(M, M, V)[0], M.T @ (M @ V), atol=1e-11)
        assert bool(shared) is by


@pytest.mark.parametrize("k", [4, 8, 12, 20, 24, 28, 44])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("wider", [0, 8])
def test_rooms_of_threads(
    k: int, dtype: type, moved: bool, same: bool, count: int, wider: int
) -> None:
    """Every thread finds V and zeros; sums are those of all threads, also for some columns only.

    Numbers are whole: sums are exact in any order.
    """
    rng = np.random.default_rng(0)
    d, rows = 150, 150 if same else 130
    V = rng.integers(-9, 9, (rows, k + wider)).astype(dtype)[:, :k]
    whole_product = np.full((d, k + wider), np.nan, dtype)
    product = whole_product[:, :k]
    room = column_layout.room_for(V, product, count, moved, same)
    found = [room.of(t) for t in range(count)]
    kept = rng.integers(-9, 9, (count, d, k))
    for (_, outs), numbers in zip(found, kept, strict=True):
        assert all(np.all(part == 0) for part in outs)
        whole, half = outs
        whole += numbers[:, : whole.shape[1]].astype(dtype)
        half += numbers[:, whole.shape[1] :].astype(dtype)
    for block, _ in found:
        np.testing.assert_array_equal(np.hstack(block), V)
    room.sum()
    np.testing.assert_array_equal(product, kept.sum(axis=0))
    assert np.isnan(whole_product[:, k:]).all()


@pytest.mark.parametrize("k", [4, 12, 20, 28])
def test_rows_that_are_moved_fill_lines(k: int) -> None:
    V = np.ones((150, k))
    given, outs = column_layout.room_for(V, np.empty((150, k)), 2, True, True).of(1)
    for whole, half in (given, outs):
        assert half.ctypes.data % (LINE // 2) == half.strides[0] % (LINE // 2) == 0
        if whole.size:
            assert whole.ctypes.data % LINE == whole.strides[0] % LINE == 0
    assert given[1].strides[0] == 2 * k * V.itemsize  # one row of both, without a gap


def test_blocks_too_large_to_be_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    X, V = rows_of(300, 40, 0.5, 0), np.ones((40, 20))
    assert csr_products._worth_moving(X, V, 2)
    monkeypatch.setattr(csr_products, "MOST_MOVED", 2 * 2 * V.nbytes - 1)
    assert not csr_products._worth_moving(X, V, 2)
    np.testing.assert_allclose(kernels.cross_times(X, X, V)[0], X.T @ (X @ V), atol=1e-12)


def test_blocks_without_columns() -> None:
    X, V = rows_of(30, 20, 0.2, 0), np.empty((20, 0))
    assert kernels.times(X, V).shape == (30, 0)
    product, total = kernels.cross_times(X, X, V)
    assert product.shape == (20, 0)
    assert total.shape == (0,)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads have no cores here")
def test_threads_keep_off_the_core_of_their_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("one core only")
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # one thread, which takes all tasks
    pool = _Pool()
    for core in (min(allowed), max(allowed)):
        pool._core = lambda core=core: core
        for _ in range(2):  # the thread has to arrive
            (cores,) = (task.result() for task in pool.start(os.sched_getaffinity, [(0,)]))
        assert cores == allowed - {core}
    assert os.sched_getaffinity(0) == allowed


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads have no cores here")
def test_threads_where_cores_cannot_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: int, cores: set[int]) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    pool = _Pool()
    pool._core = lambda: 0
    for _ in range(3):
        assert [task.result() for task in pool.start(abs, [(-1,), (2,)])] == [1, 2]


def test_threads_on_systems_without_cores_to_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sched_setaffinity", "sched_getaffinity"):  # macOS and Windows have neither
        monkeypatch.delattr(os, name, raising=False)
    pool = _Pool()
    assert [task.result() for task in pool.start(abs, [(-1,), (2,)])] == [1, 2]


def test_arrays_longer_than_their_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """SciPy allows room behind the last entry; what is there is not read."""
    monkeypatch.setattr(cache_model, "MANY", 30_000)
    X = rows_of(30_000, 90_000, 2 / 90_000, 0)
    V = np.random.default_rng(0).standard_normal((90_000, 4))
    exact = X.T @ (X @ V)
    X.data, X.indices = (np.append(part, [10**9] * 50_000) for part in (X.data, X.indices))
    np.testing.assert_allclose(kernels.cross_times(X, X, V)[0], exact, atol=1e-12)


def _product_sum(X: Any, V: Any) -> float:
    return float(kernels.times(X, V).sum())


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside threads
def test_threads_after_a_fork() -> None:
    X, V = rows_of(30_000, 400, 0.02, 0), np.ones((400, 20))
    here = _product_sum(X, V)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        there = pool.apply_async(_product_sum, (X, V)).get(timeout=60)
    assert here == there


def test_a_block_that_is_not_contiguous() -> None:
    X = rows_of(50, 40, 0.2, 0)
    V = np.random.default_rng(0).standard_normal((12, 40)).T
    np.testing.assert_allclose(kernels.times(X, V), X @ V, atol=1e-12)
    np.testing.assert_allclose(kernels.times(X, V[:, ::-1]), X @ V[:, ::-1], atol=1e-12)


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_spans_cover_all_rows_once(parts: int) -> None:
    indptr = np.cumsum([0, 5, 0, 0, 100, 1, 1, 1, 0])
    for spans in (compiled.balanced(indptr, parts), equal(8, parts)):
        covered = [i for first, last in spans for i in range(first, last)]
        assert covered == list(range(8))


def test_vector_work_of_conjugate_gradients() -> None:
    rng = np.random.default_rng(0)
    P, KP, C, R, Z = rng.standard_normal((5, LARGE // 4, 6))
    step, theta, sign = rng.standard_normal(6), rng.standard_normal(6), np.array([1.0, -1] * 3)
    expected = sign * (theta * KP - Z)
    turned = KP.copy()
    curvature = kernels.shifted_dots(P, Z, turned, theta, sign)
    np.testing.assert_allclose(turned, expected, atol=1e-12)
    np.testing.assert_allclose(curvature, (P * expected).sum(axis=0), rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(column_dots(P, Z), (P * Z).sum(axis=0), rtol=1e-9, atol=1e-7)
    new_C, new_R, new_P = C + step * P, R - step * KP, Z + step * P
    kernels.advance(C, R, P, KP, step)
    kernels.turn(P, Z, step)
    for found, wanted in ((C, new_C), (R, new_R), (P, new_P)):
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_limits_of_blas_end_with_the_last_who_asked_for_one() -> None:
    """Threads enter and leave in any order; the least limit holds meanwhile."""
    outer, inner, last = at_most(3), one_blas_thread(), at_most(2)
    with ThreadpoolController().limit(limits=4, user_api="blas"):
        if _blas_now() < 4:
            pytest.skip("this BLAS has fewer than four threads")
        outer.__enter__()
        inner.__enter__()
        assert _blas_now() == 1
        outer.__exit__(None, None, None)
        assert _blas_now() == 1
        last.__enter__()
        inner.__exit__(None, None, None)
        assert _blas_now() == 2
        last.__exit__(None, None, None)
        assert _blas_now() == 4


def _blas_now() -> int:
    pools = ThreadpoolController().select(user_api="blas").info()
    return max(int(pool["num_threads"]) for pool in pools)


def test_tall_products_in_pieces() -> None:
    rng = np.random.default_rng(0)
    U, V, C = rng.standard_normal((60_000, 9)), rng.standard_normal((60_000, 4)), np.eye(9)[:, ::-1]
    with one_blas_thread():
        np.testing.assert_allclose(tall_dot(U, V), U.T @ V, atol=1e-9)
        np.testing.assert_allclose(tall_times(U, C), U[:, ::-1])
        wanted = U[:, ::-1].copy()
        tall_times(U, C, out=U)  # in place
    np.testing.assert_array_equal(U, wanted)


def lowered_cases() -> dict[str, object]:
    X, Y = rows_of(300, 40, 0.2, 0), rows_of(300, 30, 0.2, 1)
    gram, cross = Gram(X, 0.1, center=True, scale=True), Cross(X, Y, center=True, scale=True)
    return {
        "dense": as_operator(gram @ np.eye(40)),
        "sparse": as_operator(X.T @ X),
        "identity": Identity(40),
        "gram": gram,
        "formed gram": gram.formed(),
        "blocks": BlockDiagonal((gram, Gram(Y, 0.2).formed())),
        "pair": OffDiagonal(cross),
        "formed pair": OffDiagonal(cross.formed()),
    }


@pytest.mark.parametrize("name", lowered_cases())
@pytest.mark.parametrize("k", [1, 9])
def test_lowered_operators_agree_to_single_precision(name: str, k: int) -> None:
    operator = lowered_cases()[name]
    V = np.random.default_rng(2).standard_normal((operator.shape[1], k))
    single = operator.in_float32() @ V.astype(np.float32)
    assert single.dtype == np.float32
    exact = operator @ V
    np.testing.assert_allclose(single, exact, atol=1e-5 * np.abs(exact).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 3, 4, 13, 24, 31])
@pytest.mark.parametrize(("rows", "m"), [(1, 2), (3, 0), (4, 1), (1001, 0), (1001, 7), (20_003, 5)])
def test_updates_beside_a_space(rows: int, m: int, columns: int, dtype: type) -> None:
    """What a step of conjugate gradients does, with the part of its residual along Y."""
    rng = np.random.default_rng(0)
    C, R, P, KP, Z = (rng.standard_normal((rows, columns)).astype(dtype) for _ in range(5))
    Y, weights = rng.standard_normal((rows, m)).astype(dtype), rng.random(rows).astype(dtype)
    step, conjugation = rng.standard_normal((2, columns))
    S = rng.standard_normal((m, columns))
    scale = 1e-5 if dtype is np.float32 else 1e-13
    moved, left = C + step * P, R - step * KP
    along, squares = kernels.advance(C, R, P, KP, step, Y, weights)
    np.testing.assert_allclose(C, moved, atol=10 * scale)
    np.testing.assert_allclose(R, left, atol=10 * scale)
    np.testing.assert_allclose(along, Y.T @ left, atol=scale * rows**0.5 * 30)
    np.testing.assert_allclose(squares, weights @ left**2, rtol=10 * scale)
    turned = weights[:, None] * Z + conjugation * P + Y @ S
    kernels.turn(P, Z, conjugation, weights, Y, S)
    np.testing.assert_allclose(P, turned, atol=100 * scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 4, 13])
@pytest.mark.parametrize("d", [3, 90, 30_001])
@pytest.mark.parametrize("explicit", [True, False])
def test_shifted_products_of_sparse_pencils(
    d: int, columns: int, dtype: type, explicit: bool
) -> None:
    """s(θB − A)P with B as a matrix or as any operator, on the meter of both."""
    rng = np.random.default_rng(d)
    A, B = (rows_of(d, d, min(1.0, 8 / d), seed) for seed in (1, 2))
    A, B = A + A.T, sparse.csr_array(B + B.T)
    P = rng.standard_normal((d, columns))
    theta, sign = rng.standard_normal(columns), np.where(rng.random(columns) < 0.5, -1.0, 1.0)
    counter = Counter(data_size=A.nnz + B.nnz)
    given = B if explicit else (lambda V: B @ V)
    pencil = [Counting(as_operator(M, shape=(d, d)), counter) for M in (A, given)]
    if dtype is np.float32:
        pencil = [Counting(M.in_float32() or M, counter) for M in (op._operator for op in pencil)]
    product = pencil[0].pencil_product(pencil[1])
    KP, curvature = product(P.astype(dtype), theta, sign)
    expected = sign * (theta * (B @ P) - A @ P)
    scale = (1e-5 if dtype is np.float32 else 1e-12) * max(np.abs(expected).max(), 1.0)
    np.testing.assert_allclose(KP, expected, atol=scale)
    np.testing.assert_allclose(curvature, (P * expected).sum(axis=0), atol=scale * d)
    assert KP.dtype == dtype
    assert counter.applications == 2 * columns
    if explicit:
        assert counter.passes == pytest.approx(1.0)
