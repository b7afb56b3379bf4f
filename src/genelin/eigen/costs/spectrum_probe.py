"""What a few steps of Lanczos see of a spectrum, before a method is chosen.

They take a single vector, and the diagonal of B in its place: a hundred products with A, of a run
that would have thousands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from genelin.linalg import Which, order
from genelin.linalg.column_products import Vector
from genelin.linalg.sparse_cholesky import is_diagonal_matrix
from genelin.linalg.tridiagonal import tridiagonal_eigen

__all__ = ["beyond_the_end", "clustering", "digits_seen"]

NEAR = 1e-8  # how far beyond zero, by the largest quotient of the diagonals
SEEN = (15, 30, 60, 120)  # steps after which the spectrum is looked at
CLOSE = 0.1  # part of the spectrum that is close to its end
STEADY = 1.2  # growth of what is seen below which twice as many steps saw the same
UNSEEN = 1.5  # how much more there is where that did not end
EVEN, SINGULAR = 1e-12, 0.1  # parts of the spectrum, and of the second value, that count as zero
PART = 1e-4  # share in the first vector, of what an eigenvector has, below which one is a copy
FEW = 5  # pairs that single vectors see well
PLENTY = 6.0  # digits after which the rest is predicted


def beyond_the_end(A: Any, B: Any) -> list[float]:
    """Candidates for σ, below the smallest value of A v = λ B v or not far above it.

    They are zero, for an A that may be semidefinite, and the least sum of a row (Gershgorin), for
    an A without positive entries beside its diagonal and a diagonal B; both a little lower.

    Examples
    --------
    >>> from scipy import sparse
    >>> K = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(9, 9)).tocsr()
    >>> beyond_the_end(K, sparse.eye_array(9)), beyond_the_end(-K, sparse.eye_array(9))
    ([-2e-08, -2e-08], [])
    """
    a, b, sums = A.diagonal(), B.diagonal(), np.ravel(abs(A).sum(axis=1))
    if b.min() <= 0:  # not positive definite, which others complain about
        return []
    margin = NEAR * float(np.abs(a / b).max())
    candidates = [-margin] if np.all((a > 0) | (sums == 0)) and margin else []
    if is_diagonal_matrix(B) and (A - sparse.diags_array(a)).max() <= 0:
        candidates.append(float((np.ravel(A.sum(axis=1)) / b).min()) - margin)
    return candidates


def clustering(A: Any, B: Any) -> float | None:
    """√(width of the spectrum / distance of its smallest values), where that is far from one.

    Lanczos takes a multiple of so many steps to tell these values apart. The spectrum is seen by
    single steps with the diagonal of B in its place, twice as many until they see about the same;
    None where no σ is known, or values are not clustered there. The distance is that of
    the first value to σ; for a singular A, whose first value is σ itself, to the second one.

    Examples
    --------
    >>> from scipy import sparse
    >>> K = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(90, 90)).tocsr()
    >>> B = sparse.eye_array(90).tocsr()
    >>> round(clustering(K, B)), clustering(K + 9 * B, B)
    (58, None)
    """
    candidates = beyond_the_end(A, B)
    if not candidates:
        return None
    sigma, seen = min(candidates), 0.0
    for turn, look in enumerate(_looks(A, B)):
        theta = look.theta
        width = theta[-1] - theta[0]
        if turn == 0 and theta[0] - sigma >= CLOSE * width:
            return None
        second = next((value - theta[0] for value in theta if value - theta[0] > EVEN * width), 0.0)
        first = max(theta[0] - sigma, EVEN * width)
        distance = first if first > SINGULAR * second else second
        before, seen = seen, float(np.sqrt(width / distance))
        if turn > 1 and seen < STEADY * before:
            return seen
    return UNSEEN * seen


def digits_seen(A: Any, B: Any, k: int, which: Which) -> float:
    """Digits to which the k-th pair (at most the fifth) is known after all steps of a look.

    They are predicted where that pair comes fast.

    Examples
    --------
    >>> from scipy import sparse
    >>> K = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(999, 999)).tocsr()
    >>> B, apart = sparse.eye_array(999).tocsr(), sparse.diags_array(1.0 / np.arange(1, 1000))
    >>> digits_seen(K, B, 3, "LM") < 4, digits_seen(apart.tocsr(), B, 3, "LM") > 10
    (True, True)
    """
    digits = 0.0
    for steps, look in zip(SEEN, _looks(A, B), strict=False):
        ranked = order(look.theta, which)
        place = ranked[min(k, FEW, len(ranked)) - 1]
        size = max(float(np.abs(look.theta).max()), 1e-300)
        digits = float(-np.log10(max(look.residuals[place] / size, 1e-16)))
        if digits >= PLENTY:  # as many for every step that is spared
            return min(digits * SEEN[-1] / steps, 16.0)
    return digits


@dataclass(frozen=True)
class _Look:
    """Ritz values, ascending, and the norms of their residuals."""

    theta: Vector
    residuals: Vector


def _looks(A: Any, B: Any) -> Iterator[_Look]:
    """What Lanczos sees from a random vector, after some steps and twice as many.

    Vectors that were found are found again as orthogonality is lost: such copies have no part in
    the first vector, and are left out.
    """
    root = 1.0 / np.sqrt(B.diagonal())
    d = len(root)
    v, before = np.random.default_rng(0).standard_normal(d), np.zeros(d)
    alpha, beta = list[float](), [0.0]
    v /= np.sqrt(_dot(v, v))
    for steps in range(1, min(SEEN[-1], d) + 1):
        w = root * (A @ (root * v))
        alpha.append(_dot(v, w))
        w -= alpha[-1] * v + beta[-1] * before
        beta.append(np.sqrt(_dot(w, w)))
        ended = not beta[-1] > 0 or steps == d
        if ended or steps in SEEN:
            theta, U = tridiagonal_eigen(alpha, beta[1:-1])
            own = U[0] ** 2 > PART / d
            yield _Look(theta[own], beta[-1] * np.abs(U[-1, own]))
        if ended:
            return
        before, v = v, w / beta[-1]


def _dot(v: Vector, w: Vector) -> float:
    """Without BLAS, whose threads would wait for each other."""
    return float(np.einsum("i,i->", v, w))
