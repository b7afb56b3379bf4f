"""Data that are not in memory, on their way into an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from genelin.operators import Rows, as_rows

__all__ = ["feature_rows"]


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
    rows, kind = as_rows(X, "X", sample_weight), type(estimator).__name__
    columns = getattr(X, "columns", getattr(X, "column_names", None))
    names = None if columns is None else np.asarray(columns, dtype=object)
    if names is not None and not all(isinstance(name, str) for name in names):
        names = None
    if reset:
        estimator.n_features_in_ = rows.d
        estimator.__dict__.pop("feature_names_in_", None)
        if names is not None:
            estimator.feature_names_in_ = names
        return rows
    if rows.d != estimator.n_features_in_:
        raise ValueError(
            f"X has {rows.d} features, but {kind} is expecting {estimator.n_features_in_} features "
            "as input"
        )
    known = getattr(estimator, "feature_names_in_", None)
    if names is not None and known is not None and list(names) != list(known):
        raise ValueError(
            "The feature names should match those that were passed during fit: give the columns "
            "of X in the same order"
        )
    return rows
