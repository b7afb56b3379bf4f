"""Bounds on the spectrum of B (or of M⁻¹B) by the Lanczos process."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from genelin.errors import not_positive_definite
from genelin.linalg import column_dots
from genelin.linalg.column_products import EPS, Block
from genelin.linalg.tridiagonal import tridiagonal_eigen
from genelin.operators import Operator
from genelin.solvers.preconditioners.jacobi import Identical, Prepared

__all__ = ["SpectralBounds", "spectral_bounds"]


@dataclass(frozen=True)
class SpectralBounds:
    """lower ≤ λ_min and λ_max ≤ upper; `known` tells whether the lower one is more than a guess.

    `singular`: B is semidefinite to rounding, and the bounds are those on its range.

    Examples
    --------
    >>> SpectralBounds(lower=0.5, upper=8.0, known=True).kappa
    16.0
    """

    lower: float
    upper: float
    known: bool
    singular: bool = False

    @property
    def kappa(self) -> float:
        """The condition number that the bounds allow."""
        return self.upper / self.lower

    def seen(self, lowest: float, highest: float) -> SpectralBounds:
        """Bounds that make room for Rayleigh quotients met on the way.

        A quotient at the level of rounding belongs to the null space of a semidefinite B.
        """
        bounds = self
        if highest > self.upper:
            bounds = replace(bounds, upper=1.5 * highest)
        if 100 * EPS * self.upper < lowest < self.lower and not self.known:
            bounds = replace(bounds, lower=0.5 * lowest)
        return bounds


def spectral_bounds(
    operator: Operator, prepared: Prepared | None = None, steps: int = 200, seed: int = 0
) -> SpectralBounds:
    """Estimate the extreme eigenvalues of M⁻¹B by Lanczos (in the guise of conjugate gradients).

    A known `lambda_min_bound`, such as a ridge, is used as it is, and then a few steps suffice for
    the largest eigenvalue. Estimates approach the spectrum from inside and are widened: the upper
    one by its residual, the lower one by a tenth.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin.operators import as_operator
    >>> bounds = spectral_bounds(as_operator(np.diag(np.linspace(1.0, 9.0, 50))))
    >>> bool(0.9 <= bounds.lower <= 1.0 and 9.0 <= bounds.upper <= 9.5)
    True
    """
    prepared = Identical().prepare(operator) if prepared is None else prepared
    known = operator.lambda_min_bound / prepared.largest
    start = np.random.default_rng(seed).standard_normal((operator.shape[0], 1))
    smallest, largest = _lanczos(operator, prepared, start, steps, known > 0)
    if known > 0:
        return SpectralBounds(known, max(largest, known), True)
    floor = operator.shape[0] * EPS * largest
    singular = smallest < floor
    if singular:  # semidefinite to rounding: look at its range only
        smallest, largest = _lanczos(operator, prepared, operator @ start, steps, False)
    return SpectralBounds(0.9 * max(smallest, floor), largest, False, singular)


def _lanczos(
    operator: Operator, prepared: Prepared, r: Block, steps: int, upper_only: bool
) -> tuple[float, float]:
    """Extreme Ritz values after at most `steps` steps, the upper one widened by its residual."""
    alphas: list[float] = []  # CG step lengths
    betas: list[float] = []  # CG conjugation factors
    z = prepared.apply(r)
    p, rz = z, float(column_dots(r, z)[0])
    first, smallest, largest = rz, 0.0, 0.0
    for t in range(1, steps + 1):
        Bp = operator @ p
        curvature = float(column_dots(p, Bp)[0])
        _refuse_negative(curvature, p, largest * prepared.largest)
        if curvature <= 0 or rz <= EPS**2 * first:
            break
        alphas.append(rz / curvature)
        r = r - alphas[-1] * Bp
        z = prepared.apply(r)
        rz, previous = float(column_dots(r, z)[0]), rz
        betas.append(rz / previous)
        if curvature <= EPS * largest * _times_square(prepared.largest, p):
            break  # p lies in the null space, up to rounding: nothing behind it can be told
        p = z + betas[-1] * p
        if t % 5 and t < steps:
            continue
        before = smallest, largest
        smallest, largest = _ritz_ends(alphas, betas)
        settled = abs(largest - before[1]) < 1e-3 * largest
        if settled and (upper_only or abs(smallest - before[0]) < 1e-2 * smallest):
            break
    return _ritz_ends(alphas, betas) if alphas else (0.0, 0.0)


def _ritz_ends(alphas: list[float], betas: list[float]) -> tuple[float, float]:
    """Ends of the spectrum of the Lanczos tridiagonal matrix that CG has built."""
    a, b = np.array(alphas), np.array(betas)
    diagonal = 1 / a
    diagonal[1:] += b[:-1] / a[:-1]
    off = np.sqrt(b) / a
    theta, S = tridiagonal_eigen(diagonal, off[:-1])
    return float(theta[0]), float(theta[-1] + abs(off[-1] * S[-1, -1]))


def _refuse_negative(curvature: float, p: Block, scale: float) -> None:
    if curvature < -np.sqrt(EPS) * _times_square(scale, p):
        raise not_positive_definite(f"pᵀBp = {curvature:.3g} for a search direction p")


def _times_square(scale: float, p: Block) -> float:
    """scale·‖p‖²; inf or NaN, without a warning, beyond the range of floating point."""
    return float(scale) * float(column_dots(p, p)[0])
