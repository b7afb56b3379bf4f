"""Nonzeros per second: stochastic steps through sparse rows against `X @ V` of SciPy.

A step reads its row twice and both reads and writes the block, where a product reads each once; it
is timed as the solvers run it, with random runs of rows and columns shared out among threads, and
by the bare kernel on one thread with rows in order. Times are medians of runs that take turns.

At one column two more runs show what a plain loop reaches that does less: for every row, in the
order of the solver or of the matrix, g is read and written where the row has entries, without
ridge, right-hand side and mean.
"""

from __future__ import annotations

import argparse
from functools import partial
from operator import matmul

import numpy as np
from numba import njit
from scipy import sparse

from genelin.kernels import sparse_steps
from genelin.operators import Gram
from harness import in_turn, write


@njit(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def read_and_write(data, indices, indptr, order, g):  # type: ignore[no-untyped-def]
    """Take g − 1e-3·x xᵀg for the rows x, one after the other."""
    for step in range(order.shape[0]):
        i, product = order[step], 0.0
        for entry in range(indptr[i], indptr[i + 1]):
            product += data[entry] * g[indices[entry]]
        for entry in range(indptr[i], indptr[i + 1]):
            g[indices[entry]] -= 1e-3 * product * data[entry]


def main() -> None:
    """Time block widths from 1 to 64, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    n, d = parser.parse_args().rows, 20_000
    rng = np.random.default_rng(0)
    words = {"zipf": rng.zipf(1.3, (n, 6)) % d, "uniform": rng.integers(0, d, (n, 6))}
    results = []
    print(f"{'columns of X':<14}{'k':>4}{'X @ V':>10}{'solver':>10}{'kernel':>10}   M nonzeros/s")
    for name, columns in words.items():
        entries = (np.ones(6 * n), (np.repeat(np.arange(n), 6), columns.ravel()))
        X = sparse.csr_array(entries, shape=(n, d))
        rows = Gram(X, reg=1e-4).row_blocks()
        sample = rows.sample(n, rng, by_norm=True)
        for k in (1, 2, 4, 8, 12, 16, 24, 32, 64):
            V = rng.standard_normal((d, k))
            arguments = (X, np.arange(n), np.ones(n), V)
            steps = (1, 1e-3, 1e-4, n // 2, 4 * d // 6)
            runs = {
                "X @ V": partial(matmul, X, V),
                "solver": partial(rows.averaged_steps, V, sample, 1e-3, 1),
                "kernel": partial(sparse_steps, *arguments, *steps),
            }
            if k == 1:
                bare = partial(read_and_write, X.data, X.indices, X.indptr)
                runs["plain, as solver"] = partial(bare, sample.rows, np.ones(d))
                runs["plain, as kernel"] = partial(bare, np.arange(n), np.ones(d))
            seconds = in_turn(runs)
            speed = {key: X.nnz / value / 1e6 for key, value in seconds.items()}
            results.append({"columns": name, "k": k, "million_nonzeros_per_second": speed})
            print(
                f"{name:<14}{k:>4}{speed['X @ V']:>10.0f}{speed['solver']:>10.0f}"
                f"{speed['kernel']:>10.0f}   ratio {speed['solver'] / speed['X @ V']:.2f}, "
                f"{speed['kernel'] / speed['X @ V']:.2f}"
            )
            for key in runs.keys() - {"X @ V", "solver", "kernel"}:
                print(f"{'':<38}{key}: {speed[key]:.0f}, ratio {speed[key] / speed['X @ V']:.2f}")
    write("row_kernel", results)


if __name__ == "__main__":
    main()
