"""Memory that is used again: never while an array is in it, and never beyond its run."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from genelin import Davidson, TwoView, datasets, top_k_cca
from genelin.eigen.subspace.correction_equation import CorrectionEquation
from genelin.solvers import CG
from genelin.system import buffer_pool as pool_module
from genelin.system.buffer_pool import buffer_pool, empty, in_line

LARGE = (1024, 1024)  # 8 MB


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[3:, ::2],
        lambda a: a.T,
        lambda a: a.reshape(-1),
        lambda a: a[:, :8].view(np.uint8),
        lambda a: np.lib.stride_tricks.sliding_window_view(a[0], 4),
        lambda a: np.asarray(memoryview(a)),
    ],
)
def test_memory_stays_taken_as_long_as_any_view_of_it_lives(view: Any) -> None:
    with buffer_pool():
        whole = empty(LARGE)
        place = whole.ctypes.data
        part = view(whole)
        del whole
        if part.flags.writeable:
            part[...] = 1
        others = [empty(LARGE) for _ in range(3)]
        for other in others:
            other[:] = 2.0
        assert not any(np.may_share_memory(part, other) for other in others)
        del part, other, others
        gc.collect()
        places = {array.ctypes.data for array in [empty(LARGE) for _ in range(4)]}
        assert place in places


def test_a_run_lets_go_of_its_memory_though_a_result_lives_on() -> None:
    tracemalloc.start()
    with buffer_pool():
        kept = empty(LARGE)
        kept[:] = 7.0
        others = [empty(LARGE) for _ in range(8)]
        del others
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert left < 2 * kept.nbytes
    with buffer_pool():
        for _ in range(5):
            empty(LARGE)[:] = 0.0
    assert (kept == 7.0).all()


@pytest.mark.parametrize("name", ["MOST_FREE", "SPARING"])
def test_no_more_is_kept_than_a_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, name, 20 * 2**20)
    with buffer_pool(sparing=name == "SPARING"):
        tracemalloc.start()
        arrays = [empty(LARGE) for _ in range(6)]
        del arrays
        left = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    assert left < 20 * 2**20


def test_every_thread_has_its_own_run() -> None:
    found = []

    def work() -> None:
        found.append(empty(LARGE))

    with buffer_pool():
        place = empty(LARGE).ctypes.data  # free again at once
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert found[0].ctypes.data != place
        with buffer_pool():
            assert empty(LARGE).ctypes.data != place
        assert empty(LARGE).ctypes.data == place


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (5, 7), (400_000, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_begin_at_a_line_of_memory(shape: tuple[int, int], dtype: type) -> None:
    array = empty(shape, dtype)
    assert array.shape == shape
    assert array.dtype == dtype
    assert in_line(array) or not array.size
    assert array.flags.c_contiguous
    assert array.flags.writeable


def test_a_solution_does_not_change_when_another_problem_is_solved() -> None:
    """Blocks of these problems are large enough to be used again."""
    views = [datasets.sparse_topics(40_000, 12_000, rng=seed) for seed in range(2)]
    first = top_k_cca(*views[0], 10, reg=1e-4, center=False, tol=1e-4, method=Davidson())
    before = first.x_weights.copy(), first.y_weights.copy()
    top_k_cca(*views[1], 10, reg=1e-4, center=False, tol=1e-4, method=Davidson())
    np.testing.assert_array_equal(first.x_weights, before[0])
    np.testing.assert_array_equal(first.y_weights, before[1])


@pytest.mark.parametrize("columns", [1, 7, 8, 9])
def test_columns_that_fill_up_a_block_do_not_touch_the_others(columns: int) -> None:
    """Corrections in single precision, of blocks with a multiple of eight columns."""
    X, Y = datasets.sparse_topics(60_000, 3_000, rng=0)
    pencil = TwoView(sparse.csr_array(X), sparse.csr_array(Y), 1e-3, center=False).pencil
    cg = CG()
    inverse = cg.approximate_inverse(cg.init(pencil.B))
    assert inverse is not None
    correctors = CorrectionEquation(pencil, inverse, 10**6)  # long work: in single precision
    R = pencil.A @ np.random.default_rng(0).standard_normal((pencil.d, 10))
    chosen = np.arange(columns) + 1
    together = correctors.plain(R, chosen, 1e-6, 200).directions
    exact = cg.solve(cg.init(pencil.B), R[:, chosen], np.zeros((pencil.d, columns)), 1e-20).value
    error = np.linalg.norm(together - exact, axis=0) / np.linalg.norm(exact, axis=0)
    assert together.shape == exact.shape
    assert error.max() < 1e-3
