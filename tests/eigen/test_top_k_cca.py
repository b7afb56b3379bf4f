import csv
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, sparse

from cases import EPS, SLOW, SOLVERS, orthogonal, spd
from genelin import (
    CCALin,
    Dense,
    GenELinK,
    RankDeficiencyWarning,
    Status,
    TwoView,
    measures,
    solvers,
    top_k_cca,
)
from genelin.operators import Rows

LOCALLY_OPTIMAL = CCALin(locally_optimal=True, reduction=1e-2)


def reference(X, Y, k, reg=0.0, center=True):
    """Exact correlations and weights: the SVD of the whitened cross-covariance."""
    if center:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    n = len(X)
    whiten = []
    for Z in (X, Y):
        L = linalg.cholesky(Z.T @ Z / n + reg * np.eye(Z.shape[1]), lower=True)
        whiten.append(linalg.solve_triangular(L, np.eye(len(L)), lower=True).T)
    U, sigma, Vt = linalg.svd(whiten[0].T @ (X.T @ Y / n) @ whiten[1])
    return sigma, whiten[0] @ U[:, :k], whiten[1] @ Vt[:k].T


def two_views(correlations, d1, d2, kappa, n=400, seed=0):
    """Data whose canonical correlations are exactly the given ones, centred or not."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(np.c_[np.ones(n), rng.standard_normal((n, d1 + d2))])[0][:, 1:]
    Zx, Zy = Q[:, :d1], Q[:, d1:].copy()
    for j, rho in enumerate(correlations):
        Zy[:, j] = rho * Zx[:, j] + np.sqrt(1 - rho**2) * Zy[:, j]
    Mx, My = spd(rng, d1, kappa**0.5)[0], spd(rng, d2, kappa**0.5)[0]
    shift = rng.standard_normal(d1), rng.standard_normal(d2)
    return np.sqrt(n) * Zx @ Mx + shift[0], np.sqrt(n) * Zy @ My + shift[1]


def assert_right(pairs, X, Y, k, reg=0.0, center=True, tol=1e-7):
    sigma, Vx, Vy = reference(X, Y, k, reg, center)
    assert pairs.converged
    np.testing.assert_allclose(pairs.correlations, sigma[:k], atol=tol)
    problem = TwoView(X, Y, reg, center)
    bound = max(pairs.sin_theta_bound, 1e-9)
    assert measures.sin_theta_x(problem, pairs.x_weights, Vx) <= bound
    assert measures.sin_theta_y(problem, pairs.y_weights, Vy) <= bound
    for S, W in ((problem.S_x, pairs.x_weights), (problem.S_y, pairs.y_weights)):
        np.testing.assert_allclose(W.T @ (S @ W), np.eye(k), atol=1e-8)
    cross = pairs.x_weights.T @ (problem.S_xy @ pairs.y_weights)
    np.testing.assert_allclose(cross, np.diag(pairs.correlations), atol=1e-5)


# --- Against the exact answer ------------------------------------------------------------------


@pytest.mark.parametrize("projection", ["ritz", "random"])
@pytest.mark.parametrize("name", SOLVERS)
def test_ccalin_is_right_with_every_solver(name, projection):
    solver, max_kappa = SOLVERS[name]

    @settings(max_examples=2 if name in SLOW else 5)
    @given(
        d1=st.integers(3, 12),
        d2=st.integers(3, 12),
        k=st.integers(1, 3),
        log_kappa=st.floats(0, np.log10(max_kappa)),
        seed=st.integers(0, 10**6),
    )
    def check(d1, d2, k, log_kappa, seed):
        correlations = [0.95, 0.9, 0.8, 0.5, 0.3][: min(d1, d2)]
        X, Y = two_views(correlations, d1, d2, 10**log_kappa, seed=seed)
        method = CCALin(solver=solver, projection=projection)
        assert_right(top_k_cca(X, Y, k, method=method, tol=1e-6), X, Y, k, tol=1e-6)

    check()


@pytest.mark.parametrize("name", SOLVERS)
def test_ccalin_meets_the_bars_of_pencils(name):
    """Values to max(1e-8, 10κ·eps), sines to max(1e-6, 10κ·eps/ρ); k up to the smaller view."""
    solver, max_kappa = SOLVERS[name]

    @settings(max_examples=6 if name in SLOW else 25)
    @given(
        d1=st.integers(2, 30),
        d2=st.integers(2, 30),
        log_kappa=st.floats(0, np.log10(max_kappa)),
        rho=st.floats(0.05, 0.9),
        seed=st.integers(0, 10**6),
    )
    def check(d1, d2, log_kappa, rho, seed):
        rng, kappa = np.random.default_rng(seed), 10**log_kappa
        k = int(rng.integers(1, min(d1, d2) + 1))
        top = np.r_[np.sort(rng.uniform(0.5, 0.98, k - 1))[::-1], 0.5]
        rest = np.sort(rng.uniform(0, 0.5 * (1 - rho), min(d1, d2) - k))[::-1]
        rest[:1] = 0.5 * (1 - rho)
        X, Y = two_views(np.r_[top, rest], d1, d2, kappa, seed=seed)
        pairs = top_k_cca(X, Y, k, method=CCALin(solver=solver), tol=1e-8)
        sigma, Vx, Vy = reference(X, Y, k)
        problem, limit = TwoView(X, Y), 10 * kappa * EPS
        assert pairs.converged
        assert np.abs(pairs.correlations - sigma[:k]).max() <= max(1e-8, limit) * sigma[0]
        assert measures.sin_theta_x(problem, pairs.x_weights, Vx) <= max(1e-6, limit / rho)
        assert measures.sin_theta_y(problem, pairs.y_weights, Vy) <= max(1e-6, limit / rho)

    check()


@pytest.mark.parametrize("method", [None, Dense(), CCALin(), LOCALLY_OPTIMAL])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_dense_and_sparse_data(method, center, form):
    X, Y = two_views([0.9, 0.7, 0.4], 10, 8, 1e3)
    X[np.abs(X) < 0.5], Y[np.abs(Y) < 0.5] = 0.0, 0.0
    wrap = sparse.csc_array if form == "sparse" else np.asarray
    pairs = top_k_cca(wrap(X), wrap(Y), k=2, reg=1e-3, center=center, method=method)
    assert_right(pairs, X, Y, 2, 1e-3, center)


@pytest.mark.parametrize("form", [False, True])
def test_reading_the_data_or_forming_covariances_gives_the_same(form):
    X, Y = two_views([0.9, 0.7], 10, 8, 1e2)
    problem = TwoView(sparse.csr_array(X), Y, 1e-3, form=form)
    pairs = CCALin()(problem, 2, 1e-8, 0)
    sigma, *_ = reference(X, Y, 2, 1e-3)
    np.testing.assert_allclose(pairs.correlations, sigma[:2], atol=1e-8)
    # One pass for every product with A or B, or two in all to form them.
    assert pairs.cost.passes == pytest.approx(2.0) if form else pairs.cost.passes > 20


@pytest.mark.parametrize("far", [0.0, 1e5])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_dense_view_beside_a_sparse_one(monkeypatch, far, swapped):
    """One sweep makes the moment of the dense one; its variances come from that."""
    X, Y = two_views([0.9, 0.6, 0.3], 6, 5, 10.0)
    X, Y = X + far, np.where(np.abs(Y) > 0.3, Y, 0.0)
    views = (X, sparse.csr_array(Y))
    views, plain = (views[::-1], (Y, X)) if swapped else (views, (X, Y))
    seen = []
    about = Rows.mean_square_about
    monkeypatch.setattr(
        Rows,
        "mean_square_about",
        lambda rows, centre: (seen.append(rows.is_sparse), about(rows, centre))[1],
    )
    pairs = top_k_cca(*views, k=2, reg=1e-3)
    assert all(seen)
    expected = reference(*plain, 2, reg=1e-3)[0][:2]
    np.testing.assert_allclose(pairs.correlations, expected, atol=1e-7)


def test_scale_of_a_view_does_not_matter():
    """Remark to Theorem 7: X → 10³X with reg_x → 10⁶reg_x leaves the inner counts unchanged."""
    table = [(solvers.AGD(), 1e3), (solvers.GD(), 1e3)]
    # Towards its last digits CG is at the mercy of rounding; at κ = 30 it needs fewer than d steps.
    table += [(solvers.CG(), 30.0), (solvers.CG(preconditioner=None), 30.0)]
    for solver, kappa in table:
        X, Y = two_views([0.9, 0.7, 0.5], 60, 50, kappa)
        method = CCALin(solver=solver, iterations=12)
        counts = []
        for factor in (1.0, 1e3):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reg = (1e-2 * factor**2, 1e-2)
                pairs = top_k_cca(factor * X, Y, k=2, reg=reg, method=method)
            counts.append(pairs.trace.column("inner_iterations"))
        np.testing.assert_array_equal(*counts)


def test_views_swap():
    X, Y = two_views([0.9, 0.7, 0.4], 9, 6, 1e2)
    there, back = top_k_cca(X, Y, k=3), top_k_cca(Y, X, k=3)
    np.testing.assert_allclose(there.correlations, back.correlations, atol=1e-10)


def test_signs_follow_the_rule():
    X, Y = two_views([0.9, 0.7, 0.4], 9, 6, 1e2)
    for method in (None, CCALin(), LOCALLY_OPTIMAL):
        pairs = top_k_cca(X, Y, k=3, method=method)
        W = pairs.x_weights
        assert np.all(W[np.abs(W).argmax(axis=0), np.arange(3)] > 0)
        scores = (X - X.mean(0)) @ W, (Y - Y.mean(0)) @ pairs.y_weights
        assert np.all(np.einsum("ij,ij->j", *scores) > 0)


def test_score_correlations_are_those_of_the_scores():
    X, Y = two_views([0.9, 0.7, 0.4], 9, 6, 1e2)
    for options in ({"reg": (0.5, 0.1)}, {"shrinkage": (0.3, 0.1)}, {"shrinkage": 1.0}, {}):
        pairs = top_k_cca(X, Y, k=3, **options)
        U, V = X @ pairs.x_weights, Y @ pairs.y_weights
        plain = [np.corrcoef(U[:, j], V[:, j])[0, 1] for j in range(3)]
        np.testing.assert_allclose(pairs.score_correlations, plain, atol=1e-8)


@pytest.mark.parametrize("s", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("method", [None, LOCALLY_OPTIMAL])
def test_shrinkage_is_a_ridge_after_scaling(s, method):
    """Only S_x and S_y are shrunk, so that values above 1 are possible."""
    X, Y = two_views([0.9, 0.7, 0.4], 9, 6, 1e2)
    pairs = top_k_cca(X, Y, k=2, shrinkage=s, method=method)
    Zx, Zy = X - X.mean(0), Y - Y.mean(0)
    S = []
    for Z in (Zx, Zy):
        C = Z.T @ Z / len(Z)
        S.append((1 - s) * C + s * np.trace(C) / len(C) * np.eye(len(C)))
    A = np.zeros((15, 15))
    A[:9, 9:] = Zx.T @ Zy / len(X)
    values = linalg.eigh(A + A.T, linalg.block_diag(*S), eigvals_only=True)
    assert pairs.converged
    np.testing.assert_allclose(pairs.correlations, values[::-1][:2], rtol=1e-8)


def test_scale_divides_by_standard_deviations():
    X, Y = two_views([0.9, 0.7, 0.4], 9, 6, 1e2)
    scaled = top_k_cca(X / X.std(0), Y / Y.std(0), k=2, reg=0.1)
    for wrap in (np.asarray, sparse.csr_array):
        pairs = top_k_cca(wrap(X), wrap(Y), k=2, reg=0.1, scale=True)
        np.testing.assert_allclose(pairs.correlations, scaled.correlations, atol=1e-10)


def test_no_gap_is_said():
    X, Y = two_views([0.9, 0.6, 0.6, 0.2], 8, 8, 10.0)
    with pytest.warns(UserWarning, match="no gap"):
        pairs = top_k_cca(X, Y, k=2, method=CCALin())
    assert pairs.status is Status.NO_GAP
    for method in (None, LOCALLY_OPTIMAL):
        np.testing.assert_allclose(
            top_k_cca(X, Y, k=2, method=method).correlations, [0.9, 0.6], atol=1e-8
        )


@pytest.mark.parametrize("method", [None, CCALin(), LOCALLY_OPTIMAL])
@pytest.mark.parametrize("spread", [3, 8])
def test_units_of_features_do_not_matter(method, spread):
    X, Y = two_views([0.95, 0.8, 0.6, 0.4, 0.2], 7, 5, 10.0)
    pairs = top_k_cca(X, Y, k=5, method=method)
    units = np.logspace(-spread, spread, 7), np.logspace(spread, -spread, 5)
    rescaled = top_k_cca(X * units[0], Y * units[1], k=5, method=method)
    assert rescaled.converged
    np.testing.assert_allclose(rescaled.correlations, pairs.correlations, atol=1e-8)


@pytest.mark.parametrize("method", [None, CCALin()])
@pytest.mark.parametrize("reg", [0.0, 0.1])
@pytest.mark.parametrize("mean", [1e4, 1e6, 1.7e9])
def test_large_means_of_sparse_columns(method, reg, mean):
    """A full column of time stamps, say: implicit centring must not cancel."""
    X, Y = two_views([0.9, 0.7, 0.4], 6, 4, 10.0)
    X[:, 1][np.abs(X[:, 1]) < 0.5] = 0.0
    expected = top_k_cca(X, Y, k=2, reg=reg).correlations
    far = X.copy()
    far[:, 0] += mean
    far = sparse.csr_array(far)
    pairs = top_k_cca(far, sparse.csr_array(Y), k=2, reg=reg, method=method)
    np.testing.assert_allclose(pairs.correlations, expected, atol=10 * mean * EPS + 1e-9)


def test_float32_data():
    X, Y = two_views([0.9, 0.7, 0.4], 9, 6, 1e2)
    pairs = top_k_cca(X.astype(np.float32), Y.astype(np.float32), k=2)
    np.testing.assert_allclose(pairs.correlations, [0.9, 0.7], atol=1e-5)


def test_default_on_wide_sparse_data():
    """d above the dense limit: the iterative default, against the dense answer."""
    rng = np.random.default_rng(0)
    n, d = 4000, 2200
    topics = rng.integers(0, 8, n)
    words = (topics[:, None] * 30 + rng.integers(0, 200, (n, 6))) % d

    def bag(columns):
        rows = np.repeat(np.arange(n), columns.shape[1])
        return sparse.csr_array((np.ones(rows.size), (rows, columns.ravel())), shape=(n, d))

    X, Y = bag(words), bag((words[:, ::-1] * 7 + rng.integers(0, 40, words.shape)) % d)
    pairs = top_k_cca(X, Y, k=5, reg=1e-2)
    exact = Dense()(TwoView(X, Y, 1e-2), 5)
    assert pairs.converged
    assert len(pairs.trace) > 0
    np.testing.assert_allclose(pairs.correlations, exact.correlations, atol=1e-8)


def test_projection_to_random_directions_obeys_lemma_14():
    """The angle grows by at most a constant times k²/ζ²; its median stays far below."""
    X, Y = two_views([0.95, 0.9, 0.8, 0.3], 12, 10, 1e2)
    _, Vx, Vy = reference(X, Y, 3)
    problem, method = TwoView(X, Y), CCALin(projection="random", iterations=25)
    growth = []
    for seed in range(20):
        last = {}

        def keep(record, W, last=last):
            last["sine"] = measures.sin_theta_b(problem, W, Vx, Vy)

        pairs = method(problem, 3, 1e-12, seed, keep)
        growth.append(measures.sin_theta_x(problem, pairs.x_weights, Vx) / last["sine"])
    assert np.median(growth) <= 9  # k², ζ = 1
    assert np.max(growth) <= 9 / 0.05**2


# --- Dependent, constant and dead columns ------------------------------------------------------


def deficient(seed=0, n=200):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 3))
    X = np.c_[Z + 0.5 * rng.standard_normal((n, 3)), rng.standard_normal((n, 2))]
    Y = np.c_[Z + 0.5 * rng.standard_normal((n, 3)), rng.standard_normal((n, 1))]
    spoiled = np.c_[X, X[:, 0] + X[:, 1], X[:, 2], np.full(n, 7.0), np.zeros(n)]
    return X, Y, spoiled


@pytest.mark.parametrize(
    "method",
    [
        None,
        CCALin(),
        CCALin(solver=solvers.Direct()),
        CCALin(solver=solvers.AGD()),
        CCALin(solver=solvers.GD()),
        LOCALLY_OPTIMAL,
    ],
    ids=["dense", "CG", "Direct", "AGD", "GD", "optimal"],
)
@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_dependent_columns_without_a_ridge(method, wrap):
    """The answer on the numerical range, with a warning that names view, columns and remedy."""
    X, Y, spoiled = deficient()
    expected = reference(X, Y, 3)[0][:3]
    message = r"X is rank-deficient: 2 of its 9 columns are constant \(7, 8\).*rank 5.*try reg="
    with pytest.warns(RankDeficiencyWarning, match=message):
        pairs = top_k_cca(wrap(spoiled), wrap(Y), k=3, method=method)
    assert pairs.converged
    np.testing.assert_allclose(pairs.correlations, expected, atol=1e-8)
    scores = (spoiled - spoiled.mean(0)) @ pairs.x_weights
    np.testing.assert_allclose(scores.T @ scores / len(X), np.eye(3), atol=1e-7)
    # The minimum-norm answer: twins share their weight, dead columns have none.
    np.testing.assert_allclose(pairs.x_weights[2], pairs.x_weights[6], atol=1e-5)
    np.testing.assert_allclose(pairs.x_weights[7:], 0, atol=1e-5)


@pytest.mark.parametrize("method", [None, CCALin(), LOCALLY_OPTIMAL])
def test_dependent_columns_with_a_ridge_are_ordinary(method, recwarn):
    _, Y, spoiled = deficient()
    pairs = top_k_cca(spoiled, Y, k=3, reg=1e-3, method=method)
    assert_right(pairs, spoiled, Y, 3, 1e-3)
    assert not recwarn.list


def test_more_columns_than_rows_says_that_ones_mean_nothing():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((30, 40)), rng.standard_normal((30, 35))
    with pytest.warns(RankDeficiencyWarning, match=r"30 rows it can fit anything.*trivially 1"):
        pairs = top_k_cca(X, Y, k=2)
    np.testing.assert_allclose(pairs.correlations, 1.0, atol=1e-8)
    with pytest.raises(ValueError, match=r"k=33 is more than the numerical rank 29 of X.*reg"):
        top_k_cca(X, Y, k=33)


# --- Published values --------------------------------------------------------------------------


def columns(path, names, delimiter=","):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter=delimiter))
    return np.array([[float(row[name]) for name in names] for row in rows])


CLASSICAL = {
    "mmreg": (
        ("mmreg.csv", ["Control", "Concept", "Motivation"]),
        ("mmreg.csv", ["Read", "Write", "Math", "Science", "Sex"]),
        [".4641", ".1675", ".1040"],
    ),
    "linnerud": (
        ("linnerud_physiological.csv", ["Weight", "Waist", "Pulse"]),
        ("linnerud_exercise.csv", ["Chins", "Situps", "Jumps"]),
        [".795608", ".200556", ".072570"],
    ),
    "ISLR Auto": (
        ("ISLR_Auto.csv", ["displacement", "horsepower", "weight"]),
        ("ISLR_Auto.csv", ["acceleration", "mpg"]),
        [".87821874", ".63281872"],
    ),
    "Stata auto": (
        ("stata_auto.csv", ["length", "weight", "headroom", "trunk"]),
        ("stata_auto.csv", ["displacement", "mpg", "gear_ratio", "turn"]),
        [".9476", ".3400", ".0634", ".0447"],
    ),
    "LifeCycleSavings": (
        ("LifeCycleSavings.csv", ["pop15", "pop75"]),
        ("LifeCycleSavings.csv", ["sr", "dpi", "ddpi"]),
        [".82479661", ".36527615"],
    ),
    "frets": (("frets.csv", ["l1", "b1"]), ("frets.csv", ["l2", "b2"]), [".7885", ".0537"]),
    "iris": (
        ("iris.csv", ["Sepal.Length", "Sepal.Width"]),
        ("iris.csv", ["Petal.Length", "Petal.Width"]),
        [".94096900", ".12393688"],
    ),
}


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("method", [None, CCALin()], ids=["default", "CCALin"])
@pytest.mark.parametrize("name", CLASSICAL)
def test_published_correlations_to_every_printed_digit(data, name, wrap, method):
    views, published = CLASSICAL[name][:2], CLASSICAL[name][2]
    X, Y = (
        columns(data / "classical" / file, names, " " if "linnerud" in file else ",")
        for file, names in views
    )
    pairs = top_k_cca(wrap(X), wrap(Y), k=len(published), method=method, tol=1e-8)
    for value, printed in zip(pairs.correlations, published, strict=True):
        assert abs(value - float(printed)) <= 0.5000001 * 10.0 ** -(len(printed) - 1)


def test_weights_of_matlab(data):
    """canoncorr's A for ISLR Auto: unit variance of the scores, divided by n − 1."""
    path = data / "classical" / "ISLR_Auto.csv"
    X = columns(path, ["displacement", "horsepower", "weight"])
    Y = columns(path, ["acceleration", "mpg"])
    pairs = top_k_cca(X, Y, k=2)
    n = len(X)
    weights = np.abs(pairs.x_weights) * np.sqrt((n - 1) / n)
    expected = [[0.0025, 0.0048], [0.0202, 0.0409], [0.000025, 0.0027]]
    np.testing.assert_allclose(weights[:2], expected[:2], atol=5.1e-5)
    np.testing.assert_allclose(weights[2], expected[2], atol=5.1e-5)


MNIST = [0.957500, 0.951587, 0.943945, 0.938443, 0.922585]
MNIST += [0.911057, 0.888902, 0.876775, 0.866425, 0.854726]


@pytest.mark.parametrize("method", [None, CCALin(solver=solvers.CG())])
def test_mnist(mnist_halves, method):
    pairs = top_k_cca(*mnist_halves, k=10, reg=1e-4, method=method, tol=1e-3)
    assert pairs.converged
    np.testing.assert_allclose(pairs.correlations, MNIST, atol=1e-5)


PTB = {
    1e-5: "93818 91004 90049 88729 84352 84201 83576 83067 80998 80838",
    1e-4: "79139 66299 64470 62001 58458 58028 57660 57224 56846 53831",
}


@pytest.mark.parametrize(
    ("reg", "method"),
    [(1e-5, None), (1e-4, None), (1e-4, CCALin(solver=solvers.CG()))],
    ids=["default", "default, larger ridge", "CCALin with CG"],
)
def test_ptb(ptb_bigrams, reg, method):
    pairs = top_k_cca(*ptb_bigrams, k=10, reg=reg, center=False, method=method, tol=1e-3)
    assert pairs.converged
    expected = [int(digits) / 1e5 for digits in PTB[reg].split()]
    np.testing.assert_allclose(pairs.correlations, expected, atol=1e-5)
    # A diagonal Gram: one step of Jacobi CG in each view solves it.
    assert np.all(pairs.trace.column("inner_iterations") == 2)


# --- Bad calls ---------------------------------------------------------------------------------


def test_wrong_method_for_the_problem():
    X, Y = two_views([0.9], 3, 3, 1.0)
    with pytest.raises(TypeError, match="solves pencils"):
        top_k_cca(X, Y, method=GenELinK())
    with pytest.raises(ValueError, match="projection='svd' must be 'ritz' or 'random'"):
        CCALin(projection="svd")


def test_orthogonal_views_have_no_correlation():
    n = 64
    Q = orthogonal(np.random.default_rng(0), n)
    X, Y = Q[:, :4], Q[:, 4:7]
    pairs = top_k_cca(X, Y, k=2, center=False)
    np.testing.assert_allclose(pairs.correlations, 0, atol=1e-12)
    assert np.all(np.isfinite(pairs.x_weights))
