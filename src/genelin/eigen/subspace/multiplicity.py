"""Copies of a multiple eigenvalue: p random columns show at most p of them.

A Krylov space that begins with p random columns holds min(p, m) vectors of an eigenvalue of
multiplicity m, with probability one. So none is left where fewer than p values are alike; where p
are, a further round begins with fresh random columns in the complement of all that was found. It
ends without another copy once enough steps were made to show one, but with probability `FAILURE`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from genelin.eigen.subspace.krylov_space import KrylovSpace
from genelin.linalg import Which, magnitudes, order
from genelin.linalg.column_products import Block, Vector
from genelin.linalg.tall_skinny import subtract_product, tall_dot

__all__ = ["Pairs", "Round", "complete_multiplicities", "converged", "kept_of", "largest_cluster"]

ALIKE = 1e-6  # of a value: as close as this, or as their accuracy, are copies of one
WIDEST = 16  # columns of a further round
FAILURE = 1e-6  # probability with which a further round may overlook the copies that are left
Product = Callable[[Block], Block]
Fresh = Callable[[int], Block]


@dataclass(frozen=True)
class Pairs:
    """Eigenpairs (θ, V) in order, with orthonormal columns V, and the norms of their residuals."""

    theta: Vector
    V: Block
    residuals: Vector

    def head(self, k: int) -> Pairs:
        """The first k pairs."""
        return Pairs(self.theta[:k], self.V[:, :k], self.residuals[:k])

    def merged(self, other: Pairs, which: Which) -> Pairs:
        """Both, in order."""
        theta = np.concatenate([self.theta, other.theta])
        ranked, V = order(theta, which), np.hstack([self.V, other.V])
        residuals = np.concatenate([self.residuals, other.residuals])
        return Pairs(theta[ranked], V[:, ranked], residuals[ranked])


@dataclass(frozen=True)
class Round:
    """What the rounds of a search have in common.

    Attributes
    ----------
    product : V → S V for a symmetric S.
    random : a number of columns → as many random ones.
    which, k : the pairs that are wanted.
    absolute, relative : accuracy of a pair: absolute + relative·|θ|.
    share : of that accuracy, what blocks of a space may have in common.
    floor : a value at the other end of the spectrum.
    steps : most of a round.
    """

    product: Product
    random: Fresh
    which: Which
    k: int
    absolute: float
    relative: float
    share: float
    floor: float
    steps: int

    def accuracy(self, theta: Vector) -> Vector:
        """That of pairs with these values."""
        return self.absolute + self.relative * np.abs(theta)

    def alike(self, theta: Vector) -> Vector:
        """Distances within which values are taken for copies of these."""
        scale = ALIKE * (np.abs(theta) if self.relative else np.abs(theta).max(initial=0.0))
        return np.maximum(scale, 2 * self.accuracy(theta))

    def beside(self, found: Pairs, columns: int) -> Pairs | None:
        """The leading pairs of the complement, from fresh columns; None if they do not come.

        All that belong before the k-th pair, or beside it, and the one behind these.
        """
        U, d = found.V, len(found.V)

        def outside(V: Block) -> Block:
            subtract_product(V, U, tall_dot(U, V))
            return V

        def random(columns: int) -> Block:
            return outside(outside(self.random(columns)))

        def product(V: Block) -> Block:
            # on both sides: what rounding leaves of U in V would make it unsymmetric
            W = outside(np.array(self.product(outside(V.copy()))))
            if self.floor:  # zero would be a leading value
                subtract_product(W, U, -self.floor * tall_dot(U, V))
            return W

        made = itertools.count(1)

        def done(theta: Vector, residuals: Vector) -> int:
            enough = (d - U.shape[1]) / least_square(columns)
            return self._known(found, theta, residuals, next(made), enough)

        most = min(2 * (self.k + columns) + 8 * columns, d - U.shape[1] - columns)
        if kept_of(self.k, most) + columns > most:
            return None  # the complement is hardly larger than a restart
        space = KrylovSpace(product, d, most, 0.0)
        space.begin(random(columns))

        def limit(theta: Vector) -> float:
            aim = self.accuracy(found.theta[self.k - 1 :][:1])[0]
            return self.share * float(aim / max(np.abs(theta).max(), 1e-300))

        kept = kept_of(self.k, most)
        return converged(space, random, self.which, done, limit, kept, self.steps)

    def _known(
        self, found: Pairs, theta: Vector, residuals: Vector, steps: int, hiding: float
    ) -> int:
        """How many pairs to take, once all are good that matter; 0 before.

        Those that matter come before the k-th of all, or beside it until one more is known there.
        So many steps must have brought out whatever `hiding` (a squared tangent) may have kept: up
        to the first one behind, which has to be known well against its distance; or, once the k-th
        is known to be tied, copies of the values ahead of it.
        """
        sizes, good = magnitudes(theta, self.which), residuals <= self.accuracy(theta)
        leading = int(good.argmin()) if not good.all() else len(good)
        known = np.concatenate([magnitudes(found.theta, self.which), sizes[:leading]])
        kth, alike = np.sort(known)[-self.k], float(self.alike(theta).max())
        rest = float(sizes[leading]) if leading < len(sizes) else -np.inf

        def shown(value: float, rest: float = rest) -> bool:
            """Whether it would have been seen, had it been there, ahead of what is not known."""
            return steps >= steps_to_show(value - rest, self._spread(float(kth)), hiding)

        tied = np.count_nonzero(known >= kth - alike) > self.k
        if tied and rest <= kth + alike and self._ahead_shown(found, theta, leading, kth, shown):
            return max(leading, 1)
        if np.any(sizes[:leading] < kth - alike):
            return leading if shown(float(kth)) else 0
        if leading == len(sizes) or rest >= kth - alike or residuals[leading] > (kth - rest) / 10:
            return 0
        return leading + 1 if shown(float(kth)) else 0

    def _ahead_shown(
        self,
        found: Pairs,
        theta: Vector,
        leading: int,
        kth: float,
        shown: Callable[[float, float], bool],
    ) -> bool:
        """Whether copies of all values ahead of the k-th would have been seen, at either end."""
        known, rest = np.concatenate([found.theta, theta[:leading]]), theta[leading:]
        alike = float(self.alike(theta).max())
        ends = (1.0, -1.0) if self.which == "LM" else (1.0 if self.which == "LA" else -1.0,)
        for end in ends:
            ahead = end * known[magnitudes(known, self.which) > kth + alike]
            ahead = ahead[ahead > 0] if self.which == "LM" else ahead
            if len(ahead) and not shown(
                float(ahead.min()), float((end * rest).max(initial=-np.inf))
            ):
                return False
        return True

    def _spread(self, kth: float) -> float:
        """From the k-th magnitude to the other end of the spectrum."""
        return {"LM": 2 * kth, "LA": kth - self.floor, "SA": kth + self.floor}[self.which]


def least_square(columns: int) -> float:
    """What the squared length of so many Gaussian numbers exceeds, but with probability FAILURE.

    Examples
    --------
    >>> [round(least_square(columns), 5) for columns in (1, 4, 16)]
    [0.0, 0.00283, 1.45069]
    """
    return 2 * float(gammaincinv(columns / 2, FAILURE))


def steps_to_show(distance: float, spread: float, hiding: float) -> float:
    """Steps of Lanczos after which a pair would be seen, had it been there.

    Let λ be an eigenvalue, `spread` that to the other end of the spectrum, and `hiding` the
    squared tangent of the angle between a vector of λ and the columns that Lanczos begins with.
    After m + 1 steps the best Ritz value is above λ − δ − spread·hiding / T_m(1 + 2δ/spread)²
    for any δ, with Chebyshev polynomials T_m that are at most one on what is farther than δ from
    λ. With δ = distance/2, one that stays behind by `distance` proves that there is no λ once the
    last term is smaller than that half.

    Examples
    --------
    >>> round(steps_to_show(1.0, 1.0, 1e6)), round(steps_to_show(0.01, 1.0, 1e6))
    (7, 74)
    """
    ratio = 2 * spread * hiding / distance
    if ratio <= 1:
        return 1.0
    return 1 + float(np.arccosh(np.sqrt(ratio)) / np.arccosh(1 + distance / spread))


def converged(
    space: KrylovSpace,
    fresh: Fresh,
    which: Which,
    done: Callable[[Vector, Vector], int],
    limit: Callable[[Vector], float],
    kept: int,
    steps: int,
) -> Pairs | None:
    """The leading pairs of a space, once `done` tells how many of them are good; None if never.

    Overlaps of blocks up to `limit` are let pass; restarts keep so many columns.
    """
    columns = space.width
    for _ in range(steps):
        space.grow()
        lost = columns - space.width
        if lost:  # an invariant space was met: others are looked for beside it
            space.widen(fresh(lost))
        theta, U, residuals = space.ritz(which)
        space.limit = limit(theta)
        count = done(theta, residuals)
        if count:
            return Pairs(theta[:count], space.vectors(U[:, :count]), residuals[:count])
        if space.size + columns > space.most:
            space.restart(theta, U, kept)
    return None


def kept_of(count: int, most: int) -> int:
    """Columns that a restart keeps of `most`, for so many pairs, by fours."""
    return -(-(count + (most - count) // 4) // 4) * 4


def complete_multiplicities(search: Round, found: Pairs, columns: int, keep: int) -> Pairs | None:
    """The first pairs with all copies of the k that are wanted; None if that takes too long.

    `found` came from so many random columns. There are `keep` > k of them, or fewer.
    """
    latest = found.theta
    while _more_may_be(search, found.theta, latest, columns):
        columns = min(-(-(search.k + 2) // 4) * 4, WIDEST)
        more = search.beside(found.head(search.k), columns)
        if more is None:
            return None
        latest = more.theta
        found = found.head(search.k).merged(more, search.which).head(keep)
    return found


def _more_may_be(search: Round, theta: Vector, latest: Vector, columns: int) -> bool:
    """Whether a value that matters was seen as often as there were random columns.

    Copies of the k-th do not matter any more where one of them stands behind it.
    """
    sizes, alike = magnitudes(theta, search.which), search.alike(theta)
    kth = sizes[search.k - 1]
    tied = len(sizes) > search.k and kth - sizes[search.k] <= alike[search.k]
    cut = kth + (1 if tied else -1) * alike[search.k - 1]
    matter = latest[magnitudes(latest, search.which) > cut]
    return largest_cluster(matter, search.alike(matter)) >= columns


def largest_cluster(theta: Vector, distances: Vector) -> int:
    """How many values are alike at most, each to the next within its distance.

    Examples
    --------
    >>> largest_cluster(np.array([3.0, 1.0, 1.1, 0.9]), np.full(4, 0.2))
    3
    """
    if not len(theta):
        return 0
    ascending = np.argsort(theta)
    apart = np.flatnonzero(np.diff(theta[ascending]) > distances[ascending][1:])
    return int(np.diff([-1, *apart, len(theta) - 1]).max())
