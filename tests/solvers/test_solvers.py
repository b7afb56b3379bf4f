import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from cases import SOLVERS, STOCHASTIC, spd, suited
from genelin import solvers
from genelin.errors import NotPositiveDefiniteError, SolverError
from genelin.operators import BlockDiagonal, Gram, as_operator
from genelin.solvers import as_solver, spectral_bounds

RNG = np.random.default_rng(0)


def error(B, value, exact):
    """‖u − B⁻¹b‖²_B, column by column."""
    difference = value - exact
    return np.einsum("ij,ij->j", difference, B @ difference)


def system(kind, kappa, d=40, m=3):
    """An operator, the same as a dense matrix, right-hand sides and exact solutions."""
    rng = np.random.default_rng(7)
    B, _ = spd(rng, d, kappa)
    operator = B
    if kind == "sparse":
        operator = sparse.csc_array(B)
    elif kind == "LinearOperator":
        operator = aslinearoperator(B)
    elif kind == "gram with ridge":
        X = rng.standard_normal((300, d)) * kappa ** (-0.5 * np.linspace(0, 1, d))
        operator = Gram(sparse.csr_array(X), reg=1 / kappa, center=True)
        B = operator @ np.eye(d)
    exact = rng.standard_normal((d, m))
    return operator, B, B @ exact, exact


@pytest.mark.parametrize("kind", ["dense", "sparse", "LinearOperator", "gram with ridge"])
@pytest.mark.parametrize("delta", [0.5, 1e-2, 1e-6])
@pytest.mark.parametrize("name", SOLVERS)
def test_contract(name, kind, delta):
    """Every column by itself: ‖u₁ − B⁻¹b‖²_B ≤ δ‖u₀ − B⁻¹b‖²_B, from cold and warm starts."""
    solver, _ = SOLVERS[name]
    if name == "Direct" and kind == "LinearOperator":
        pytest.skip("Direct needs the entries of B")
    if name in STOCHASTIC and kind in ("sparse", "LinearOperator"):
        pytest.skip(f"{name} needs B as a sum over rows")
    solver = as_solver(solver)
    operator, B, b, exact = system(kind, 1e2)
    operator = suited(solver, operator)
    state = solver.init(operator)
    for closeness in (1.0, 1e-3, 1e-7):
        u0 = exact + closeness * RNG.standard_normal(exact.shape) * [1.0, 1e-3, 1e3]
        solution = solver.solve(state, b, u0, delta)
        assert solution.converged
        assert np.all(error(B, solution.value, exact) <= 1.001 * delta * error(B, u0, exact))


@pytest.mark.parametrize("name", SOLVERS)
def test_blocks_columns_and_vectors_agree(name):
    solver = as_solver(SOLVERS[name][0])
    operator, _, b, exact = system("dense", 30.0)
    state = solver.init(suited(solver, operator))
    block = solver.solve(state, b, np.zeros_like(b), 1e-20).value
    column = solver.solve(state, b[:, 1], np.zeros(len(b)), 1e-20).value
    np.testing.assert_allclose(block, exact, atol=1e-8)
    np.testing.assert_allclose(column, exact[:, 1], atol=1e-8)


@pytest.mark.parametrize("name", SOLVERS)
def test_exact_start_and_zero_columns(name):
    solver = as_solver(SOLVERS[name][0])
    operator, _, b, exact = system("dense", 30.0)
    state = solver.init(suited(solver, operator))
    b, exact = b.copy(), exact.copy()
    b[:, 0] = exact[:, 0] = 0.0
    solution = solver.solve(state, b, exact, 1e-4)
    np.testing.assert_allclose(solution.value, exact, atol=1e-8)
    half = exact.copy()
    half[:, 1] = 0.0
    np.testing.assert_allclose(solver.solve(state, b, half, 1e-20).value, exact, atol=1e-7)


@pytest.mark.parametrize("name", SOLVERS)
def test_diagonal_blocks_are_solved_separately(name):
    """The scale of one block neither slows nor spoils the other."""
    solver = as_solver(SOLVERS[name][0])
    rng = np.random.default_rng(3)
    parts = [spd(rng, 12, 50.0)[0], 1e6 * spd(rng, 9, 50.0)[0]]
    B = BlockDiagonal(tuple(as_operator(suited(solver, part)) for part in parts))
    exact = rng.standard_normal((21, 2))
    solution = solver.solve(solver.init(B), B @ exact, np.zeros((21, 2)), 1e-12)
    whole = error(B @ np.eye(21), solution.value, exact)
    assert np.all(whole <= 1.001e-12 * error(B @ np.eye(21), np.zeros((21, 2)), exact))
    alone = [
        solver.solve(
            solver.init(suited(solver, part)), part @ exact[rows], 0 * exact[rows], 1e-12
        ).iterations
        for part, rows in zip(parts, (slice(12), slice(12, 21)), strict=True)
    ]
    assert solution.iterations == sum(alone)


def true_steps(solver, kappa, delta=1e-4, d=2000):
    """Steps until the true error meets δ, on a log-uniform spectrum of condition number κ."""
    weights = np.logspace(0, np.log10(kappa), d)[:, None]
    exact = np.random.default_rng(0).standard_normal((d, 1)) / np.sqrt(weights)
    start = np.sum(weights * exact**2)
    B = sparse.diags_array(weights[:, 0]).tocsr()
    for t, step in enumerate(solver.corrections(solver.init(B), weights * exact), start=1):
        if t % max(1, t // 50) == 0:
            left = np.sum(weights * (exact - step.correction) ** 2)
            if left <= delta * start:
                return t
    raise AssertionError("unreachable")


@pytest.mark.parametrize(
    ("make", "slope"),
    [
        (lambda kappa: solvers.GD(bounds=(1.0, kappa)), 1.0),
        (lambda kappa: solvers.AGD(bounds=(1.0, kappa)), 0.5),
        (lambda kappa: solvers.CG(preconditioner=None), 0.5),
    ],
    ids=["GD", "AGD", "CG"],
)
def test_growth_in_kappa(make, slope):
    """Table 3: κ for gradient descent, √κ for its accelerations."""
    kappas = np.logspace(1, 5, 9)
    steps = [true_steps(make(kappa), kappa) for kappa in kappas]
    measured = np.polyfit(np.log(kappas), np.log(steps), 1)[0]
    assert measured == pytest.approx(slope, abs=0.1)


@pytest.mark.parametrize("solver", [solvers.GD, solvers.AGD])
@pytest.mark.parametrize("bounds", [(0.1, 1.0), (1e-4, 10.0), (1.0, 2.0), (1e-6, 1e3)])
def test_gradient_methods_recover_from_wrong_bounds(solver, bounds):
    """β far too small would diverge; α far too small or large would crawl or stop too early."""
    B = np.diag(np.linspace(0.1, 10.0, 50))
    exact = RNG.standard_normal((50, 2))
    chosen = solver(bounds=bounds, max_iter=400_000)
    state = chosen.init(B)
    if bounds[0] > 0.1:  # a lower bound that is a guess may be corrected, a known one not
        state = type(state)(state.operator, solvers.SpectralBounds(*bounds, known=False))
    solution = chosen.solve(state, B @ exact, np.zeros((50, 2)), 1e-8)
    assert np.all(error(B, solution.value, exact) <= 1.001e-8 * error(B, 0 * exact, exact))


def test_agd_restarts_make_up_for_a_pessimistic_lower_bound():
    """With α a million times too small, plain momentum would need √(κ·10⁶) steps."""
    B = np.diag(np.linspace(1.0, 10.0, 50))
    exact = RNG.standard_normal((50, 1))
    steps = []
    for alpha in (1.0, 1e-6):
        solver = solvers.AGD(bounds=(alpha, 10.0))
        iterates = solver.corrections(solver.init(B), B @ exact)
        target = 1e-12 * error(B, 0 * exact, exact)
        steps.append(
            next(t for t, s in enumerate(iterates) if error(B, s.correction, exact) <= target)
        )
    assert steps[1] <= 10 * steps[0]


def test_spectral_bounds_hold():
    for kappa in (1.0, 1e2, 1e4):
        B, _ = spd(np.random.default_rng(1), 60, kappa)
        bounds = spectral_bounds(as_operator(B))
        low, high = kappa**-0.5, kappa**0.5
        assert low * 0.5 <= bounds.lower <= low * 1.2
        assert high * 0.999 <= bounds.upper <= high * 1.5
        assert not bounds.known
    assert spectral_bounds(Gram(np.eye(5), reg=0.01)).lower == 0.01
    assert spectral_bounds(Gram(np.eye(5), reg=0.01)).known


def test_spectral_bounds_notice_negative_curvature():
    with pytest.raises(NotPositiveDefiniteError, match=r"pᵀBp"):
        spectral_bounds(as_operator(np.diag([1.0, 2.0, -1.0])))


def test_diagonal_gram_takes_one_step_of_jacobi_cg():
    """One indicator per row, as for words: XᵀX is diagonal, formed or not."""
    columns = np.random.default_rng(0).integers(0, 50, 2000)
    X = sparse.csr_array((np.ones(2000), (np.arange(2000), columns)), shape=(2000, 50))
    for S in (Gram(X, reg=1e-3), Gram(X, reg=1e-3).formed()):
        cg = solvers.CG()
        b = RNG.standard_normal((50, 3))
        solution = cg.solve(cg.init(S), b, np.zeros_like(b), 1e-20)
        assert solution.iterations == 1
        np.testing.assert_allclose(S @ solution.value, b, atol=1e-10)


def test_direct_is_linear_in_d_for_a_diagonal_gram():
    """d = 400,000 would need 1.3 TB as a dense matrix; a division needs a vector."""
    d = 400_000
    X = sparse.csr_array((np.ones(d), (np.arange(d), np.arange(d))), shape=(d, d))
    direct = solvers.Direct()
    for center in (False, True):
        S = Gram(X, reg=1e-3, center=center)
        b = RNG.standard_normal((d, 2))
        u = direct.solve(direct.init(S), b, np.zeros_like(b), 0.0).value
        assert np.abs(S @ u - b).max() < 1e-9 * np.abs(b).max()


@pytest.mark.parametrize("center", [False, True])
def test_direct_factors_a_sparse_gram(center):
    X = sparse.random_array((3000, 400), density=0.01, format="csr", rng=RNG)
    S = Gram(X, reg=1e-4, center=center)
    direct = solvers.Direct()
    exact = RNG.standard_normal((400, 2))
    u = direct.solve(direct.init(S), S @ exact, np.zeros_like(exact), 0.0).value
    np.testing.assert_allclose(u, exact, atol=1e-9)


def test_direct_inverts_a_singular_covariance_on_its_range():
    X = RNG.standard_normal((50, 6))
    X = np.hstack([X, X[:, :1], np.full((50, 1), 3.0)])
    S = Gram(X, center=True)
    direct = solvers.Direct()
    b = S @ RNG.standard_normal((8, 2))
    u = direct.solve(direct.init(S), b, np.zeros_like(b), 0.0).value
    np.testing.assert_allclose(S @ u, b, atol=1e-10)
    np.testing.assert_allclose(u[0], u[6], atol=1e-10)  # twins share their weight
    np.testing.assert_allclose(u[7], 0, atol=1e-10)


@pytest.mark.parametrize("solver", [solvers.CG(), solvers.Direct()])
def test_indefinite_matrices_are_refused(solver):
    Q = np.linalg.qr(RNG.standard_normal((6, 6)))[0]
    B = (Q * [1, 2, 3, 4, 5, -1.0]) @ Q.T
    for M in (B, sparse.csr_array(B)):
        with pytest.raises(NotPositiveDefiniteError, match=r"not positive definite.*ridge"):
            solver.solve(solver.init(M), Q[:, 5:], np.zeros((6, 1)), 1e-12)


def test_what_a_solver_needs_and_does_not_get_is_named():
    opaque = aslinearoperator(np.eye(3))
    with pytest.raises(ValueError, match=r"Direct needs the entries of B.*solvers\.CG"):
        solvers.Direct().init(opaque)
    with pytest.raises(ValueError, match=r"Jacobi needs the diagonal of B.*preconditioner=None"):
        solvers.CG(preconditioner=solvers.Jacobi()).init(opaque)
    solvers.CG().init(opaque)  # "auto" does without


def test_bad_calls_are_refused():
    cg = solvers.CG()
    state = cg.init(np.eye(3))
    with pytest.raises(ValueError, match=r"reduction=1.5 must lie in \[0, 1\)"):
        cg.solve(state, np.ones(3), np.zeros(3), 1.5)
    with pytest.raises(ValueError, match=r"rhs has shape \(3,\) but x0 has shape \(2,\)"):
        cg.solve(state, np.ones(3), np.zeros(2), 0.5)
    with pytest.raises(ValueError, match=r"bounds=\(2, 1\) must be \(α, β\) with 0 < α ≤ β"):
        solvers.AGD(bounds=(2, 1))
    with pytest.raises(TypeError, match=r"solver=3 is not a linear solver"):
        as_solver(3)
    with pytest.raises(TypeError, match="is not a linear solver"):
        as_solver(solvers.CG)  # the class, not a solver


def test_giving_up_is_reported():
    B, _ = spd(np.random.default_rng(0), 40, 1e6)
    for solver in (solvers.GD(max_iter=5), solvers.AGD(max_iter=5), solvers.CG(max_iter=5)):
        solution = solver.solve(solver.init(B), B @ np.ones(40), np.zeros(40), 1e-10)
        assert not solution.converged
        assert solution.iterations == 5


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda B, b, u0, delta: u0[:-1], r"returned shape \(4, 1\), expected \(5, 1\)"),
        (lambda B, b, u0, delta: u0 * np.nan, r"returned NaN or inf"),
        (lambda B, b, u0, delta: u0 + 10 * (b - B @ u0), r"diverges.*Shorten its step"),
    ],
    ids=["shape", "nan", "divergence"],
)
def test_a_users_solver_that_breaks_its_contract_is_named(function, message):
    solver = as_solver(function)
    with pytest.raises(SolverError, match=message):
        solver.solve(solver.init(np.diag([1.0, 2, 3, 4, 5])), np.ones(5), np.zeros(5), 0.1)
