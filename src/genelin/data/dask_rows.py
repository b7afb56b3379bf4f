"""Rows that Dask keeps: chunks of arrays and data frames, which stay where its workers are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed
from numpy.typing import NDArray
from scipy import sparse
from tlz import partition_all

from genelin.data import dask_workers
from genelin.data.checked_arrays import refuse_dtype
from genelin.data.dask_scheduler import Scheduler
from genelin.data.dask_workers import Fact, View
from genelin.data.row_blocks import RowSource, Task
from genelin.linalg.column_products import Block, Vector

__all__ = ["DaskRows", "dask_rows", "is_table", "lazily_projected"]

GROUP = 8  # results that are merged in one step of the tree
SMALL = 2**23  # bytes of a chunk below which neighbours are joined ...
FEW = 4  # ... unless there are no more than so many chunks a thread
PATIENCE = 8  # sums after which parts are moved so that all workers have their share
MOVED = 2**32  # bytes of a view that are moved between workers to align it with the other one


# --- What the workers keep -----------------------------------------------------------------------


@dataclass
class _Held:
    """Parts that are with the workers, of one view or of two side by side."""

    parts: list[Delayed]  # persisted
    sizes: list[int]  # of each of them, bytes
    places: list[str | None]  # the worker that has each of them, or gets it
    starts: NDArray[np.int64]  # (parts + 1,) rows before each of them
    scheduler: Scheduler
    weights: Vector | None = None  # that the parts carry
    sums: int = 0  # over these parts alone

    @property
    def rows(self) -> tuple[int, ...]:
        """Rows of every part."""
        return tuple(np.diff(self.starts).tolist())


class DaskRows:
    """Rows of a Dask array or data frame as a `RowSource`; see `dask_rows`.

    The chunks are persisted once, for as long as this object lives. Every sum sends the task to
    the workers as one key, and its results are merged there as a tree.

    Parameters
    ----------
    chunks : delayed matrices, one for every block of rows.
    name : what messages call the data.

    Examples
    --------
    >>> import dask.array as da
    >>> from genelin.operators import Gram
    >>> X = da.ones((6, 2), chunks=(4, 1))
    >>> rows = dask_rows(X)
    >>> rows.shape, rows.stored, rows.taken(np.array([0, 5])).tolist()
    ((6, 2), 12, [[1.0, 1.0], [1.0, 1.0]])
    >>> Gram(X).diagonal().tolist()
    [1.0, 1.0]
    """

    def __init__(self, chunks: Sequence[Delayed], name: str = "X") -> None:
        self.name, self._side = name, "x"
        kept = [delayed(dask_workers.kept, pure=False)(chunk, name) for chunk in chunks]
        self._held, facts = _hold(kept, name, Scheduler())
        self.is_sparse, self.dtype = facts[0].is_sparse, facts[0].dtype
        self.shape = (int(self._held.starts[-1]), facts[0].columns)
        self.stored = sum(fact.stored for fact in facts)
        self._size = sum(fact.size for fact in facts)

    def summed(
        self,
        task: Task,
        other: RowSource | None = None,
        weights: Vector | None = None,
        columns: int = 1,
    ) -> tuple[Any, ...]:
        """What `task` makes of all parts, merged by the workers."""
        beside = None if other is None else self._met(other)
        held = self._held
        held.sums += 1
        if held.sums == PATIENCE:
            _even_out(held, self.name)
        if weights is not None and not np.array_equal(held.weights, weights):  # type: ignore[arg-type]
            _weigh(held, weights, self.name)
        view = View(self._side, None if beside is None else beside._side, weights is not None)
        sent = held.scheduler.scattered(task)
        if sent is not None:
            try:
                return self._merged(task, sent, view)
            except ConnectionError:  # went with its worker, perhaps: in the graph it cannot be lost
                pass
        return self._merged(task, None, view)

    def _merged(self, task: Task, sent: Any, view: View) -> tuple[Any, ...]:
        """The results of all parts; the task is where `sent` says, or in the graph.

        A small task is a part of every call: workers need not fetch it from each other.
        """
        kind, key, held = type(task).__name__.lower().strip("_"), uuid4().hex, self._held
        abreast = held.scheduler.abreast(len(held.parts))
        if sent is None and held.scheduler.is_large(task, len(held.parts)):
            sent = delayed(task, name=f"{kind}task-{key}", traverse=False)
        applied = _call(dask_workers.applied, task, sent)
        results = [
            applied(part, start, view, abreast, dask_key_name=f"{kind}-{key}-{i}")
            for i, (part, start) in enumerate(zip(held.parts, held.starts.tolist(), strict=False))
        ]
        merged = _call(dask_workers.merged, task, sent)
        while len(results) > 1:
            results = [merged(group) for group in partition_all(GROUP, results)]
        (total,) = held.scheduler.compute(results, self.name)
        return tuple(total)

    def taken(self, rows: NDArray[np.int64]) -> Any:
        """Some rows, by their indices in rising order, as one matrix in memory."""
        held = self._held
        cuts = np.searchsorted(rows, held.starts)
        picks = [
            delayed(dask_workers.picked, pure=False)(part, self._side, rows[first:last] - start)
            for part, start, first, last in zip(
                held.parts, held.starts[:-1], cuts[:-1], cuts[1:], strict=True
            )
            if last > first
        ]
        return dask_workers.stacked(held.scheduler.compute(picks, self.name))

    def beside(self, matrix: Any) -> DaskRows:
        """A matrix in memory with as many rows, sent to the workers in the same chunks."""
        starts = self._held.starts
        if matrix.shape[0] != starts[-1]:
            raise ValueError(
                f"{self.name} has {starts[-1]} rows but the matrix beside it {matrix.shape[0]}"
            )
        name = "Y" if self.name == "X" else "X"
        pieces = (matrix[i:j] for i, j in pairwise(starts.tolist()))
        return DaskRows(
            [delayed(piece, f"{name}-{uuid4().hex}", traverse=False) for piece in pieces], name
        )

    def mapped(self, change: Callable[[Any], Any]) -> DaskRows:
        """The same rows with every part changed, once, and kept as well."""
        held, twin = self._held, copy(self)
        changed = [
            delayed(dask_workers.changed, pure=False)(part, self._side, change)
            for part in held.parts
        ]
        parts, facts = _persisted(changed, self.name, held.scheduler)
        sizes = [fact.size for fact in facts]
        places = held.scheduler.places(parts)
        twin._held, twin._side = _Held(parts, sizes, places, held.starts, held.scheduler), "x"
        twin.dtype, twin.shape = facts[0].dtype, (self.shape[0], facts[0].columns)
        twin.stored, twin._size = (sum(column) for column in list(zip(*facts, strict=True))[-2:])
        return twin

    def _met(self, other: Any) -> DaskRows:
        """The other source, once its parts are beside the parts of this one."""
        if not isinstance(other, DaskRows):
            raise TypeError(
                f"{self.name} is with Dask but {getattr(other, 'name', 'the other view')} is not: "
                "open both with Dask, or neither"
            )
        if other._held is not self._held:
            _join(self, other)
        return other


def dask_rows(X: Any, name: str = "X") -> DaskRows:
    """The rows of a Dask array (of dense or scipy.sparse chunks), data frame or series.

    Parameters
    ----------
    X : the collection; it is computed and kept by the scheduler in use: threads of this process,
        or the workers of a `distributed.Client`.
    name : what error messages call it.

    Examples
    --------
    >>> import dask.array as da
    >>> dask_rows(da.ones((3, 2))).shape
    (3, 2)
    """
    return DaskRows(_chunks(X, name), name)


def is_table(X: Any) -> bool:
    """Whether X is a Dask array, data frame or series: a collection that has rows.

    Examples
    --------
    >>> import dask.array as da
    >>> is_table(da.ones(3)), is_table(np.ones(3))
    (True, False)
    """
    return dask.is_dask_collection(X) and hasattr(X, "_meta") and hasattr(X, "to_delayed")


def lazily_projected(X: Any, mean: Vector, spread: Vector, W: Block) -> Any:
    """(X − mean) / spread @ W of a Dask collection, as a Dask array that is not computed yet.

    Examples
    --------
    >>> import dask.array as da
    >>> X = da.from_array(np.array([[1.0, 4.0], [3.0, 0.0]]), chunks=(1, 2))
    >>> scores = lazily_projected(X, np.array([2.0, 2.0]), np.array([1.0, 2.0]), np.eye(2))
    >>> scores.compute().tolist()
    [[-1.0, 1.0], [1.0, -1.0]]
    """
    array = _whole_rows(X if isinstance(X, da.Array) else X.to_dask_array())
    dtype = np.float32 if array.dtype == np.float32 else np.float64
    P = W / spread[:, None]
    return array.map_blocks(
        dask_workers.projected,
        *(P, mean @ P),
        dtype=dtype,
        chunks=(array.chunks[0], (W.shape[1],)),
        meta=np.empty((0, W.shape[1]), dtype),
    )


# --- From collections to parts -------------------------------------------------------------------


def _chunks(X: Any, name: str) -> list[Delayed]:
    """One delayed matrix for every block of rows."""
    if not is_table(X):
        raise TypeError(
            f"{name} is a Dask collection of type {type(X).__name__}: pass a dask.array or a "
            "dask.dataframe"
        )
    if isinstance(X, da.Array):
        refuse_dtype(X.dtype, name)
        if X.ndim not in (1, 2):
            raise ValueError(f"{name} must have two dimensions, got shape {X.shape}")
        return list(_whole_rows(X).to_delayed().ravel())
    frame = X._meta.to_frame() if X.ndim == 1 else X._meta
    others = [f"{c!r} ({dtype})" for c, dtype in frame.dtypes.items() if dtype.kind not in "biuf"]
    if others:
        raise TypeError(
            f"{name} has columns that are not numbers: {', '.join(others[:5])}. Drop them, or "
            "encode them first."
        )
    return list(X.to_delayed())


def _whole_rows(X: Any) -> Any:
    """The array with all columns in one chunk."""
    if X.ndim == 1:
        return X[:, None]
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _hold(kept: Sequence[Delayed], name: str, scheduler: Scheduler) -> tuple[_Held, list[Fact]]:
    """Parts that are persisted and not empty, and what is known of them."""
    parts, facts = _persisted(kept, name, scheduler)
    _refuse_unlike(facts, name)
    groups = _neighbours([fact.size for fact in facts], scheduler.threads)
    if len(groups) < len(parts):
        joined = [
            delayed(dask_workers.stacked_parts, pure=False)([parts[i] for i in g]) for g in groups
        ]
        parts, facts = _persisted(joined, name, scheduler)
    starts = np.cumsum([0] + [fact.rows for fact in facts], dtype=np.int64)
    sizes = [fact.size for fact in facts]
    return _Held(parts, sizes, scheduler.places(parts), starts, scheduler), facts


def _even_out(held: _Held, name: str) -> None:
    """Move parts from workers that have more than their share: all wait for the slowest one.

    Not at once: where two views meet, their parts move anyway, and are spread evenly by that.
    """
    targets = _balanced(held.sizes, held.places, held.scheduler.threads_of_workers)
    moved = [i for i, target in enumerate(targets) if target != held.places[i]]
    if moved:
        calls = [(dask_workers.same, held.parts[i]) for i in moved]
        parts = held.scheduler.persist_at(calls, [str(targets[i]) for i in moved], name)
        for i, part in zip(moved, parts, strict=True):
            held.parts[i], held.places[i] = part, targets[i]


def _balanced(
    sizes: list[int], places: list[str | None], threads: dict[str, int]
) -> list[str | None]:
    """Places of parts that make the fullest worker less full, by bytes a thread.

    What is moved leaves a worker no less full than the one that it goes to; all stay where they are
    if there were too much to move.
    """
    targets, sizes = list(places), [max(size, 1) for size in sizes]
    if len(threads) < 2 or not set(places) <= set(threads):
        return targets
    loads = dict.fromkeys(threads, 0.0)
    for size, place in zip(sizes, places, strict=True):
        loads[str(place)] += size / threads[str(place)]
    while True:
        full, empty = max(loads, key=loads.__getitem__), min(loads, key=loads.__getitem__)
        most = (loads[full] - loads[empty]) / (1 / threads[full] + 1 / threads[empty])
        fitting = [i for i, place in enumerate(targets) if place == full and sizes[i] <= most]
        if not fitting or loads[empty] > 0.95 * loads[full]:
            moves = (size for size, a, b in zip(sizes, places, targets, strict=True) if a != b)
            return targets if sum(moves) <= MOVED else list(places)
        moved = max(fitting, key=sizes.__getitem__)
        loads[full] -= sizes[moved] / threads[full]
        loads[empty] += sizes[moved] / threads[empty]
        targets[moved] = empty


def _persisted(
    kept: Sequence[Delayed], name: str, scheduler: Scheduler
) -> tuple[list[Delayed], list[Fact]]:
    parts = scheduler.persist(kept, name)
    facts = scheduler.compute(
        [delayed(dask_workers.fact, pure=False)(part) for part in parts], name
    )
    filled = [(part, fact) for part, fact in zip(parts, facts, strict=True) if fact.rows]
    if not filled:
        raise ValueError(f"{name} is empty, with {len(parts)} chunks of no rows")
    return [part for part, _ in filled], [fact for _, fact in filled]


def _refuse_unlike(facts: list[Fact], name: str) -> None:
    """Raise if chunks differ in width, kind or precision."""
    first = facts[0]
    if first.columns == 0:
        raise ValueError(f"{name} is empty, without columns: there is nothing to solve")
    for i, fact in enumerate(facts):
        if fact.columns != first.columns:
            raise ValueError(
                f"{name} has chunks of unequal width: {first.columns} columns in chunk 0, "
                f"{fact.columns} in chunk {i}. Check how they are made."
            )
        if (fact.is_sparse, fact.dtype) != (first.is_sparse, first.dtype):
            one, other = (
                f"{'sparse' if f.is_sparse else 'dense'} {f.dtype}" for f in (first, fact)
            )
            raise ValueError(
                f"{name} has {one} numbers in chunk 0 but {other} ones in chunk {i}: make them "
                f"alike, e.g. with {name}.map_blocks(scipy.sparse.csr_array, dtype=float)"
            )


def _neighbours(sizes: list[int], threads: int) -> list[list[int]]:
    """Chunks that are to be joined, so that a sum is not all scheduling: neighbours, if small."""
    most = FEW * threads
    enough = min(SMALL, sum(sizes) / most)
    if len(sizes) <= most or np.mean(sizes) >= enough:
        return [[i] for i in range(len(sizes))]
    group = (np.cumsum(sizes) - sizes) // max(enough, 1)
    return [np.flatnonzero(group == g).tolist() for g in np.unique(group)]


def _join(x: DaskRows, y: DaskRows) -> None:
    """Put the parts of both views side by side, and let both sources look at those."""
    if x.shape[0] != y.shape[0]:
        raise ValueError(
            f"{x.name} has {x.shape[0]} rows but {y.name} has {y.shape[0]}: row i of both must "
            "describe the same observation"
        )
    if x._held.rows != y._held.rows:
        if x._size >= y._size:
            y._held, y._side = _aligned(y, x), "x"
        else:
            x._held, x._side = _aligned(x, y), "x"
    a, b, scheduler = x._held, y._held, x._held.scheduler
    sizes = [sum(both) for both in zip(a.sizes, b.sizes, strict=True)]
    calls = [
        (dask_workers.side_by_side, one, x._side, other, y._side)
        for one, other in zip(a.parts, b.parts, strict=True)
    ]
    homes = [set(pair) for pair in zip(a.places, b.places, strict=True)]
    places = _meeting(sizes, homes, scheduler.threads_of_workers)
    if places:
        parts = scheduler.persist_at(calls, places, x.name)
    else:
        parts = scheduler.persist([delayed(f, pure=False)(*args) for f, *args in calls], x.name)
    both = _Held(parts, sizes, [*places], a.starts, scheduler)
    x._held, x._side, y._held, y._side = both, "x", both, "y"


def _meeting(sizes: list[int], homes: list[set[Any]], threads: dict[str, int]) -> list[str]:
    """Where the two halves of parts meet: at one of their homes, so that all get equal shares.

    Nowhere in particular if there is one worker, or one of theirs is gone.
    """
    if len(threads) < 2 or not set().union(*homes) <= set(threads):
        return []
    loads = dict.fromkeys(threads, 0.0)
    places = [""] * len(homes)
    for i in sorted(range(len(homes)), key=lambda i: len(homes[i])):  # those at one home stay
        places[i] = min(homes[i], key=loads.__getitem__)
        loads[places[i]] += sizes[i] / threads[places[i]]
    return [str(place) for place in _balanced(sizes, list(places), threads)]


def _aligned(y: DaskRows, x: DaskRows) -> _Held:
    """The parts of y in the chunks of x."""
    if y._size > MOVED:
        raise ValueError(
            f"{x.name} and {y.name} have different chunks of rows ({_shown(x._held.rows)} and "
            f"{_shown(y._held.rows)}), and to align them would move {y._size / 2**30:.1f} GiB "
            f"between workers: load both with the same chunks, or rechunk what is not loaded yet, "
            f"{y.name} = {y.name}.rechunk({{0: {x.name}.chunks[0]}})"
        )
    meta = sparse.csr_array((0, 0), dtype=y.dtype) if y.is_sparse else np.empty((0, 0), y.dtype)
    blocks = [
        da.from_delayed(delayed(getattr)(part, y._side), (n, y.shape[1]), y.dtype, meta)
        for part, n in zip(y._held.parts, y._held.rows, strict=True)
    ]
    array = da.concatenate(blocks).rechunk({0: x._held.rows})
    chunks = [
        delayed(dask_workers.kept, pure=False)(chunk, y.name)
        for chunk in array.to_delayed().ravel()
    ]
    parts, facts = _persisted(chunks, y.name, y._held.scheduler)
    sizes, scheduler = [fact.size for fact in facts], y._held.scheduler
    return _Held(parts, sizes, scheduler.places(parts), x._held.starts, scheduler)


def _shown(rows: tuple[int, ...]) -> str:
    return ", ".join(map(str, rows[:3])) + (", …" if len(rows) > 3 else "")


def _weigh(held: _Held, weights: Vector, name: str) -> None:
    """Let the parts carry the weights of their rows."""
    pieces = np.split(weights, held.starts[1:-1])
    weighted = [
        delayed(dask_workers.with_weights, pure=False)(part, piece)
        for part, piece in zip(held.parts, pieces, strict=True)
    ]
    held.parts, held.weights = held.scheduler.persist(weighted, name), weights


def _call(function: Callable[..., Any], task: Task, sent: Any) -> Callable[..., Delayed]:
    """Delayed calls of function(task, …), with the task inside where it was not sent."""
    if sent is None:
        inside: Callable[..., Delayed] = delayed(partial(function, task), traverse=False)
        return inside
    return partial(delayed(function), sent)
