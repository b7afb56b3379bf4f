"""Scores of some rows, few enough to be drawn and kept in a page."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from genelin.estimators.displays import column_correlations
from genelin.io.damaged_files import shortened
from genelin.report.report_model import Array, ReportModel

__all__ = ["Drawn", "drawn_scores", "held_out_correlations"]

MOST_POINTS = 2000  # rows in a picture: more of them hide each other
MOST_NUMBERS = 160_000  # in all scores of a page: 0.9 MB once written
MOST_GROUPS = 10  # classes with a colour each
LONGEST = 80  # letters of the name of one


@dataclass(frozen=True)
class Drawn:
    """Scores of rows chosen at random.

    Attributes
    ----------
    rows : (m,) their numbers, ascending.
    total : how many rows there were to choose from.
    scores : view ("X", "y" or "") → (m, components) scores.
    groups : (m,) place of every row's class in `classes`, or None.
    classes : names of the classes.
    """

    rows: NDArray[np.int64]
    total: int
    scores: dict[str, NDArray[np.float32]]
    groups: NDArray[np.int64] | None = None
    classes: tuple[str, ...] = ()

    @property
    def axes(self) -> tuple[str, str]:
        """Names of the scores that are drawn at first: both views, or the first two components."""
        first, *others = self.scores
        if others:
            return f"{first}0", f"{others[0]}0"
        return f"{first}0", f"{first}{min(1, self.scores[first].shape[1] - 1)}"

    @property
    def sampled(self) -> bool:
        """Whether some rows were left out."""
        return len(self.rows) < self.total


def drawn_scores(model: ReportModel, X: Any, y: Any, components: int) -> Drawn | None:
    """Scores of a sample of rows of X and y; None where no data were given."""
    if X is None and y is None:
        return None
    if model.estimator is None:
        raise ValueError(
            f"X was given, but a {type(model.solution).__name__} does not know how its data were "
            "centred and scaled: fit an estimator to have scores in the report, or leave X and y "
            "out"
        )
    if X is None or (model.two_views and y is None):
        missing = "X" if X is None else "y"
        raise ValueError(f"{missing} is missing: scores need the rows of both views, or of none")
    total = _row_count(X, "X")
    if y is not None and _row_count(y, "y") != total:
        raise ValueError(
            f"X has {total} rows but y has {_row_count(y, 'y')}: they must describe the same rows"
        )
    most = max(100, MOST_NUMBERS // (components * len(model.views)))
    rows = _sample(total, min(MOST_POINTS, most))
    with warnings.catch_warnings():  # rows taken from a file have lost the names of their columns
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        if not model.two_views:
            scores = {"": model.estimator.transform(_taken(X, rows))}
            return Drawn(rows, total, _small(scores, components), *_grouped(y, rows))
        of_x, of_y = model.estimator.transform(_taken(X, rows), _taken(y, rows))
    return Drawn(rows, total, _small({"X": of_x, "y": of_y}, components))


def held_out_correlations(model: ReportModel, held_out: Any) -> Array | None:
    """Correlations of the scores of rows that were not in the fit, or the numbers as given."""
    if held_out is None:
        return None
    if not model.two_views:
        raise ValueError("held_out is about correlations of two views: leave it out here")
    k = len(model.values)
    if isinstance(held_out, tuple | list) and len(held_out) == 2 and _is_table(held_out[0]):
        if model.estimator is None:
            raise ValueError(
                "held_out=(X, y) needs a fitted CCA: for a CCASolution give the k correlations"
            )
        return column_correlations(*model.estimator.transform(*held_out))
    numbers = np.asarray(held_out, dtype=np.float64)
    if numbers.shape != (k,) or not np.isfinite(numbers).all():
        raise ValueError(
            f"held_out must be a pair (X, y) of rows that were not in the fit, or {k} correlations "
            f"of their scores, got shape {numbers.shape}"
        )
    return numbers


def _is_table(X: Any) -> bool:
    return len(getattr(X, "shape", None) or np.shape(X)) == 2


def _small(scores: dict[str, Any], components: int) -> dict[str, NDArray[np.float32]]:
    return {
        view: np.ascontiguousarray(np.asarray(matrix)[:, :components], dtype=np.float32)
        for view, matrix in scores.items()
    }


def _sample(total: int, most: int) -> NDArray[np.int64]:
    if total <= most:
        return np.arange(total)
    return np.sort(np.random.default_rng(0).choice(total, most, replace=False))


def _row_count(X: Any, name: str) -> int:
    shape = getattr(X, "shape", None)
    try:
        return int(shape[0]) if shape else len(X)
    except TypeError as error:
        raise TypeError(f"{name} is a {type(X).__name__} without rows") from error


def _taken(X: Any, rows: NDArray[np.int64]) -> Any:
    """Some rows, in memory, whatever kind of table they are in."""
    if hasattr(X, "row_source"):
        return X.row_source().taken(rows)
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if sparse.issparse(X):
        return X.tocsr()[rows]
    if isinstance(X, list | tuple):
        X = np.asarray(X)
    taken = X[rows]
    return taken.compute() if hasattr(taken, "compute") else taken


def _grouped(y: Any, rows: NDArray[np.int64]) -> tuple[Any, tuple[str, ...]]:
    """Classes of the rows, where y has few enough of them to tell apart."""
    if y is None:
        return None, ()
    classes, groups = np.unique(np.asarray(y).ravel(), return_inverse=True)
    if len(classes) > MOST_GROUPS:
        return None, ()
    return groups[rows], tuple(shortened(str(name), LONGEST) for name in classes)
