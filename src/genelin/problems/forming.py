"""Whether a covariance is cheaper to form than to apply through the rows."""

from __future__ import annotations

import numpy as np

from genelin.operators import Rows

__all__ = ["SMALL", "estimated_entries", "worth_forming"]

SMALL = 2048  # up to here a d×d matrix is formed and factored without a thought


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
