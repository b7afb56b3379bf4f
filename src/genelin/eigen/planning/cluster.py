"""Machines and data that are only described, so that plans can be made for them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, expm1, log
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from genelin.linalg.column_products import Block
from genelin.operators import Rows
from genelin.validation import check_count, check_float_type, check_number, settle

__all__ = ["ClusterSpec", "DataSpec", "described"]

GROUP = 8  # results that are merged in one step of the tree


@dataclass(frozen=True)
class ClusterSpec:
    """Workers that share the rows of the data, and a client like one of them.

    Parameters
    ----------
    workers : how many.
    cores : of each worker, every one as fast as a core of this machine.
    memory : of each worker, in bytes.
    bandwidth : of the link of each machine, in bytes per second and direction.
    latency : seconds that a round costs beside its bytes: scheduling, and waiting for the slowest.

    Examples
    --------
    >>> from genelin import ClusterSpec
    >>> cluster = ClusterSpec(workers=64, cores=16, memory=64e9, bandwidth=1.25e9)
    >>> cluster.broadcast, cluster.reduction
    (7, 15)
    """

    workers: int
    cores: int
    memory: float
    bandwidth: float
    latency: float = 0.02

    def __post_init__(self) -> None:
        for name in ("workers", "cores"):
            settle(self, check_count, name)
        for name in ("memory", "bandwidth"):
            settle(self, check_number, name, above=0)
        settle(self, check_number, "latency", least=0)

    def __str__(self) -> str:
        one = self.workers == 1
        cores = "core" if self.cores == 1 else "cores"
        return f"{self.workers} worker{'' if one else 's'} of {self.cores} {cores}"

    @property
    def broadcast(self) -> int:
        """Times that a block passes a link, one after the other, until all workers have it."""
        return 1 + ceil(_log(self.workers, 2))

    @property
    def reduction(self) -> int:
        """The same for one block of every worker to be summed as a tree and sent to the client."""
        levels, group = ceil(_log(self.workers, GROUP)), min(GROUP, self.workers)
        return 1 + levels * (group - 1)

    def traffic(self, out: float, back: float) -> float:
        """Bytes on all links, for blocks of so many bytes to every worker and from every one."""
        return self.workers * (out + back)

    def seconds(self, out: float, back: float) -> float:
        """What that takes, beside the latency."""
        return (self.broadcast * out + self.reduction * back) / self.bandwidth


@dataclass(frozen=True)
class DataSpec:
    """A data set that does not exist yet, or not here: what `plan_cca` has to know of it.

    Parameters
    ----------
    n, d : rows and columns.
    nonzeros : stored entries of a row, on average; None for dense data. They are taken to be
        spread evenly over the columns, which is the worst case for forming covariances.
    dtype : float32 or float64.

    Examples
    --------
    >>> from genelin import DataSpec, plan_cca
    >>> X = DataSpec(10**6, 50_000, nonzeros=10)
    >>> X.stored, X.bytes
    (10000000.0, 84000000.0)
    >>> plan_cca(X, X, k=10).chosen.name
    'data as operator'
    """

    n: int
    d: int
    nonzeros: float | None = None
    dtype: Any = np.float32

    def __post_init__(self) -> None:
        settle(self, check_count, "n", "d")
        if self.nonzeros is not None:
            settle(self, check_number, "nonzeros", above=0)
            if self.nonzeros > self.d:
                raise ValueError(f"nonzeros={self.nonzeros:g} of a row with d={self.d} columns")
        settle(self, check_float_type, "dtype")

    @property
    def stored(self) -> float:
        """Numbers that are stored."""
        return float(self.n) * (self.d if self.nonzeros is None else self.nonzeros)

    @property
    def bytes(self) -> float:
        """Of memory, with indices where it is sparse."""
        size = float(np.dtype(self.dtype).itemsize)
        if self.nonzeros is None:
            return self.stored * size
        return self.stored * (size + 4) + 4.0 * self.n

    @classmethod
    def of(cls, rows: Rows) -> DataSpec:
        """The description of rows that do exist."""
        nonzeros = max(rows.stored / rows.n, 1e-9) if rows.is_sparse else None
        return cls(rows.n, rows.d, nonzeros, rows.dtype)


def described(X: Any, Y: Any) -> tuple[Rows, Rows]:
    """Rows that have sizes and nothing else, from two `DataSpec`.

    Examples
    --------
    >>> x, y = described(DataSpec(100, 5), DataSpec(100, 4))
    >>> x.stored, y.d
    (500, 4)
    """
    for name, spec in (("X", X), ("Y", Y)):
        if not isinstance(spec, DataSpec):
            raise TypeError(
                f"{name} is a {type(spec).__name__}, but the other view a DataSpec: describe both, "
                "or pass data for both"
            )
    x, y = _Described(X), _Described(Y)
    x.entries_with[x], y.entries_with[y] = x.own_entries(), y.own_entries()
    x.entries_with[y] = y.entries_with[x] = x.entries_beside(y)
    return x, y


class _Described(Rows):
    """Rows of which only sizes are known."""

    in_memory = False

    def __init__(self, spec: DataSpec) -> None:
        self.shape = (int(spec.n), int(spec.d))
        self.n, self.d = self.shape
        self.weights, self.is_sparse = None, spec.nonzeros is not None
        self.stored, self._dtype = round(spec.stored), np.dtype(spec.dtype)
        self.entries_with: WeakKeyDictionary[Rows, float] = WeakKeyDictionary()
        self.central_moment: Block | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the rows."""
        dtype: np.dtype[Any] = self._dtype
        return dtype

    @property
    def single(self) -> bool:
        """Whether rows have at most one nonzero each."""
        return self.is_sparse and self.stored <= self.n

    def pairs_with(self, other: Rows) -> float:
        """Multiplications to form XᵀY."""
        return float(self.stored) * other.stored / self.n

    def entries_beside(self, other: Rows) -> float:
        """Nonzeros of XᵀY: pairs of features that meet in some row, of pairs drawn at random."""
        places = float(self.d) * other.d
        return -places * expm1(-self.pairs_with(other) / places)

    def own_entries(self) -> float:
        """Nonzeros of XᵀX."""
        places, row = float(self.d) ** 2, self.stored / self.n
        meetings = self.stored * max(row - 1.0, 0.0)
        return self.d - places * expm1(-meetings / places)


def _log(number: int, base: int) -> float:
    """log, without the rounding that would take 64 = 2⁶ above 6."""
    return round(log(number) / log(base), 9)
