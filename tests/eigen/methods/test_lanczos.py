"""Block Lanczos: well separated values, copies, restarts, and who takes over."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from genelin import (
    ConvergenceWarning,
    Davidson,
    Dense,
    Lanczos,
    NotPositiveDefiniteError,
    Pencil,
    plan_top_k,
    top_k,
)
from genelin.eigen.planning.planner import best_route
from genelin.eigen.subspace.krylov_space import KrylovSpace
from genelin.io import Checkpoint
from genelin.linalg import order, sin_theta
from genelin.results import Status

SIZE = 900


def with_values(values, rng):
    """A sparse symmetric matrix with these eigenvalues: rotations of ten neighbours each, mixed."""
    d = len(values)
    rotations = (np.linalg.qr(rng.standard_normal((10, 10)))[0] for _ in range(d // 10))
    blocks = [sparse.coo_array(rotation) for rotation in rotations]
    Q = sparse.block_diag(blocks, format="csr")[:, rng.permutation(d)]
    A = (Q @ sparse.diags_array(values) @ Q.T).tocsr()
    return ((A + A.T) / 2).tocsr()


def apart(rng, d=SIZE, outside=30):
    """A bulk, and some values on both sides of it."""
    values = rng.uniform(-1, 1, d)
    values[:outside] = 2 + 3 * rng.random(outside)
    values[::7] *= -1
    return values


def in_order(values, which):
    return values[order(values, which)]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 40),
    which=st.sampled_from(["LM", "LA", "SA"]),
    kind=st.sampled_from(["identity", "diagonal", "dense", "sparse"]),
    spread=st.sampled_from([0.0, 3.0, 12.0]),
)
def test_agrees_with_the_dense_solution(seed, k, which, kind, spread):
    """Indefinite A, and B with κ up to 1e12 (by the scales of its variables)."""
    rng = np.random.default_rng(seed)
    units = 10 ** (spread / 2 * rng.random(SIZE))
    A = with_values(apart(rng), rng)
    B, D = None, sparse.diags_array(units)
    if kind != "identity":
        A = (D @ A @ D).tocsr()
        B = sparse.diags_array(units**2).tocsr()
    if kind == "dense":
        M = rng.standard_normal((SIZE, 50)) / 10
        B = units[:, None] * (np.eye(SIZE) + M @ M.T) * units
    if kind == "sparse":
        chain = sparse.diags_array([-0.99, 2.0, -0.99], offsets=[-1, 0, 1], shape=(SIZE, SIZE))
        B = (D @ chain @ D).tocsr()[(mixed := rng.permutation(SIZE))][:, mixed]
    expected = top_k(A, B, k=k, which=which, method=Dense())
    found = top_k(A, B, k=k, which=which, method=Lanczos())
    assert found.converged
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-7, atol=1e-9)
    B = np.eye(SIZE) if B is None else B
    np.testing.assert_allclose(found.vectors.T @ (B @ found.vectors), np.eye(k), atol=1e-9)
    if found.status is Status.CONVERGED and expected.sin_theta_bound < 1e-9:
        sine = sin_theta(found.vectors, expected.vectors, B)
        assert sine <= max(1.01 * found.sin_theta_bound, 1e-8)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    copies=st.integers(2, 14),
    k=st.integers(1, 12),
    which=st.sampled_from(["LM", "LA"]),
)
def test_no_copy_of_a_multiple_value_is_missed(seed, copies, k, which):
    rng = np.random.default_rng(seed)
    values = np.concatenate([np.repeat([5.0, 4.0, 3.0], copies), rng.uniform(-1, 1, SIZE)])
    values = np.concatenate([values, np.zeros(-len(values) % 10)])
    solution = top_k(with_values(values, rng), k=k, which=which, method=Lanczos())
    assert solution.converged
    np.testing.assert_allclose(solution.values, in_order(values, which)[:k], rtol=1e-9)
    tied = in_order(values, which)[k - 1] == in_order(values, which)[k]
    assert (solution.status is Status.TIED) == tied


@pytest.mark.parametrize("rank", [0, 1, 5, 30])
def test_matrices_of_low_rank(rank):
    """The space is invariant before it is full, and is searched on from other directions."""
    rng = np.random.default_rng(rank)
    values = np.concatenate([np.arange(rank, 0.0, -1.0), np.zeros(SIZE - rank)])
    solution = top_k(with_values(values, rng), k=8, method=Lanczos())
    assert solution.converged
    np.testing.assert_allclose(solution.values, values[:8], atol=1e-10)


@pytest.mark.parametrize("tol", [1e-3, 1e-8, 1e-12])
def test_residuals_hold_what_the_tolerance_says(tol):
    rng = np.random.default_rng(0)
    A = with_values(apart(rng), rng)
    solution = top_k(A, k=6, tol=tol, method=Lanczos())
    R = A @ solution.vectors - solution.vectors * solution.values
    measured = np.linalg.norm(R, axis=0)
    assert measured.max() <= tol * np.abs(solution.values).max()
    np.testing.assert_allclose(solution.residuals, measured, rtol=0.05, atol=1e-13)
    assert solution.converged


def relation(space, A):
    """S Q − Q F − Z R Eᵀ, QᵀQ − I and QᵀZ of a space, and what it foresaw of the latter."""
    size = space.size
    Q, F, Z = space.vectors(np.eye(size)), space._F[:size, :size], space._Z
    error = A @ Q - Q @ F
    error[:, space._last] -= Z @ space._R
    return error, Q.T @ Q - np.eye(size), Q.T @ Z


@pytest.mark.parametrize(("columns", "kept"), [(4, 24), (3, 22)])
@pytest.mark.parametrize("decay", [0.999, 0.9])
def test_the_space_stays_orthonormal_for_many_restarts(decay, columns, kept):
    """Ritz pairs have long converged, which is what spoils orthogonality."""
    rng = np.random.default_rng(0)
    A, limit = with_values(decay ** np.arange(2000.0), rng), 1e-10
    space = KrylovSpace(lambda V: A @ V, 2000, 60, limit)
    space.begin(rng.standard_normal((2000, columns)))
    products = 0
    for _ in range(30):
        while space.size + space.width <= space.most:
            space.grow()
            products += 1
            assert np.abs(space._Z.T @ space._Z - np.eye(space.width)).max() < 1e-12
            error, among, beside = relation(space, A)
            assert np.abs(error).max() < 1e-13
            assert np.abs(beside).max() < 2 * limit
            assert np.abs(among).max() < 2 * limit
            assert np.abs(beside).max() < 30 * max(np.abs(space._beside).max(), 1e-14)
        theta, U, residuals = space.ritz("LA")
        W = space.vectors(U[:, :5])
        np.testing.assert_allclose(
            np.linalg.norm(A @ W - W * theta[:5], axis=0), residuals[:5], rtol=0.1, atol=1e-9
        )
        space.restart(theta, U, kept)
    np.testing.assert_allclose(theta[:5], decay ** np.arange(5.0), rtol=1e-12)


def test_a_product_that_is_the_block_itself_does_not_spoil_the_space():
    space = KrylovSpace(lambda V: V, 500, 20, 1e-10)
    space.begin(np.random.default_rng(0).standard_normal((500, 4)))
    space.grow()
    Q = space.vectors(np.eye(4))
    np.testing.assert_allclose(Q.T @ Q, np.eye(4), atol=1e-13)
    assert space.width == 0  # nothing new


def test_blocks_are_rarely_made_orthogonal_to_all_others(monkeypatch):
    """That is what saves the time: it would be needed in every step otherwise."""
    rng = np.random.default_rng(0)
    A, calls = with_values(0.999 ** np.arange(2000.0), rng), []
    separate = KrylovSpace._separate
    monkeypatch.setattr(
        KrylovSpace, "_separate", lambda space: (calls.append(1), separate(space))[1]
    )
    solution = top_k(A, k=10, method=Lanczos())
    assert solution.converged
    assert 0 < len(calls) < solution.cost.applications / 4 / 4


@pytest.mark.parametrize("tol", [1e-6, 1e-10])
def test_residuals_of_small_values_are_measured_by_themselves(tol):
    """Values of 1e-3 of a matrix whose norm is 8: the tolerance is one against 1e-3."""
    side = 40
    line = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    A = sparse.kronsum(line, line, format="csr")

    def never(*_args):
        pytest.fail("Lanczos did not come to its end by itself")

    method = Lanczos(max_steps=10**4, further=never)
    solution = top_k(A, k=4, which="SA", tol=tol, method=method)
    assert solution.converged
    assert solution.residuals.max() <= tol * solution.values.max()
    assert solution.trace[-1].residual <= tol
    exact = linalg.eigh(A.toarray(), eigvals_only=True, subset_by_index=[0, 3])
    np.testing.assert_allclose(solution.values, exact, rtol=max(tol, 1e-11))


def test_what_converges_slowly_is_handed_over():
    rng = np.random.default_rng(0)
    A = with_values(np.linspace(0.0, 1.0, 4000), rng)
    seen = []

    def further(problem, k, tol, rng, callback):
        seen.append(problem.d)
        return Dense()(problem, k, tol, rng)

    solution = top_k(A, k=5, which="LA", method=Lanczos(max_steps=100, further=further))
    assert seen == [4000]
    np.testing.assert_allclose(solution.values, np.linspace(0, 1, 4000)[:-6:-1], rtol=1e-9)
    assert solution.cost.applications > 100  # those of Lanczos count


def test_vectors_that_may_hide_copies_are_not_handed_on(monkeypatch):
    begun, plain = [], Davidson.solve

    def watched(self, *given, **named):
        begun.append(self.start)
        return plain(self, *given, **named)

    monkeypatch.setattr(Davidson, "solve", watched)
    A = with_values(np.linspace(0.0, 1.0, 4000), np.random.default_rng(0))
    found = top_k(A, k=5, which="LA", tol=1e-6, method=Lanczos(max_steps=200))
    assert found.converged
    assert begun == [None]  # residuals were wider than the distances of values
    np.testing.assert_allclose(found.values, np.linspace(0, 1, 4000)[:-6:-1], rtol=1e-8)


def test_small_problems_are_left_to_others():
    A = np.diag(np.arange(1.0, 51.0))
    solution = top_k(A, k=3, method=Lanczos())
    np.testing.assert_allclose(solution.values, [50.0, 49.0, 48.0])


def test_fewer_products_than_davidson():
    rng = np.random.default_rng(0)
    A = aslinearoperator(with_values(apart(rng, 3000), rng))
    lanczos, davidson = (top_k(A, k=10, method=method) for method in (Lanczos(), Davidson()))
    assert lanczos.converged
    assert davidson.converged
    assert 2 * lanczos.cost.applications < davidson.cost.applications


def test_a_function_may_return_memory_of_its_own():
    rng = np.random.default_rng(0)
    A, kept = with_values(apart(rng), rng), {}

    def product(V):
        out = kept.setdefault(V.shape, np.empty(V.shape))
        out[:] = A @ V
        return out

    A_function = LinearOperator(A.shape, matvec=A.dot, matmat=product, dtype=float)
    solution = top_k(A_function, k=5, method=Lanczos())
    np.testing.assert_allclose(solution.values, top_k(A, k=5, method=Lanczos()).values, rtol=1e-12)
    same = LinearOperator(A.shape, matvec=lambda v: v, matmat=lambda V: V, dtype=float)
    np.testing.assert_allclose(top_k(same, k=3, method=Lanczos()).values, 1.0)


def test_callback_and_trace():
    rng = np.random.default_rng(0)
    A, seen = with_values(apart(rng), rng), []

    def callback(record, W):
        theta = np.einsum("ij,ij->j", W, A @ W)
        np.testing.assert_allclose(theta, record.ritz_values, rtol=1e-6)
        seen.append(record.residual)
        return len(seen) == 3

    with pytest.warns(ConvergenceWarning, match="stopped"):
        solution = top_k(A, k=4, method=Lanczos(), tol=1e-10, callback=callback)
    assert solution.status is Status.STOPPED
    assert len(solution.trace) == len(seen) == 3
    assert seen[-1] == solution.trace[-1].residual
    assert solution.residuals.max() > 1e-10


class BreakError(Exception):
    """What ends a run in the middle."""


def test_an_interrupted_run_goes_on(tmp_path):
    rng = np.random.default_rng(0)
    A = with_values(0.998 ** np.arange(3000.0), rng)
    kept = {"k": 8, "tol": 1e-9, "method": Lanczos(room=60, max_steps=2000)}

    def interrupt(record, W):
        if record.iteration == 20:
            raise BreakError

    with pytest.raises(BreakError):
        top_k(A, **kept, callback=interrupt, checkpoint=Checkpoint(tmp_path, every=0.0))
    resumed = top_k(A, **kept, checkpoint=tmp_path, resume=True)
    whole = top_k(A, **kept)
    assert resumed.converged
    np.testing.assert_allclose(resumed.values, whole.values, rtol=1e-12)
    assert sin_theta(resumed.vectors, whole.vectors, np.eye(3000)) < 1e-7
    assert abs(len(resumed.trace) - len(whole.trace)) <= 3
    assert list(resumed.trace.column("iteration")) == list(range(1, len(resumed.trace) + 1))


def test_same_seed_same_answer():
    rng = np.random.default_rng(0)
    A = with_values(apart(rng), rng)
    first, second = (top_k(A, k=4, method=Lanczos(), rng=7) for _ in range(2))
    np.testing.assert_array_equal(first.vectors, second.vectors)


# --- The planner ---------------------------------------------------------------------------------


def graph(d=5000, seed=0):
    A = sparse.random_array((d, d), density=8 / d, rng=np.random.default_rng(seed))
    return (A + A.T).tocsr()


@pytest.mark.parametrize("which", ["LM", "LA", "SA"])
@pytest.mark.parametrize("B", [None, "diagonal"])
@pytest.mark.parametrize("opaque", [False, True])
def test_the_default_for_a_diagonal_B(which, B, opaque):
    A = graph()
    B = None if B is None else sparse.diags_array(np.linspace(1, 2, 5000)).tocsr()
    given = LinearOperator(A.shape, matvec=A.dot, matmat=A.dot, dtype=float) if opaque else A
    solution = top_k(given, B, k=3, which=which)
    assert solution.route.startswith("Lanczos")
    assert solution.converged
    dense = top_k(A, B, k=3, which=which, method=Davidson())
    np.testing.assert_allclose(solution.values, dense.values, rtol=1e-7)


def chain(d):
    """A sparse B whose factor is sparse, and which is well conditioned."""
    return sparse.diags_array([0.2, 1.0, 0.2], offsets=[-1, 0, 1], shape=(d, d)).tocsr()


@pytest.mark.parametrize("dense", [False, True])
def test_the_default_for_a_B_with_a_factor(dense):
    rng = np.random.default_rng(0)
    d = 3000
    X = rng.standard_normal((d, d)) * 0.97 ** np.arange(d)
    B = chain(d).toarray() if dense else chain(d)
    solution = top_k(X.T @ X, B, k=4)
    root = "a Cholesky factor" if dense else "a sparse factor"
    assert solution.route.startswith(f"Lanczos: B is whitened by {root}")
    expected = linalg.eigh(
        X.T @ X, chain(d).toarray(), eigvals_only=True, subset_by_index=[d - 4, d - 1]
    )
    np.testing.assert_allclose(solution.values, expected[::-1], rtol=1e-7)


def test_the_default_for_a_sparse_B_looks_at_the_spectrum():
    """Factors are worth their time where values stand apart, or where B is ill-conditioned."""
    d, rng = 20_000, np.random.default_rng(0)
    apart = sparse.diags_array(np.r_[np.linspace(20, 40, 10), rng.uniform(-3, 3, d - 10)]).tocsr()
    crowd = sparse.diags_array(np.linspace(-1, 1, d)).tocsr()
    stiff = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(d, d)).tocsr()
    assert isinstance(best_route(Pencil(apart, chain(d)), 4).method, Lanczos)
    assert isinstance(best_route(Pencil(apart, stiff), 4).method, Lanczos)
    assert isinstance(best_route(Pencil(crowd, chain(d)), 4).method, Davidson)


def test_a_sparse_B_with_a_full_factor_is_left_to_davidson():
    d = 3000
    B = (graph(d, seed=1) + 40 * sparse.eye_array(d)).tocsr()
    assert isinstance(best_route(Pencil(graph(d), B), 4).method, Davidson)


def test_a_plan_names_the_route():
    plan = plan_top_k(graph(), k=5)
    assert plan.chosen.name == "Lanczos"
    assert {"Davidson", "dense"} <= {route.name for route in plan.routes}
    assert "diagonal" in str(plan)


# --- Errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"columns": 0}, "columns"), ({"room": -1}, "room"), ({"max_steps": 0.5}, "max_steps")],
)
def test_bad_settings(settings, words):
    with pytest.raises((TypeError, ValueError), match=words):
        Lanczos(**settings)


def test_a_B_without_entries_is_refused():
    A = graph(1000)
    B = aslinearoperator(sparse.diags_array([0.1, 2, 0.1], offsets=[-1, 0, 1], shape=A.shape))
    with pytest.raises(ValueError, match="entries of B"):
        top_k(A, B, k=2, method=Lanczos())


def test_a_singular_B_is_refused():
    A, B = graph(1000), np.ones((1000, 1000)) + 1e-18 * np.eye(1000)
    with pytest.raises(NotPositiveDefiniteError):
        Lanczos()(Pencil(A, B), 2)
