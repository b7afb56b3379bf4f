"""The workloads: real data beside the project (GENELIN_DATA) and generators of known kind."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from genelin import datasets

CACHE = Path("out/benchmarks/inputs")


def mnist_halves(rows: int = 60_000) -> tuple[Any, Any]:
    """Left and right halves of the training images, pixels divided by 255."""
    return _pair(datasets.mnist_halves(rows=rows))


def consecutive_words() -> tuple[Any, Any]:
    """Indicators of a word and of the one after it, in the training text of the Penn Treebank."""
    return _pair(datasets.ptb_bigrams())


def debian_paths(files: Iterable[str] = ("amd64",), seen: int = 5) -> tuple[Any, Any]:
    """Directories of a path against the words of its base name, kept once they are read."""
    name = f"debian-{'-'.join(files)}-{seen}"
    kept = [CACHE / f"{name}-{view}.npz" for view in "xy"]
    if not all(path.exists() for path in kept):
        CACHE.mkdir(parents=True, exist_ok=True)
        for view, path in zip(datasets.debian_paths(files, seen), kept, strict=True):
            aside = path.with_name("part.npz")
            sparse.save_npz(aside, view)
            aside.replace(path)
    x, y = (sparse.csr_array(sparse.load_npz(path)) for path in kept)
    return x, y


def power_law(
    n: int, d: int, nonzeros: int = 6, topics: int = 40, seed: int = 0
) -> tuple[Any, Any]:
    """Binary rows of words by Zipf's law, in two views with one topic a row."""
    return _pair(datasets.sparse_topics(n, d, nonzeros, topics, rng=seed))


def stairs(d: int, steps: tuple[int, ...] = (5, 10, 20, 40, 80), gap: float = 0.1) -> Any:
    """Values below 0.95, d of them, each step followed by a drop of the same relative size."""
    values, top = np.empty(d), 0.95
    for first, last in zip((0, *steps), (*steps, d), strict=True):
        foot = 0.98 * top if last < d else 0.0
        values[first:last] = np.linspace(top, foot, last - first)
        top = (1 - gap) * foot
    return values


def samples(n: int, dx: int, dy: int, seed: int = 0) -> tuple[Any, Any]:
    """Few rows of many features, centred: ten common directions and noise three times as wide."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n, 10))
    X, Y = (
        common @ rng.standard_normal((10, d)) + 3 * rng.standard_normal((n, d)) for d in (dx, dy)
    )
    return X - X.mean(axis=0), Y - Y.mean(axis=0)


def known_correlations(values: Any, seed: int = 0) -> tuple[Any, Any]:
    """Sparse views with 2·d rows of which, without a ridge, `values` are the correlations."""
    return _pair(datasets.sparse_pairs(values, rng=seed))


def mesh_pencil(side: int, seed: int = 0) -> tuple[Any, Any]:
    """Linear elements on the unit square, side² nodes: A = K − 10⁴·M over half of them, B = M."""
    return datasets.mesh_pencil(side, rng=seed)


def square_modes(side: int) -> tuple[Any, Any]:
    """Stiffness and mass of bilinear elements on a square, side² nodes within a fixed border."""
    K, M = (
        sparse.diags_array(values, offsets=[-1, 0, 1], shape=(side, side))
        for values in ([-1.0, 2.0, -1.0], [1 / 6, 4 / 6, 1 / 6])
    )
    return (sparse.kron(K, M) + sparse.kron(M, K)).tocsr(), sparse.kron(M, M).tocsr()


def cube(side: int) -> Any:
    """Differences between neighbours in a cube, side³ nodes within a fixed border."""
    line = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    return sparse.kronsum(line, sparse.kronsum(line, line)).tocsr()


def rough_against_smooth(side: int, ridge: float = 1e-3, seed: int = 0) -> tuple[Any, Any]:
    """Random entries, eight a row, by the differences between neighbours on a square."""
    d, rng = side**2, np.random.default_rng(seed)
    i, j = rng.integers(0, d, (2, 4 * d))
    A = sparse.coo_array((rng.standard_normal(len(i)), (i, j)), shape=(d, d)).tocsr()
    line = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    return A + A.T, (sparse.kronsum(line, line) + ridge * sparse.eye_array(d)).tocsr()


def _adjacency(d: int, i: Any, j: Any) -> Any:
    """Ones where nodes are joined."""
    A = sparse.coo_array((np.ones(len(i)), (i, j)), shape=(d, d)).tocsr()
    A = A + A.T
    A.data[:] = 1.0
    return A


def community_graph(d: int, groups: int = 12, seed: int = 0) -> Any:
    """Ten neighbours of a node on average, most of them of its own group."""
    rng = np.random.default_rng(seed)
    group, i, j = rng.integers(0, groups, d), *rng.integers(0, d, (2, 5 * d))
    members, own = np.argsort(group, kind="stable"), rng.random(5 * d) < 0.8
    starts = np.searchsorted(group[members], np.arange(groups + 1))
    first, last = (starts[group[i[own]] + more] for more in (0, 1))
    j[own] = members[first + (rng.random(len(first)) * (last - first)).astype(int)]
    return _adjacency(d, i, j)


def power_graph(d: int, seed: int = 0) -> Any:
    """Ten neighbours of a node on average; the n-th has n^−0.6 of those of the first."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, d + 1) ** 0.6
    return _adjacency(d, *rng.choice(d, (2, 5 * d), p=shares / shares.sum()))


def disordered_lattice(side: int, seed: int = 0) -> Any:
    """Neighbours on a square, and random numbers on the diagonal (Anderson's model)."""
    line = sparse.diags_array([1.0, 0.0, 1.0], offsets=[-1, 0, 1], shape=(side, side))
    noise = np.random.default_rng(seed).uniform(-3, 3, side**2)
    return (sparse.kronsum(line, line) + sparse.diags_array(noise)).tocsr()


def dense_pencil(d: int, seed: int = 0) -> tuple[Any, Any]:
    """A random symmetric A, and the covariance of few more rows than columns."""
    rng = np.random.default_rng(seed)
    A, rows = rng.standard_normal((d, d)), rng.standard_normal((d + 50, d))
    return A + A.T, rows.T @ rows / d + 0.1 * np.eye(d)


def hard_pencil(
    d: int, kappa: float = 1e8, gap: float = 1e-3, k: int = 5, seed: int = 0
) -> tuple[Any, Any]:
    """Dense and indefinite; κ(B) about as given, of unit diagonal; |λ| drops by gap behind k."""
    case = datasets.pencil(d, k, kappa, gap, 1 / 0.9, unit_diagonal=True, rng=seed)
    return case.A, case.B


def _pair(views: datasets.Views) -> tuple[Any, Any]:
    return views.X, views.Y
