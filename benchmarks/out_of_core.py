"""Views on disk that do not fit in memory: peak memory and time per pass, against plain NumPy.

A dense float32 pair (20 GB, less where the disk is small) and a sparse pair of 1e8 nonzeros are
generated in chunks, fitted in a process of their own from a cold cache, and removed. A pass is one
read of both views. NumPy reads the same files once, block after block, and does the same products:
the covariance of both views at once where the fit forms it, (X − 1μᵀ)ᵀ((X − 1μᵀ)V) where it does
not. Only anonymous memory counts: pages of files belong to the system.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from harness import write

DENSE_COLUMNS, SPARSE_COLUMNS = 100, 20_000
ENTRIES = 5  # per sparse row and view
K, WIDTH, BLOCK = 10, 20, 8192  # components, columns of V, rows that NumPy reads at a time
BARS = {"dense": 1.5, "sparse": 1.0}  # GB of anonymous memory
SPEED = 0.7  # of NumPy's


@dataclass
class Measured:
    """What one process took."""

    task: str
    seconds: float
    cpu: float  # seconds of all threads
    passes: float
    peak_gb: float  # anonymous
    correlations: list[float]

    @property
    def per_pass(self) -> float:
        """Seconds; rows that were loaded were read once."""
        return self.seconds / max(self.passes, 1.0)


# --- Data, in chunks ------------------------------------------------------------------------------


def shared_rows(n: int, step: int) -> Iterator[tuple[int, np.random.Generator]]:
    """Lengths of chunks, each with a generator of its own."""
    for number, start in enumerate(range(0, n, step)):
        yield min(step, n - start), np.random.default_rng([7, number])


def dense_chunks(n: int, view: int) -> Iterator[Any]:
    """Gaussian rows whose first columns carry what both views share."""
    strong = np.sqrt(np.linspace(0.9, 0.2, K, dtype=np.float32))
    turn = np.random.default_rng(view).standard_normal((DENSE_COLUMNS, DENSE_COLUMNS))
    turn = np.linalg.qr(turn)[0].astype(np.float32)
    for rows, rng in shared_rows(n, 100_000):
        shared = rng.standard_normal((rows, K), np.float32)
        noise = [rng.standard_normal((rows, DENSE_COLUMNS), np.float32) for _ in range(2)][view]
        noise[:, :K] = strong * shared + np.sqrt(1 - strong**2) * noise[:, :K]
        yield noise @ turn + 1.0


def sparse_chunks(n: int, view: int) -> Iterator[Any]:
    """Words of a topic that the row has in both views, and words of none."""
    shares = np.cumsum(1 / np.arange(1, SPARSE_COLUMNS + 1) ** 0.9)
    orders = np.random.default_rng(view)
    by_topic = np.stack([orders.permutation(SPARSE_COLUMNS) for _ in range(2 * K)])
    for rows, rng in shared_rows(n, 200_000):
        topic = rng.integers(0, 2 * K, rows)
        own = rng.spawn(2)[view]
        words = np.searchsorted(shares / shares[-1], own.random((rows, ENTRIES)))
        words = np.where(own.random((rows, ENTRIES)) < 0.6, by_topic[topic[:, None], words], words)
        place = (np.repeat(np.arange(rows), ENTRIES), words.ravel())
        counts = sparse.coo_array((np.ones(rows * ENTRIES, np.float32), place))
        counts.resize((rows, SPARSE_COLUMNS))
        yield counts.tocsr()


def generate(kind: str, folder: Path, n: int) -> None:
    """Both views as folders of rows."""
    from genelin.io import convert

    chunks = dense_chunks if kind == "dense" else sparse_chunks
    for view, name in enumerate("xy"):
        rows = convert(chunks(n, view), folder / f"{kind}-{name}")
        print(f"  wrote {rows}", flush=True)


# --- What is measured, each in a process of its own -----------------------------------------------


def anonymous() -> float:
    """GB of memory of this process that is not a file's, NaN where only Linux would say."""
    try:
        status = Path("/proc/self/status").read_text("ascii")
    except OSError:
        return np.nan
    return int(status.split("RssAnon:")[1].split()[0]) / 1e6


class Peak(threading.Thread):
    """The largest value of `anonymous` while this runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.gb, self._done = 0.0, threading.Event()

    def run(self) -> None:
        """Look every hundredth of a second."""
        while not self._done.wait(0.01):
            self.gb = max(self.gb, anonymous())

    def stop(self) -> float:
        """The peak."""
        self._done.set()
        self.join()
        return max(self.gb, anonymous())


def clocks() -> Any:
    """Seconds by the wall and of the processor."""
    return np.array([time.perf_counter(), time.process_time()])


def counted_reads() -> Callable[[], float]:
    """A function that says how many bytes were asked of sources since."""
    from genelin.io.prefetch import BlockSource

    read, summed = [0.0], BlockSource.summed

    def counting(self: Any, task: Any, other: Any = None, *others: Any, **options: Any) -> Any:
        read[0] += sum(source.stored for source in (self, other) if source is not None)
        return summed(self, task, other, *others, **options)

    BlockSource.summed = counting  # type: ignore[method-assign]
    return lambda: read[0]


def fit(kind: str, folder: Path, form: bool | None, memory: float) -> Measured:
    """Canonical correlations of both views, through `open_rows`."""
    from genelin import top_k_cca
    from genelin.io import open_rows

    X, Y = (open_rows(folder / f"{kind}-{name}", max_memory=memory) for name in "xy")
    read, peak = counted_reads(), Peak()
    peak.start()
    began = clocks()
    pairs = top_k_cca(X, Y, k=K, reg=1e-4, center=True, form=form, tol=1e-3)
    seconds, cpu = (clocks() - began).tolist()
    passes = read() / (X.stored + Y.stored)
    found = pairs.correlations.round(6).tolist()
    return Measured(f"{kind}, form={form}", seconds, cpu, passes, peak.stop(), found)


def by_numpy(folder: Path, form: bool) -> Measured:
    """One read of both views: blocks of rows, and the products that a fit makes of them."""
    d = 2 * DENSE_COLUMNS
    mean, V = np.ones(d), np.random.default_rng(0).standard_normal((d, WIDTH))
    S, out = np.zeros((d, d)), np.zeros((d, WIDTH))
    peak = Peak()
    peak.start()
    began = clocks()
    with open(folder / "dense-x/data.npy", "rb") as x, open(folder / "dense-y/data.npy", "rb") as y:
        for file in (x, y):
            np.lib.format.read_magic(file)
            np.lib.format.read_array_header_1_0(file)
        while True:
            X, Y = (np.fromfile(f, np.float32, BLOCK * DENSE_COLUMNS) for f in (x, y))
            if not X.size:
                break
            X, Y = (rows.reshape(-1, DENSE_COLUMNS) for rows in (X, Y))
            if form:
                Z = np.hstack([X, Y]) - mean
                S += Z.T @ Z
            else:
                for half, rows in ((slice(0, d // 2), X), (slice(d // 2, d), Y)):
                    Z = rows - mean[half]
                    out[half] += Z.T @ (Z @ V[half])
    seconds, cpu = (clocks() - began).tolist()
    name = "NumPy, covariance" if form else "NumPy, product"
    return Measured(name, seconds, cpu, 1, peak.stop(), [])


def cold(folder: Path) -> None:
    """Drop the pages of all files from the system's cache, on Linux."""
    if not hasattr(os, "posix_fadvise"):
        print("the system's cache is not emptied here: files are read from memory")
        return
    for file in folder.rglob("*.npy"):
        handle = os.open(file, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def apart(folder: Path, task: str, memory: float) -> Measured:
    """Measure in a new process, from a cold cache."""
    cold(folder)
    command = [sys.executable, __file__, "--task", task, "--folder", str(folder)]
    done = subprocess.run(
        [*command, "--memory", str(memory)], stdout=subprocess.PIPE, text=True, check=True
    )
    measured = Measured(**json.loads(done.stdout.splitlines()[-1]))
    print(
        f"  {measured.task:<24}{measured.seconds:>9.1f} s{measured.cpu:>9.1f} s CPU"
        f"{measured.passes:>8.2f} passes"
        f"{measured.per_pass:>9.1f} s/pass{measured.peak_gb:>8.2f} GB",
        flush=True,
    )
    return measured


TASKS: dict[str, Callable[[Path, float], Measured]] = {
    "dense": lambda folder, memory: fit("dense", folder, None, memory),
    "dense-streamed": lambda folder, memory: fit("dense", folder, False, memory),
    "sparse": lambda folder, memory: fit("sparse", folder, None, memory),
    "numpy": lambda folder, memory: by_numpy(folder, True),
    "numpy-streamed": lambda folder, memory: by_numpy(folder, False),
}


def run_dense(folder: Path, gigabytes: float, memory: float) -> list[dict[str, Any]]:
    """The dense pair: both routes, each between two runs of NumPy."""
    n = int(gigabytes * 1e9 / (2 * DENSE_COLUMNS * 4))
    print(f"dense, {gigabytes:.1f} GB: {n:,} rows, {DENSE_COLUMNS} + {DENSE_COLUMNS} columns")
    generate("dense", folder, n)
    results = []
    for route in ("", "-streamed"):
        before = apart(folder, f"numpy{route}", memory)
        ours = apart(folder, f"dense{route}", memory)
        after = apart(folder, f"numpy{route}", memory)
        plain = (before.per_pass + after.per_pass) / 2
        work = (before.cpu + after.cpu) / 2 / (ours.cpu / max(ours.passes, 1.0))
        ratios = {"speed": plain / ours.per_pass, "cpu_speed": work}
        results.append(verdict(ours, "dense") | ratios)
        print(f"  speed per pass against NumPy: {ratios['speed']:.2f} (at least {SPEED}); ", end="")
        print(f"by CPU time, which other work on the machine disturbs less: {work:.2f}")
    return results


def run_sparse(folder: Path, nonzeros: float, memory: float) -> list[dict[str, Any]]:
    """The sparse pair."""
    n = int(nonzeros / (2 * ENTRIES))
    print(f"sparse, {nonzeros:.0e} nonzeros: {n:,} rows, {SPARSE_COLUMNS:,} columns each")
    generate("sparse", folder, n)
    return [verdict(apart(folder, "sparse", memory), "sparse")]


def verdict(measured: Measured, kind: str) -> dict[str, Any]:
    """The figures with the bar for memory."""
    held = measured.peak_gb <= BARS[kind]
    print(f"  peak anonymous memory {measured.peak_gb:.2f} GB (at most {BARS[kind]} GB): {held}")
    return asdict(measured) | {"per_pass": measured.per_pass, "within": held}


def main() -> None:
    """Generate, measure, print, write JSON, remove."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=20.0, help="of the dense pair")
    parser.add_argument("--nonzeros", type=float, default=1e8, help="of the sparse pair")
    parser.add_argument("--memory", type=float, default=1e9, help="max_memory of open_rows")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder")
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        print(json.dumps(asdict(TASKS[options.task](options.folder, options.memory))))
        return
    place = Path(tempfile.mkdtemp(prefix="out-of-core-", dir=options.folder))
    free = shutil.disk_usage(place).free / 1e9
    gigabytes = min(options.gigabytes, 0.6 * free)
    try:
        results = run_dense(place, gigabytes, options.memory) if gigabytes else []
        for leftover in place.glob("dense-*"):
            shutil.rmtree(leftover)
        results += run_sparse(place, options.nonzeros, options.memory) if options.nonzeros else []
    finally:
        shutil.rmtree(place)
    write("out_of_core", {"gigabytes": gigabytes, "nonzeros": options.nonzeros, "runs": results})


if __name__ == "__main__":
    main()
