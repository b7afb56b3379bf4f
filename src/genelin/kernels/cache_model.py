"""Sparse rows as kernels read them, and whether the rows of blocks that they need are far away."""

from __future__ import annotations

from mmap import mmap
from typing import Any

import numpy as np

from genelin.system.readonly import read_only

__all__ = ["anywhere", "arrays", "cache_misses", "from_disk", "rows_of"]

AT_HAND = 2**12  # rows of blocks that a core reaches fast
AHEAD = 16  # entries between asking for a row of a block and using it
FEW = 0.25  # of entries that need a row that is out of cache: so few are not worth asking for all
MANY = 2**18  # entries: of fewer, it would take too long to find out
SAMPLES = 2
MOST = 0.87  # of entries that need a row that is out of cache: so many that they lie anywhere


def arrays(X: Any) -> tuple[Any, Any, Any]:
    """Values, columns and where rows begin; kernels read them without looking at strides.

    All are read-only, so that a kernel is compiled once for matrices of the caller and of ours.
    """
    parts = (X.data, X.indices, X.indptr)
    return tuple(read_only(np.ascontiguousarray(part)) for part in parts)


def rows_of(shares: list[float], *matrices: Any) -> list[Any]:
    """Sparse rows for kernels, by the shares of entries whose rows of blocks are out of cache.

    Those rows are asked for ahead where they are many, for one of the matrices.
    """
    return [(*arrays(X), AHEAD) if max(shares) > FEW else arrays(X) for X in matrices]


def cache_misses(*matrices: Any) -> list[float]:
    """Shares of entries in columns that the entries before them did not have, in samples.

    Examples
    --------
    >>> from scipy import sparse
    >>> columns = np.random.default_rng(0).integers(10**6, size=2**20)
    >>> X = sparse.csr_array((np.ones(2**20), columns, [0, 2**20]), shape=(1, 10**6))
    >>> anywhere = cache_misses(X)[0]
    >>> X.indices //= 10**4
    >>> round(anywhere, 1), cache_misses(X)[0]
    (1.0, 0.0)
    """
    apart = {id(X): X for X in matrices}.values()
    return [_fresh(X.indices[: X.indptr[-1]], X.shape[1]) for X in apart]


def _fresh(columns: Any, d: int) -> float:
    """The share of one matrix; d columns in all."""
    before, more = AT_HAND, AT_HAND // 8
    if d <= before or len(columns) < MANY:
        return 0.0
    places, found = np.arange(before + more, dtype=np.int32)[::-1], np.empty(d, np.int32)
    fresh = 0
    for sample in range(1, SAMPLES + 1):
        start = len(columns) * sample // (SAMPLES + 1)
        window = columns[start : start + before + more][::-1]
        found[window] = places  # where a column comes first
        fresh += int(np.count_nonzero(found[window[:more]] == places[:more]))
    return fresh / (SAMPLES * more)


def anywhere(shares: list[float]) -> bool:
    """Whether entries lie anywhere, by their shares that need rows that are out of cache."""
    return min(shares) > MOST


def from_disk(*matrices: Any) -> bool:
    """Whether values of one of the matrices lie in a mapped file."""
    return any(_mapped(X.data) for X in matrices)


def _mapped(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap)
