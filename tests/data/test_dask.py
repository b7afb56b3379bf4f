import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from chunks import in_chunks, shared_factors
from genelin import CCA, CCALin, GeneralizedEigen, datasets, solvers, top_k, top_k_cca
from genelin.data import dask_rows as dask_rows_module
from genelin.data import dask_workers
from genelin.data.dask_rows import _balanced, _meeting, dask_rows
from genelin.data.row_blocks import Task
from genelin.kernels.compiled import threads
from genelin.operators import Cross, Gram, as_rows
from genelin.system.threads import at_most


@pytest.fixture(scope="module")
def views():
    """Two dense views of 900 rows that share five factors."""
    return shared_factors(900, 12, 9)


class Rows(Task):
    """Where the rows of parts begin, and how many there are."""

    def __call__(self, part):
        return ([(part.start, part.x.shape[0])],)


# --- The same answer as in memory ----------------------------------------------------------------


@pytest.mark.parametrize(
    "settings", [{}, {"center": False, "scale": True}, {"form": False}], ids=str
)
@pytest.mark.parametrize("kind", [None, sparse.csr_matrix, sparse.csr_array, sparse.coo_array])
def test_arrays_give_the_answer_of_memory(views, kind, settings):
    X, Y = (np.where(np.abs(Z) > 1.5, Z, 0.0) for Z in views)
    exact = top_k_cca(X, Y, 3, reg=0.1, **settings)
    x, y = in_chunks(X, 200, kind=kind), in_chunks(Y, 200, kind=kind)
    found = top_k_cca(x, y, 3, reg=0.1, **settings)
    np.testing.assert_allclose(found.correlations, exact.correlations, atol=1e-12)


@pytest.mark.parametrize(
    ("of_x", "of_y"),
    [
        pytest.param(lambda X: in_chunks(X, 200), lambda Y: Y, id="y in memory"),
        pytest.param(lambda X: X, lambda Y: in_chunks(Y, 200), id="x in memory"),
        pytest.param(lambda X: in_chunks(X, 200, 5), lambda Y: in_chunks(Y, 300, 4), id="chunks"),
        pytest.param(
            lambda X: in_chunks(X, 400, 5, sparse.csr_array),
            lambda Y: in_chunks(Y, 250, 4, sparse.csr_matrix),
            id="sparse chunks",
        ),
        pytest.param(
            lambda X: in_chunks(X, 200)[da.from_array(X[:, 0], 200) > -999],
            lambda Y: in_chunks(Y, 200),
            id="unknown chunks",
        ),
        pytest.param(
            lambda X: dd.from_pandas(pd.DataFrame(X), npartitions=3),
            lambda Y: dd.from_pandas(pd.DataFrame(Y), npartitions=4),
            id="frames",
        ),
        pytest.param(
            lambda X: dd.from_pandas(pd.DataFrame(X).convert_dtypes(), npartitions=3),
            lambda Y: dd.from_pandas(
                pd.DataFrame(Y).astype(pd.SparseDtype(float, 0.0)), npartitions=3
            ),
            id="pandas types",
        ),
    ],
)
def test_whatever_the_chunks(views, of_x, of_y):
    X, Y = views
    found = top_k_cca(of_x(X), of_y(Y), 3)
    np.testing.assert_allclose(found.correlations, top_k_cca(X, Y, 3).correlations, atol=1e-12)


def test_sparse_views_through_the_iteration():
    X, Y = datasets.sparse_topics(4000, 2300, 6, 8, rng=0)
    settings = {"reg": 0.1, "tol": 1e-8, "form": False}
    exact = top_k_cca(X, Y, 2, **settings)
    found = top_k_cca(in_chunks(X, 1500), in_chunks(Y, 1500), 2, **settings)
    assert found.converged
    assert len(found.trace) > 1
    np.testing.assert_allclose(found.correlations, exact.correlations, atol=1e-8)


def test_operators(views):
    X, Y = views
    x, y = in_chunks(X, 200), in_chunks(Y, 300)
    V = np.random.default_rng(1).standard_normal((9, 2))
    np.testing.assert_allclose(Cross(x, y, center=True) @ V, Cross(X, Y, center=True) @ V)
    exact = top_k(Gram(X, center=True), Gram(X, reg=1.0), 2)
    found = top_k(Gram(x, center=True), Gram(x, reg=1.0), 2)
    np.testing.assert_allclose(found.values, exact.values, rtol=1e-10)


def test_weights(views):
    X, Y = views
    weights = np.random.default_rng(0).random(len(X))
    x, y = as_rows(in_chunks(X, 200), "X", weights), as_rows(in_chunks(Y, 200), "Y", weights)
    exact = top_k_cca(as_rows(X, "X", weights), as_rows(Y, "Y", weights), 3)
    np.testing.assert_allclose(top_k_cca(x, y, 3).correlations, exact.correlations, atol=1e-12)
    plain = top_k_cca(in_chunks(X, 200), in_chunks(Y, 200), 3)
    assert np.abs(plain.correlations - exact.correlations).max() > 1e-4


# --- Parts ---------------------------------------------------------------------------------------


def test_small_neighbours_are_joined(monkeypatch):
    X = np.arange(400.0).reshape(200, 2)
    with dask.config.set(num_workers=2):
        rows = dask_rows(in_chunks(X, 2))
    (parts,) = rows.summed(Rows())
    assert len(parts) <= 8
    assert [start for start, _ in sorted(parts)] == np.cumsum([0] + [n for _, n in sorted(parts)])[
        :-1
    ].tolist()
    np.testing.assert_array_equal(rows.taken(np.array([0, 77, 199])), X[[0, 77, 199]])
    monkeypatch.setattr(dask_rows_module, "SMALL", 1)
    with dask.config.set(num_workers=2):
        (parts,) = dask_rows(in_chunks(X, 2)).summed(Rows())
    assert len(parts) == 100


def test_empty_chunks_do_no_harm(views):
    X, _ = views
    x = in_chunks(X, 100)
    x = x[da.from_array(np.arange(900) // 100 != 4, chunks=100)]
    rows = dask_rows(x)
    assert rows.shape == (800, 12)
    np.testing.assert_allclose(as_rows(x).mean, np.delete(X, slice(400, 500), axis=0).mean(axis=0))


def test_results_are_not_overwritten(views):
    class Kept(Task):
        """Gives away the rows themselves, which a merge adds to."""

        def __call__(self, part):
            return (part.x[:2],)

    X, _ = views
    rows = dask_rows(in_chunks(X, 300))
    first, second = rows.summed(Kept())[0], rows.summed(Kept())[0]
    np.testing.assert_array_equal(first, X[:2] + X[300:302] + X[600:602])
    np.testing.assert_array_equal(first, second)


def test_tasks_share_the_cores(monkeypatch):
    class Threads(Task):
        def __call__(self, part):
            return ([threads()],)

    monkeypatch.setattr("genelin.kernels.compiled._of_numba", lambda: 8)
    monkeypatch.setattr("genelin.kernels.compiled.cores", lambda: 8)
    monkeypatch.setattr(dask_workers, "cores", lambda: 8)
    monkeypatch.setattr(dask_workers, "CPU_COUNT", 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    x = in_chunks(np.ones((6, 2)), 1)
    for workers, share in ((2, 4), (3, 2), (6, 1)):
        with dask.config.set(num_workers=workers):
            assert set(dask_rows(x).summed(Threads())[0]) == {share}
    with dask.config.set(scheduler="synchronous"):
        assert set(dask_rows(x).summed(Threads())[0]) == {8}
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with dask.config.set(num_workers=2):
        assert set(dask_rows(x).summed(Threads())[0]) == {1}
    assert threads() == 8


def test_limits_of_kernels_are_of_one_thread_and_nest():
    before = threads()
    with at_most(1):
        assert threads() == 1
        with at_most(5):
            assert threads() == 1
    assert threads() == before


# --- Bad input -----------------------------------------------------------------------------------


def test_unlike_chunks_are_refused():
    def piece(shape, kind=np.asarray, dtype=float):
        return da.from_delayed(dask.delayed(kind)(np.ones(shape, dtype)), shape, float)

    ok = piece((3, 2))
    for other, message in (
        (piece((3, 2), sparse.csr_array), "dense float64 numbers in chunk 0 but sparse float64"),
        (piece((3, 2), dtype=np.float32), "but dense float32 ones in chunk 1"),
        (
            da.from_delayed(dask.delayed(np.ones)((3, 4)), (3, 2), float),
            "2 columns in chunk 0, 4 in chunk 1",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            dask_rows(da.concatenate([ok, other]))


def test_bad_collections_are_refused(views):
    X, Y = views
    with pytest.raises(TypeError, match="X is complex"):
        as_rows(in_chunks(X, 300).astype(complex))
    with pytest.raises(ValueError, match="X must have two dimensions, got shape"):
        as_rows(da.ones((3, 2, 2)))
    with pytest.raises(TypeError, match=r"columns that are not numbers: 'b' \((str|object|string)"):
        as_rows(dd.from_pandas(pd.DataFrame({"a": [1.0], "b": ["u"]}), npartitions=1))
    with pytest.raises(TypeError, match="Dask collection of type Delayed"):
        as_rows(dask.delayed(np.ones)(3))
    with pytest.raises(ValueError, match="X is empty"):
        as_rows(in_chunks(X, 300)[da.from_array(X[:, 0] > 99, 300)])
    with pytest.raises(ValueError, match="X has 900 rows but Y has 600"):
        top_k_cca(in_chunks(X, 300), in_chunks(Y[:600], 300), 2)
    with (
        dask.config.set(scheduler="processes"),
        pytest.raises(ValueError, match=r"use scheduler='threads', or a distributed\.Client"),
    ):
        as_rows(in_chunks(X, 300))


def test_nan_in_a_far_chunk_is_named(views):
    X, Y = views
    X = X.copy()
    X[777, 5] = np.nan
    with pytest.raises(ValueError, match="X has NaN at row 777, column 5"):
        top_k_cca(in_chunks(X, 100), in_chunks(Y, 100), 2)


def test_costly_alignment_is_refused_with_advice(views, monkeypatch):
    X, Y = views
    monkeypatch.setattr(dask_rows_module, "MOVED", 100)
    with pytest.raises(ValueError, match=r"\(200, 200, 200, … and 300, 300, 300\).*rechunk"):
        top_k_cca(in_chunks(X, 200), in_chunks(Y, 300), 2)


def test_methods_that_draw_rows_say_so(views):
    X, Y = views
    with pytest.raises((TypeError, ValueError), match="rows"):
        top_k_cca(in_chunks(X, 200), in_chunks(Y, 200), 2, method=CCALin(solver=solvers.SVRG()))


# --- Estimators ----------------------------------------------------------------------------------


def test_cca_of_frames(views):
    X, Y = views
    x = pd.DataFrame(X, columns=[f"pixel {j}" for j in range(12)])
    cca = CCA(3).fit(
        dd.from_pandas(x, npartitions=3), dd.from_pandas(pd.DataFrame(Y), npartitions=3)
    )
    exact = CCA(3).fit(x, Y)
    assert cca.feature_names_in_.tolist() == x.columns.tolist()
    assert cca.n_samples_seen_ == 900
    for name in ("canonical_correlations_", "x_loadings_", "y_redundancy_", "x_mean_", "coef_"):
        np.testing.assert_allclose(getattr(cca, name), getattr(exact, name), atol=1e-10)
    lazy = cca.transform(dd.from_pandas(x, npartitions=4))
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(), exact.transform(x), atol=1e-10)
    with pytest.raises(ValueError, match="feature names should match"):
        cca.transform(dd.from_pandas(x[x.columns[::-1]], npartitions=2))


def test_cca_of_arrays(views):
    X, Y = views
    x, y = in_chunks(X, 200, 5), in_chunks(Y, 300)
    weights = np.random.default_rng(0).random(900)
    cca, exact = CCA(2, scale=True), CCA(2, scale=True).fit(X, Y, weights)
    U, V = cca.fit(x, y, weights).transform(x, y)
    assert (U.shape, V.shape, U.chunks[0]) == ((900, 2), (900, 2), x.chunks[0])
    for lazy, scores in zip((U, V), exact.transform(X, Y), strict=True):
        np.testing.assert_allclose(lazy.compute(), scores, atol=1e-10)
    np.testing.assert_allclose(cca.predict(x).compute(), exact.predict(X), atol=1e-10)
    np.testing.assert_allclose(cca.score(x, y), exact.score(X, Y), atol=1e-10)
    with pytest.raises(ValueError, match="X has 9 features, but CCA is expecting 12"):
        cca.transform(y)
    with pytest.raises(ValueError, match="X has 900 rows but Y has 300"):
        cca.fit(x, y[:300])
    with pytest.raises(TypeError, match="partial_fit takes batches that are in memory"):
        cca.partial_fit(x, y)


def test_cca_of_sparse_chunks_and_one_target(views):
    X, Y = (np.where(np.abs(Z) > 1.5, Z, 0.0) for Z in views)
    x = in_chunks(X, 200, 5, sparse.csr_matrix)
    for y in (
        da.from_array(Y[:, 0], 300),
        dd.from_pandas(pd.Series(Y[:, 0], name="y"), 2),
        Y[:, 0],
    ):
        cca, exact = CCA(1).fit(x, y), CCA(1).fit(X, Y[:, 0])
        np.testing.assert_allclose(
            cca.canonical_correlations_, exact.canonical_correlations_, atol=1e-12
        )
        np.testing.assert_allclose(cca.predict(x).compute(), exact.predict(X), atol=1e-10)
        np.testing.assert_allclose(cca.transform(x).compute(), exact.transform(X), atol=1e-10)


def test_single_precision_stays(views):
    X, Y = (Z.astype(np.float32) for Z in views)
    cca = CCA(1).fit(in_chunks(X, 300), in_chunks(Y, 300))
    assert cca.transform(in_chunks(X, 300)).dtype == np.float32
    assert cca.transform(in_chunks(X, 300)).compute().dtype == np.float32


def test_generalized_eigen(views):
    X, _ = views
    rng = np.random.default_rng(3)
    background = rng.standard_normal((500, 12))
    exact = GeneralizedEigen(2).fit(X, background=background)
    found = GeneralizedEigen(2).fit(in_chunks(X, 200), background=in_chunks(background, 90))
    np.testing.assert_allclose(found.eigenvalues_, exact.eigenvalues_, rtol=1e-10)
    labels = np.argmax(X[:, :3], axis=1)
    for y in (labels, da.from_array(labels, 100), dd.from_pandas(pd.Series(labels), 3)):
        exact = GeneralizedEigen(2).fit(X, labels)
        found = GeneralizedEigen(2).fit(in_chunks(X, 200), y)
        np.testing.assert_allclose(found.eigenvalues_, exact.eigenvalues_, rtol=1e-8)
    scores = found.transform(in_chunks(X, 200))
    np.testing.assert_allclose(scores.compute(), exact.transform(X), atol=1e-8)


@pytest.mark.parametrize(
    ("sizes", "places", "threads", "loads"),
    [
        ([1, 1, 1, 1], "aaab", {"a": 1, "b": 1}, {"a": 2, "b": 2}),
        ([1, 1, 1, 1, 1, 1], "aaaaaa", {"a": 1, "b": 2}, {"a": 2, "b": 4}),
        ([9, 1], "ab", {"a": 1, "b": 1}, {"a": 9, "b": 1}),  # to move the large one gains nothing
        ([5, 1, 1], "aaa", {"a": 1, "b": 1, "c": 1}, {"a": 5, "b": 1, "c": 1}),
        ([1, 1], "xx", {"a": 1, "b": 1}, {"x": 2}),  # that worker is gone
        ([2**32, 2**32], "aa", {"a": 1, "b": 1}, {"a": 2**32, "b": 2**32}),
        ([2**33, 2**33], "aa", {"a": 1, "b": 1}, {"a": 2**34}),  # too much to move
    ],
)
def test_parts_move_to_workers_that_have_less(sizes, places, threads, loads):
    targets = _balanced(sizes, list(places), threads)
    found = dict.fromkeys(loads, 0)
    for size, target in zip(sizes, targets, strict=True):
        found[target] += size
    assert found == loads


@pytest.mark.parametrize(
    ("sizes", "homes", "threads", "loads"),
    [
        ([2, 2, 2, 2], ["ab", "ab", "ab", "ab"], {"a": 1, "b": 1}, {"a": 4, "b": 4}),
        ([2, 2, 2, 2], ["ab", "ab", "a", "a"], {"a": 1, "b": 1}, {"a": 4, "b": 4}),
        ([2, 2, 2, 2], ["a", "a", "a", "b"], {"a": 1, "b": 1}, {"a": 4, "b": 4}),
        ([2, 2, 2], ["ab", "ab", "ab"], {"a": 2, "b": 1}, {"a": 4, "b": 2}),
    ],
)
def test_halves_of_parts_meet_where_workers_have_equal_shares(sizes, homes, threads, loads):
    places = _meeting(sizes, [set(home) for home in homes], threads)
    assert all(len(home) == 1 or place in home for home, place in zip(homes, places, strict=True))
    found = dict.fromkeys(loads, 0)
    for size, place in zip(sizes, places, strict=True):
        found[place] += size
    assert found == loads


def test_halves_meet_anywhere_if_their_worker_is_gone():
    assert _meeting([1, 1], [{"a", "x"}, {"b"}], {"a": 1, "b": 1}) == []
    assert _meeting([1, 1], [{"a", None}, {"b"}], {"a": 1, "b": 1}) == []
    assert _meeting([1, 1], [{"a"}, {"a"}], {"a": 4}) == []
