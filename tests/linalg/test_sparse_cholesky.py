"""Sparse Cholesky factors: roots of B, what they refuse, and the inertia of dense factors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from genelin import Lanczos, NotPositiveDefiniteError, Pencil, top_k
from genelin.eigen.certify.inertia import count_beyond
from genelin.eigen.subspace.whitening import Rooted, by_root
from genelin.linalg import SparseFactor, sparse_factor
from genelin.operators import as_operator


def laplacian(d, rng, links=3):
    """Of a random graph, which is singular."""
    ends = rng.integers(0, d, (2, links * d))
    G = sparse.coo_array((rng.random(links * d), ends), shape=(d, d)).tocsr()
    G = G + G.T
    G.setdiag(0.0)
    return (sparse.diags_array(np.ravel(G.sum(axis=1))) - G).tocsr()


def chain(d, beside):
    """Ones on the diagonal."""
    return sparse.diags_array([beside, 1.0, beside], offsets=[-1, 0, 1], shape=(d, d)).tocsr()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 80),
    columns=st.integers(1, 20),
    ridge=st.sampled_from([1.0, 1e-3, 1e-6]),
    spread=st.sampled_from([0.0, 12.0]),
)
def test_a_root_whitens(seed, d, columns, ridge, spread):
    """TᵀST = I for any units of the variables, up to rounding by the condition of the rest."""
    rng = np.random.default_rng(seed)
    units = 10 ** (spread / 2 * rng.random(d))
    D = sparse.diags_array(units)
    scaled = laplacian(d, rng) + ridge * sparse.eye_array(d)
    S = (D @ scaled @ D).tocsr()
    factor = sparse_factor(S)
    assert factor.is_sound
    assert factor.trouble == ""
    T = factor.lifted(np.eye(d))
    rounding = 1e-13 * d / ridge
    np.testing.assert_allclose(T.T @ (S @ T), np.eye(d), atol=rounding)
    V = rng.standard_normal((d, columns))
    np.testing.assert_allclose(factor.whitened(V), T.T @ V, atol=1e-10 * np.abs(T.T @ V).max())
    np.testing.assert_allclose(factor.lifted(V), T @ V, atol=1e-10 * np.abs(T @ V).max())
    unit = 1 / np.sqrt(S.diagonal())
    kappa = np.linalg.cond(unit[:, None] * S.toarray() * unit)
    assert 0.2 / d <= factor.condition * kappa <= 5 * d


def test_blocks_that_were_given_stay_what_they_are():
    factor, V = sparse_factor(chain(50, 0.3)), np.ones((50, 4))
    factor.whitened(V), factor.lifted(V)
    assert np.all(V == 1)


def test_a_factor_is_kept_sparse_only_where_it_has_few_entries():
    rng = np.random.default_rng(0)
    full = laplacian(900, rng) + sparse.eye_array(900)
    assert not isinstance(as_operator(full.tocsr()).factor(), SparseFactor)
    line = as_operator(chain(900, 0.3))
    assert isinstance(line.factor(), SparseFactor)
    assert line.factor() is line.factor()
    assert as_operator(np.eye(3)).fill is None


def test_norms_by_a_root_are_exact():
    B, rng = chain(900, 0.45), np.random.default_rng(0)
    operator = as_operator(B)
    solver, R = Rooted(by_root(operator)), rng.standard_normal((900, 3))
    exact = np.einsum("ij,ij->j", R, np.linalg.solve(B.toarray(), R))
    np.testing.assert_allclose(solver.energy(operator, R).bounds, exact, rtol=1e-10)


@pytest.mark.parametrize("d", [300, 3000])
@pytest.mark.parametrize("method", [None, Lanczos()])
def test_what_has_no_root_is_refused(d, method):
    A = sparse.diags_array(np.arange(1.0, d + 1)).tocsr()
    rng = np.random.default_rng(0)
    path = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(d, d)).tolil()
    path[0, 0] = path[-1, -1] = 1.0  # singular: constant vectors have the value zero
    for B in (chain(d, 0.6), path.tocsr(), laplacian(d, rng)):
        with pytest.raises(NotPositiveDefiniteError, match="B is not positive definite"):
            top_k(A, B, k=2, method=method)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 40),
    hollow=st.booleans(),
    which=st.sampled_from(["LM", "LA", "SA"]),
)
def test_inertia_counts(seed, d, hollow, which):
    """Also where the diagonal is zero, so that pivots come in blocks of two."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((d, d))
    A = A + A.T
    if hollow:
        np.fill_diagonal(A, 0.0)
    values = np.linalg.eigvalsh(A)
    size = float(abs(rng.standard_normal()))
    sizes = {"LM": np.abs(values), "LA": values, "SA": -values}[which]
    if np.abs(sizes - size).min() < 1e-9:
        return
    assert count_beyond(Pencil(A, which=which), size) == np.count_nonzero(sizes > size)


@pytest.mark.parametrize("shift", [-0.1, 0.3, 1.0, 5.0])
def test_what_has_no_root_tells_how_many_eigenvalues_are_negative(shift):
    """Diagonals may be negative, too."""
    L = laplacian(60, np.random.default_rng(3))
    S = (L - shift * sparse.eye_array(60)).tocsr()
    factor = sparse_factor(S)
    expected = int(np.count_nonzero(np.linalg.eigvalsh(S.toarray()) < 0))
    assert factor.negative == expected
    assert (factor.L is None) == (expected > 0)
