"""What `plan_cca` predicts for one and two workers, beside what a local Dask cluster takes.

Sparse views go to workers of one thread each. The prediction is made with the speeds that are
measured just before the run, for the outer iterations and steps that the run has taken.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from genelin import ClusterSpec, Davidson, TwoView, top_k_cca
from genelin.eigen.costs.machine import measured
from genelin.eigen.methods.davidson import OUTER_ITERATIONS
from genelin.eigen.planning.cluster_costs import planned_on

LOOPBACK = 1e9  # bytes per second


@dataclass(frozen=True)
class Job:
    """Two sparse views of n rows with a few features in common, and k pairs of them."""

    n: int
    d: int
    nonzeros: int
    k: int
    reg: float = 1e-2

    def views(self) -> list[Any]:
        """Both views; features follow a power law."""
        rng, size = np.random.default_rng(0), self.n * self.nonzeros
        columns = self.d * rng.random((2, self.n, self.nonzeros)) ** 3
        columns[:, :, 0] = 5 * rng.integers(0, 40, self.n)
        indptr = np.arange(0, size + 1, self.nonzeros, dtype=np.int32)
        return [
            sparse.csr_array(
                (np.ones(size, np.float32), part.astype(np.int32).ravel(), indptr.copy()),
                shape=(self.n, self.d),
            )
            for part in columns
        ]

    def solve(self, X: Any, Y: Any, k: int, tol: float) -> Any:
        """The pairs, with the data as operator."""
        return top_k_cca(X, Y, k, reg=self.reg, form=False, method=Davidson(), tol=tol)


def chunked(X: Any, chunks: int) -> Any:
    """A Dask array of sparse chunks."""
    import dask
    import dask.array as da

    step, meta = -(-X.shape[0] // chunks), sparse.csr_array((0, 0), dtype=X.dtype)
    parts = [X[first : first + step] for first in range(0, X.shape[0], step)]
    return da.concatenate(
        [da.from_delayed(dask.delayed(part), part.shape, X.dtype, meta) for part in parts]
    )


def compared(job: Job, workers: int) -> tuple[float, float, int]:
    """Seconds that were predicted and that it took, and outer iterations."""
    from distributed import Client, LocalCluster, wait

    views = job.views()
    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        data = [client.persist(chunked(view, 4)) for view in views]
        wait(data)
        job.solve(*data, 2, 0.1)  # compiles the kernels
        profile = measured()
        began = time.perf_counter()
        solution = job.solve(*data, job.k, 1e-6)
        took = time.perf_counter() - began
    outer = len(solution.trace)
    steps = float(solution.trace.column("inner_iterations").mean())
    spec = ClusterSpec(workers, 1, 8e9, LOOPBACK)
    problem = TwoView(*views, reg=job.reg, form=False)
    routes = planned_on(spec, problem, job.k, profile, steps).routes  # type: ignore[arg-type]
    predicted = next(route for route in routes if route.name == "data as operator")
    return predicted.seconds * outer / OUTER_ITERATIONS, took, outer


def main() -> None:
    """Compare, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=50_000)
    parser.add_argument("--nonzeros", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=10)
    given = parser.parse_args()
    job = Job(given.rows, given.features, given.nonzeros, given.pairs)
    print("workers  predicted   took  ratio  outer iterations")
    for workers in (1, 2):
        predicted, took, outer = compared(job, workers)
        print(f"{workers:7}  {predicted:8.1f}  {took:5.1f}  {took / predicted:5.2f}  {outer:5}")


if __name__ == "__main__":
    main()
