"""What Dask costs and what more workers bring: one fit in process, with one worker and with two.

With one worker of as many threads as this process has, a fit should take at most 1.25 times as
long as in process; two workers of one thread each should be 1.6 times as fast as one of them. The
correlations of all runs are compared. Rows are loaded (persisted) before the clock starts, and the
runs of a ratio take turns. How much more two processes multiply at once than one is measured before
and after: cores of a virtual machine may be shared, and no fit can gain more than that.

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
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from itertools import pairwise
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait
from scipy import sparse
from sklearn.base import clone

import inputs
from genelin import CCA, CCASolution, top_k_cca
from genelin.kernels.compiled import threads
from harness import write

OVERHEAD, SPEEDUP = 1.25, 1.6
Fit = Callable[[Any, Any], CCASolution]
Load = Callable[[int], tuple[da.Array, da.Array]]
Runs = dict[str, tuple[Callable[[], Any], tuple[Any, Any]]]  # where, and on what


def workloads(quick: bool) -> Iterator[tuple[str, Any, Any, Load, Fit]]:
    """Name, both views, how Dask gets them, and what is done with them."""
    X, Y = inputs.debian_paths()
    if quick:
        X, Y = X[:200_000], Y[:200_000]
    through_rows = partial(top_k_cca, k=20, reg=1e-2, tol=1e-3, form=False)
    yield "Debian paths", X, Y, partial(apart, X, Y), fitted(reg=1e-4)
    yield "Debian, its rows", X, Y, partial(apart, X, Y), through_rows
    views, times = inputs.mnist_halves(6_000 if quick else 60_000), 1 if quick else 10
    X, Y = (np.tile(view, (times, 1)) for view in views)
    whole = np.hstack(views)
    yield "MNIST, ten times", X, Y, partial(halves, whole, times=times), fitted(reg=1e-2)
    yield "MNIST, loaded apart", X, Y, partial(apart, *views, times=times), fitted(reg=1e-2)
    if not quick:
        X, Y = inputs.consecutive_words()
        yield "PTB", X, Y, partial(apart, X, Y), fitted(reg=1e-5, center=False)


def fitted(**settings: Any) -> Fit:
    """A CCA of 20 components."""
    cca = CCA(20, **settings, tol=1e-9, random_state=0)
    return lambda X, Y: clone(cca).fit(X, Y).solution_


def in_chunks(X: Any, parts: int, times: int = 1) -> da.Array:
    """X, so many times below itself, in so many chunks of rows, each with its own source."""
    cuts = np.linspace(0, times * X.shape[0], parts + 1).astype(int)
    meta = sparse.csr_array((0, 0), dtype=X.dtype) if sparse.issparse(X) else X[:0]
    blocks = [
        da.from_delayed(rows_of(X, i, j), (j - i, X.shape[1]), X.dtype, meta)
        for i, j in pairwise(cuts.tolist())
    ]
    return da.concatenate(blocks)


def rows_of(X: Any, start: int, stop: int) -> Any:
    """Delayed rows start … stop − 1 of X, which begins again where it ends."""
    n = X.shape[0]
    if stop <= n:
        return dask.delayed(X[start:stop], traverse=False)
    whole = dask.delayed(X, traverse=False)
    return dask.delayed(np.take)(whole, dask.delayed(np.arange)(start, stop) % n, axis=0)


def apart(X: Any, Y: Any, parts: int, times: int = 1) -> tuple[da.Array, da.Array]:
    """Both views, each in chunks of its own."""
    return in_chunks(X, parts, times), in_chunks(Y, parts, times)


def halves(images: Any, parts: int, times: int) -> tuple[da.Array, da.Array]:
    """Views that are halves of one matrix, which comes in chunks and is cut by the workers."""
    whole, d = in_chunks(images, parts, times), images.shape[1] // 2
    return whole[:, :d], whole[:, d:]


@contextmanager
def cluster(workers: int, each: int) -> Iterator[Client]:
    """Worker processes with so many threads each."""
    with (
        LocalCluster(n_workers=workers, threads_per_worker=each, dashboard_address=":0") as local,
        Client(local, set_as_default=False) as client,
    ):
        yield client


@contextmanager
def loaded(kinds: dict[str, tuple[int, int]], load: Load) -> Iterator[Runs]:
    """Clusters of so many workers and threads, and the rows that each of them holds."""
    large = {"distributed.admin.large-graph-warning-threshold": "1 PiB"}
    with ExitStack() as stack:
        held: Runs = {}
        for kind, (workers, each) in kinds.items():
            client = stack.enter_context(cluster(workers, each))
            with client.as_current(), dask.config.set(large):
                rows = client.persist(load(2 * workers * each))
                wait(rows)
            held[kind] = client.as_current, rows
        yield held


def in_turn(runs: Runs, fit: Fit, repeats: int) -> dict[str, Any]:
    """Median seconds of a fit of each kind, its correlations and its cost.

    The kinds take turns, as the speed of a machine may change; a first turn compiles. In a turn a
    fit is made twice and the second counts: what a kind had freed before the other one's turn may
    have gone back to the host of a virtual machine, which takes seconds a gigabyte to return it.
    """
    seconds: dict[str, list[float]] = {kind: [] for kind in runs}
    solutions = {}
    for _ in range(repeats + 1):
        for kind, (where, (x, y)) in runs.items():
            with where():
                fit(x, y)
                start = time.perf_counter()
                solutions[kind] = fit(x, y)
                seconds[kind].append(time.perf_counter() - start)
    return {
        kind: {
            "seconds": float(np.median(seconds[kind][1:])),
            "runs": seconds[kind][1:],
            "correlations": solution.correlations.tolist(),
            "passes": solution.cost.passes,
            "route": solution.route,
        }
        for kind, solution in solutions.items()
    }


def machine() -> float:
    """How many times as much two processes multiply at once as one: what two workers can reach."""
    with cluster(2, 1) as client:
        first, *others = client.scheduler_info()["workers"]
        (alone,) = client.gather([client.submit(multiplied, 3.0, workers=first, pure=False)])
        both = [client.submit(multiplied, 3.0, workers=w, pure=False) for w in (first, *others)]
        return sum(client.gather(both)) / alone


def multiplied(seconds: float) -> float:
    """Products ZᵀZ of one block of rows in a second."""
    Z, start, count = np.random.default_rng(0).random((5000, 784)), time.perf_counter(), 0
    while time.perf_counter() < start + seconds:
        Z.T @ Z
        count += 1
    return count / (time.perf_counter() - start)


def measured(X: Any, Y: Any, load: Load, fit: Fit, repeats: int) -> dict[str, Any]:
    """All kinds of runs of one workload."""
    with loaded({"1 worker": (1, threads())}, load) as held:
        runs = in_turn({"in process": (nullcontext, (X, Y)), **held}, fit, repeats)
    with loaded({"1 single": (1, 1), "2 single": (2, 1)}, load) as held:
        runs |= in_turn(held, fit, repeats)
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
        before, runs = machine(), measured(X, Y, load, fit, options.repeats)
        bare = (before + machine()) / 2
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
            f"{SPEEDUP}; bare products {bare:.2f}): {'met' if met else 'NOT MET'}"
        )
        results[name] = {"runs": runs, "overhead": ratio, "speedup": speedup, "bare": bare}
    write("dask-overhead-quick" if options.quick else "dask-overhead", results)


if __name__ == "__main__":
    main()
