"""The accelerated default: right on the problems of the paper's algorithms, and on harder ones."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator

from genelin import (
    Davidson,
    Dense,
    FewRows,
    Pencil,
    TwoView,
    datasets,
    measures,
    solvers,
    top_k,
    top_k_cca,
)
from genelin.eigen.certify.residual_check import Gap, ResidualCheck
from genelin.eigen.methods.davidson_run import DavidsonRun
from genelin.eigen.methods.dense import OrDense
from genelin.eigen.methods.diagonal_cca import WhitenedSVD
from genelin.eigen.planning.planner import best_route
from genelin.eigen.subspace import correction_equation
from genelin.eigen.subspace.ritz_basis import Products, RitzBasis
from genelin.errors import ConvergenceWarning, RankDeficiencyWarning
from genelin.linalg import order, sin_theta
from genelin.operators import Gram, as_rows
from genelin.problems import is_diagonal
from genelin.results import CCASolution, Record, Status

RNG = np.random.default_rng


def pencil(d: int, values: np.ndarray, kappa: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A and B with given generalized eigenvalues and condition number of B."""
    rng = RNG(seed)
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    U = np.linalg.qr(rng.standard_normal((d, d)))[0]
    root = (Q * np.sqrt(np.geomspace(1, kappa, d))) @ Q.T
    A = root @ (U * values) @ U.T @ root
    return (A + A.T) / 2, root @ root


def expected(A: np.ndarray, B: np.ndarray, k: int, which: str) -> tuple[np.ndarray, np.ndarray]:
    values, V = eigh(A, B)
    top = order(values, which)[:k]
    return values[top], V[:, top]


@pytest.mark.parametrize("which", ["LM", "LA", "SA"])
@pytest.mark.parametrize("k", [1, 3, 8])
@pytest.mark.parametrize("kappa", [1.0, 1e3, 1e6])
def test_matches_eigh(which: str, k: int, kappa: float) -> None:
    values = RNG(7).uniform(-1, 1, 150)
    A, B = pencil(150, values, kappa, seed=3)
    solution = top_k(A, B, k=k, which=which, method=Davidson(), tol=1e-8)
    wanted, V = expected(A, B, k, which)
    assert solution.converged
    np.testing.assert_allclose(solution.values, wanted, atol=1e-8 * np.abs(wanted).max())
    assert sin_theta(solution.vectors, V, B) <= max(solution.sin_theta_bound, 1e-7 * kappa**0.5)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(2, 60),
    k=st.integers(1, 60),
    kappa=st.sampled_from([1.0, 10.0, 1e4, 1e8, 1e12]),
    kind=st.sampled_from(["spread", "clustered", "repeated", "opposite", "zero"]),
    which=st.sampled_from(["LM", "LA", "SA"]),
)
def test_random_pencils_right_or_reported(
    seed: int, d: int, k: int, kappa: float, kind: str, which: str
) -> None:
    k, rng = min(k, d), RNG(seed)
    values = rng.uniform(-1, 1, d)
    if kind == "clustered":
        values = np.round(values, 1) + 1e-9 * rng.standard_normal(d)
    if kind == "repeated":
        values = np.round(values, 1)
    if kind == "opposite":
        values = np.concatenate([values, -values])[:d]
    if kind == "zero":
        values[1:] = 0.0
    A, B = pencil(d, values, kappa, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = top_k(A, B, k=k, which=which, method=Davidson(), tol=1e-8)
    assert np.all(np.isfinite(solution.vectors))
    wanted = expected(A, B, k, which)[0]
    largest = np.abs(wanted).max()
    slack = 10 * kappa * np.finfo(float).eps * np.abs(values).max()
    found = np.abs(solution.values) if which == "LM" else solution.values  # of ±λ either will do
    wanted = np.abs(wanted) if which == "LM" else wanted
    if solution.converged:
        np.testing.assert_allclose(found, wanted, atol=3e-8 * largest + slack)
    else:
        assert solution.residuals.max() > 1e-8 * largest or solution.status is Status.NO_GAP


@pytest.mark.parametrize(
    "solver",
    [
        solvers.CG(),
        solvers.CG(preconditioner=None),
        solvers.Direct(),
        solvers.AGD(),
        lambda B, b, u0, delta: u0 + np.linalg.solve(B @ np.eye(len(b)), b - B @ u0),
    ],
    ids=["CG", "plain CG", "Direct", "AGD", "function"],
)
def test_any_solver_corrects(solver: object) -> None:
    values = np.concatenate([[3.0, -2.5, 2.0, 1.6], RNG(1).uniform(-1, 1, 116)])
    A, B = pencil(120, values, 1e3, seed=5)
    solution = top_k(A, B, k=4, method=Davidson(solver=solver), tol=1e-8)
    assert solution.converged
    np.testing.assert_allclose(solution.values, [3.0, -2.5, 2.0, 1.6], atol=1e-7)


def correlated(n: int, sizes: tuple[int, int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = RNG(seed)
    Z = rng.standard_normal((n, 6)) * np.linspace(3, 0.5, 6)
    X = Z @ rng.standard_normal((6, sizes[0])) + rng.standard_normal((n, sizes[0]))
    Y = Z @ rng.standard_normal((6, sizes[1])) + rng.standard_normal((n, sizes[1]))
    return X, Y


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("form", [True, False])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_canonical_pairs_match_the_dense_solution(center: bool, form: bool, kind: str) -> None:
    X, Y = correlated(400, (40, 30))
    if kind == "sparse":
        X, Y = (sparse.csr_array(np.where(np.abs(M) > 2, M, 0.0)) for M in (X, Y))
    problem = TwoView(X, Y, reg=1e-3, center=center, form=form)
    exact = top_k_cca(X, Y, k=4, reg=1e-3, center=center)
    found = Davidson()(problem, 4, 1e-8)
    assert found.converged
    np.testing.assert_allclose(found.correlations, exact.correlations, atol=1e-9)
    sine = measures.sin_theta_b(
        problem, np.vstack([found.x_weights, found.y_weights]), exact.x_weights, exact.y_weights
    )
    assert sine <= 1e-6
    for W, S in ((found.x_weights, problem.S_x), (found.y_weights, problem.S_y)):
        np.testing.assert_allclose(W.T @ (S @ W), np.eye(4), atol=1e-10)


def test_more_pairs_than_a_basis_has_room_for_blocks() -> None:
    X, Y = correlated(200, (12, 9))
    exact = top_k_cca(X, Y, k=9)
    found = Davidson()(TwoView(X, Y), 9, 1e-8)
    np.testing.assert_allclose(found.correlations, exact.correlations, atol=1e-9)


def test_warm_start_takes_less() -> None:
    values = np.concatenate([[3.0, 2.5, 2.0], RNG(1).uniform(-1.8, 1.8, 297)])
    A, B = pencil(300, values, 1e4, seed=5)
    first = top_k(A, B, k=3, method=Davidson())
    again = top_k(A * 1.0001, B, k=3, method=Davidson(start=first))
    assert again.converged
    assert again.cost.applications < first.cost.applications


def test_start_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="start has shape"):
        top_k(np.diag(np.arange(1.0, 9.0)), k=1, method=Davidson(start=np.ones((3, 1))))


def test_an_answer_at_the_end_of_the_budget_is_verified() -> None:
    A, B = pencil(100, np.r_[3.0, 2.5, RNG(1).uniform(-1, 1, 98)], 1e3, seed=5)
    exact = expected(A, B, 2, "LM")[1]
    solution = top_k(A, B, k=2, method=Davidson(start=exact, max_applications=1))
    assert solution.converged
    assert solution.residuals.max() <= 3e-8


def test_same_seed_same_answer() -> None:
    A, B = pencil(100, RNG(1).uniform(-1, 1, 100), 1e3, seed=5)
    one, two = (top_k(A, B, k=3, method=Davidson(), rng=4) for _ in range(2))
    np.testing.assert_array_equal(one.vectors, two.vectors)


def test_a_record_has_the_cost_of_its_pairs_and_not_of_what_comes_next() -> None:
    A, B = pencil(60, np.linspace(-1, 2, 60), 10.0, 0)
    seen: list[Record] = []
    top_k(A, B, k=3, method=Davidson(), callback=lambda record, W: seen.append(record))
    steps = np.array([record.inner_iterations for record in seen])
    products = np.diff([record.applications for record in seen])
    assert steps[0] == 0
    assert np.all(products > steps[1:])
    assert np.all(steps[1:] > 0)


def test_callback_stops() -> None:
    A, B = pencil(100, RNG(1).uniform(-1, 1, 100), 1e3, seed=5)
    with pytest.warns(ConvergenceWarning):
        solution = top_k(A, B, k=3, method=Davidson(), callback=lambda record, W: True)
    assert solution.status is Status.STOPPED
    assert len(solution.trace) == 1


def test_hard_operators_end_in_the_dense_solution() -> None:
    """κ(B) = 1e8, a gap of 1e-3, and nothing but products: no more than 2d extra columns."""
    d, k = 400, 5
    values = np.concatenate([np.linspace(1.004, 1.0, k), 0.999 * RNG(1).uniform(-1, 1, d - k)])
    values[k] = 0.999
    A, B = pencil(d, values, 1e8, seed=5)
    opaque = [
        LinearOperator((d, d), matvec=lambda v, M=M: M @ v, matmat=lambda V, M=M: M @ V)
        for M in (A, B)
    ]
    solution = top_k(*opaque, k=k, tol=1e-6)
    assert solution.converged
    np.testing.assert_allclose(solution.values, values[:k], atol=1e-6)
    assert solution.cost.applications <= 8 * d


def indicators(n: int, sizes: tuple[int, int], seed: int = 0) -> list[sparse.csr_array]:
    """Two categories per row, which depend on each other."""
    rng = RNG(seed)
    x = rng.integers(0, sizes[0], n)
    y = np.where(rng.random(n) < 0.5, x % sizes[1], rng.integers(0, sizes[1], n))
    return [
        sparse.csr_array((np.ones(n), code, np.arange(n + 1)), shape=(n, size))
        for code, size in zip((x, y), sizes, strict=True)
    ]


@pytest.mark.parametrize("k", [1, 6, 24, 25])
@pytest.mark.parametrize("scale", [False, True])
def test_diagonal_covariances(k: int, scale: bool) -> None:
    X, Y = indicators(4000, (40, 25))
    problem = TwoView(X, Y, reg=1e-4, center=False, scale=scale)
    assert is_diagonal(problem)
    found, exact = WhitenedSVD()(problem, k), Dense()(problem, k)
    assert found.converged
    np.testing.assert_allclose(found.correlations, exact.correlations, atol=1e-9)
    np.testing.assert_allclose(
        found.x_weights.T @ (problem.S_x @ found.x_weights), np.eye(k), atol=1e-9
    )
    if exact.sin_theta_bound < 1e-6:
        W = np.vstack([found.x_weights, found.y_weights])
        sine = measures.sin_theta_b(problem, W, exact.x_weights, exact.y_weights)
        assert sine <= found.sin_theta_bound + 1e-8


def test_covariances_that_are_not_diagonal_are_refused() -> None:
    X, Y = indicators(100, (10, 8))
    for problem in (TwoView(X, Y, reg=0.1), TwoView(X.toarray(), Y, reg=0.1, center=False)):
        with pytest.raises(ValueError, match="at most one nonzero"):
            WhitenedSVD()(problem, 2)


def test_wide_indicators_take_the_diagonal_route() -> None:
    X, Y = indicators(9000, (3000, 2500))
    assert best_route(TwoView(X, Y, reg=1e-3, center=False), 5).method == WhitenedSVD()
    centred = best_route(TwoView(X, Y, reg=1e-3, center=True), 5).method
    assert isinstance(centred, OrDense)
    assert isinstance(centred.first, Davidson)


def test_an_estimate_that_was_far_too_small_does_not_keep_a_run_from_its_end() -> None:
    """κ(B) = 1e12: the first estimate is 1e-4 of what rounding leaves of the residual."""
    A, B = pencil(31, RNG(25).uniform(-1, 1, 31), 1e12, seed=25)
    with pytest.warns(ConvergenceWarning):
        solution = top_k(A, B, k=10, method=Davidson())
    assert solution.status is Status.STAGNATED
    assert len(solution.trace) < 200


def test_the_dense_end_of_a_budget_counts_all_products() -> None:
    A, B = pencil(300, RNG(1).uniform(-1, 1, 300), 1e6, seed=5)
    columns = [0]

    def counted(M: np.ndarray) -> LinearOperator:
        def product(V: np.ndarray) -> np.ndarray:
            columns[0] += V.shape[1] if V.ndim == 2 else 1
            return M @ V

        return LinearOperator(M.shape, matvec=product, matmat=product, dtype=float)

    problem = Pencil(counted(A), counted(B))
    solution = OrDense(Davidson(max_applications=600))(problem, 3, 1e-8)
    assert solution.converged
    assert columns[0] == solution.cost.applications
    assert 600 <= columns[0] <= 600 + 600 + 300


def test_views_in_the_order_of_frequency_give_the_same_answer() -> None:
    rng = np.random.default_rng(5)
    topics, ends = rng.integers(0, 30, 4000).repeat(3), np.arange(0, 12_001, 3)
    words = [rng.integers(0, 80, 12_000) * 30 + topics for _ in range(2)]
    X, Y = (sparse.csr_array((np.ones(12_000), w, ends), shape=(4000, 2400)) for w in words)
    weights = rng.random(4000)
    views = [as_rows(Z).weighted(weights / weights.mean()) for Z in (X, Y)]
    seen: list[np.ndarray] = []

    def solved(form: bool, method: Davidson, tol: float = 1e-9) -> CCASolution:
        def keep(record: Record, W: np.ndarray) -> None:
            seen.append(W.copy())

        return top_k_cca(*views, 5, reg=1e-2, form=form, method=method, tol=tol, callback=keep)

    streamed, formed = (solved(form, Davidson()) for form in (False, True))
    np.testing.assert_allclose(streamed.correlations, formed.correlations, atol=1e-9)
    S_x = Gram(views[0], 1e-2, center=True)
    bound = streamed.sin_theta_bound + formed.sin_theta_bound
    assert sin_theta(streamed.x_weights, formed.x_weights, S_x) < bound + 1e-9
    whole = np.vstack([streamed.x_weights, streamed.y_weights])
    last = seen[len(streamed.trace) - 1]  # what the callback saw is in the order of the data
    assert np.linalg.matrix_rank(np.hstack([whole, last]), tol=1e-3) == 5
    assert len(solved(False, Davidson(start=streamed), 1e-8).trace) == 1


@pytest.mark.filterwarnings("ignore::genelin.errors.RankDeficiencyWarning")
@pytest.mark.parametrize("center", [True, False])
def test_streamed_views_of_deficient_rank(center: bool) -> None:
    rng = np.random.default_rng(0)
    X = sparse.random_array((400, 30), density=0.3, rng=rng, format="csr")
    X = sparse.hstack([X, X[:, :5]], format="csr")
    Y = (X[:, :12] @ rng.random((12, 12)) + rng.standard_normal((400, 12))) * (X[:, :12] != 0)
    settings = {"k": 3, "form": False, "center": center, "tol": 1e-9}
    found = top_k_cca(X, sparse.csr_array(Y), **settings, method=Davidson())
    exact = top_k_cca(X, sparse.csr_array(Y), **settings, method=Dense())
    np.testing.assert_allclose(found.correlations, exact.correlations, atol=1e-9)
    pair = (found.x_weights, found.y_weights)
    for start in (found, pair, np.vstack(pair)):
        method = Davidson(start=start)
        again = top_k_cca(X, sparse.csr_array(Y), **settings | {"tol": 1e-8}, method=method)
        assert len(again.trace) == 1
    with pytest.raises(ValueError, match="35 features of X"):
        top_k_cca(X, sparse.csr_array(Y), **settings, method=Davidson(start=np.ones((9, 2))))


# --- Spaces in single precision -------------------------------------------------------------------


@pytest.fixture(scope="module")
def words() -> tuple[sparse.csr_array, sparse.csr_array]:
    """Sparse views without a tie among their first correlations."""
    X, Y = datasets.sparse_topics(20_000, 600, rng=0)
    return sparse.csr_array(X), sparse.csr_array(Y)


@pytest.fixture
def precisions(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the space of every iteration was in single precision, which is for long work only."""
    monkeypatch.setattr(correction_equation, "LONG", 0.0)
    seen: list[bool] = []
    verdict = DavidsonRun._verdict

    def noted(self: DavidsonRun, *args: object) -> Status | None:
        seen.append(self.single)
        return verdict(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(DavidsonRun, "_verdict", noted)
    return seen


@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-11])
@pytest.mark.parametrize("settings", [{}, {"center": True, "scale": True}, {"form": False}])
def test_a_space_in_single_precision_reaches_any_tolerance(words, precisions, tol, settings):
    settings = {"reg": 1e-3, "center": False} | settings
    found = top_k_cca(*words, 8, **settings, tol=tol, method=Davidson())
    assert precisions[0]
    assert precisions[-1] == (tol == 1e-2)
    assert found.converged
    exact = top_k_cca(*words, 9, **settings, method=Dense())
    np.testing.assert_allclose(found.correlations, exact.correlations[:8], atol=max(tol**2, 1e-12))
    assert found.residuals.max() <= tol
    problem = TwoView(*words, **{name: value for name, value in settings.items() if name != "form"})
    for W, S in ((found.x_weights, problem.S_x), (found.y_weights, problem.S_y)):
        np.testing.assert_allclose(W.T @ (S @ W), np.eye(8), atol=1e-12)
    sines = (
        sin_theta(found.x_weights, exact.x_weights[:, :8], problem.S_x),
        sin_theta(found.y_weights, exact.y_weights[:, :8], problem.S_y),
    )
    assert max(sines) <= found.sin_theta_bound


def test_rounding_that_is_in_the_way_ends_single_precision(words, precisions):
    """Ill-conditioned: residuals in the B⁻¹-norm end far above what single precision promises."""
    X = sparse.csr_array(
        sparse.hstack(
            [words[0], words[0] @ sparse.random_array((600, 40), density=0.2, rng=RNG(0)).tocsr()]
        )
    )
    found = top_k_cca(X, words[1], 8, reg=1e-9, center=False, tol=1e-7, method=Davidson())
    exact = top_k_cca(X, words[1], 8, reg=1e-9, center=False, method=Dense())
    assert precisions[0]
    assert not precisions[-1]
    assert found.converged
    np.testing.assert_allclose(found.correlations, exact.correlations, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_of_the_data_do_not_matter_in_single_precision(words, precisions, scale):
    X, Y = words
    plain = top_k_cca(X, Y, 5, reg=1e-3, center=False, tol=1e-8, method=Davidson())
    reg = (1e-3 * scale**2, 1e-3)
    scaled = top_k_cca(X * scale, Y, 5, reg=reg, center=False, tol=1e-8, method=Davidson())
    assert precisions[0]
    assert scaled.converged
    np.testing.assert_allclose(scaled.correlations, plain.correlations, atol=1e-12)


def test_deficient_views_are_solved_in_double_precision(words, precisions):
    X = sparse.csr_array(sparse.hstack([words[0], words[0][:, :3]]))
    with pytest.warns(UserWarning, match="rank-deficient"):
        found = top_k_cca(X, words[1], 5, center=False, tol=1e-8, form=False, method=Davidson())
    assert not any(precisions)
    assert found.converged


# --- Gaps -----------------------------------------------------------------------------------------


def test_a_gap_with_one_more_eigenvalue_in_it_is_narrowed() -> None:
    """The search ended at 1.0 and has overlooked 1.7."""
    A = np.diag([2.0, 1.7, *np.linspace(1.0, -1.0, 20)])
    problem, cg = Pencil(A, which="LA"), solvers.CG()
    W = np.eye(22, 1)
    basis = RitzBasis(Products(W, A @ W, W), np.array([2.0]))
    gap = Gap(1.0, 0.01, 1e-4, 1e-6, W, np.array([1e-4]), np.zeros(1), np.zeros(1))
    found = ResidualCheck(problem, cg, cg.init(problem.B)).counted(gap, basis)
    assert found.certified
    assert 0.1 < found.surely < 0.3
    assert 1e-4 / 0.3 <= found.sine <= 1e-3


STARTS = {  # of k = 2 pairs, for a pencil of size 8
    "zeros": np.zeros((8, 20)),
    "one zero": np.zeros((8, 1)),
    "no columns": np.zeros((8, 0)),
    "copies": np.ones((8, 20)),
    "copies of an eigenvector": np.eye(8)[:, [7] * 20],
    "more than the size": np.eye(8, 40),
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("solver", [solvers.CG(), solvers.GD()], ids=["CG", "GD"])
def test_a_start_that_holds_too_little_is_filled_up(start: str, solver: object) -> None:
    method = Davidson(solver=solver, start=STARTS[start])
    found = top_k(np.diag(np.arange(1.0, 9.0)), k=2, method=method)
    np.testing.assert_allclose(found.values, [8.0, 7.0])
    assert found.converged


@pytest.mark.parametrize("blank", ["both", "Y", "a problem of size one"])
def test_a_start_of_views_that_holds_nothing_is_filled_up(blank: str) -> None:
    rng = RNG(0)
    X, Y = rng.standard_normal((60, 6)), rng.standard_normal((60, 5))
    if blank == "a problem of size one":
        X, Y = X[:, :1], Y[:, :1]
    x, y = X.shape[1], Y.shape[1]
    start = (np.eye(x, 9) * (blank == "Y"), np.zeros((y, 9)))
    exact, found = (
        top_k_cca(X, Y, k=min(y, 2), method=method) for method in (Dense(), Davidson(start=start))
    )
    np.testing.assert_allclose(found.correlations, exact.correlations)


@pytest.mark.parametrize("which", ["LM", "LA", "SA"])
@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("entry", [0.0, 1.0, -1.0, 1e-12])
def test_smallest_problems(which: str, d: int, entry: float) -> None:
    for k in range(1, d + 1):
        found = top_k(entry * np.eye(d), k=k, which=which, method=Davidson())
        np.testing.assert_allclose(found.values, entry)
        assert found.vectors.shape == (d, k)


@pytest.mark.parametrize("method", [None, Davidson(), Dense(), FewRows()], ids=str)
def test_a_wide_view_without_variance_is_refused_by_its_rank(method: object) -> None:
    Y = sparse.random_array((40, 2100), density=0.01, format="csr", rng=RNG(0))
    with pytest.raises(ValueError, match=r"k=1 is more than the numerical rank 0 of X"):
        top_k_cca(0 * Y, Y, k=1, method=method)


def test_dense_does_not_return_fewer_pairs_than_the_rank_has() -> None:
    rng = RNG(0)
    Y = rng.standard_normal((40, 3))
    X = np.outer(rng.standard_normal(40), np.ones(2100))
    message = r"k=2 is more than the smaller numerical rank of X and Y, 1: ask for fewer pairs"
    with pytest.warns(RankDeficiencyWarning), pytest.raises(ValueError, match=message):
        top_k_cca(X, Y, k=2, method=Dense())
