"""Ends of a spectrum where values are clustered: factors of A − σB, and when they are taken."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, sparse
from scipy.sparse.linalg import aslinearoperator

from genelin import Davidson, Lanczos, Pencil, ShiftInvert, plan_top_k, top_k
from genelin.eigen.costs.machine import default_machine
from genelin.eigen.costs.spectrum_probe import beyond_the_end, clustering
from genelin.eigen.planning.planner import best_route
from genelin.linalg import leading_pairs, order, sin_theta
from genelin.linalg.sparse_cholesky import factored, predicted_fill

SIDE = 60  # of a square mesh


def path(d, diagonal=2.0, beside=-1.0):
    return sparse.diags_array([beside, diagonal, beside], offsets=[-1, 0, 1], shape=(d, d)).tocsr()


def stiffness(side=SIDE):
    """The Laplacian of a square with zeros on its border."""
    T, identity = path(side), sparse.eye_array(side)
    return (sparse.kron(T, identity) + sparse.kron(identity, T)).tocsr()


def mass(side=SIDE):
    T = path(side, 4.0, 1.0) / 6
    return sparse.kron(T, T).tocsr()


def modes(side=SIDE):
    """Eigenvalues of `stiffness`, ascending; most of them are double."""
    one = 4 * np.sin(np.pi * np.arange(1, side + 1) / (2 * side + 2)) ** 2
    return np.sort((one[:, None] + one).ravel())


@pytest.mark.parametrize("k", [1, 3, 8, 20])
@pytest.mark.parametrize("tol", [1e-4, 1e-8])
def test_low_modes_of_a_mesh_with_their_copies(k, tol):
    solution = top_k(stiffness(), k=k, which="SA", tol=tol)
    assert solution.route.startswith("shift and invert")
    assert solution.converged
    np.testing.assert_allclose(solution.values, modes()[:k], atol=tol * modes()[k - 1])
    assert solution.residuals.max() <= tol * modes()[k - 1]


@pytest.mark.parametrize("which", ["SA", "LA"])
def test_a_pencil_from_both_sides(which):
    A, B = stiffness(30), mass(30)
    values, V = linalg.eigh(A.toarray(), B.toarray())
    sign = 1 if which == "SA" else -1
    solution = top_k(sign * A, B, k=4, which=which, method=ShiftInvert())
    assert solution.converged
    np.testing.assert_allclose(sign * solution.values, values[:4], rtol=1e-8)
    sine = sin_theta(solution.vectors, V[:, :4], B)
    assert sine <= max(solution.sin_theta_bound, 1e-10)
    assert solution.sin_theta_bound < 1e-5


def test_components_of_a_graph_are_counted():
    """As many zeros as there are parts, and the slow mode of a chain, of size 1e-5."""
    parts = [path(size) for size in (700, 900, 800)]
    for part in parts:
        part[0, 0] = part[-1, -1] = 1.0
    L = sparse.block_diag(parts).tocsr()
    slow = 4 * np.sin(np.pi / (2 * 900)) ** 2
    solution = top_k(L, k=4, which="SA", tol=1e-6)
    assert solution.converged
    np.testing.assert_allclose(solution.values[:3], 0.0, atol=1e-6 * slow)
    np.testing.assert_allclose(solution.values[3], slow, rtol=1e-6)


def test_bound_states_below_zero():
    """A well in the plane: σ comes from the sums of rows."""
    x = np.arange(50.0)
    well = -3 * np.exp(-((x[:, None] - 25) ** 2 + (x - 20) ** 2) / 40).ravel()
    A = (stiffness(50) + sparse.diags_array(well)).tocsr()
    solution = top_k(A, k=3, which="SA", method=ShiftInvert())
    expected = linalg.eigh(A.toarray(), eigvals_only=True, subset_by_index=[0, 2])
    assert solution.converged
    np.testing.assert_allclose(solution.values, expected, rtol=1e-8)


def test_an_indefinite_matrix_is_left_to_the_iteration():
    """Its diagonal is positive, its factors tell that it is not definite."""
    rng = np.random.default_rng(0)
    d = 400
    A = path(d, 0.5, 1.0) + sparse.diags_array(rng.uniform(0, 0.1, d))
    solution = top_k(A, k=2, which="SA", method=ShiftInvert())
    expected = linalg.eigh(A.toarray(), eigvals_only=True, subset_by_index=[0, 1])
    assert expected[0] < 0
    assert solution.converged
    np.testing.assert_allclose(solution.values, expected, rtol=1e-7)


def test_the_shift_may_be_given():
    A = stiffness(30) - 2.5 * sparse.eye_array(900)
    solution = top_k(A, k=3, which="SA", method=ShiftInvert(shift=-2.6))
    np.testing.assert_allclose(solution.values, modes(30)[:3] - 2.5, rtol=1e-8)
    with pytest.raises(ValueError, match="3 of the eigenvalues"):
        top_k(A, k=3, which="SA", method=ShiftInvert(shift=float(modes(30)[3]) - 2.51))


@pytest.mark.parametrize(
    ("A", "which", "words"),
    [
        (stiffness(10), "LM", "one end"),
        (stiffness(10).toarray(), "SA", "sparse"),
        (aslinearoperator(stiffness(10)), "SA", "sparse"),
    ],
)
def test_what_cannot_be_inverted_is_refused(A, which, words):
    with pytest.raises(ValueError, match=words):
        top_k(A, k=2, which=which, method=ShiftInvert())


@pytest.mark.parametrize("shift", [np.nan, np.inf, "zero"])
def test_a_shift_is_a_finite_number(shift):
    with pytest.raises(ValueError, match="shift="):
        ShiftInvert(shift=shift)


def test_many_pairs_of_both_ends_are_refused_as_few_are():
    with pytest.raises(ValueError, match="one end"):
        top_k(stiffness(4), k=14, which="LM", method=ShiftInvert())


def test_a_look_at_the_spectrum_of_a_small_or_a_wrong_pencil():
    few, identity = path(8), sparse.eye_array(8).tocsr()
    assert clustering(few, identity) > 1
    assert clustering(few + 9 * identity, identity) is None
    assert beyond_the_end(few, -identity) == []


def test_almost_all_pairs():
    solution = top_k(stiffness(4), k=14, which="SA", method=ShiftInvert())
    np.testing.assert_allclose(solution.values, modes(4)[:14], rtol=1e-7)


def test_same_seed_same_answer_and_a_callback_sees_it():
    seen = []
    first, second = (
        top_k(stiffness(), k=3, which="SA", rng=5, callback=lambda record, W: seen.append(W))
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.vectors, second.vectors)
    assert len(seen) == 2
    assert sin_theta(seen[0], first.vectors, np.eye(SIDE**2)) < 1e-6


def test_checkpoints_hold_the_answer(tmp_path):
    first = top_k(stiffness(), k=2, which="SA", checkpoint=tmp_path)
    again = top_k(stiffness(), k=2, which="SA", checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(first.values, again.values)


def test_cost_counts_products_solves_and_time():
    cost = top_k(stiffness(), k=2, which="SA").cost
    assert cost.applications > 20
    assert cost.flops > 20 * 4 * factored(stiffness()).entries
    assert 0 < cost.seconds < 100


# --- When it is taken --------------------------------------------------------------------------


def test_routes():
    A, B = stiffness(), mass()
    identity = sparse.eye_array(A.shape[0]).tocsr()
    for sign, which in ((1, "SA"), (-1, "LA")):
        assert best_route(Pencil(sign * A, B, which), 5).method == ShiftInvert()
        assert isinstance(best_route(Pencil(sign * A, B, "LM"), 5).method, Davidson | Lanczos)
    assert isinstance(best_route(Pencil(A, B, "LA"), 5).method, Davidson | Lanczos)
    far = Pencil(A + 30 * identity, None, "SA")  # zero is far from the smallest value
    assert isinstance(best_route(far, 5).method, Lanczos)
    assert clustering(A, B) > 10
    assert clustering(A + 30 * identity, identity) is None
    assert beyond_the_end(sparse.diags_array(np.zeros(5)).tocsr(), identity[:5, :5]) == [0.0]


def grid(side, dimensions):
    """Second differences on a square, a cube, …"""
    total, line = sparse.csr_array((1, 1)), path(side)
    for _ in range(dimensions):
        total = sparse.kronsum(line, total, format="csr")
    return total.tocsr()


@pytest.mark.parametrize(("side", "dimensions"), [(40, 1), (60, 2), (18, 3), (24, 3)])
def test_crowding_is_that_of_the_smallest_values(side, dimensions):
    """√(largest/smallest) of second differences is cot(π/2(side + 1)) in any dimension."""
    A = grid(side, dimensions)
    true = 1 / np.tan(np.pi / (2 * (side + 1)))
    assert 0.6 * true < clustering(A, sparse.eye_array(A.shape[0]).tocsr()) < 1.6 * true


def test_crowding_of_a_graph_is_that_of_its_second_value():
    """A constant vector has the value zero, and is found at once: it does not count."""
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 3000, (2, 15_000))
    G = sparse.coo_array((np.ones(15_000), ends), shape=(3000, 3000)).tocsr()
    G = ((G + G.T) > 0).astype(float)
    L = (sparse.diags_array(np.ravel(G.sum(axis=1))) - G).tocsr()
    values = linalg.eigh(L.toarray(), eigvals_only=True)
    distinct = values[values > 1e-9]
    true = np.sqrt(distinct[-1] / distinct[0])
    assert 0.6 * true < clustering(L, sparse.eye_array(3000).tocsr()) < 1.6 * true


def test_small_values_of_a_cube_need_no_factors():
    """Their copies are found, too, and their residuals are small against themselves."""
    A = grid(20, 3)
    route = best_route(Pencil(A, which="SA"), 7)
    assert isinstance(route.method, Lanczos)
    solution = top_k(A, k=7, which="SA")
    lowest = 4 * np.sin(np.arange(1, 4) * np.pi / 42) ** 2
    expected = np.sort((lowest[:, None, None] + lowest[:, None] + lowest).ravel())[:7]
    assert solution.converged
    np.testing.assert_allclose(solution.values, expected, rtol=1e-9)


def test_factors_that_do_not_fit_in_memory_are_not_taken():
    problem = Pencil(stiffness(), which="SA")
    small = replace(default_machine(), memory=best_route(problem, 3).memory)
    assert not isinstance(best_route(problem, 3, small).method, ShiftInvert)


def test_a_plan_tells_why():
    plan = plan_top_k(stiffness(), mass(), k=3, which="SA")
    assert plan.chosen.name == "shift and invert"
    assert "clustered" in plan.chosen.reason


# --- Factors -----------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 40))
def test_negative_pivots_are_negative_eigenvalues(seed, d):
    rng = np.random.default_rng(seed)
    M = sparse.random_array((d, d), density=0.2, rng=rng)
    M = (M + M.T + sparse.diags_array(rng.uniform(-1, 1, d))).tocsr()
    factors, values = factored(M), np.linalg.eigvalsh(M.toarray())
    if factors is None or np.abs(values).min() < 1e-6:
        return
    assert factors.negative == np.count_nonzero(values < 0)
    b = rng.standard_normal((d, 2))
    np.testing.assert_allclose(M @ factors.solve(b), b, atol=1e-6)


def test_a_pivot_of_zero_is_no_factor():
    assert factored(sparse.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))) is None
    assert factored(sparse.csr_array(np.zeros((2, 2)))) is None


@pytest.mark.parametrize(
    "M",
    [
        path(5000),
        stiffness(),
        mass(),
        stiffness(150),
        sparse.kronsum(stiffness(12), path(12)).tocsr(),
        sparse.eye_array(100).tocsr(),
    ],
    ids=["path", "square", "square by nine", "large square", "cube", "diagonal"],
)
def test_fill_is_foreseen_within_a_factor_of_three(M):
    predicted, true = predicted_fill(M).entries, factored(M).entries
    assert true / 3 <= predicted <= 3 * true


# --- A few vectors of a dense matrix -----------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 60),
    count=st.integers(1, 60),
    which=st.sampled_from(["LM", "LA", "SA"]),
    kind=st.sampled_from(["spread", "repeated", "zero", "opposite"]),
)
def test_leading_pairs_match_eigh(seed, d, count, which, kind):
    rng, count = np.random.default_rng(seed), min(count, d)
    values = rng.uniform(-1, 1, d)
    if kind == "repeated":
        values = np.round(values, 1)
    if kind == "zero":
        values[: d - d // 3] = 0.0
    if kind == "opposite":
        values = np.concatenate([values, -values])[:d]
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    M = (Q * values) @ Q.T
    M = (M + M.T) / 2
    found, U = leading_pairs(M.copy(), count, which)
    expected = values[order(values, which)]
    if which == "LM":
        found, expected = np.abs(found), np.abs(expected)
    np.testing.assert_allclose(found, expected, atol=1e-13)
    np.testing.assert_allclose(U.T @ U, np.eye(count), atol=1e-12)
    quotients = np.einsum("ij,ij->j", U, M @ U)
    np.testing.assert_allclose(M @ U, U * quotients, atol=1e-12)
    np.testing.assert_allclose(
        np.abs(quotients) if which == "LM" else quotients, expected[:count], atol=1e-12
    )


# --- Values that are far from each other -------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-4, 1e-6])
def test_values_of_all_sizes_next_to_a_singular_end(tol):
    """Zero twice, and seven sizes beside each other: each residual is small by the largest one."""
    chains = [10.0**-power * path(300) for power in range(0, 7)]
    rings = [path(200), path(250)]
    for ring in rings:
        ring[0, 0] = ring[-1, -1] = 1.0
    A = sparse.block_diag([*chains, *rings]).tocsr()
    solution = top_k(A, k=12, which="SA", tol=tol, method=ShiftInvert())
    values = np.sort(np.concatenate([linalg.eigvalsh(part.toarray()) for part in chains + rings]))
    assert solution.converged
    np.testing.assert_allclose(solution.values, values[:12], atol=tol * values[11])
