"""`genelin.CCA`: scikit-learn's contract, the values of other programs, every kind of input."""

import csv
import pickle
import subprocess
import sys
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.cross_decomposition import CCA as SklearnCCA  # noqa: N811
from sklearn.datasets import load_linnerud
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_regressor_data_not_an_array,
    check_regressors_int,
    parametrize_with_checks,
)

from genelin import (
    CCA,
    CCALin,
    ConvergenceWarning,
    Davidson,
    Dense,
    RankDeficiencyWarning,
    TwoView,
    measures,
    solvers,
    top_k_cca,
)
from genelin.eigen.methods.diagonal_cca import WhitenedSVD
from genelin.estimators.partial_fit import MOST_FEATURES, Moments, Reservoir
from genelin.estimators.progress import Progress
from genelin.inference.classical_tests import wilks_tests
from genelin.operators import as_rows


def latent(n=200, p=5, q=4, shared=3, seed=0):
    """Views that share a few latent variables."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, shared)) * np.linspace(2, 1, shared)
    X = Z @ rng.standard_normal((shared, p)) + rng.standard_normal((n, p)) + rng.normal(size=p)
    Y = Z @ rng.standard_normal((shared, q)) + rng.standard_normal((n, q)) + rng.normal(size=q)
    return X, Y


def topics(n, d, strengths=(0.9, 0.8, 0.7), seed=0):
    """Sparse views of d columns: a few shared rare features, and noise."""
    rng = np.random.default_rng(seed)
    views = []
    flags = rng.random((n, len(strengths))) < 0.3
    for _ in range(2):
        noise = rng.random((n, len(strengths))) > strengths
        own = np.where(noise, rng.random(noise.shape) < 0.3, flags)
        rows, columns = np.nonzero(own)
        rows = np.r_[rows, rng.integers(0, n, 5 * n)]
        columns = np.r_[columns, rng.integers(len(strengths), d, 5 * n)]
        views.append(sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, d)))
    return views


def apart(A, B):
    """Largest difference of columns up to sign and scale."""
    A, B = A / np.linalg.norm(A, axis=0), B / np.linalg.norm(B, axis=0)
    return np.abs(A - B * np.sign((A * B).sum(axis=0))).max()


def assert_same(one, other, tol=1e-8):
    for name in ("canonical_correlations_", "score_correlations_", "x_mean_", "y_scale_"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=0, atol=tol)
    for name in ("x_weights_", "y_weights_", "x_loadings_", "y_loadings_", "coef_"):
        size = np.abs(getattr(other, name)).max()
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=tol * size)


# --- scikit-learn's contract -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::genelin.errors.RankDeficiencyWarning")
@parametrize_with_checks([CCA(n_components=1)])  # as for scikit-learn's own: y may have one column
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::genelin.errors.RankDeficiencyWarning")
@pytest.mark.parametrize("check", [check_regressors_int, check_regressor_data_not_an_array])
def test_checks_that_scikit_learn_spares_its_own_cca(check):
    check("another name", CCA(n_components=1))


def test_clone_keeps_settings():
    method = CCALin(solver=solvers.AGD())
    twin = clone(CCA(3, reg=(0.1, 0.2), method=method, warm_start=True))
    assert twin.get_params()["reg"] == (0.1, 0.2)
    assert twin.method == method
    with pytest.raises(NotFittedError):
        twin.transform(np.ones((2, 2)))
    with pytest.raises(AttributeError, match="coef_"):
        _ = twin.coef_


def test_grid_search_chooses_the_ridge_that_generalises():
    X, Y = latent(60, 30, 25, shared=2, seed=3)
    pipeline = make_pipeline(StandardScaler(), CCA(2))
    grid = {"cca__reg": [0.0, 1.0, 3.0], "cca__shrinkage": [None]}
    search = GridSearchCV(pipeline, grid, cv=4).fit(X, Y)
    assert search.best_params_["cca__reg"] > 0
    best, bare = search.best_score_, search.cv_results_["mean_test_score"][0]
    assert bare + 0.2 < best <= 1
    assert search.predict(X).shape == Y.shape


def test_steps_behind_cca_in_a_pipeline_see_the_x_scores():
    X, Y = latent()
    for output in ("default", "pandas"):
        pipeline = make_pipeline(CCA(3), LinearRegression()).set_output(transform=output)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X has feature names")
            fitted = pipeline.fit(X, Y).predict(X)
        np.testing.assert_allclose(fitted, CCA(3).fit(X, Y).predict(X), atol=1e-8)


@pytest.mark.parametrize(("kind", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_frames_come_out(kind, frame):
    X, Y = latent()
    cca = CCA(2).set_output(transform=kind).fit(X, Y)
    scores = cca.transform(X)
    assert isinstance(scores, frame)
    assert list(scores.columns) == list(cca.get_feature_names_out()) == ["cca0", "cca1"]
    U, _ = cca.fit_transform(X, Y)
    assert isinstance(U, frame)


def test_weights_are_routed():
    X, Y = latent()
    weights = np.r_[np.ones(150), np.zeros(50)]
    with sklearn.config_context(enable_metadata_routing=True):
        requesting = CCA(2).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler(), requesting)
        pipeline[0].set_fit_request(sample_weight=False)
        pipeline.fit(X, Y, sample_weight=weights)
        requesting.set_score_request(sample_weight=True)
        routed = cross_validate(requesting, X, Y, params={"sample_weight": weights + 1}, cv=3)
    assert_same(pipeline[-1], CCA(2).fit(pipeline[0].transform(X)[:150], Y[:150]))
    assert np.all(routed["test_score"] > 0.3)


def test_pickle_and_joblib(tmp_path):
    X, Y = latent()
    cca = CCA(2, method=CCALin()).fit(X, Y)
    joblib.dump(cca, tmp_path / "model")
    for twin in (pickle.loads(pickle.dumps(cca)), joblib.load(tmp_path / "model")):
        np.testing.assert_array_equal(twin.predict(X), cca.predict(X))
        assert twin.solution_.status is cca.solution_.status


# --- In the place of scikit-learn's CCA --------------------------------------------------------


@settings(max_examples=25)
@given(p=st.integers(2, 7), q=st.integers(2, 7), seed=st.integers(0, 10**6), data=st.data())
def test_agrees_with_scikit_learn(p, q, seed, data):
    k = data.draw(st.integers(1, min(p, q)))
    X, Y = latent(150, p, q, shared=min(p, q), seed=seed)
    correlations = CCA(min(p, q)).fit(X, Y).canonical_correlations_
    theirs = SklearnCCA(k, tol=1e-14, max_iter=100_000).fit(X, Y)
    ours = CCA(k, scale=True).fit(X, Y)
    assert r2_score(Y, ours.predict(X)) >= r2_score(Y, theirs.predict(X)) - 1e-9
    if np.abs(np.diff(correlations)).min() > 0.02:  # else the weights are not well-conditioned
        for one, other in zip(ours.transform(X, Y), theirs.transform(X, Y), strict=True):
            assert apart(one, other) < 1e-4
        assert apart(ours.x_rotations_, theirs.x_rotations_) < 1e-4
        assert apart(ours.y_rotations_, theirs.y_rotations_) < 1e-4


def test_is_right_where_scikit_learn_takes_the_wrong_component_first():
    """NIPALS starts at the first column of Y: here the second canonical variate, exactly."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(np.c_[np.ones(200), rng.standard_normal((200, 4))])[0][:, 1:]
    X = Q[:, :2]
    Y = np.c_[0.5 * Q[:, 0] + 0.75**0.5 * Q[:, 2], 0.9 * Q[:, 1] + 0.19**0.5 * Q[:, 3]]
    U, V = SklearnCCA(2).fit_transform(X, Y)
    theirs = [np.corrcoef(u, v)[0, 1] for u, v in zip(U.T, V.T, strict=True)]
    np.testing.assert_allclose(theirs, [0.5, 0.9], atol=1e-6)
    ours = CCA(2).fit(X, Y)
    np.testing.assert_allclose(ours.canonical_correlations_, [0.9, 0.5], atol=1e-12)
    np.testing.assert_allclose(ours.score(X, Y), 0.7, atol=1e-12)


def test_prediction_is_least_squares_on_the_scores():
    X, Y = latent()
    cca = CCA(2, reg=0.1, scale=True).fit(X, Y)
    U = cca.transform(X)
    expected = LinearRegression().fit(U, Y).predict(U)
    np.testing.assert_allclose(cca.predict(X), expected, atol=1e-9)
    by_hand = (X - cca.x_mean_) @ cca.coef_.T + cca.intercept_
    np.testing.assert_allclose(by_hand, expected, atol=1e-9)
    assert cca.coef_.shape == (4, 5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_that_do_not_vary_count_as_zero(dtype):
    X, Y = (view.astype(dtype) for view in latent(p=3, q=3))
    cca = CCA(2).fit(X, Y)
    assert cca.score(np.tile(X[:1] + 0.1, (50, 1)), Y[:50]) == 0
    U, V = cca.transform(X[50:90], Y[50:90])
    by_hand = np.mean([np.corrcoef(u, v)[0, 1] for u, v in zip(U.T, V.T, strict=True)])
    np.testing.assert_allclose(cca.score(X[50:90], Y[50:90]), by_hand, atol=1e-6)


def test_one_column_of_y_stays_one():
    X, Y = latent()
    cca = CCA(1).fit(X, Y[:, 0])
    assert cca.predict(X).shape == (200,)
    expected = LinearRegression().fit(X, Y[:, 0]).predict(X)
    np.testing.assert_allclose(cca.predict(X), expected, atol=1e-9)


def test_reconstruction():
    X, Y = latent(p=4, q=4)
    cca = CCA(4, scale=True).fit(X, Y)
    x, y = cca.inverse_transform(*cca.transform(X, Y))
    np.testing.assert_allclose(x, X, atol=1e-9)
    np.testing.assert_allclose(y, Y, atol=1e-9)
    partial = CCA(2, reg=0.3).fit(X, Y)
    U = partial.transform(X)
    best = LinearRegression().fit(U, X).predict(U)
    np.testing.assert_allclose(partial.inverse_transform(U), best, atol=1e-9)


# --- The values of other programs --------------------------------------------------------------


def read(path, delimiter=","):
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter=delimiter))
    return lambda names: np.array([[float(row[name]) for name in names.split()] for row in rows])


PUBLISHED = {
    "mmreg.csv": (
        "Control Concept Motivation",
        "Read Write Math Science Sex",
        [0.4641, 0.1675, 0.1040],
        5e-5,
    ),
    "ISLR_Auto.csv": (
        "displacement horsepower weight",
        "acceleration mpg",
        [0.87821874, 0.63281872],
        5e-9,
    ),
    "stata_auto.csv": (
        "length weight headroom trunk",
        "displacement mpg gear_ratio turn",
        [0.9476, 0.3400, 0.0634, 0.0447],
        5e-5,
    ),
    "LifeCycleSavings.csv": ("pop15 pop75", "sr dpi ddpi", [0.82479661, 0.36527615], 5e-9),
    "frets.csv": ("l1 b1", "l2 b2", [0.7885, 0.0537], 5e-5),
    "iris.csv": (
        "Sepal.Length Sepal.Width",
        "Petal.Length Petal.Width",
        [0.94096900, 0.12393688],
        5e-9,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_correlations(data, name):
    x, y, published, tol = PUBLISHED[name]
    column = read(data / "classical" / name)
    X, Y = column(x), column(y)
    for scale in (False, True):
        cca = CCA(len(published), scale=scale).fit(X, Y)
        np.testing.assert_allclose(cca.canonical_correlations_, published, rtol=0, atol=tol)


def test_published_values_of_linnerud(data):
    folder = data / "classical"
    X = read(folder / "linnerud_physiological.csv", " ")("Weight Waist Pulse")
    Y = read(folder / "linnerud_exercise.csv", " ")("Chins Situps Jumps")
    cca = CCA(3).fit(X, Y)
    np.testing.assert_allclose(
        cca.canonical_correlations_, [0.795608, 0.200556, 0.072570], atol=5e-7
    )
    tests = cca.significance()
    np.testing.assert_allclose(tests.wilks_lambda, [0.35039053, 0.95472266, 0.99473355], atol=5e-9)
    np.testing.assert_allclose(CCA(1).fit(X, Y).significance().f, tests.f, rtol=1e-9)


def test_f_tests_and_redundancy_of_linnerud():
    """Figures kept from our own run; definitions are tested by themselves below."""
    Y, X = load_linnerud(return_X_y=True)
    tests = CCA(3).fit(X, Y).significance()
    np.testing.assert_allclose(tests.f, [2.05, 0.18, 0.08], atol=6e-3)
    np.testing.assert_allclose(tests.f_df1, [9, 4, 1])
    np.testing.assert_allclose(tests.f_df2, [34.223, 30, 16], atol=5e-4)
    np.testing.assert_allclose(tests.f_p, [0.0635, 0.9491, 0.7748], atol=5e-5)
    raw, standard = CCA(3).fit(X, Y), CCA(3, scale=True).fit(X, Y)
    for cca, attribute, expected in (
        (raw, "x_explained_variance_ratio_", [0.3712, 0.5436, 0.0852]),
        (raw, "x_redundancy_", [0.2349, 0.0219, 0.0004]),
        (raw, "y_explained_variance_ratio_", [0.4111, 0.5635, 0.0254]),
        (raw, "y_redundancy_", [0.2602, 0.0227, 0.0001]),
        (standard, "x_explained_variance_ratio_", [0.4508, 0.2470, 0.3022]),
        (standard, "x_redundancy_", [0.2854, 0.0099, 0.0016]),
        (standard, "y_explained_variance_ratio_", [0.4081, 0.4345, 0.1574]),
        (standard, "y_redundancy_", [0.2584, 0.0175, 0.0008]),
    ):
        np.testing.assert_allclose(getattr(cca, attribute), expected, atol=6e-5)


def test_the_weights_of_matlab(data):
    """canoncorr's A and B, signs included, by the formula in the docstring."""
    column = read(data / "classical" / "ISLR_Auto.csv")
    X, Y = column("displacement horsepower weight"), column("acceleration mpg")
    A = [[0.0025, 0.0048], [0.0202, 0.0409], [-0.000025, -0.0027]]
    B = [[-0.1666, -0.3637], [-0.0916, 0.1078]]
    for scale in (False, True):
        cca = CCA(2, scale=scale).fit(X, Y)
        shrink = np.sqrt(1 - 1 / cca.n_samples_seen_)
        x = cca.x_rotations_ / cca.x_scale_[:, None] * shrink
        y = cca.y_rotations_ / cca.y_scale_[:, None] * shrink
        if not scale:  # signs go by the largest entry, in the units of the fit
            np.testing.assert_allclose(x[:2], A[:2], atol=5.1e-5)
            np.testing.assert_allclose(x[2], A[2], atol=5.1e-5)
            np.testing.assert_allclose(y, B, atol=5.1e-5)
        np.testing.assert_allclose(np.abs(y), np.abs(B), atol=5.1e-5)
        U = (X - X.mean(axis=0)) @ x
        np.testing.assert_allclose(np.cov(U.T), np.eye(2), atol=1e-9)


def test_more_features_than_rows_is_said_to_be_degenerate(data):
    def table(name):
        with open(data / "classical" / name, encoding="utf-8") as file:
            return np.array([[float(cell) for cell in row] for row in list(csv.reader(file))[1:]])

    X, Y = table("nutrimouse_gene.csv"), table("nutrimouse_lipid.csv")
    with pytest.warns(RankDeficiencyWarning, match=r"every correlation is trivially 1.*try reg="):
        cca = CCA(2).fit(X, Y)
    np.testing.assert_allclose(cca.canonical_correlations_, 1.0, atol=1e-6)
    assert CCA(2, reg=0.1).fit(X[::2], Y[::2]).score(X[1::2], Y[1::2]) > 0.5


def test_wilks_needs_what_it_needs():
    X, Y = latent(300, 5, 4)
    with pytest.raises(ValueError, match="reg=0"):
        CCA(2, reg=0.1).fit(X, Y).significance()
    with pytest.raises(ValueError, match="equal weight"):
        CCA(2).fit(X, Y, np.arange(300.0)).significance()
    with pytest.raises(ValueError, match=r"8 rows are too few.*at least 11"):
        wilks_tests(np.ones(4) / 2, 5, 4, 8)
    with pytest.raises(ValueError, match="equal weight"):
        CCA(2).partial_fit(X[:200], Y[:200], np.arange(200.0)).partial_fit(
            X[200:], Y[200:]
        ).significance()
    streamed = CCA(2).partial_fit(X[:200], Y[:200]).partial_fit(X[200:], Y[200:])
    np.testing.assert_allclose(
        streamed.significance().f_p, CCA(2).fit(X, Y).significance().f_p, rtol=1e-6
    )
    wide = np.random.default_rng(0).standard_normal((400, 300))
    with pytest.raises(ValueError, match="n_components=4"):
        CCA(1).fit(wide, Y[np.arange(400) % 300]).significance()
    with pytest.raises(ValueError, match="ranks of both views"):
        CCA(1).fit(sparse.csr_array(wide), wide[:, 0]).significance()
    F = CCA(1).fit(wide, wide[:, 0] + 10 * wide[::-1, 1]).significance()  # the F of a regression
    fit = LinearRegression().fit(wide, wide[:, 0] + 10 * wide[::-1, 1])
    R2 = fit.score(wide, wide[:, 0] + 10 * wide[::-1, 1])
    np.testing.assert_allclose(F.f, R2 / 300 / ((1 - R2) / (400 - 301)), rtol=1e-6)
    sure = CCA(4).fit(np.c_[X, Y], Y).significance()
    assert sure.f_p[0] == sure.chi2_p[0] == 0


def test_wilks_has_its_level():
    """Of 400 pairs of unrelated views about one in twenty is significant at 5 %."""
    rng = np.random.default_rng(0)
    p = [
        CCA(1).fit(rng.normal(size=(40, 3)), rng.normal(size=(40, 2))).significance().f_p[0]
        for _ in range(400)
    ]
    assert 8 <= np.sum(np.array(p) < 0.05) <= 34


def test_shares_of_variance_by_definition():
    X, Y = latent(p=6, q=5)
    cca = CCA(3, reg=0.5).fit(X, Y)
    U, V = cca.transform(X, Y)
    for view, own, other, explained, redundancy in (
        (X, U, V, cca.x_explained_variance_ratio_, cca.x_redundancy_),
        (Y, V, U, cca.y_explained_variance_ratio_, cca.y_redundancy_),
    ):
        total = view.var(axis=0).sum()
        for j in range(3):
            for scores, share in ((own, explained), (other, redundancy)):
                fitted = LinearRegression().fit(scores[:, [j]], view).predict(scores[:, [j]])
                np.testing.assert_allclose(share[j], fitted.var(axis=0).sum() / total, atol=1e-9)


# --- Kinds of input ----------------------------------------------------------------------------


@settings(max_examples=30)
@given(
    center=st.booleans(),
    scale=st.booleans(),
    weighted=st.booleans(),
    reg=st.sampled_from([0.0, 0.01]),
    seed=st.integers(0, 10**6),
)
def test_sparse_and_dense_agree(center, scale, weighted, reg, seed):
    rng = np.random.default_rng(seed)
    X, Y = latent(120, 7, 6, seed=seed)
    X, Y = (np.where(rng.random(view.shape) < 0.6, view, 0.0) for view in (X, Y))
    weights = rng.exponential(size=120) if weighted else None
    settings_ = {"center": center, "scale": scale, "reg": reg}
    dense = CCA(2, **settings_).fit(X, Y, weights)
    gap = CCA(3, **settings_).fit(X, Y, weights).canonical_correlations_
    if np.abs(np.diff(gap)).min() < 1e-3:
        return
    for convert in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        other = CCA(2, **settings_).fit(convert(X), convert(Y), weights)
        assert_same(other, dense)
        assert not sparse.issparse(other.transform(convert(X)))
        np.testing.assert_allclose(other.transform(convert(X)), dense.transform(X), atol=1e-8)
        np.testing.assert_allclose(other.predict(convert(X)), dense.predict(X), atol=1e-8)
        one, two = (cca.score(convert(X), convert(Y), weights) for cca in (other, dense))
        np.testing.assert_allclose(one, two, atol=1e-8)
    mixed = CCA(2, **settings_).fit(sparse.csr_array(X), Y, weights)
    assert_same(mixed, dense)


def test_iterations_on_sparse_views_agree_with_the_dense_solution():
    X, Y = topics(3000, 300)
    weights = np.random.default_rng(0).exponential(size=3000)
    settings_ = {"reg": 0.05, "scale": True, "tol": 1e-11, "random_state": 0}
    cca = CCA(3, method=Davidson(), **settings_).fit(X, Y, weights)
    dense = CCA(3, method=Dense(), **settings_).fit(X.toarray(), Y.toarray(), weights)
    assert len(cca.solution_.trace) > 0
    assert_same(cca, dense)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("form", [True, False])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_weighted_rows_in_every_method(convert, form, center):
    """Formed or streamed covariances, sampled rows: all count a row as often as its weight."""
    rng = np.random.default_rng(0)
    X, Y = (np.where(rng.random(view.shape) < 0.6, view, 0.0) for view in latent(300))
    counts = rng.integers(0, 4, 300)
    settings_ = {"k": 2, "reg": 0.05, "center": center}
    repeated = top_k_cca(*(np.repeat(V, counts, 0) for V in (X, Y)), **settings_)
    x, y = (as_rows(convert(view), sample_weight=counts) for view in (X, Y))
    for method in (
        Davidson(),
        CCALin(solver=solvers.SVRG()),
        CCALin(solver=solvers.SVRG(sampling="uniform")),
        CCALin(batch=50),
    ):
        pairs = top_k_cca(x, y, method=method, form=form, **settings_)
        np.testing.assert_allclose(pairs.correlations, repeated.correlations, atol=1e-9)
        np.testing.assert_allclose(np.abs(pairs.x_weights), np.abs(repeated.x_weights), atol=1e-5)


@settings(max_examples=15)
@given(center=st.booleans(), scale=st.booleans(), seed=st.integers(0, 10**6))
def test_weights_are_repetitions(center, scale, seed):
    rng = np.random.default_rng(seed)
    X, Y = latent(80, 4, 3, seed=seed)
    counts = rng.integers(0, 4, 80)
    repeated = CCA(2, center=center, scale=scale).fit(*(np.repeat(V, counts, 0) for V in (X, Y)))
    weighted = CCA(2, center=center, scale=scale).fit(X, Y, counts * 1e-3)
    assert_same(weighted, repeated)
    assert weighted.n_samples_seen_ == np.count_nonzero(counts)
    one = weighted.score(X, Y, counts)
    np.testing.assert_allclose(one, weighted.score(*(np.repeat(V, counts, 0) for V in (X, Y))))


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_float32_stays_and_agrees(convert):
    X, Y = latent(500, 20, 15, shared=5)
    X32, Y32 = X.astype(np.float32), Y.astype(np.float32)
    double = CCA(4).fit(X, Y)
    single = CCA(4).fit(convert(X32), convert(Y32))
    np.testing.assert_allclose(
        single.canonical_correlations_, double.canonical_correlations_, atol=1e-4
    )
    U, V = single.transform(convert(X32), convert(Y32))
    assert U.dtype == V.dtype == np.float32
    np.testing.assert_allclose(U, double.transform(X), atol=1e-3)


def test_float32_sums_do_not_lose_counts():
    """Products of sparse columns are summed in double precision."""
    X = np.full((200_000, 2), 0.1, np.float32)
    rows = as_rows(sparse.csr_array(X))
    moment = TwoView(rows, rows, center=False, form=True).S_x @ np.eye(2)
    np.testing.assert_allclose(moment, np.full((2, 2), float(X[0, 0]) ** 2), rtol=1e-10)


def test_frames_and_memory_maps(tmp_path):
    X, Y = latent()
    expected = CCA(2).fit(X, Y)
    names = [f"x{j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    cca = CCA(2).fit(frame, pd.DataFrame(Y))
    assert_same(cca, expected, 1e-14)
    assert list(cca.feature_names_in_) == names
    with pytest.raises(ValueError, match="feature names"):
        cca.transform(frame[names[::-1]])
    assert_same(CCA(2).fit(pl.DataFrame(X, schema=names), pl.DataFrame(Y)), expected, 1e-14)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert_same(CCA(2).fit(mapped, Y), expected, 1e-14)


def test_sparse_columns_of_pandas_stay_sparse(monkeypatch):
    X, Y = (np.where(np.abs(view) > 1, view, 0.0) for view in latent())
    frame = pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(X))
    seen = []
    monkeypatch.setattr(
        "genelin.estimators.cca.as_rows", lambda *a: seen.append(a[0]) or as_rows(*a)
    )
    cca = CCA(2).fit(frame, Y)
    assert sparse.issparse(seen[0])
    assert_same(cca, CCA(2).fit(X, Y))


def test_nothing_given_is_changed():
    X, Y = topics(300, 30)
    Y = Y.toarray()
    before = X.copy(), Y.copy()
    CCA(2, scale=True, copy=False).fit(X, Y, np.arange(300.0)).transform(X, Y)
    np.testing.assert_array_equal(X.toarray(), before[0].toarray())
    np.testing.assert_array_equal(Y, before[1])


SPARSE_FIT = """
import resource
import numpy as np
from scipy import sparse
from genelin import CCA
import genelin.kernels

def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def view(seed, n=100_000, d=50_000, stored=1_000_000):
    rng = np.random.default_rng(seed)
    shared = np.random.default_rng(9).integers(0, 3, n)
    i = np.r_[np.arange(n), rng.integers(0, n, stored - n)]
    j = np.r_[shared, rng.integers(0, d, stored - n)]
    return sparse.csr_array((np.ones(stored), (i, j)), shape=(n, d))

X, Y = view(1), view(2)
before = megabytes()
cca = CCA(2, reg=1e-2, tol=1e-2, random_state=0).fit(X, Y)
cca.transform(X, Y)
print(megabytes() - before, cca.solution_.converged)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is not in KiB here")
def test_memory_of_a_sparse_fit():
    """100,000 × 50,000 with a million nonzeros, centred: far below one dense block of it."""
    result = subprocess.run(
        [sys.executable, "-c", SPARSE_FIT], capture_output=True, text=True, check=True
    )
    grown, converged = result.stdout.split()
    assert converged == "True"
    assert float(grown) < 500


# --- Starting from what is known ---------------------------------------------------------------


def test_warm_start_begins_near_the_answer():
    X, Y = topics(6000, 2100)
    cca = CCA(2, reg=0.05, warm_start=True, random_state=0).fit(X, Y)
    for change, rows, nearer in (
        ({}, 6000, 1e-4),
        ({"reg": 0.06}, 6000, 0.5),
        ({}, 5900, 0.5),
        ({"n_components": 3}, 6000, 1.0),
    ):
        cca.set_params(**change).fit(X[:rows], Y[:rows])
        fresh = clone(cca).set_params(warm_start=False).fit(X[:rows], Y[:rows])
        warm, cold = (fit.solution_.trace for fit in (cca, fresh))
        assert len(warm) <= len(cold)
        assert warm[0].residual < nearer * cold[0].residual
        np.testing.assert_allclose(
            cca.canonical_correlations_, fresh.canonical_correlations_, atol=1e-9
        )
    assert len(cca.fit(X, Y).solution_.trace) == 1


def test_warm_start_with_other_features_starts_anew():
    X, Y = latent()
    cca = CCA(2, warm_start=True, method=Davidson()).fit(X, Y)
    cca.fit(X[:, :3], Y)
    assert_same(cca, CCA(2).fit(X[:, :3], Y), 1e-5)


@pytest.mark.filterwarnings("ignore::genelin.errors.RankDeficiencyWarning")
def test_warm_start_on_a_deficient_view():
    X, Y = latent()
    X = np.c_[X, X[:, 0]]
    cca = CCA(2, warm_start=True, method=Davidson()).fit(X, Y)
    first = cca.canonical_correlations_
    np.testing.assert_allclose(cca.fit(X, Y).canonical_correlations_, first, atol=1e-9)


def test_max_iter_reaches_the_method():
    X, Y = topics(4000, 2100)
    with pytest.warns(ConvergenceWarning, match="maximum of iterations"):
        cca = CCA(2, reg=0.01, max_iter=2, random_state=0).fit(X, Y)
    assert cca.n_iter_.tolist() == [2, 2]


def test_batches_add_up():
    X, Y = latent(500, 6, 5)
    weights = np.random.default_rng(0).exponential(size=500)
    for center in (True, False):
        for scale in (True, False):
            for given_weights in (None, weights):
                settings_ = {"center": center, "scale": scale, "reg": 0.1}
                streamed = CCA(2, **settings_)
                for rows in np.split(np.arange(500), [3, 150, 151, 400]):
                    part = None if given_weights is None else given_weights[rows]
                    streamed.partial_fit(sparse.csr_array(X[rows]), Y[rows], part)
                assert_same(streamed, CCA(2, **settings_).fit(X, Y, given_weights))
                assert streamed.n_samples_seen_ == 500


def test_moments_of_data_far_from_zero():
    """Merging keeps the digits that XᵀX − nμμᵀ would lose."""
    X, Y = latent(400, 3, 3)
    streamed, shift = CCA(2), 1e7
    for rows in np.split(np.arange(400), 8):
        streamed.partial_fit(X[rows] + shift, Y[rows] - shift)
    np.testing.assert_allclose(
        streamed.canonical_correlations_, CCA(2).fit(X, Y).canonical_correlations_, atol=1e-8
    )


def test_streaming_begins_and_ends_where_it_should():
    X, Y = latent()
    streamed = CCA(3).partial_fit(X[:2], Y[:2])
    with pytest.raises(NotFittedError):
        streamed.transform(X)
    streamed.partial_fit(X[2:], Y[2:])
    assert_same(streamed, CCA(3).fit(X, Y))
    with pytest.raises(ValueError, match="y has 2 columns"):
        streamed.partial_fit(X, Y[:, :2])
    fitted = CCA(3).fit(X, Y)
    with pytest.warns(UserWarning, match="begins anew"):
        fitted.partial_fit(X[:100], Y[:100])
    assert_same(fitted, CCA(3).fit(X[:100], Y[:100]))


@pytest.mark.filterwarnings("ignore::genelin.errors.RankDeficiencyWarning")
def test_streamed_deficient_views():
    X, Y = latent()
    X = np.c_[X, X[:, 0], np.ones(200)]
    streamed = CCA(2)
    for rows in np.split(np.arange(200), 4):
        streamed.partial_fit(X[rows], Y[rows])
    np.testing.assert_allclose(
        streamed.canonical_correlations_, CCA(2).fit(X, Y).canonical_correlations_, atol=1e-9
    )


def test_wide_streams_improve():
    """Beyond the size of moments: exact while all rows are held, then better with more of them."""
    d = MOST_FEATURES + 4
    X, Y = topics(12_000, d)
    exact = CCA(2, reg=0.05, random_state=0).fit(X, Y)
    problem = TwoView(X, Y, reg=0.05)
    streamed, sines = CCA(2, reg=0.05, random_state=0), []
    for rows in np.split(np.arange(12_000), [1500, 5000]):
        streamed.partial_fit(X[rows], Y[rows])
        sines.append(measures.sin_theta_x(problem, streamed.x_weights_, exact.x_weights_))
    assert isinstance(streamed._stream, Reservoir)
    assert sines[0] > sines[1] > sines[2]
    assert sines[2] < 1e-4
    np.testing.assert_allclose(
        streamed.canonical_correlations_, exact.canonical_correlations_, atol=1e-8
    )


def test_full_reservoirs_still_learn(monkeypatch):
    """A sample of 1500 of 10,000 rows is as good as 1500 rows, wherever they stood."""
    monkeypatch.setattr("genelin.estimators.cca.MOST_FEATURES", 2)
    monkeypatch.setattr(Reservoir.__init__, "__defaults__", (1500 * 9,))
    X, Y = latent(10_000)
    X[:100], Y[:100] = 0.0, 0.0  # a stream that begins badly
    problem, exact = TwoView(X, Y), CCA(2).fit(X, Y)
    streamed, sines = CCA(2, random_state=0), []
    for rows in np.split(np.arange(10_000), [250, 2000, 5000]):
        streamed.partial_fit(X[rows], Y[rows])
        sines.append(measures.sin_theta_x(problem, streamed.x_weights_, exact.x_weights_))
    assert streamed._stream.counted == 1500
    assert streamed.n_samples_seen_ == 10_000
    assert sines[-1] < 0.5 * sines[0]
    np.testing.assert_allclose(
        streamed.canonical_correlations_, exact.canonical_correlations_, atol=0.03
    )


def test_a_reservoir_is_fair():
    """Every row has the same chance to be kept, whichever batch it came in."""
    counts = np.zeros(120)
    for seed in range(300):
        kept = Reservoir(seed, numbers=60)
        for rows in np.split(np.arange(120.0), [50, 55, 100]):
            kept.add(rows[:, None], rows[:, None], np.ones(len(rows)))
        assert kept.X.shape == (30, 1)
        np.testing.assert_array_equal(kept.X, kept.Y)
        counts[kept.X[:, 0].astype(int)] += 1
    assert counts.sum() == 300 * 30
    early, late = counts[:50].mean(), counts[100:].mean()
    assert abs(early - 75) < 6  # one in four; the mean of 50 counts has a deviation of 1
    assert abs(late - 75) < 9


def test_moments_as_rows_have_the_moments():
    X, Y = latent(50, 4, 3)
    moments, both = Moments(), np.c_[X, Y]
    moments.add(as_rows(X), as_rows(Y), 50.0)
    for center, expected in ((True, np.cov(both.T, bias=True)), (False, both.T @ both / 50)):
        x, y = moments.rows(np.ones(7), center)
        Z = np.c_[x.matrix, y.matrix]
        np.testing.assert_allclose(Z.T @ Z / x.n, expected, atol=1e-12)


# --- Data that do not span their columns -------------------------------------------------------


def test_constant_and_duplicated_columns():
    X, Y = latent()
    worse = np.c_[X, np.full(200, 3.0), X[:, 1]]
    with pytest.warns(
        RankDeficiencyWarning, match=r"1 of its 7 columns are constant \(5\).*rank 5"
    ):
        cca = CCA(2).fit(worse, Y)
    expected = CCA(2).fit(X, Y)
    np.testing.assert_allclose(
        cca.canonical_correlations_, expected.canonical_correlations_, atol=1e-12
    )
    assert apart(cca.transform(worse), expected.transform(X)) < 1e-8
    assert np.all(cca.x_weights_[5] == 0)
    np.testing.assert_allclose(cca.predict(worse), expected.predict(X), atol=1e-8)
    changed = worse.copy()
    changed[:, 5] = 100.0  # what was constant says nothing
    np.testing.assert_allclose(cca.transform(changed), cca.transform(worse))


def test_more_components_than_the_rank():
    X, Y = latent()
    with pytest.raises(ValueError, match=r"n_components=3 is more than the numerical rank 2 of X"):
        CCA(3).fit(np.c_[X[:, :2], X[:, :2]], Y)


def test_more_features_than_rows_with_a_ridge_is_quiet():
    X, Y = latent(30, 50, 40)
    cca = CCA(2, reg=0.5).fit(X, Y)
    assert np.all(cca.canonical_correlations_ < 1)
    assert np.all(cca.score_correlations_ >= cca.canonical_correlations_)


# --- What it says ------------------------------------------------------------------------------


def test_verbose_says_how_it_goes(capsys):
    X, Y = latent()
    CCA(2).fit(X, Y)
    assert capsys.readouterr().out == ""
    CCA(2, method=CCALin(), verbose=2).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("iteration 1: residual")
    assert lines[-1].startswith("converged after")
    CCA(2, verbose=1).fit(X, Y)
    assert capsys.readouterr().out.startswith("converged after 1 iterations")


def test_a_bar_of_rich(capsys):
    X, Y = latent()
    with Progress(1e-6, rich=True) as progress:
        solution = top_k_cca(X, Y, 2, method=CCALin(), callback=progress)
        progress.finish(solution)
    assert "converged after" in capsys.readouterr().out


def test_plain_lines_without_rich(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    X, Y = latent()
    with Progress(1e-6, every=0, rich=True) as progress:
        top_k_cca(X, Y, 2, method=CCALin(), callback=progress)
    assert "iteration 2: residual" in capsys.readouterr().out


BAD = {
    "too many": ({"n_components": 5}, ValueError, "`n_components` upper bound is 4"),
    "none": ({"n_components": 0}, ValueError, "n_components=0 must be at least 1"),
    "a fraction": ({"n_components": 1.5}, TypeError, "n_components=1.5 must be an integer"),
    "reg": ({"reg": -1.0}, ValueError, "reg=-1.0"),
    "three regs": ({"reg": (1, 2, 3)}, ValueError, "one number or a pair"),
    "both": ({"reg": 1.0, "shrinkage": 0.5}, ValueError, "exclude each other"),
    "shrinkage": ({"shrinkage": 1.5}, ValueError, "at most 1"),
    "center": ({"center": "yes"}, TypeError, "center='yes' must be True or False"),
    "tol": ({"tol": 2.0}, ValueError, "tol=2.0"),
    "max_iter": ({"max_iter": 0}, ValueError, "max_iter=0"),
    "method": ({"method": Davidson}, TypeError, "not an eigen method"),
    "verbose": ({"verbose": -1}, ValueError, "verbose=-1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_settings(case):
    changes, error, message = BAD[case]
    X, Y = latent()
    with pytest.raises(error, match=message):
        CCA(**changes).fit(X, Y)


def test_bad_data():
    X, Y = latent()
    cca = CCA(2).fit(X, Y)
    spoiled = Y.copy()
    spoiled[7, 2] = np.nan
    for call, message in (
        (lambda: CCA(2).fit(X, spoiled), "y has NaN at row 7, column 2"),
        (lambda: CCA(2).fit(X, Y[:-1]), "inconsistent numbers of samples"),
        (lambda: CCA(2).fit(X, Y, -np.ones(200)), "sample_weight.*none negative"),
        (lambda: CCA(2).fit(X, Y, np.ones(3)), "sample_weight must be 200"),
        (lambda: CCA(2).fit(X, Y, np.zeros(200)), "sample_weight is zero"),
        (lambda: cca.transform(X, Y[:, :2]), "y has 2 columns, but CCA was fitted with 4"),
        (lambda: cca.score(X[:1], Y[:1]), "two rows"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_weights_of_indicators():
    """Diagonal covariances, solved by one sparse SVD."""
    rng = np.random.default_rng(0)
    word = rng.integers(0, 12, 400)
    following = np.where(rng.random(400) < 0.6, (word * 5 + 1) % 12, rng.integers(0, 12, 400))
    X, Y = (sparse.csr_array(np.eye(12)[words]) for words in (word, following))
    counts = rng.integers(0, 3, 400)
    x, y = (as_rows(view, sample_weight=counts) for view in (X, Y))
    weighted = top_k_cca(x, y, 3, center=False, reg=1e-3, method=WhitenedSVD())
    rows = np.repeat(np.arange(400), counts)
    repeated = top_k_cca(X[rows], Y[rows], 3, center=False, reg=1e-3)
    np.testing.assert_allclose(weighted.correlations, repeated.correlations, atol=1e-10)


def test_views_must_share_their_weights():
    X, Y = latent()
    x, y = as_rows(X, "X", np.arange(200)), as_rows(Y, "Y")
    with pytest.raises(ValueError, match="different row weights"):
        top_k_cca(x, y, 1)
