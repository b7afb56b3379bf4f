"""What every call returns: values, vectors, how far to trust them, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CCASolution",
    "Callback",
    "Cost",
    "EigenSolution",
    "LinearSolution",
    "Record",
    "Status",
    "Trace",
    "checked_solution",
]


Array = NDArray[np.float64]


class Status(Enum):
    """How a run ended; every failure carries its advice.

    Examples
    --------
    >>> Status.MAX_ITERATIONS.advice
    'Raise max_iter, loosen tol, or use method=None.'
    """

    CONVERGED = ("converged", "")
    TIED = (
        "converged, without a gap",
        "The k-th and the next eigenvalue are equal in magnitude: values and residuals are good, "
        "but the top-k space is one of many. Choose k at a gap for a unique one.",
    )
    NO_GAP = (
        "no gap",
        "The k-th and the next eigenvalue are equal in magnitude, so the top-k space is not "
        "unique: choose k at a gap, or use method=None for the values.",
    )
    MAX_ITERATIONS = ("maximum of iterations", "Raise max_iter, loosen tol, or use method=None.")
    FIXED_ITERATIONS = (
        "iterations done, tolerance not reached",
        "The number of iterations was fixed: give more, or none to stop on tol.",
    )
    STAGNATED = (
        "stagnated",
        "Rounding, about eps·κ(B), or the inner solver's accuracy stops further progress: add a "
        "ridge, rescale the features, or accept the residuals that are reported.",
    )
    SOLVER_FAILED = (
        "linear solver missed its reduction",
        "Raise the solver's max_iter, precondition it, or use solvers.CG or solvers.Direct.",
    )
    ONE_SHOT = (
        "one-shot estimate",
        "It ends where its definition says and has no iterations to add: use method=None for the "
        "exact answer.",
    )
    STOPPED = ("stopped by the callback", "Let the callback return None or False to go on.")

    def __init__(self, label: str, advice: str) -> None:
        self.label = label
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.label}. {self.advice}" if self.advice else self.label


@dataclass(frozen=True)
class Cost:
    """What a run cost.

    Attributes
    ----------
    passes : reads of all rows of the data (of the entries of A and B, for a pencil).
    applications : columns to which A or B was applied.
    flops : two for every stored entry and column of a product (an opaque operator, a function,
        counts as zero), and for the dense work on d×k blocks 10·d·k per step of the linear solver
        and 14·d·k² per outer iteration (40·d·k² when locally optimal). Forming a covariance counts
        its products, a dense eigenproblem 9·d³ (2·d³ for a few pairs), an SVD 14·d³, a dense factor
        d³/3 and d² a column that is solved with it; a pencil becomes an eigenproblem by 2·d³.
    seconds : wall time.

    Examples
    --------
    >>> Cost(passes=3.0, applications=30, flops=6e6, seconds=0.1).passes
    3.0
    """

    passes: float = 0.0
    applications: int = 0
    flops: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        """What both took."""
        return Cost(
            self.passes + other.passes,
            self.applications + other.applications,
            self.flops + other.flops,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True)
class Record:
    """One outer iteration: everything that figures, progress bars and callbacks read.

    `inner_iterations` sums the steps of the linear solver over the diagonal blocks of B.
    `residual` estimates the largest ‖Aw − θBw‖ in the B⁻¹-norm, divided by |θ₁|.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import GenELinK, top_k
    >>> sol = top_k(np.diag([2.0, 1.0, 0.5]), k=1, method=GenELinK())
    >>> sol.trace[0].iteration
    1
    """

    iteration: int
    seconds: float
    passes: float
    flops: float
    applications: int
    inner_iterations: int
    residual: float
    ritz_values: Array


Callback = Callable[[Record, Array], Any]  # told of an outer iteration; a true answer ends the run


class Trace(Sequence[Record]):
    """The records of a run in order; `trace.column("residual")` gives one field as an array.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import GenELinK, top_k
    >>> trace = top_k(np.diag([2.0, 1.0, 0.5]), k=1, method=GenELinK()).trace
    >>> bool(np.all(np.diff(trace.column("seconds")) >= 0))
    True
    """

    def __init__(self, records: Sequence[Record] = ()) -> None:
        self._records = tuple(records)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Trace: ...
    def __getitem__(self, index: int | slice) -> Record | Trace:
        if isinstance(index, slice):
            return Trace(self._records[index])
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def __repr__(self) -> str:
        last = f", residual {self._records[-1].residual:.1e}" if self._records else ""
        return f"<Trace of {len(self)} outer iterations{last}>"

    def column(self, name: str) -> Array:
        """One field of all records, as an array with a row per iteration."""
        return np.array([getattr(record, name) for record in self._records])


@dataclass(frozen=True)
class LinearSolution:
    """Answer of a linear solver: `value`, steps taken, and which columns met the reduction.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import solvers
    >>> cg = solvers.CG()
    >>> state = cg.init(np.diag([1.0, 2.0]))
    >>> cg.solve(state, np.ones((2, 1)), np.zeros((2, 1)), reduction=1e-20).value.ravel().tolist()
    [1.0, 0.5]
    """

    value: Array
    iterations: int
    met: NDArray[np.bool_]
    residual: Array | None = None  # rhs − B·value, where the solver has it

    @property
    def converged(self) -> bool:
        """Whether every column met the reduction that was asked for."""
        return bool(self.met.all())


@dataclass(frozen=True)
class _Solution:
    """The fields shared by all answers."""

    residuals: Array
    sin_theta_bound: float
    status: Status
    cost: Cost
    trace: Trace
    gap_certified: bool = field(default=False, kw_only=True)
    route: str = field(default="", kw_only=True)

    @property
    def converged(self) -> bool:
        """Whether every returned pair met the tolerance."""
        return self.status in (Status.CONVERGED, Status.TIED)

    def _summary(self, name: str, values: Array) -> str:
        shown = np.array2string(values[:5], precision=6, separator=", ")
        more = f" … {len(values)} values" if len(values) > 5 else ""
        return (
            f"{name}: {shown}{more}\n"
            f"  status     {self.status}\n"
            f"  residual   {self.residuals.max(initial=0.0):.2e} (largest, in the B⁻¹-norm)\n"
            f"  sin θ      ≤ {self.sin_theta_bound:.2e}\n"
            f"  iterations {len(self.trace)}, passes {self.cost.passes:.4g}, "
            f"{self.cost.seconds:.3g} s"
        ) + (f"\n  route      {self.route}" if self.route else "")


@dataclass(frozen=True, repr=False)
class EigenSolution(_Solution):
    """Top-k generalized eigenpairs of A v = λ B v.

    Attributes
    ----------
    values : (k,) eigenvalues in the order asked for (by default |λ| descending).
    vectors : (d, k) B-orthonormal columns; in each, the entry of largest magnitude is positive.
    residuals : (k,) upper bounds on ‖A w − θ B w‖ in the B⁻¹-norm (with ‖w‖_B = 1); every
        one also bounds the distance from θ to an eigenvalue.
    sin_theta_bound : bound on the sine of the largest angle between span(vectors) and the true
        space, residual over gap; 1 where no gap is seen.
    gap_certified : whether nothing can have been missed before the next eigenvalue, on which that
        bound rests: all were computed, or counted (by inertia, for a small pencil with entries);
        else it was found from random starts, and the bound holds with high probability.
    status, converged, cost, trace : how the run ended, and what it took.
    route : what was done, where genelin chose the method.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import top_k
    >>> sol = top_k(np.diag([1.0, -3.0, 2.0]), k=2)
    >>> sol.values.tolist(), sol.converged
    ([-3.0, 2.0], True)
    """

    values: Array
    vectors: Array

    def __repr__(self) -> str:
        return self._summary("EigenSolution", self.values)


@dataclass(frozen=True, repr=False)
class CCASolution(_Solution):
    """Canonical pairs of two data sets.

    Attributes
    ----------
    correlations : (k,) canonical correlations (generalized eigenvalues), descending. With
        `shrinkage`, which shrinks S_x and S_y but not S_xy, they may exceed 1.
    x_weights, y_weights : (d₁, k) and (d₂, k), orthonormal in S_x + reg·I and S_y + reg·I. In
        every x-column the entry of largest magnitude is positive; the y-column follows, so that
        the correlation is not negative.
    score_correlations : (k,) plain correlations of the scores X·x_weights and Y·y_weights,
        without the ridge (those of uncentred second moments when center=False).
    residuals : (k,) upper bounds on the residual of the pair (φ, ψ)/√2 in the B⁻¹-norm.
    sin_theta_bound : bound on the sines of the angles to the true canonical spaces.
    gap_certified : whether all correlations were computed, so that none can have been missed.
    status, converged, cost, trace : how the run ended, and what it took.
    route : what was done, where genelin chose the method.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import top_k_cca
    >>> rng = np.random.default_rng(0)
    >>> z = rng.standard_normal((500, 1))
    >>> X = np.hstack([z, rng.standard_normal((500, 2))])
    >>> Y = np.hstack([z + rng.standard_normal((500, 1)), rng.standard_normal((500, 2))])
    >>> bool(abs(top_k_cca(X, Y, k=1).correlations[0] - 0.5**0.5) < 0.05)
    True
    """

    correlations: Array
    x_weights: Array
    y_weights: Array
    score_correlations: Array

    def __repr__(self) -> str:
        return self._summary("CCASolution", self.correlations)


def checked_solution(given: Any, name: str) -> Any:
    """What the eigen method of that name returned, if it is a solution."""
    if not isinstance(given, EigenSolution | CCASolution):
        raise TypeError(
            f"{name} returned {type(given).__name__}, not an EigenSolution or a CCASolution"
        )
    return given
