"""Preconditioned conjugate gradients that know their error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from genelin.errors import not_positive_definite
from genelin.linalg import column_dots
from genelin.linalg.column_products import EPS, Block, Vector, large
from genelin.linalg.tall_skinny import stacked
from genelin.operators import Operator
from genelin.solvers.base import IterativeSolver, Step
from genelin.solvers.preconditioners.jacobi import Identical, Jacobi, Preconditioner, Prepared
from genelin.solvers.spectral_bounds import spectral_bounds
from genelin.validation import shown

__all__ = ["CG"]

LOWEST = 1e-300  # lower bounds on a spectrum below it have no reciprocal


@dataclass(frozen=True)
class ConjugateState:
    """An operator, its preconditioner, and what is known of the spectrum of M⁻¹B."""

    operator: Operator
    prepared: Prepared
    lower: float  # a lower bound on λ_min, or a guess
    scale: float  # the order of λ_max


@dataclass(frozen=True)
class CG(IterativeSolver):
    """Conjugate gradients, every column with its own coefficients.

    The error in the B-norm is bounded by Gauss–Radau quadrature (Golub & Meurant; the recurrence
    of Meurant & Tichý 2013) with a lower bound on the spectrum as node: the ridge where there is
    one, otherwise an estimate that is lowered when the run contradicts it.

    Parameters
    ----------
    preconditioner : "auto" (Jacobi where B gives its diagonal), None, or one of `solvers.Jacobi()`,
        `BlockJacobi()`, `Nystrom()`, `IncompleteCholesky()`, `SparseCholesky()`.
    max_iter : most steps per solve.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import solvers
    >>> cg = solvers.CG()
    >>> B = np.array([[4.0, 1.0], [1.0, 3.0]])
    >>> np.round(cg.solve(cg.init(B), np.array([5.0, 4.0]), np.zeros(2), 1e-20).value, 9).tolist()
    [1.0, 1.0]
    """

    trusted: ClassVar[bool] = True
    preconditioner: Preconditioner | Literal["auto"] | None = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = self.preconditioner
        if isinstance(chosen, type):
            raise ValueError(f"preconditioner={chosen!r} is a class: pass {chosen.__name__}()")
        named = isinstance(chosen, str) and chosen == "auto"
        if not (chosen is None or named or hasattr(chosen, "prepare")):
            raise ValueError(
                f"preconditioner={shown(chosen)} is not known: pass 'auto', None, or an object "
                "such as solvers.Jacobi() or solvers.Nystrom()"
            )

    def _prepare(self, operator: Operator) -> ConjugateState:
        chosen = self.preconditioner
        if isinstance(chosen, str):
            chosen = None if operator.diagonal() is None else Jacobi()
        prepared = (chosen or Identical()).prepare(operator)
        known = operator.lambda_min_bound / prepared.largest
        if known > 0:
            return ConjugateState(operator, prepared, known, scale=known)
        bounds = spectral_bounds(operator, prepared, steps=60)
        return ConjugateState(operator, prepared, bounds.lower, bounds.upper)

    def _lowest(self, state: ConjugateState) -> float:
        return state.lower

    def _approximate_inverse(self, state: ConjugateState) -> Callable[[Block], Block]:
        return state.prepared.apply

    def _inverse_diagonal(self, state: ConjugateState) -> Vector | None:
        return state.prepared.diagonal

    def corrections(self, state: ConjugateState, r0: Block) -> Iterator[Step]:
        """The textbook recurrence, until no column can move; those that are done stand still."""
        B, M = state.operator, state.prepared
        c, r = stacked(r0), stacked(r0)
        c[:] = 0
        z = M.apply(r)
        p, rz = stacked(z), column_dots(r, z)
        p_length, rounding = rz, (10 * EPS) ** 2 * rz  # pᵀMp, and where a column is done
        radau = _Radau(state.lower, rz)
        step, compiled = np.ones_like(rz), large(c, r, p)
        if compiled:
            from genelin import kernels
        while step.any():
            Bp = B @ p
            step = _step_lengths(rz, column_dots(p, Bp), p_length, state.scale)
            if compiled:
                kernels.advance(c, r, p, np.ascontiguousarray(Bp), step)
            else:
                c += step * p
                r -= step * Bp
            z = M.apply(r)
            rz, previous = column_dots(r, z), rz
            rz[rz <= rounding] = 0.0
            conjugation = _ratio(rz, previous)
            if compiled:
                kernels.turn(p, z, conjugation)
            else:
                p *= conjugation
                p += z
            p_length = rz + conjugation**2 * p_length
            radau.advance(step, conjugation, previous, rz)
            yield Step(c, radau.measure, r)


def _ratio(top: Vector, bottom: Vector) -> Vector:
    """Top / bottom, zero where a column is done."""
    if bottom.min() > 0:
        return top / bottom
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


def _step_lengths(rz: Vector, curvature: Vector, p_length: Vector, scale: float) -> Vector:
    """rᵀz / pᵀBp; zero where the column is done or p lies in the null space up to rounding."""
    floor = 10 * EPS * scale * p_length
    if np.all(curvature > floor):
        return rz / curvature
    if np.any(curvature < -np.sqrt(EPS) * scale * p_length):
        lowest = float(curvature.min())
        raise not_positive_definite(f"pᵀBp = {lowest:.3g} for a search direction p of CG")
    return np.divide(rz, curvature, out=np.zeros_like(rz), where=curvature > floor)


class _Radau:
    """‖e₀‖² − ‖e_t‖² exactly and ‖e_t‖² from above, both in the B-norm, for every column."""

    def __init__(self, lower: float, rz: Vector) -> None:
        self.lower = max(lower, LOWEST)
        self.history: list[tuple[Vector, Vector]] = []
        self.used = 0
        self.decrease = np.zeros_like(rz)
        self.rz = rz
        self.coefficient = np.full_like(rz, 1.0 / self.lower)

    def advance(self, step: Vector, conjugation: Vector, before: Vector, rz: Vector) -> None:
        """Take in the coefficients of one step of conjugate gradients."""
        self.history.append((step, conjugation))
        self.decrease = self.decrease + step * before
        self.rz = rz

    def measure(self) -> tuple[Vector, Vector]:
        """(‖e₀‖² − ‖e_t‖², bound on ‖e_t‖²)."""
        self._catch_up()
        while np.any((self.coefficient <= 0) & (self.rz > 0)) and self.lower > LOWEST:
            self.lower *= 0.1  # the run has met something smaller than `lower`: start over
            self.coefficient, self.used = np.full_like(self.rz, 1.0 / self.lower), 0
            self._catch_up()
        with np.errstate(over="ignore"):  # no bound is known then
            return self.decrease, np.maximum(self.coefficient, 0.0) * self.rz

    def _catch_up(self) -> None:
        for step, conjugation in self.history[self.used :]:
            excess = self.coefficient - step
            bottom = self.lower * excess + conjugation
            self.coefficient = np.divide(excess, bottom, out=excess, where=bottom != 0)
        self.used = len(self.history)
