"""What Dask works with: threads of this process, or a client; and what can go wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

import dask
import numpy as np
from dask.base import get_scheduler
from dask.delayed import Delayed, delayed
from dask.local import get_sync
from dask.system import CPU_COUNT

from genelin.data.row_blocks import Task

__all__ = ["Scheduler"]

LARGE = 2**18  # bytes of a task from which on it is not put into the graph

Call = tuple[Any, ...]  # a function and its arguments


class Scheduler:
    """What is in use when rows are given: threads of this process, or a client with workers."""

    def __init__(self) -> None:
        self.get = get_scheduler(cls=Delayed)
        if getattr(self.get, "__module__", "") == "dask.multiprocessing":
            raise ValueError(
                "scheduler='processes' would send all rows to other processes for every sum: use "
                "scheduler='threads', or a distributed.Client(), whose workers keep them"
            )
        owner = getattr(self.get, "__self__", None)
        self.client = owner if hasattr(owner, "scheduler_info") else None

    @property
    def threads(self) -> int:
        """Tasks that can run side by side, on all workers together."""
        if self.client is not None:
            return max(1, sum(self.threads_of_workers.values()))
        if self.get is get_sync:
            return 1
        pool = getattr(dask.config.get("pool", None), "_max_workers", None)
        return int(dask.config.get("num_workers", None) or pool or CPU_COUNT)

    @property
    def threads_of_workers(self) -> dict[str, int]:
        """Threads of every worker, by its address."""
        return {} if self.client is None else dict(self.client.nthreads())

    def abreast(self, parts: int) -> int:
        """Tasks that this process runs side by side; 0 where workers run them."""
        return 0 if self.client is not None else min(parts, self.threads)

    def is_large(self, task: Task, copies: int = 1) -> bool:
        """Whether so many copies of a task would weigh on a graph."""
        blocks = (block for block in vars(task).values() if isinstance(block, np.ndarray))
        return copies * sum(block.nbytes for block in blocks) >= LARGE

    def scattered(self, task: Task) -> Any:
        """A future of a task with large blocks, which workers pass on to each other; else None.

        In a graph it would be packed and unpacked once more, by the scheduler.
        """
        if self.client is None or not self.is_large(task):
            return None
        try:
            return self.client.scatter(task, hash=False)
        except OSError:  # the worker that it was sent to is gone
            return None

    def places(self, parts: Sequence[Delayed]) -> list[str | None]:
        """A worker that has each of the parts, which are persisted; None where there is none."""
        if self.client is None:
            return [None] * len(parts)
        holders = self.client.who_has(self.client.futures_of(list(parts)))
        return [next(iter(holders.get(part.key, ())), None) for part in parts]

    def persist_at(self, calls: list[Call], places: list[str], name: str) -> list[Delayed]:
        """The values of calls, each kept by the worker that is named.

        Once they are there, any worker may make them again: Dask leaves what is bound to a worker
        waiting for ever if there is none at all for a moment. Before, others would steal them.
        """
        values = []
        for (function, *arguments), place in zip(calls, places, strict=True):
            with dask.annotate(workers=[place], allow_other_workers=True):
                values.append(delayed(function, pure=False)(*arguments))
        kept, client = self.persist(values, name), self.client
        self.compute([delayed(type, pure=False)(part) for part in kept], name)  # they are there
        if client is not None:
            with self._explained(name):
                free = {part.key: None for part in kept}
                client.sync(client.scheduler.set_restrictions, worker=free)
        return kept

    def persist(self, values: Sequence[Delayed], name: str) -> list[Delayed]:
        """The same values, computed and kept where they are."""
        with self._explained(name):
            if self.client is not None:
                return list(self.client.persist(list(values)))
            return list(dask.persist(*values, scheduler=self.get))

    def compute(self, values: Sequence[Delayed], name: str) -> list[Any]:
        """The values, in this process."""
        with self._explained(name):
            return list(dask.compute(*values, scheduler=self.get))

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        """Errors of a cluster in our words; blocks are one key, and may make large graphs."""
        large = {"distributed.admin.large-graph-warning-threshold": "1 PiB"}
        try:
            self._refuse_closed(name)
            with dask.config.set(large):
                yield
        except CancelledError as error:
            raise _lost(name, str(error)) from error
        except Exception as error:
            if type(error).__name__ == "KilledWorker":
                raise RuntimeError(
                    f"workers died one after another at the same chunk of {name} ({error}), as a "
                    "rule for want of memory: use smaller chunks of rows, or workers with more "
                    "memory"
                ) from error
            self._refuse_closed(name)
            raise

    def _refuse_closed(self, name: str) -> None:
        if self.client is not None and self.client.status in ("closing", "closed"):
            raise _lost(name, f"its client is {self.client.status}")


def _lost(name: str, why: str) -> ConnectionError:
    return ConnectionError(
        f"{name} is with Dask workers that cannot be reached any more: {why}. Start the cluster "
        "again, make a new distributed.Client, and fit anew; with checkpoint=folder, resume=True "
        "goes on from the last checkpoint."
    )
