"""What Dask's workers keep of rows, and what they do with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from dask.system import CPU_COUNT
from numpy.typing import NDArray
from scipy import sparse

from genelin.data.checked_arrays import as_numbers
from genelin.data.row_blocks import Part, Task
from genelin.linalg.column_products import Block, Vector
from genelin.system.threads import at_most, cores

__all__ = [
    "Fact",
    "Kept",
    "View",
    "applied",
    "changed",
    "fact",
    "kept",
    "merged",
    "picked",
    "projected",
    "same",
    "side_by_side",
    "stacked",
    "stacked_parts",
    "with_weights",
]


@dataclass(frozen=True)
class Kept(Part):
    """A part with its size, by which Dask decides where to work on it."""

    def __sizeof__(self) -> int:
        return sum(_bytes(X) for X in (self.x, self.y, self.weights) if X is not None)


class Fact(NamedTuple):
    """What is to be known of a part."""

    rows: int
    columns: int
    is_sparse: bool
    dtype: np.dtype[Any]
    stored: int
    size: int  # bytes


class View(NamedTuple):
    """What a task is shown of a part: which side as x, which as y, and whether with weights."""

    x: str
    y: str | None
    weighted: bool


def kept(chunk: Any, name: str) -> Kept:
    """A chunk of rows as a part."""
    return Kept(0, _matrix(chunk, name))


def _matrix(chunk: Any, name: str) -> Any:
    """A chunk as an ndarray or CSR of floats."""
    if hasattr(chunk, "iloc"):
        chunk = _without_index(chunk.to_frame() if chunk.ndim == 1 else chunk)
    return as_numbers(chunk, name, whole=False)


def _without_index(frame: Any) -> Any:
    """The numbers of a pandas data frame."""
    if all(getattr(dtype, "fill_value", None) == 0 for dtype in frame.dtypes):
        return frame.sparse.to_coo()
    single = all(dtype == np.float32 for dtype in frame.dtypes)
    return frame.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)


def fact(part: Kept) -> Fact:
    """What is to be known of a part of one view."""
    X, (rows, columns) = part.x, part.x.shape
    is_sparse = bool(sparse.issparse(X))
    stored = int(X.nnz if is_sparse else X.size)
    return Fact(rows, columns, is_sparse, X.dtype, stored, part.__sizeof__())


def _bytes(X: Any) -> int:
    if not sparse.issparse(X):
        return int(X.nbytes)
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


def changed(part: Kept, side: str, change: Callable[[Any], Any]) -> Kept:
    """A part of one view of another, changed."""
    return Kept(0, change(getattr(part, side)))


def stacked(blocks: Sequence[Any]) -> Any:
    """Blocks of rows below each other."""
    if len(blocks) == 1:
        return blocks[0]
    return sparse.vstack(blocks, "csr") if sparse.issparse(blocks[0]) else np.concatenate(blocks)


def stacked_parts(parts: Sequence[Kept]) -> Kept:
    """Parts of one view as one."""
    return Kept(0, stacked([part.x for part in parts]))


def same(part: Kept) -> Kept:
    """The part itself: where this is done, it is kept as well."""
    return part


def side_by_side(a: Kept, a_side: str, b: Kept, b_side: str) -> Kept:
    """A part of both views from one of each."""
    return Kept(0, getattr(a, a_side), getattr(b, b_side))


def with_weights(part: Kept, weights: Vector) -> Kept:
    """The part with the weights of its rows."""
    return replace(part, weights=weights)


def picked(part: Kept, side: str, rows: NDArray[np.int64]) -> Any:
    """Some rows of one side of a part."""
    return getattr(part, side)[rows]


def applied(task: Task, part: Kept, start: int, view: View, abreast: int) -> tuple[Any, ...]:
    """The task on one part, on a thread's share of the cores."""
    y = None if view.y is None or view.y == view.x else getattr(part, view.y)
    shown = Part(start, getattr(part, view.x), y, part.weights if view.weighted else None)
    with at_most(_share(abreast)):
        return task(shown)


def merged(task: Task, results: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Results of some parts; the first is copied, as Dask may ask for it again."""
    return reduce(task.merge, results[1:], deepcopy(tuple(results[0])))


def projected(X: Any, P: Block, shift: Vector) -> Any:
    """X P minus the shift, in the precision of X."""
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    return np.asarray(X @ P - shift, dtype=dtype)


# --- Threads -------------------------------------------------------------------------------------


def _share(abreast: int) -> int:
    """Threads for a task: the cores of this process, divided by its tasks side by side.

    The cores are those of OMP_NUM_THREADS, which Dask's nannies set to 1, or all.
    """
    most = min(CPU_COUNT, cores(), int(os.environ.get("OMP_NUM_THREADS") or CPU_COUNT))
    return int(max(1, most // _tasks_here(abreast)))


def _tasks_here(abreast: int) -> int:
    """Tasks that this process runs side by side: the threads of the worker, if it is one."""
    if abreast:
        return abreast
    from distributed import get_worker

    return int(get_worker().state.nthreads)
