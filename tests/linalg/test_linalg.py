import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import orthogonal, spd
from genelin.errors import NotPositiveDefiniteError
from genelin.linalg import (
    order,
    orthonormalise,
    principal_sines,
    rayleigh_ritz,
    sin_theta,
    tridiagonal_eigen,
)
from genelin.operators import as_operator
from genelin.solvers.spectral_bounds import spectral_bounds


@given(
    d=st.integers(1, 40),
    log_kappa=st.floats(0, 8),
    log_dependence=st.floats(-12, 0),
    seed=st.integers(0, 10**6),
)
def test_orthonormalise_survives_near_dependent_columns(d, log_kappa, log_dependence, seed):
    rng = np.random.default_rng(seed)
    B, _ = spd(rng, d, 10**log_kappa)
    k = int(rng.integers(1, d + 1))
    Z = rng.standard_normal((d, k))
    Z[:, 1:] = Z[:, :1] + 10**log_dependence * Z[:, 1:]
    W, BW = orthonormalise(Z, B, spare=rng.standard_normal((d, k)))
    assert W.shape == (d, k)
    np.testing.assert_allclose(W.T @ B @ W, np.eye(k), atol=1e-8)
    np.testing.assert_allclose(BW, B @ W, atol=1e-8 * np.abs(B @ W).max())


def test_orthonormalise_keeps_the_span():
    rng = np.random.default_rng(0)
    B, _ = spd(rng, 30, 1e4)
    Z = rng.standard_normal((30, 5)) @ np.diag(10.0 ** np.arange(0, -10, -2))
    W, _ = orthonormalise(Z, B)
    assert sin_theta(W, Z, B) < 1e-12


def test_orthonormalise_drops_what_is_not_there_and_fills_from_spare():
    B = np.diag([1.0, 2.0, 3.0, 4.0])
    Z = np.ones((4, 3))
    assert orthonormalise(Z, B)[0].shape == (4, 1)
    W, _ = orthonormalise(Z, B, spare=np.eye(4))
    np.testing.assert_allclose(W.T @ B @ W, np.eye(3), atol=1e-12)
    assert sin_theta(np.ones((4, 1)), W, B) < 1e-12


def test_orthonormalise_notices_negative_curvature():
    with pytest.raises(NotPositiveDefiniteError, match=r"wᵀBw = .*ridge"):
        orthonormalise(np.eye(2), np.diag([1.0, -1.0]))


@pytest.mark.parametrize("angle", [1e-14, 1e-10, 1e-5, 0.3, np.pi / 2])
def test_sines_are_seen_down_to_rounding(angle):
    rng = np.random.default_rng(1)
    B, root = spd(rng, 12, 1e3)
    Q = np.linalg.solve(root, orthogonal(rng, 12))  # B-orthonormal columns
    V = Q[:, :3]
    W = V.copy()
    W[:, 2] = np.cos(angle) * Q[:, 2] + np.sin(angle) * Q[:, 5]
    mixed = W @ rng.standard_normal((3, 3))
    sines = principal_sines(mixed, V, B)
    assert sines[0] == pytest.approx(np.sin(angle), rel=1e-6, abs=3e-14)
    assert sines[1] < max(1e-13, 1e-7 * sines[0])


def test_sines_of_spaces_of_different_size():
    assert sin_theta(np.eye(4)[:, :1], np.eye(4)[:, :3], np.eye(4)) == 0.0
    assert sin_theta(np.eye(4)[:, :3], np.eye(4)[:, 3:], np.eye(4)) == 1.0


def test_order_puts_the_positive_of_a_pair_first():
    values = np.array([-2.0, 1.0, 2.0, -3.0])
    assert values[order(values)].tolist() == [-3.0, 2.0, -2.0, 1.0]
    assert values[order(values, "LA")].tolist() == [2.0, 1.0, -2.0, -3.0]
    assert values[order(values, "SA")].tolist() == [-3.0, -2.0, 1.0, 2.0]


def test_rayleigh_ritz_diagonalises():
    rng = np.random.default_rng(2)
    A = rng.standard_normal((6, 6))
    A = A + A.T
    W = orthogonal(rng, 6)[:, :4]
    theta, Q = rayleigh_ritz(W, A @ W)
    np.testing.assert_allclose(Q.T @ W.T @ A @ W @ Q, np.diag(theta), atol=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_tridiagonal_matrices_of_very_different_entries(seed):
    """Of Lanczos's, with copies; LAPACK's fast method gives up on some of them in SciPy 1.15."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(3, 31))
    B, root = spd(rng, d, 10 ** rng.uniform(6, 12))
    assert spectral_bounds(as_operator(B)).upper >= 0.9 * np.linalg.norm(root, 2) ** 2
    size = int(rng.integers(2, 60))
    diagonal, beside = 10 ** rng.uniform(0, 6, size), 10 ** rng.uniform(-1, 5, size - 1)
    T = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    values, vectors = tridiagonal_eigen(diagonal, beside)
    scale = np.abs(T).max()
    np.testing.assert_allclose(T @ vectors, vectors * values, atol=1e-12 * scale)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(size), atol=1e-12)
