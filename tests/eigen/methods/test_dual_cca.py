"""Views with fewer rows than columns: products between rows against the dense reference."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from genelin import (
    CCA,
    ConvergenceWarning,
    Dense,
    FewRows,
    RankDeficiencyWarning,
    Status,
    TwoView,
    top_k_cca,
)
from genelin.eigen.methods.dual_cca import _view
from genelin.eigen.planning.cluster import DataSpec, described
from genelin.eigen.planning.planner import best_route
from genelin.linalg import sin_theta
from genelin.operators import Gram, row_gram
from genelin.operators.row_gram import RowSpace


def views(n: int, dx: int, dy: int, seed: int = 0, density: float = 1.0) -> tuple[Any, Any]:
    """Two views with three common directions, dense or sparse, away from zero."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n, 3))
    X, Y = (
        common @ rng.standard_normal((3, d)) + rng.standard_normal((n, d)) + rng.random(d)
        for d in (dx, dy)
    )
    if density == 1.0:
        return X, Y
    return tuple(sparse.csr_array(M * (rng.random(M.shape) < density)) for M in (X, Y))


def assert_same(few: Any, exact: Any, problem: TwoView, digits: float = 1e-9) -> None:
    np.testing.assert_allclose(few.correlations, exact.correlations, atol=digits)
    np.testing.assert_allclose(few.score_correlations, exact.score_correlations, atol=digits)
    for S, found, known in (
        (problem.S_x, few.x_weights, exact.x_weights),
        (problem.S_y, few.y_weights, exact.y_weights),
    ):
        np.testing.assert_allclose(found.T @ (S @ found), np.eye(found.shape[1]), atol=digits)
        assert sin_theta(found, known, S) < 1e3 * digits


@pytest.mark.parametrize("density", [1.0, 0.2])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize(
    "ridge",
    [{"reg": 0.1}, {"reg": (1e-4, 2.0)}, {"shrinkage": 0.3}, {"shrinkage": (1.0, 0.5)}],
    ids=str,
)
@pytest.mark.parametrize("sizes", [(50, 300, 200), (60, 300, 20), (60, 20, 300)], ids=str)
def test_the_answer_is_that_of_the_dense_reference(
    density: float, center: bool, scale: bool, ridge: dict[str, Any], sizes: tuple[int, int, int]
) -> None:
    problem = TwoView(*views(*sizes, density=density), center=center, scale=scale, **ridge)
    few, exact = FewRows()(problem, 3), Dense()(problem, 3)
    assert few.status is Status.CONVERGED
    assert few.gap_certified
    assert_same(few, exact, problem)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(3, 40),
    dx=st.integers(1, 120),
    dy=st.integers(1, 120),
    reg=st.sampled_from([1e-6, 1e-2, 1.0]),
    same=st.integers(0, 5),
    seed=st.integers(0, 1000),
)
def test_correlations_of_any_sizes(
    n: int, dx: int, dy: int, reg: float, same: int, seed: int
) -> None:
    """Also with rows that repeat, so that they span less than their number."""
    (X, Y), same = views(n, dx, dy, seed), min(same, n - 3)
    X[1 : 1 + same] = X[0]
    problem = TwoView(X, Y, reg=reg)
    k = max(1, min(dx, dy, n - 1 - same) // 3)
    few, exact = FewRows()(problem, k), Dense()(problem, k)
    np.testing.assert_allclose(few.correlations, exact.correlations, atol=1e-8)
    assert few.residuals.max() < 1e-7


@pytest.mark.parametrize("sizes", [(40, 200, 150), (40, 200, 20)], ids=str)
@pytest.mark.parametrize("shrinkage", [None, 0.3])
def test_residuals_are_measured_by_the_inverse(sizes: Any, shrinkage: float | None) -> None:
    """Of any weights, not only of those that leave none."""
    ridge = {"reg": 0.1} if shrinkage is None else {"shrinkage": shrinkage}
    problem, rng = TwoView(*views(*sizes), **ridge), np.random.default_rng(0)
    x, y = (_view(S) for S in (problem.S_x, problem.S_y))
    a, b = (view.lift(rng.standard_normal((view.scores.shape[1], 3))) for view in (x, y))
    sigma = np.array([0.9, 0.5, 0.1])
    to_x, to_y = problem.S_xy.both(a.weights, b.weights)
    for S, product, view, own, other in (
        (problem.S_x, to_x, x, a, b),
        (problem.S_y, to_y, y, b, a),
    ):
        R = product - (S @ own.weights) * sigma
        exact = np.sqrt(np.sum(R * np.linalg.solve(S @ np.eye(len(R)), R), axis=0))
        np.testing.assert_allclose(view.rest(own, other, sigma), exact, rtol=1e-10)


def test_the_span_of_rows_without_a_ridge() -> None:
    """Every correlation is 1 then, and that is said."""
    X, Y = views(30, 400, 300)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pairs = top_k_cca(X, Y, 3, method=FewRows())
    assert [w.category for w in caught if w.category is RankDeficiencyWarning]
    np.testing.assert_allclose(pairs.correlations, 1.0, atol=1e-9)
    assert pairs.status is Status.TIED
    Z = (X - X.mean(axis=0)) / np.sqrt(30)
    scores = Z @ pairs.x_weights
    np.testing.assert_allclose(scores.T @ scores, np.eye(3), atol=1e-9)


def test_weighted_rows_are_repeated_ones() -> None:
    X, Y = views(30, 200, 100)
    counts = np.random.default_rng(0).integers(0, 4, 30)
    given = CCA(3, reg=0.1, method=FewRows()).fit(X, Y, sample_weight=counts)
    again = CCA(3, reg=0.1).fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0))
    np.testing.assert_allclose(
        given.canonical_correlations_, again.canonical_correlations_, atol=1e-9
    )


@pytest.mark.parametrize("density", [1.0, 0.1])
@pytest.mark.parametrize("kept", [0, 2**25])
def test_rows_in_their_own_space(
    density: float, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of data that are too large to be kept once more, centred."""
    monkeypatch.setattr(row_gram, "KEPT", kept)
    monkeypatch.setattr(row_gram, "COPIED", 30 * 70)
    X = views(30, 200, 10, density=density)[0]
    S = Gram(X, center=True, scale=True)
    space, V = RowSpace(S), np.random.default_rng(0).standard_normal((200, 4))
    Z = space.times(np.eye(200))
    np.testing.assert_allclose(Z.T @ Z @ V, S @ V, atol=1e-12)
    np.testing.assert_allclose(space.products(), Z @ Z.T, atol=1e-11)
    np.testing.assert_allclose(space.transposed_times(Z @ V), S @ V, atol=1e-12)


def test_few_rows_are_what_runs_for_many_columns() -> None:
    X, Y = views(60, 3000, 2500)
    assert best_route(TwoView(X, Y, reg=0.1), 5).method == FewRows()
    assert best_route(TwoView(X, Y, reg=0.1), 50).method != FewRows()
    for form in (True, False):  # the user has decided
        assert best_route(TwoView(X, Y, reg=0.1, form=form), 5).method != FewRows()
    X, Y = views(3000, 60, 50)
    assert best_route(TwoView(X, Y, reg=0.1), 5).method == Dense()


def test_rows_that_span_less_than_was_asked_for() -> None:
    X, Y = views(40, 300, 200)
    X[3:] = X[2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        pairs = top_k_cca(X, Y, 4, reg=0.1, method=FewRows())
    exact = top_k_cca(X, Y, 4, reg=0.1, method=Dense())
    np.testing.assert_allclose(pairs.correlations, exact.correlations, atol=1e-6)


def test_rows_that_are_elsewhere() -> None:
    elsewhere = TwoView(*described(DataSpec(20, 100), DataSpec(20, 80)), reg=0.1, center=False)
    with pytest.raises(ValueError, match="FewRows needs X and Y in memory"):
        FewRows()(elsewhere, 2)


def test_weights_are_orthonormal_beside_a_huge_ridge():
    """Directions of little variance are known to n·eps of the largest only."""
    X, Y = views(11, 18, 30)
    X[:, 0] *= 1e5
    Y[:, 1:] = Y[:, :1] * 1e-7 + 1.0
    for reg in (1.0, 1e8):
        pairs = top_k_cca(X, Y, k=3, reg=reg, method=FewRows())
        for V, Z in ((pairs.x_weights, X), (pairs.y_weights, Y)):
            Z = Z - Z.mean(axis=0)
            gram = (Z @ V).T @ (Z @ V) / len(Z) + reg * V.T @ V
            assert np.abs(gram - np.eye(3)).max() < 1e-9


def test_residuals_count_what_products_between_rows_lose():
    """An outlier hides all other variance in ZZᵀ, and a ridge of its order does not save it."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((4, 3)), rng.standard_normal((4, 26))
    Y[2, 5] = 1e10
    pairs = top_k_cca(X, Y, k=1, reg=1e8, tol=1e-3, method=FewRows())
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    S_x, S_y, S_xy = X.T @ X / 4 + 1e8 * np.eye(3), Y.T @ Y / 4 + 1e8 * np.eye(26), X.T @ Y / 4
    v, w, s = pairs.x_weights[:, 0], pairs.y_weights[:, 0], pairs.correlations[0]
    rests = (S_xy @ w - s * S_x @ v, S_x), (S_xy.T @ v - s * S_y @ w, S_y)
    true = np.sqrt(sum(rest @ np.linalg.solve(S, rest) for rest, S in rests) / 2)
    assert true <= pairs.residuals[0] + 1e-15
