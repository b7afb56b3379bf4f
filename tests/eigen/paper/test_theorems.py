"""The paper's theorems, measured."""

import numpy as np
import pytest
from scipy import linalg
from sklearn.datasets import load_digits

from cases import EPS, pencil_from
from genelin import CCALin, GenELin, GenELinK, Pencil, TwoView, measures, solvers, theory, top_k
from genelin.eigen.subspace.ritz_basis import start_block
from genelin.linalg import sin_theta


def random_problem(seed, k=None):
    """d up to 40, indefinite or not, ρ from 0.05 to 0.8, κ up to 10⁴."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 41))
    k = int(rng.integers(1, d)) if k is None else min(k, d - 1)
    rho = rng.uniform(0.05, 0.8)
    values = np.r_[
        np.sort(rng.uniform(1, 4, k))[::-1], np.sort(rng.uniform(0, 1 - rho, d - k))[::-1]
    ]
    values[k - 1], values[k] = 1.0, 1 - rho
    if rng.random() < 0.7:
        values = values * rng.choice([-1, 1], d)
    return pencil_from(values, k, 10 ** rng.uniform(0, 4), seed), values


def adversary(seed):
    """A solver that meets δ exactly and not better, with its error in a random direction."""
    rng = np.random.default_rng(seed)

    def solve(B, b, u0, delta):
        dense = B @ np.eye(B.shape[0])
        exact = linalg.solve(dense, b, assume_a="pos")
        direction = rng.standard_normal(b.shape)
        length = np.sqrt(np.einsum("ij,ij->j", u0 - exact, dense @ (u0 - exact)))
        unit = direction / np.sqrt(np.einsum("ij,ij->j", direction, dense @ direction))
        return exact + 0.999 * np.sqrt(delta) * length * unit

    return solve


def start_angle(case, method, k, seed):
    """θ₀ of the start that the method will draw."""
    start = method._start(Pencil(case.A, case.B), k, np.random.default_rng(seed))
    _, V = case.exact()
    sine = sin_theta(start, V, case.B)
    return np.sqrt(max(1 - sine**2, 0.0))


@pytest.mark.parametrize("solver", ["CG", "adversary"])
@pytest.mark.parametrize("part", range(4))
def test_outer_iterations_stay_below_the_bound(solver, part):
    """2/ρ·log(1/(ε cos θ₀)) in every one of 200 problems, with the two-phase δ of Theorems 5, 6."""
    epsilon = 1e-6
    for seed in range(50 * part, 50 * part + 50):
        top1 = seed % 3 == 0
        case, values = random_problem(seed, k=1 if top1 else None)
        k = case.k
        rho, gamma = theory.eigengap(values, k), theory.eigenvalue_spread(values, k)
        chosen = solvers.CG() if solver == "CG" else adversary(seed)
        make = GenELin if top1 else GenELinK
        cos_theta0 = start_angle(case, make(), k, seed)
        bound = theory.iteration_bound(rho, epsilon, cos_theta0)
        method = make(
            solver=chosen,
            reduction=theory.TwoPhase(rho, gamma, k, cos_theta0),
            iterations=bound,
        )
        _, V = case.exact()
        sines = []
        method(
            Pencil(case.A, case.B),
            k,
            1e-14,
            seed,
            lambda record, W, V=V, case=case, sines=sines: (
                sines.append(sin_theta(W, V, case.B)) or sines[-1] <= epsilon
            ),
        )
        assert sines[-1] <= epsilon, (seed, case, len(sines), bound)
        assert len(sines) <= bound


@pytest.mark.parametrize("name", ["GD", "AGD", "CG", "Direct"])
def test_convergence_is_geometric_at_constant_inner_work(name):
    """sin θ_B falls on a line down to 10·κ·eps/ρ, with the same inner work in every iteration."""
    kappa, rho = 1e2, 0.3
    values = np.r_[2.0, -1.7, 1.3, 1.0, -(1 - rho), 0.5 * np.cos(np.arange(45))]
    case = pencil_from(values, 4, kappa, 3)
    _, V = case.exact()
    sines = []
    method = GenELinK(solver=getattr(solvers, name)(), iterations=110)
    solution = method(
        Pencil(case.A, case.B),
        4,
        1e-15,
        0,
        lambda record, W: sines.append(sin_theta(W, V, case.B)),
    )
    floor = 10 * kappa * EPS / rho
    assert min(sines) <= floor
    straight = np.array([s for s in sines if 1e-3 > s > 10 * floor])
    assert len(straight) > 30
    t = np.arange(len(straight))
    slope, offset = np.polyfit(t, np.log(straight), 1)
    fitted = slope * t + offset
    rest = np.log(straight) - fitted
    assert 1 - rest.var() / np.log(straight).var() >= 0.999
    assert np.exp(slope) == pytest.approx(1 - rho, abs=0.02)  # |λ_{k+1}/λ_k|
    inner = solution.trace.column("inner_iterations")[2 : len(straight)]
    assert inner.max() <= 1.35 * inner.min() + 2


def digit_halves():
    images = load_digits().images / 16.0
    return images[:, :, :4].reshape(len(images), -1), images[:, :, 4:].reshape(len(images), -1)


def test_theta_b_is_monotone_while_theta_x_and_theta_y_need_not_be():
    """Figure 1 of the paper, on digits: cos θ_B only grows, θ_x and θ_y may turn back."""
    X, Y = digit_halves()
    problem = TwoView(X, Y, reg=1e-2)
    exact = linalg.eigh(problem.pencil.A @ np.eye(64), problem.pencil.B @ np.eye(64))
    k = 4
    V = exact[1][:, ::-1][:, :k] * np.sqrt(2)
    Vx, Vy = V[:32], V[32:]
    turned = 0
    for seed in range(5):
        angles = []
        CCALin(solver=solvers.AGD(), iterations=120)(
            problem,
            k,
            1e-12,
            seed,
            lambda record, W, angles=angles: angles.append(
                (
                    measures.sin_theta_b(problem, W, Vx, Vy),
                    *projected_sines(problem, W, Vx, Vy, k),
                )
            ),
        )
        sin_b, sin_x, sin_y = np.array(angles).T
        assert np.all(np.diff(sin_b) <= 1e-9)
        turned += bool(np.any(np.diff(sin_x) > 1e-6) or np.any(np.diff(sin_y) > 1e-6))
        assert max(sin_b[-1], sin_x[-1], sin_y[-1]) < 0.02
    assert turned > 0


def projected_sines(problem, W, Vx, Vy, k):
    """θ_x and θ_y after the paper's random projection to k dimensions."""
    U = np.random.default_rng(1).standard_normal((2 * k, k))
    return (
        measures.sin_theta_x(problem, W[:32] @ U, Vx),
        measures.sin_theta_y(problem, W[32:] @ U, Vy),
    )


def test_random_start_is_as_good_as_lemma_13_says():
    """tan θ₀ ≤ C√(κdk)/η with probability 1 − η: C = 2 holds for each η tried."""
    case, _ = random_problem(11)
    _, V = case.exact()
    pencil = Pencil(case.A, case.B)
    tangents = []
    for seed in range(300):
        sine = sin_theta(start_block(pencil, case.k, np.random.default_rng(seed)), V, case.B)
        tangents.append(sine / np.sqrt(max(1 - sine**2, 1e-300)))
    for eta in (0.05, 0.2, 0.5):
        bound = theory.random_start_bound(case.d, case.k, case.kappa, eta, constant=2.0)
        assert np.mean(np.array(tangents) > bound) <= eta


def test_warm_starts_make_the_inner_work_independent_of_epsilon():
    """The paper's central claim: log(1/ε) inner steps in all, not log²(1/ε)."""
    case, _ = random_problem(21, k=3)
    totals = []
    tolerances = [1e-2, 1e-4, 1e-6, 1e-8]
    for tol in tolerances:
        solution = top_k(case.A, case.B, case.k, tol=tol, method=GenELinK(solver=solvers.CG()))
        totals.append(solution.trace.column("inner_iterations").sum())
    per_decade = np.diff(totals) / 2
    assert per_decade.max() <= 1.3 * per_decade.min() + 5


# --- Section 6: solving a linear system through an eigenvector ---------------------------------


@pytest.mark.parametrize("kappa", [1e1, 1e3])
def test_a_linear_system_through_its_top_eigenvector(kappa):
    """A = mmᵀ, B = M: the top generalized eigenvector is M⁻¹m, up to its length."""
    rng = np.random.default_rng(0)
    case = pencil_from(np.ones(50), 1, kappa, 1)
    M, m = case.B, rng.standard_normal(50)
    solution = top_k(np.outer(m, m), M, k=1, method=GenELin(solver=solvers.CG()))
    w = solution.vectors[:, 0]
    x = w * (m @ w)  # wᵀMw = 1, so that w = x / √(mᵀx) and mᵀw = √(mᵀx)
    np.testing.assert_allclose(x, np.linalg.solve(M, m), rtol=1e-6, atol=1e-8)
    assert solution.values[0] == pytest.approx(m @ np.linalg.solve(M, m))


@pytest.mark.parametrize("kappa", [10.0, 1e2, 1e3])
def test_halving_needs_the_square_root_of_kappa(kappa):
    """§6: on the worst spectrum conjugate gradients, the best of all Krylov methods, need Ω(√κ).

    That spectrum is the t + 1 extrema of the Chebyshev polynomial T_t on [1, κ], with weights that
    make its equioscillation optimal in the M-norm; t steps then leave 1/T_t((κ + 1)/(κ − 1)).
    """
    t = theory.halving_lower_bound(kappa) - 1
    nodes = (kappa + 1) / 2 + (kappa - 1) / 2 * np.cos(np.pi * np.arange(t + 1) / t)
    weights = 1 / nodes
    weights[[0, -1]] /= 2
    exact, M = np.sqrt(weights / nodes)[:, None], np.diag(nodes)
    cg = solvers.CG(preconditioner=None)
    iterates = cg.corrections(cg.init(M), M @ exact)
    left = [np.sum(nodes[:, None] * (exact - next(iterates).correction) ** 2) for _ in range(t)]
    ratio = np.sqrt(left[-1] / weights.sum())
    assert ratio == pytest.approx(1 / np.cosh(t * np.arccosh((kappa + 1) / (kappa - 1))), rel=1e-3)
    assert ratio > 0.5


def test_halving_bound_grows_as_the_square_root():
    growth = theory.halving_lower_bound(1e6) / theory.halving_lower_bound(1e4)
    assert growth == pytest.approx(10, rel=0.02)
    assert theory.halving_lower_bound(1.0) == 1


# --- The bounds as functions -------------------------------------------------------------------


def test_parameters_of_a_problem():
    values = [0.5, -4.0, 2.0, 1.0]
    assert theory.eigengap(values, 2) == 0.5
    assert theory.eigengap(values, 4) == 1.0
    assert theory.eigengap([1.0, 0.0, 0.0], 2) == 0.0
    assert theory.eigenvalue_spread(values, 2) == 2.0
    assert theory.eigenvalue_spread([1.0, 0.0], 2) == np.inf
    assert theory.condition_number(np.diag([1.0, 5.0])) == 5.0


def test_iteration_bound_is_the_formula():
    assert theory.iteration_bound(0.1, 1e-6, 0.01) == int(np.ceil(20 * np.log(1e8)))


def test_reductions_are_the_formulas():
    assert theory.reduction_top1(0.2, indefinite=False) == pytest.approx(0.04 / 16)
    assert theory.reduction_top1(0.2, 0.5) == pytest.approx(0.04 * 0.25 / 64)
    assert theory.reduction_topk(0.2, 3.0, 5, 0.5) == pytest.approx(0.04 / 16 / (64 * 5 * 9))
    phases = theory.TwoPhase(0.2, 3.0, 5, 0.5)
    assert phases.first_phase == int(np.ceil(10 * np.log(2)))
    assert phases(0) == theory.reduction_topk(0.2, 3.0, 5, 0.5)
    assert phases(phases.first_phase) == theory.reduction_topk(0.2, 3.0, 5)


def test_indefinite_problems_need_the_smaller_delta():
    """(λ₁ − λᵢ)² ≤ λ₁² fails for signs that differ: the start's error reaches nearly 4λ₁²sin²θ."""
    lam1, lam2, theta = 1.0, -0.95, 1e-3
    w = np.array([np.cos(theta), np.sin(theta)])
    A = np.diag([lam1, lam2])
    start_error = np.sum((w * (w @ A @ w) - A @ w) ** 2)
    assert start_error > 3.7 * lam1**2 * np.sin(theta) ** 2


def test_running_times_grow_as_stated():
    def agd(kappa, nnz=1e4):
        return lambda delta: nnz * theory.agd_steps(kappa, delta)

    slow = theory.runtime_topk(0.01, 2.0, 5, 1e-6, 0.1, agd(1e4), 1e4, 100)
    fast = theory.runtime_topk(0.02, 2.0, 5, 1e-6, 0.1, agd(1e4), 1e4, 100)
    assert 2.0 <= slow / fast <= 2.4  # 1/ρ, times log(1/ρ)
    four = theory.runtime_top1(0.1, 1e-6, 0.1, agd(4e4), 1e4, 100)
    one = theory.runtime_top1(0.1, 1e-6, 0.1, agd(1e4), 1e4, 100)
    assert four / one == pytest.approx(2.0, abs=0.05)  # √κ
    cca = [
        theory.runtime_cca(0.1, 2.0, 5, e, 0.1, 1e3, agd(1e3), 1e4, 100) for e in (1e-3, 1e-6, 1e-9)
    ]
    assert cca[2] - cca[1] == pytest.approx(cca[1] - cca[0])  # log(1/ε)


def test_table_3():
    sizes = {"n": 1e6, "d": 100.0, "k": 5.0, "rho": 0.1, "epsilon": 1e-6, "kappa": 1e4}
    time = {s: theory.table3(s, kappa_tilde=1e5, **sizes) for s in ("GD", "AGD", "SVRG", "ASVRG")}
    assert time["GD"] / time["AGD"] == pytest.approx(100)
    assert time["SVRG"] < time["AGD"]
    ratio = time["SVRG"] / time["ASVRG"]
    assert ratio == pytest.approx((1e6 + 1e5) / (1e6 + np.sqrt(1e11)))
    with pytest.raises(ValueError, match="needs kappa_tilde"):
        theory.table3("SVRG", **sizes)
    with pytest.raises(ValueError, match="not in Table 3"):
        theory.table3("CG", **sizes)


def test_projection_bound():
    assert theory.projection_bound(1e-6, 10, 0.1, constant=2.0) == pytest.approx(2e-2)
