"""What the canonical pairs say about the features: loadings, explained variance, redundancy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import pinvh

from genelin.linalg.column_products import Block, Vector
from genelin.problems import TwoView

__all__ = ["ViewStatistics", "view_statistics"]


@dataclass(frozen=True)
class ViewStatistics:
    """How scores stand to the features of one view, after centring and scaling.

    Attributes
    ----------
    loadings : (d, k) coefficients of the least-squares reconstruction of features from the
        view's own scores.
    from_other : (d, k) the same from the other view's scores.
    explained : (k,) share of the view's variance that each of its own scores explains alone.
    redundancy : (k,) share of it that each score of the other view explains alone.
    """

    loadings: Block
    from_other: Block
    explained: Vector
    redundancy: Vector


def view_statistics(
    problem: TwoView, Wx: Block, Wy: Block
) -> tuple[ViewStatistics, ViewStatistics]:
    """Statistics of both views from products with their covariances: two passes at most.

    Examples
    --------
    >>> import numpy as np
    >>> problem = TwoView(np.array([[0.0, 1.0], [2.0, 1.0]]), np.array([[0.0], [4.0]]))
    >>> of_x, of_y = view_statistics(problem, np.eye(2, 1), np.eye(1))
    >>> of_x.explained.tolist(), of_y.redundancy.tolist(), of_y.from_other.tolist()
    ([1.0], [1.0], [[2.0]])
    """
    formed = problem.has_moments  # then nothing is read again
    problem = problem.replace(reg=0.0, shrinkage=None, form=formed)
    S_x, S_y = problem.S_x, problem.S_y
    own = S_x @ Wx, S_y @ Wy
    other = problem.S_xy.both(Wx, Wy)
    between = Wx.T @ own[0], Wy.T @ own[1]  # (k, k) covariances of the scores
    totals = float(S_x.diagonal().sum()), float(S_y.diagonal().sum())
    of_x = _of_view(own[0], other[0], between, totals[0])
    return of_x, _of_view(own[1], other[1], between[::-1], totals[1])


def _of_view(
    own: Block, other: Block, between: tuple[Block, Block], total: float
) -> ViewStatistics:
    mine, theirs = between
    return ViewStatistics(
        loadings=own @ pinvh(mine),
        from_other=other @ pinvh(theirs),
        explained=_shares(own, mine, total),
        redundancy=_shares(other, theirs, total),
    )


def _shares(covariances: Block, between: Block, total: float) -> Vector:
    """Σ cov(feature, score)² / (var(score)·total), and zero for scores that do not vary."""
    squares, variances = np.square(covariances).sum(axis=0), between.diagonal() * total
    shares = np.zeros(len(squares))
    alive = variances > np.finfo(np.float64).tiny
    np.divide(squares, variances, out=shares, where=alive)
    return shares
