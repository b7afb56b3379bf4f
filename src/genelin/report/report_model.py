"""What a report is about: one answer, whichever estimator or function it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genelin.estimators.cca import CCA
from genelin.estimators.displays import feature_names
from genelin.estimators.generalized_eigen import GeneralizedEigen
from genelin.results import CCASolution, EigenSolution

__all__ = ["ReportModel", "View", "report_model_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class View:
    """Features of one data set, and what each contributes to every component."""

    name: str  # "X", "y", or "" where there is only one
    features: list[str]
    contributions: Array  # (features, components): loadings or weights

    def largest(self, component: int, count: int) -> list[tuple[str, float]]:
        """The features that contribute most, in descending order of magnitude."""
        column = self.contributions[:, component]
        order = np.argsort(-np.abs(column), kind="stable")[:count]
        return [(self.features[place], float(column[place])) for place in order]


@dataclass(frozen=True)
class ReportModel:
    """An answer and the words for it.

    Attributes
    ----------
    estimator : what was fitted; None for a solution on its own.
    solution : residuals, status, cost, trace.
    values : (k,) correlations or eigenvalues.
    value : what one of them is called; `component` : what it belongs to.
    contribution : "loading", "weight" or "entry", what `views` hold.
    views : the data sets.
    tol : the tolerance of the run, None where it is not known.
    rows : how many were fitted, None where that is not known.
    """

    estimator: Any
    solution: CCASolution | EigenSolution
    values: Array
    value: str
    component: str
    contribution: str
    views: tuple[View, ...]
    tol: float | None
    rows: int | None

    @property
    def contributions(self) -> str:
        """What `views` hold, in the plural."""
        return "entries" if self.contribution == "entry" else f"{self.contribution}s"

    @property
    def two_views(self) -> bool:
        """Whether it is about canonical pairs."""
        return isinstance(self.solution, CCASolution)

    @property
    def relative_residuals(self) -> Array:
        """(k,) bounds on the residuals, in units of the largest value."""
        largest = float(np.abs(self.values).max(initial=0.0))
        residuals: Array = self.solution.residuals / (largest if largest > 0 else 1.0)
        return residuals

    @property
    def certified(self) -> NDArray[np.bool_]:
        """(k,) which pairs are proven to meet the tolerance."""
        if self.solution.converged:
            return np.ones(len(self.values), dtype=bool)
        met: NDArray[np.bool_] = self.relative_residuals <= (self.tol or 0.0)
        return met


def report_model_of(
    estimator: Any,
    x_names: Any = None,
    y_names: Any = None,
    tol: float | None = None,
    *,
    X: Any = None,
    y: Any = None,
) -> ReportModel:
    """Look at what was given, once.

    Parameters
    ----------
    estimator : fitted `CCA` or `GeneralizedEigen`, a `CCASolution` or an `EigenSolution`.
    x_names, y_names : names of features; None for those that the estimator or the data have, or
        numbers.
    tol : the tolerance of a solution on its own.
    X, y : data that may know the names of their columns.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import top_k
    >>> model = report_model_of(top_k(np.diag([1.0, 5.0, 3.0]), k=2), tol=1e-8)
    >>> model.value, model.views[0].largest(0, 1)
    ('eigenvalue', [('x1', 1.0)])
    """
    if isinstance(estimator, CCA | GeneralizedEigen):
        if not hasattr(estimator, "solution_"):
            raise ValueError(
                f"estimator={type(estimator).__name__}() is not fitted: call its fit first"
            )
        tol = estimator.tol
    if x_names is None:
        x_names = getattr(estimator, "feature_names_in_", _columns(X))
    if isinstance(estimator, CCA | CCASolution):
        return _of_pairs(estimator, x_names, _columns(y) if y_names is None else y_names, tol)
    if isinstance(estimator, GeneralizedEigen | EigenSolution):
        return _of_directions(estimator, x_names, y_names, tol)
    raise TypeError(
        f"estimator is a {type(estimator).__name__}: give a fitted CCA or GeneralizedEigen, or "
        "what top_k_cca or top_k returned"
    )


def _columns(X: Any) -> Any:
    """Names of the columns of a data frame, or of rows on disk."""
    columns = getattr(X, "column_names", None)
    columns = getattr(X, "columns", None) if columns is None or callable(columns) else columns
    return None if columns is None or callable(columns) else list(columns)


def _of_pairs(estimator: Any, x_names: Any, y_names: Any, tol: float | None) -> ReportModel:
    fitted = isinstance(estimator, CCA)
    solution = estimator.solution_ if fitted else estimator
    matrices = (
        (estimator.x_loadings_, estimator.y_loadings_)
        if fitted
        else (solution.x_weights, solution.y_weights)
    )
    views = tuple(
        View(name, feature_names(names, len(matrix), name.lower()), matrix)
        for name, names, matrix in zip("Xy", (x_names, y_names), matrices, strict=True)
    )
    return ReportModel(
        estimator=estimator if fitted else None,
        solution=solution,
        values=solution.correlations,
        value="canonical correlation",
        component="component",
        contribution="loading" if fitted else "weight",
        views=views,
        tol=tol,
        rows=int(estimator.n_samples_seen_) if fitted else None,
    )


def _of_directions(estimator: Any, x_names: Any, y_names: Any, tol: float | None) -> ReportModel:
    if y_names is not None:
        raise ValueError(
            f"y_names was given, but {type(estimator).__name__} has one set of features: name "
            "them in x_names"
        )
    fitted = isinstance(estimator, GeneralizedEigen)
    solution = estimator.solution_ if fitted else estimator
    view = View("", feature_names(x_names, len(solution.vectors), "x"), solution.vectors)
    return ReportModel(
        estimator=estimator if fitted else None,
        solution=solution,
        values=solution.values,
        value="eigenvalue",
        component="component" if fitted else "eigenpair",
        contribution="weight" if fitted else "entry",
        views=(view,),
        tol=tol,
        rows=None,
    )
