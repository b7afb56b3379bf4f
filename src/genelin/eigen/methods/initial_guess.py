"""Where to begin: what the user gives, or the same problem in the features that are seen most."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from genelin.eigen.methods.dense import Dense
from genelin.linalg.column_products import Block
from genelin.operators import Counter, Rows
from genelin.problems import Pencil, TwoView, worth_forming
from genelin.results import CCASolution, EigenSolution
from genelin.validation import check_numbers

__all__ = ["beside", "frequent_features_guess", "guess_for_pencil", "guess_for_views", "streams"]

FREQUENT = 1000  # features of a view that are solved densely, at most
WORTH = 2.0  # passes over the data whose work the dense solution may take
DENSE = 10.0  # d³ of it for two views of d features
PASSES = 3  # to form their covariances from rows that are not in memory
SHARE = 0.25  # of all entries that they must hold


def frequent_features_guess(
    problem: TwoView, k: int, counter: Counter
) -> tuple[Block, Block] | None:
    """Canonical pairs of the most frequent features of sparse views, as a pair of blocks.

    Where features follow a power law, a thousand of them hold most entries, and their pairs are
    far closer to those of all features than random columns. Fewer are taken where that dense
    problem would be more work than a few passes over the data. None where they hold little, or
    where products are cheap because the covariances are formed.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> X = sparse.csr_array(np.repeat(np.eye(3), 5, axis=0))
    >>> counter = Counter(data_size=30)
    >>> Wx, Wy = frequent_features_guess(TwoView(X, X, reg=0.1, form=False), 1, counter)
    >>> Wx.shape, counter.passes
    ((3, 1), 0.6666666666666666)
    >>> frequent_features_guess(TwoView(X, X, reg=0.1, form=True), 1, counter)
    """
    views = (problem.X, problem.Y)
    if not streams(problem):
        return None
    pass_work = 4.0 * problem.data_size * k
    most = int(min(FREQUENT, max((WORTH * pass_work / DENSE) ** (1 / 3), 2 * k)))
    x, y = (_frequent(rows, most) for rows in views)
    X, Y = (rows.columns(chosen) for rows, chosen in zip(views, (x, y), strict=True))
    stored = X.stored + Y.stored
    if stored < SHARE * problem.data_size:
        return None
    part = TwoView(X, Y, problem.regs, problem.center, problem.scale, form=True)
    solution = Dense()(part, min(k, *part.splits))
    reads = float(stored) if X.in_memory else PASSES * problem.data_size
    counter.read(reads, solution.cost.flops)
    Wx, Wy = (np.zeros((d, len(solution.correlations))) for d in problem.splits)
    Wx[x], Wy[y] = solution.x_weights, solution.y_weights
    return Wx, Wy


def streams(problem: TwoView) -> bool:
    """Whether products read sparse rows, because no covariance is formed.

    Examples
    --------
    >>> from scipy import sparse
    >>> X = sparse.eye_array(3, format="csr")
    >>> streams(TwoView(X, X, reg=0.1, form=False)), streams(TwoView(X, X, reg=0.1, form=True))
    (True, False)
    """
    views = (problem.X, problem.Y)
    pairs = ((x, y) for x in views for y in views)
    sparse = all(rows.is_sparse for rows in views)
    return sparse and not any(worth_forming(*pair, problem.form) for pair in pairs)


def _frequent(rows: Rows, most: int) -> NDArray[np.intp]:
    """The columns with the most entries, in their order."""
    most = min(most, rows.d)
    return np.sort(np.argpartition(-rows.frequencies, most - 1)[:most])


def beside(start: tuple[Block, Block], more: tuple[Block, Block]) -> tuple[Block, Block]:
    """The columns of both, for either view."""
    x, y = (np.hstack(blocks) for blocks in zip(start, more, strict=True))
    return x, y


def guess_for_views(given: Any, problem: TwoView) -> tuple[Block, Block] | None:
    """A start for two views as one block for each."""
    if given is None:
        return None
    if isinstance(given, CCASolution):
        given = (given.x_weights, given.y_weights)
    if not isinstance(given, tuple):
        given = np.split(np.atleast_1d(check_numbers("start", given)), [problem.splits[0]])
    if len(given) != 2:
        raise ValueError(f"start has {len(given)} blocks: it must have one for X and one for Y")
    x, y = (np.atleast_1d(check_numbers("start", W)) for W in given)
    shapes = [(len(W), W.shape[1:]) for W in (x, y)]
    if shapes != [(d, x.shape[1:]) for d in problem.splits] or x.ndim != 2:
        raise ValueError(
            f"start has blocks of shape {x.shape} and {y.shape}: it must be a solution, or columns "
            f"for the {problem.splits[0]} features of X and the {problem.splits[1]} of Y"
        )
    return x, y


def guess_for_pencil(given: Any, pencil: Pencil) -> Block:
    """Columns to begin with, from a solution or from blocks."""
    if given is None:
        return np.empty((pencil.d, 0))
    if isinstance(given, EigenSolution):
        given = given.vectors
    blocks = given if isinstance(given, tuple) else (given,)
    parts = [check_numbers("start", block) for block in blocks]
    matching = len({part.shape[1:] for part in parts}) == 1 and parts[0].ndim == 2
    W = np.vstack(parts) if matching else np.empty(0)
    if W.ndim != 2 or len(W) != pencil.d or not np.all(np.isfinite(W)):
        raise ValueError(
            f"start has shape {W.shape}: it must be finite columns of length {pencil.d}, or a "
            "solution of a problem of that size"
        )
    return W
