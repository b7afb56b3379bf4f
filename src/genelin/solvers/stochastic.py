"""What SVRG, ASVRG and MinibatchAGD share: epochs on samples of rows, with exact accounts."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from genelin.errors import SolverError
from genelin.linalg import column_dots
from genelin.linalg.column_products import EPS, Block, Vector
from genelin.operators import Operator, RowSum
from genelin.solvers.base import Step
from genelin.solvers.gradient import GradientSolver, GradientState, energies, quotients
from genelin.solvers.spectral_bounds import SpectralBounds, spectral_bounds
from genelin.validation import check_choice, check_count, settle

__all__ = ["Pace", "RowState", "StochasticSolver"]

UNCLEAR = 100.0  # units of rounding up to which a smallest eigenvalue may be zero


@dataclass(frozen=True)
class RowState(GradientState):
    """An operator that is a sum over rows, bounds on its spectrum, and a source of samples."""

    rows: RowSum
    smoothness: float  # the largest eigenvalue that the term of a single drawn row may have
    rng: np.random.Generator  # advances with every epoch


@dataclass(frozen=True)
class StochasticSolver(GradientSolver):
    """Epochs that read samples of rows, between exact residuals that read all of them.

    An epoch finds p ≈ B⁻¹r from a sample. One product Bp then gives the best multiple of p, the
    new residual, and the exact decrease of the error. A solve ends when ‖r‖²/λ_min, or what the
    decrease of two epochs says of the error left, meets δ.
    """

    max_iter: int = 1000
    batch: int | None = None
    sampling: Literal["norms", "uniform"] = "norms"
    seed: int = 0
    trusted: ClassVar[bool] = True
    memory: ClassVar[int] = 0  # earlier epochs to which a new one is made conjugate

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, check_count, "batch", optional=True)
        check_choice("sampling", self.sampling, "norms", "uniform")
        settle(self, check_count, "seed", least=0)

    def _prepare(self, operator: Operator) -> RowState:
        rows, rng = operator.row_blocks(), np.random.default_rng(self.seed)
        if rows is None:
            raise ValueError(
                f"{type(self).__name__} needs B as a sum over rows of data, and {operator!r} is "
                "none: pass B=operators.Gram(X, reg=…), or two data sets to CCALin (with reg > 0 "
                "where their columns are dependent); or use solvers.CG"
            )
        squares = rows.squared_norms
        heaviest = squares.mean() if self.sampling == "norms" else squares.max()
        smoothness = rows.weight * float(heaviest) + rows.reg
        if not smoothness > 0:
            raise ValueError("B is zero: the rows of its data are all zero, and there is no ridge")
        bounds = self._row_bounds(operator, rows, rng)
        if smoothness > 0.01 * bounds.lower / EPS:
            longest, typical = int(squares.argmax()), float(np.sqrt(np.median(squares)))
            raise ValueError(
                f"{type(self).__name__} cannot work on these rows: max or mean ‖xᵢ‖²/λ_min = "
                f"{smoothness / bounds.lower:.0e} is beyond rounding. Row {longest} has norm "
                f"{np.sqrt(squares[longest]):.1e}, the median is {typical:.1e}: drop it if it is a "
                "mistake, scale features, raise reg, or use solvers.CG or solvers.Direct"
            )
        return RowState(operator, bounds, rows, smoothness, rng)

    def _row_bounds(
        self, operator: Operator, rows: RowSum, rng: np.random.Generator
    ) -> SpectralBounds:
        """Bounds as given, or by Lanczos on a sample of rows, whose spectrum is wider if anything.

        All rows are asked where the sample does not tell columns apart. The smallest eigenvalue is
        at most the smallest diagonal entry, which a sample may have missed.
        """
        if self.bounds is not None:
            return SpectralBounds(*self.bounds, known=True)
        size = max(20 * rows.d, rows.n // 50)
        if size >= rows.n:
            return spectral_bounds(operator)
        drawn = np.sort(rng.choice(rows.n, size, replace=False))
        bounds = spectral_bounds(operator.on_rows(drawn))
        if bounds.singular or bounds.lower < UNCLEAR * rows.d * EPS * bounds.upper:
            return spectral_bounds(operator)
        diagonal = operator.diagonal()
        if bounds.known or diagonal is None or not np.any(diagonal > 0):
            return bounds
        return replace(bounds, lower=min(bounds.lower, 0.5 * float(diagonal[diagonal > 0].min())))

    @abstractmethod
    def _epoch(self, state: RowState, r: Block, pace: Pace) -> Block:
        """An approximation p of B⁻¹r from a sample of about `pace.rows` rows."""

    @abstractmethod
    def _first_pace(self, state: RowState) -> Pace:
        """The rows of the first epoch, and the most that a later one may read."""

    @abstractmethod
    def _reaches_all(self, state: RowState, pace: Pace) -> bool:
        """Whether an epoch is long enough for the slowest direction that the bounds allow."""

    def corrections(self, state: RowState, r0: Block) -> Iterator[Step]:
        """An epoch's p, conjugate to the last ones; c ← c + αp, r ← r − αBp with the best α."""
        B, bounds, pace = state.operator, state.bounds, self._first_pace(state)
        c, r, past = np.zeros_like(r0), r0, deque[Direction](maxlen=self.memory)
        while True:
            p = self._epoch(state, r, pace)
            if not np.all(np.isfinite(p)):
                pace.shorten()
                continue
            direction = Direction(p, B @ p).conjugate(past)
            alpha, gains = direction.best(r)
            c, r = c + alpha * direction.p, r - alpha * direction.Bp
            bounds = bounds.seen(*quotients(direction.p, direction.Bp))
            past.append(direction)
            left = pace.error_left(alpha, gains) if self._reaches_all(state, pace) else np.inf
            pace.update(alpha, gains)
            measure = partial(_energies, c, r0, r, bounds.lower, left)
            yield Step(c, measure, r, bounds is state.bounds)


def _energies(
    c: Block, r0: Block, r: Block, lower: float, left: Vector | float
) -> tuple[Vector, Vector]:
    """As `energies`, with the error that epochs have left where that is the smaller bound."""
    decrease, bound = energies(c, r0, r, lower)
    return decrease, np.minimum(bound, left)


@dataclass(frozen=True)
class Direction:
    """Columns p with Bp."""

    p: Block
    Bp: Block

    def conjugate(self, past: Iterable[Direction]) -> Direction:
        """Without what is B-parallel to earlier directions."""
        p, Bp = self.p, self.Bp
        for earlier in past:
            length = column_dots(earlier.p, earlier.Bp)
            share = np.divide(
                column_dots(earlier.Bp, p), length, out=np.zeros_like(length), where=length > 0
            )
            p, Bp = p - share * earlier.p, Bp - share * earlier.Bp
        return Direction(p, Bp)

    def best(self, r: Block) -> tuple[Vector, Vector]:
        """α that makes ‖e − αp‖_B least for r = Be, and by how much its square then falls."""
        along, length = column_dots(self.p, r), column_dots(self.p, self.Bp)
        alpha = np.divide(along, length, out=np.zeros_like(along), where=length > 0)
        return alpha, alpha * along


@dataclass
class Pace:
    """How many rows an epoch reads, and how long its steps are: both learn from how it went."""

    rows: int
    most: int
    slower: float = 1.0  # divides the step
    gains: Vector | None = None

    def error_left(self, alpha: Vector, gains: Vector) -> Vector | float:
        """‖e‖²_B after the last of two epochs that gained g₁ and g₂: about g₂·(g₂/g₁).

        Epochs that reach all directions shrink the error by about the same factor q, so that
        gains are in proportion to the error before them; fluctuations are allowed a factor of four.
        If p was B⁻¹r and noise across it, the best multiple α of p leaves g₂·(1 − α)/α: the
        larger of both counts.
        """
        if self.gains is None:
            return np.inf
        before = np.where(self.gains > 0, self.gains, np.inf)
        noise = np.abs(1.0 - alpha) / np.maximum(alpha, EPS)
        return np.asarray(gains * np.maximum(np.minimum(1.0, 4.0 * gains / before), 2.0 * noise))

    def update(self, alpha: Vector, gains: Vector) -> None:
        """Read more rows while an epoch does not cut the error to a quarter."""
        if np.any(alpha[gains > 0] < 0.25):  # p is mostly noise
            self.shorten()
        if self.gains is not None and np.any(gains > 0.25 * self.gains):
            self.rows = min(2 * self.rows, self.most)
        self.gains = gains

    def shorten(self) -> None:
        """Halve the steps."""
        self.slower *= 2.0
        if self.slower > 1e6:
            raise SolverError(
                "stochastic steps diverge however short they are: are the data near the largest "
                "or smallest numbers that floats can hold? Scale them, or use solvers.CG"
            )
