"""What Dask costs and what more workers bring: one fit in process, with one worker and with two.

With one worker of as many threads as this process has, a fit should take at most 1.25 times as
long as in process; two workers of one thread each should be 1.6 times as fast as one of them. The
correlations of all runs are compared. Rows are loaded (persisted) before the clock starts.

The views of MNIST are halves of the same images, which the workers cut in two: row i of both is
with one worker. They are loaded apart as well, where chunks of x and y may be with different
workers and every fit has to move rows.

Debian paths are solved twice: as the default does it, which forms sparse covariances with the
workers and iterates on them in the client, and through the rows (form=False), where every product
is a sum over what the workers hold.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from distributed import wait as loaded
from scipy import sparse
from sklearn.base import clone

import inputs
from genelin import CCA, CCASolution, top_k_cca
from genelin.kernels.compiled import threads
from harness import write

OVERHEAD, SPEEDUP = 1.25, 1.6
Fit = Callable[[Any, Any], CCASolution]
Load = Callable[[Any, Any, int], tuple[da.Array, da.Array]]


def workloads(quick: bool) -> Iterator[tuple[str, Any, Any, Load, Fit]]:
    """Name, both views, how Dask gets them, and what is done with them."""
    X, Y = inputs.debian_paths()
    if quick:
        X, Y = X[:200_000], Y[:200_000]
    yield "Debian paths", X, Y, apart, fitted(reg=1e-4)
    yield "Debian, its rows", X, Y, apart, partial(top_k_cca, k=20, reg=1e-2, tol=1e-3, form=False)
    images = np.hstack(inputs.mnist_halves(6_000 if quick else 60_000))
    images = np.tile(images, (1 if quick else 10, 1))
    X, Y = np.hsplit(images, 2)
    yield "MNIST, ten times", X, Y, halves, fitted(reg=1e-2)
    yield "MNIST, loaded apart", X, Y, apart, fitted(reg=1e-2)
    if not quick:
        X, Y = inputs.consecutive_words()
        yield "PTB", X, Y, apart, fitted(reg=1e-5, center=False)


def fitted(**settings: Any) -> Fit:
    """A CCA of 20 components."""
    cca = CCA(20, **settings, tol=1e-9, random_state=0)
    return lambda X, Y: clone(cca).fit(X, Y).solution_


def in_chunks(X: Any, parts: int) -> da.Array:
    """X in so many chunks of rows."""
    cuts = np.linspace(0, X.shape[0], parts + 1).astype(int)
    meta = sparse.csr_array((0, 0), dtype=X.dtype) if sparse.issparse(X) else X[:0]
    blocks = [
        da.from_delayed(dask.delayed(X[i:j], traverse=False), (j - i, X.shape[1]), X.dtype, meta)
        for i, j in pairwise(cuts.tolist())
    ]
    return da.concatenate(blocks)


def apart(X: Any, Y: Any, parts: int) -> tuple[da.Array, da.Array]:
    """Both views, each in chunks of its own."""
    return in_chunks(X, parts), in_chunks(Y, parts)


def halves(X: Any, Y: Any, parts: int) -> tuple[da.Array, da.Array]:
    """Views that are halves of one matrix, which comes in chunks and is cut by the workers."""
    whole, d = in_chunks(np.hstack([X, Y]), parts), X.shape[1]
    return whole[:, :d], whole[:, d:]


@contextmanager
def cluster(workers: int, each: int) -> Iterator[Client]:
    """Worker processes with so many threads each."""
    with (
        LocalCluster(n_workers=workers, threads_per_worker=each, dashboard_address=":0") as local,
        Client(local) as client,
    ):
        yield client


def timed(X: Any, Y: Any, fit: Fit, repeats: int) -> dict[str, Any]:
    """Median seconds of a fit after one that compiles, its correlations and its cost."""
    seconds = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        solution = fit(X, Y)
        seconds.append(time.perf_counter() - start)
    return {
        "seconds": float(np.median(seconds[1:])),
        "runs": seconds[1:],
        "correlations": solution.correlations.tolist(),
        "passes": solution.cost.passes,
        "route": solution.route,
    }


def measured(X: Any, Y: Any, load: Load, fit: Fit, repeats: int) -> dict[str, Any]:
    """All kinds of runs of one workload."""
    runs = {"in process": timed(X, Y, fit, repeats)}
    cores = threads()
    kinds = {"1 worker": (1, cores), "1 single": (1, 1), "2 single": (2, 1)}
    for kind, (workers, each) in kinds.items():
        with cluster(workers, each):
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PiB"}):
                x, y = dask.persist(*load(X, Y, 2 * workers * each))
            loaded([x, y])
            runs[kind] = timed(x, y, fit, repeats)
            del x, y
    exact = np.array(runs["in process"]["correlations"])
    for run in runs.values():
        run["difference"] = float(np.abs(np.array(run["correlations"]) - exact).max())
    return runs


def main() -> None:
    """Run all workloads, print the table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller data, to see that it runs")
    parser.add_argument("--only", default="", help="workloads whose names have this in them")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    results = {}
    print(f"{'workload':<20}{'run':<14}{'seconds':>9}{'against':>10}{'difference':>12}")
    for name, X, Y, load, fit in workloads(options.quick):
        if options.only.lower() not in name.lower():
            continue
        runs = measured(X, Y, load, fit, options.repeats)
        ratio = runs["1 worker"]["seconds"] / runs["in process"]["seconds"]
        speedup = runs["1 single"]["seconds"] / runs["2 single"]["seconds"]
        notes = {"1 worker": f"{ratio:.2f}×", "2 single": f"{1 / speedup:.2f}×"}
        for kind, run in runs.items():
            print(
                f"{name:<20}{kind:<14}{run['seconds']:>9.2f}{notes.get(kind, ''):>10}"
                f"{run['difference']:>12.1e}"
            )
        met = ratio <= OVERHEAD and speedup >= SPEEDUP
        print(
            f"{'':<20}overhead {ratio:.2f} (at most {OVERHEAD}), speedup {speedup:.2f} (at least "
            f"{SPEEDUP}): {'met' if met else 'NOT MET'}"
        )
        results[name] = {"runs": runs, "overhead": ratio, "speedup": speedup}
    write("dask-overhead-quick" if options.quick else "dask-overhead", results)


if __name__ == "__main__":
    main()
