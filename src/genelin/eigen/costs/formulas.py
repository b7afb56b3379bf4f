"""Seconds of the pieces that several methods are made of, by the speeds of a machine."""

from __future__ import annotations

from dataclasses import dataclass

from genelin.eigen.costs.machine import Profile
from genelin.operators import Rows
from genelin.problems import TwoView, estimated_entries

__all__ = [
    "SKINNY",
    "Moment",
    "decomposing",
    "forming",
    "has_few",
    "moment_of",
    "moment_pairs",
    "singular_seconds",
]

SKINNY = 4.0  # how much slower dense products with few columns are, for each number
CENTRED = 2.0  # and again through rows that are centred on the way


@dataclass(frozen=True)
class Moment:
    """XᵀY of two views (or of one with itself): what it costs to form and to apply."""

    entries: float  # stored once formed
    forming: float  # seconds
    formed: float  # seconds of a product with one column
    streamed: float  # the same through the rows


def moment_of(x: Rows, y: Rows, profile: Profile) -> Moment:
    """What XᵀY costs by the speeds of a profile."""
    stored = float(x.stored if x is y else x.stored + y.stored)
    if x.is_sparse and y.is_sparse:
        entries = estimated_entries(x, y)
        return Moment(
            entries, profile.form * x.pairs_with(y), profile.entry * entries, profile.sweep * stored
        )
    entries, thin = float(x.d) * y.d, SKINNY * profile.multiply
    forming = profile.multiply * min(x.stored * y.d, y.stored * x.d)
    return Moment(entries, forming, thin * entries, 2 * CENTRED * thin * stored)


def moment_pairs(problem: TwoView) -> tuple[tuple[Rows, Rows], ...]:
    """The views of which S_x, S_y and S_xy are made."""
    X, Y = problem.X, problem.Y
    return (X, X), (Y, Y), (X, Y)


def forming(problem: TwoView, profile: Profile) -> float:
    """Seconds for all covariances as dense matrices."""
    (dx, dy), x, y = problem.splits, float(problem.X.stored), float(problem.Y.stored)
    return profile.multiply * (x * (dx + dy) + y * dy)


def decomposing(dx: float, dy: float, k: int, profile: Profile) -> float:
    """Seconds for their factors and the decomposition of the whitened cross-covariance."""
    smaller = min(dx, dy)
    products = dx**3 + dy**3 + 2 * dx * dy * smaller
    return profile.multiply * products + singular_seconds(smaller, k, profile)


def singular_seconds(d: float, k: int, profile: Profile) -> float:
    """Seconds for k singular vectors of d, from a product of the matrix with itself."""
    return (profile.reduce if has_few(k, d) else profile.decompose) * d**3


def has_few(k: int, d: float) -> bool:
    """Whether k + 1 of d pairs are so few that they are found without the others.

    Examples
    --------
    >>> has_few(10, 1000), has_few(10, 80)
    (True, False)
    """
    return 8 * (k + 1) <= d
