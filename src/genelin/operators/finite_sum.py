"""A covariance as the sum over rows that it is: (weight/n) Σ xᵢxᵢᵀ + reg·I."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from genelin.data.row_blocks import DENSE_BLOCK, RowBlock
from genelin.data.rows import Rows
from genelin.linalg.column_products import Block, Vector
from genelin.system.cached import cached_property

__all__ = ["RowSum", "Sample"]

RUN = 2**15  # bytes of neighbouring rows that are drawn together: memory is read in order, then
LONGEST = (32, 512)  # rows of a run, where rows are few and many:
FEWEST = 2048  # runs that many rows have at least
PROBED = 64  # runs from which it is told how alike neighbours are
NARROW = 4  # columns below which another thread does not pay


@dataclass(frozen=True)
class Sample:
    """Rows in the order of their steps, and the factors that make Σ ωᵢxᵢxᵢᵀ/m a fair estimate."""

    rows: NDArray[np.int64]
    weights: Vector

    def __len__(self) -> int:
        return len(self.rows)


class RowSum:
    """(weight/n) Σ xᵢxᵢᵀ + reg·I over the centred and scaled rows xᵢ of a data set.

    Iterating gives blocks of consecutive rows, each with `dot` and `transposed_dot`.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin.operators import Gram
    >>> rows = Gram(np.array([[3.0, 4.0], [0.0, 1.0]]), reg=0.1).row_blocks()
    >>> rows.n, rows.squared_norms.tolist()
    (2, [25.0, 1.0])
    >>> sum(block.transposed_dot(block.dot(np.eye(2))) for block in rows).tolist()
    [[9.0, 12.0], [12.0, 17.0]]
    """

    def __init__(
        self,
        rows: Rows,
        mean: Vector | None,
        factors: Vector | None,
        weight: float,
        reg: float,
    ) -> None:
        self.n, self.d, self.weight, self.reg = rows.n, rows.d, weight, reg
        self._data, self._mean, self._factors = rows, mean, factors
        self._read: Callable[[float, float], None] = lambda stored, flops: None

    def metered(self, read: Callable[[float, float], None]) -> RowSum:
        """The same rows; `read(stored, flops)` is told of every reading."""
        twin = copy(self)
        twin._read = read
        return twin

    def __iter__(self) -> Iterator[RowBlock]:
        self._read(self._data.stored, 0.0)
        for start, stop in self._data.limits(self.d):
            yield self._scaled(self._data.block(start, stop, self._mean))

    def _scaled(self, block: RowBlock) -> RowBlock:
        if self._factors is None:
            return block
        mean = None if block.mean is None else block.mean * self._factors
        return RowBlock(_times_columns(block.matrix, self._factors), mean, block.weights)

    @cached_property
    def squared_norms(self) -> Vector:
        """ωᵢ‖xᵢ‖² of every row, with the weight it has; reads the data once."""
        parts = []
        for block in self:
            X = block.matrix
            if block.mean is None and isinstance(X, np.ndarray):
                parts.append(np.einsum("ij,ij->i", X, X, dtype=np.float64))
                continue
            squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
            if block.mean is not None:
                squares = squares - 2.0 * (X @ block.mean) + block.mean @ block.mean
            parts.append(np.maximum(squares, 0.0))
        squares = np.concatenate(parts)
        return squares if self._data.weights is None else squares * self._data.weights

    @cached_property
    def _shares(self) -> Vector:
        """‖x₁‖² + … + ‖xᵢ‖², by which rows are drawn."""
        return np.cumsum(self.squared_norms)

    def sample(self, size: int, rng: np.random.Generator, by_norm: bool) -> Sample:
        """Draw rows, alike or in proportion to ‖xᵢ‖²: one from each of `size` equal parts.

        Rows that are neighbours in memory are drawn in short runs, and the runs are shuffled.
        """
        parts = (np.arange(size) + rng.random(size)) / size
        if by_norm and self._shares[-1] > 0:
            rows = np.searchsorted(self._shares, parts * self._shares[-1], side="right")
            squares = self.squared_norms[rows.clip(max=self.n - 1)]
            mean = self.weight * self._shares[-1] / self.n
            weights = np.divide(mean, squares, out=np.zeros(size), where=squares > 0)
        else:
            rows, weights = (parts * self.n).astype(np.int64), np.full(size, self.weight)
        order, rows = _shuffled_runs(size, self._run, rng), rows.clip(max=self.n - 1)
        if self._data.weights is not None:
            weights *= self._data.weights[rows]
        return Sample(rows[order], weights[order])

    @property
    def best_batch(self) -> int:
        """Rows per step beyond which a step is not cheaper per row."""
        return 1 if self._data.is_sparse else 8

    @cached_property
    def _run(self) -> int:
        """Neighbouring sparse rows that are drawn together: fewer where neighbours are alike."""
        if not self._data.is_sparse:
            return 1
        longest = np.clip(self.n // FEWEST, *LONGEST)
        most = int(np.clip(RUN * self.n // max(12 * self._data.stored, 1), 1, longest))
        return int(max(most / _likeness(self._data, most), 1.0)) if most > 1 else 1

    def estimate(self, V: Block, sample: Sample) -> Block:
        """(Σ ωᵢxᵢxᵢᵀ/m + reg·I) V over the m rows of a sample: BV, on average."""
        share = len(sample) / self.n
        self._read(share * self._data.stored, 4.0 * share * self._data.stored * V.shape[1])
        part = Rows(self._data.matrix[sample.rows])  # their weights are in the sample
        block = self._scaled(part.block(0, part.n, self._mean))
        product: Block = block.transposed_dot(block.dot(V) * (sample.weights / part.n)[:, None])
        return product + self.reg * V

    def averaged_steps(self, r: Block, sample: Sample, eta: float, batch: int) -> Block:
        """Mean of the later half of the steps c ← c − η(Hc − r) from c = 0, towards B⁻¹r.

        H is Σ ωᵢxᵢxᵢᵀ/batch + reg·I over the next rows of the sample, `batch` at a time. Columns
        do not depend on each other: they are shared out among threads.
        """
        share = len(sample) / self.n
        self._read(share * self._data.stored, 6.0 * share * self._data.stored * r.shape[1])
        steps = self._sparse_steps if self._data.is_sparse else self._dense_steps
        groups = np.array_split(r, _threads(r.shape[1]), axis=1)
        with ThreadPoolExecutor(len(groups)) as pool:
            return np.hstack(steps(groups, sample, eta, batch, pool))

    def _dense_steps(
        self, groups: list[Block], sample: Sample, eta: float, batch: int, pool: ThreadPoolExecutor
    ) -> list[Block]:
        from genelin.kernels import dense_steps

        tail, stride = -(-len(sample) // batch) // 2, max(1, 8 // batch)
        chunk = batch * max(1, DENSE_BLOCK // (4 * self.d * batch))
        runs = [(*np.zeros((2, *r.shape[::-1])), np.ascontiguousarray(r.T)) for r in groups]
        added = 0
        for start in range(0, len(sample), chunk):
            part = slice(start, start + chunk)
            rows, weights = self._dense_rows(sample.rows[part]), sample.weights[part]
            step = partial(
                dense_steps,
                *(rows, weights),
                batch=batch,
                eta=eta,
                reg=self.reg,
                first=start // batch,
                tail=tail,
                stride=stride,
            )
            added += max(pool.map(step, *zip(*runs, strict=True)))
        return [total.T / added for _, total, _ in runs]

    def _dense_rows(self, rows: NDArray[np.int64]) -> Block:
        X: Block = np.asarray(self._data.matrix[rows], dtype=np.float64, order="C")
        if self._mean is not None:
            X -= self._mean
        if self._factors is not None:
            X *= self._factors
        return X

    def _sparse_steps(
        self, groups: list[Block], sample: Sample, eta: float, batch: int, pool: ThreadPoolExecutor
    ) -> list[Block]:
        from genelin.kernels import sparse_steps

        X, tail = self._scaled_matrix, -(-len(sample) // batch) // 2
        # To add an iterate costs d·k: a quarter of the steps in between, or less.
        sparing = -(-4 * self.d * self.n // (X.nnz * batch + 1))
        stride = max(1, min(max(sparing, 8 // batch), tail // 64))

        def average(r: Block) -> Block:
            total, added = sparse_steps(
                X,
                *(sample.rows, sample.weights, r, batch, eta, self.reg, tail, stride),
                self._centre,
            )
            return np.asarray(total / added)

        return list(pool.map(average, groups))

    @cached_property
    def _centre(self) -> tuple[Vector, Vector] | None:
        """The mean m of the scaled rows, and the product of each of them with it."""
        if self._mean is None:
            return None
        mean = self._mean if self._factors is None else self._mean * self._factors
        return mean, np.asarray(self._scaled_matrix @ mean)

    @cached_property
    def _scaled_matrix(self) -> Any:
        X = self._data.matrix
        return X if self._factors is None else _times_columns(X, self._factors)


def _times_columns(X: Any, factors: Vector) -> Any:
    """X·diag(factors), sparse if X is."""
    if isinstance(X, np.ndarray):
        return X * factors
    scaled = copy(X)
    scaled.data = X.data * factors[X.indices]
    return scaled


def _likeness(data: Rows, run: int) -> float:
    """E‖Σ(xᵢ − μ)‖² of runs of neighbours, against rows in random order: 1 … run.

    Steps along a run go as far as so many along its first row, where rows are sorted.
    """
    starts = np.linspace(0, data.n - run, min(PROBED, max(data.n // run, 1))).astype(np.int64)
    X = data.taken((starts[:, None] + np.arange(run)).ravel().clip(0, data.n - 1)).matrix
    sums = sparse.kron(sparse.eye_array(len(starts)), np.ones((1, run)), format="csr") @ X
    mean = np.asarray(X.mean(axis=0)).ravel()
    spread = float(X.multiply(X).sum()) - X.shape[0] * float(mean @ mean)
    of_runs = float(sums.multiply(sums).sum()) - len(starts) * run**2 * float(mean @ mean)
    return float(np.clip(of_runs / spread, 1.0, run)) if spread > 0 else 1.0


def _shuffled_runs(size: int, run: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """0 … size − 1 in runs of neighbours, the runs in random order."""
    if run == 1:
        return rng.permutation(size)
    starts = rng.permutation(-(-size // run)) * run
    order = (starts[:, None] + np.arange(run)).ravel()
    return order[order < size]


def _threads(columns: int) -> int:
    """Threads for the columns of a block: they do not depend on each other."""
    from genelin.kernels.compiled import threads

    return max(1, min(threads(), columns // NARROW))
