"""Scores: rows projected on canonical weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from genelin.data.row_blocks import row_block, row_limits
from genelin.linalg.column_products import Block, Vector
from genelin.operators import Part, Rows, Task

__all__ = ["Scores", "mean_correlation", "projected"]


class Scores(NamedTuple):
    """Scores of both views: a pair, and the x-scores wherever one array is asked for.

    So `U, V = cca.fit_transform(X, Y)` works as in scikit-learn, and so does a step that follows
    in a `Pipeline`, which is fitted to the x-scores.

    Examples
    --------
    >>> import numpy as np
    >>> scores = Scores(np.zeros((3, 1)), np.ones((3, 1)))
    >>> U, V = scores
    >>> np.asarray(scores) is U, scores.shape
    (True, (3, 1))
    """

    x: Any
    y: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the x-scores."""
        return tuple(self.x.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.x, dtype=dtype) if copy else np.asarray(self.x, dtype=dtype)


def projected(rows: Rows, mean: Vector, spread: Vector, W: Block) -> Any:
    """(X − mean) / spread @ W in the precision of X, block by block.

    Examples
    --------
    >>> import numpy as np
    >>> rows = Rows(np.array([[1.0, 4.0], [3.0, 0.0]]))
    >>> projected(rows, np.array([2.0, 2.0]), np.array([1.0, 2.0]), np.eye(2)).tolist()
    [[-1.0, 1.0], [1.0, -1.0]]
    """
    scores = np.empty((rows.n, W.shape[1]), rows.dtype)
    (parts,) = rows.summed(_Projection(W / spread[:, None], mean, rows.dtype), None, W.shape[1])
    for start, part in parts:
        scores[start : start + len(part)] = part
    return scores


@dataclass(frozen=True)
class _Projection(Task):
    """(X − mean) P of every part, with the place where it belongs."""

    P: Block
    mean: Vector
    dtype: Any

    def __call__(self, part: Part) -> tuple[Any, ...]:
        scores = np.empty((part.x.shape[0], self.P.shape[1]), self.dtype)
        for start, stop in row_limits(part.x, self.P.shape[1]):
            scores[start:stop] = row_block(part.x, None, (start, stop), self.mean).dot(self.P)
        return ([(part.start, scores)],)


def mean_correlation(U: Block, V: Block, weights: Vector | None = None) -> float:
    """Mean over columns of the correlation of U's with V's, 0 for columns that do not vary.

    Examples
    --------
    >>> import numpy as np
    >>> mean_correlation(np.array([[0.0], [1.0]]), np.array([[3.0], [1.0]]))
    -1.0
    """
    weights = np.ones(len(U)) if weights is None else weights
    shares = weights / weights.sum()
    (U, u_spread), (V, v_spread) = (_centred(S, shares) for S in (U, V))
    alive = (u_spread > 0) & (v_spread > 0)
    correlations = np.divide(
        shares @ (U * V), u_spread * v_spread, out=np.zeros(len(alive)), where=alive
    )
    return float(np.clip(correlations, -1.0, 1.0).mean())


TINY = np.finfo(np.float64).tiny


def _centred(S: Block, shares: Vector) -> tuple[Block, Vector]:
    """Deviations from the mean, and their spread: zero where it is no more than rounding."""
    rounding = 10 * np.finfo(S.dtype).eps
    S = S.astype(np.float64)
    S /= np.maximum(np.abs(S).max(axis=0, initial=0.0), TINY)  # squares stay finite
    size = np.sqrt(shares @ S**2)
    S = S - shares @ S
    spread = np.sqrt(shares @ S**2)
    return S, np.where(spread > rounding * size, spread, 0.0)
