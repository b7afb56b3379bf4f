"""Rows in parts, as a file or a cluster has them."""

import pickle

from scipy import sparse

from genelin.operators import Part


class InParts:
    """A source over a matrix that is handed out in unequal parts; tasks are pickled."""

    name = "X"

    def __init__(self, matrix, step=17):
        self._matrix, self._step = matrix, step
        self.shape, self.dtype = matrix.shape, matrix.dtype
        self.is_sparse = bool(sparse.issparse(matrix))
        self.stored = matrix.nnz if self.is_sparse else matrix.size
        self.reads = 0.0

    def row_source(self):
        return self

    def summed(self, task, other=None, weights=None, columns=1):
        task, total = pickle.loads(pickle.dumps(task)), None
        self.reads += 1
        for start in range(0, self.shape[0], self._step):
            stop = start + self._step
            y = None if other is None else other._matrix[start:stop]
            omega = None if weights is None else weights[start:stop]
            result = task(Part(start, self._matrix[start:stop], y, omega))
            total = result if total is None else task.merge(total, result)
        return total

    def taken(self, rows):
        return self._matrix[rows]

    def beside(self, matrix):
        return InParts(matrix, self._step)
