"""Very large and very small pencils: values, vectors and records are those of the caller's."""

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import eigh

from genelin import (
    Davidson,
    Dense,
    GenELinK,
    GeneralizedEigen,
    Lanczos,
    ShiftInvert,
    top_k,
)
from genelin.operators import MatrixOperator, Scaled, as_operator


def pencil(d, seed=0):
    rng = np.random.default_rng(seed)
    M, Z = rng.standard_normal((d, d)), rng.standard_normal((d, 2 * d))
    return M + M.T, Z @ Z.T / d


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1e-95, 1e95),
        (1e95, 1e-95),
        (1e-150, 1e100),
        (1e140, 1e140),
        (1e-130, 1e-130),
        (1.0, 1e-280),
    ],
)
@pytest.mark.parametrize("method", [None, Dense(), Davidson(), Lanczos(), GenELinK()])
@pytest.mark.parametrize("d", [4, 60])
def test_any_scale(a, b, method, d):
    A, B = pencil(d)
    values = eigh(A, B, eigvals_only=True)
    largest = values[np.argsort(-np.abs(values))][:2]
    found = top_k(A * a, B * b, k=2, method=method)
    assert found.converged
    assert found.values / (a / b) == pytest.approx(largest, rel=1e-7)
    assert found.residuals.max() <= 1e-8 * abs(found.values[0])
    W = found.vectors
    assert W.T @ ((B * b) @ W) == pytest.approx(np.eye(2), abs=1e-9)


def test_a_plain_pencil_is_left_as_it_is():
    A, B = pencil(30)
    small = top_k(A * 2.0**-200, B * 2.0**-120, k=3, method=Davidson())
    plain = top_k(A, B, k=3, method=Davidson())
    assert np.array_equal(small.values * 2.0**80, plain.values)


def test_values_beyond_floating_point_are_refused():
    with pytest.raises(ValueError, match=r"of the order 1e-300, which leaves the range"):
        top_k(np.eye(3) * 1e-150, np.eye(3) * 1e150, k=1)
    with pytest.raises(ValueError, match="A has numbers whose products leave the range"):
        top_k(np.eye(3) * 1e300, k=1)


def test_a_callback_and_the_trace_see_the_values_of_the_caller():
    A, B = pencil(60)
    seen = []

    def callback(record, W):
        seen.append((record.ritz_values[0], float(np.vdot(W[:, 0], (B * 1e-120) @ W[:, 0]))))

    found = top_k(A * 1e-120, B * 1e-120, k=1, method=Davidson(), callback=callback)
    assert seen[-1] == pytest.approx((found.values[0], 1.0), rel=1e-6)
    assert found.trace[-1].ritz_values[0] == seen[-1][0]


def test_a_shift_is_in_units_of_the_caller():
    K = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(900, 900)).tocsr()
    found = top_k(K * 1e-120, k=2, which="SA", method=ShiftInvert(shift=-1e-123))
    assert found.values * 1e120 == pytest.approx(top_k(K, k=2, which="SA").values, rel=1e-6)


def test_a_scaled_operator_has_what_its_operator_has():
    M = np.array([[4.0, 1.0], [1.0, 3.0]])
    scaled = Scaled(MatrixOperator(M), 0.25)
    assert np.array_equal(scaled @ np.eye(2), M / 4)
    assert np.array_equal(scaled.diagonal(), np.diagonal(M) / 4)
    assert np.array_equal(scaled.entries().dense(), M / 4)
    assert scaled.factor().is_sound
    blind = Scaled(as_operator(lambda V: 2 * V, shape=(2, 2)), 0.5)
    assert blind.entries() is None
    assert blind.factor() is None
    assert blind.diagonal() is None
    assert np.array_equal(blind @ np.ones(2), np.ones(2))


def test_a_ridge_that_no_product_survives_is_named():
    X, y = np.random.default_rng(0).standard_normal((30, 4)), np.arange(30) % 3
    with pytest.raises(ValueError, match=r"reg=1e\+308 must"):
        GeneralizedEigen(reg=1e308).fit(X, y)
    with pytest.raises(ValueError, match="X has a whole number that no float can hold"):
        GeneralizedEigen().fit([[10**400, 1], [2, 3]], [0, 1])
