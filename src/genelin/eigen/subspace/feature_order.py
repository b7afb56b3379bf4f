"""Features in the order of how often they are seen: what is read most lies together in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genelin.linalg.column_products import Block
from genelin.operators import Rows
from genelin.problems import TwoView
from genelin.results import Callback, Record
from genelin.system.readonly import shared_csr

__all__ = ["FeatureOrder"]

Order = NDArray[np.intp]


@dataclass(frozen=True)
class FeatureOrder:
    """Columns of X and of Y, the most frequent first; results go back to the order of the data.

    A product with sparse rows jumps about in blocks of d×m numbers. By this order most jumps stay
    within a part that fits the cache.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> X = sparse.csr_array(np.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> ordering = FeatureOrder.of(TwoView(X, X, center=False))
    >>> ordering.x.tolist(), ordering.problem(TwoView(X, X)).X.matrix.toarray().tolist()
    ([1, 0], [[1.0, 0.0], [3.0, 2.0]])
    """

    x: Order
    y: Order

    @classmethod
    def of(cls, problem: TwoView) -> FeatureOrder:
        """The order by frequency."""
        return cls(_by_frequency(problem.X), _by_frequency(problem.Y))

    def problem(self, problem: TwoView) -> TwoView:
        """The same problem with its columns in this order, through the rows of the data."""
        X, Y = _reordered(problem.X, self.x), _reordered(problem.Y, self.y)
        return problem.replace(views=(X, Y), form=False)

    def into(self, Wx: Block, Wy: Block) -> tuple[Block, Block]:
        """Weights of the columns as they are, for those in this order."""
        return Wx[self.x], Wy[self.y]

    def back(self, Wx: Block, Wy: Block) -> tuple[Block, Block]:
        """Weights of the columns in this order, for those as they are."""
        return _returned(Wx, self.x), _returned(Wy, self.y)

    def told(self, callback: Callback | None, ordered: TwoView) -> Callback | None:
        """A callback that sees vectors in the order of the data.

        Those of deficient views, in coordinates of their range, become weights of all columns.
        """
        if callback is None:
            return None
        whole = np.concatenate([self.x, len(self.x) + self.y])

        def tell(record: Record, W: Block) -> object:
            if len(W) < len(whole):
                cut = ordered.pencil.B.diagonal_blocks[0].shape[0]
                W = np.vstack(ordered.lift(W[:cut], W[cut:]))
            vectors = _returned(W, whole)
            vectors.flags.writeable = False
            return callback(record, vectors)

        return tell


def _by_frequency(rows: Rows) -> Order:
    return np.argsort(-rows.frequencies, kind="stable")


def _reordered(rows: Rows, order: Order) -> Rows:
    X = rows.matrix
    place = np.empty(len(order), dtype=X.indices.dtype)
    place[order] = np.arange(len(order), dtype=place.dtype)
    return Rows(shared_csr(X.data, place[X.indices], X.indptr, X.shape), rows.weights)


def _returned(W: Block, order: Order) -> Block:
    out = np.empty_like(W)
    out[order] = W
    return out
