import warnings

import numpy as np
import pytest
from scipy import linalg, sparse

from genelin import (
    ConvergenceWarning,
    Pencil,
    Status,
    TwoView,
    baselines,
    datasets,
    measures,
    solvers,
    top_k_cca,
)
from genelin.linalg import sin_theta

ONE_SHOT = {
    "NWCCA": baselines.NWCCA(),
    "DWCCA": baselines.DWCCA(),
    "PCACCA": baselines.PCACCA(components=6),
    "RandomizedCCA": baselines.RandomizedCCA(oversample=2),
}
ITERATIVE = {
    "AppGrad": baselines.AppGrad(),
    "MomentumALS": baselines.MomentumALS(),
    "MomentumALS, no momentum": baselines.MomentumALS(momentum=0.0, guards=0),
    "MomentumALS, AGD": baselines.MomentumALS(solver=solvers.AGD()),
}
ALL = ONE_SHOT | ITERATIVE | {"StochasticAppGrad": baselines.StochasticAppGrad(epochs=2)}


def solved(views, k, method, **settings):
    """The answer of a rival, whether or not it converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return top_k_cca(*views, k, method=method, **settings)


def spans(views, pairs, Zx, Zy):
    """Sines of the angles between the spans of the weights and those expected."""
    identities = np.eye(views[0].shape[1]), np.eye(views[1].shape[1])
    weights = (pairs.x_weights, pairs.y_weights)
    return [sin_theta(W, Z, eye) for W, Z, eye in zip(weights, (Zx, Zy), identities, strict=True)]


# --- One-shot baselines end where their definitions say -------------------------------------------

# Two columns a view, four rows, not centred: S_x = diag(4, 1), S_y = [[1, ¾], [¾, ¾]] and
# S_xy = [[1, 0], [½, ½]], all computed by hand.
X = np.array([[4.0, 0.0], [0.0, 2.0], [0.0, 0.0], [0.0, 0.0]])
Y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]) + np.array(
    [[0.0, 0.0], [0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
)


def test_the_small_case_is_what_it_says():
    np.testing.assert_allclose(X.T @ X / 4, [[4.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(Y.T @ Y / 4, [[1.0, 0.75], [0.75, 0.75]])
    np.testing.assert_allclose(X.T @ Y / 4, [[1.0, 0.0], [0.5, 0.5]])


def test_nwcca_is_the_svd_of_the_cross_covariance():
    # MMᵀ of M = [[1, 0], [½, ½]] is [[1, ½], [½, ½]]: λ = (3 + √5)/4, u = (1, (√5 − 1)/2).
    golden = (np.sqrt(5) - 1) / 2
    u = np.array([[1.0], [golden]])
    v = np.array([[1 + golden / 2], [golden / 2]])  # Mᵀu
    pairs = solved((X, Y), 1, baselines.NWCCA(), center=False)
    assert max(spans((X, Y), pairs, u, v)) < 1e-12
    assert pairs.status is Status.ONE_SHOT
    correlation = (u.T @ [[1.0, 0.0], [0.5, 0.5]] @ v).item() / np.sqrt(
        (4 * u[0] ** 2 + u[1] ** 2).item()
        * (v[0] ** 2 + 1.5 * v[0] * v[1] + 0.75 * v[1] ** 2).item()
    )
    np.testing.assert_allclose(pairs.correlations, [correlation])


def test_dwcca_whitens_by_the_diagonals():
    # D_x = diag(4, 1), D_y = diag(1, ¾): M = [[½, 0], [½, 1/√3]].
    M = np.array([[0.5, 0.0], [0.5, 1 / np.sqrt(3)]])
    # MMᵀ = [[¼, ¼], [¼, 7/12]]: λ = (5 + √13)/12, u = (3, 2 + √13).
    u = np.array([3.0, 2 + np.sqrt(13)])
    np.testing.assert_allclose(M @ M.T @ u, (5 + np.sqrt(13)) / 12 * u)
    weights = (u / [2.0, 1.0])[:, None], ((M.T @ u) / [1.0, np.sqrt(0.75)])[:, None]
    pairs = solved((X, Y), 1, baselines.DWCCA(), center=False)
    assert max(spans((X, Y), pairs, *weights)) < 1e-12


def test_dwcca_counts_the_ridge_and_skips_empty_columns():
    wider = np.c_[X, np.zeros(4)]
    with pytest.warns(Warning, match="rank-deficient"):
        pairs = solved((wider, Y), 1, baselines.DWCCA(), center=False)
    assert pairs.x_weights[2, 0] == 0.0
    Dx, Dy = np.diag([5.0, 2.0]) ** 0.5, np.diag([2.0, 1.75]) ** 0.5
    U, _, Vt = linalg.svd(linalg.inv(Dx) @ (X.T @ Y / 4) @ linalg.inv(Dy))
    pairs = solved((X, Y), 1, baselines.DWCCA(), center=False, reg=1.0)
    weights = linalg.inv(Dx) @ U[:, :1], linalg.inv(Dy) @ Vt[:1].T
    assert max(spans((X, Y), pairs, *weights)) < 1e-12


def test_pcacca_is_cca_of_principal_components():
    # The first component of X is its first column, that of Y the leading eigenvector of S_y:
    # [[1, ¾], [¾, ¾]] has λ = (7 + √37)/8, v = (6, √37 − 1).
    v = np.array([[6.0], [np.sqrt(37) - 1]])
    pairs = solved((X, Y), 1, baselines.PCACCA(components=1), center=False)
    assert max(spans((X, Y), pairs, np.eye(2, 1), v)) < 1e-12
    value = v[0, 0] / (2 * np.sqrt((7 + np.sqrt(37)) / 8 * (v.T @ v).item()))
    np.testing.assert_allclose(pairs.correlations, [value])


def test_pcacca_at_larger_size_by_the_definition():
    views = tuple(datasets.two_view_gaussian(500, (40, 30), kappa=50.0))
    components, k = 7, 3
    bases = []
    for Z in views:
        centred = Z - Z.mean(axis=0)
        bases.append(linalg.svd(centred, full_matrices=False)[2][:components].T)
    reduced = top_k_cca(*(Z @ P for Z, P in zip(views, bases, strict=True)), k)
    pairs = solved(views, k, baselines.PCACCA(components))
    np.testing.assert_allclose(pairs.correlations, reduced.correlations, atol=1e-9)
    expected = bases[0] @ reduced.x_weights, bases[1] @ reduced.y_weights
    assert max(spans(views, pairs, *expected)) < 1e-6


@pytest.mark.parametrize("power", [1, 2, 5])
def test_randomized_cca_by_the_definition(power):
    views, k, seed = tuple(datasets.two_view_gaussian(500, (40, 30), kappa=50.0)), 2, 4
    A, B = (Z - Z.mean(axis=0) for Z in views)
    Q = np.random.default_rng(seed).standard_normal((70, k + 5))
    Qa, Qb = Q[:40], Q[40:]
    for _ in range(power):
        Qa, Qb = linalg.orth(A.T @ (B @ Qb)), linalg.orth(B.T @ (A @ Qa))
    La = linalg.cholesky(Qa.T @ A.T @ A @ Qa / 500 + 0.1 * np.eye(k + 5))
    Lb = linalg.cholesky(Qb.T @ B.T @ B @ Qb / 500 + 0.1 * np.eye(k + 5))
    F = linalg.inv(La).T @ (Qa.T @ A.T @ B @ Qb / 500) @ linalg.inv(Lb)
    U, sigma, Vt = linalg.svd(F)
    expected = Qa @ linalg.inv(La) @ U[:, :k], Qb @ linalg.inv(Lb) @ Vt[:k].T
    method = baselines.RandomizedCCA(oversample=5, power=power)
    pairs = solved(views, k, method, reg=0.1, rng=seed)
    np.testing.assert_allclose(pairs.correlations, sigma[:k], atol=1e-10)
    assert max(spans(views, pairs, *expected)) < 1e-8


@pytest.mark.parametrize("form", [True, False])
@pytest.mark.parametrize("center", [True, False])
def test_large_svds_are_those_of_the_definition(form, center):
    X, Y = datasets.sparse_topics(3000, 120, topics=8)
    k, problem = 3, TwoView(X, Y, 0.01, center)
    C = problem.S_xy.dense()
    for method, roots in (
        (baselines.NWCCA(), (np.ones(120), np.ones(120))),
        (baselines.DWCCA(), [problem.S_x.diagonal() ** -0.5, problem.S_y.diagonal() ** -0.5]),
    ):
        U, _, Vt = linalg.svd(roots[0][:, None] * C * roots[1])
        expected = roots[0][:, None] * U[:, :k], roots[1][:, None] * Vt[:k].T
        pairs = solved((X, Y), k, method, reg=0.01, center=center, form=form)
        assert max(spans((X, Y), pairs, *expected)) < 1e-5


def test_dwcca_is_exact_for_indicators():
    rng = np.random.default_rng(0)
    words = rng.integers(0, 6, 400)
    following = np.where(rng.random(400) < 0.6, words, rng.integers(0, 6, 400))
    views = (np.eye(6)[words], np.eye(6)[following])
    pairs = top_k_cca(*views, k=3, center=False, method=baselines.DWCCA())
    exact = top_k_cca(*views, k=3, center=False)
    assert pairs.converged
    np.testing.assert_allclose(pairs.correlations, exact.correlations, atol=1e-10)


# --- Iterative rivals converge to the true CCA -------------------------------------------------


@pytest.mark.parametrize("name", ITERATIVE)
@pytest.mark.parametrize("case", ["gaussian", "topics", "deficient"])
def test_iterative_rivals_find_the_canonical_pairs(name, case):
    if case == "topics":
        views = tuple(datasets.sparse_topics(3000, 60, topics=6))
        k, settings = 2, {"reg": 0.01, "center": False, "form": False}
    else:
        views = tuple(datasets.two_view_gaussian(3000, (12, 9), [0.9, 0.8, 0.4], 10.0))
        k, settings = 2, {}
    if case == "deficient":
        views = (np.c_[views[0], views[0][:, :2] @ [[1.0], [2.0]]], views[1])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X is rank-deficient")
        exact = top_k_cca(*views, k, **settings)
        pairs = top_k_cca(*views, k, method=ITERATIVE[name], **settings)
    assert pairs.converged
    np.testing.assert_allclose(pairs.correlations, exact.correlations, atol=1e-8)
    settings.pop("form", None)
    problem = TwoView(*views, **settings)
    bound = pairs.sin_theta_bound
    assert bound < 1e-3
    assert measures.sin_theta_x(problem, pairs.x_weights, exact.x_weights) <= bound + 1e-7
    assert measures.sin_theta_y(problem, pairs.y_weights, exact.y_weights) <= bound + 1e-7
    residuals = pairs.trace.column("residual")
    assert residuals[-1] < 1e-2 * residuals[0]


def test_one_step_of_appgrad_by_hand():
    views = tuple(datasets.two_view_gaussian(200, (4, 3)))
    seen = []
    method = baselines.AppGrad(step=(0.5, 0.25), iterations=3)
    solved(views, 2, method, center=False, callback=lambda record, W: seen.append(W.copy()))
    A, B = views
    S_x, S_y, S_xy = A.T @ A / 200, B.T @ B / 200, A.T @ B / 200

    def normalised(P, S):
        return P @ linalg.inv(linalg.sqrtm(P.T @ S @ P).real)

    # The callback sees canonical pairs of the spans: the step is invariant to how they are turned
    # together, and Φ and Ψ are compared as spans.
    start = np.random.default_rng(0).standard_normal((7, 2))
    start /= np.sqrt(np.r_[S_x.diagonal(), S_y.diagonal()])[:, None]
    Phi, Psi = normalised(start[:4], S_x), normalised(start[4:], S_y)
    P, Q = np.zeros((4, 2)), np.zeros((3, 2))
    for W in seen:
        assert sin_theta(W[:4], Phi, S_x) < 1e-10
        assert sin_theta(W[4:], Psi, S_y) < 1e-10
        P = P - 0.5 * (S_x @ P - S_xy @ Psi)
        Phi = normalised(P, S_x)
        Q = Q - 0.25 * (S_y @ Q - S_xy.T @ Phi)
        Psi = normalised(Q, S_y)
    assert len(seen) == 3


def test_stochastic_appgrad_comes_near():
    views = tuple(datasets.two_view_gaussian(20_000, (10, 8), [0.9, 0.7, 0.3], 5.0))
    exact = top_k_cca(*views, k=2)
    captured = []
    for epochs in (0.2, 6):
        pairs = solved(views, 2, baselines.StochasticAppGrad(epochs=epochs))
        captured.append(pairs.correlations.sum() / exact.correlations.sum())
        assert pairs.status is Status.FIXED_ITERATIONS
    assert captured[0] < captured[1]
    assert 0.995 < captured[1] <= 1.0 + 1e-12


def test_stochastic_appgrad_on_sparse_rows():
    views = tuple(datasets.sparse_topics(10_000, 80, topics=5))
    exact = top_k_cca(*views, k=2, reg=0.01)
    pairs = solved(views, 2, baselines.StochasticAppGrad(batch=200, epochs=10), reg=0.01)
    assert pairs.correlations.sum() > 0.97 * exact.correlations.sum()


def test_momentum_pays():
    """The factor of an iteration falls from (σ₃/σ₂)² to (√β/r)², r² − σ₂r + β = 0, β = σ₃²/4."""
    views = tuple(datasets.sparse_pairs(np.r_[0.9, 0.88, np.linspace(0.85, 0.1, 40)]))
    best = 0.25 * 0.85**2
    plain, tuned, adaptive = (
        top_k_cca(*views, k=2, center=False, method=baselines.MomentumALS(momentum=beta)).trace
        for beta in (0.0, best, None)
    )
    for trace, factor in (
        (plain, (0.85 / 0.88) ** 2),
        (tuned, (np.sqrt(best) / (0.44 + np.sqrt(0.44**2 - best))) ** 2),
    ):
        residuals = trace.column("residual")
        measured = (residuals[-1] / residuals[10]) ** (1 / (len(residuals) - 11))
        assert measured == pytest.approx(factor, abs=0.06)
    assert len(adaptive) < 1.5 * len(tuned) < 0.4 * len(plain)


# --- Honest results ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_rivals_are_honest(name):
    views = tuple(datasets.digits_halves())
    k, reg = 3, 1e-3
    problem = TwoView(*views, reg)
    exact = top_k_cca(*views, k, reg=reg)
    pairs = solved(views, k, ALL[name], reg=reg, tol=1e-4)
    S_x, S_y = (S @ np.eye(32) for S in (problem.S_x, problem.S_y))
    for S, W in ((S_x, pairs.x_weights), (S_y, pairs.y_weights)):
        np.testing.assert_allclose(W.T @ S @ W, np.eye(k), atol=1e-8)
    C = problem.S_xy.dense()
    x_rest = C @ pairs.y_weights - S_x @ pairs.x_weights * pairs.correlations
    y_rest = C.T @ pairs.x_weights - S_y @ pairs.y_weights * pairs.correlations
    squares = [
        np.einsum("ij,ij->j", R, linalg.solve(S, R)) for S, R in ((S_x, x_rest), (S_y, y_rest))
    ]
    true = np.sqrt(sum(squares) / 2)
    assert np.all(true <= pairs.residuals * (1 + 1e-6) + 1e-13)
    assert np.all(pairs.residuals <= 1.06 * true + 1e-12)
    assert pairs.converged == bool(pairs.residuals.max() <= 1e-4 * pairs.correlations[0])
    assert np.all(pairs.correlations <= exact.correlations + 1e-10)
    assert np.all(np.diff(pairs.correlations) <= 0)
    sine = measures.sin_theta_x(problem, pairs.x_weights, exact.x_weights)
    assert sine <= pairs.sin_theta_bound + 1e-9
    cost, last = pairs.cost, pairs.trace[-1]
    assert 0 < last.flops <= cost.flops
    assert 0 < last.passes <= cost.passes
    assert np.isfinite(last.residual)
    np.testing.assert_array_equal(last.ritz_values.shape, (k,))


@pytest.mark.parametrize("name", ALL)
def test_the_same_seed_gives_the_same_answer(name):
    views = tuple(datasets.two_view_gaussian(400, (10, 8)))
    first, second = (solved(views, 2, ALL[name], rng=7) for _ in range(2))
    np.testing.assert_array_equal(first.x_weights, second.x_weights)


@pytest.mark.parametrize("name", ONE_SHOT)
def test_one_shot_rivals_warn(name):
    views = tuple(datasets.digits_halves())
    seen = []
    with pytest.warns(ConvergenceWarning, match="one-shot estimate"):
        pairs = top_k_cca(
            *views, k=3, reg=1e-3, method=ONE_SHOT[name], callback=lambda *args: seen.append(args)
        )
    assert len(pairs.trace) == len(seen) == 1
    assert seen[0][1].shape == (64, 3)


def test_an_exact_pair_that_is_not_the_first_is_no_success():
    # The views share a strong column of small variance, and a weak one of large variance.
    Z = np.linalg.qr(np.random.default_rng(0).standard_normal((200, 4)))[0] * np.sqrt(200)
    X = np.c_[10 * Z[:, 0], Z[:, 1]]
    Y = np.c_[10 * (0.5 * Z[:, 0] + np.sqrt(0.75) * Z[:, 2]), Z[:, 1] + 0.01 * Z[:, 3]]
    pairs = solved((X, Y), 1, baselines.NWCCA(), center=False)
    np.testing.assert_allclose(pairs.correlations, [0.5])
    assert pairs.residuals.max() < 1e-8
    assert pairs.status is Status.ONE_SHOT
    assert pairs.sin_theta_bound == 1.0


@pytest.mark.parametrize("name", ["AppGrad", "MomentumALS", "StochasticAppGrad"])
def test_callbacks_stop_iterative_rivals(name):
    views = tuple(datasets.two_view_gaussian(4000, (10, 8)))
    pairs = solved(views, 2, ALL[name], callback=lambda record, W: record.iteration >= 2, tol=1e-12)
    assert pairs.status is Status.STOPPED
    assert len(pairs.trace) == 2


def test_budgets_are_kept():
    views = tuple(datasets.two_view_gaussian(400, (10, 8), kappa=1e3))
    for method in (baselines.AppGrad(max_iter=5), baselines.MomentumALS(max_iter=2)):
        pairs = solved(views, 2, method, tol=1e-10)
        assert pairs.status is Status.MAX_ITERATIONS
        assert len(pairs.trace) == method.max_iter
    pairs = solved(views, 2, baselines.MomentumALS(iterations=3), tol=1e-12)
    assert pairs.status is Status.FIXED_ITERATIONS
    assert len(pairs.trace) == 3


def test_flops_follow_the_rule():
    """Two for every stored entry and column: AppGrad's step is B and A on k columns."""
    X, Y = datasets.sparse_topics(2000, 50, topics=5)
    k, stored = 2, X.nnz + Y.nnz
    costs = [
        solved((X, Y), k, baselines.AppGrad(step=0.1, iterations=t), form=False, reg=0.1).trace[-1]
        for t in (10, 11)
    ]
    dense = 6 * 100 * k**2 + 4 * 100 * k
    assert costs[1].flops - costs[0].flops == (4 + 4) * stored * k + dense
    assert costs[1].passes - costs[0].passes == pytest.approx(3.0)
    last = solved((X, Y), k, baselines.RandomizedCCA(4, power=2), form=False, reg=0.1).trace[-1]
    assert last.passes == pytest.approx(4.0)  # two through S_xy, one through S_x and S_y, one more
    assert last.applications == 6 * 2 + 6 * 3


@pytest.mark.parametrize("k", [1, 4])
def test_k_may_be_all_of_a_view(k):
    views = tuple(datasets.two_view_gaussian(300, (6, 4), [0.9, 0.6, 0.3, 0.1], 3.0))
    exact = top_k_cca(*views, k=k)
    for name, method in (ONE_SHOT | ITERATIVE).items():
        pairs = solved(views, k, method)
        assert pairs.x_weights.shape == (6, k), name
        assert np.all(np.isfinite(pairs.x_weights)), name
        if name in ITERATIVE:
            np.testing.assert_allclose(pairs.correlations, exact.correlations, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: baselines.PCACCA(components=0), "components=0"),
        (lambda: baselines.RandomizedCCA(oversample=-1), "oversample=-1"),
        (lambda: baselines.RandomizedCCA(power=0), "power=0"),
        (lambda: baselines.AppGrad(step=-1.0), "step=-1.0"),
        (lambda: baselines.AppGrad(step=(1.0, 0.0)), "step=0.0"),
        (lambda: baselines.AppGrad(max_iter=0), "max_iter=0"),
        (lambda: baselines.StochasticAppGrad(epochs=0), "epochs=0"),
        (lambda: baselines.StochasticAppGrad(batch=0), "batch=0"),
        (lambda: baselines.StochasticAppGrad(decay=-1.0), "decay=-1.0"),
        (lambda: baselines.MomentumALS(momentum=0.5), "momentum=0.5"),
        (lambda: baselines.MomentumALS(guards=0), "guards=0"),
        (lambda: baselines.MomentumALS(reduction=1.0), "reduction=1.0"),
        (lambda: top_k_cca(X, Y, k=2, method=baselines.PCACCA(1), reg=1.0), "components=1"),
        (lambda: top_k_cca(X, Y, k=2, method=baselines.StochasticAppGrad(1), reg=1.0), "batch=1"),
    ],
)
def test_settings_that_cannot_be(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("name", ALL)
def test_rivals_refuse_pencils(name):
    with pytest.raises(TypeError, match="two data sets"):
        ALL[name](Pencil(np.eye(3)), 1)


@pytest.mark.parametrize("name", ALL)
def test_views_that_do_not_correlate(name):
    """Columns of X and Y that are never nonzero together: S_xy is zero without centring."""
    X = sparse.csr_array(np.vstack([np.eye(4), np.zeros((4, 4))]))
    Y = sparse.csr_array(np.vstack([np.zeros((4, 4)), np.eye(4)]))
    pairs = solved((X, Y), 2, ALL[name], reg=0.1, center=False)
    np.testing.assert_allclose(pairs.correlations, 0.0, atol=1e-12)
    assert np.all(np.isfinite(pairs.x_weights))
    assert np.all(np.isfinite(pairs.residuals))
