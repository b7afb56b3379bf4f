"""Preconditioners: symmetric, positive definite, bounded, and worth their price."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, sparse
from scipy.sparse.linalg import aslinearoperator, spsolve_triangular

from cases import spd
from genelin import Davidson, kernels, solvers, top_k, top_k_cca
from genelin.errors import NotPositiveDefiniteError
from genelin.linalg import sin_theta
from genelin.operators import BlockDiagonal, Gram, as_operator
from genelin.solvers.preconditioners.jacobi import perron

PRECONDITIONERS = {
    "Jacobi": solvers.Jacobi(),
    "BlockJacobi": solvers.BlockJacobi(size=7),
    "Nystrom": solvers.Nystrom(rank=15),
    "IncompleteCholesky": solvers.IncompleteCholesky(),
    "SparseCholesky": solvers.SparseCholesky(),
}
SPARSE_ONLY = ("IncompleteCholesky", "SparseCholesky")


def words(n=400, d=60, seed=0, dead=False):
    """Sparse counts whose columns fall off as by Zipf's law; the last two may be empty."""
    rng = np.random.default_rng(seed)
    columns = np.minimum(rng.zipf(1.3, (n, 5)) - 1, d - 1 - 2 * dead)
    rows = np.repeat(np.arange(n), 5)
    return sparse.csr_array((np.ones(5 * n), (rows, columns.ravel())), shape=(n, d))


def laplacian(side, ridge):
    """The stiffness of a square mesh, and a ridge."""
    T = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    eye = sparse.eye_array(side)
    return (sparse.kron(T, eye) + sparse.kron(eye, T) + ridge * sparse.eye_array(side**2)).tocsr()


def kershaw():
    """Positive definite, but the last pivot of its IC(0) is negative (Kershaw 1978)."""
    return sparse.csr_array(
        np.array([[3.0, -2, 0, 2], [-2, 3, -2, 0], [0, -2, 3, -2], [2, 0, -2, 3]])
    )


OPERATORS = {
    "dense": lambda: as_operator(spd(np.random.default_rng(1), 40, 1e4)[0]),
    "mesh": lambda: as_operator(laplacian(8, 1e-3)),
    "kershaw": lambda: as_operator(kershaw()),
    "words": lambda: Gram(words(), reg=1e-4),
    "words, centred": lambda: Gram(words(), reg=1e-4, center=True),
    "words, centred and scaled": lambda: Gram(words(), reg=1e-6, center=True, scale=True),
    "words, centred, with dead ones": lambda: Gram(words(dead=True), reg=1e-4, center=True),
    "words, centred, no ridge": lambda: Gram(words(dead=True), center=True),
    "dense rows": lambda: Gram(words().toarray(), reg=1e-4, center=True),
    "diagonal": lambda: as_operator(sparse.diags_array(np.logspace(0, 8, 30)).tocsr()),
}
PAIRS = [
    (name, kind)
    for name in PRECONDITIONERS
    for kind in OPERATORS
    if not (name in SPARSE_ONLY and kind.startswith("dense"))
]


def dense(operator):
    B = operator @ np.eye(operator.shape[0])
    return (B + B.T) / 2


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_symmetric_positive_definite_and_bounded(name, kind):
    operator = OPERATORS[kind]()
    prepared = PRECONDITIONERS[name].prepare(operator)
    d = operator.shape[0]
    inverse = prepared.apply(np.eye(d))
    rng = np.random.default_rng(0)
    U, V = rng.standard_normal((2, d, 3))
    there, back = prepared.apply(U).T @ V, U.T @ prepared.apply(V)
    np.testing.assert_allclose(there, back, atol=1e-7 * np.abs(inverse).max() * d)
    scale = 1 / np.sqrt(inverse.diagonal())
    weights = np.linalg.eigvalsh(scale[:, None] * (inverse + inverse.T) / 2 * scale)
    assert weights[0] > 0
    smallest = np.linalg.eigvalsh((inverse + inverse.T) / 2)[0]
    if smallest > 1e-12 * np.abs(inverse).max():  # else rounding hides λ_max(M)
        assert prepared.largest >= 1 / smallest
    M = np.linalg.inv(inverse)
    assert prepared.largest >= (1 - 1e-9) * M.diagonal().max()
    assert prepared.largest <= 100 * linalg.norm(dense(operator), 2)  # and not beyond use
    # Columns do not touch each other, and the block is left as it was.
    np.testing.assert_allclose(prepared.apply(U[:, 1:2]), prepared.apply(U)[:, 1:2], rtol=1e-9)


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_float32_blocks_stay_float32(name, kind):
    operator = OPERATORS[kind]()
    prepared = PRECONDITIONERS[name].prepare(operator)
    R = np.random.default_rng(0).standard_normal((operator.shape[0], 5))
    exact, low = prepared.apply(R), prepared.apply(R.astype(np.float32))
    assert low.dtype == np.float32
    scale = np.sqrt(np.diagonal(prepared.apply(np.eye(len(R)))))[:, None]
    assert np.abs((low - exact) / scale).max() < 1e-2 * np.abs(exact / scale).max()


def errors(B, value, exact):
    difference = value - exact
    return np.einsum("ij,ij->j", difference, B @ difference)


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_cg_meets_the_contract(name, kind):
    operator = OPERATORS[kind]()
    B = dense(operator)
    cg = solvers.CG(preconditioner=PRECONDITIONERS[name])
    state, rng = cg.init(operator), np.random.default_rng(2)
    exact = rng.standard_normal((len(B), 3))
    for delta in (0.5, 1e-4, 1e-8):
        start = exact + rng.standard_normal(exact.shape) * [1.0, 1e-3, 1e3]
        solution = cg.solve(state, B @ exact, start, delta)
        assert solution.converged
        assert np.all(errors(B, solution.value, exact) <= 1.001 * delta * errors(B, start, exact))


@pytest.mark.parametrize("name", SPARSE_ONLY)
def test_rounding_along_a_singular_direction_is_not_blown_up(name):
    """Rows that all have five words: centred, the sum of all features is a null vector of B."""
    operator = OPERATORS["words, centred, no ridge"]()
    B, cg = dense(operator), solvers.CG(preconditioner=PRECONDITIONERS[name])
    state = cg.init(operator)
    assert np.linalg.norm(state.prepared.apply(np.eye(len(B))), 2) < 1e4
    for seed in range(40):
        exact, error = np.random.default_rng(seed).standard_normal((2, len(B), 3))
        start = exact + error * [1.0, 1e-3, 1e3]
        solution = cg.solve(state, B @ exact, start, 1e-8)
        assert solution.converged
        assert np.all(errors(B, solution.value, exact) <= 1.001e-8 * errors(B, start, exact))


@settings(max_examples=25)
@given(
    name=st.sampled_from(list(PRECONDITIONERS)),
    d=st.integers(1, 40),
    kappa=st.floats(0, 8),
    seed=st.integers(0, 2**32 - 1),
)
def test_contract_on_random_matrices(name, d, kappa, seed):
    """κ up to 10⁸, the smallest eigenvalue known (as with a ridge)."""
    rng = np.random.default_rng(seed)
    B, _ = spd(rng, d, 10**kappa)
    operator = as_operator(sparse.csr_array(B) if name in SPARSE_ONLY else B)
    operator.lambda_min_bound = 0.9 * 10 ** (-kappa / 2)
    cg = solvers.CG(preconditioner=PRECONDITIONERS[name])
    exact = rng.standard_normal((d, 2))
    start = exact + rng.standard_normal((d, 2))
    solution = cg.solve(cg.init(operator), B @ exact, start, 1e-4)
    assert solution.converged
    assert np.all(errors(B, solution.value, exact) <= 1.001e-4 * errors(B, start, exact))


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_energies_are_bounded_from_above(name, kind):
    """The certificates: what CG says of rᵀB⁻¹r after any number of steps is not less than it."""
    operator = OPERATORS[kind]()
    if kind == "words, centred, no ridge":
        pytest.skip("without a ridge, nothing is known of the smallest eigenvalue")
    B = dense(operator)
    if operator.lambda_min_bound == 0:
        operator.lambda_min_bound = float(0.999 * np.linalg.eigvalsh(B)[0])
    cg = solvers.CG(preconditioner=PRECONDITIONERS[name])
    state, rng = cg.init(operator), np.random.default_rng(3)
    R = np.hstack([rng.standard_normal((len(B), 2)), B @ rng.standard_normal((len(B), 2))])
    true = np.einsum("ij,ij->j", R, np.linalg.solve(B, R))
    for t, step in enumerate(cg.corrections(state, R), start=1):
        decrease, missing = step.measure()
        assert np.all(decrease + missing >= (1 - 1e-6) * true)
        if t == 60:
            break
    energy = cg.energy(state, R)
    assert np.all(energy.bounds >= (1 - 1e-6) * true)
    assert np.all(energy.bounds <= 1.2 * true)
    inverse = state.prepared.apply(np.eye(len(B)))
    root = np.linalg.cholesky(B)
    smallest = np.linalg.eigvalsh(root.T @ (inverse + inverse.T) @ root / 2)[0]
    rounding = len(B) * np.finfo(float).eps
    assert operator.lambda_min_bound / state.prepared.largest <= (1 + 1e-9) * smallest + rounding


def steps(B, preconditioner, delta=1e-8):
    """CG steps for one right-hand side."""
    cg = solvers.CG(preconditioner=preconditioner)
    b = np.random.default_rng(5).standard_normal((B.shape[0], 1))
    solution = cg.solve(cg.init(B), b, np.zeros_like(b), delta)
    assert solution.converged
    return solution.iterations


def test_nystrom_tames_a_power_law():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 300)) / np.arange(1, 301)
    B = Gram(X @ np.linalg.qr(rng.standard_normal((300, 300)))[0], reg=1e-7)
    plain = steps(B, solvers.Jacobi())
    assert 3 * steps(B, solvers.Nystrom(rank=60)) <= plain
    assert 8 * steps(B, solvers.Nystrom(rank=150)) <= plain


def test_nystrom_of_full_rank_is_exact():
    B, _ = spd(np.random.default_rng(0), 30, 1e6)
    assert steps(B, solvers.Nystrom(rank=30)) <= 2
    assert steps(B, solvers.Nystrom(rank=1000)) <= 2


def test_nystrom_needs_products_only():
    """Without a diagonal: the matrix as it is. The same seed gives the same sketch."""
    B, _ = spd(np.random.default_rng(0), 80, 1e4)
    opaque = as_operator(aslinearoperator(B))
    assert opaque.diagonal() is None
    assert 2 * steps(opaque, solvers.Nystrom(rank=40)) <= steps(opaque, None)
    first, second, other = (
        solvers.Nystrom(rank=10, rng=seed).prepare(opaque).apply(np.eye(80)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - other).max() > 1e-6


def test_incomplete_cholesky_on_meshes():
    K = laplacian(40, 1e-4)
    assert 2 * steps(K, solvers.IncompleteCholesky()) <= steps(K, solvers.Jacobi())


@pytest.mark.parametrize("center", [False, True])
def test_complete_factors_leave_nothing_to_do(center):
    """Centred rows of constant sum have a direction that only the ridge keeps from zero."""
    for B in (laplacian(20, 1e-6), Gram(words(), reg=1e-6, center=center)):
        assert steps(B, solvers.SparseCholesky()) <= 2
        assert steps(B, solvers.IncompleteCholesky()) <= steps(B, solvers.Jacobi())


def test_breakdown_is_cured_by_a_shift():
    K = kershaw()
    lower = sparse.csr_array(sparse.tril(K / 3.0))
    assert not kernels.incomplete_cholesky(lower.copy(), 0.0)
    assert steps(K, solvers.IncompleteCholesky()) <= 4


@pytest.mark.parametrize("k", [1, 3, 16, 21])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_incomplete_factors_agree_with_the_matrix_on_its_pattern(k, dtype):
    S = laplacian(12, 0.1) / 4.1
    L = sparse.csr_array(sparse.tril(S, format="csr"))
    L.sort_indices()
    assert kernels.incomplete_cholesky(L, 0.0)
    inside = np.abs(S.toarray()) > 0
    np.testing.assert_allclose((L @ L.T).toarray()[inside], S.toarray()[inside], atol=1e-14)
    rng = np.random.default_rng(0)
    R, order = rng.standard_normal((144, k)).astype(dtype), rng.permutation(144)
    half = spsolve_triangular(L, R[order].astype(float))
    exact = spsolve_triangular(L.T.tocsr(), half, lower=False)
    Z = kernels.cholesky_solve((L.data.astype(dtype), L.indices, L.indptr), R, order)
    assert Z.dtype == dtype
    np.testing.assert_allclose(Z[order], exact, atol=(1e-4 if dtype == np.float32 else 1e-12))


def test_block_jacobi_is_exact_for_its_blocks():
    rng = np.random.default_rng(0)
    parts = [spd(rng, size, 1e6)[0] for size in (3, 5, 1, 5)]
    order = rng.permutation(14)
    B = np.zeros((14, 14))
    blocks = np.split(order, [3, 8, 9])
    for block, part in zip(blocks, parts, strict=True):
        B[np.ix_(block, block)] = part
    for matrix in (B, sparse.csr_array(B)):
        assert steps(matrix, solvers.BlockJacobi(blocks=blocks)) == 1
        without_single = [blocks[0], blocks[1], blocks[3]]  # what is not named is on its own
        assert steps(matrix, solvers.BlockJacobi(blocks=without_single)) == 1
    assert steps(linalg.block_diag(*parts[1::2]), solvers.BlockJacobi(size=5)) == 1
    assert steps(B, solvers.BlockJacobi(size=14)) <= 2
    assert steps(Gram(words(), reg=1e-3, center=True), solvers.BlockJacobi(size=60)) <= 2


@pytest.mark.parametrize("name", PRECONDITIONERS)
def test_each_view_is_prepared_by_itself(name):
    """The scale and the size of one view do not matter to the other."""
    x, y = Gram(words(), reg=1e-3, center=True), Gram(1e4 * words(d=37, seed=1), reg=1e5)
    both, rng = BlockDiagonal((x, y)), np.random.default_rng(0)
    cg = solvers.CG(preconditioner=PRECONDITIONERS[name])
    inverse = cg.approximate_inverse(cg.init(both))
    R = rng.standard_normal((97, 2))
    alone = [
        PRECONDITIONERS[name].prepare(part).apply(rows) for part, rows in ((x, R[:60]), (y, R[60:]))
    ]
    np.testing.assert_allclose(inverse(R), np.vstack(alone), rtol=1e-12)


@pytest.mark.parametrize("name", PRECONDITIONERS)
def test_davidson_takes_any_of_them(name):
    X, Y = words(n=2000, d=150, seed=0), words(n=2000, d=120, seed=0)[:, ::-1]
    Y = sparse.csr_array(Y + sparse.random_array(Y.shape, density=0.01, rng=3))
    method = Davidson(solver=solvers.CG(preconditioner=PRECONDITIONERS[name]))
    pairs = top_k_cca(X, Y, k=3, reg=1e-3, center=True, tol=1e-8, method=method)
    assert pairs.converged
    x, y = (dense(Gram(view, reg=1e-3, center=True)) for view in (X, Y))
    centred = [view.toarray() - view.toarray().mean(axis=0) for view in (X, Y)]
    cross = centred[0].T @ centred[1] / len(centred[0])
    roots = [linalg.inv(linalg.cholesky(S, lower=True)) for S in (x, y)]
    left, values, _ = linalg.svd(roots[0] @ cross @ roots[1].T)
    np.testing.assert_allclose(pairs.correlations, values[:3], atol=1e-7)
    assert sin_theta(pairs.x_weights, roots[0].T @ left[:, :3], x) < 1e-6


def test_davidson_needs_fewer_columns_with_a_good_one():
    rng = np.random.default_rng(0)
    B = spd(rng, 150, 1e5)[0]
    A = (lambda Z: Z + Z.T)(rng.standard_normal((150, 150)))
    run = {
        name: top_k(A, B, k=3, method=Davidson(solver=solvers.CG(preconditioner=chosen)), tol=1e-6)
        for name, chosen in (("Jacobi", solvers.Jacobi()), ("Nystrom", solvers.Nystrom(60)))
    }
    assert all(solution.converged for solution in run.values())
    assert 2 * run["Nystrom"].cost.applications < run["Jacobi"].cost.applications


@pytest.mark.parametrize("name", ["BlockJacobi", "IncompleteCholesky", "SparseCholesky"])
def test_operators_without_entries_are_refused_with_a_remedy(name):
    with pytest.raises(ValueError, match=rf"{name} needs the entries of B.*solvers\.Nystrom"):
        solvers.CG(preconditioner=PRECONDITIONERS[name]).init(aslinearoperator(np.eye(3)))


@pytest.mark.parametrize("name", SPARSE_ONLY)
def test_dense_matrices_are_refused_with_a_remedy(name):
    with pytest.raises(ValueError, match=rf"{name} needs a sparse B.*solvers\.BlockJacobi"):
        PRECONDITIONERS[name].prepare(as_operator(np.eye(3) + 0.1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: solvers.Nystrom(rank=0), r"rank=0 must be a whole number of at least 1"),
        (lambda: solvers.BlockJacobi(size=2.5), r"size=2.5 must be a whole number"),
        (
            lambda: solvers.BlockJacobi(blocks=[[0, 1], [1, 2]]).prepare(as_operator(np.eye(3))),
            r"feature 1 is named more than once by blocks of BlockJacobi",
        ),
        (
            lambda: solvers.BlockJacobi(blocks=[[0, 3]]).prepare(as_operator(np.eye(3))),
            r"blocks\[0\] of BlockJacobi names a feature outside 0 … 2",
        ),
        (
            lambda: solvers.BlockJacobi(blocks=[["a"]]).prepare(as_operator(np.eye(3))),
            r"blocks\[0\] of BlockJacobi must be a list of feature numbers",
        ),
        (lambda: solvers.CG(preconditioner="ic"), r"preconditioner='ic' is not known.*Nystrom"),
        (
            lambda: solvers.CG(preconditioner=solvers.Nystrom),
            r"Nystrom.* is a class: .*Nystrom\(\)",
        ),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", ["BlockJacobi", "Nystrom", "SparseCholesky"])
def test_indefinite_matrices_are_noticed(name):
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((7, 7)))[0]
    B = (Q * [1, 2, 3, 4, 5, 6, -3.0]) @ Q.T
    with pytest.raises(NotPositiveDefiniteError, match=r"ridge"):
        PRECONDITIONERS[name].prepare(as_operator(sparse.csr_array(B)))
    for bad in (np.diag([1.0, -1.0]), np.array([[1.0, 1.0], [1.0, 0.0]])):
        with pytest.raises(NotPositiveDefiniteError, match=r"ridge"):
            PRECONDITIONERS[name].prepare(as_operator(sparse.csr_array(bad)))


def test_incomplete_cholesky_notices_a_bad_diagonal():
    for bad in (np.diag([1.0, -1.0]), np.array([[1.0, 1.0], [1.0, 0.0]])):
        with pytest.raises(NotPositiveDefiniteError, match=r"diagonal entry 1"):
            solvers.IncompleteCholesky().prepare(as_operator(sparse.csr_array(bad)))


@pytest.mark.parametrize("name", PRECONDITIONERS)
def test_sizes_one_and_zero_matrices(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tiny = PRECONDITIONERS[name].prepare(as_operator(sparse.csr_array(np.array([[4.0]]))))
        nothing = PRECONDITIONERS[name].prepare(as_operator(sparse.csr_array((3, 3))))
    np.testing.assert_allclose(tiny.apply(np.array([[2.0]])), 0.5)
    assert np.all(np.isfinite(nothing.apply(np.ones((3, 2)))))


@settings(max_examples=30)
@given(d=st.integers(1, 20), density=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
def test_perron_bounds_the_spectral_radius(d, density, seed):
    N = sparse.random_array((d, d), density=density, rng=seed).toarray()
    N = N + N.T + np.eye(d)
    radius = np.linalg.eigvalsh(N)[-1]
    assert (1 - 1e-12) * radius <= perron(lambda w: N @ w, d) <= N.sum(axis=1).max() * (1 + 1e-12)
