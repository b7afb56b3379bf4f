"""How often is `sin_theta_bound` a bound, and how tight is it? Random small problems tell.

The true sine comes from `scipy.linalg.eigh`, whose own vectors are off by up to κ·eps/ρ. Where it
is above the bound, it is computed again with 40 digits (by mpmath, where that is installed).

Run `python benchmarks/certificates.py [--problems N] [--seed S]`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import eigh

from genelin import Davidson, GenELinK, top_k
from genelin.linalg.principal_angles import sin_theta

EPS = np.finfo(float).eps
METHODS = {
    "Davidson": Davidson,
    "GenELinK": lambda: GenELinK(locally_optimal=True, max_iter=300),
}


def problem(rng: np.random.Generator) -> tuple[Any, Any, int, str]:
    """A pencil with a spectrum of some kind: spread, clustered, with equal or opposite values."""
    d = int(rng.integers(8, 41))
    k = int(rng.integers(1, max(d // 4, 2)))
    kappa = 10.0 ** rng.uniform(0, 6)
    Q, U = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
    B = (Q * np.logspace(0, -np.log10(kappa), d)) @ Q.T
    values = rng.standard_normal(d)
    kind = rng.integers(4)
    if kind == 1:
        values = np.round(values, 1) + 1e-6 * rng.standard_normal(d)
    elif kind == 2:
        values[: 2 * (d // 2)] = np.repeat(values[: d // 2], 2) * np.tile([1.0, -1.0], d // 2)
    elif kind == 3:
        values = np.sort(np.abs(values))[::-1]
        values[k:] *= rng.uniform(0.3, 0.99)
    V = np.linalg.cholesky((B + B.T) / 2) @ U
    A = (V * values) @ V.T
    return (A + A.T) / 2, (B + B.T) / 2, k, str(rng.choice(["LM", "LA", "SA"]))


def sine_in_40_digits(A: Any, B: Any, W: Any, k: int, which: str) -> float | None:
    """The largest angle's sine in the B-norm, without rounding; None without mpmath."""
    try:
        import mpmath
    except ImportError:
        return None
    mpmath.mp.dps = 40
    L = mpmath.cholesky(mpmath.matrix(B.tolist()))
    inverse = L**-1
    values, vectors = mpmath.eigsy(inverse * mpmath.matrix(A.tolist()) * inverse.T)
    sizes = {"LM": abs, "LA": float, "SA": lambda value: -value}[which]
    top = sorted(range(len(A)), key=lambda j: -sizes(values[j]))[:k]
    V = mpmath.matrix([[vectors[i, j] for j in top] for i in range(len(A))])
    W = L.T * mpmath.matrix(W.tolist())
    W = W * mpmath.cholesky(W.T * W).T ** -1
    rest = W - V * (V.T * W)
    return float(mpmath.sqrt(max(mpmath.eigsy(rest.T * rest, eigvals_only=True))))


def trial(seed: int) -> dict[str, Any]:
    """One problem: the bound, the true sine, and whether the next eigenvalue was certified."""
    rng = np.random.default_rng(seed)
    A, B, k, which = problem(rng)
    name = str(rng.choice(list(METHODS), p=[0.9, 0.1]))
    tol = 10.0 ** rng.uniform(-11, -2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = top_k(A, B, k, method=METHODS[name](), tol=tol, which=which, rng=seed)
    values, vectors = eigh(A, B)
    sizes = {"LM": np.abs(values), "LA": values, "SA": -values}[which]
    ranked = np.argsort(-sizes)
    true = sin_theta(found.vectors, vectors[:, ranked[:k]], B)
    if found.sin_theta_bound < true - 1e-14:
        exact = sine_in_40_digits(A, B, found.vectors, k, which)
        true = true if exact is None else exact
    gap = sizes[ranked[k - 1]] - sizes[ranked[k]]
    rho = float(gap / np.abs(values).max())
    rounding = float(np.linalg.cond(B) * EPS / max(rho, 1e-300))
    return {
        "seed": seed,
        "method": name,
        "tol": tol,
        "status": found.status.name,
        "bound": found.sin_theta_bound,
        "sine": true,
        "rho": rho,
        "rounding": rounding,
        "certified": found.gap_certified,
        "tight": bool(found.sin_theta_bound <= max(100 * true, 100 * rounding)),
        "valid": bool(found.sin_theta_bound >= true - 1e-14),
    }


def main() -> None:
    """Run the trials, print the shares and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks/certificates.json"))
    options = parser.parse_args()
    with Pool() as pool:
        trials = pool.map(trial, range(options.seed, options.seed + options.problems), chunksize=50)
    certified = [t for t in trials if t["certified"]]
    gapped = [t for t in trials if t["rho"] > 0.05 and t["status"] == "CONVERGED"]
    summary = {
        "problems": len(trials),
        "bounds that hold": sum(t["valid"] for t in trials),
        "certified": len(certified),
        "bounds that hold, certified": sum(t["valid"] for t in certified),
        "gap above 0.05": len(gapped),
        "tight, of those": sum(t["tight"] for t in gapped),
        "status": dict(Counter(t["status"] for t in trials)),
        "bound below 1": sum(t["bound"] < 1 for t in trials),
    }
    for name, value in summary.items():
        print(f"{name:30} {value}")
    wrong = [t for t in trials if not t["valid"]] + [t for t in gapped if not t["tight"]]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"summary": summary, "wrong": wrong}, indent=1))


if __name__ == "__main__":
    main()
