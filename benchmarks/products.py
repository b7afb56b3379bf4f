"""Sparse products of genelin's kernels against SciPy's: X V, and XᵀX V in one sweep over the rows.

Both take turns in one process: the machine's own speed may change between runs, but hardly within a
turn. Short products are repeated in their turn, as they are in a solve: a core that slept while the
other product ran on one alone is slow at first.

`floor` is what the same threads need to touch the cache lines of XᵀX V by rows, and nothing
else: no arithmetic, no values, nothing cleared, laid out or added up. Products that share out
columns, or take a few at a time, touch fewer at once and may go below it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np
from scipy import sparse

import inputs
from genelin import kernels
from genelin.kernels.compiled import balanced, threads
from genelin.system.buffer_pool import zeros
from genelin.system.threads import in_threads
from harness import in_turn, write

TURN = 0.05  # seconds of a turn, at least
ANYWHERE = [  # rows, columns, entries of a row
    (300_000, 1_000, 10),
    (20_000, 5_000, 50),
    (100_000, 10_000, 10),
    (200_000, 20_000, 20),
    (500_000, 50_000, 10),
    (10_000, 200_000, 200),
    (20_000, 50_000, 50),
    (100_000, 100_000, 10),
    (1_000_000, 1_000_000, 6),
]


def matrices(quick: bool) -> dict[str, Callable[[], Any]]:
    """Sparse rows of several kinds; the first is the workload of `default.py`."""
    n, d = (50_000, 10_000) if quick else (1_000_000, 100_000)
    found: dict[str, Callable[[], Any]] = {
        "power law": lambda: inputs.power_law(n, d)[0],
        "power law, few features": lambda: inputs.power_law(n, d // 50)[0],
        "power law, long rows": lambda: inputs.power_law(n // 50, d, 100)[0],
        "uniform, 6 a row": partial(uniform, n, d, 6),
        "uniform, 40 a row": partial(uniform, n // 5, d, 40),
    }
    for shape in ANYWHERE[:3] if quick else ANYWHERE:
        found["uniform, {:,} × {:,}, {}".format(*shape)] = partial(uniform, *shape)
    if os.environ.get("GENELIN_DATA") and not quick:
        found["Debian directories"] = lambda: inputs.debian_paths(("amd64",), 5)[0]
    return found


def uniform(n: int, d: int, per_row: int) -> Any:
    """Entries anywhere."""
    rng = np.random.default_rng(0)
    entries = rng.standard_normal(n * per_row), rng.integers(0, d, n * per_row, dtype=np.int32)
    X = sparse.csr_array((*entries, np.arange(0, len(entries[0]) + 1, per_row)), shape=(n, d))
    X.sum_duplicates()
    return X


def cases(X: Any) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Names of products; ours and SciPy's."""
    rng = np.random.default_rng(0)
    V, W = (rng.standard_normal((X.shape[1], k)) for k in (24, 20))
    return {
        "X V, 24 columns": (lambda: kernels.times(X, V), lambda: X @ V),
        "XᵀX V, 20 columns": (lambda: kernels.cross_times(X, X, W)[0], lambda: X.T @ (X @ W)),
    }


@numba.njit(nogil=True)
def touch_apart(indices: Any, V: Any, P: Any, first: int, last: int) -> float:
    """A number of every line of rows of V is read, and one of rows of P is changed."""
    total = 0.0
    for e in range(first, last):
        j = indices[e]
        total += V[j, 0] + V[j, 8] + V[j, 16]
        P[j, 0] += 1.0
        P[j, 8] += 1.0
        P[j, 16] += 1.0
    return total


@numba.njit(nogil=True)
def touch_beside(indices: Any, both: Any, first: int, last: int) -> float:
    """The same for rows of V and P beside each other, on five lines instead of six."""
    total = 0.0
    for e in range(first, last):
        j = indices[e]
        total += both[j, 0] + both[j, 8]
        both[j, 16] += 1.0
        both[j, 24] += 1.0
        both[j, 32] += 1.0
    return total


def floor(X: Any, repeats: int) -> float:
    """Seconds to touch what XᵀX V of 20 columns needs, in the better of two layouts."""
    count, d = threads(), X.shape[1]
    spans = [(int(X.indptr[i]), int(X.indptr[j])) for i, j in balanced(X.indptr, count)]
    V, Ps = zeros((d, 20)), [zeros((d, 20)) for _ in spans]
    both = [zeros((d, 40)) for _ in spans]
    apart = [(X.indices, V, Ps[t], *span) for t, span in enumerate(spans)]
    beside = [(X.indices, both[t], *span) for t, span in enumerate(spans)]
    ways = {
        "apart": lambda: in_threads(touch_apart, apart),
        "beside": lambda: in_threads(touch_beside, beside),
    }
    return min(in_turn(ways, repeats, TURN).values())


def compared(ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Median seconds of both, their ratio, and the largest difference relative to the largest."""
    exact = theirs()
    difference = float(np.abs(ours() - exact).max() / np.abs(exact).max())
    seconds = in_turn({"ours": ours, "scipy": theirs}, repeats, TURN)
    return seconds | {"ratio": seconds["scipy"] / seconds["ours"], "difference": difference}


def main() -> None:
    """Print a line for every matrix and product; write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="reduced sizes")
    options = parser.parse_args()
    rows = []
    print(
        f"{'rows':<36}{'product':<20}{'ms':>8}{'SciPy':>8}{'ratio':>8}{'difference':>12}{'floor':>8}"
    )
    for name, make in matrices(options.quick).items():
        X = make()
        for product, pair in cases(X).items():
            row = compared(*pair, options.repeats)
            if product.startswith("XᵀX"):
                row["floor"] = floor(X, options.repeats)
            rows.append({"rows": name, "product": product} | row)
            print(
                f"{name:<36}{product:<20}{1e3 * row['ours']:>8.1f}{1e3 * row['scipy']:>8.1f}"
                f"{row['ratio']:>8.2f}{row['difference']:>12.1e}"
                + (f"{1e3 * row['floor']:>8.1f}" if "floor" in row else ""),
                flush=True,
            )
    write("products_quick" if options.quick else "products", rows)


if __name__ == "__main__":
    main()
