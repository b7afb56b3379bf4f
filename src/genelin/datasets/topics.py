"""Sparse binary rows over words of a power law, in two views that share a topic."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cholesky, svdvals

from genelin.datasets.bunches import Array, Views
from genelin.datasets.generated import MOST, OWN, Rng
from genelin.validation import check_count, generator

__all__ = ["sparse_topics", "topic_correlations"]

ROWS = 500_000  # that are drawn at once


def sparse_topics(n: int, d: int, nonzeros: int = 6, topics: int = 40, *, rng: Rng = 0) -> Views:
    """Binary rows of at most so many words of d, by Zipf's law, in two views with one topic a row.

    A word comes from the topic's own vocabulary, every `topics`-th word of the language, with a
    probability from 0.99 for the first topic down to 0.05 for the last; else from all words. Given
    the topic the views are independent, so that at most topics − 1 correlations of the population
    are not zero, all distinct: `topic_correlations` tells them. Those of the noise are about
    2·√(d/n).

    Parameters
    ----------
    n, d : rows, and columns of each view.
    nonzeros : words drawn for a row; repeated ones count once.
    topics : at most d.
    rng : seed or generator.

    Examples
    --------
    >>> views = sparse_topics(1000, 200)
    >>> views.X.shape, bool(views.X.nnz <= 6000)
    ((1000, 200), True)
    """
    n, d, nonzeros, topics = _checked(n, d, nonzeros, topics)
    rng = generator(rng)
    shares = np.cumsum(1 / np.arange(1, d + 1))
    orders = [rng.permutation(d).astype(np.int32) for _ in range(2)]
    blocks: tuple[list[Any], list[Any]] = ([], [])
    for first in range(0, n, ROWS):
        topic = rng.integers(0, topics, (min(n - first, ROWS), 1))
        for order, view in zip(orders, blocks, strict=True):
            view.append(_topic_words(rng, topic, topics, nonzeros, shares, order))
    X, Y = (view[0] if len(view) == 1 else sparse.vstack(view, format="csr") for view in blocks)
    return Views(
        f"sparse topics, {n} rows, {d} words",
        X,
        Y,
        f"{nonzeros} words a row and view out of {d:,} by Zipf's law, {topics} topics shared.",
        OWN,
    )


def _checked(n: Any, d: Any, nonzeros: Any, topics: Any) -> tuple[int, int, int, int]:
    n, d = check_count("n", n, most=MOST), check_count("d", d, most=MOST)
    nonzeros, topics = check_count("nonzeros", nonzeros, most=MOST), check_count("topics", topics)
    if topics > d:
        raise ValueError(f"topics={topics} must be at most d={d}: every topic has words of its own")
    return n, d, nonzeros, topics


def _strength(topics: int) -> Array:
    """The probability that a word comes from the topic's own vocabulary, topic by topic."""
    return np.linspace(0.99, 0.05, topics)


def _topic_words(
    rng: np.random.Generator, topic: Any, topics: int, nonzeros: int, shares: Any, order: Any
) -> Any:
    n, d = len(topic), len(order)
    own = rng.random((n, nonzeros)) < _strength(topics)[topic]
    most = np.where(own, shares[d // topics - 1], shares[-1])
    rank = np.searchsorted(shares, rng.random((n, nonzeros)) * most)
    words = order[np.minimum(np.where(own, rank * topics + topic, rank), d - 1)]
    words.sort(axis=1)
    new = np.ones(words.shape, dtype=bool)
    new[:, 1:] = words[:, 1:] != words[:, :-1]
    indptr = np.concatenate([[0], np.cumsum(new.sum(axis=1))]).astype(np.int32)
    return sparse.csr_array((np.ones(indptr[-1]), words[new], indptr), shape=(n, d))


def topic_correlations(
    d: int, nonzeros: int = 6, topics: int = 40, *, reg: float = 0.0, center: bool = True
) -> Array:
    """Canonical correlations of the population behind `sparse_topics`, at most `topics` of them.

    With q_t the probabilities of words in topic t and m draws a row, E[x | t] = 1 − (1 − q_t)ᵐ and
    E[xᵢxⱼ | t] = 1 − (1 − qᵢ)ᵐ − (1 − qⱼ)ᵐ + (1 − qᵢ − qⱼ)ᵐ off the diagonal: polynomials in q.
    So S is a diagonal plus a matrix of rank topics·(m + 1), and the d×d matrix is never formed.

    Examples
    --------
    >>> topic_correlations(2000)[:3].round(4).tolist()
    [0.8727, 0.8683, 0.8635]
    """
    _, d, nonzeros, topics = _checked(1, d, nonzeros, topics)
    Q, m = _word_probabilities(d, topics), nonzeros
    present = 1.0 - (1.0 - Q) ** m  # (d, topics)
    mean = present.mean(axis=1)
    powers = Q[:, :, None] ** np.arange(m + 1)  # (d, topics, m + 1)
    C = _pair_polynomial(m)
    diagonal = mean - np.einsum("dta,ab,dtb->d", powers, C, powers, optimize=True) / topics + reg
    F, blocks = powers.reshape(d, -1), np.kron(np.eye(topics) / topics, C)
    if center:
        F, blocks = _with_mean(F, blocks, mean)
    inner = _inverse_form(diagonal, F, blocks, present)
    L = cholesky(inner + 1e-15 * np.trace(inner) * np.eye(topics), lower=True)
    weights = np.eye(topics) / topics - center / topics**2
    sigma: Array = svdvals(L.T @ weights @ L)
    return sigma[: topics - bool(center)]


def _word_probabilities(d: int, topics: int) -> Array:
    """q_t: (d, topics), in the order of ranks."""
    zipf, own = 1 / np.arange(1, d + 1), 1 / np.arange(1, d // topics + 1)
    strength = _strength(topics)
    Q: Array = np.outer(zipf / zipf.sum(), 1.0 - strength)
    for t in range(topics):
        Q[t : t + topics * len(own) : topics, t] += strength[t] * own / own.sum()
    return Q


def _pair_polynomial(m: int) -> Array:
    """C with Σ C_ab qᵢᵃqⱼᵇ = 1 − (1 − qᵢ)ᵐ − (1 − qⱼ)ᵐ + (1 − qᵢ − qⱼ)ᵐ."""
    C = np.zeros((m + 1, m + 1))
    for a in range(1, m + 1):
        for b in range(1, m + 1 - a):
            C[a, b] = (-1.0) ** (a + b) * comb(m, a + b) * comb(a + b, a)
    return C


def _with_mean(F: Any, C: Any, mean: Array) -> tuple[Array, Array]:
    """FCFᵀ − mean·meanᵀ as one form."""
    wider = np.zeros((len(C) + 1, len(C) + 1))
    wider[:-1, :-1], wider[-1, -1] = C, -1.0
    return np.hstack([F, mean[:, None]]), wider


def _inverse_form(D: Array, F: Any, C: Any, M: Array) -> Array:
    """Mᵀ(diag D + FCFᵀ)⁻¹M by the Sherman–Morrison–Woodbury formula."""
    scale = np.sqrt(np.einsum("ij,ij,i->j", F, F, 1 / D))
    scale[scale == 0] = 1.0
    F, C = F / scale, C * scale * scale[:, None]
    weighted = F / D[:, None]
    G, H = F.T @ weighted, weighted.T @ M
    rest = np.linalg.solve(np.eye(len(C)) + C @ G, C @ H)
    inner: Array = M.T @ (M / D[:, None]) - H.T @ rest
    return (inner + inner.T) / 2
