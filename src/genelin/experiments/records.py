"""A run is (data set, method, settings, seed) → trace with its cost and the paper's measures."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import svd

from genelin import measures
from genelin.datasets import Views
from genelin.eigen.planner import best_route
from genelin.errors import ConvergenceWarning
from genelin.linalg import orthonormalise
from genelin.linalg.columns import Block, Vector
from genelin.problems import TwoView
from genelin.results import CCASolution, Record

__all__ = ["Point", "RunRecord", "read_records", "record_run", "write_records"]


@dataclass(frozen=True)
class Point:
    """One record of a trace, with the measures of what was found by then.

    Attributes
    ----------
    iteration, flops, passes, seconds, residual : as in `Record`; measuring takes no seconds.
    tcc, pcc : total and proportion of correlation captured.
    sin_theta_x, sin_theta_y : to the true canonical spaces.
    sin_theta_b : of the 2k-dimensional space of the block pair; of a method that keeps pairs, of
        the space diag(Φ, Ψ), so that it is the larger of the two.

    Examples
    --------
    >>> from genelin.baselines import NWCCA
    >>> from genelin.datasets import digits_halves
    >>> point = record_run(digits_halves(), NWCCA(), k=3, reg=1e-3).points[-1]
    >>> bool(0.5 < point.pcc < 1.0)
    True
    """

    iteration: int
    flops: float
    passes: float
    seconds: float
    residual: float
    tcc: float
    pcc: float
    sin_theta_x: float
    sin_theta_y: float
    sin_theta_b: float


@dataclass(frozen=True)
class RunRecord:
    """A run: what was solved, by what, and how it went. One line of JSON each.

    Attributes
    ----------
    dataset : its name.
    problem : n, d1, d2, nonzeros, k, reg, center, tol.
    method, settings : the name of the method, and what it was given.
    seed : of the run.
    points : the trace.
    status, residual, sin_theta_bound : how it ended.
    cost : passes, applications, flops, seconds of all, its certificate included.
    best : the TCC of the exact answer.

    Examples
    --------
    >>> from genelin import CCALin
    >>> from genelin.datasets import digits_halves
    >>> run = record_run(digits_halves(), CCALin(), k=2, reg=1e-2)
    >>> run.method, run.status, round(run.points[-1].pcc, 6)
    ('CCALin', 'converged', 1.0)
    """

    dataset: str
    problem: dict[str, Any]
    method: str
    settings: dict[str, Any]
    seed: int
    points: tuple[Point, ...]
    status: str
    residual: float
    sin_theta_bound: float
    cost: dict[str, float]
    best: float

    def column(self, name: str) -> Vector:
        """One field of all points, as an array."""
        return np.array([getattr(point, name) for point in self.points], dtype=np.float64)


def record_run(
    views: Views,
    method: Any = None,
    *,
    k: int,
    reg: Any = 0.0,
    center: bool = True,
    form: bool | None = None,
    tol: float = 1e-6,
    seed: int = 0,
    exact: CCASolution | None = None,
    every: int = 1,
) -> RunRecord:
    """Run a method on a data set, and measure what it has at every record of its trace.

    Parameters
    ----------
    views : the data set.
    method : of `top_k_cca`; None is the default.
    k, reg, center, form, tol : of the problem, as in `top_k_cca`.
    seed : of the run.
    exact : the true answer; None solves for it with the default method, to 1e-8.
    every : measure every so many records, and the last.

    Examples
    --------
    >>> from genelin.baselines import MomentumALS
    >>> from genelin.datasets import digits_halves
    >>> run = record_run(digits_halves(), MomentumALS(), k=2, reg=1e-2)
    >>> bool(run.points[0].sin_theta_x > 0.1 and run.points[-1].sin_theta_x < 1e-4)
    True
    """
    problem = TwoView(views.X, views.Y, reg, center, form=form)
    truth = _exact(problem, k) if exact is None else exact
    watch = _Watch(TwoView(problem.X, problem.Y, reg, center), k, truth, every)
    if method is None:
        route = best_route(problem, k)
        problem, method = route.problem, route.method
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status is on record
        solution = method(problem, k, tol, np.random.default_rng(seed), watch)
    watch.finish(solution)
    x, y = problem.X, problem.Y
    described = {"n": x.n, "d1": x.d, "d2": y.d, "nonzeros": x.stored + y.stored, "k": k}
    return RunRecord(
        dataset=views.name,
        problem=described | {"reg": list(problem.regs), "center": center, "tol": tol},
        method=type(method).__name__,
        settings=_settings(method),
        seed=seed,
        points=tuple(watch.points),
        status=solution.status.label,
        residual=float(solution.residuals.max()),
        sin_theta_bound=float(solution.sin_theta_bound),
        cost=asdict(replace(solution.cost, seconds=solution.cost.seconds - watch.busy)),
        best=float(truth.correlations.sum()),
    )


def _exact(problem: TwoView, k: int) -> CCASolution:
    route = best_route(problem, k)
    solution: CCASolution = route.method(route.problem, k, 1e-8, np.random.default_rng(0))
    if solution.residuals.max() > 1e-6:
        raise RuntimeError(
            f"the exact answer was not found, {solution.status}: pass a better one as exact="
        )
    return solution


class _Watch:
    """A callback that measures; the time it takes is not that of the method."""

    def __init__(self, problem: TwoView, k: int, exact: CCASolution, every: int) -> None:
        self.problem, self.k, self.exact, self.every = problem, k, exact, every
        self.points: list[Point] = []
        self.busy = 0.0  # seconds spent on measuring
        self._last: tuple[Record, float, Block] | None = None  # seen, but not measured

    def __call__(self, record: Record, W: Block) -> None:
        began = time.perf_counter()
        seconds = record.seconds - self.busy
        if (record.iteration - 1) % self.every == 0:
            self._add(record, seconds, W)
            self._last = None
        else:
            self._last = (record, seconds, W.copy())
        self.busy += time.perf_counter() - began

    def finish(self, solution: CCASolution) -> None:
        """The last record, and of a method without records its answer."""
        if self._last is not None:
            self._add(*self._last)
        if not self.points:
            sigma, cost = solution.correlations, solution.cost
            residual = float(solution.residuals.max()) / max(float(sigma[0]), 1e-300)
            parts = (cost.seconds, cost.passes, cost.flops, cost.applications, 0, residual, sigma)
            W = np.vstack([solution.x_weights, solution.y_weights])
            self._add(Record(1, *parts), cost.seconds, W)

    def _add(self, record: Record, seconds: float, W: Block) -> None:
        found = _measured(self.problem, self.k, self.exact, W)
        spent = (record.flops, record.passes, seconds, record.residual)
        self.points.append(Point(record.iteration, *spent, *found))


def _measured(problem: TwoView, k: int, exact: CCASolution, W: Block) -> tuple[float, ...]:
    """TCC, PCC and the sines, of stacked pairs or of a 2k-dimensional space."""
    d1 = problem.X.d
    if len(W) != d1 + problem.Y.d:  # coordinates in the ranges of deficient views
        cut = problem.pencil.B.diagonal_blocks[0].shape[0]
        W = np.vstack(problem.lift(W[:cut], W[cut:]))
    Vx, Vy = exact.x_weights, exact.y_weights
    Phi, Psi, tcc = _leading(problem, W[:d1], W[d1:], k)
    sine_x = measures.sin_theta_x(problem, Phi, Vx)
    sine_y = measures.sin_theta_y(problem, Psi, Vy)
    sine_b = max(sine_x, sine_y)
    if W.shape[1] > k and all(Q is None for Q in problem.bases):
        sine_b = measures.sin_theta_b(problem, W, Vx, Vy)
    return tcc, tcc / float(exact.correlations.sum()), sine_x, sine_y, sine_b


def _leading(problem: TwoView, Wx: Block, Wy: Block, k: int) -> tuple[Block, Block, float]:
    """The k leading canonical pairs between two spans, and the sum of their correlations."""
    Wx, _ = orthonormalise(Wx, problem.S_x, drop=1e-10)
    Wy, _ = orthonormalise(Wy, problem.S_y, drop=1e-10)
    left, sigma, right = svd(Wx.T @ (problem.S_xy @ Wy), full_matrices=False)
    return Wx @ left[:, :k], Wy @ right[:k].T, float(sigma[:k].sum())


def _settings(value: Any) -> Any:
    """What an object was given, in the terms of JSON; solvers inside by name and settings."""
    if is_dataclass(value) and not isinstance(value, type):
        given = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        return {name: _described(part) for name, part in given.items()}
    return {}


def _described(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)  # JSON has no infinity
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [_described(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {"name": type(value).__name__, **_settings(value)}
    return getattr(value, "__qualname__", type(value).__name__)


# --- Files: one line of JSON a run -------------------------------------------------------------


def write_records(path: str | Path, runs: Iterable[RunRecord]) -> Path:
    """Write runs as lines of JSON; the file is complete or as it was before.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from genelin.baselines import NWCCA
    >>> from genelin.datasets import digits_halves
    >>> run = record_run(digits_halves(), NWCCA(), k=2, reg=1e-3)
    >>> file = write_records(pathlib.Path(tempfile.mkdtemp()) / "runs.jsonl", [run])
    >>> read_records(file) == [run]
    True
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with aside.open("w", encoding="utf-8") as file:
            for run in runs:
                content = asdict(run)
                for part in (content, *content["points"]):
                    part["residual"] = _finite(part["residual"])
                file.write(json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    return path


def _finite(residual: float) -> float | None:
    """A residual that could not be bounded is null: JSON has no infinity."""
    return residual if np.isfinite(residual) else None


def read_records(path: str | Path) -> list[RunRecord]:
    """Runs from lines of JSON; a line that is none is reported with its number.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "runs.jsonl"
    >>> _ = file.write_text('{"dataset": "digits"}')
    >>> read_records(file)
    Traceback (most recent call last):
        ...
    ValueError: ...runs.jsonl, line 1: not the record of a run (...)
    """
    runs = []
    with Path(path).open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                content = json.loads(line)
                for part in (content, *content["points"]):
                    part["residual"] = np.inf if part["residual"] is None else part["residual"]
                points = tuple(Point(**point) for point in content.pop("points"))
                runs.append(RunRecord(points=points, **content))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise ValueError(
                    f"{path}, line {number}: not the record of a run ({error!r})"
                ) from error
    return runs
