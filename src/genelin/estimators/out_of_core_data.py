"""Data that are not in memory, on their way into an estimator and out of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from genelin.linalg.column_products import Block, Vector
from genelin.operators import Rows, as_rows

__all__ = ["feature_rows", "lazy_scores"]


def feature_rows(estimator: Any, X: Any, sample_weight: Any = None, reset: bool = False) -> Rows:
    """The rows of X, whose features are noted (`reset`) or compared with those of the fit.

    Examples
    --------
    >>> from genelin import CCA
    >>> from genelin.operators import as_rows
    >>> cca = CCA()
    >>> feature_rows(cca, as_rows([[1.0, 2.0], [3.0, 5.0]]), reset=True).d, cca.n_features_in_
    (2, 2)
    """
    rows = as_rows(X, "X", sample_weight)
    names = _names(X)
    if reset:
        estimator.n_features_in_ = rows.d
        estimator.__dict__.pop("feature_names_in_", None)
        if names is not None:
            estimator.feature_names_in_ = names
    else:
        _refuse_other_features(estimator, rows.d, names)
    return rows


def lazy_scores(
    estimator: Any, X: Any, mean: Vector, spread: Vector, W: Block, name: str = "X"
) -> Any:
    """(X − mean) / spread @ W of a Dask collection, as a Dask array that is not computed yet.

    Examples
    --------
    >>> import dask.array as da
    >>> from genelin import CCA
    >>> cca = CCA(1).fit([[0.0, 1.0], [1.0, 1.5], [2.0, 0.0]], [0.0, 1.0, 3.0])
    >>> lazy_scores(cca, da.ones((4, 2), chunks=2), np.zeros(2), np.ones(2), np.eye(2)).chunks
    ((2, 2), (2,))
    """
    from genelin.data.dask_rows import lazily_projected

    width = X.shape[1] if X.ndim == 2 else 1
    if name == "X":
        _refuse_other_features(estimator, width, _names(X))
    elif width != len(W):
        raise ValueError(f"{name} has {width} columns, but {len(W)} were given to fit")
    return lazily_projected(X, mean, spread, W)


def _names(X: Any) -> Any:
    """Names of columns, where all of them are strings."""
    columns = getattr(X, "columns", getattr(X, "column_names", None))
    if isinstance(X, Rows) or columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return np.asarray(columns, dtype=object)


def _refuse_other_features(estimator: Any, d: int, names: Any) -> None:
    if d != estimator.n_features_in_:
        raise ValueError(
            f"X has {d} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
    known = getattr(estimator, "feature_names_in_", None)
    if names is not None and known is not None and list(names) != list(known):
        raise ValueError(
            "The feature names should match those that were passed during fit: give the columns "
            "of X in the same order"
        )
