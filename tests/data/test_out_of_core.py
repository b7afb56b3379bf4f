"""Rows that are not in memory give what the same rows in memory give."""

import numpy as np
import pytest
from scipy import sparse

from genelin import CCA, CCALin, Davidson, GeneralizedEigen, TwoView, plan_cca, solvers, top_k_cca
from genelin.eigen.methods.initial_guess import frequent_features_guess
from genelin.linalg import sin_theta
from genelin.operators import ChunkedRows, Counter, Cross, Gram, as_rows
from in_parts import InParts


def data(kind, n=200, d=(6, 5), seed=0):
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((n, 3))
    views = [shared @ rng.standard_normal((3, m)) + rng.standard_normal((n, m)) for m in d]
    if kind == "far":
        views = [view + 1e5 for view in views]
    if kind == "single":
        hot = np.minimum(np.abs(shared[:, 0] * 2).astype(int), 4)
        views = [np.eye(m)[np.minimum(hot + (rng.random(n) < 0.2), m - 1)] for m in d]
    if kind in ("sparse", "full"):
        views = [np.where(np.abs(view) > 1, view, 0.0) for view in views]
        if kind == "full":
            views[0][:, 0] = 1e5 + shared[:, 0]
            views[1][:, 0] = -1e4 + shared[:, 1]
    if kind in ("sparse", "single", "full"):
        views = [sparse.csr_array(view) for view in views]
    if kind == "float32":
        views = [view.astype(np.float32) for view in views]
    return views


KINDS = ("dense", "float32", "far", "sparse", "single", "full")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_moments(kind, weighted):
    X, _ = data(kind)
    weights = np.random.default_rng(1).random(X.shape[0]) if weighted else None
    inside, outside = as_rows(X, "X", weights), as_rows(InParts(X), "X", weights)
    assert isinstance(outside, ChunkedRows)
    assert not outside.in_memory
    for name in ("mean", "variance", "mean_square"):
        np.testing.assert_allclose(getattr(outside, name), getattr(inside, name), rtol=1e-7)
    assert outside.largest == pytest.approx(inside.largest)
    assert (outside.stored, outside.single) == (inside.stored, inside.single)
    np.testing.assert_array_equal(outside.frequencies, inside.frequencies)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_operators(kind, center, scale, weighted):
    X, Y = data(kind)
    weights = np.random.default_rng(1).random(X.shape[0]) if weighted else None
    inside = [as_rows(view, "X", weights) for view in (X, Y)]
    outside = [as_rows(InParts(view), "X", weights) for view in (X, Y)]
    V = np.random.default_rng(2).standard_normal((X.shape[1], 5))
    expected, got = (Gram(rows[0], 0.1, center, scale) for rows in (inside, outside))
    size = np.abs(expected @ V).max()
    np.testing.assert_allclose(got @ V, expected @ V, atol=1e-9 * size)
    np.testing.assert_allclose(got.formed() @ V, expected @ V, atol=1e-9 * size)
    expected, got = (Cross(*rows, center, scale) for rows in (inside, outside))
    size = np.abs(expected.T @ V).max()
    np.testing.assert_allclose(got.T @ V, expected.T @ V, atol=1e-9 * size)
    np.testing.assert_allclose(got.formed().T @ V, expected.T @ V, atol=1e-9 * size)
    part = np.array([3, 50, 120])
    np.testing.assert_allclose(
        got.on_rows(part).T @ V, expected.on_rows(part).T @ V, atol=1e-9 * size
    )


@pytest.mark.parametrize("form", [None, True, False])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_canonical_correlations(kind, center, form):
    if kind == "far" and not center:
        pytest.skip("κ of the covariances is 1e10: no eight digits to compare")
    X, Y = data(kind)
    settings = {"k": 2, "reg": 1e-3, "center": center, "form": form, "tol": 1e-9}
    expected = top_k_cca(X, Y, **settings)
    got = top_k_cca(InParts(X), InParts(Y), **settings)
    np.testing.assert_allclose(got.correlations, expected.correlations, atol=1e-8)
    assert got.converged


@pytest.mark.parametrize("method", [Davidson(), CCALin(solver=solvers.AGD())])
@pytest.mark.parametrize("form", [True, False])
def test_iterations_read_in_order(method, form):
    X, Y = data("sparse", n=1000, d=(30, 20))
    settings = {"k": 3, "reg": 1.0, "form": form, "tol": 1e-5}
    expected = top_k_cca(X, Y, **settings)
    got = top_k_cca(InParts(X, 600), InParts(Y, 600), method=method, **settings)
    np.testing.assert_allclose(got.correlations, expected.correlations, atol=1e-8)


def test_start_from_frequent_features():
    X, Y = data("sparse", n=1000, d=(30, 20))
    counter = Counter(data_size=X.nnz + Y.nnz)
    inside, outside = (
        frequent_features_guess(TwoView(*views, reg=0.1, form=False), 2, counter)
        for views in ((X, Y), (InParts(X), InParts(Y)))
    )
    for one, other in zip(inside, outside, strict=True):
        assert sin_theta(one, other, np.eye(len(one))) < 1e-8


def test_dense_views_are_read_once():
    X, Y = (InParts(view) for view in data("dense"))
    CCA(2).fit(X, Y)
    assert (X.reads, Y.reads) == (1, 0)


def test_one_view_in_memory():
    X, Y = data("dense")
    expected = top_k_cca(X, Y, k=2).correlations
    for views in ((InParts(X), Y), (X, InParts(Y))):
        np.testing.assert_allclose(top_k_cca(*views, k=2).correlations, expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_estimator(kind):
    X, Y = data(kind)
    inside = CCA(2, reg=1e-3, scale=True).fit(X, Y)
    outside = CCA(2, reg=1e-3, scale=True).fit(InParts(X), InParts(Y))
    np.testing.assert_allclose(outside.predict(X), inside.predict(X), atol=1e-6)
    np.testing.assert_allclose(outside.transform(InParts(X)), outside.transform(X), atol=1e-12)
    assert outside.score(InParts(X), InParts(Y)) == pytest.approx(inside.score(X, Y), abs=1e-8)
    weights = np.random.default_rng(3).random(X.shape[0])
    inside.fit(X, Y, sample_weight=weights)
    outside.fit(InParts(X), InParts(Y), sample_weight=weights)
    np.testing.assert_allclose(
        outside.canonical_correlations_, inside.canonical_correlations_, atol=1e-8
    )


def test_estimator_refuses():
    X, Y = data("dense")
    cca = CCA(2).fit(InParts(X), InParts(Y))
    with pytest.raises(ValueError, match="X has 5 features, but CCA is expecting 6"):
        cca.transform(InParts(Y))
    with pytest.raises(TypeError, match="batches that are in memory"):
        cca.partial_fit(InParts(X), InParts(Y))
    with pytest.raises(ValueError, match="X has 200 rows but Y has 100"):
        top_k_cca(InParts(X), Y[:100])


@pytest.mark.parametrize("criterion", ["lda", "csp", "class-pairs"])
def test_classes(criterion):
    X, _ = data("dense")
    y = (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)
    inside = GeneralizedEigen(1, criterion=criterion).fit(X, y)
    outside = GeneralizedEigen(1, criterion=criterion).fit(InParts(X), y)
    np.testing.assert_allclose(outside.eigenvalues_, inside.eigenvalues_, rtol=1e-8)
    scores, expected = outside.transform(InParts(X)), outside.transform(X)
    np.testing.assert_allclose(scores, expected, atol=1e-10)


def test_background():
    X, _ = data("dense")
    inside = GeneralizedEigen(2).fit(X, background=X[:80] * [1, 2, 3, 4, 5, 6])
    outside = GeneralizedEigen(2).fit(InParts(X), background=InParts(X[:80] * [1, 2, 3, 4, 5, 6]))
    np.testing.assert_allclose(outside.eigenvalues_, inside.eigenvalues_, rtol=1e-8)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("form", [None, False])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_nonfinite_is_found(kind, form, bad):
    X, Y = data(kind)
    if kind == "sparse":
        row = int(np.searchsorted(X.indptr, 300, side="right")) - 1
        X.data[300], column = bad, X.indices[300]
    else:
        row, column = 150, 3
        X[row, column] = bad
    with pytest.raises(ValueError, match=f"X has .* at row {row}, column {column}"):
        top_k_cca(InParts(X), InParts(Y), reg=0.1, form=form)


def test_extreme_numbers_are_refused():
    X, Y = data("dense")
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(ValueError, match="X has numbers of the order"),
    ):
        top_k_cca(InParts(X * 1e160), InParts(Y))


def test_random_access_is_refused():
    X, Y = data("sparse")
    with pytest.raises((TypeError, ValueError), match="rows"):
        top_k_cca(InParts(X), InParts(Y), reg=0.1, method=CCALin(solver=solvers.SVRG()))


def test_plan():
    X, Y = data("sparse")
    assert plan_cca(InParts(X), InParts(Y), k=2, reg=0.1).chosen.name == "dense"
    assert TwoView(InParts(X), InParts(Y), reg=0.1).data_size == X.nnz + Y.nnz
