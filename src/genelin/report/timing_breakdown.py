"""Where the time went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Share", "bytes_in_words", "seconds_in_words", "time_shares"]


@dataclass(frozen=True)
class Share:
    """A part of a run, its seconds, and its percentage of all of them."""

    name: str
    seconds: float
    percent: float


def time_shares(solution: Any, others: Mapping[str, float]) -> list[Share]:
    """Parts of the run in order: what came before, iterations, certificate.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import top_k
    >>> [share.name for share in time_shares(top_k(np.eye(3)), {"reading": 0.5})]
    ['reading', 'direct solution with its certificate']
    """
    parts = {str(name): float(seconds) for name, seconds in others.items()}
    trace, total = solution.trace, float(solution.cost.seconds)
    if len(trace):
        first, last = float(trace[0].seconds), float(trace[-1].seconds)
        parts["preparation and first iteration"] = first
        if len(trace) > 1:
            parts[f"iterations 2–{len(trace)}"] = last - first
        parts["certificate"] = max(0.0, total - last)
    else:
        parts["direct solution with its certificate"] = total
    whole = sum(parts.values()) or 1.0
    return [Share(name, seconds, 100 * seconds / whole) for name, seconds in parts.items()]


def seconds_in_words(seconds: float) -> str:
    """A time as people say it.

    Examples
    --------
    >>> [seconds_in_words(t) for t in (0.0042, 3.21, 75.0, 4000.0)]
    ['4.2 ms', '3.2 s', '1 min 15 s', '1 h 7 min']
    """
    if seconds < 0.9995:
        return f"{1000 * seconds:.2g} ms" if seconds < 0.0995 else f"{1000 * seconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if seconds < 3599.5:
        return "{} min {} s".format(*divmod(round(seconds), 60))
    return "{} h {} min".format(*divmod(round(seconds / 60), 60))


def bytes_in_words(count: float) -> str:
    """A size with its unit.

    Examples
    --------
    >>> bytes_in_words(3.2e7)
    '32 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
