"""XᵀΩ(Y·V − 1·shiftᵀ) where columns of X have few entries: threads share out these columns.

Rows are shared out for U = Ω(YV − 1·shiftᵀ), a chunk of rows at a time; then columns are, for XᵀU.
So threads need no products of their own, which would have to be cleared and added up, and which
together are less likely to fit the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from genelin.kernels.cache_model import anywhere, arrays, from_disk, rows_of
from genelin.kernels.codegen.row_kernels import bracket, spread
from genelin.kernels.codegen.simd import at
from genelin.kernels.compiled import balanced, compiled, exactly
from genelin.system.buffer_pool import empty, zeros
from genelin.system.threads import equal, in_threads

__all__ = ["by_columns", "cross_by_columns"]

SHORT = 32  # entries of a column, on average, at most
LONG, LONG_ANYWHERE = 32, 8  # entries of a row, at least; the latter where entries lie anywhere
AT_HAND = 2**23  # bytes of products that threads may have of their own and still reach fast
CHUNK = 2**17  # rows of U that are kept
SAMPLE = 2**10  # entries that tell where columns are to be cut


@compiled
def _bracket(Y, V, start, weights, U, total, first, last):
    bracket(Y, V, start, weights, U, total, first, last)


@compiled
def _spread(X, begins, ends, U, out, first, last):
    spread(X, begins, ends, U, out, first, last)


@exactly
def _cut(indices, indptr, bounds, cuts, first, last):
    """cuts[t, i − first]: where columns from bounds[t] on begin in row i, which is sorted."""
    for i in range(first, last):
        low, end = indptr[i], indptr[i + 1]
        for t in range(len(bounds)):
            high = end
            while low < high:
                middle = (low + high) // 2
                if at(indices, middle) < bounds[t]:
                    low = middle + 1
                else:
                    high = middle
            cuts[t, i - first] = low


def by_columns(X: Any, Y: Any, shares: list[float], product: Any, count: int) -> bool:
    """Whether XᵀU had better be shared out by columns of X among so many threads.

    Columns are short, rows are long enough to be cut, and products of all threads are large. Rows
    in a mapped file are not read twice.
    """
    stored, (n, d) = X.nnz, X.shape
    least = n * (LONG_ANYWHERE if anywhere(shares) else LONG)
    fits = least <= stored <= SHORT * d and count * product.nbytes > AT_HAND
    return bool(count > 1 and fits and not from_disk(X, Y) and X.has_sorted_indices)


def cross_by_columns(
    X: Any, Y: Any, V: Any, shares: list[float], start: Any, weights: Any, product: Any, count: int
) -> Any:
    """Write XᵀU to `product` for U = Ω(YV + 1·start) and sorted rows of X; the column sums of U.

    Parameters
    ----------
    X, Y : sparse matrices.
    V, start, product : blocks whose columns come by fours.
    shares : of entries that need rows of blocks that are out of cache.
    weights : of rows, or None.
    count : how many threads.
    """
    x, (y,), bounds, n = arrays(X), rows_of(shares, Y), _bounds(X, count), X.shape[0]
    U = empty((min(n, CHUNK), V.shape[1]), V.dtype)
    cuts, total = empty((count + 1, len(U)), np.int64), zeros(start.shape, np.float64)
    for low, high in equal(n, -(-n // CHUNK)):

        def brackets(first: int, last: int, low: int = low) -> Any:
            sums, span = zeros(start.shape, np.float64), (low + first, low + last)
            _bracket(y, V, start, weights, U[first:last], sums, *span)
            _cut(*x[1:], bounds, cuts[:, first:last], *span)
            return sums

        def columns(t: int, low: int = low, high: int = high) -> None:
            if low == 0:
                product[bounds[t] : bounds[t + 1]] = 0
            _spread(x, cuts[t], cuts[t + 1], U, product, low, high)

        total += sum(in_threads(brackets, balanced(Y.indptr[low : high + 1], count)))
        in_threads(columns, [(t,) for t in range(count)])
    return total


def _bounds(X: Any, count: int) -> Any:
    """Columns [0, …, d] that share out entries among so many threads, by a sample of them."""
    stored = int(X.indptr[-1])
    sample = np.sort(X.indices[: stored : max(stored // SAMPLE, 1)])
    inner = [sample[len(sample) * t // count] for t in range(1, count)]
    return np.array([0, *inner, X.shape[1]], np.int64)
