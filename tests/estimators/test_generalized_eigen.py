import pickle
import tracemalloc

import numpy as np
import pytest
import sklearn
from scipy import linalg, sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from genelin import (
    Davidson,
    GenELinK,
    GeneralizedEigen,
    NotPositiveDefiniteError,
    RankDeficiencyWarning,
    solvers,
)
from genelin.linalg import sin_theta

EXACT = 1e-8


@pytest.mark.filterwarnings("ignore::genelin.RankDeficiencyWarning")  # two classes, dependent
@pytest.mark.filterwarnings("ignore::genelin.ConvergenceWarning")  # features: their smallest is 0
@parametrize_with_checks(
    [
        GeneralizedEigen(),
        GeneralizedEigen(criterion="class-pairs", reg=0.1),
        GeneralizedEigen(criterion="class-pairs", which="LA", shrinkage=0.1, center=True),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# --- Against dense references ----------------------------------------------------------------


def covariance(X, center=True):
    X = np.asarray(X, dtype=float)
    X = X - X.mean(axis=0) if center else X
    return X.T @ X / len(X)


def ends(A, B, k, which="LA"):
    values, vectors = linalg.eigh(A, B)
    chosen = slice(None, None, -1) if which == "LA" else slice(None)
    return values[chosen][:k], vectors[:, chosen][:, :k]


def assert_same(fitted, values, vectors, B, limit=EXACT):
    assert np.abs(fitted.eigenvalues_ - values).max() <= limit * np.abs(values).max()
    assert sin_theta(fitted.rotations_, vectors, B) <= limit
    gram = fitted.components_ @ B @ fitted.rotations_
    assert np.allclose(gram, np.eye(len(gram)), atol=1e-8)


def two_sets(seed=0, n=150, m=400, d=12):
    """Data of different spectra, sizes and means."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + 3.0
    background = rng.standard_normal((m, d)) @ rng.standard_normal((d, d)) - 1.0
    return X, background


def sparse_classes(n=400, d=30, classes=3, seed=0):
    """Counts with many zeros whose rates depend on the class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    rates = rng.gamma(0.6, 1.0, (classes, d)) + 0.05
    return rng.poisson(rates[y]).astype(float), y


@pytest.mark.parametrize("which", ["LM", "LA", "SA"])
@pytest.mark.parametrize("center", [None, False])
def test_background_is_the_generalized_eigenproblem(which, center):
    X, background = two_sets()
    fitted = GeneralizedEigen(3, which=which, reg=0.1, center=center).fit(X, background=background)
    A, B = (covariance(data, center is None) for data in (X, background))
    B += 0.1 * np.eye(len(B))
    assert_same(fitted, *ends(A, B, 3, "LA" if which == "LM" else which), B)
    ratios = np.array([w @ A @ w / (w @ B @ w) for w in fitted.components_])
    assert np.allclose(ratios, fitted.eigenvalues_, rtol=EXACT)
    assert fitted.solution_.converged
    assert not hasattr(fitted, "classes_")


def test_both_ends():
    X, background = two_sets()
    both = GeneralizedEigen(5, which="BE").fit(X, background=background)
    A, B = covariance(X), covariance(background)
    values = linalg.eigh(A, B, eigvals_only=True)
    assert np.allclose(both.eigenvalues_, [*values[:-4:-1], *values[:2]], rtol=EXACT)
    assert len(both.solution_.residuals) == 5
    alone = GeneralizedEigen(1, which="BE").fit(X, background=background)
    assert np.allclose(alone.eigenvalues_, values[-1], rtol=EXACT)


@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_lda_agrees_with_scikit_learn(load):
    X, y = load(return_X_y=True)
    theirs = LinearDiscriminantAnalysis(solver="eigen", store_covariance=True).fit(X, y)
    ours = GeneralizedEigen(2).fit(X, y)
    within = theirs.covariance_
    assert sin_theta(ours.rotations_, theirs.scalings_[:, :2], within) <= EXACT
    values = linalg.eigh(covariance(X) - within, within, eigvals_only=True)[::-1][:2]
    assert np.allclose(ours.eigenvalues_, values, rtol=EXACT)
    shares = ours.eigenvalues_ / ours.eigenvalues_.sum()
    assert np.allclose(shares, theirs.explained_variance_ratio_, rtol=EXACT)
    scores, theirs_scores = ours.transform(X), theirs.transform(X)
    signs = np.sign(np.sum(scores * (theirs_scores - theirs_scores.mean(axis=0)), axis=0))
    assert np.allclose(scores * signs, theirs_scores - theirs_scores.mean(axis=0), atol=1e-8)


def test_lda_with_text_labels_and_unequal_classes():
    X, y = load_wine(return_X_y=True)
    kept = np.r_[0:59, 59:80, 130:178]
    names = np.array(["barolo", "grignolino", "barbera"])[y[kept]]
    ours = GeneralizedEigen(2).fit(X[kept], names)
    theirs = LinearDiscriminantAnalysis(solver="eigen", store_covariance=True).fit(X[kept], names)
    assert ours.classes_.tolist() == ["barbera", "barolo", "grignolino"]
    assert sin_theta(ours.rotations_, theirs.scalings_[:, :2], theirs.covariance_) <= EXACT


@pytest.mark.parametrize("which", ["LA", "SA", "BE"])
def test_common_spatial_patterns(which):
    X, y = load_wine(return_X_y=True)
    X, y = X[y < 2], y[y < 2]
    first, second = covariance(X[y == 0]), covariance(X[y == 1])
    fitted = GeneralizedEigen(4, criterion="csp", which=which).fit(X, y)
    values, vectors = linalg.eigh(first, first + second)
    wanted = {"LA": [-1, -2, -3, -4], "SA": [0, 1, 2, 3], "BE": [-1, -2, 0, 1]}[which]
    assert_same(fitted, values[wanted], vectors[:, wanted], first + second)
    assert np.all((fitted.eigenvalues_ > 0) & (fitted.eigenvalues_ < 1))
    scores = fitted.transform(X)  # the ratio is the share of the first class in the variance
    shares = scores[y == 0].var(axis=0) / (scores[y == 0].var(axis=0) + scores[y == 1].var(axis=0))
    assert np.allclose(shares, fitted.eigenvalues_, rtol=1e-6)


@pytest.mark.parametrize("ridge", [{"reg": 0.5}, {"shrinkage": 0.05}])
def test_class_pairs_against_one_eigh_per_pair(ridge):
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 4], y[y < 4]
    fitted = GeneralizedEigen(3, criterion="class-pairs", **ridge).fit(X, y)
    assert fitted.components_.shape == (4 * 3 * 3, 64)
    assert len(fitted.get_feature_names_out()) == 36
    places = [(i, j) for i in range(4) for j in range(4) if i != j]
    for place, (i, j) in enumerate(places):
        own = slice(3 * place, 3 * place + 3)
        assert fitted.class_pairs_[own].tolist() == [[i, j]] * 3
        A, S = covariance(X[y == i], center=False), covariance(X[y == j], center=False)
        s = ridge.get("shrinkage", 0.0)
        B = (1 - s) * S + (ridge.get("reg", 0.0) + s * np.trace(S) / 64) * np.eye(64)
        values, vectors = ends(A, B, 3)
        assert np.allclose(fitted.eigenvalues_[own], values, rtol=EXACT)
        assert sin_theta(fitted.rotations_[:, own], vectors, B) <= EXACT
    assert np.array_equal(fitted.mean_, np.zeros(64))


def test_class_pair_features_help_a_linear_classifier():
    X, y = load_digits(return_X_y=True)
    train = np.arange(len(X)) % 2 == 0
    gem = GeneralizedEigen(2, criterion="class-pairs", shrinkage=0.05).fit(X[train], y[train])
    features = np.sqrt(np.abs(gem.transform(X)))
    plain = LogisticRegression(max_iter=2000).fit(X[train] / 16, y[train])
    lifted = LogisticRegression(max_iter=2000).fit(features[train], y[train])
    gain = lifted.score(features[~train], y[~train]) - plain.score(X[~train] / 16, y[~train])
    assert gain > 0.01


# --- Sparse data -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"criterion": "lda"},
        {"criterion": "csp", "which": "BE", "n_components": 4},
        {"criterion": "class-pairs", "reg": 0.1},
        {"criterion": "class-pairs", "shrinkage": 0.1, "center": True},
        {"criterion": "lda", "method": Davidson()},
    ],
    ids=lambda settings: " ".join(map(str, settings.values())),
)
def test_sparse_is_dense(settings):
    X, y = sparse_classes(classes=2 if settings["criterion"] == "csp" else 3)
    dense = GeneralizedEigen(tol=1e-11, random_state=0).set_params(**settings).fit(X, y)
    for kind in (sparse.csr_array, sparse.csc_matrix):
        other = clone(dense).fit(kind(X), y)
        assert np.abs(other.eigenvalues_ - dense.eigenvalues_).max() < EXACT * 10
        assert np.abs(other.transform(kind(X)) - dense.transform(X)).max() < 1e-6
        for own in range(0, len(dense.components_), 2):
            spans = (fit.rotations_[:, own : own + 2] for fit in (dense, other))
            assert sin_theta(*spans, np.eye(X.shape[1])) < EXACT


def test_sparse_background_is_dense():
    X, y = sparse_classes()
    dense = GeneralizedEigen(3, reg=0.01).fit(X[y == 0], background=X[y > 0])
    other = clone(dense).fit(sparse.csr_array(X[y == 0]), background=sparse.coo_array(X[y > 0]))
    assert np.allclose(dense.eigenvalues_, other.eigenvalues_, rtol=EXACT)
    assert sin_theta(dense.rotations_, other.rotations_, np.eye(30)) < EXACT


def wide_classes(n=3000, d=2500, classes=4):
    """More features than are factored without a thought, each row a few of them."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, n)
    X = sparse.random_array((n, d), density=0.004, rng=1, format="csr")
    marks = (np.full(n, 0.7), (np.arange(n), 5 * y + rng.integers(0, 5, n)))
    return sparse.csr_array(X + sparse.csr_array(marks, shape=(n, d))), y


def test_many_features_without_forming_them():
    X, y = wide_classes()
    tracemalloc.start()
    fitted = GeneralizedEigen(3, reg=0.01, random_state=0).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6  # X as a dense array takes 60 MB, its covariance 50 MB
    assert len(fitted.solution_.trace) > 0
    dense, n = X.toarray(), len(y)
    shares = np.bincount(y) / n
    means = np.array([dense[y == c].mean(axis=0) for c in range(4)])
    residuals = dense - means[y]
    within = residuals.T @ residuals / n + 0.01 * np.eye(X.shape[1])
    M = (np.sqrt(shares)[:, None] * (means - dense.mean(axis=0))).T  # between = MMᵀ, of rank 3
    solved = linalg.solve(within, M, assume_a="pos")
    values, U = linalg.eigh(M.T @ solved)
    assert np.allclose(fitted.eigenvalues_, values[:0:-1], rtol=EXACT)
    assert sin_theta(fitted.rotations_, solved @ U[:, 1:], within) < 1e-6


def test_few_rows_of_many_features_are_refused_at_once():
    X, y = wide_classes(n=300)
    with pytest.raises(
        NotPositiveDefiniteError, match=r"300 rows of 2500 features.*reg="
    ) as caught:
        GeneralizedEigen(2).fit(X, y)
    reg = float(str(caught.value).split("reg=")[1].split()[0])
    assert GeneralizedEigen(2, reg=reg).fit(X, y).solution_.converged


# --- Methods, precision, seeds ---------------------------------------------------------------


@pytest.mark.parametrize(
    "method", [Davidson(), GenELinK(), GenELinK(solver=solvers.SVRG())], ids=["D", "K", "SVRG"]
)
def test_any_method_finds_the_same(method):
    X, background = two_sets(d=6)
    dense = GeneralizedEigen(2, reg=1.0).fit(X, background=background)
    fitted = GeneralizedEigen(2, reg=1.0, method=method, tol=1e-6, random_state=0)
    fitted.fit(X, background=background)
    assert np.allclose(fitted.eigenvalues_, dense.eigenvalues_, rtol=1e-6)
    assert np.allclose(fitted.components_, dense.components_, atol=1e-4)
    again = clone(fitted).fit(X, background=background)
    assert np.array_equal(fitted.components_, again.components_)


def test_traces_of_several_problems_follow_each_other():
    X, y = sparse_classes()
    fitted = GeneralizedEigen(1, criterion="class-pairs", reg=0.1, method=Davidson()).fit(X, y)
    trace = fitted.solution_.trace
    assert trace.column("iteration").tolist() == list(range(1, len(trace) + 1))
    for name in ("seconds", "passes", "applications"):
        assert np.all(np.diff(trace.column(name)) >= 0)
    assert fitted.solution_.cost.passes >= trace[-1].passes


def test_single_precision():
    X, y = load_wine(return_X_y=True)
    double = GeneralizedEigen(2).fit(X, y)
    single = GeneralizedEigen(2).fit(X.astype(np.float32), y)
    assert np.allclose(single.eigenvalues_, double.eigenvalues_, rtol=1e-4)
    assert single.transform(X.astype(np.float32)).dtype == np.float32


def test_pickle():
    X, y = load_iris(return_X_y=True)
    fitted = GeneralizedEigen().fit(X, y)
    copy = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(copy.transform(X), fitted.transform(X))
    assert copy.solution_.status is fitted.solution_.status


# --- Dependent features, few rows ------------------------------------------------------------


def test_dependent_features_are_solved_on_their_range():
    X, y = load_iris(return_X_y=True)
    plain = GeneralizedEigen(2).fit(X, y)
    worse = np.c_[X, np.full(len(X), 7.0), X[:, 0] * 3, X[:, 1] - X[:, 2]]
    with pytest.warns(RankDeficiencyWarning, match=r"7 features have numerical rank 4.*reg=") as w:
        fitted = GeneralizedEigen(2).fit(worse, y)
    assert w[0].filename == __file__  # it points at the call of fit
    assert np.allclose(fitted.eigenvalues_, plain.eigenvalues_, rtol=1e-8)
    assert np.allclose(np.abs(fitted.transform(worse)), np.abs(plain.transform(X)), atol=1e-6)
    with pytest.warns(RankDeficiencyWarning):
        spare = GeneralizedEigen(2).fit(sparse.csr_array(worse), y)
    assert np.allclose(spare.eigenvalues_, plain.eigenvalues_, rtol=1e-8)
    with pytest.raises(ValueError, match="n_components=5 is more than the numerical rank 4"):
        GeneralizedEigen(5).fit(worse, background=worse[::2])


def test_an_unbounded_ratio_is_refused_with_a_remedy():
    X, background = two_sets(n=100, m=8)
    with pytest.raises(NotPositiveDefiniteError, match=r"8 rows of 12 features.*reg=") as caught:
        GeneralizedEigen(2).fit(X, background=background)
    reg = float(str(caught.value).split("reg=")[1].split()[0])
    assert GeneralizedEigen(2, reg=reg).fit(X, background=background).solution_.converged
    assert GeneralizedEigen(2, shrinkage=0.01).fit(X, background=background).solution_.converged
    background = two_sets()[1]
    background[:, 4] = 1.0  # constant there, not in X
    with pytest.raises(NotPositiveDefiniteError, match="covariance of the background"):
        GeneralizedEigen(2).fit(X, background=background)
    counts, y = sparse_classes(classes=2)
    counts[y == 1, 3] = 0.0
    with pytest.raises(NotPositiveDefiniteError, match=r"the moment of class 1, from 200 rows"):
        GeneralizedEigen(2, criterion="class-pairs").fit(counts, y)


def test_as_many_discriminants_as_there_are():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(RankDeficiencyWarning, match="3 classes have only 2 linear discriminants"):
        fitted = GeneralizedEigen(4).fit(X, y)
    assert fitted.transform(X).shape == (150, 2)


# --- In scikit-learn's company ---------------------------------------------------------------


def test_names_and_frames():
    pandas = pytest.importorskip("pandas")
    frame, y = load_iris(return_X_y=True, as_frame=True)
    fitted = GeneralizedEigen(2).set_output(transform="pandas").fit(frame, y)
    assert fitted.feature_names_in_.tolist() == list(frame.columns)
    scores = fitted.transform(frame)
    assert isinstance(scores, pandas.DataFrame)
    assert list(scores.columns) == ["generalizedeigen0", "generalizedeigen1"]
    with pytest.raises(ValueError, match="background does not fit X: The feature names"):
        fitted.fit(frame, background=frame.rename(columns=str.upper))


def test_pipeline_and_grid_search():
    X, y = load_wine(return_X_y=True)
    model = make_pipeline(StandardScaler(), GeneralizedEigen(), LogisticRegression())
    grid = {"generalizedeigen__reg": [1e-3, 1e-1], "generalizedeigen__n_components": [1, 2]}
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.95
    assert search.best_params_["generalizedeigen__n_components"] == 2


def test_background_is_routed():
    X, background = two_sets()
    y = np.arange(len(X)) % 2
    with sklearn.config_context(enable_metadata_routing=True):
        step = GeneralizedEigen(2).set_fit_request(background=True)
        model = make_pipeline(StandardScaler(), step, LogisticRegression())
        model.set_params(transform_input=["background"])
        model.fit(X, y, background=background)
        scaler = StandardScaler().fit(X)
        alone = GeneralizedEigen(2).fit(
            scaler.transform(X), background=scaler.transform(background)
        )
        assert np.allclose(model[1].eigenvalues_, alone.eigenvalues_, rtol=1e-10)
        scores = make_pipeline(clone(step)).fit_transform(X, background=background)
    direct = GeneralizedEigen(2).fit_transform(X, background=background)
    assert np.allclose(scores, direct)


def test_a_refit_forgets_classes():
    X, y = load_iris(return_X_y=True)
    fitted = GeneralizedEigen(1, criterion="class-pairs", reg=0.1).fit(X, y)
    assert fitted.class_pairs_.shape == (6, 2)
    fitted.fit(X, background=X[::2])
    assert not hasattr(fitted, "classes_")
    assert not hasattr(fitted, "class_pairs_")
    fitted.set_params(criterion="lda").fit(X, y)
    assert not hasattr(fitted, "class_pairs_")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 0}, "n_components=0"),
        ({"n_components": 1.5}, "n_components=1.5"),
        ({"n_components": 5}, "n_components=5 must be at most n_features=4"),
        ({"which": "XX"}, "which='XX' is not known"),
        ({"criterion": "qda"}, "criterion='qda' is not known"),
        ({"which": "SA"}, "the between-class scatter has rank 2 at most"),
        ({"criterion": "csp"}, "needs two classes, y has 3"),
        ({"center": False}, "center=False has no meaning"),
        ({"center": "yes"}, "center='yes'"),
        ({"reg": -1.0}, "reg=-1.0"),
        ({"reg": np.nan}, "reg=nan"),
        ({"reg": "big"}, "reg='big'"),
        ({"shrinkage": 1.5}, "shrinkage=1.5"),
        ({"reg": 1.0, "shrinkage": 0.5}, "exclude each other"),
        ({"tol": 2.0}, "tol=2.0"),
    ],
)
def test_bad_parameters(settings, message):
    X, y = load_iris(return_X_y=True)
    kind = TypeError if settings.get("center") == "yes" else ValueError
    with pytest.raises(kind, match=message):
        GeneralizedEigen().set_params(**settings).fit(X, y)


def test_no_smallest_ratio_among_zeros():
    X, background = two_sets(n=12)
    for which in ("SA", "BE"):
        with pytest.raises(ValueError, match="the covariance of X has rank 11 at most"):
            GeneralizedEigen(2, which=which).fit(X, background=background)
    GeneralizedEigen(2, which="SA", center=False).fit(X, background=background)


def test_extreme_numbers_are_refused():
    X, y = load_iris(return_X_y=True)
    for factor in (1e160, 1e-160):
        with pytest.raises(ValueError, match="X has numbers of the order"):
            GeneralizedEigen().fit(X * factor, y)
        with pytest.raises(ValueError, match="background has numbers of the order"):
            GeneralizedEigen().fit(X, background=X * factor)
    small = GeneralizedEigen().fit(X * 1e-40, y)
    assert np.allclose(small.eigenvalues_, GeneralizedEigen().fit(X, y).eigenvalues_, rtol=1e-8)


def test_far_from_zero():
    X, y = load_iris(return_X_y=True)
    near = GeneralizedEigen().fit(X, y)
    for far in (X + 1e6, sparse.csr_array(X + 1e6)):
        assert np.allclose(
            GeneralizedEigen().fit(far, y).eigenvalues_, near.eigenvalues_, rtol=1e-8
        )


def test_bad_data():
    X = load_iris().data
    with pytest.raises(ValueError, match=r"requires y to be passed.*background="):
        GeneralizedEigen().fit(X)
    with pytest.raises(ValueError, match="y has one class"):
        GeneralizedEigen().fit(X, np.ones(len(X)))
    with pytest.raises(ValueError, match="Unknown label type"):
        GeneralizedEigen().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="background does not fit X: X has 3 features"):
        GeneralizedEigen().fit(X, background=X[:, :3])
    with pytest.raises(ValueError, match="background does not fit X: Input X contains NaN"):
        GeneralizedEigen().fit(X, background=np.full((5, 4), np.nan))
