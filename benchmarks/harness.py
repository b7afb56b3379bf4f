"""Measure runs in one process, one after the other; print a table, write JSON beside a picture."""

from __future__ import annotations

import json
import os
import platform
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy

from genelin import CCALin, TwoView, measures

OUT = Path("out/benchmarks")


class Reached(Exception):  # noqa: N818 - not an error
    """Ends a run without the checks that a result gets."""


@dataclass
class Run:
    """What one method took to reach an accuracy."""

    problem: str
    method: str
    seconds: float
    peak_mb: float
    passes: float
    sin_theta_b: float
    iterations: int
    facts: dict[str, Any] = field(default_factory=dict)


def run_to(
    problem: TwoView, name: str, method: CCALin, exact: Any, sine: float, **facts: Any
) -> Run:
    """Iterate until sin θ_B ≤ sine; what the check itself costs is not counted in passes."""
    seen: list[tuple[float, float, float]] = []
    k = len(exact.correlations)

    def close(record: Any, W: Any) -> None:
        angle = measures.sin_theta_b(problem, W, exact.x_weights, exact.y_weights)
        seen.append((record.seconds, record.passes, angle))
        if angle <= sine:
            raise Reached

    tracemalloc.start()
    with suppress(Reached):
        method(problem, k, 1e-12, 0, close)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    seconds, passes, angle = seen[-1]
    return Run(facts.pop("of", ""), name, seconds, peak, passes, angle, len(seen), facts)


def in_turn(
    functions: dict[str, Callable[[], Any]], repeats: int = 7, least: float = 0.0
) -> dict[str, float]:
    """Median wall times of functions that take turns, after a first call of each that compiles.

    A function is called again and again in its turn until that has taken `least` seconds.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(repeats):
        for name, function in functions.items():
            start, calls = time.perf_counter(), 0
            while not calls or time.perf_counter() - start < least:
                function()
                calls += 1
            seconds[name].append((time.perf_counter() - start) / calls)
    return {name: float(np.median(times)) for name, times in seconds.items()}


def table(runs: list[Run]) -> None:
    """Print runs as rows."""
    header = ("problem", "method", "seconds", "peak MB", "passes", "sin θ_B", "outer")
    print(f"{header[0]:<24}{header[1]:<22}" + "".join(f"{name:>10}" for name in header[2:]))
    for r in runs:
        print(
            f"{r.problem:<24}{r.method:<22}{r.seconds:>10.2f}{r.peak_mb:>10.0f}{r.passes:>10.1f}"
            f"{r.sin_theta_b:>10.1e}{r.iterations:>10d}"
        )


def write(name: str, content: Any) -> Path:
    """Write JSON with the versions that matter, aside first."""
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{name}.json"
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    versions |= {"scipy": scipy.__version__, "numba": numba.__version__}
    body = {"cores": os.cpu_count(), "versions": versions, "results": content}
    aside = path.with_suffix(".part")
    aside.write_text(json.dumps(body, indent=1, default=lambda value: asdict(value)))
    aside.replace(path)
    print(f"wrote {path}")
    return path
