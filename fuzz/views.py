"""Hostile pairs of data sets on every route of CCA, against a referee with more digits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fuzz import Defect
from fuzz.referee import EPS, FLOOR, SLACK, Long, Truth, truth_of
from fuzz.spectra import FORMATS, chosen, log_uniform
from fuzz.watch import Outcome, called
from genelin import CCA, CCALin, Davidson, Dense, FewRows, solvers, top_k_cca

__all__ = ["Setting", "attack", "judge_views"]

Rng = np.random.Generator
METHODS: dict[str, Callable[[], Any]] = {
    "planner": lambda: None,
    "Dense": Dense,
    "Davidson": Davidson,
    "FewRows": FewRows,
    "CCALin": lambda: CCALin(max_iter=200),
    "CCALin, direct": lambda: CCALin(solver=solvers.Direct(), max_iter=200),
    "CCALin, locally optimal": lambda: CCALin(locally_optimal=True, max_iter=100),
}
WEIGHTS = (10, 3, 4, 3, 1, 1, 1)
HARD = 1e13  # κ of the covariances, scaled to a unit diagonal, from which little is promised


@dataclass(frozen=True)
class Setting:
    """What a case asks for, beside the data."""

    k: int
    reg: tuple[float, float]
    shrinkage: float | None
    center: bool
    scale: bool
    tol: float


def attack(rng: Rng) -> str:
    """Two views, one method; or the estimator, which has to agree."""
    X, Y, kind = views(rng)
    setting = _setting(rng, X, Y)
    method = chosen(rng, METHODS, WEIGHTS)
    form = chosen(rng, (None, None, None, True, False))
    (x, kind_x), (y, kind_y) = disguised(rng, X), disguised(rng, Y)
    options = {"center": setting.center, "scale": setting.scale, "tol": setting.tol}
    reg = setting.reg if setting.reg[0] != setting.reg[1] else setting.reg[0]
    options |= {"reg": reg} if setting.shrinkage is None else {"shrinkage": setting.shrinkage}
    estimator = method == "planner" and rng.random() < 0.3
    name = "CCA" if estimator else f"{method}, form={form}"
    about = f"{name}; {kind}; X {kind_x} {X.shape}, Y {kind_y} {Y.shape}; {setting}"

    def call() -> Any:
        if estimator:
            return CCA(setting.k, random_state=0, **options).fit(x, y).solution_
        return top_k_cca(x, y, setting.k, method=METHODS[method](), form=form, rng=0, **options)

    try:
        return judge_views(X, Y, setting, called(call), method)
    except Defect as defect:
        raise Defect(f"{defect} [{about}]") from defect
    except Exception as error:
        error.add_note(about)
        raise


def views(rng: Rng) -> tuple[Any, Any, str]:
    """Two related data sets, and what is wrong with them."""
    n = int(chosen(rng, (rng.integers(2, 12), rng.integers(10, 60), 200), (2, 4, 1)))
    d1, d2 = (int(v) for v in rng.integers(1, chosen(rng, (4, 12, 35)), 2))
    other = rng.spawn(1)[0]  # which leaves the course of `rng` as it is
    if other.random() < 0.04:  # so wide that products between rows are chosen
        n, d1, d2 = (int(v) for v in (other.integers(3, 25), *other.integers(100, 250, 2)))
    Z = rng.standard_normal((n, 3))
    X = rng.standard_normal((n, d1)) + Z @ rng.standard_normal((3, d1)) * rng.uniform(0, 2)
    Y = rng.standard_normal((n, d2)) + Z @ rng.standard_normal((3, d2)) * rng.uniform(0, 2)
    names = []
    for view, data in (("X", X), ("Y", Y)):
        while rng.random() < 0.45:
            flaw = chosen(rng, FLAWS)
            FLAWS[flaw](rng, data)
            names.append(f"{view} {flaw}")
    if rng.random() < 0.06:
        Y = X[:, rng.permutation(d1)].copy()
        names.append("Y of the columns of X")
    return X, Y, ", ".join(names) or "plain"


def _duplicate(rng: Rng, X: Any) -> None:
    i, j = rng.integers(0, X.shape[1], 2)
    X[:, i] = X[:, j] * chosen(rng, (1.0, -1.0, 2.0, 3.0))


def _constant(rng: Rng, X: Any) -> None:
    X[:, rng.integers(X.shape[1])] = chosen(rng, (0.0, 1.0, 1e8, 0.1, -3.3))


def _collinear(rng: Rng, X: Any) -> None:
    X[:, -1] = X[:, :-1].sum(axis=1)


def _nearly_collinear(rng: Rng, X: Any) -> None:
    X[:, -1] = X[:, :-1].sum(axis=1) + log_uniform(rng, 1e-12, 1e-2) * rng.standard_normal(len(X))


def _scaled(rng: Rng, X: Any) -> None:
    far = chosen(rng, (3.0, 8.0, 20.0, 90.0, 120.0))
    X *= 10.0 ** rng.uniform(-far, far, X.shape[1])


def _all_scaled(rng: Rng, X: Any) -> None:
    X *= 10.0 ** rng.uniform(-40, 40)


def _shifted(rng: Rng, X: Any) -> None:
    X += log_uniform(rng, 1, 1e10)


def _integer(rng: Rng, X: Any) -> None:
    np.round(X, out=X)


def _one_hot(rng: Rng, X: Any) -> None:
    X[:] = np.eye(X.shape[1])[rng.integers(0, X.shape[1], len(X))]


def _repeated_rows(rng: Rng, X: Any) -> None:
    X[:] = X[rng.integers(0, len(X), len(X))]


def _zero(rng: Rng, X: Any) -> None:
    X[:] = 0.0


def _mostly_zero(rng: Rng, X: Any) -> None:
    X[rng.random(X.shape) < 0.8] = 0.0


def _low_rank(rng: Rng, X: Any) -> None:
    X[:] = np.outer(X[:, 0], X[0])


def _outlier(rng: Rng, X: Any) -> None:
    X[rng.integers(len(X)), rng.integers(X.shape[1])] = log_uniform(rng, 1e3, 1e15)


FLAWS: dict[str, Callable[[Rng, Any], None]] = {
    "with duplicate columns": _duplicate,
    "with a constant column": _constant,
    "collinear": _collinear,
    "nearly collinear": _nearly_collinear,
    "with columns of any scale": _scaled,
    "scaled": _all_scaled,
    "shifted": _shifted,
    "of integers": _integer,
    "one-hot": _one_hot,
    "with repeated rows": _repeated_rows,
    "zero": _zero,
    "mostly zero": _mostly_zero,
    "of rank one": _low_rank,
    "with an outlier": _outlier,
}


def disguised(rng: Rng, X: Any) -> tuple[Any, str]:
    """The same data as an array of any layout, or sparse."""
    kind = chosen(rng, ("array", "array", "fortran", "strided", "read-only", "sparse", "sparse"))
    single = np.abs(X).max(initial=0) < 1e30
    if single and rng.random() < 0.1 and np.array_equal(X.astype(np.float32).astype(float), X):
        return X.astype(np.float32), "float32"
    if kind == "fortran":
        return np.asfortranarray(X), kind
    if kind == "strided":
        return np.repeat(X, 2, 1)[:, ::2], kind
    if kind == "sparse":
        form = chosen(rng, FORMATS[:4])
        return getattr(sparse, f"{form}_array")(X), form
    X = X.copy()
    X.flags.writeable = kind == "array"
    return X, kind


def _setting(rng: Rng, X: Any, Y: Any) -> Setting:
    most = min(X.shape[1], Y.shape[1])
    k = int(chosen(rng, (1, most, rng.integers(1, most + 1))))
    size = float(np.mean(np.var(X, axis=0))) if np.abs(X).max(initial=0) < 1e100 else 1.0
    ridges = (0.0, 1e-300, 1e-20, 1e-16, 1e-12, 1e-8, 1e-3, 1.0, 1e8)
    reg = [float(chosen(rng, ridges)) * (size if rng.random() < 0.5 else 1.0) for _ in range(2)]
    if rng.random() < 0.7:
        reg[1] = reg[0]
    shrinkage = float(chosen(rng, (0.0, 1e-10, 0.1, 0.5, 1.0))) if rng.random() < 0.12 else None
    center, scale = bool(rng.random() < 0.85), bool(rng.random() < 0.15)
    tol = chosen(rng, (1e-6, 1e-6, 1e-10, 1e-3))
    return Setting(k, (reg[0], reg[1]), shrinkage, center, scale, tol)


@dataclass(frozen=True)
class Moments:
    """Covariances in extended precision, and the rounding that float64 makes in them."""

    A: Any
    B: Any
    noise_a: Any
    noise_b: Any
    split: int


def moments(X: Any, Y: Any, setting: Setting) -> Moments:
    """The block pair of a CCA problem."""
    n, d1 = X.shape
    parts, sizes = [], []
    for data in (X, Y):
        Z = data.astype(Long)
        size = np.abs(Z)
        if setting.center:
            Z = Z - Z.mean(axis=0)
        Z[:, np.abs(Z).max(axis=0) <= 1e-17 * np.abs(data).max(axis=0)] = 0
        if setting.scale:
            spread = (
                np.sqrt((Z**2).mean(axis=0)) if setting.center else data.astype(Long).std(axis=0)
            )
            spread = np.where(spread <= 1e-17 * np.abs(data).max(axis=0), 1, spread)
            Z, size = Z / spread, size / spread
        parts.append(Z)
        sizes.append(size)
    d = d1 + Y.shape[1]
    A, B, noise_a, noise_b = (np.zeros((d, d), dtype=Long) for _ in range(4))
    blocks = slice(0, d1), slice(d1, d)
    A[blocks[0], blocks[1]] = parts[0].T @ parts[1] / n
    noise_a[blocks[0], blocks[1]] = _both(parts[0], sizes[0], parts[1], sizes[1]) / n
    for view, (block, Z, size) in enumerate(zip(blocks, parts, sizes, strict=True)):
        S, rounding = Z.T @ Z / n, _both(Z, size, Z, size) / n
        ridge = Long(setting.reg[view])
        if setting.shrinkage is not None:
            s = Long(setting.shrinkage)
            S, ridge = (1 - s) * S, s * np.trace(S) / len(S)
        B[block, block] = S + ridge * np.eye(len(S))
        noise_b[block, block] = rounding + ridge * np.eye(len(S))
    return Moments(A + A.T, B, noise_a + noise_a.T, noise_b, d1)


def _both(Z: Any, size: Any, other: Any, size_other: Any) -> Any:
    """|Z|ᵀ|other| for data of which only these sizes were rounded, before they were centred."""
    return size.T @ np.abs(other) + np.abs(Z).T @ size_other


def judge_views(X: Any, Y: Any, setting: Setting, outcome: Outcome, method: str) -> str:
    """How a case ended; raises `Defect` where it breaks a promise."""
    parts = moments(X, Y, setting)
    truth = truth_of(parts.A, parts.B, "LA")
    hard = truth is None or truth.condition > HARD or _sensitive(parts, truth)
    if outcome.refused:
        return _refused(X, Y, setting, outcome, hard, method)
    solution = outcome.answer
    warned = "ConvergenceWarning" in outcome.warned
    if warned == solution.converged:
        raise Defect(f"status {solution.status.name} with warnings {outcome.warned}")
    _plain_promises(X, Y, setting, solution)
    if not solution.converged:
        return f"not converged: {solution.status.name}"
    if hard or truth is None:
        deficient = "RankDeficiencyWarning" in outcome.warned
        return (
            "answered on the range, with a warning" if deficient else "answered, too hard to judge"
        )
    _against(parts, truth, setting, solution)
    return "answered"


def _refused(X: Any, Y: Any, setting: Setting, outcome: Outcome, hard: bool, method: str) -> str:
    words = outcome.refusal
    sizes = [float(np.abs(M).max(initial=0.0)) for M in (X, Y)]
    if "of the order" in words and any(size > 0 and not 1e-99 < size < 1e99 for size in sizes):
        return "refused, extreme"
    if "whose products are no numbers" in words and max(setting.reg) > 1e150:
        return "refused, extreme"
    spread = any(np.ptp(M, axis=0).min() == 0 for M in (X, Y)) or not setting.center
    named = any(word in words for word in ("rank", "constant", "single row", "ridge", "reg"))
    if named and (hard or spread or any(not M.any() for M in (X, Y))):
        return "refused, deficient"
    if method == "FewRows" and "FewRows" in words:
        return "refused, method"
    raise Defect(f"refused: {outcome.kind}: {words}")


def _sensitive(parts: Moments, truth: Truth) -> bool:
    """Whether rounding of the data changes the covariances by more than a thousandth."""
    T = np.abs(truth.inverse_root)
    return bool(np.linalg.norm(np.asarray(T.T @ (10 * EPS * parts.noise_b) @ T, float), 2) > 1e-3)


def _plain_promises(X: Any, Y: Any, setting: Setting, solution: Any) -> None:
    """What holds of every answer, however hard the data."""
    k, sigma = setting.k, solution.correlations
    shapes = (sigma.shape, solution.x_weights.shape, solution.y_weights.shape)
    if shapes != ((k,), (X.shape[1], k), (Y.shape[1], k)) or solution.residuals.shape != (k,):
        raise Defect(f"asked for {k} pairs, got shapes {shapes}")
    arrays = (sigma, solution.x_weights, solution.y_weights, solution.score_correlations)
    if not all(np.isfinite(part).all() for part in arrays):
        raise Defect(f"NaN or inf in the answer: correlations {sigma}")
    if np.isnan(solution.residuals).any() or not 0 <= solution.sin_theta_bound <= 1:
        raise Defect(f"residuals {solution.residuals}, bound {solution.sin_theta_bound}")
    if np.any(np.diff(sigma) > 1e-9 * max(sigma[0], 1e-300)) or sigma.min() < -1e-12:
        raise Defect(f"correlations {sigma} are not descending and positive")
    if setting.shrinkage is None and sigma[0] > 1 + 1e-6 and solution.converged:
        raise Defect(f"a correlation of {sigma[0]:.9g}")
    if np.any(np.abs(solution.score_correlations) > 1 + 1e-9):
        raise Defect(f"score correlations {solution.score_correlations}")


def _against(parts: Moments, truth: Truth, setting: Setting, solution: Any) -> None:
    """Correlations, weights, residuals and the angle, against the truth."""
    k, split = setting.k, parts.split
    sigma = solution.correlations.astype(Long)
    Phi, Psi = solution.x_weights.astype(Long), solution.y_weights.astype(Long)
    W = np.vstack([Phi, Psi]) / np.sqrt(Long(2))
    units = (SLACK * np.sqrt(len(W)) + 10) * EPS
    largest = max(float(truth.values[0]), float(sigma[0]))
    for name, V, block in (("x", Phi, slice(0, split)), ("y", Psi, slice(split, None))):
        B, noise = parts.B[block, block], parts.noise_b[block, block]
        off = np.abs(V.T @ B @ V - np.eye(k))
        limit = 10 * units * (np.abs(V).T @ (noise + np.abs(B)) @ np.abs(V)) + 1e-12
        # a method may be orthonormal to eps·κ^½ only: Cholesky and a solve
        limit = limit + 10 * EPS * len(B) * np.sqrt(truth.condition)
        place = np.unravel_index(int(np.argmax(off - limit)), off.shape)
        if off[place] > limit[place]:
            raise Defect(
                f"{name}_weights: WᵀSW − I has {float(off[place]):.2e} at "
                f"{tuple(map(int, place))}, allowed {float(limit[place]):.1e} "
                f"(κ {truth.condition:.1e})"
            )
    true = truth.norm(parts.A @ W - (parts.B @ W) * sigma)
    terms = (parts.noise_a + np.abs(parts.A)) @ np.abs(W)
    terms = terms + sigma * ((parts.noise_b + np.abs(parts.B)) @ np.abs(W))
    noise = truth.norm_bound(units * terms) + FLOOR * largest
    worst = int(np.argmax(true - solution.residuals - noise))
    if true[worst] > solution.residuals[worst] * (1 + 1e-6) + noise[worst] + truth.error:
        raise Defect(
            f"residual {worst} is {float(true[worst]):.3e}, reported "
            f"{solution.residuals[worst]:.3e} (rounding {float(noise[worst]):.1e})"
        )
    allowed = float(np.linalg.norm(solution.residuals)) * 1.5 + float(np.linalg.norm(noise)) * 2
    wrong = np.abs(np.asarray(sigma - np.maximum(truth.values[:k], 0), dtype=float))
    if wrong.max() > allowed + truth.error:
        place = int(np.argmax(wrong))
        raise Defect(
            f"correlation {place} is {float(sigma[place]):.12g}, the true one "
            f"{float(truth.values[place]):.12g}; residuals allow {allowed:.1e} "
            f"({solution.status.name}, sin θ ≤ {solution.sin_theta_bound:.1e})"
        )
    _angles(parts, truth, setting, solution, (Phi, Psi))


def _angles(
    parts: Moments, truth: Truth, setting: Setting, solution: Any, found: tuple[Any, Any]
) -> None:
    """Both canonical spaces are within the bound; there is none where there is no gap."""
    k, split, bound = setting.k, parts.split, solution.sin_theta_bound
    if bound >= 0.999:
        return
    following = max(truth.values[k], Long(0)) if k < len(truth.values) else Long(0)
    if k == split == len(parts.A) - split:
        return
    gap = float(truth.values[k - 1] - following)
    # the data themselves are rounded: their own noise moves the space
    T = np.abs(truth.inverse_root)
    moved = T.T @ (EPS * (parts.noise_a + truth.values[0] * parts.noise_b)) @ T
    moved = float(np.linalg.norm(np.asarray(moved, dtype=float), 2)) + truth.error
    if gap <= 10 * moved:
        if gap <= 1e-17 * truth.values[0] and solution.status.name != "TIED":
            raise Defect(f"sin θ ≤ {bound:.1e} without a gap ({gap:.1e})")
        return
    scale = np.sqrt(Long(2))
    true = truth.vectors[:split, :k] * scale, truth.vectors[split:, :k] * scale
    for name, V, U, block in zip(
        "xy", found, true, (slice(0, split), slice(split, None)), strict=True
    ):
        B = parts.B[block, block]
        rest = V - U @ (U.T @ (B @ V))
        squares = np.asarray(rest.T @ (B @ rest), dtype=float)
        sine = float(np.sqrt(max(np.linalg.norm(squares, 2), 0.0)))
        if sine > bound * (1 + 1e-6) + 20 * moved / gap + 1e-15:
            raise Defect(
                f"sin θ_{name} is {sine:.2e}, the bound says {bound:.2e} (gap {gap:.1e}, rounding "
                f"{moved / gap:.1e})"
            )
