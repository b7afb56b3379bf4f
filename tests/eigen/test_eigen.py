import warnings
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import linalg, sparse
from scipy.sparse.linalg import aslinearoperator

from cases import EPS, SLOW, SOLVERS, STOCHASTIC, Case, pencil_from, pencils, suited
from genelin import (
    ConvergenceWarning,
    Dense,
    GenELin,
    GenELinK,
    Pencil,
    Status,
    solvers,
    top_k,
)
from genelin.eigen.paper import genelink

LOCALLY_OPTIMAL = GenELinK(locally_optimal=True, reduction=1e-2)


def solve(case, method, **options):
    """top_k with its warning taken as part of the answer: it must match `converged`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        B = suited(getattr(method, "solver", None), case.B)
        solution = top_k(case.A, B, case.k, method=method, **options)
    warned = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    assert warned != solution.converged
    assert np.all(np.isfinite(solution.values))
    assert np.all(np.isfinite(solution.vectors))
    return solution


def assert_right(case, solution):
    assert solution.converged
    assert case.value_error(solution.values) <= case.value_limit
    sine = case.sine(solution.vectors)
    assert sine <= case.sine_limit
    assert sine <= max(solution.sin_theta_bound, 10 * case.kappa * EPS / case.rho)
    gram = solution.vectors.T @ case.B @ solution.vectors
    np.testing.assert_allclose(gram, np.eye(case.k), atol=max(1e-10, 10 * case.kappa * EPS))


# --- Against scipy.linalg.eigh -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "examples"), [("CG", 15), ("CG plain", 10), ("Direct", 60), ("user", 10)]
)
def test_genelink_is_right(name, examples):
    solver, max_kappa = SOLVERS[name]

    @settings(max_examples=examples)
    @given(case=pencils(max_kappa))
    @example(case=pencil_from(np.r_[2, -1.5, 1, 0.95 * np.cos(np.arange(20))], 3, max_kappa, 0))
    def check(case):
        assert_right(case, solve(case, GenELinK(solver=solver)))

    check()


@pytest.mark.parametrize("name", ["GD", "AGD", *STOCHASTIC])
def test_genelink_is_right_with_gradient_methods(name):
    solver, max_kappa = SOLVERS[name]

    @settings(max_examples=3)
    @given(case=pencils(max_kappa))
    @example(case=pencil_from([2, -1.5, 1, -0.95, 0.5, 0.1, 0.0], 3, max_kappa, 0))
    def check(case):
        assert_right(case, solve(case, GenELinK(solver=solver)))

    check()


@pytest.mark.parametrize("name", SOLVERS)
def test_genelin_is_right(name):
    solver, max_kappa = SOLVERS[name]

    @settings(max_examples=4 if name in SLOW else 15)
    @given(case=pencils(max_kappa, k=1))
    def check(case):
        assert_right(case, solve(case, GenELin(solver=solver)))

    check()


@pytest.mark.parametrize("name", SOLVERS)
def test_locally_optimal_is_right(name):
    solver, max_kappa = SOLVERS[name]

    @settings(max_examples=5 if name in SLOW else 25)
    @given(case=pencils(max_kappa))
    def check(case):
        method = GenELinK(solver=solver, locally_optimal=True, reduction=1e-2)
        assert_right(case, solve(case, method))

    check()


@pytest.mark.parametrize("k", [15, 18, 21])
@pytest.mark.parametrize("seed", range(4))
def test_locally_optimal_when_the_basis_fills_the_space(k, seed):
    """W, the direction and the corrections have more columns than d together; values repeat."""
    rng = np.random.default_rng(seed)
    values = np.r_[
        np.sort(rng.integers(2, 10, k - 1))[::-1], 1, 0.9 * rng.integers(0, 3, 45 - k) / 2
    ]
    case = pencil_from(values * rng.choice([-1.0, 1.0], 45), k, 1e6, seed)
    assert_right(case, solve(case, GenELinK(locally_optimal=True, reduction=1e-2)))


@settings(max_examples=100)
@given(case=pencils(1e12, min_rho=0.0))
def test_dense_default_is_right_everywhere(case):
    """Up to 10·κ·eps, whatever the gap; below the floor of rounding it says `stagnated`."""
    solution = solve(case, None)
    assert case.value_error(solution.values) <= max(1e-12, 10 * case.kappa * EPS)
    assert solution.status in (Status.CONVERGED, Status.TIED, Status.STAGNATED)
    if case.rho > 0:
        assert case.sine(solution.vectors) <= max(1e-10, 100 * case.kappa * EPS / case.rho)


@settings(max_examples=40)
@given(
    case=pencils(1e12, min_rho=0.0, max_rho=0.5, max_d=30),
    name=st.sampled_from(["GD", "AGD", "CG", "Direct"]),
    optimal=st.booleans(),
)
def test_beyond_the_limits_right_or_honest(case, name, optimal):
    limit = {} if name == "Direct" else {"max_iter": 100}
    solver = getattr(solvers, name)(**limit)
    method = GenELinK(solver=solver, max_iter=60, locally_optimal=optimal)
    solution = solve(case, method)
    if solution.converged:
        exact, _ = case.exact()
        gap = np.abs(np.abs(solution.values) - np.abs(exact)).max() / np.abs(exact[0])
        assert gap <= case.value_limit


# --- No gap at k -------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1, -1], ids=["repeated", "opposite"])
@pytest.mark.parametrize("name", ["CG", "Direct", "AGD"])
@pytest.mark.parametrize("seed", range(3))
def test_no_gap_is_said(sign, name, seed):
    values = np.r_[3, -2, 1.5, 1, sign, 0.7 * np.cos(np.arange(25))]
    case = pencil_from(values, 4, 1e2, seed)
    solution = solve(case, GenELinK(solver=SOLVERS[name][0]))
    assert solution.status is Status.NO_GAP
    assert solution.sin_theta_bound == 1.0
    assert "not unique" in solution.status.advice


@pytest.mark.parametrize("sign", [1, -1], ids=["repeated", "opposite"])
@pytest.mark.parametrize("method", [None, LOCALLY_OPTIMAL], ids=["dense", "iterative"])
@pytest.mark.parametrize("seed", range(5))
def test_defaults_return_right_values_without_a_gap(sign, method, seed):
    values = np.r_[3, -2, 1.5, 1, sign, 0.7 * np.cos(np.arange(25))]
    case = pencil_from(values, 4, 1e3, seed)
    solution = solve(case, method)
    np.testing.assert_allclose(np.abs(solution.values), [3, 2, 1.5, 1], rtol=1e-8)
    assert solution.sin_theta_bound == 1.0


def test_a_pair_that_the_start_does_not_hold_is_not_missed(monkeypatch):
    """The start is orthogonal to the top vector: rounding aside, the iteration cannot see it."""
    d = 300
    A = np.diag(np.r_[1.0, 0.999, 0.8 * np.cos(np.arange(d - 2))])
    real = genelink.start_of_paper

    def blind(*given):
        W = real(*given)
        W[0] = 0.0
        return W

    for method in (GenELinK(max_iter=200, solver=solvers.Direct()), LOCALLY_OPTIMAL):
        monkeypatch.setattr(genelink, "start_of_paper", blind)
        solution = top_k(A, k=1, method=method)
        assert solution.values[0] == pytest.approx(1.0, rel=1e-10)


def test_zero_matrix():
    solution = solve(Case(np.zeros((6, 6)), np.eye(6), 2, 1.0, 0.0), GenELinK())
    assert solution.status is Status.NO_GAP
    np.testing.assert_allclose(solution.values, 0)


# --- Larger problems: nothing dense of size d --------------------------------------------------


@cache
def sparse_pencil(d=2100, seed=0):
    """Sparse, indefinite A and a tridiagonal mass matrix; top values stand out."""
    rng = np.random.default_rng(seed)
    B = sparse.diags_array([1.0, 4.0, 1.0], offsets=[-1, 0, 1], shape=(d, d)) / 6
    A = sparse.random_array((d, d), density=3 / d, rng=rng, format="csr")
    A = (A + A.T) / 2
    values = np.zeros(d)
    values[:8] = [9, -8, 7, -6, 5, 4.5, -4, 3.5]
    A, B = (A * 0.1 + sparse.diags_array(values)).tocsr(), B.tocsr()
    return A, B, linalg.eigh(A.toarray(), B.toarray(), eigvals_only=True)


@pytest.mark.parametrize("kind", ["sparse", "LinearOperator"])
@pytest.mark.parametrize("which", ["LM", "LA", "SA"])
def test_default_on_a_large_sparse_pencil(kind, which, monkeypatch):
    A, B, exact = sparse_pencil()
    expected = {"LM": None, "LA": exact[::-1][:5], "SA": exact[:5]}[which]
    if expected is None:
        expected = exact[np.argsort(-np.abs(exact))][:5]
    if kind == "LinearOperator":
        A, B = aslinearoperator(A), aslinearoperator(B)
    monkeypatch.setattr(Dense, "solve", None)  # must not be taken
    solution = top_k(A, B, k=5, which=which)
    assert solution.converged
    np.testing.assert_allclose(solution.values, expected, rtol=1e-8)
    assert solution.residuals.max() <= 1e-8 * np.abs(expected).max()


@pytest.mark.parametrize("which", ["LA", "SA"])
@pytest.mark.parametrize("seed", range(3))
def test_plain_genelink_finds_algebraic_ends_by_a_shift(which, seed):
    values = np.r_[3, -2.5, 1.5, -1, 0.3 * np.cos(np.arange(15))]
    case = pencil_from(values, 2, 1e3, seed)
    solution = solve(case, GenELinK(), which=which)
    exact, _ = case.exact(which)
    assert solution.converged
    np.testing.assert_allclose(solution.values, exact, rtol=1e-8)
    np.testing.assert_allclose(solution.trace[-1].ritz_values, exact, rtol=1e-4)


@pytest.mark.parametrize("method", [GenELinK(), LOCALLY_OPTIMAL, GenELinK(solver=solvers.AGD())])
@pytest.mark.parametrize("which", ["LM", "LA"])
def test_units_do_not_matter(method, which):
    """A → aA, B → bB changes eigenvalues by a/b and nothing else, however large the factors."""
    case = pencil_from(np.r_[3, -2.5, 1.5, -1, 0.3 * np.cos(np.arange(15))], 2, 1e2, 0)
    exact, _ = case.exact(which)
    for a, b in ((1e-12, 1.0), (1e12, 1.0), (1.0, 1e-10), (1e-8, 1e10)):
        solution = top_k(a * case.A, b * case.B, k=2, method=method, which=which)
        assert solution.converged
        np.testing.assert_allclose(solution.values * b / a, exact, rtol=1e-7)


@pytest.mark.parametrize("k", [3, 11, 12])
@pytest.mark.parametrize("method", [GenELinK(solver=solvers.Direct()), GenELinK(), LOCALLY_OPTIMAL])
def test_all_pairs_of_a_badly_scaled_pencil(k, method):
    """Features in units from 1e-3 to 1e3, κ(B) = 1e12: the start must hold k columns in B."""
    units = np.logspace(-3, 3, 12)
    A = units[:, None] * np.diag(np.arange(1.0, 13.0)) * units
    solution = top_k(A, np.diag(units**2), k=k, method=method)
    assert solution.converged
    np.testing.assert_allclose(solution.values, np.arange(12, 12 - k, -1), rtol=1e-8)


@pytest.mark.parametrize("method", [GenELinK(solver=solvers.Direct()), LOCALLY_OPTIMAL])
def test_an_ill_conditioned_start_keeps_its_columns(method):
    case = pencil_from(np.arange(40.0, 0.0, -1.0), 40, 1e12, 0)
    solution = solve(case, method)
    assert solution.values.shape == (40,)
    assert case.value_error(solution.values) <= 100 * case.kappa * EPS


@pytest.mark.parametrize("tol", [0.5, 0.05, 0.02])
def test_a_loose_tolerance_does_not_hide_the_gap(tol):
    case = pencil_from(np.r_[3, 2, 1.9, 0.5 * np.cos(np.arange(20))], 2, 10.0, 0)
    assert solve(case, GenELinK(), tol=tol).status is Status.CONVERGED


def test_identity_is_the_default_for_B():
    A = np.diag([1.0, -4.0, 3.0, 2.0])
    for method in (None, GenELinK()):
        np.testing.assert_allclose(top_k(A, k=2, method=method).values, [-4, 3], rtol=1e-8)


def test_one_by_one():
    for method in (None, GenELin(), GenELinK(), LOCALLY_OPTIMAL):
        solution = top_k(np.array([[6.0]]), np.array([[2.0]]), k=1, method=method)
        assert solution.values[0] == pytest.approx(3.0)
        assert solution.converged


# --- Results -----------------------------------------------------------------------------------

CASE = pencil_from(np.r_[3, -2, 1.5, 1, 0.6 * np.cos(np.arange(20))], 3, 1e3, 5)


@pytest.mark.parametrize("method", [GenELinK(), LOCALLY_OPTIMAL, GenELinK(solver=solvers.AGD())])
def test_same_seed_same_answer(method):
    first, second = (solve(CASE, method, rng=3) for _ in range(2))
    np.testing.assert_array_equal(first.vectors, second.vectors)
    np.testing.assert_array_equal(first.values, second.values)
    other = solve(CASE, method, rng=np.random.default_rng(4))
    np.testing.assert_allclose(np.abs(other.values), np.abs(first.values), rtol=1e-8)


@pytest.mark.parametrize("method", [None, GenELinK(), LOCALLY_OPTIMAL])
def test_signs_follow_the_rule(method):
    W = solve(CASE, method).vectors
    assert np.all(W[np.abs(W).argmax(axis=0), np.arange(3)] > 0)


def test_residuals_bound_the_true_ones():
    for method in (GenELinK(solver=solvers.AGD()), GenELinK(max_iter=5), LOCALLY_OPTIMAL, None):
        solution = solve(CASE, method)
        R = CASE.A @ solution.vectors - CASE.B @ solution.vectors * solution.values
        true = np.sqrt(np.einsum("ij,ij->j", R, np.linalg.solve(CASE.B, R)))
        assert np.all(solution.residuals >= 0.999 * true - 1e-13)
        assert np.all(solution.residuals <= 1.1 * true + 5e-12)  # rounding is part of them


def test_trace_and_cost():
    seen = []
    solution = solve(CASE, GenELinK(), callback=lambda record, W: seen.append((record, W.shape)))
    trace = solution.trace
    assert len(trace) == len(seen)
    assert seen[0][1] == (CASE.d, 3)
    assert [r.iteration for r in trace] == list(range(1, len(trace) + 1))
    for name in ("seconds", "passes", "flops", "applications"):
        assert np.all(np.diff(trace.column(name)) >= 0)
        assert getattr(solution.cost, name) >= trace.column(name)[-1]
    assert trace.column("ritz_values").shape == (len(trace), 3)
    assert trace.column("residual")[-1] <= 1e-8
    assert isinstance(trace[1:3], type(trace))
    assert "outer iterations" in repr(trace)
    assert "converged" in repr(solution)


def test_exactly_T_iterations():
    solution = solve(CASE, GenELinK(iterations=7))
    assert len(solution.trace) == 7
    assert solution.status is Status.FIXED_ITERATIONS
    enough = solve(CASE, GenELinK(iterations=120))
    assert len(enough.trace) == 120
    assert enough.converged


def test_callback_stops():
    solution = solve(CASE, GenELinK(), callback=lambda record, W: record.iteration >= 4)
    assert len(solution.trace) == 4
    assert solution.status is Status.STOPPED


def test_max_iterations_is_reported_with_advice():
    solution = solve(CASE, GenELinK(max_iter=3))
    assert solution.status is Status.MAX_ITERATIONS
    assert "max_iter" in str(solution.status)


def test_a_lazy_solver_is_found_out():
    """It returns its start and so claims, by the contract, that the start was exact."""
    solution = solve(CASE, GenELinK(solver=lambda B, b, u0, delta: u0))
    assert solution.status is Status.SOLVER_FAILED
    assert solution.residuals.max() > 1e-3


def test_a_weak_solver_is_not_believed():
    """One gradient step does not reduce by δ; the answer is right or not called converged."""
    step = 1 / np.linalg.norm(CASE.B, 2)
    weak = GenELinK(solver=lambda B, b, u0, delta: u0 + step * (b - B @ u0), max_iter=300)
    solution = solve(CASE, weak)
    if solution.converged:
        assert CASE.value_error(solution.values) <= CASE.value_limit
    else:
        assert solution.residuals.max() > 1e-8


def test_methods_can_be_called_on_problems():
    solution = GenELinK(solver=solvers.Direct())(Pencil(CASE.A, CASE.B), 3, 1e-10, 0, None)
    assert CASE.value_error(solution.values) < 1e-9
