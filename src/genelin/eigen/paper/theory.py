"""The paper's bounds as functions of the parameters of a problem.

Numbers refer to Ge, Jin, Kakade, Netrapalli & Sidford (ICML 2016). Bounds that the paper states up
to a constant take that `constant`, 1 by default: use them for growth, not for seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from genelin.validation import check_count, check_index, check_number, check_numbers, settle

__all__ = [
    "TwoPhase",
    "agd_steps",
    "condition_number",
    "eigengap",
    "eigenvalue_spread",
    "halving_lower_bound",
    "iteration_bound",
    "projection_bound",
    "random_start_bound",
    "reduction_top1",
    "reduction_topk",
    "runtime_cca",
    "runtime_top1",
    "runtime_topk",
    "table3",
]

Solver = Literal["GD", "AGD", "SVRG", "ASVRG"]
TINY, HUGE = 1e-50, 1e50  # the range in which bounds, with their powers, can be computed
LIMITS: dict[str, dict[str, Any]] = {
    "rho": {"least": TINY, "most": 1},
    "gamma": {"least": 1, "most": HUGE},
    "kappa": {"least": 1, "most": HUGE},
    "kappa_tilde": {"least": 1, "most": HUGE},
    "cos_theta": {"least": TINY, "most": 1},
    "cos_theta0": {"least": TINY, "most": 1},
    "epsilon": {"least": TINY, "most": 1},
    "delta": {"least": TINY, "most": 1},
    "zeta": {"least": TINY, "most": 1},
    "eta": {"least": TINY, "most": 1},
    "theta": {"least": 0, "most": HUGE},
    "constant": {"least": TINY, "most": HUGE},
    "n": {"least": 1, "most": HUGE},
    "d": {"least": 1, "most": HUGE},
    "k": {"least": 1, "most": HUGE},
    "nnz": {"least": 0, "most": HUGE},
}


def _check(**given: Any) -> None:
    """Refuse parameters for which the bounds say nothing."""
    for name, value in given.items():
        check_number(name, value, **LIMITS[name])


def eigengap(values: Any, k: int) -> float:
    """ρ = 1 − |λ_{k+1}| / |λ_k|, from all eigenvalues in any order (0 where λ_k = 0).

    Examples
    --------
    >>> eigengap([1.0, -4.0, 2.0], k=1)
    0.5
    """
    sizes = _sizes(values, k)
    following = sizes[k] if k < len(sizes) else 0.0
    return float(1.0 - following / sizes[k - 1]) if sizes[k - 1] > 0 else 0.0


def eigenvalue_spread(values: Any, k: int) -> float:
    """γ = |λ_1| / |λ_k|.

    Examples
    --------
    >>> eigenvalue_spread([1.0, -4.0, 2.0], k=2)
    2.0
    """
    sizes = _sizes(values, k)
    return float(sizes[0] / sizes[k - 1]) if sizes[k - 1] > 0 else np.inf


def _sizes(values: Any, k: Any) -> Any:
    """|λ| in descending order, at least k of them."""
    sizes = np.sort(np.abs(np.atleast_1d(check_numbers("values", values)).ravel()))[::-1]
    check_index("k", k, 1, len(sizes), f"the number of values, {len(sizes)}")
    return sizes


def condition_number(B: Any) -> float:
    """κ(B) = λ_max / λ_min of a dense positive definite matrix.

    Examples
    --------
    >>> import numpy as np
    >>> condition_number(np.diag([1.0, 10.0]))
    10.0
    """
    weights = np.linalg.eigvalsh(B)
    return float(weights[-1] / weights[0])


def iteration_bound(rho: float, epsilon: float, cos_theta0: float) -> int:
    """Outer iterations that suffice for sin θ ≤ ε: T = 2/ρ · log(1/(ε cos θ₀)) (Theorems 5, 6).

    Examples
    --------
    >>> iteration_bound(rho=0.5, epsilon=1e-6, cos_theta0=0.01)
    74
    """
    _check(rho=rho, epsilon=epsilon, cos_theta0=cos_theta0)
    return int(np.ceil(2.0 / rho * np.log(1.0 / (epsilon * cos_theta0))))


def reduction_top1(rho: float, cos_theta: float = 1.0, *, indefinite: bool = True) -> float:
    """δ for one eigenvector: ρ²/16·cos²θ (Theorem 5), a quarter of it for an indefinite A.

    The proof bounds (λ₁ − λᵢ)² by λ₁², which fails when signs differ: the ratio can reach 4.

    Examples
    --------
    >>> reduction_top1(0.5, indefinite=False), reduction_top1(0.5)
    (0.015625, 0.00390625)
    """
    _check(rho=rho, cos_theta=cos_theta)
    return rho**2 * cos_theta**2 / (64.0 if indefinite else 16.0)


def reduction_topk(rho: float, gamma: float, k: int, cos_theta: float = 1.0) -> float:
    """δ for k eigenvectors: ρ² cos⁴θ / (64 k γ²) (Theorem 6).

    Examples
    --------
    >>> reduction_topk(0.5, gamma=2.0, k=4)
    0.000244140625
    """
    _check(rho=rho, gamma=gamma, k=k, cos_theta=cos_theta)
    return rho**2 * cos_theta**4 / (64.0 * k * gamma**2)


@dataclass(frozen=True)
class TwoPhase:
    """The inner accuracy of Theorems 5 and 6: stricter until θ is below 45°, constant from then on.

    Pass it as `reduction=` of GenELin, GenELinK or CCALin (there with 2k for k). It maps the number
    t = 0, 1, … of the outer iteration to δ.

    Examples
    --------
    >>> schedule = TwoPhase(rho=0.5, gamma=1.0, k=1, cos_theta0=0.1)
    >>> schedule(0) < schedule(1000) == reduction_top1(0.5)
    True
    """

    rho: float
    gamma: float
    k: int
    cos_theta0: float

    def __post_init__(self) -> None:
        for name in ("rho", "gamma", "cos_theta0"):
            settle(self, check_number, name, **LIMITS[name])
        settle(self, check_count, "k")

    @property
    def first_phase(self) -> int:
        """Iterations of the first phase, 2/ρ·log(1/cos θ₀)."""
        return int(np.ceil(2.0 / self.rho * np.log(1.0 / self.cos_theta0)))

    def __call__(self, t: int) -> float:
        """δ of outer iteration t."""
        cos_theta = self.cos_theta0 if t < self.first_phase else 1.0
        if self.k == 1:
            return reduction_top1(self.rho, cos_theta)
        return reduction_topk(self.rho, self.gamma, self.k, cos_theta)


def agd_steps(kappa: float, delta: float) -> int:
    """Steps of accelerated gradient descent for a reduction δ: √κ·log(2/δ) (Theorem 8).

    Examples
    --------
    >>> agd_steps(kappa=100.0, delta=0.02)
    47
    """
    _check(kappa=kappa, delta=delta)
    return int(np.ceil(np.sqrt(kappa) * np.log(2.0 / delta)))


def runtime_top1(
    rho: float,
    epsilon: float,
    cos_theta0: float,
    solve_time: Callable[[float], float],
    nnz: float,
    d: int,
) -> float:
    """Theorem 5: running time for one eigenvector, with solve_time(δ) the solver's T(δ).

    Examples
    --------
    >>> runtime_top1(0.5, 1e-3, 0.1, solve_time=lambda delta: 0.0, nnz=100, d=10) > 0
    True
    """
    _check(epsilon=epsilon, nnz=nnz, d=d)
    return _two_phases(
        rho,
        epsilon,
        cos_theta0,
        solve_time(reduction_top1(rho, cos_theta0, indefinite=False)),
        solve_time(reduction_top1(rho, indefinite=False)),
        nnz + d,
    )


def runtime_topk(
    rho: float,
    gamma: float,
    k: int,
    epsilon: float,
    cos_theta0: float,
    solve_time: Callable[[float], float],
    nnz: float,
    d: int,
) -> float:
    """Theorem 6: running time for k eigenvectors; solve_time(δ) is for all k columns.

    Examples
    --------
    >>> t = [runtime_topk(r, 2.0, 5, 1e-6, 0.1, lambda delta: 1.0, 1e4, 100) for r in (0.1, 0.05)]
    >>> round(t[1] / t[0], 6)
    2.0
    """
    _check(epsilon=epsilon, nnz=nnz, d=d)
    return _two_phases(
        rho,
        epsilon,
        cos_theta0,
        solve_time(reduction_topk(rho, gamma, k, cos_theta0)),
        solve_time(reduction_topk(rho, gamma, k)),
        nnz * k + d * k**2,
    )


def runtime_cca(
    rho: float,
    gamma: float,
    k: int,
    epsilon: float,
    zeta: float,
    kappa: float,
    solve_time: Callable[[float], float],
    nnz: float,
    d: int,
    constant: float = 1.0,
) -> float:
    """Theorem 7: running time for k canonical pairs with probability 1 − ζ; d = d₁ + d₂.

    ρ and γ are those of the correlations, not of their squares.

    Examples
    --------
    >>> runtime_cca(0.1, 2.0, 5, 1e-6, 0.1, 1e3, lambda delta: 1.0, 1e4, 100) > 0
    True
    """
    _check(rho=rho, gamma=gamma, k=k, epsilon=epsilon, zeta=zeta, kappa=kappa)
    _check(nnz=nnz, d=d, constant=constant)
    first = constant * zeta**6 * rho**2 / (d**2 * k**5 * kappa**2 * gamma**2)
    second = constant * zeta**2 * rho**2 / (k**3 * gamma**2)
    start = np.log(d * kappa / zeta)
    solves = start * solve_time(first) + np.log(1 / epsilon) * solve_time(second)
    return float((solves + (nnz * k + d * k**2) * (start + np.log(1 / epsilon))) / rho)


def _two_phases(
    rho: float, epsilon: float, cos_theta0: float, first: float, second: float, work: float
) -> float:
    start, finish = np.log(1.0 / cos_theta0), np.log(1.0 / epsilon)
    return float(2.0 / rho * (start * first + finish * second + work * (start + finish)))


def table3(
    solver: Solver,
    *,
    n: float,
    d: float,
    k: float,
    kappa: float,
    rho: float,
    epsilon: float,
    kappa_tilde: float | None = None,
) -> float:
    """Table 3: running time of CCA with each linear solver, logarithms but log(1/ε) dropped.

    κ̃ = max(maxᵢ‖xᵢ‖²/σ_min(S_x), maxᵢ‖yᵢ‖²/σ_min(S_y)) is needed for SVRG and ASVRG.

    Examples
    --------
    >>> sizes = dict(n=1e4, d=10.0, k=1.0, rho=0.1, epsilon=1e-3)
    >>> round(table3("GD", kappa=100.0, **sizes) / table3("AGD", kappa=100.0, **sizes), 9)
    10.0
    """
    if solver in ("SVRG", "ASVRG") and kappa_tilde is None:
        raise ValueError(f"table3({solver!r}) needs kappa_tilde, the condition number of rows")
    _check(n=n, d=d, k=k, kappa=kappa, rho=rho, epsilon=epsilon)
    tilde = kappa if kappa_tilde is None else kappa_tilde
    rows = {
        "GD": n * kappa,
        "AGD": n * np.sqrt(kappa),
        "SVRG": n + tilde,
        "ASVRG": n + np.sqrt(n * tilde),
    }
    if solver not in rows:
        raise ValueError(f"solver={solver!r} is not in Table 3: one of {', '.join(rows)}")
    return float(rows[solver] * d * k / rho * np.log(1.0 / epsilon))


def random_start_bound(d: int, k: int, kappa: float, eta: float, constant: float = 1.0) -> float:
    """Lemma 13: tan θ₀ ≤ C·√(κ d k)/η with probability at least 1 − η, for a Gaussian start.

    Examples
    --------
    >>> random_start_bound(d=100, k=4, kappa=4.0, eta=0.5)
    80.0
    """
    _check(d=d, k=k, kappa=kappa, eta=eta, constant=constant)
    return float(constant * np.sqrt(kappa * d * k) / eta)


def projection_bound(theta: float, k: int, zeta: float, constant: float = 1.0) -> float:
    """Lemma 14: angle to the canonical spaces after the random projection, C·k²θ/ζ².

    Examples
    --------
    >>> round(projection_bound(theta=1e-6, k=10, zeta=0.1), 12)
    0.01
    """
    _check(theta=theta, k=k, zeta=zeta, constant=constant)
    return float(constant * k**2 * theta / zeta**2)


def halving_lower_bound(kappa: float) -> int:
    """§6: products with M that any Krylov method may need to halve the M-norm error, Ω(√κ).

    The smallest t with 1/T_t((κ + 1)/(κ − 1)) ≤ ½: no polynomial does better on all spectra.

    Examples
    --------
    >>> halving_lower_bound(1e4), halving_lower_bound(1e6)
    (66, 659)
    """
    check_number("kappa", kappa, 0, HUGE)
    if kappa <= 1:
        return 1
    return int(np.ceil(np.arccosh(2.0) / np.arccosh((kappa + 1) / (kappa - 1))))
