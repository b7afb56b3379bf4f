"""What estimators must agree on: weights and repeated rows, batches and all rows, and LAPACK."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
from scipy import linalg

from fuzz import Defect
from fuzz.referee import EPS
from fuzz.spectra import chosen, log_uniform
from fuzz.views import disguised, views
from fuzz.watch import called
from genelin import CCA, GeneralizedEigen, top_k_cca

__all__ = ["attack"]

Rng = np.random.Generator
FLOOR = 1e-6  # of ratios, below which differences of moments are rounding
WELL = 1e8  # κ of the covariances up to which two ways are held to agree


def attack(rng: Rng) -> str:
    """One relation between two calls, or between a call and LAPACK."""
    name = chosen(rng, RELATIONS)
    try:
        return RELATIONS[name](rng)
    except Defect as defect:
        raise Defect(f"{name}: {defect}") from defect
    except Exception as error:
        error.add_note(name)
        raise


def _data(rng: Rng) -> tuple[Any, Any, float, float, str]:
    """Two views, a ridge, and κ of what is solved, columns scaled to one variance."""
    X, Y, kind = views(rng)
    sizes = [np.abs(M).max(initial=0.0) for M in (X, Y)]
    if max(sizes) > 1e12 or min(sizes) < 1e-12:
        X, Y, kind = rng.standard_normal((20, 3)), rng.standard_normal((20, 4)), "plain"
    reg = float(chosen(rng, (0.1, 1e-3, 1.0, 10.0)))
    kappa = 1.0
    for M in (X, Y):
        size = float(np.linalg.norm(M, 2) ** 2) / len(M)  # with the means, which rounding sees
        kappa = max(kappa, (size + reg) / reg)
    return X, Y, reg, kappa, kind


def _agree(one: Any, other: Any, kappa: float, what: str, tol: float = 1e-6) -> str:
    if kappa > WELL:
        return "too hard to judge"
    difference = float(np.abs(np.asarray(one) - np.asarray(other)).max(initial=0.0))
    if difference > max(1e-9, 1e3 * EPS * kappa, 2 * tol):
        raise Defect(f"{what}: {one} and {other} (κ {kappa:.1e})")
    return "agreed"


def _fitted(fit: Callable[[], Any]) -> Any:
    return called(fit, libraries=("sklearn",))


def _weights(rng: Rng) -> str:
    """Whole weights count rows that many times."""
    X, Y, reg, kappa, kind = _data(rng)
    weights = rng.integers(0, 4, len(X))
    if (weights > 0).sum() < 3:
        weights[:3] = 1
    given, kind_x = disguised(rng, X)
    k = min(X.shape[1], Y.shape[1], 2)
    scale = bool(rng.random() < 0.2)
    repeated = np.repeat(X, weights, axis=0), np.repeat(Y, weights, axis=0)
    models = (
        _fitted(lambda: CCA(k, reg=reg, scale=scale).fit(given, Y, sample_weight=weights)),
        _fitted(lambda: CCA(k, reg=reg, scale=scale).fit(*repeated)),
    )
    if any(model.refused for model in models):
        if all(model.refused for model in models):
            return "refused"
        raise Defect(f"one is refused: {[model.refusal for model in models]} [{kind}, X {kind_x}]")
    one, other = (model.answer for model in models)
    about = f"correlations with weights and repeated rows [{kind}, X {kind_x} {X.shape}, reg={reg}]"
    if not (one.solution_.converged and other.solution_.converged):
        return "not converged"
    return _agree(one.canonical_correlations_, other.canonical_correlations_, kappa, about)


def _batches(rng: Rng) -> str:
    """Batches of rows come to what `fit` finds in all of them."""
    X, Y, reg, kappa, kind = _data(rng)
    k, scale = min(X.shape[1], Y.shape[1], 2), bool(rng.random() < 0.3)
    center = bool(rng.random() < 0.8)
    cuts = np.sort(rng.integers(1, len(X), int(rng.integers(1, 4))))
    parts = [(x, y) for x, y in zip(np.split(X, cuts), np.split(Y, cuts), strict=True) if len(x)]
    settings = {"reg": reg, "scale": scale, "center": center}

    def stream() -> Any:
        model = CCA(k, **settings)
        for x, y in parts:
            model.partial_fit(disguised(rng, x)[0], y)
        return model

    one, other = _fitted(stream), _fitted(lambda: CCA(k, **settings).fit(X, Y))
    about = f"[{kind}, {X.shape}, batches of {[len(x) for x, _ in parts]}, {settings}]"
    if one.refused or other.refused:
        if one.refused and other.refused:
            return "refused"
        if kappa > WELL and "rank" in one.refusal + other.refusal:
            return "too hard to judge"
        raise Defect(f"one is refused: {one.refusal or other.refusal} {about}")
    if not hasattr(one.answer, "solution_"):
        return "too few rows"
    found = one.answer.canonical_correlations_, other.answer.canonical_correlations_
    return _agree(*found, kappa, f"partial_fit and fit {about}")


def _units(rng: Rng) -> str:
    """Without a ridge, units and offsets of columns do not matter."""
    n, d1, d2 = 40, int(rng.integers(1, 6)), int(rng.integers(1, 6))
    X, Y = rng.standard_normal((n, d1)), rng.standard_normal((n, d2))
    Y[:, 0] += X[:, 0]
    far = float(chosen(rng, (2.0, 5.0, 10.0, 40.0)))
    moved = X * 10.0 ** rng.uniform(-far, far, d1)
    k = min(d1, d2)
    one = _fitted(lambda: top_k_cca(X, Y, k))
    other = _fitted(lambda: top_k_cca(disguised(rng, moved)[0], Y, k))
    if one.refused or other.refused:
        raise Defect(f"refused: {one.refusal or other.refusal} (columns up to 1e±{far:.0f})")
    if not (one.answer.converged and other.answer.converged):
        return "not converged"
    pairs = one.answer.correlations, other.answer.correlations
    if pairs[0].shape != pairs[1].shape:
        raise Defect(f"{pairs[0].shape} pairs and {pairs[1].shape} in other units, 1e±{far:.0f}")
    return _agree(*pairs, 1.0, f"correlations in other units, 1e±{far:.0f}")


def _moment(X: Any, center: bool = True) -> Any:
    return np.cov(X.T, bias=True).reshape(X.shape[1], -1) if center else X.T @ X / len(X)


def _contrasts(rng: Rng) -> str:
    """Ratios are those of LAPACK for the two covariances."""
    d = int(rng.integers(1, 12))
    X = rng.standard_normal((int(rng.integers(2, 60)), d)) * rng.uniform(0.2, 3, d)
    Z = rng.standard_normal((int(rng.integers(2, 60)), d))
    if rng.random() < 0.4:
        X, Z = np.round(X), np.round(Z)
    criterion = chosen(rng, CRITERIA)
    y = rng.integers(0, 2 if criterion == "csp" else int(rng.integers(2, 4)), len(X))
    settings: dict[str, Any] = {
        "n_components": int(rng.integers(1, d + 1)),
        "which": chosen(rng, ("LM", "LA", "SA", "BE")) if criterion != "class-pairs" else "LM",
        "reg": log_uniform(rng, 1e-3, 10),
        "center": None if criterion == "lda" else bool(rng.random() < 0.8),
    }
    given, name = disguised(rng, X)
    about = f"[{criterion}, X {name} {X.shape}, classes {np.bincount(y)}, {settings}]"
    if criterion == "background":
        model = _fitted(lambda: GeneralizedEigen(**settings).fit(given, background=Z))
    else:
        settings["criterion"] = criterion
        model = _fitted(lambda: GeneralizedEigen(**settings).fit(given, y))
    if model.refused:
        return f"refused: {model.refusal[:40]}"
    for S1, S2, pair in CRITERIA[criterion](X, Z, y, settings["center"]):
        S2 = S2 + settings["reg"] * np.eye(d)
        _check_ratios(model.answer, S1, S2, pair, about)
    return "agreed"


def _check_ratios(model: Any, S1: Any, S2: Any, pair: Any, about: str) -> None:
    """The ratios (of one pair of classes) are the ends of the spectrum, and WᵀS₂W = I."""
    of_pair = slice(None) if pair is None else (model.class_pairs_ == pair).all(axis=1)
    found, W = model.eigenvalues_[of_pair], model.rotations_[:, of_pair]
    ratios, k = linalg.eigh(S1, S2, eigvals_only=True)[::-1], len(found)
    if k != model.n_components and model.criterion != "lda":
        raise Defect(f"{k} ratios, {model.n_components} were asked for {about}")
    top = {"SA": 0, "BE": -(-k // 2)}.get(model.which, k)
    if model.criterion == "lda" and model.which in ("SA", "BE"):
        return  # the smallest of those that discriminate, by its own account
    expected = np.r_[ratios[:top], ratios[len(ratios) - (k - top) :]]
    off = np.abs(np.sort(found) - np.sort(expected)).max() / max(ratios[0], FLOOR)
    if off > 1e-6:
        raise Defect(f"ratios {found}, LAPACK has {expected} {about}")
    gram = np.abs(np.diag(W.T @ S2 @ W) - 1).max()
    if gram > 1e-7:
        raise Defect(f"wᵀS₂w is off 1 by {gram:.1e} {about}")


def _against(X: Any, Z: Any, y: Any, center: Any) -> Any:
    yield _moment(X, center), _moment(Z, center), None


def _patterns(X: Any, Z: Any, y: Any, center: Any) -> Any:
    first, second = (_moment(X[y == c], center) for c in np.unique(y))
    yield first, first + second, None


def _pairs(X: Any, Z: Any, y: Any, center: Any) -> Any:
    for i, j in permutations(np.unique(y), 2):
        yield _moment(X[y == i], center), _moment(X[y == j], center), [i, j]


def _discriminants(X: Any, Z: Any, y: Any, center: Any) -> Any:
    """Between-class against within-class scatter, both divided by n."""
    shares = [(np.mean(y == c), X[y == c]) for c in np.unique(y)]
    within = sum(share * _moment(part) for share, part in shares)
    yield _moment(X) - within, within, None


CRITERIA = {
    "background": _against,
    "csp": _patterns,
    "class-pairs": _pairs,
    "lda": _discriminants,
}


RELATIONS: dict[str, Callable[[Rng], str]] = {
    "weights": _weights,
    "batches": _batches,
    "units": _units,
    "contrasts": _contrasts,
}
