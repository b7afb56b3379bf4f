"""Views: data sets whose rows are the same observations, and the covariances within and between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np
from scipy.linalg import lstsq

from genelin.data.checked_arrays import refuse_extreme
from genelin.data.moments import central_moments, own_moment
from genelin.data.out_of_core import paired
from genelin.linalg import column_dots, range_basis
from genelin.linalg.column_products import EPS, Block, Vector
from genelin.operators import (
    BlockDiagonal,
    Compressed,
    Cross,
    Gram,
    MatrixOperator,
    OffDiagonal,
    Rows,
    as_rows,
)
from genelin.problems.forming import SMALL, worth_forming
from genelin.problems.pencil import Pencil
from genelin.problems.rank_deficiency import Deficiency, deficiency_of, is_bare
from genelin.system.cached import cached_property
from genelin.validation import check_flag, check_number, settle, shown

__all__ = ["TwoView", "Views", "is_diagonal"]

LEAST, MOST = 1e-200, 1e150  # of a ridge; one below is none, if data round by more
SETTINGS = ("reg", "center", "scale", "shrinkage", "form")


@dataclass(frozen=True)
class Views:
    """Correlations between the columns of m ≥ 2 data sets X₁ … X_m, which share their rows.

    S_i = X_iᵀX_i/n + reg·I, or (1 − s)·X_iᵀX_i/n + s·tr/d·I with shrinkage s.

    Parameters
    ----------
    views : (n, d_i) data sets, dense or sparse, in memory or not.
    reg : ridge, one for all views or one for each.
    center, scale : subtract column means, divide by standard deviations; both implicitly.
    shrinkage : instead of reg, in [0, 1], one for all views or one for each.
    form : form the covariances once instead of reading the data for every product; None
        decides by their size.

    Examples
    --------
    >>> problem = Views([np.eye(3), np.ones((3, 2)), np.eye(3)], reg=0.1)
    >>> problem.splits, problem.pencil.d, problem.regs
    ((3, 2, 3), 8, (0.1, 0.1, 0.1))
    """

    views: Any
    reg: Any = 0.0
    center: bool = True
    scale: bool = False
    shrinkage: Any = None
    form: bool | None = None

    def __post_init__(self) -> None:
        settle(self, check_flag, "center", "scale")
        settle(self, check_flag, "form", optional=True)
        object.__setattr__(self, "views", _matching(self.views))
        if self.views[0].counted < 2 and self.center:
            raise ValueError(
                f"{_listed(self.names)} have a single row: nothing is left after centring"
            )
        reg = self._each("reg", np.inf)
        if self.shrinkage is not None and any(reg):
            raise ValueError("reg and shrinkage exclude each other: give one of them")
        if self.shrinkage is not None:
            self._each("shrinkage", 1.0)

    def replace(self, **changes: Any) -> Self:
        """The same problem with other settings, or `views`; what was read of the data is kept."""
        settings = {name: changes.pop(name, getattr(self, name)) for name in SETTINGS}
        made = object.__new__(type(self))
        Views.__init__(made, changes.pop("views", self.views), **settings)
        if changes:
            raise TypeError(f"{', '.join(changes)}: views have no such setting")
        same = all(a is b for a, b in zip(made.views, self.views, strict=True))
        if self.has_moments and same and made.center == self.center:
            made.__dict__["_between"] = self._between
        return made

    @property
    def has_moments(self) -> bool:
        """Whether all moments have been computed, in one pass."""
        return self.__dict__.get("_between") is not None

    # --- What there is -------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """What messages call the views."""
        return _names(len(self.views))

    @property
    def splits(self) -> tuple[int, ...]:
        """Numbers of columns of the views."""
        return tuple(rows.d for rows in self.views)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Which views have a covariance with which: every two of them."""
        return tuple(combinations(range(len(self.views)), 2))

    @property
    def in_memory(self) -> bool:
        """Whether all views are."""
        return all(rows.in_memory for rows in self.views)

    @property
    def is_sparse(self) -> bool:
        """Whether all views are."""
        return all(rows.is_sparse for rows in self.views)

    @property
    def data_size(self) -> float:
        """Stored entries of all views: one pass."""
        return float(max(sum(rows.stored for rows in self.views), 1))

    # --- Regularisation ------------------------------------------------------------------------

    @cached_property
    def _shrinkages(self) -> tuple[float, ...]:
        return (0.0,) * len(self.views) if self.shrinkage is None else self._each("shrinkage", 1.0)

    @cached_property
    def regs(self) -> tuple[float, ...]:
        """The ridge of each view, that of the shrinkage included."""
        if self.shrinkage is None:
            return self._each("reg", np.inf)
        return tuple(
            s * float(Gram(rows, 0.0, self.center, self.scale).diagonal().mean())
            for s, rows in zip(self._shrinkages, self.views, strict=True)
        )

    @property
    def weights(self) -> tuple[float, ...]:
        """The factor of each view's covariance: 1, or 1 − shrinkage."""
        return tuple(1.0 - s for s in self._shrinkages)

    def _each(self, name: str, highest: float) -> tuple[float, ...]:
        """A setting of which there is one number for all views, or one for each."""
        value, m = getattr(self, name), len(self.views)
        given = value.tolist() if hasattr(value, "tolist") else value
        parts = given if isinstance(given, tuple | list) else (given,)
        try:
            numbers = [check_number(name, part, 0, highest, infinite=True) for part in parts]
        except ValueError:
            numbers = []
        if len(numbers) not in (1, m):
            upper = "" if highest == np.inf else f" and at most {highest:g}"
            several = "a pair (for X, for Y), neither" if m == 2 else f"{m}, one a view, none"
            negative = "negative nor NaN" if m == 2 else "negative or NaN"
            raise ValueError(
                f"{name}={shown(value)}: give one number or {several} {negative}{upper}"
            )
        if not np.all(np.isfinite(numbers)):
            raise ValueError(f"{name}={value!r} is not finite")
        if max(numbers) > MOST:
            raise ValueError(f"{name}={value!r} is above {MOST:g}, whose products are no numbers")
        return tuple(numbers) if len(numbers) == m else tuple(numbers) * m

    # --- Covariances ---------------------------------------------------------------------------

    def worth_forming(self, i: int, j: int) -> bool:
        """Whether the covariance of two views (of one with itself) is cheaper to keep."""
        return worth_forming(self.views[i], self.views[j], self.form)

    @cached_property
    def _between(self) -> Block | None:
        """The covariance between two dense views, from the one sweep for all of theirs.

        Each keeps its own. None where they are not worth forming, or there are more views.
        """
        dense = not any(rows.is_sparse for rows in self.views)
        together = dense and len(self.views) == 2 and (self.center or not self.views[0].in_memory)
        if not together or not all(map(self.worth_forming, (0, 1, 0), (0, 1, 1))):
            return None
        x, y = self.views
        moment = central_moments(x, y)
        for rows, name in zip(self.views, self.names, strict=True):
            if not rows.in_memory:
                refuse_extreme(rows.largest, name)
        return moment if self.center else moment + np.outer(x.mean, y.mean)

    def gather(self) -> None:
        """Compute all moments of dense views in one pass, where they are worth forming.

        Beside a sparse view, a dense one is read once for its own.
        """
        if self._between is not None or not self.center:
            return
        for i, rows in enumerate(self.views):
            if not rows.is_sparse and rows.in_memory and self.worth_forming(i, i):
                own_moment(rows)

    @cached_property
    def covariances(self) -> tuple[Gram, ...]:
        """S₁ … S_m, the ridge included."""
        self.gather()
        return tuple(self._covariance(i) for i in range(len(self.views)))

    def _covariance(self, i: int) -> Gram:
        rows, reg = self.views[i], self.regs[i]
        reg = reg if reg >= min(LEAST, EPS * rows.largest**2) else 0.0
        gram = Gram(rows, reg, self.center, self.scale, self.weights[i])
        return gram.formed() if self.worth_forming(i, i) else gram

    @cached_property
    def crosses(self) -> dict[tuple[int, int], Cross]:
        """The covariances between the views, by `pairs`."""
        return {(i, j): self._cross(i, j) for i, j in self.pairs}

    def _cross(self, i: int, j: int) -> Cross:
        moment = self._between
        cross = Cross(self.views[i], self.views[j], self.center, self.scale)
        return cross.formed(moment) if self.worth_forming(i, j) else cross

    @cached_property
    def pencil(self) -> Pencil:
        """The block pair: covariances between the views against those within them.

        Views of deficient rank are taken on their range: see `bases` and `lift`.
        """
        own = tuple(
            gram if Q is None else MatrixOperator(Q.T @ (gram @ Q))
            for gram, Q in zip(self.covariances, self.bases, strict=True)
        )
        between = {(i, j): self._on_ranges(cross, i, j) for (i, j), cross in self.crosses.items()}
        return Pencil(OffDiagonal(between), BlockDiagonal(own))

    def _on_ranges(self, cross: Cross, i: int, j: int) -> Cross | Compressed:
        left, right = self.bases[i], self.bases[j]
        return cross if left is None and right is None else Compressed(cross, left, right)

    @property
    def setup(self) -> tuple[float, float]:
        """Passes and flops that forming covariances took."""
        stored = [rows.stored for rows in self.views]
        parts = [(S.setup_flops, size) for S, size in zip(self.covariances, stored, strict=True)]
        parts += [(S.setup_flops, stored[i] + stored[j]) for (i, j), S in self.crosses.items()]
        reads = sum(size for flops, size in parts if flops)
        return reads / self.data_size, sum(flops for flops, _ in parts)

    def score_variances(self, *weights: Block) -> tuple[Vector, ...]:
        """Variances of X_iW_i, for columns of unit length in S_i."""
        return tuple(np.maximum(self._score_variance(i, W), 0.0) for i, W in enumerate(weights))

    def _score_variance(self, i: int, W: Block) -> Vector:
        reg, weight = self.regs[i], self.weights[i]
        if weight > 0:
            return np.asarray((1.0 - (reg * column_dots(W, W) if reg else 0.0)) / weight)
        return column_dots(W, Gram(self.views[i], 0.0, self.center, self.scale) @ W)

    # --- Views whose columns are dependent -----------------------------------------------------

    @cached_property
    def deficiencies(self) -> list[Deficiency]:
        """Views whose columns are dependent, as far as can be told cheaply.

        A ridge below the rounding of its covariance leaves a view as it is.
        """
        parts = zip(self.names, self.views, self.covariances, self.regs, strict=True)
        found = [deficiency_of(*part, self.center) for part in parts if is_bare(part[2])]
        return [deficiency for deficiency in found if deficiency is not None]

    @cached_property
    def bases(self) -> tuple[Block | None, ...]:
        """Bases of the numerical ranges of deficient views, where they are small enough."""
        weak = {deficiency.name for deficiency in self.deficiencies}
        return tuple(
            range_basis(gram.entries().dense())[0] if name in weak and rows.d <= SMALL else None
            for name, rows, gram in zip(self.names, self.views, self.covariances, strict=True)
        )

    @property
    def semidefinite(self) -> bool:
        """Whether B of the pencil stays singular: a deficient view without a basis of its range."""
        sizes = dict(zip(self.names, self.splits, strict=True))
        return any(sizes[deficiency.name] > SMALL for deficiency in self.deficiencies)

    def lift(self, *weights: Block) -> tuple[Block, ...]:
        """Weights of the columns from coordinates in their `bases`."""
        return tuple(W if Q is None else Q @ W for Q, W in zip(self.bases, weights, strict=True))

    def restrict(self, *weights: Block) -> tuple[Block, ...]:
        """Coordinates in the `bases` of weights of the columns: the inverse of `lift`."""
        return tuple(
            W if Q is None else lstsq(Q, W, check_finite=False)[0]
            for Q, W in zip(self.bases, weights, strict=True)
        )


class TwoView(Views):
    """Canonical correlations between the columns of X and of Y: `Views` of two data sets.

    Parameters
    ----------
    X, Y : (n, d₁) and (n, d₂), dense or sparse.
    reg, center, scale, shrinkage, form : see `Views`; reg and shrinkage may be pairs.

    Examples
    --------
    >>> problem = TwoView(np.eye(3), np.ones((3, 2)), reg=(0.1, 0.2))
    >>> problem.pencil.d, problem.regs
    (5, (0.1, 0.2))
    """

    def __init__(
        self,
        X: Any,
        Y: Any,
        reg: Any = 0.0,
        center: bool = True,
        scale: bool = False,
        shrinkage: Any = None,
        form: bool | None = None,
    ) -> None:
        super().__init__((X, Y), reg, center, scale, shrinkage, form)

    @property
    def X(self) -> Rows:
        """The first view."""
        return self.views[0]  # type: ignore[no-any-return]

    @property
    def Y(self) -> Rows:
        """The second view."""
        return self.views[1]  # type: ignore[no-any-return]

    @property
    def S_x(self) -> Gram:
        """The covariance of X, the ridge included."""
        return self.covariances[0]

    @property
    def S_y(self) -> Gram:
        """The covariance of Y, the ridge included."""
        return self.covariances[1]

    @property
    def S_xy(self) -> Cross:
        """The covariance between them."""
        return self.crosses[0, 1]


def is_diagonal(problem: TwoView) -> bool:
    """Whether both covariances are known to be diagonal: at most one nonzero in every row."""
    return not problem.center and all(rows.single for rows in problem.views)


def _names(m: int) -> tuple[str, ...]:
    return ("X", "Y") if m == 2 else tuple(f"views[{i}]" for i in range(m))


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _matching(views: Any) -> tuple[Rows, ...]:
    """The rows of all views, which are the same observations with the same weights."""
    if not isinstance(views, list | tuple) or len(views) < 2:
        raise ValueError("views must be a list of two data sets or more")
    names = _names(len(views))
    found = paired(*map(as_rows, views, names))
    first = found[0]
    for rows, name in zip(found[1:], names[1:], strict=True):
        if rows.n != first.n:
            raise ValueError(
                f"{names[0]} has {first.n} rows but {name} has {rows.n}: row i of both must "
                "describe the same observation"
            )
        if not _same_weights(first, rows):
            raise ValueError(
                f"{names[0]} and {name} have different row weights: give both the same"
            )
    for rows, name in zip(found, names, strict=True):
        if rows.in_memory:  # others are looked at when they are first read
            refuse_extreme(rows.largest, name)
    return found


def _same_weights(x: Rows, y: Rows) -> bool:
    if x.weights is None and y.weights is None:
        return True
    a, b = (np.ones(rows.n) if rows.weights is None else rows.weights for rows in (x, y))
    return bool(np.allclose(a, b, rtol=1e-12))
