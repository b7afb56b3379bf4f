"""Multiple eigenvalues: all copies are found, whatever k cuts, and vectors stay orthonormal."""

import warnings
from math import comb

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import eigh

from genelin import Davidson, Dense, Lanczos, ShiftInvert, Status, top_k
from genelin.eigen.subspace.multiplicity import largest_cluster, least_square, steps_to_show
from genelin.linalg import leading_pairs, order
from genelin.problems import SMALL


def path(n):
    """The Laplacian of a path, and its eigenvalues."""
    diagonal = np.r_[1.0, np.full(n - 2, 2.0), 1.0]
    L = sparse.diags_array([-np.ones(n - 1), diagonal, -np.ones(n - 1)], offsets=[-1, 0, 1])
    return L.tocsr(), 2 - 2 * np.cos(np.pi * np.arange(n) / n)


def star(d):
    """The Laplacian of a star: 0, d − 2 times 1, and d."""
    L = np.eye(d)
    L[0, 1:] = L[1:, 0] = -1.0
    L[0, 0] = d - 1
    return L


def cube(n):
    """The adjacency of a hypercube, and its eigenvalues n − 2j, each n choose j times."""
    A = sparse.csr_array((1, 1))
    for _ in range(n):
        edge = sparse.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
        A = sparse.kron(A, sparse.eye_array(2)) + sparse.kron(sparse.eye_array(A.shape[0]), edge)
    return sparse.csr_array(A), np.concatenate([[n - 2.0 * j] * comb(n, j) for j in range(n + 1)])


def check(solution, truth, k, which, B=None):
    """The first k of the true values, and no bound on an angle where the space is not unique."""
    truth = truth[order(truth, which)]
    assert solution.converged
    expected, found = np.sort(truth[:k]), np.sort(solution.values)
    assert found == pytest.approx(expected, abs=1e-6 * np.abs(truth).max())
    W = solution.vectors
    assert np.abs(W.T @ (W if B is None else B @ W) - np.eye(k)).max() < 1e-9
    if k < len(truth) and abs(abs(truth[k]) - abs(truth[k - 1])) < 1e-12:
        assert solution.status is Status.TIED
        assert solution.sin_theta_bound == 1.0


@pytest.mark.parametrize("copies", [18, 28])
@pytest.mark.parametrize("k", [6, 10, 15])
def test_components_of_a_graph_that_are_alike(copies, k):
    L, values = path(150)
    A = sparse.block_diag([L] * copies, format="csr")
    check(top_k(A, k=k, which="LA"), np.tile(values, copies), k, "LA")


@pytest.mark.parametrize("method", [Lanczos(max_steps=5000), Lanczos(columns=1, max_steps=5000)])
def test_more_copies_than_columns(method):
    L, values = path(40)
    A = sparse.block_diag([L] * 9, format="csr")
    for k in (9, 10):  # at the end of the copies of the first value, and beyond
        check(top_k(A, k=k, which="LA", method=method), np.tile(values, 9), k, "LA")


@pytest.mark.parametrize("method", [None, Lanczos(), ShiftInvert()])
def test_a_star(method):
    solution = top_k(sparse.csr_array(star(1500)), k=15, which="SA", method=method)
    check(solution, np.r_[0.0, np.ones(1498), 1500.0], 15, "SA")


@pytest.mark.parametrize(
    ("n", "which", "k"),
    [(9, "SA", 5), (9, "SA", 10), (10, "LM", 22), (10, "LA", 11), (9, "LA", 55)],
)
def test_hypercubes(n, which, k):
    A, values = cube(n)
    for method in (None, Lanczos()):
        check(top_k(A, k=k, which=which, method=method), values, k, which)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_copies_of_a_value_ahead_of_a_tie(seed):
    """Stars with weights: k cuts the 48 copies of the second value, far from the first one's."""
    b = np.random.default_rng(seed).uniform(1, 3, 141)
    A = sparse.block_diag([sparse.csr_array(star(141))] * 48, format="csr")
    B = sparse.diags_array(np.tile(b, 48)).tocsr()
    values = np.tile(eigh(star(141), np.diag(b), eigvals_only=True), 48)
    check(top_k(A, B, k=55, which="LM", method=Lanczos(), rng=1), values, 55, "LM", B)


@pytest.mark.parametrize("k", [40, 42])
def test_most_of_a_space_is_copies(k):
    """What rounding leaves of the pairs that were found must not grow in the rest of the space."""
    M, values = cube(8)
    L = sparse.csr_array(8 * sparse.eye_array(256) - M)
    for rng in range(3):
        solution = top_k(L, k=k, which="SA", method=ShiftInvert(), tol=1e-10, rng=rng)
        check(solution, 8 - values, k, "SA")


def test_copies_found_by_shift_and_invert():
    values = np.repeat(np.arange(1.0, 45.0), 35)
    A = sparse.diags_array(values).tocsr()
    check(top_k(A, k=30, which="SA", method=ShiftInvert()), values, 30, "SA")


@pytest.mark.parametrize("which", ["LM", "LA", "SA"])
@pytest.mark.parametrize(
    "M",
    [
        cube(5)[0].toarray(),
        cube(7)[0].toarray(),
        star(16),
        star(344),
        np.eye(40),
        np.zeros((40, 40)),
    ],
    ids=["5-cube", "7-cube", "star 16", "star 344", "identity", "zero"],
)
def test_a_subset_of_dense_vectors_is_orthonormal(M, which):
    for k in range(1, min(len(M) // 4, 12) + 1):
        values, U = leading_pairs(np.asfortranarray(M), k, which)
        assert np.abs(U.T @ U - np.eye(k)).max() < 1e-10
        assert np.linalg.norm(M @ U - U * values[:k]) < 1e-11 * max(
            1.0, np.abs(M).sum(axis=0).max()
        )


def test_integer_spectra_by_the_dense_route():
    rng = np.random.default_rng(0)
    for d in (16, 40, 90):
        Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
        values = rng.integers(-3, 4, d).astype(float)
        A = (Q * values) @ Q.T
        for k in range(1, d // 4 + 1):
            found = top_k((A + A.T) / 2, k=k, method=Dense())
            assert np.abs(found.vectors.T @ found.vectors - np.eye(k)).max() < 1e-10
            assert np.sort(np.abs(found.values)) == pytest.approx(
                np.sort(np.sort(np.abs(values))[-k:]), abs=1e-12
            )


def test_alike_is_from_one_to_the_next():
    theta = np.array([5.0, 1.0, 1.3, 1.6, 9.0])
    assert largest_cluster(theta, np.full(5, 0.35)) == 3
    assert largest_cluster(theta, np.full(5, 0.1)) == 1
    assert largest_cluster(theta[:0], theta[:0]) == 0


@pytest.mark.parametrize("method", [Lanczos(), Davidson()])
def test_both_ends_are_looked_at(method):
    rng, wrong = np.random.default_rng(0), 0
    for seed in range(60):
        values = rng.uniform(-10, 10, 60)
        Q = np.linalg.qr(rng.standard_normal((60, 60)))[0]
        A = (Q * values) @ Q.T
        found = top_k((A + A.T) / 2, k=1, method=method, tol=1e-6, rng=seed)
        assert found.converged
        wrong += abs(abs(found.values[0]) - np.abs(values).max()) > 1e-4
    assert wrong == 0


def test_both_ends_of_matrices_that_nobody_can_count_in():
    d = SMALL + 500
    for seed in range(12):
        rng = np.random.default_rng(seed)
        values = rng.uniform(-10, 10, d)
        found = top_k(sparse.diags_array(values), k=1, method=Davidson(), tol=1e-6, rng=seed)
        assert abs(found.values[0]) == pytest.approx(np.abs(values).max(), abs=1e-4)


def test_a_further_round_makes_the_steps_that_show_a_copy():
    L = sparse.csr_array(star(114))
    A = sparse.block_diag([L] * 52, format="csr")
    for seed in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # residuals of zeros are not small beside zero
            found = top_k(A, k=32, which="SA", rng=seed, method=Lanczos())
        assert np.abs(found.values).max() < 1e-9
        assert found.sin_theta_bound == 1.0
    # 16 columns of 5,896 that are left, against values in [0, 114]: nobody saw so little as to
    # say after a step or two that the next value is 1
    hiding = (len(L.toarray()) * 52 - 32) / least_square(16)
    assert 40 < steps_to_show(1.0, 114.0, hiding) < 100


def test_steps_to_show_hold_for_the_worst_spectrum():
    rng = np.random.default_rng(1)
    for d, gap in ((400, 0.3), (1500, 0.05)):
        values = np.r_[1.0, rng.uniform(0.0, 1.0 - gap, d - 1)]
        Z = np.linalg.qr(rng.standard_normal((d, 4)))[0]
        steps = int(np.ceil(steps_to_show(gap, 1.0, d / least_square(4))))
        K = [Z]
        for _ in range(steps - 1):  # a Krylov space, made orthonormal as a whole
            W = values[:, None] * K[-1]
            Q = np.hstack(K)
            for _ in range(2):
                W -= Q @ (Q.T @ W)
            K.append(np.linalg.qr(W)[0])
        Q = np.hstack(K)
        best = np.linalg.eigvalsh((Q * values[:, None]).T @ Q)[-1]
        assert best > 1.0 - gap


def test_what_is_left_beside_the_pairs_may_be_small():
    rng = np.random.default_rng(2)
    for d, k in ((52, 17), (40, 12)):
        A = np.kron(np.eye(d // 4), np.diag([3.0, 2.0, 1.0, -1.0]))
        Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
        A = Q @ A @ Q.T
        found = top_k((A + A.T) / 2, k=k, which="LA", method=Lanczos(columns=1, room=24))
        check(found, np.tile([3.0, 2.0, 1.0, -1.0], d // 4), k, "LA")
