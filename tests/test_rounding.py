"""Rounding of the pencil itself belongs in residuals and bounds: judged with 60 digits."""

import warnings

import numpy as np
import pytest

from genelin import CCA, Davidson, Dense, GenELinK, RankDeficiencyWarning, top_k, top_k_cca
from genelin.eigen.referee import displacement
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
