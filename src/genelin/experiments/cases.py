"""Which data an experiment runs on: the paper's where they are available, else their stand-ins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from genelin.datasets import (
    Views,
    debian_paths,
    digits_halves,
    mnist_halves,
    ptb_bigrams,
    sparse_topics,
    url_reputation,
)
from genelin.datasets.fetch import find
from genelin.datasets.url import ARCHIVE, COMBINED, FOLDERS

__all__ = ["Case", "described", "large_cases", "mnist_case", "ptb_case"]

MNIST_FILES = ("mnist/train-images-idx3-ubyte.gz", "mnist/train-images-idx3-ubyte")
PTB_FILES = tuple(f"ptb/ptb.train.txt{suffix}" for suffix in ("", ".xz", ".gz", ".bz2"))
DEBIAN_FILES = ("debian/Contents-amd64.gz",)
URL_ROWS, URL_FEATURES = 1_000_000, 100_000


@dataclass(frozen=True)
class Case:
    """Two views with the settings of an experiment on them.

    Attributes
    ----------
    views : the data.
    k, reg, center : of the problem.
    reduction : δ of CCALin's solves.
    stands_for : the data set of the paper that it replaces, "" if it is the paper's own.
    """

    views: Views
    k: int
    reg: float
    center: bool
    reduction: float
    stands_for: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def on_record(self) -> dict[str, Any]:
        """What every run on it notes."""
        X, Y = self.views
        nonzeros = float(sum(_nonzeros(view) for view in (X, Y)))
        density = nonzeros / (X.shape[0] * (X.shape[1] + Y.shape[1]))
        return {"stands_for": self.stands_for, "density": density, **self.facts}


def _nonzeros(view: Any) -> int:
    return int(view.nnz if hasattr(view, "nnz") else np.count_nonzero(view))


def mnist_case(quick: bool = False) -> Case:
    """Halves of MNIST's digits; of scikit-learn's where MNIST is not available."""
    if find(*MNIST_FILES) is None:
        k, reg = (3, 0.1) if quick else (10, 1e-2)
        return Case(digits_halves(), k, reg, True, 1e-3, "MNIST")
    return Case(mnist_halves(rows=5000 if quick else None), 10, 1e-2, True, 1e-2)


def ptb_case(quick: bool = False) -> Case:
    """Consecutive words of the Penn Treebank; of generated topics where it is not available.

    One word a row makes both covariances diagonal, as in the paper.
    """
    if find(*PTB_FILES) is None:
        n, d, topics = (20_000, 200, 12) if quick else (100_000, 1_000, 20)
        words = sparse_topics(n, d, nonzeros=1, topics=topics)
        return Case(words, 3 if quick else 10, 1e-3, False, 1e-4, "Penn Treebank")
    words = ptb_bigrams(vocabulary=500) if quick else ptb_bigrams()
    return Case(words, 10, 2e-2, False, 1e-4)


def large_cases(quick: bool = False, full: bool = True) -> list[Case]:
    """URL Reputation; where it is not available, Debian's paths if these are, and sparse topics.

    `full` takes topics at the paper's size, 10⁶ rows and 10⁵ + 10⁵ words, else a tenth of it.
    """
    url = find(*FOLDERS, ARCHIVE.path, *COMBINED)
    if url is not None:
        views = url_reputation(url, rows=URL_ROWS, features=URL_FEATURES)
        return [Case(views, 20, 1e-4, False, 0.5)]
    if quick:
        return [Case(sparse_topics(2_000, 200, topics=10), 3, 1e-2, False, 0.3, "URL Reputation")]
    n, d = (URL_ROWS, URL_FEATURES) if full else (URL_ROWS // 10, URL_FEATURES // 10)
    cases = [Case(sparse_topics(n, d), 20, 1e-4, False, 0.5, "URL Reputation")]
    if find(*DEBIAN_FILES) is not None:
        cases.append(Case(debian_paths(), 20, 1e-4, False, 0.5, "URL Reputation"))
    return cases


def described(dataset: str, problem: dict[str, Any]) -> str:
    """The data and settings of a run in one line, for the foot of a figure."""
    reg = problem["reg"][0]
    place = f" (in place of {problem['stands_for']})" if problem.get("stands_for") else ""
    centring = "centred" if problem["center"] else "not centred"
    return (
        f"{dataset}{place}: n = {problem['n']:,}, d = {problem['d1']:,} + {problem['d2']:,}, "
        f"k = {problem['k']}, ridge {reg:g}, {centring}"
    )
