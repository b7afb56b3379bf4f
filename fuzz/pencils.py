"""Random small pencils on every route, against a referee with more digits."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz import Defect
from fuzz.referee import dense, judge_pencil, truth_of
from fuzz.spectra import chosen, definite, dressed, log_uniform, symmetric
from fuzz.watch import Outcome, called
from genelin import Davidson, Dense, GenELinK, Lanczos, ShiftInvert, solvers, top_k

__all__ = ["attack"]

METHODS = {
    "planner": lambda: None,
    "Dense": Dense,
    "Davidson": Davidson,
    "Lanczos": Lanczos,
    "Lanczos, one column": lambda: Lanczos(columns=1),
    "Lanczos, little room": lambda: Lanczos(columns=1, room=24),
    "ShiftInvert": ShiftInvert,
    "GenELinK": lambda: GenELinK(max_iter=300),
    "GenELinK, locally optimal": lambda: GenELinK(locally_optimal=True, max_iter=100),
    "GenELinK, direct": lambda: GenELinK(solver=solvers.Direct(), max_iter=300),
    "Davidson, direct": lambda: Davidson(solver=solvers.Direct()),
}
WEIGHTS = (8, 4, 4, 4, 1, 1, 3, 1, 1, 1, 1)
SINGULAR = 1e12  # κ of B, its diagonal scaled to one, from which it may be refused


def attack(rng: np.random.Generator) -> str:
    """One pencil, one method."""
    d = int(
        chosen(rng, (rng.integers(1, 8), rng.integers(2, 61), rng.integers(100, 300)), (4, 6, 1))
    )
    method = chosen(rng, METHODS, WEIGHTS)
    A = symmetric(rng, d)
    kappa = log_uniform(rng, 1.0, 1e14) if rng.random() < 0.3 else log_uniform(rng, 1.0, 1e4)
    B = definite(rng, d, kappa) if rng.random() < 0.6 else None
    far = [150.0 if rng.random() < 0.1 else 99.0 if rng.random() < 0.1 else 3.0 for _ in range(2)]
    if rng.random() < 0.4:
        A = A * 10.0 ** rng.uniform(-far[0], far[0])
    if B is not None and rng.random() < 0.4:
        B = B * 10.0 ** rng.uniform(-far[1], far[1])
    k = int(chosen(rng, (1, d, rng.integers(1, d + 1), min(d, 3)), (2, 1, 3, 3)))
    which = chosen(rng, ("LM", "LA", "SA"))
    tol = chosen(rng, (1e-8, 1e-8, 1e-8, 1e-4, 1e-11, 1e-2, 1e-14))
    kinds = ("csr", "csc", "coo", "dia") if method == "ShiftInvert" else None
    given_a, name_a = dressed(rng, A, kinds)
    given_b, name_b = (None, "None") if B is None else dressed(rng, B, kinds)
    seed = int(rng.integers(3))
    about = f"{method}, d={d}, k={k}, which={which}, tol={tol:g}, A {name_a}, B {name_b}"
    try:
        outcome = called(
            lambda: top_k(
                given_a, given_b, k, which=which, tol=tol, method=METHODS[method](), rng=seed
            )
        )
        return judged(A, B, which, k, tol, method, outcome)
    except Exception as error:
        error.add_note(about)
        if isinstance(error, Defect):
            raise Defect(f"{error} [{about}]") from error
        raise


def judged(A: Any, B: Any, which: str, k: int, tol: float, method: str, outcome: Outcome) -> str:
    """How the case ended, if every promise was kept."""
    d = len(A)
    A, B = dense(A, d), dense(B, d)
    truth = truth_of(A, B, which)
    if outcome.refused:
        if not fair_refusal(A, B, method, outcome, truth):
            condition = "none" if truth is None else f"{truth.condition:.1e}"
            raise Defect(f"refused: {outcome.kind}: {outcome.refusal} (κ of B {condition})")
        return "refused"
    solution = outcome.answer
    warned = "ConvergenceWarning" in outcome.warned
    if warned == solution.converged:
        raise Defect(f"status {solution.status.name} with warnings {outcome.warned}")
    return judge_pencil(A, B, which, k, tol, solution, truth)


def fair_refusal(A: Any, B: Any, method: str, outcome: Outcome, truth: Any) -> bool:
    """Whether a refusal is what the documentation says."""
    words = outcome.refusal
    if "of the order" in words:
        sizes = [float(np.abs(M).max()) for M in (A, B)]
        return any(size > 0 and not 1e-99 < size < 1e99 for size in sizes)
    if outcome.kind == "NotPositiveDefiniteError":
        return truth is None or truth.condition > SINGULAR
    if method.startswith("ShiftInvert"):
        return "ShiftInvert" in words
    if method.startswith("Lanczos"):
        return "needs the entries of B" in words
    return "direct" in method and "entries" in words
