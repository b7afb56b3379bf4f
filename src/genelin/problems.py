"""What is to be solved: a pencil (A, B), or two views of the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack, lstsq

from genelin.data.checked_arrays import refuse_extreme
from genelin.data.moments import central_moments, own_moment
from genelin.data.out_of_core import paired
from genelin.linalg import Which, column_dots, range_basis, unit_diagonal
from genelin.linalg.column_products import EPS, Block, Vector
from genelin.operators import (
    BlockDiagonal,
    Compressed,
    Cross,
    Gram,
    Identity,
    MatrixOperator,
    OffDiagonal,
    Operator,
    Rows,
    as_operator,
    as_rows,
)
from genelin.operators.definiteness import refuse_asymmetric, refuse_indefinite, refuse_nonsquare
from genelin.system.cached import cached_property
from genelin.validation import check_flag, check_number, settle, shown

__all__ = [
    "Pencil",
    "TwoView",
    "check_pencil",
    "estimated_entries",
    "refuse_other_problems",
    "worth_forming",
]

LEAST, MOST = 1e-200, 1e150  # of a ridge; one below is none, if data round by more
SMALL = 2048  # up to here a d×d matrix is formed and factored without a thought


@dataclass(frozen=True)
class Pencil:
    """A v = λ B v with A symmetric and B symmetric positive definite (None: the identity).

    Examples
    --------
    >>> import numpy as np
    >>> Pencil(np.diag([1.0, 2.0])).d
    2
    """

    A: Any
    B: Any = None
    which: Which = "LM"

    def __post_init__(self) -> None:
        A = as_operator(self.A, name="A")
        refuse_nonsquare(A, "A")
        B = Identity(A.shape[0]) if self.B is None else as_operator(self.B, name="B")
        refuse_nonsquare(B, "B")
        if A.shape != B.shape:
            raise ValueError(
                f"A has shape {A.shape} but B has shape {B.shape}: they must be of one size"
            )
        if not isinstance(self.which, str) or self.which not in ("LM", "LA", "SA"):
            raise ValueError(f"which={self.which!r} is not known: use 'LM', 'LA' or 'SA'")
        object.__setattr__(self, "A", A)
        object.__setattr__(self, "B", B)

    @property
    def d(self) -> int:
        """Size of A and B."""
        return int(self.A.shape[0])

    @property
    def operators(self) -> tuple[Operator, Operator]:
        """A and B."""
        return self.A, self.B

    @property
    def data_size(self) -> float:
        """Stored entries that make one pass."""
        return float(self.A.reads + self.B.reads)


@dataclass(frozen=True)
class TwoView:
    """Canonical correlations between the columns of X and of Y, which share their rows.

    S_x = XᵀX/n + reg·I (or (1 − s)·XᵀX/n + s·tr/d·I with shrinkage s), and likewise S_y.

    Parameters
    ----------
    X, Y : (n, d₁) and (n, d₂), dense or sparse.
    reg : ridge, one for both or a pair.
    center, scale : subtract column means, divide by standard deviations; both implicitly.
    shrinkage : instead of reg, in [0, 1], one for both or a pair.
    form : form the covariances once instead of reading the data for every product; None
        decides by their size.

    Examples
    --------
    >>> import numpy as np
    >>> problem = TwoView(np.eye(3), np.ones((3, 2)), reg=(0.1, 0.2))
    >>> problem.pencil.d, problem.regs
    (5, (0.1, 0.2))
    """

    X: Any
    Y: Any
    reg: Any = 0.0
    center: bool = True
    scale: bool = False
    shrinkage: Any = None
    form: bool | None = None

    def __post_init__(self) -> None:
        x, y = _matching(self.X, self.Y)
        if x.counted < 2 and self.center:
            raise ValueError("X and Y have a single row: nothing is left after centring")
        object.__setattr__(self, "X", x)
        object.__setattr__(self, "Y", y)
        settle(self, check_flag, "center", "scale")
        settle(self, check_flag, "form", optional=True)
        reg = _pair(self.reg, "reg", np.inf)
        if self.shrinkage is not None and any(reg):
            raise ValueError("reg and shrinkage exclude each other: give one of them")
        if self.shrinkage is not None:
            _pair(self.shrinkage, "shrinkage", 1.0)

    @property
    def splits(self) -> tuple[int, int]:
        """Numbers of columns of X and of Y."""
        return self.X.d, self.Y.d

    @property
    def data_size(self) -> float:
        """Stored entries of X and Y: one pass."""
        return float(max(self.X.stored + self.Y.stored, 1))

    @cached_property
    def _shrinkages(self) -> tuple[float, float]:
        return (0.0, 0.0) if self.shrinkage is None else _pair(self.shrinkage, "shrinkage", 1.0)

    @cached_property
    def regs(self) -> tuple[float, float]:
        """The ridge of each view, that of the shrinkage included."""
        if self.shrinkage is None:
            return _pair(self.reg, "reg", np.inf)
        x, y = (
            s * float(Gram(rows, 0.0, self.center, self.scale).diagonal().mean())
            for s, rows in zip(self._shrinkages, (self.X, self.Y), strict=True)
        )
        return x, y

    @property
    def weights(self) -> tuple[float, float]:
        """The factor of each view's covariance: 1, or 1 − shrinkage."""
        return 1.0 - self._shrinkages[0], 1.0 - self._shrinkages[1]

    @cached_property
    def _central_moment(self) -> Block | None:
        """All covariances of dense views in one sweep, where they are worth forming."""
        dense = not (self.X.is_sparse or self.Y.is_sparse) and (self.center or not self.X.in_memory)
        views = ((self.X, self.X), (self.Y, self.Y), (self.X, self.Y))
        if not dense or not all(worth_forming(*pair, self.form) for pair in views):
            return None
        moment = central_moments(self.X, self.Y)
        if not self.X.in_memory:
            refuse_extreme(self.X.largest, "X")
            refuse_extreme(self.Y.largest, "Y")
        return moment if self.center else moment + np.outer(self.X.mean, self.Y.mean)

    def gather(self) -> None:
        """Read the rows once for all covariances, where they are dense and worth forming.

        Beside a sparse view, a dense one is read once for its own.
        """
        if self._central_moment is not None or not self.center:
            return
        for rows in (self.X, self.Y):
            if not rows.is_sparse and rows.in_memory and worth_forming(rows, rows, self.form):
                own_moment(rows)

    def _gram(self, rows: Rows, view: int) -> Gram:
        self.gather()
        reg = self.regs[view]
        reg = reg if reg >= min(LEAST, EPS * rows.largest**2) else 0.0
        gram = Gram(rows, reg, self.center, self.scale, self.weights[view])
        return gram.formed() if worth_forming(rows, rows, self.form) else gram

    @cached_property
    def S_x(self) -> Gram:
        """S_x, the ridge included."""
        return self._gram(self.X, 0)

    @cached_property
    def S_y(self) -> Gram:
        """S_y, the ridge included."""
        return self._gram(self.Y, 1)

    @cached_property
    def S_xy(self) -> Cross:
        """The cross-covariance."""
        moment = self._central_moment
        cross = Cross(self.X, self.Y, self.center, self.scale)
        return cross.formed(moment) if worth_forming(self.X, self.Y, self.form) else cross

    def score_variances(self, Wx: Block, Wy: Block) -> tuple[Vector, Vector]:
        """Variances of XWx and YWy, for columns of unit length in S_x and S_y."""
        x, y = (
            (1.0 - (reg * column_dots(W, W) if reg else 0.0)) / weight
            if weight > 0
            else column_dots(W, Gram(rows, 0.0, self.center, self.scale) @ W)
            for reg, weight, W, rows in zip(
                self.regs, self.weights, (Wx, Wy), (self.X, self.Y), strict=True
            )
        )
        return np.maximum(x, 0.0), np.maximum(y, 0.0)

    @cached_property
    def deficiencies(self) -> list[Deficiency]:
        """Views whose columns are dependent, as far as can be told cheaply.

        A ridge below the rounding of its covariance leaves a view as it is.
        """
        x_reg, y_reg = self.regs
        views = (("X", self.X, self.S_x, x_reg), ("Y", self.Y, self.S_y, y_reg))
        bare = [view for view in views if _is_bare(view[2])]
        found = [_deficiency(*view, self.center) for view in bare]
        return [deficiency for deficiency in found if deficiency is not None]

    @cached_property
    def bases(self) -> tuple[Block | None, Block | None]:
        """Bases of the numerical ranges of deficient views, where they are small enough."""
        weak = {deficiency.name for deficiency in self.deficiencies}
        x, y = (
            range_basis(gram.entries().dense())[0] if name in weak and rows.d <= SMALL else None
            for name, rows, gram in (("X", self.X, self.S_x), ("Y", self.Y, self.S_y))
        )
        return x, y

    @cached_property
    def pencil(self) -> Pencil:
        """The block pair whose top-2k space holds the k canonical pairs.

        Views of deficient rank are taken on their range: see `bases` and `lift`.
        """
        S_x, S_y = (
            gram if Q is None else MatrixOperator(Q.T @ (gram @ Q))
            for gram, Q in zip((self.S_x, self.S_y), self.bases, strict=True)
        )
        whole = all(Q is None for Q in self.bases)
        cross = self.S_xy if whole else Compressed(self.S_xy, *self.bases)
        return Pencil(OffDiagonal(cross), BlockDiagonal((S_x, S_y)))

    @property
    def semidefinite(self) -> bool:
        """Whether B of the pencil stays singular: a deficient view without a basis of its range."""
        sizes = {"X": self.X.d, "Y": self.Y.d}
        return any(sizes[deficiency.name] > SMALL for deficiency in self.deficiencies)

    def lift(self, Wx: Block, Wy: Block) -> tuple[Block, Block]:
        """Weights of the columns of X and Y from coordinates in their `bases`."""
        Qx, Qy = self.bases
        return Wx if Qx is None else Qx @ Wx, Wy if Qy is None else Qy @ Wy

    def restrict(self, Wx: Block, Wy: Block) -> tuple[Block, Block]:
        """Coordinates in the `bases` of weights of the columns: the inverse of `lift`."""
        x, y = (
            W if Q is None else lstsq(Q, W, check_finite=False)[0]
            for Q, W in zip(self.bases, (Wx, Wy), strict=True)
        )
        return x, y

    @property
    def setup(self) -> tuple[float, float]:
        """Passes and flops that forming covariances took."""
        parts = ((self.S_x, self.X.stored), (self.S_y, self.Y.stored), (self.S_xy, self.data_size))
        reads = sum(stored for operator, stored in parts if operator.setup_flops)
        return reads / self.data_size, sum(operator.setup_flops for operator, _ in parts)


def refuse_other_problems(method: Any, problem: Any) -> None:
    """Raise if a method says in `solves` that it is for the other kind of problem.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import FewRows
    >>> refuse_other_problems(FewRows(), Pencil(np.eye(2)))
    Traceback (most recent call last):
        ...
    TypeError: method=FewRows() solves two data sets: for a pencil A v = λ B v ...
    """
    name, solves = type(method).__name__, getattr(method, "solves", None)
    if solves is Pencil and isinstance(problem, TwoView):
        raise TypeError(
            f"method={name}() solves pencils A v = λ B v: for two data sets leave method out, or "
            "use Davidson(), Dense() or CCALin()"
        )
    if solves is TwoView and isinstance(problem, Pencil):
        raise TypeError(
            f"method={name}() solves two data sets: for a pencil A v = λ B v leave method out, or "
            "use Davidson(), Dense() or GenELinK()"
        )


def _matching(X: Any, Y: Any) -> tuple[Rows, Rows]:
    """The rows of both views, which are the same observations with the same weights."""
    x, y = paired(as_rows(X, "X"), as_rows(Y, "Y"))
    if x.n != y.n:
        raise ValueError(
            f"X has {x.n} rows but Y has {y.n}: row i of both must describe the same observation"
        )
    if not _same_weights(x, y):
        raise ValueError("X and Y have different row weights: give both the same")
    for rows, name in ((x, "X"), (y, "Y")):
        if rows.in_memory:  # others are looked at when they are first read
            refuse_extreme(rows.largest, name)
    return x, y


def _same_weights(x: Rows, y: Rows) -> bool:
    if x.weights is None and y.weights is None:
        return True
    a, b = (np.ones(rows.n) if rows.weights is None else rows.weights for rows in (x, y))
    return bool(np.allclose(a, b, rtol=1e-12))


def worth_forming(x: Rows, y: Rows, form: bool | None) -> bool:
    """Whether XᵀY is cheaper to keep than to apply through the rows."""
    if form is not None:
        return form
    if x.is_sparse and y.is_sparse:
        read = x.stored if x is y else x.stored + y.stored
        return x.d * y.d <= 2**20 or estimated_entries(x, y) <= read
    return bool(x.n >= max(x.d, y.d) and max(x.d, y.d) <= 2 * SMALL)


SAMPLED = 2_000, 20_000  # rows of a sample, at least and at most
PAIRS = 4e6  # pairs of entries in it


def estimated_entries(x: Rows, y: Rows) -> float:
    """About how many nonzeros XᵀY has, from random rows; too many rather than too few.

    Pairs of features repeat the more, the more rows there are: what two samples show of that is
    extended to all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> X = Rows(sparse.csr_array(np.ones((50, 3))))
    >>> estimated_entries(X, X)
    9.0
    """
    if y not in x.entries_with:
        x.entries_with[y] = _estimate(x, y)
    return x.entries_with[y]


def _estimate(x: Rows, y: Rows) -> float:
    if x.single and y.single:
        return float(x.d if y is x else min(x.stored, y.stored))
    fewest, most = SAMPLED
    sample = int(np.clip(PAIRS * x.n / max(x.pairs_with(y), 1.0), fewest, most))
    chosen = np.arange(x.n)
    if x.n > sample:
        chosen = np.unique(np.random.default_rng(0).integers(0, x.n, sample))
    X = x.taken(chosen).matrix
    Y = X if y is x else y.taken(chosen).matrix
    fewer = chosen[::4]
    less, more = float((X[::4].T @ Y[::4]).nnz), float((X.T @ Y).nnz)
    if x.n <= sample or less == 0:
        return more
    growth = np.log(max(more / less, 1.0)) / np.log(len(chosen) / len(fewer))
    return float(min(more * (x.n / len(chosen)) ** growth, float(x.d) * y.d))


def _pair(value: Any, name: str, highest: float) -> tuple[float, float]:
    """One number for both views, or one for each."""
    given = value.tolist() if hasattr(value, "tolist") else value
    parts = given if isinstance(given, tuple | list) else (given,)
    try:
        numbers = [check_number(name, part, 0, highest, infinite=True) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2):
        upper = "" if highest == np.inf else f" and at most {highest:g}"
        raise ValueError(
            f"{name}={shown(value)}: give one number or a pair (for X, for Y), neither negative "
            f"nor NaN{upper}"
        )
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"{name}={value!r} is not finite")
    if max(numbers) > MOST:
        raise ValueError(f"{name}={value!r} is above {MOST:g}, whose products are no numbers")
    return numbers[0], numbers[-1]


# --- Checks of a pencil, before any long work starts -------------------------------------------


def check_pencil(pencil: Pencil, rng: np.random.Generator) -> None:
    """Raise if A or B is not symmetric, or B is not positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> check_pencil(Pencil(np.array([[1.0, 2.0], [0.0, 1.0]])), np.random.default_rng(0))
    Traceback (most recent call last):
        ...
    ValueError: A is not symmetric: entry (0, 1) is 2 but (1, 0) is 0. ...
    """
    refuse_asymmetric(pencil.A, "A", rng)
    if not isinstance(pencil.B, Identity):
        refuse_asymmetric(pencil.B, "B", rng)
        refuse_indefinite(pencil.B, rng)


# --- Data that do not span their columns -------------------------------------------------------


@dataclass(frozen=True)
class Deficiency:
    """A view whose covariance is singular: its name, its rank where known, and what to say."""

    name: str
    rank: int | None
    message: str


def _is_bare(gram: Gram) -> bool:
    """Whether the ridge is no more than rounding, so that the covariance may be singular."""
    return gram.reg == 0 or bool(gram.reg <= gram.shape[0] * EPS * gram.diagonal().max())


def _deficiency(name: str, rows: Rows, gram: Gram, given: float, center: bool) -> Deficiency | None:
    rank = _numerical_rank(rows, gram, center)
    dead = np.flatnonzero(gram.diagonal() == 0)
    if rank == rows.d or (rank is None and not len(dead)):
        return None
    parts = []
    if len(dead):
        shown = ", ".join(str(j) for j in dead[:5]) + (", …" if len(dead) > 5 else "")
        kind = "constant" if center else "all zero"
        parts.append(f"{len(dead)} of its {rows.d} columns are {kind} ({shown})")
    if rank is not None and rank < rows.d - len(dead):
        parts.append(f"its {rows.d} columns have numerical rank {rank}")
    if rank is not None and rank >= rows.counted - bool(center):
        parts.append(
            f"with {rows.counted} rows it can fit anything: every correlation is trivially 1"
        )
    reg = 0.01 * float(np.mean(gram.diagonal()))
    ridge = f" (a ridge of {given:.1g} is lost in rounding)" if given else ""
    message = (
        f"{name} is rank-deficient: {'; '.join(parts)}{ridge}. Solved on its numerical range; to "
        f"regularise instead, try reg={reg:.1g}."
    )
    return Deficiency(name, rank, message)


def _numerical_rank(rows: Rows, gram: Gram, center: bool) -> int | None:
    """Rank by pivoted Cholesky of the scaled covariance.

    Where d is too large for that, the least of what bounds it; None if nothing does.
    """
    alive = gram.diagonal() > 0
    if rows.d > SMALL:
        most = min(rows.counted - bool(center), int(np.count_nonzero(alive)))
        return None if most >= rows.d else most
    if not alive.any():
        return 0
    scaled, _ = unit_diagonal(gram.entries().dense()[np.ix_(alive, alive)])
    *_, rank, _ = lapack.dpstrf(np.asfortranarray(scaled), lower=1, tol=len(scaled) * EPS)
    lifted = np.count_nonzero(
        gram.reg > rows.d * EPS * gram.diagonal()
    )  # by a ridge, however small
    return min(int(rank), rows.counted - bool(center) + int(lifted))
