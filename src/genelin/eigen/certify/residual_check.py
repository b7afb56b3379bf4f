"""Residuals that can be trusted, whatever the method's own solver claims, and the gap behind k."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genelin.eigen.certify.inertia import count_beyond
from genelin.eigen.subspace.ritz_basis import ROUNDING, RitzBasis, start_block
from genelin.errors import NotPositiveDefiniteError
from genelin.linalg import (
    Which,
    column_dots,
    column_norms,
    magnitudes,
    orthonormalise,
    rayleigh_ritz,
)
from genelin.linalg.column_products import EPS, Block, Vector
from genelin.linalg.diagonal_scaling import column_sums, scaled_by, scaled_factor
from genelin.linalg.tall_skinny import by_rows
from genelin.operators import Operator, as_operator
from genelin.problems import SMALL, Pencil
from genelin.solvers import CG, Direct, LinearSolver
from genelin.system.buffer_pool import empty
from genelin.system.cached import cached_property

__all__ = ["CLEAR", "Gap", "ResidualCheck", "distance_behind"]

NOISE = 30  # units of rounding in an entry of a residual
SUMMED = 4  # the same, of the sum of the magnitudes of its terms
FORMED = 512  # rows up to which operators without entries are formed, by as many products
EXACT = 128  # rows up to which what is hidden is summed over all signs of rounding
SURE = 0.8  # part of a gap that is relied on
HALVINGS = 10  # of a gap in which eigenvalues were counted
CLEAR = 0.2  # residual of the pair behind the k-th, against their distance, that tells it well
NEW = 1e-6  # part of a direction that must be outside the search to be worth adding
STARTS = 8  # random vectors with which the search for the next pair begins


@dataclass(frozen=True)
class Gap:
    """What a search of the complement of k pairs saw of the pair that comes next.

    Attributes
    ----------
    distance : from the k-th pair to the best Ritz value there; the true one is not larger.
    residual : of that Ritz pair, in the B⁻¹-norm.
    uncertainty : of the k pairs themselves, their residuals and rounding.
    resolution : the distance below which pairs are called equal, however loose the tolerance.
    vectors : the leading Ritz vectors of the complement.
    residuals : of the k pairs, which `sine` divides by their gaps.
    ahead : how far each of them is ahead of the k-th: its own gap is wider by that.
    hidden : what rounding may hide of the residuals.
    spread : how far rounding of the pencil may have moved the eigenvalues behind it.
    certified : whether exactly k eigenvalues were counted beyond the gap.
    """

    distance: float
    residual: float
    uncertainty: float
    resolution: float
    vectors: Block
    residuals: Vector
    ahead: Vector
    hidden: Vector
    spread: float = 0.0
    certified: bool = False

    @property
    def none(self) -> bool:
        """Whether pairs k and k + 1 cannot be told apart."""
        return abs(self.distance) <= 2 * min(self.uncertainty, self.resolution)

    @property
    def missed(self) -> bool:
        """Whether a pair was seen that belongs before the k-th."""
        return self.distance < -2 * self.uncertainty

    def narrowly(self, residuals: Vector, goal: float) -> bool:
        """Whether residuals miss a goal by what rounding hides, and better pairs would meet it."""
        hidden = self.hidden[: len(residuals)]
        missed = residuals.max() <= goal < (residuals + hidden).max()
        return bool(missed and hidden.max() <= goal / 2)

    @property
    def sine(self) -> float:
        """Bound on sin θ, ‖r‖ / gap of every pair (Davis & Kahan); 1 where no gap could be shown.

        The Ritz value is within its residual of an eigenvalue; a fifth of the gap is kept back for
        one above it that the search has not told apart yet.
        """
        if not self.surely > 0:
            return 1.0
        shares = self.residuals / (self.surely + self.ahead)
        hidden = float(np.linalg.norm(self.hidden)) / self.surely
        return min(float(np.linalg.norm(shares)) + hidden, 1.0)

    @property
    def surely(self) -> float:
        """What the gap surely measures, if nothing was missed."""
        return SURE * (self.distance - self.residual) - self.spread


def distance_behind(theta: Vector, k: int, which: Which) -> float:
    """From the k-th value to the next; zero where none is known."""
    sizes = magnitudes(theta, which)
    return float(sizes[k - 1] - sizes[k]) if len(sizes) > k else 0.0


class ResidualCheck:
    """Bounds from a solver of the library.

    A small B of which no lower bound is known is factored: conjugate gradients have no more than an
    estimate of its spectrum, which an ill-conditioned one can be far below. Else it is the method's
    own solver if that can be trusted, or CG. With `count_ties`, eigenvalues ahead of a tie are
    counted in large sparse pencils, too, for a method that has not looked for all of them.
    """

    def __init__(
        self, pencil: Pencil, solver: LinearSolver, state: Any, count_ties: bool = False
    ) -> None:
        self._given, self._count_ties = pencil, count_ties
        self._own = (solver, state) if solver.trusted else None

    @cached_property
    def pencil(self) -> Pencil:
        """That of the method, with entries where it is very small."""
        return _formed(self._given)

    @cached_property
    def _trusted(self) -> tuple[LinearSolver, Any]:
        own, B = self._own, self._given.B
        if own is not None and (own[0].exact or B.lambda_min_bound > 0):
            return own
        exact = None if B.diagonal_blocks or B.shape[0] > SMALL else _factored(self.pencil.B)
        if exact is not None:
            return exact
        if own is not None:
            return own
        solver = CG()
        return solver, solver.init(B)

    def _solve(
        self, R: Block, rounding: Any = 0.0, enough: float | Vector = 0.0
    ) -> tuple[Block, Block, Vector]:
        """E ≈ B⁻¹R, BE, and upper bounds on ‖r‖ in the B⁻¹-norm (inf where CG gave up).

        Bounds are within 5 %, or at most `enough`. Columns shorter than `rounding` are noise, of
        which a semidefinite B need not have any part in its range: they are taken as far as they
        go.
        """
        solver, state = self._trusted
        energy = solver.energy(state, R, enough**2)
        norms = np.sqrt(energy.bounds)
        norms[~energy.met & (column_norms(R) > rounding)] = np.inf
        return energy.solution, energy.product, norms

    def residuals(self, basis: RitzBasis) -> Vector:
        """Upper bounds on ‖Aw − θBw‖ in the B⁻¹-norm, from a fresh solve."""
        return self.verified(basis)[0]

    def verified(self, basis: RitzBasis, enough: float | Vector = 0.0) -> tuple[Vector, Block]:
        """Those bounds, and the corrections B⁻¹(Aw − θBw) that they come from.

        They are within 5 %, or at most `enough`.
        """
        sizes = column_norms(basis.AW) + np.abs(basis.theta) * column_norms(basis.BW)
        corrections, _, norms = self._solve(basis.residual, 100 * EPS * sizes, enough)
        return norms, corrections

    def gap(
        self,
        basis: RitzBasis,
        residuals: Vector,
        rng: np.random.Generator,
        seen: Block | None = None,
        steps: int = 60,
    ) -> Gap:
        """Search the complement of W for the pair that comes next (a Davidson iteration).

        Stops once that pair is known well against its distance, or the distance is shown to be
        within the uncertainty of `basis`. A pair that no start vector sees is missed: likely it
        is not. `seen` are vectors that an earlier search has found: it begins with them.
        """
        d, k = basis.W.shape
        sizes = magnitudes(basis.theta, self.pencil.which)
        largest = float(np.abs(basis.theta).max())
        uncertainty = float(np.linalg.norm(residuals)) + ROUNDING * largest
        scales = uncertainty, 1e-6 * largest
        errors = (residuals, sizes - sizes.min(), self.hidden(basis, residuals))
        if k == d:
            return Gap(np.inf, 0.0, *scales, basis.W[:, :0], *errors, certified=True)
        if not np.isfinite(uncertainty):
            return Gap(0.0, np.inf, *scales, basis.W[:, :0], *errors)
        start = start_block(self.pencil, STARTS, rng)
        if seen is not None:
            start = np.hstack([seen, start[:, : max(STARTS - seen.shape[1], 2)]])
        search = _Search(self.pencil, basis, start if start.shape[1] <= d - k else start[:, ::-1])
        if not search.size:  # B is zero on the complement, or too small there to be told from it
            definite = self.pencil.B.lambda_min_bound > 0
            nothing = (0.0, np.inf) if definite else (np.inf, 0.0)
            return Gap(*nothing, *scales, basis.W[:, :0], *errors)
        for _ in range(steps):
            leading, vectors, rest = search.ends()
            E, BE, norms = self._solve(rest)
            distances = sizes[-1] - leading
            nearest = int(distances.argmin())
            distance, norm = float(distances[nearest]), float(norms[nearest])
            found = Gap(distance, norm, *scales, vectors, *errors)
            settled = np.all(norms <= distances / 50) or found.none
            if settled or search.size >= d - k or not search.expand(E, BE):
                break
        return self.counted(found, basis)

    def guarded(self, checked: RitzBasis, bounds: Vector, both: float = 1.0) -> Gap | None:
        """The gap behind all pairs but the last one, which guards it; None if it cannot tell.

        `bounds` are those on the residuals; `both` is √2 where a pair stands for ±λ.
        """
        k, which = len(checked.theta) - 1, self.pencil.which
        pairs, residuals, largest = checked.head(k), bounds[:k], float(np.abs(checked.theta).max())
        distance = distance_behind(checked.theta, k, which)
        uncertainty = both * float(np.linalg.norm(residuals)) + ROUNDING * largest
        certain = distance > 10 * uncertainty and np.isfinite(uncertainty)
        if not certain or bounds[k] > CLEAR * distance:
            return None
        sizes = magnitudes(pairs.theta, which)
        return Gap(
            distance,
            float(bounds[k]),
            uncertainty,
            1e-6 * largest,
            checked.W[:, k:],
            both * residuals,
            sizes - sizes.min(),
            both * self.hidden(pairs, residuals),
        )

    def hidden(self, basis: RitzBasis, residuals: Vector) -> Vector:
        """What rounding may hide of every residual in the B⁻¹-norm.

        It is bounded through the preconditioner, for random signs; without one it is taken to grow
        in that norm as the residual itself does.
        """
        noise = self._noise(basis)
        solver, state = self._trusted
        inverse, lowest = solver.approximate_inverse(state), solver.lowest(state)
        if inverse is None or not lowest > 0:
            lengths = np.maximum(column_norms(basis.residual), column_norms(noise) / NOISE)
            return np.asarray(column_norms(noise) * residuals / np.maximum(lengths, 1e-300))
        if len(noise) <= EXACT:
            squares = np.diagonal(inverse(np.eye(len(noise)))) @ noise**2
        else:
            signs = np.random.default_rng(0).choice([-1.0, 1.0], (len(noise), 1))
            parts = (column_dots(N, inverse(N)) for N in (noise, signs * noise))
            squares = np.maximum(*parts)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0) / lowest))

    def _noise(self, basis: RitzBasis) -> Block:
        """Rounding in the entries of a residual: of |A||W| and |B||W||θ|, where d is small.

        Elsewhere it is taken from AW and BW themselves, more of it as terms may have cancelled.
        """
        theta, (d, k) = np.abs(basis.theta), basis.W.shape
        entries = [operator.entries() for operator in self.pencil.operators if d <= SMALL]
        sizes = np.abs(basis.W)
        parts = [part.magnitudes_times(sizes) for part in entries if part is not None]
        if len(parts) == 2:
            return SUMMED * EPS * (parts[0] + parts[1] * theta)
        noise: Block = empty((d, k))

        def piece(rows: slice) -> None:
            np.multiply(np.abs(basis.BW[rows]), theta, out=noise[rows])
            noise[rows] += np.abs(basis.AW[rows])
            noise[rows] *= NOISE * EPS

        by_rows(piece, d, d * k)
        return noise

    def counted(self, gap: Gap, basis: RitzBasis) -> Gap:
        """The gap, certified where the entries of a small pencil allow to count eigenvalues.

        Where more than k were counted, the search has overlooked one: a narrower gap is tried. A
        large pencil is factored where pairs behind the k-th are like it: some ahead may be missing.
        """
        counts = self.pencil.d <= SMALL or (gap.none and self._count_ties)
        if not np.isfinite(gap.surely) or gap.missed or not counts:
            return gap
        sizes = magnitudes(basis.theta, self.pencil.which)
        if not gap.surely > 0:
            return replace(gap, distance=-np.inf) if self._one_ahead(gap, sizes) else gap
        for _ in range(HALVINGS):
            beyond = count_beyond(self.pencil, float(sizes.min()) - gap.surely)
            if beyond is None:
                return gap
            if beyond == len(sizes):
                return self._sharpened(replace(gap, certified=True), basis)
            gap = replace(gap, distance=(gap.distance + gap.residual) / 2)
        return replace(gap, distance=-np.inf if self._one_ahead(gap, sizes) else 0.0)

    def _one_ahead(self, gap: Gap, sizes: Vector) -> bool:
        """Whether more eigenvalues are ahead of the k-th pair than pairs can stand for.

        A pair is within the uncertainty of its eigenvalue.
        """
        doubt, ascending = gap.uncertainty, np.sort(sizes)
        levels = [float(ascending[0]) + 0.51 * doubt]
        jumps = np.flatnonzero(np.diff(ascending) > 4 * doubt)
        if len(jumps):  # where those that are like the k-th end
            levels.append(float(ascending[jumps[0] : jumps[0] + 2].mean()))
        return any(
            (count_beyond(self.pencil, level + doubt / 2) or 0)
            > np.count_nonzero(sizes > level - doubt / 2)
            for level in levels
        )

    def _sharpened(self, gap: Gap, basis: RitzBasis) -> Gap:
        """The gap less what rounding of the pencil may have moved the eigenvalues that follow."""
        spread = displacement(self.pencil, float(np.abs(basis.theta).max()))
        narrower = replace(gap, spread=spread)
        return replace(narrower, certified=narrower.surely > 0)


def _formed(pencil: Pencil) -> Pencil:
    """The pencil with entries: where it is very small, they come from products with unit vectors.

    Products alone do not tell the units of the coordinates, in which a search begins, nor how many
    eigenvalues there are.
    """
    if pencil.d > FORMED or pencil.B.diagonal_blocks:
        return pencil
    return replace(pencil, A=_with_entries(pencil.A), B=_with_entries(pencil.B))


def _with_entries(operator: Operator) -> Operator:
    if operator.entries() is not None:
        return operator
    M = operator @ np.eye(operator.shape[0])
    return as_operator((M + M.T) / 2)


def _factored(B: Operator) -> tuple[Direct, Any] | None:
    """A solver by factors of B; None where it has no entries, or no factors to rounding."""
    if B.entries() is None:
        return None
    try:
        return Direct(), Direct().init(B)
    except NotPositiveDefiniteError:
        return None


def displacement(pencil: Pencil, largest: float) -> float:
    """How far rounding of a pencil with entries may move eigenvalues of that magnitude."""
    A, B = (operator.entries() for operator in pencil.operators)
    assert A is not None  # both have entries where eigenvalues were counted
    assert B is not None
    if B.is_diagonal:
        scale, lowest, condition = 1.0 / np.sqrt(B.core.diagonal()), 1.0, 1.0
    else:
        factor = scaled_factor(B.dense())
        scale, condition = factor.scale, factor.condition
        lowest = factor.condition * factor.norm
    if condition == 0:
        return np.inf
    size = float(column_sums(scaled_by(A.dense(), scale)).max())
    return SUMMED * EPS * (size / lowest + largest / condition)


class _Search:
    """A growing basis Z, B-orthogonal to W."""

    room = 40  # columns of Z before it is cut back to its best ones

    def __init__(self, pencil: Pencil, basis: RitzBasis, start: Block) -> None:
        self.pencil, self.basis = pencil, basis
        d = basis.W.shape[0]
        self.Z, self.BZ, self.AZ = np.empty((3, d, 0))
        diagonal = pencil.B.diagonal()
        known = np.ones(d) if diagonal is None else np.where(diagonal > 0, diagonal, 1.0)
        self._units = np.sqrt(known)[:, None]
        self.expand(start[:, : d - basis.W.shape[1]], None)

    @property
    def size(self) -> int:
        """Columns of Z."""
        return int(self.Z.shape[1])

    def expand(self, V: Block, BV: Block | None) -> bool:
        """Add V, made B-orthogonal to W and Z; False if nothing new is in it."""
        B, W, BW = self.pencil.B, self.basis.W, self.basis.BW
        V = V / np.sqrt(np.maximum(column_dots(V, B @ V if BV is None else BV), 1e-300))
        for _ in range(2):
            V = V - W @ (BW.T @ V) - self.Z @ (self.BZ.T @ V)
        BV = B @ V
        new = column_dots(V, BV) > np.maximum(NEW**2, 100 * EPS * self._largest(V, BV))
        if not new.any():
            return False
        V, BV = orthonormalise(V[:, new], B, BV[:, new])
        if self.size >= self.room:
            self._cut()
        self.Z, self.BZ = np.hstack([self.Z, V]), np.hstack([self.BZ, BV])
        self.AZ = np.hstack([self.AZ, self.pencil.A @ V])
        return True

    def _largest(self, V: Block, BV: Block) -> Vector:
        """‖B‖‖v‖² of every column, added up over diagonal blocks, in units of the diagonal of B."""
        V, BV = V * self._units, BV / self._units
        sizes = [block.shape[0] for block in self.pencil.B.diagonal_blocks]
        cuts, squares = np.cumsum(sizes, dtype=int)[:-1], np.zeros(V.shape[1])
        for v, Bv in zip(np.split(V, cuts), np.split(BV, cuts), strict=True):
            lengths = column_norms(v)
            norm = (column_norms(Bv) / np.maximum(lengths, 1e-300)).max(initial=0.0)
            squares += lengths**2 * norm
        return squares

    def _rotation(self) -> tuple[Vector, Block]:
        return rayleigh_ritz(self.Z, self.AZ, self.pencil.which)

    def _cut(self) -> None:
        Q = self._rotation()[1][:, : self.room // 4]
        self.Z, self.BZ, self.AZ = self.Z @ Q, self.BZ @ Q, self.AZ @ Q

    def ends(self) -> tuple[Vector, Block, Block]:
        """Magnitudes, vectors and residuals of the leading Ritz pairs in the complement.

        For the largest magnitude both ends of the spectrum are followed: one alone could hide the
        other, which may hold the pair that comes next.
        """
        theta, Q = self._rotation()
        lead = [0]
        if self.pencil.which == "LM" and len(theta) > 1:
            lead = [int(theta.argmax()), int(theta.argmin())]
        Q = Q[:, lead]
        r = self.AZ @ Q - (self.BZ @ Q) * theta[lead]
        r -= self.basis.BW @ (self.basis.W.T @ r)
        return magnitudes(theta[lead], self.pencil.which), self.Z @ Q, r
