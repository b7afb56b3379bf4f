"""Whether generated data keep their promises at a million rows, and how fast they are made.

Correlations of a sample of n rows differ from those of the population by about (1 − ρ²)/√n, the
standard error for Gaussian data: the table shows differences in that unit.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from genelin import datasets, top_k_cca


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    promises(rows)
    speeds(rows)


def promises(n: int) -> None:
    """Sample correlations against those of the population."""
    gaussian = datasets.two_view_gaussian(n, (12, 8), [0.95, 0.8, 0.6, 0.4, 0.2], (1e3, 10.0))
    report("two_view_gaussian", gaussian, gaussian.correlations, n)
    topics = datasets.sparse_topics(n, 40, topics=6)
    for center in (True, False):
        promised = datasets.topic_correlations(40, topics=6, center=center)
        report(f"sparse_topics, center={center}", topics, promised, n, center=center)


def report(name: str, views: datasets.Views, promised: Any, n: int, **settings: Any) -> None:
    """One line of the table."""
    found = top_k_cca(*views, k=len(promised), **settings).correlations
    errors = (found - promised) / ((1 - promised**2) / np.sqrt(n))
    shown = " ".join(
        f"{value:.3f} ({error:+.1f})" for value, error in zip(promised, errors, strict=False)
    )
    print(f"{name}: promised (error in standard errors) {shown}; worst {np.abs(errors).max():.2f}")


def speeds(n: int) -> None:
    """Seconds to make sparse_topics, and to read a file in svmlight format."""
    seconds, views = timed(lambda: datasets.sparse_topics(n, 100_000))
    print(f"sparse_topics({n}, 100000): {seconds:.1f} s, {views.X.nnz + views.Y.nnz} nonzeros")
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(2000):
        indices = np.sort(rng.choice(np.arange(1, 3_000_000), 115, replace=False))
        values = np.where(rng.random(115) < 0.9, 1.0, rng.random(115).round(6))
        words = [f"{j}:{value:g}" for j, value in zip(indices, values, strict=True)]
        lines.append(" ".join(["+1", *words]))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "rows.svm"
        file.write_text("\n".join(lines * 20) + "\n")
        datasets.read_svmlight(file)  # compiled from here on
        ours, _ = timed(lambda: datasets.read_svmlight(file))
        streamed, _ = timed(lambda: sum(1 for _ in datasets.stream_svmlight(file)))
        theirs, _ = timed(lambda: load_svmlight_file(str(file)))
        size = file.stat().st_size / 1e6
    print(
        f"svmlight, {size:.0f} MB: read {ours:.2f} s, streamed {streamed:.2f} s, scikit-learn "
        f"{theirs:.2f} s ({theirs / ours:.1f} × and {theirs / streamed:.1f} ×)"
    )


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of wall time, and what came of them."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


if __name__ == "__main__":
    main()
