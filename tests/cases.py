"""Problems with known answers, and the one table of solvers that all tests share."""

import numpy as np
from hypothesis import strategies as st
from scipy import linalg

from genelin import solvers
from genelin.linalg import order, sin_theta
from genelin.operators import Gram

EPS = np.finfo(float).eps


def chebyshev(B, b, u0, delta):
    """A user's solver: Chebyshev iteration, with bounds read off the dense matrix."""
    weights = np.linalg.eigvalsh(B @ np.eye(B.shape[0]))
    low, high = weights[0], weights[-1]
    centre, radius = (high + low) / 2, max((high - low) / 2, 1e-12 * high)
    steps = int(np.ceil(np.sqrt(high / low) * np.log(2 / np.sqrt(delta)))) + 1
    u, r = u0, b - B @ u0
    p, alpha = r, 1 / centre
    for _ in range(steps):
        u = u + alpha * p
        r = b - B @ u
        beta = (radius * alpha / 2) ** 2
        alpha = 1 / (centre - beta / alpha)
        p = r + beta * p
    return u


# name → (solver, largest κ that keeps the tests quick)
SOLVERS = {
    "GD": (solvers.GD(), 1e3),
    "AGD": (solvers.AGD(), 1e5),
    "CG": (solvers.CG(), 1e6),
    "CG plain": (solvers.CG(preconditioner=None), 1e6),
    "Direct": (solvers.Direct(), 1e6),
    "user": (chebyshev, 1e3),
    "SVRG": (solvers.SVRG(), 1e2),
    "ASVRG": (solvers.ASVRG(), 1e3),
    "MinibatchAGD": (solvers.MinibatchAGD(), 1e3),
}
STOCHASTIC = ("SVRG", "ASVRG", "MinibatchAGD")
SLOW = ("GD", "AGD", *STOCHASTIC)  # fewer examples


def rows_of(B, n=None, seed=0):
    """Rows X with XᵀX/n = B: n = 3d of them, of unequal lengths."""
    d = len(B)
    n = 3 * d if n is None else n
    weights, Q = linalg.eigh(B)
    U = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, d)))[0]
    return np.sqrt(n) * (U * np.sqrt(weights)) @ Q.T


def suited(solver, B):
    """B as the solver needs it: as a sum over rows for those that draw rows."""
    stochastic = isinstance(solver, solvers.SVRG | solvers.MinibatchAGD)
    return Gram(rows_of(B)) if stochastic and isinstance(B, np.ndarray) else B


def orthogonal(rng, d):
    return np.linalg.qr(rng.standard_normal((d, d)))[0]


def spd(rng, d, kappa):
    """A positive definite matrix with log-uniform spectrum on [1/√κ, √κ], and its root."""
    weights = np.exp(np.log(kappa) * (np.linspace(0, 1, d) - 0.5))
    Q = orthogonal(rng, d)
    B = (Q * weights) @ Q.T
    return (B + B.T) / 2, (Q * np.sqrt(weights)) @ Q.T


class Case:
    """A pencil with its exact answer from scipy.linalg.eigh."""

    def __init__(self, A, B, k, kappa, rho):
        self.A, self.B, self.k, self.kappa, self.rho = A, B, k, kappa, rho

    @property
    def d(self):
        return len(self.A)

    def exact(self, which="LM"):
        values, vectors = linalg.eigh(self.A, self.B)
        top = order(values, which)[: self.k]
        return values[top], vectors[:, top]

    def __repr__(self):
        return f"Case(d={self.d}, k={self.k}, kappa={self.kappa:.3g}, rho={self.rho:.3g})"

    def value_error(self, values):
        """Largest error over |λ₁|; values that tie in magnitude may come in any order.

        Without a gap, which of ±λ_k is returned is not determined: magnitudes are compared then.
        """
        exact, _ = self.exact()
        if self.rho < 10 * self.kappa * EPS:
            values, exact = np.abs(values), np.abs(exact)
        sizes = np.abs(values)
        assert np.all(sizes[1:] <= sizes[:-1] * (1 + self.value_limit))
        scale = np.abs(exact[0]) or 1.0
        return np.abs(np.sort(values) - np.sort(exact)).max() / scale

    def sine(self, vectors):
        return sin_theta(vectors, self.exact()[1], self.B)

    @property
    def value_limit(self):
        return max(1e-8, 10 * self.kappa * EPS)

    @property
    def sine_limit(self):
        return max(1e-6, 10 * self.kappa * EPS / self.rho) if self.rho else np.inf


def pencil_from(values, k, kappa, seed):
    """A pencil with the given eigenvalues, largest magnitude first."""
    rng = np.random.default_rng(seed)
    values = np.asarray(values, dtype=float)
    B, root = spd(rng, len(values), kappa)
    U = orthogonal(rng, len(values))
    A = root @ (U * values) @ U.T @ root
    following = abs(values[k]) if k < len(values) else 0.0
    rho = 1 - following / abs(values[k - 1]) if values[k - 1] else 0.0
    return Case((A + A.T) / 2, B, k, kappa, rho)


@st.composite
def pencils(draw, max_kappa, min_rho=0.05, max_d=60, k=None, max_rho=0.9, spread=10.0):
    """Random pencils: indefinite A, clustered and repeated eigenvalues, k from 1 to d."""
    d = draw(st.integers(1, max_d))
    k = draw(st.integers(1, d)) if k is None else min(k, d)
    kappa = 10 ** draw(st.floats(0, np.log10(max_kappa)))
    rho = draw(st.floats(min_rho, max_rho))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    kind = draw(st.sampled_from(["spread", "clustered", "repeated"]))
    top, rest = rng.uniform(1, spread, k), rng.uniform(0, 1 - rho, d - k)
    if kind == "clustered":
        top = 1 + 1e-6 * rng.random(k)
        rest = (1 - rho) * (1 - 1e-6 * rng.random(d - k))
    elif kind == "repeated":
        top, rest = np.round(top), (1 - rho) * np.round(2 * rng.random(d - k)) / 2
    top[-1:] = 1.0
    rest[:1] = 1 - rho
    values = np.concatenate([np.sort(top)[::-1], np.sort(rest)[::-1]])
    if draw(st.booleans()):
        values = values * rng.choice([-1.0, 1.0], d)
    return pencil_from(values, k, kappa, seed)
