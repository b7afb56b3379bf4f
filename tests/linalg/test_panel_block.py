"""Blocks in panels of four columns, against the same block as one array."""

import numpy as np
import pytest

from genelin.linalg.panel_block import Panels, turned
from genelin.system.threads import at_most


def filled(d, m, width):
    """A block, and the same in panels, put in `width` columns at a time."""
    M, Q = np.random.default_rng(0).standard_normal((d, m)), Panels(d, m + width)
    for first in range(0, m, width):
        Q.put(first, np.ascontiguousarray(M[:, first : min(first + width, m)]))
    return M, Q


def close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-12 * max(np.abs(expected).max(), 1.0))


@pytest.mark.parametrize(("m", "width"), [(4, 4), (24, 4), (23, 3), (30, 8), (7, 1), (5, 4)])
@pytest.mark.parametrize("d", [3, 300, 20_011])
def test_products_are_those_of_the_block(d, m, width):
    M, Q = filled(d, m, width)
    rng = np.random.default_rng(1)
    for first in {0, 1, m - 1}:
        for columns in (1, 3, 4, 12):
            W, C = rng.standard_normal((d, columns)), rng.standard_normal((m - first, columns))
            close(Q.dot(slice(first, m), W), M[:, first:].T @ W)
            left = W - M[:, first:] @ C
            gram = Q.subtract(slice(first, m), C, W)
            close(W, left)
            close(gram, left.T @ left)
    close(Q.times(C := rng.standard_normal((m, 5))), M @ C)
    close(Q.times(np.asfortranarray(C)[:-1]), M[:, :-1] @ C[:-1])
    close(Q.gram(m), M.T @ M)


@pytest.mark.parametrize("kept", [1, 4, 10, 22])
@pytest.mark.parametrize("d", [300, 20_011])
def test_rotated_in_place_and_filled_on(d, kept):
    M, Q = filled(d, 22, 4)
    X, Z = np.random.default_rng(1).standard_normal((22, kept)), np.ones((d, 3))
    Q.rotate(X)
    Q.put(kept, Z)
    close(Q.times(np.eye(kept + 3)), np.hstack([M @ X, Z]))
    assert not Q.first(kept + 3)[-1, :, (kept + 3) % 4 :].any() or (kept + 3) % 4 == 0


def test_a_panel_of_its_own_is_written_once():
    M, Q = filled(50, 8, 4)
    panel = Q.next_panel(8, 4)
    Z = turned(M[:, :4].copy(), np.eye(4), panel)
    assert Z is panel
    Q.put(8, Z)
    close(Q.times(np.eye(12))[:, 8:], M[:, :4])
    assert Q.next_panel(9, 4) is None  # not at the beginning of a panel
    assert Q.next_panel(8, 3) is None
    assert Q.next_panel(12, 4) is None  # no room


def test_threads_change_nothing_but_rounding():
    Q = filled(20_011, 12, 4)[1]
    W = np.ones((20_011, 4))
    with at_most(1):
        alone = Q.dot(slice(0, 12), W)
    close(Q.dot(slice(0, 12), W), alone)


def test_a_block_that_cannot_be_changed_in_place_is_refused():
    Q = filled(50, 8, 4)[1]
    with pytest.raises(ValueError, match="contiguous"):
        Q.subtract(slice(0, 8), np.ones((8, 4)), np.ones((4, 50)).T)
