"""Pictures of a fitted estimator, in the style of scikit-learn's Display objects."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from genelin.results import Trace

__all__ = [
    "ConvergenceDisplay",
    "CorrelationsDisplay",
    "LoadingsDisplay",
    "ScoresDisplay",
    "plot_convergence",
    "plot_correlations",
    "plot_loadings",
    "plot_scores",
]

Array = NDArray[np.float64]

AGAINST = {
    "iteration": "outer iteration",
    "passes": "passes over the data",
    "seconds": "time (s)",
    "flops": "floating-point operations",
    "applications": "columns multiplied by A or B",
}
# Okabe & Ito's colours, and with each a mark and a line of its own: readable without colour too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
FULL = ("o", "x", "^", "s", "*", "+", "v", "D")  # marks that are told apart even when small,
OPEN = ("o", "^", "s", "D")  # and those of them that have an inside to leave empty
MARKS = [(mark, "full") for mark in FULL] + [(mark, "none") for mark in OPEN]
LINES = ("-", "--", "-.", ":")


class ConvergenceDisplay:
    """The residual of a fit over its iterations, on a logarithmic scale.

    Parameters
    ----------
    against : (iterations,) what the residual is drawn over.
    residual : (iterations,) largest residual of all pairs, relative to the largest value.
    by : what `against` counts: "iteration", "passes", "seconds", "flops" or "applications".
    tol : the tolerance, drawn as a line; None for none.
    name : of the curve, for a legend.

    Attributes
    ----------
    ax_, figure_, line_ : what was drawn, and where; `tol_line_` is None without a tolerance.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from genelin import CCA, CCALin, ConvergenceDisplay
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> cca = CCA(n_components=1, scale=True, method=CCALin()).fit(X, Y)
    >>> display = ConvergenceDisplay.from_estimator(cca, by="passes")
    >>> display.ax_.get_xlabel()
    'passes over the data'
    """

    def __init__(
        self,
        *,
        against: Array,
        residual: Array,
        by: str = "iteration",
        tol: float | None = None,
        name: str | None = None,
    ) -> None:
        self.against, self.residual = against, residual
        self.by, self.tol, self.name = by, tol, name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        by: str = "iteration",
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> ConvergenceDisplay:
        """Draw the trace of a fitted `CCA` or `GeneralizedEigen`.

        Parameters
        ----------
        estimator : fitted, with a `solution_` found by an iteration.
        by : "iteration", "passes", "seconds", "flops" or "applications"; passes stay the same
            once covariances are formed.
        name : for the legend; None takes the name of the class.
        ax : axes to draw in; None makes new ones.
        **kwargs : for `ax.plot`.
        """
        if by not in AGAINST:
            raise ValueError(f"by={by!r} is not known: use one of {', '.join(AGAINST)}")
        check_is_fitted(estimator)
        trace: Trace = estimator.solution_.trace
        if not len(trace):
            raise ValueError(
                "the problem was small enough for a direct solution, which has no iterations to "
                "draw: fit with method=Davidson() or method=CCALin() to see them"
            )
        name = type(estimator).__name__ if name is None else name
        tol = getattr(estimator, "tol", None)
        display = cls(
            against=trace.column(by), residual=trace.column("residual"), by=by, tol=tol, name=name
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> ConvergenceDisplay:
        """Draw; in axes that hold curves already, as one more.

        Parameters
        ----------
        ax : axes to draw in; None makes new ones.
        name : for the legend; None takes `self.name`.
        **kwargs : for `ax.plot`.
        """
        self.ax_, self.figure_ = _axes(ax, "ConvergenceDisplay")
        curves = sum(line.get_gid() == "convergence" for line in self.ax_.lines)
        look = {
            **_look(curves),
            "markersize": 5,
            "markevery": max(1, len(self.residual) // 25),
            "gid": "convergence",
            "label": self.name if name is None else name,
        }
        (self.line_,) = self.ax_.plot(self.against, self.residual, **{**look, **kwargs})
        self.tol_line_ = None
        drawn = any(line.get_gid() == f"tol {self.tol}" for line in self.ax_.lines)
        if self.tol is not None and not drawn:
            look = {"color": "0.4", "linewidth": 1, "linestyle": (0, (1, 2)), "zorder": 1}
            self.tol_line_ = self.ax_.axhline(
                self.tol, **look, label=f"tol = {self.tol:g}", gid=f"tol {self.tol}"
            )
        self.ax_.set(xlabel=AGAINST[self.by], ylabel="relative residual", yscale="log")
        if self.by == "iteration":
            _whole_ticks(self.ax_.xaxis)
        self.ax_.grid(alpha=0.3)
        self.ax_.legend()
        return self


class CorrelationsDisplay:
    """The canonical correlations of every component, and those of scores beside them.

    Parameters
    ----------
    canonical_correlations : (k,) generalized eigenvalues, the ridge included.
    score_correlations : (k,) plain correlations of the scores of the data fitted, or None.
    held_out : (k,) correlations of the scores of other data, or None.

    Attributes
    ----------
    ax_, figure_ : where it was drawn; `lines_` : the curves.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from genelin import CCA, CorrelationsDisplay
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> display = CorrelationsDisplay.from_estimator(CCA(n_components=3).fit(X, Y))
    >>> display.lines_[0].get_ydata().round(3).tolist()
    [0.796, 0.201, 0.073]
    """

    def __init__(
        self,
        *,
        canonical_correlations: Array,
        score_correlations: Array | None = None,
        held_out: Array | None = None,
    ) -> None:
        self.canonical_correlations = canonical_correlations
        self.score_correlations = score_correlations
        self.held_out = held_out

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: Any = None, *, ax: Any = None, **kwargs: Any
    ) -> CorrelationsDisplay:
        """Draw the correlations of a fitted `CCA`.

        Parameters
        ----------
        estimator : a fitted `CCA`.
        X, y : other data, whose scores' correlations are drawn too; None for none.
        ax : axes to draw in; None makes new ones.
        **kwargs : for `ax.plot`.
        """
        correlations = _learned(estimator, "canonical_correlations_", "CorrelationsDisplay")
        if (X is None) != (y is None):
            raise ValueError("X and y are two views of the same rows: give both or neither")
        held_out = None if X is None else column_correlations(*estimator.transform(X, y))
        display = cls(
            canonical_correlations=correlations,
            score_correlations=estimator.score_correlations_,
            held_out=held_out,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> CorrelationsDisplay:
        """Draw.

        Parameters
        ----------
        ax : axes to draw in; None makes new ones.
        **kwargs : for `ax.plot`.
        """
        self.ax_, self.figure_ = _axes(ax, "CorrelationsDisplay")
        curves = {"canonical correlations": self.canonical_correlations}
        scores = self.score_correlations
        if scores is not None and not np.allclose(scores, self.canonical_correlations, atol=1e-3):
            curves["of scores, data fitted"] = scores
        if self.held_out is not None:
            curves["of scores, data given"] = self.held_out
        components = np.arange(1, len(self.canonical_correlations) + 1)
        self.lines_ = []
        for place, (label, values) in enumerate(curves.items()):
            look = {**_look(place), "label": label, "markevery": max(1, len(values) // 25)}
            self.lines_ += self.ax_.plot(components, values, **{**look, **kwargs})
        lowest = min(float(values.min()) for values in curves.values())
        self.ax_.set(xlabel="component", ylabel="correlation", xlim=(0.5, components[-1] + 0.5))
        self.ax_.set_ylim(bottom=min(0.0, 1.1 * lowest))
        _whole_ticks(self.ax_.xaxis)
        self.ax_.grid(alpha=0.3)
        if len(curves) > 1:
            self.ax_.legend()
        return self


class ScoresDisplay:
    """Scores of one component: those of X against those of y, a point for every row.

    Parameters
    ----------
    x_scores, y_scores : (n,) scores.
    component : which one, from 0.
    labels : (n,) groups with a mark and a colour each, or None.

    Attributes
    ----------
    ax_, figure_ : where it was drawn; `points_` : the groups of points.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from genelin import CCA, ScoresDisplay
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> display = ScoresDisplay.from_estimator(CCA(n_components=2).fit(X, Y), X, Y)
    >>> display.ax_.get_title()
    'correlation 0.796'
    """

    def __init__(
        self, *, x_scores: Array, y_scores: Array, component: int = 0, labels: Any = None
    ) -> None:
        self.x_scores, self.y_scores = x_scores, y_scores
        self.component, self.labels = component, labels

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        component: int = 0,
        labels: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> ScoresDisplay:
        """Draw the scores of data under a fitted `CCA`.

        Parameters
        ----------
        estimator : a fitted `CCA`.
        X, y : two views of the same rows.
        component : which component, from 0.
        labels : (n,) at most 12 groups of rows, such as classes; None for none.
        ax : axes to draw in; None makes new ones.
        **kwargs : for `ax.plot`.
        """
        _check_component(component, _learned(estimator, "x_rotations_", "ScoresDisplay"))
        x_scores, y_scores = (np.asarray(s)[:, component] for s in estimator.transform(X, y))
        if labels is not None:
            labels = _checked_labels(labels, len(x_scores))
        display = cls(x_scores=x_scores, y_scores=y_scores, component=component, labels=labels)
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> ScoresDisplay:
        """Draw.

        Parameters
        ----------
        ax : axes to draw in; None makes new ones.
        **kwargs : for `ax.plot`.
        """
        self.ax_, self.figure_ = _axes(ax, "ScoresDisplay")
        n = len(self.x_scores)
        groups: dict[Any, Any] = {None: slice(None)}
        if self.labels is not None:
            groups = {name: np.asarray(self.labels) == name for name in np.unique(self.labels)}
        self.points_ = []
        for place, (label, rows) in enumerate(groups.items()):
            look = {**_look(place), "linestyle": "", "label": label, "alpha": 0.8}
            look["markersize"] = float(np.clip(120 / np.sqrt(n), 3.0, 6.0))
            x, y = self.x_scores[rows], self.y_scores[rows]
            self.points_ += self.ax_.plot(x, y, **{**look, **kwargs})
        number = self.component + 1
        correlation = column_correlations(self.x_scores[:, None], self.y_scores[:, None])[0]
        self.ax_.set(
            xlabel=f"score of X, component {number}",
            ylabel=f"score of y, component {number}",
            title=f"correlation {correlation:.3f}",
        )
        self.ax_.grid(alpha=0.3)
        if self.labels is not None:
            self.ax_.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), markerscale=1.5)
        return self


class LoadingsDisplay:
    """The features with the largest loadings on one component, of both views.

    Parameters
    ----------
    x_loadings, y_loadings : (m₁,) and (m₂,) loadings, in the order to be drawn.
    x_names, y_names : names of those features.
    component : which one, from 0.

    Attributes
    ----------
    ax_, figure_ : where it was drawn; `points_` : those of X and those of y.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from genelin import CCA, LoadingsDisplay
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> display = LoadingsDisplay.from_estimator(
    ...     CCA(n_components=1, scale=True).fit(X, Y), y_names=["weight", "waist", "pulse"]
    ... )
    >>> sorted(label.get_text() for label in display.ax_.get_yticklabels())
    ['pulse', 'waist', 'weight', 'x0', 'x1', 'x2']
    """

    def __init__(
        self,
        *,
        x_loadings: Array,
        y_loadings: Array,
        x_names: Sequence[str],
        y_names: Sequence[str],
        component: int = 0,
    ) -> None:
        self.x_loadings, self.y_loadings = x_loadings, y_loadings
        self.x_names, self.y_names = x_names, y_names
        self.component = component

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        component: int = 0,
        max_features: int = 10,
        x_names: Any = None,
        y_names: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> LoadingsDisplay:
        """Draw the loadings of a fitted `CCA`.

        Parameters
        ----------
        estimator : a fitted `CCA`.
        component : which component, from 0.
        max_features : how many features of each view, those with the largest magnitude.
        x_names, y_names : names of all features; None takes `feature_names_in_` for X where it is
            known, else x0, x1, …, and y0, y1, … for y.
        ax : axes to draw in; None makes new ones.
        **kwargs : for `ax.plot`.
        """
        loadings = _learned(estimator, "x_loadings_", "LoadingsDisplay"), estimator.y_loadings_
        _check_component(component, loadings[0])
        if not isinstance(max_features, int | np.integer) or max_features < 1:
            raise ValueError(f"max_features={max_features!r} must be an integer of at least 1")
        if x_names is None:
            x_names = getattr(estimator, "feature_names_in_", None)
        sides = []
        for view, matrix, given in zip("xy", loadings, (x_names, y_names), strict=True):
            names = feature_names(given, len(matrix), view)
            largest = np.argsort(-np.abs(matrix[:, component]), kind="stable")[:max_features]
            sides.append((matrix[largest, component], [names[place] for place in largest]))
        (x, x_chosen), (y, y_chosen) = sides
        display = cls(
            x_loadings=x, y_loadings=y, x_names=x_chosen, y_names=y_chosen, component=component
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> LoadingsDisplay:
        """Draw.

        Parameters
        ----------
        ax : axes to draw in; None makes new ones, as high as the names need.
        **kwargs : for `ax.plot`.
        """
        m, total = len(self.x_loadings), len(self.x_loadings) + len(self.y_loadings)
        self.ax_, self.figure_ = _axes(ax, "LoadingsDisplay", height=1.4 + 0.24 * total)
        places = -np.r_[:m, m + 0.5 : total + 0.5 : 1.0]  # downwards, with a gap between the views
        sides = (("X", self.x_loadings, places[:m]), ("y", self.y_loadings, places[m:]))
        self.points_ = []
        for place, (view, loadings, heights) in enumerate(sides):
            look = {**_look(place), "marker": "os"[place], "label": view}
            stem = {"color": look["color"], "linestyle": "-" if view == "X" else "--"}
            self.ax_.hlines(heights, 0.0, loadings, linewidth=1.2, **stem)
            self.points_ += self.ax_.plot(
                loadings, heights, **{**look, "linestyle": "", "markersize": 6, **kwargs}
            )
        self.ax_.axvline(0.0, color="0.4", linewidth=1)
        self.ax_.set_yticks(places, [*self.x_names, *self.y_names])
        self.ax_.set_ylim(float(places[-1]) - 0.7, 0.7)
        self.ax_.set_xlabel(f"loading on component {self.component + 1}")
        self.ax_.grid(axis="x", alpha=0.3)
        self.ax_.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
        return self


# --- Functions -----------------------------------------------------------------------------------


def plot_convergence(
    estimator: Any,
    *,
    by: str = "iteration",
    name: str | None = None,
    ax: Any = None,
    **kwargs: Any,
) -> ConvergenceDisplay:
    """Draw the residual of a fit over its iterations; see `ConvergenceDisplay.from_estimator`.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from genelin import CCA, CCALin, plot_convergence
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> plot_convergence(CCA(n_components=1, scale=True, method=CCALin()).fit(X, Y)).by
    'iteration'
    """
    return ConvergenceDisplay.from_estimator(estimator, by=by, name=name, ax=ax, **kwargs)


def plot_correlations(
    estimator: Any, X: Any = None, y: Any = None, *, ax: Any = None, **kwargs: Any
) -> CorrelationsDisplay:
    """Draw the canonical correlations; see `CorrelationsDisplay.from_estimator`.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from genelin import CCA, plot_correlations
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> plot_correlations(CCA(n_components=2).fit(X[:14], Y[:14]), X[14:], Y[14:]).held_out.shape
    (2,)
    """
    return CorrelationsDisplay.from_estimator(estimator, X, y, ax=ax, **kwargs)


def plot_scores(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    component: int = 0,
    labels: Any = None,
    ax: Any = None,
    **kwargs: Any,
) -> ScoresDisplay:
    """Draw the scores of one component; see `ScoresDisplay.from_estimator`.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from genelin import CCA, plot_scores
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> heavy = Y[:, 0] > 180
    >>> len(plot_scores(CCA(n_components=1).fit(X, Y), X, Y, labels=heavy).points_)
    2
    """
    return ScoresDisplay.from_estimator(
        estimator, X, y, component=component, labels=labels, ax=ax, **kwargs
    )


def plot_loadings(
    estimator: Any,
    *,
    component: int = 0,
    max_features: int = 10,
    x_names: Any = None,
    y_names: Any = None,
    ax: Any = None,
    **kwargs: Any,
) -> LoadingsDisplay:
    """Draw the largest loadings on one component; see `LoadingsDisplay.from_estimator`.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from genelin import CCA, plot_loadings
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> len(plot_loadings(CCA(n_components=1).fit(X, Y), max_features=2).x_names)
    2
    """
    return LoadingsDisplay.from_estimator(
        estimator,
        component=component,
        max_features=max_features,
        x_names=x_names,
        y_names=y_names,
        ax=ax,
        **kwargs,
    )


# --- What they share -----------------------------------------------------------------------------


def _axes(ax: Any, name: str, height: float = 4.0) -> tuple[Any, Any]:
    """The axes given, or new ones, with their figure."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{name} draws with matplotlib, which is not installed: pip install 'genelin[plot]'"
        ) from error
    if ax is None:
        _, ax = plt.subplots(figsize=(6.0, height), layout="constrained")
    return ax, ax.figure


def _look(place: int) -> dict[str, Any]:
    """Colour, mark and line of the curve or group at this place."""
    marker, fill = MARKS[place % len(MARKS)]
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": marker,
        "fillstyle": fill,
        "linestyle": LINES[place % len(LINES)],
    }


def _whole_ticks(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def _learned(estimator: Any, attribute: str, display: str) -> Array:
    """A learned attribute of a CCA, or an error that says what is needed."""
    check_is_fitted(estimator)
    if not hasattr(estimator, attribute):
        raise TypeError(
            f"{type(estimator).__name__} has no {attribute}: {display} draws a fitted genelin.CCA"
        )
    values: Array = getattr(estimator, attribute)
    return values


def _check_component(component: Any, columns: Array) -> None:
    most = columns.shape[1]
    whole = isinstance(component, Integral) and not isinstance(component, bool)
    if not whole or not 0 <= component < most:
        raise ValueError(
            f"component={component!r} must be an integer from 0 to {most - 1}: {most} were fitted"
        )


def _checked_labels(given: Any, n: int) -> NDArray[Any]:
    labels = np.asarray(given)
    if labels.shape != (n,):
        raise ValueError(f"labels has shape {labels.shape}: give one label for each of {n} rows")
    groups = len(np.unique(labels))
    if groups > len(MARKS):
        raise ValueError(
            f"labels has {groups} different values, of which at most {len(MARKS)} can be told "
            "apart: merge some, for example with numpy.digitize"
        )
    return labels


def feature_names(given: Any, count: int, prefix: str) -> list[str]:
    names = [f"{prefix}{place}" for place in range(count)] if given is None else list(given)
    if len(names) != count:
        raise ValueError(f"{prefix}_names has {len(names)} names for {count} features")
    return [str(name) for name in names]


def column_correlations(U: Any, V: Any) -> Array:
    """Plain correlations of the columns of U with those of V; 0 where one is constant."""
    U, V = (np.asarray(S, dtype=np.float64) for S in (U, V))
    U, V = U - U.mean(axis=0), V - V.mean(axis=0)
    lengths = np.linalg.norm(U, axis=0) * np.linalg.norm(V, axis=0)
    dots: Array = np.einsum("ij,ij->j", U, V)
    return np.asarray(np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0))
