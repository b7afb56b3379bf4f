"""Rounding of the pencil itself belongs in residuals and bounds: judged with 60 digits."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from genelin import (
    CCA,
    CCALin,
    ConvergenceWarning,
    Davidson,
    Dense,
    GenELinK,
    Lanczos,
    RankDeficiencyWarning,
    baselines,
    datasets,
    solvers,
    top_k,
    top_k_cca,
)
from genelin.eigen.certify.residual_check import displacement
from genelin.problems import Pencil

mpmath = pytest.importorskip("mpmath")


def near_the_floor(rng):
    """Three rows, κ(B) up to 1e14, and a gap of about eps·κ(B)."""
    kappa = 10 ** rng.uniform(2, 14)
    Q, U = (np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(2))
    B = (Q * np.geomspace(1, 1 / kappa, 3)) @ Q.T
    gap = 2.2e-16 * kappa * 10 ** rng.uniform(-1, 2)
    V = Q * np.geomspace(1, 1 / kappa, 3) ** 0.5 @ U
    A = (V * [1.0, 1.0 - gap, rng.uniform(-0.5, 0.5)]) @ V.T
    return (A + A.T) / 2, (B + B.T) / 2


def truly(A, B, solution):
    """The sine of the angle to the first eigenvector, and the error of the value."""
    with mpmath.workdps(60):
        L = mpmath.cholesky(mpmath.matrix(B.tolist()))
        inverse = L**-1
        values, U = mpmath.eigsy(inverse * mpmath.matrix(A.tolist()) * inverse.T)
        first = max(range(len(A)), key=lambda j: abs(values[j]))
        w = L.T * mpmath.matrix(solution.vectors[:, 0].tolist())
        w = w / mpmath.norm(w)
        cosine = (U[:, first].T * w)[0]
        theta = mpmath.mpf(float(solution.values[0]))
        error = min(abs(value - theta) for value in values)
        return float(mpmath.sqrt(max(0, 1 - cosine**2))), float(error)


@pytest.mark.parametrize(
    "method", [Dense(), Davidson(), GenELinK(locally_optimal=True, max_iter=200)]
)
def test_bounds_hold_where_gaps_are_as_small_as_rounding(method):
    rng, told = np.random.default_rng(5), 0
    for _ in range(40):
        A, B = near_the_floor(rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = top_k(A, B, k=1, tol=1e-4, method=method)
            except ValueError:  # B is singular to rounding
                continue
        if not found.converged:
            continue
        sine, error = truly(A, B, found)
        assert sine <= found.sin_theta_bound * (1 + 1e-9) + 1e-15
        assert error <= found.residuals[0]
        told += found.sin_theta_bound < 1
    assert told >= 5  # bounds that say something


def test_what_rounding_moves_grows_with_the_condition_of_B():
    mild = Pencil(np.diag([2.0, 1.0]), np.array([[1.0, 0.5], [0.5, 1.0]]))
    wild = Pencil(np.diag([2.0, 1.0]), np.array([[1.0, 1 - 1e-9], [1 - 1e-9, 1.0]]))
    assert displacement(mild, 2.0) < 1e-13
    assert 1e-8 < displacement(wild, 2.0) < 1e-4
    assert displacement(Pencil(np.diag([2.0, 1.0])), 2.0) < 1e-14


@pytest.mark.parametrize("reg", [1e-300, 1e-17, (1e-300, 1e-17)])
def test_a_ridge_below_rounding_is_none(reg):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((10, 30)), rng.standard_normal((10, 30))
    with pytest.raises(ValueError, match="k=20 is more than the numerical rank 9 of X"):
        top_k_cca(X, Y, k=20, reg=reg)
    with pytest.warns(RankDeficiencyWarning, match=r"a ridge of 1e-\d+ is lost in rounding"):
        assert len(top_k_cca(X, Y, k=9, reg=reg).correlations) == 9
    with pytest.raises(ValueError, match="numerical rank 9"):
        CCA(20, reg=reg).fit(X, Y)


@pytest.mark.parametrize("size", [1e4, 1e6, 1e8, 1e10])
def test_few_rows_and_a_column_that_is_larger_than_the_others(size):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, 300)), rng.standard_normal((20, 300))
    X[:, 0] *= size
    found, dense = (top_k_cca(X, Y, k=2, reg=1.0, method=method) for method in (None, Dense()))
    assert found.converged
    assert found.correlations == pytest.approx(dense.correlations, abs=1e-9)


@pytest.mark.parametrize("method", [Davidson(), GenELinK(locally_optimal=True, max_iter=200)])
def test_residuals_are_bounded_however_far_the_spectrum_of_b_reaches(method):
    """At loose tolerances, where an estimate of the smallest eigenvalue of B is far off."""
    told = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        d = 120
        Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
        B = (Q * np.geomspace(1, 10 ** -rng.uniform(6, 9), d)) @ Q.T
        B = (B + B.T) / 2
        A = rng.standard_normal((d, d))
        A = A + A.T
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = top_k(A, B, k=1, which="LA", tol=1e-2, method=method, rng=seed)
        rest = A @ found.vectors - B @ found.vectors * found.values
        true = np.linalg.norm(np.linalg.solve(np.linalg.cholesky(B), rest), axis=0)
        assert np.all(true <= found.residuals * (1 + 1e-6))
        told += found.converged
    assert told >= 3


def test_a_semidefinite_b_is_not_called_indefinite():
    """Directions of a search that lie in its null space have lengths of rounding."""
    X, Y = datasets.two_view_gaussian(500, (6, 5))
    X = np.c_[X, X[:, :1]]
    for seed in range(10):
        with pytest.warns(RankDeficiencyWarning):
            pairs = top_k_cca(X, Y, k=2, method=baselines.MomentumALS(), rng=seed)
        assert pairs.correlations == pytest.approx([1.0, 1.0], abs=1.0)


def test_ridges_beyond_the_range_of_squares():
    X = np.random.default_rng(0).standard_normal((20, 3))
    with pytest.raises(ValueError, match=r"reg=1e\+200 is above 1e\+150"):
        top_k_cca(X, X, k=1, reg=1e200)
    X[:, 1] = 0.0
    for method in (None, Davidson(), Dense()):
        with pytest.warns(RankDeficiencyWarning, match="1 of its 3 columns are constant"):
            pairs = top_k_cca(X, X, k=2, reg=1e-320, method=method)
        assert pairs.correlations == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("method", [Davidson(), CCALin(), CCALin(solver=solvers.Direct())])
def test_more_pairs_than_a_view_has(method):
    rng = np.random.default_rng(3)
    X, Y = rng.standard_normal((2, 23)), rng.standard_normal((2, 7))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=r"k=2 is more than the (smaller )?numerical rank"):
            top_k_cca(X, Y, k=2, reg=(1e-19, 1e-3), method=method)


@pytest.mark.parametrize("method", [CCALin(solver=solvers.Direct()), CCALin(locally_optimal=True)])
def test_as_many_pairs_as_asked_for_where_data_have_fewer(method):
    """Beyond the rank of the data every direction is as good: correlations are zero."""
    rng = np.random.default_rng(4)
    X, Y = rng.standard_normal((6, 8)), rng.standard_normal((6, 3))
    Y[:, 2], Y[:, 1] = Y[:, 0], 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = top_k_cca(X, Y, k=3, reg=1e-8, method=method)
    assert pairs.correlations == pytest.approx([1.0, 0.0, 0.0], abs=1e-6)
    assert pairs.x_weights.shape == (8, 3)


@pytest.mark.parametrize("method", [CCALin(locally_optimal=True), CCALin(), Davidson(), None])
def test_no_gap_is_seen_where_nothing_is_seen_of_the_other_view(method):
    """Views of units far apart: all correlations are zero, and one space is as good as another."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((35, 2)) * [1e-3, 1e15]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # which CCALin gives, for want of a gap
        pairs = top_k_cca(X, np.zeros((35, 4)), k=1, reg=(4e21, 1e-16), method=method, tol=1e-10)
    assert pairs.correlations == pytest.approx([0.0])
    assert pairs.sin_theta_bound == 1.0


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_row_without_weight_is_not_in_the_centre(form):
    """It may be far larger than what varies in the others."""
    rng = np.random.default_rng(6)
    X = 1e-30 * (1 + 1e-6 * rng.standard_normal((12, 2)))
    Y = rng.standard_normal((12, 2)) + 1e36 * X
    weights = np.arange(12) % 4
    X[weights == 0] = 1e4
    kept = weights > 0
    one = CCA(2, reg=0.1, scale=True).fit(form(X), Y, sample_weight=weights)
    other = CCA(2, reg=0.1, scale=True).fit(X[kept], Y[kept], sample_weight=weights[kept])
    assert one.canonical_correlations_ == pytest.approx(other.canonical_correlations_, rel=1e-6)


@pytest.mark.parametrize("method", [GenELinK(max_iter=30), Davidson(), Lanczos()])
@pytest.mark.parametrize("which", ["LA", "SA"])
@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_units_of_coordinates_that_only_products_tell(method, which, tol):
    """One coordinate is far larger than the others: random vectors see little else."""
    A_is_matrix = isinstance(method, Lanczos)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        d, signs = 36, np.where(np.arange(36) % 3, 1, -1)
        units = 10.0 ** np.r_[6.0, rng.uniform(-2, 0, d - 1)]
        Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
        S = (Q * (1000.0 * 0.56 ** np.arange(d) * signs)) @ Q.T
        A, B = units[:, None] * (S + S.T) / 2 * units, aslinearoperator(np.diag(units**2))
        values, U = np.linalg.eigh((S + S.T) / 2)
        rest = U[:, :-3] if which == "LA" else U[:, 3:]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = top_k(
                A if A_is_matrix else aslinearoperator(A),
                B,
                k=3,
                which=which,
                method=method,
                tol=tol,
                rng=seed,
            )
        R = (A @ found.vectors - (B @ found.vectors) * found.values) / units[:, None]
        assert np.all(np.linalg.norm(R, axis=0) <= found.residuals * (1 + 1e-6) + 1e-9)
        sine = np.linalg.norm(rest.T @ (units[:, None] * found.vectors), 2)
        assert sine <= found.sin_theta_bound * (1 + 1e-6) + 1e-9
        if found.converged:
            first = values[::-1][:3] if which == "LA" else values[:3]
            assert found.values == pytest.approx(first, abs=2 * np.linalg.norm(found.residuals))
