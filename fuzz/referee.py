"""The referee: what is true of a small pencil, in more digits than the answer has.

Everything is computed in extended precision (`np.longdouble`: 64 bits on x86, and exponents in
which the squares of 1e±150 are harmless), and in 60 digits by mpmath, where that is installed,
before a small problem is called a defect. Where extended precision is no more than float64,
tolerances grow by themselves: they are made of its own rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from fuzz import Defect

try:
    import mpmath
except ImportError:  # the referee then has extended precision only
    mpmath = None

__all__ = ["Truth", "dense", "judge_pencil", "magnitudes", "truth_of"]

Long: Any = np.longdouble
EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(Long).eps)
FLOOR = 1e-13  # of |θ₁|: what residuals are not asked to tell
EXACT = 64  # size up to which mpmath has the last word
SLACK = 4.0  # units of rounding in every term of a sum
EXTENDED = 160  # size beyond which float64 must do


def dense(M: Any, d: int) -> Any:
    """The entries of a matrix of any kind as float64, exactly those that genelin was given."""
    if M is None:
        return np.eye(d)
    if sparse.issparse(M):
        return np.asarray(M.todense(), dtype=float)
    if hasattr(M, "matmat"):
        return np.asarray(M @ np.eye(d), dtype=float)
    return np.asarray(M, dtype=float)


def magnitudes(values: Any, which: str) -> Any:
    """What `which` sorts by, descending."""
    return {"LM": np.abs(values), "LA": values, "SA": -values}[which]


@dataclass(frozen=True)
class Truth:
    """All eigenpairs of A v = λ B v, sorted by `which`, and how far to trust them.

    Attributes
    ----------
    A, B : the entries, in the referee's precision.
    values, vectors : eigenvalues by descending magnitude, and their B-orthonormal vectors.
    error : of the values, absolute.
    inverse_root : T with TᵀBT = I, by which the B⁻¹-norm of r is ‖Tᵀr‖.
    condition : κ of B after it was given a unit diagonal.
    """

    A: Any
    B: Any
    which: str
    values: Any
    vectors: Any
    error: float
    inverse_root: Any
    condition: float

    @cached_property
    def sizes(self) -> Any:
        """Magnitudes of the values, descending."""
        return magnitudes(self.values, self.which)

    def gap(self, k: int) -> float:
        """From the k-th magnitude to the next."""
        d = len(self.values)
        return float(self.sizes[k - 1] - self.sizes[k]) if k < d else np.inf

    def norm(self, R: Any) -> Any:
        """Columns' lengths in the B⁻¹-norm."""
        return np.sqrt(((self.inverse_root.T @ R) ** 2).sum(axis=0))

    def norm_bound(self, N: Any) -> Any:
        """The same of columns of which only the magnitudes of the entries are known, from above."""
        return np.sqrt(((np.abs(self.inverse_root).T @ N) ** 2).sum(axis=0))

    def sine(self, W: Any, k: int) -> float:
        """Of the largest angle between the columns of W and the top k vectors, in B."""
        rest = self.vectors[:, k:]
        if not rest.shape[1]:
            return 0.0
        overlap = np.asarray(rest.T @ (self.B @ W.astype(self.A.dtype)), dtype=float)
        return float(np.linalg.norm(overlap, 2))


def truth_of(A: Any, B: Any, which: str, *, exact: bool = False) -> Truth | None:
    """Eigenpairs of a dense pencil; None where B is not positive definite to the referee."""
    d = len(A)
    if exact and mpmath is not None:
        return _exact(A, B, which)
    kind = Long if d <= EXTENDED else np.float64
    with np.errstate(over="ignore"):
        A, B = A.astype(kind), B.astype(kind)
    if not (np.abs(A) + np.abs(B)).max(initial=0) < np.finfo(kind).max / 4:
        return None
    A, B = (A + A.T) / 2, (B + B.T) / 2
    diagonal = np.diag(B)
    if not np.all(diagonal > 0):
        return None
    scale = 1 / np.sqrt(diagonal)
    T = _inverse_root(B * np.outer(scale, scale))
    if T is None:
        return None
    condition = float(np.linalg.norm(np.asarray(T, dtype=float), 2)) ** 2 * d
    T = scale[:, None] * T
    S = T.T @ A @ T
    S = (S + S.T) / 2
    largest = float(np.log2(np.abs(S).max())) if np.any(S) else 0.0
    unit = Long(2) ** int(largest) if kind is Long else 2.0 ** int(largest)
    V = linalg.eigh(np.asarray(S / unit, dtype=float))[1].astype(kind)
    if kind is Long:
        V = _refined(S / unit, V)
    values = ((S @ V) * V).sum(axis=0)
    order = np.argsort(-magnitudes(values, which), kind="stable")
    precision = float(np.finfo(kind).eps)
    top = float(np.abs(values).max()) if d else 0.0
    # T is off by eps·κ, V by eps: cautious, and still 2048 times finer than float64
    error = 10 * d * precision * condition * top
    if top == 0:
        error = 0.0
    return Truth(A, B, which, values[order], (T @ V)[:, order], error, T, condition)


def _inverse_root(B: Any) -> Any | None:
    """L⁻ᵀ, B = LLᵀ, in the precision of B."""
    d = len(B)
    if B.dtype == np.float64:
        try:
            L = linalg.cholesky(B, lower=True)
        except linalg.LinAlgError:
            return None
        return linalg.solve_triangular(L, np.eye(d), lower=True).T
    rest, L = B.copy(), np.zeros_like(B)
    for j in range(d):
        if not rest[j, j] > 0:
            return None
        L[j:, j] = rest[j:, j] / np.sqrt(rest[j, j])
        rest[j:, j:] -= np.outer(L[j:, j], L[j:, j])
    X = np.zeros_like(B)  # L⁻¹ by rows
    identity = np.eye(d, dtype=B.dtype)
    for i in range(d):
        X[i] = (identity[i] - L[i, :i] @ X[:i]) / L[i, i]
    return X.T


def _refined(S: Any, V: Any) -> Any:
    """Eigenvectors to nearly twice the digits (Ogita & Aishima 2018), clusters left as they are."""
    scale = np.abs(S).max() if np.any(S) else Long(1)
    for _ in range(3):
        R = np.eye(len(S), dtype=S.dtype) - V.T @ V
        C = V.T @ S @ V
        values = np.diag(C) / (1 - np.diag(R))
        apart = values[None, :] - values[:, None]
        near = np.abs(apart) <= 1e-12 * scale
        safe = np.where(near, 1, apart)
        E = np.where(near, R / 2, (C + values[None, :] * R) / safe)
        V = V + V @ E
    # within clusters the small blocks decide
    R = V.T @ V
    return V @ (1.5 * np.eye(len(S), dtype=S.dtype) - R / 2)


def _exact(A: Any, B: Any, which: str) -> Truth | None:
    """In 60 digits, from the float64 entries as they are, for a few columns."""
    d = len(A)
    with mpmath.workdps(60):
        half = mpmath.mpf("0.5")
        MA, MB = mpmath.matrix(A.tolist()), mpmath.matrix(B.tolist())
        MA, MB = (MA + MA.T) * half, (MB + MB.T) * half
        try:
            L = mpmath.cholesky(MB)
        except ValueError:
            return None
        X = mpmath.matrix(d, d)  # L⁻¹, by forward substitution
        for j in range(d):
            for i in range(j, d):
                known = mpmath.fsum(L[i, m] * X[m, j] for m in range(j, i))
                X[i, j] = ((1 if i == j else 0) - known) / L[i, i]
        S = X * MA * X.T
        for i in range(d):
            for j in range(i):
                S[i, j] = S[j, i] = (S[i, j] + S[j, i]) * half
        values, Q = mpmath.eigsy(S)
        V = X.T * Q

        def plain(M: Any) -> Any:
            parts = [[_long(M[i, j]) for j in range(M.cols)] for i in range(M.rows)]
            return np.array(parts, dtype=Long)

        theta = np.array([_long(values[i]) for i in range(d)], dtype=Long)
        T = plain(X.T)
        vectors = plain(V)
    order = np.argsort(-magnitudes(theta, which), kind="stable")
    root = np.sqrt(np.diag(B))
    condition = float(np.linalg.norm(np.asarray(root[:, None] * T, dtype=float), 2)) ** 2 * d
    error = 4 * TINY * float(np.abs(theta).max())
    longs = A.astype(Long), B.astype(Long)
    return Truth(*longs, which, theta[order], vectors[:, order], error, T, condition)


def _long(x: Any) -> Any:
    """An mpmath number, to extended precision: in three parts of a float64 each."""
    mantissa, exponent = mpmath.frexp(x)
    first = float(mantissa)
    second = float(mantissa - first)
    return np.ldexp(Long(first) + Long(second), int(exponent))


def judge_pencil(
    A: Any, B: Any, which: str, k: int, tol: float, solution: Any, truth: Truth | None = None
) -> str:
    """How the answer to a dense pencil ended; raises `Defect` where it breaks a promise."""
    judge = _Judge(A, B, which, k, tol, solution)
    if truth is None:
        truth = truth_of(A, B, which)
    if truth is None:
        return "answered, beyond the referee"
    try:
        return judge(truth)
    except Defect:
        if len(A) > EXACT or mpmath is None:
            raise
    better = truth_of(A, B, which, exact=True)
    return judge(better) if better is not None else "answered, beyond the referee"


@dataclass(frozen=True)
class _Judge:
    """The promises of an EigenSolution, against the truth."""

    A: Any
    B: Any
    which: str
    k: int
    tol: float
    solution: Any

    def __call__(self, truth: Truth) -> str:
        solution, k, d = self.solution, self.k, len(self.A)
        theta, W, residuals = solution.values, solution.vectors, solution.residuals
        _demand(theta.shape == (k,) and W.shape == (d, k) and residuals.shape == (k,), "shapes")
        finite = np.isfinite(theta).all() and np.isfinite(W).all()
        _demand(bool(finite), "NaN or inf in values or vectors")
        _demand(not np.isnan(residuals).any() and bool(np.all(residuals >= 0)), "NaN in residuals")
        bound = solution.sin_theta_bound
        _demand(0 <= bound <= 1, f"sin_theta_bound={bound!r} is not in [0, 1]")
        sizes = magnitudes(theta, self.which)
        largest = float(np.abs(theta).max())
        kind = truth.A.dtype
        w, t = W.astype(kind), theta.astype(kind)
        noise = self._noise(truth, w, t)
        self._orthonormal(truth, w)
        slack = float(noise.max()) + float(residuals.max(initial=0.0))
        _demand(
            bool(np.all(np.diff(sizes) <= 1e-10 * largest + slack)),
            f"values are not in the order asked for: {theta}",
        )
        true = truth.norm(truth.A @ w - (truth.B @ w) * t)
        worst = int(np.argmax(true - residuals - noise))
        _demand(
            bool(true[worst] <= residuals[worst] * (1 + 1e-6) + noise[worst] + truth.error),
            f"residual {worst} is {float(true[worst]):.3e}, reported {residuals[worst]:.3e} "
            f"(rounding {float(noise[worst]):.1e})",
        )
        if not solution.converged:
            return f"not converged: {solution.status.name}"
        _demand(
            bool(residuals.max() <= self.tol * largest * (1 + 1e-12)) or largest == 0,
            f"converged, with residual {residuals.max():.2e} > tol·|θ₁| = {self.tol * largest:.2e}",
        )
        # without a gap another value may stand for the k-th, if it is as close as the pairs allow
        apart = 1 if bound < 0.999 else 3
        self._all_found(truth, sizes, apart * float(np.linalg.norm(residuals + noise)))
        self._space(truth, w, bound, largest)
        return "answered, a tie" if solution.status.name == "TIED" else "answered"

    def _noise(self, truth: Truth, w: Any, t: Any) -> Any:
        """What rounding in float64 may hide of the residuals, in the B⁻¹-norm."""
        d = len(self.A)
        units = SLACK * EPS * np.sqrt(d) + 4 * EPS
        terms = np.abs(truth.A) @ np.abs(w) + np.abs(t) * (np.abs(truth.B) @ np.abs(w))
        return truth.norm_bound(units * terms) + FLOOR * np.abs(t).max()

    def _orthonormal(self, truth: Truth, w: Any) -> None:
        """WᵀBW = I, as far as float64 can have it: rounding of every |wᵢ|ᵀ|B||wⱼ|."""
        d, k = w.shape
        limit = 20 * EPS * np.sqrt(d) * (np.abs(w).T @ (np.abs(truth.B) @ np.abs(w)))
        limit = np.maximum(limit, 50 * EPS * np.sqrt(d * k))
        off = np.abs(w.T @ (truth.B @ w) - np.eye(k))
        # a method may be orthonormal to eps·κ^½ only: Cholesky and a solve
        limit = limit * 10 + 10 * EPS * d * np.sqrt(truth.condition)
        if self.solution.converged:
            place = np.unravel_index(int(np.argmax(off - limit)), off.shape)
            _demand(
                bool(off[place] <= limit[place]),
                f"WᵀBW − I has {float(off[place]):.2e} at {tuple(map(int, place))}, "
                f"allowed {float(limit[place]):.1e} (κ of B {truth.condition:.1e})",
            )

    def _all_found(self, truth: Truth, sizes: Any, allowed: float) -> None:
        """The k magnitudes are those of the top k values: none is missing, no copy either."""
        gap = np.abs(np.sort(sizes)[::-1] - np.asarray(truth.sizes[: self.k], dtype=float))
        worst = int(np.argmax(gap))
        certified = "certified" if self.solution.gap_certified else "not certified"
        _demand(
            bool(gap[worst] <= allowed * (1 + 1e-6) + truth.error),
            f"missed: magnitude {worst} is {sizes[worst]:.12g}, the true one "
            f"{float(truth.sizes[worst]):.12g}; residuals allow {allowed:.1e} ({certified}, "
            f"{self.solution.status.name}, sin θ ≤ {self.solution.sin_theta_bound:.1e})",
        )

    def _space(self, truth: Truth, w: Any, bound: float, largest: float) -> None:
        """The angle to the true space is within its bound; no bound where there is no gap."""
        if bound >= 0.999:
            return
        gap = truth.gap(self.k)
        tied = self.solution.status.name == "TIED"
        if gap <= 10 * truth.error:
            _demand(
                tied or truth.error > 100 * EPS * largest,  # beyond the referee
                f"sin θ ≤ {bound:.2e}, although values k and k + 1 differ by {gap:.1e} "
                f"(|θ₁| = {largest:.1e}) and the space is not unique ({self.solution.status.name})",
            )
            return
        sine = truth.sine(w, self.k)
        floor = 10 * truth.error / gap + 1e-18
        _demand(
            sine <= bound * (1 + 1e-6) + floor,
            f"sin θ is {sine:.2e}, the bound says {bound:.2e} (gap {gap / max(largest, 1e-300):.1e}"
            f" of |θ₁|, {'certified' if self.solution.gap_certified else 'not certified'})",
        )


def _demand(kept: bool, what: str) -> None:
    if not kept:
        raise Defect(what)
