"""The workloads: real data beside the project (GENELIN_DATA) and generators of known kind."""

from __future__ import annotations

import gzip
import lzma
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

CACHE = Path("out/benchmarks/inputs")


def data_folder() -> Path:
    """Where the real data are."""
    folder = os.environ.get("GENELIN_DATA", "")
    if not folder or not Path(folder).is_dir():
        raise SystemExit("set GENELIN_DATA to the folder with mnist/, ptb/ and debian/")
    return Path(folder)


def mnist_halves(rows: int = 60_000) -> tuple[Any, Any]:
    """Left and right halves of the training images, pixels divided by 255."""
    path = next((data_folder() / "mnist").glob("train-images*"))
    raw = path.read_bytes()
    raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
    pixels = np.frombuffer(raw, dtype=np.uint8, offset=16).reshape(-1, 28, 28)[:rows] / 255.0
    return pixels[:, :, :14].reshape(-1, 392).copy(), pixels[:, :, 14:].reshape(-1, 392).copy()


def consecutive_words() -> tuple[Any, Any]:
    """Indicators of a word and of the one after it, in the training text of the Penn Treebank."""
    with lzma.open(data_folder() / "ptb" / "ptb.train.txt.xz", "rt", encoding="utf-8") as text:
        tokens = text.read().replace("\n", " <eos> ").split()
    codes = {word: j for j, word in enumerate(sorted(set(tokens)))}
    ids = np.array([codes[token] for token in tokens])
    one = np.ones(len(ids) - 1)
    shape, steps = (len(ids) - 1, len(codes)), np.arange(len(ids))
    return (
        sparse.csr_array((one, ids[:-1], steps), shape=shape),
        sparse.csr_array((one, ids[1:], steps), shape=shape),
    )


def debian_paths(files: Iterable[str] = ("amd64",), seen: int = 5) -> tuple[Any, Any]:
    """Directories of a path against the words of its base name, for every file of Debian 12."""
    name = f"debian-{'-'.join(files)}-{seen}"
    kept = [CACHE / f"{name}-{view}.npz" for view in "xy"]
    if not all(path.exists() for path in kept):
        CACHE.mkdir(parents=True, exist_ok=True)
        pairs = [(_directories(path), _words(path)) for path in _paths(files)]
        for side, path in enumerate(kept):
            aside = path.with_name("part.npz")
            sparse.save_npz(aside, _bags([pair[side] for pair in pairs], seen))
            aside.replace(path)
    x, y = (sparse.csr_array(sparse.load_npz(path)) for path in kept)
    return x, y


def _paths(files: Iterable[str]) -> Iterator[str]:
    for name in files:
        path = data_folder() / "debian" / f"Contents-{name}.gz"
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                yield line.rstrip("\n").rsplit(None, 1)[0].rstrip()


def _directories(path: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path.split("/")[:-1]))


def _words(path: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(re.findall("[a-z]+|[0-9]+", path.rsplit("/", 1)[-1].lower())))


def _bags(bags: list[tuple[str, ...]], seen: int) -> Any:
    """Binary rows over the features that occur in at least `seen` of them."""
    counts = Counter(word for bag in bags for word in bag)
    codes = {word: j for j, word in enumerate(w for w, count in counts.items() if count >= seen)}
    rows = [[codes[word] for word in bag if word in codes] for bag in bags]
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.fromiter((j for row in rows for j in row), dtype=np.int32, count=indptr[-1])
    X = sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(len(bags), len(codes)))
    X.sort_indices()
    return X


def power_law(
    n: int, d: int, nonzeros: int = 6, topics: int = 40, seed: int = 0
) -> tuple[Any, Any]:
    """Binary rows of at most so many words of d, by Zipf's law, in two views with one topic a row.

    A word comes from the topic's own vocabulary, every `topics`-th word of the language, with a
    probability from 0.99 for the first topic down to 0.05 for the last; else from all words. So
    correlations are distinct, down to those of the noise, about 2·√(d/n).
    """
    rng = np.random.default_rng(seed)
    shares = np.cumsum(1 / np.arange(1, d + 1))
    orders = [rng.permutation(d).astype(np.int32) for _ in range(2)]
    blocks: tuple[list[Any], list[Any]] = ([], [])
    for first in range(0, n, 500_000):
        topic = rng.integers(0, topics, (min(n - first, 500_000), 1))
        for order, view in zip(orders, blocks, strict=True):
            view.append(_topic_words(rng, topic, topics, nonzeros, shares, order))
    return tuple(sparse.vstack(view, format="csr") for view in blocks)


def _topic_words(
    rng: np.random.Generator, topic: Any, topics: int, nonzeros: int, shares: Any, order: Any
) -> Any:
    n, d = len(topic), len(order)
    own = rng.random((n, nonzeros)) < np.linspace(0.99, 0.05, topics)[topic]
    most = np.where(own, shares[d // topics - 1], shares[-1])
    rank = np.searchsorted(shares, rng.random((n, nonzeros)) * most)
    words = order[np.minimum(np.where(own, rank * topics + topic, rank), d - 1)]
    words.sort(axis=1)
    new = np.ones(words.shape, dtype=bool)
    new[:, 1:] = words[:, 1:] != words[:, :-1]
    indptr = np.concatenate([[0], np.cumsum(new.sum(axis=1))]).astype(np.int32)
    return sparse.csr_array((np.ones(indptr[-1]), words[new], indptr), shape=(n, d))


def stairs(d: int, steps: tuple[int, ...] = (5, 10, 20, 40, 80), gap: float = 0.1) -> Any:
    """Values below 0.95, d of them, each step followed by a drop of the same relative size."""
    values, top = np.empty(d), 0.95
    for first, last in zip((0, *steps), (*steps, d), strict=True):
        foot = 0.98 * top if last < d else 0.0
        values[first:last] = np.linspace(top, foot, last - first)
        top = (1 - gap) * foot
    return values


def known_correlations(values: Any, seed: int = 0) -> tuple[Any, Any]:
    """Sparse views with 2·d rows of which, without a ridge, `values` are the correlations.

    Two rows a pair hold vectors at the angle arccos σ, spread over features by a triangular L with
    unit diagonal and a few random entries a column, so that S = L·Lᵀ.
    """
    rng, d = np.random.default_rng(seed), len(values)
    pair = rng.permutation(d)
    sines = np.sqrt(1 - values**2)
    E_x = sparse.coo_array((np.ones(d), (2 * pair, pair)), shape=(2 * d, d))
    rows, columns = np.concatenate([2 * pair, 2 * pair + 1]), np.tile(pair, 2)
    E_y = sparse.coo_array((np.concatenate([values, sines]), (rows, columns)), shape=(2 * d, d))
    return tuple((np.sqrt(2 * d) * E.tocsr() @ _mixing(rng, d).T).tocsr() for E in (E_x, E_y))


def _mixing(rng: np.random.Generator, d: int) -> Any:
    column = np.repeat(np.arange(d), 5)
    row = rng.integers(0, d, len(column))
    below = row > column
    entries = 0.3 * rng.standard_normal(below.sum())
    off = sparse.csr_array((entries, (row[below], column[below])), shape=(d, d))
    return (off + sparse.eye_array(d)).tocsr()


def mesh_pencil(side: int, seed: int = 0) -> tuple[Any, Any]:
    """Linear elements on the unit square, side² nodes: A = K − 10⁴·M over half of them, B = M."""
    nodes = np.arange(side * side).reshape(side, side)
    corners = (nodes[:-1, :-1], nodes[:-1, 1:], nodes[1:, :-1], nodes[1:, 1:])
    a, b, c, e = (corner.ravel() for corner in corners)
    triangles = np.concatenate([np.stack([b, a, e], axis=1), np.stack([c, a, e], axis=1)])
    stiffness = np.array([[2, -1, -1], [-1, 1, 0], [-1, 0, 1]]) / 2  # right angle first
    mass = (np.ones((3, 3)) + np.eye(3)) / (24 * (side - 1) ** 2)
    half = np.random.default_rng(seed).permutation(len(triangles)) < len(triangles) // 2

    def assembled(local: Any, chosen: Any) -> Any:
        rows, columns = np.repeat(chosen, 3, axis=1).ravel(), np.tile(chosen, (1, 3)).ravel()
        entries = np.tile(local.ravel(), len(chosen))
        return sparse.coo_array((entries, (rows, columns)), shape=(side**2, side**2)).tocsr()

    K, M = assembled(stiffness, triangles), assembled(mass, triangles)
    return (K - 1e4 * assembled(mass, triangles[half])).tocsr(), M


def hard_pencil(
    d: int, kappa: float = 1e8, gap: float = 1e-3, k: int = 5, seed: int = 0
) -> tuple[Any, Any]:
    """Dense and indefinite; κ(B) about as given, of unit diagonal; |λ| drops by gap behind k."""
    rng = np.random.default_rng(seed)
    Q, U = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
    B = (Q * np.logspace(0, -np.log10(kappa), d)) @ Q.T
    scale = 1 / np.sqrt(B.diagonal())
    B = scale[:, None] * (B + B.T) / 2 * scale
    sizes = np.concatenate([np.linspace(1.0, 0.9, k), np.linspace(0.9 * (1 - gap), 0.0, d - k)])
    V = np.linalg.cholesky(B) @ U
    A = (V * (sizes * rng.choice([-1.0, 1.0], d))) @ V.T
    return (A + A.T) / 2, B
