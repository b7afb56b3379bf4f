"""A run is (data set, method, settings, seed) → trace with its cost and the paper's measures."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import eigh, svd

from genelin import measures
from genelin.datasets import KnownPencil, Views
from genelin.eigen.planning.planner import best_route
from genelin.errors import ConvergenceWarning
from genelin.io.damaged_files import regular, said
from genelin.linalg import orthonormalise
from genelin.linalg.column_products import Block, Vector
from genelin.problems import Pencil, TwoView
from genelin.results import CCASolution, Cost, EigenSolution, Record, Status

__all__ = ["Point", "RunRecord", "read_records", "record_run", "write_records"]


@dataclass(frozen=True)
class Point:
    """One record of a trace, with the measures of what was found by then.

    Attributes
    ----------
    iteration, flops, passes, seconds, residual : as in `Record`; measuring takes no seconds.
    inner : steps of the linear solver so far, summed over both views.
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
    inner: int
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
    problem : n, d1, d2, nonzeros, k, reg, center, tol, and what else is known of it.
    method, settings : the name of the method, and what it was given.
    seed : of the run.
    points : the trace.
    status, residual, sin_theta_bound : how it ended; "stopped by the callback", and 1 for the
        bound, where it was told to end.
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
    growth: float = 1.0,
    until: Callable[[Point], bool] | None = None,
    facts: Mapping[str, Any] | None = None,
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
    growth : and only when flops have grown by this factor since the last time.
    until : end a run when a point meets this, without the certificate of an answer.
    facts : what else is known of the problem, such as its condition number; goes on record.

    Examples
    --------
    >>> from genelin.baselines import MomentumALS
    >>> from genelin.datasets import digits_halves
    >>> run = record_run(digits_halves(), MomentumALS(), k=2, reg=1e-2)
    >>> bool(run.points[0].sin_theta_x > 0.1 and run.points[-1].sin_theta_x < 1e-4)
    True
    """
    problem = TwoView(views.X, views.Y, reg, center, form=form)
    truth = exact_answer(problem, k) if exact is None else exact
    watch = _Watch(
        partial(_measured, TwoView(problem.X, problem.Y, reg, center), k, truth),
        (every, growth),
        until,
    )
    if method is None:
        route = best_route(problem, k)
        problem, method = route.problem, route.method
    ended = _ending(method, problem, k, tol, seed, watch)
    x, y = problem.X, problem.Y
    described: dict[str, Any] = {
        "n": x.n,
        "d1": x.d,
        "d2": y.d,
        "nonzeros": x.stored + y.stored,
        "k": k,
    }
    described |= {"reg": list(problem.regs), "center": center, "tol": tol}
    return RunRecord(
        dataset=views.name,
        problem=described | dict(facts or {}),
        method=type(method).__name__,
        settings=_settings(method),
        seed=seed,
        points=tuple(watch.points),
        best=float(truth.correlations.sum()),
        **ended,
    )


def record_pencil(
    known: KnownPencil,
    method: Any = None,
    *,
    k: int,
    tol: float = 1e-8,
    seed: int = 0,
    until: Callable[[Point], bool] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> RunRecord:
    """Run a method on a pencil whose eigenvectors are known, and measure its angle to them.

    On record TCC is the sum of |θ|, PCC its share of the exact one, and all sines are that of θ.
    The default, None, leaves one point: its answer.

    Examples
    --------
    >>> from genelin import GenELinK
    >>> from genelin.datasets import pencil
    >>> run = record_pencil(pencil(20, k=2, kappa=10.0, rho=0.3), GenELinK(), k=2)
    >>> run.status, bool(run.points[-1].sin_theta_b < 1e-6)
    ('converged', True)
    """
    problem = Pencil(known.A, known.B)
    V, exact = known.vectors[:, :k], float(np.abs(known.values[:k]).sum())

    def measured(W: Block) -> tuple[float, ...]:
        sine, found = measures.sin_theta(W, V, problem.B), float(np.abs(_ritz(problem, W)).sum())
        return found, found / exact, sine, sine, sine

    watch = _Watch(measured, (1, 1.0), until)
    chosen = best_route(problem, k).method if method is None else method
    ended = _ending(chosen, problem, k, tol, seed, watch)
    described = {"d": problem.d, "k": k, "kappa": known.kappa, "rho": known.rho(k), "tol": tol}
    return RunRecord(
        dataset="pencil",
        problem=described | dict(facts or {}),
        method=type(chosen).__name__,
        settings=_settings(chosen),
        seed=seed,
        points=tuple(watch.points),
        best=exact,
        **ended,
    )


def _ritz(problem: Pencil, W: Block) -> Vector:
    """Ritz values of a span."""
    return np.asarray(eigh(W.T @ (problem.A @ W), W.T @ (problem.B @ W), eigvals_only=True))


class _Reached(Exception):  # noqa: N818 - not an error
    """Ends a run that is as good as asked for."""


def _ending(
    method: Any, problem: TwoView | Pencil, k: int, tol: float, seed: int, watch: _Watch
) -> dict[str, Any]:
    """Run the method to its end; status, residual, bound and cost."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the status is on record
            solution = method(problem, k, tol, np.random.default_rng(seed), watch)
    except _Reached:
        last = watch.points[-1]
        spent = Cost(last.passes, watch.applications, last.flops, last.seconds)
        found: tuple[Any, ...] = (Status.STOPPED, last.residual, 1.0)
    else:
        watch.finish(solution)
        spent = replace(solution.cost, seconds=solution.cost.seconds - watch.busy)
        found = (solution.status, float(solution.residuals.max()), float(solution.sin_theta_bound))
    status, residual, bound = found
    return {
        "status": status.label,
        "residual": residual,
        "sin_theta_bound": bound,
        "cost": asdict(spent),
    }


def exact_answer(problem: TwoView, k: int) -> CCASolution:
    """The answer that runs are measured against: the default's, to 1e-8."""
    route = best_route(problem, k)
    solution: CCASolution = route.method(route.problem, k, 1e-8, np.random.default_rng(0))
    if solution.residuals.max() > 1e-6:
        raise RuntimeError(
            f"the exact answer was not found, {solution.status}: pass a better one as exact="
        )
    return solution


def value_at(run: RunRecord, measure: str, goal: float, column: str) -> float:
    """The `column` of a run where its `measure` falls to `goal`, between points; inf if never."""
    measured, values = np.maximum(run.column(measure), 1e-300), run.column(column)
    there = np.flatnonzero(measured <= goal)
    if not len(there):
        return np.inf
    j = int(there[0])
    if j == 0:
        return float(values[0])
    part = np.log(measured[j - 1] / goal) / np.log(measured[j - 1] / measured[j])
    return float(values[j - 1] + part * (values[j] - values[j - 1]))


class _Watch:
    """A callback that measures; the time it takes is not that of the method."""

    def __init__(
        self,
        measured: Callable[[Block], tuple[float, ...]],
        spacing: tuple[int, float],
        until: Callable[[Point], bool] | None,
    ) -> None:
        self.measured, self.until = measured, until
        self.every, self.growth = spacing
        self.points: list[Point] = []
        self.busy = 0.0  # seconds spent on measuring
        self.applications = 0
        self._inner, self._next = 0, 0.0
        self._last: tuple[Record, float, int, Block] | None = None  # seen, but not measured

    def __call__(self, record: Record, W: Block) -> None:
        began = time.perf_counter()
        seconds = record.seconds - self.busy
        self._inner, self.applications = self._inner + record.inner_iterations, record.applications
        if (record.iteration - 1) % self.every == 0 and record.flops >= self._next:
            self._next = self.growth * record.flops
            self._last = None
            self._add(record, seconds, self._inner, W)
            if self.until is not None and self.until(self.points[-1]):
                raise _Reached
        else:
            self._last = (record, seconds, self._inner, W.copy())
        self.busy += time.perf_counter() - began

    def finish(self, solution: CCASolution | EigenSolution) -> None:
        """The last record, and of a method without records its answer."""
        if self._last is not None:
            self._add(*self._last)
        if not self.points:
            sigma, W = _answer(solution)
            cost = solution.cost
            residual = float(solution.residuals.max()) / max(float(np.abs(sigma[0])), 1e-300)
            parts = (cost.seconds, cost.passes, cost.flops, cost.applications, 0, residual, sigma)
            self._add(Record(1, *parts), cost.seconds, 0, W)

    def _add(self, record: Record, seconds: float, inner: int, W: Block) -> None:
        found = self.measured(W)
        spent = (record.flops, record.passes, seconds, record.residual)
        self.points.append(Point(record.iteration, inner, *spent, *found))


def _answer(solution: CCASolution | EigenSolution) -> tuple[Vector, Block]:
    """Values and vectors, those of two views stacked."""
    if isinstance(solution, EigenSolution):
        return solution.values, solution.vectors
    return solution.correlations, np.vstack([solution.x_weights, solution.y_weights])


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
    with regular(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                content = json.loads(line.decode("utf-8"))
                for part in (content, *content["points"]):
                    part["residual"] = np.inf if part["residual"] is None else part["residual"]
                points = tuple(Point(**point) for point in content.pop("points"))
                runs.append(_checked(RunRecord(points=points, **content)))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise ValueError(
                    f"{path}, line {number}: not the record of a run ({said(error)})"
                ) from error
    return runs


def _checked(run: RunRecord) -> RunRecord:
    """A record whose fields are of the kinds that they should be."""
    kinds = {"str": str, "int": int, "float": int | float}
    parts: tuple[RunRecord | Point, ...] = (run, *run.points)
    for part in parts:
        for field in fields(part):
            kind, value = kinds.get(str(field.type)), getattr(part, field.name)
            if kind is not None and not isinstance(value, kind):
                raise TypeError(f"{field.name} is {value!r:.40}")
    for name in ("problem", "settings", "cost"):
        if not isinstance(getattr(run, name), dict):
            raise TypeError(f"{name} is {getattr(run, name)!r:.40}")
    if not all(isinstance(number, int | float) for number in run.cost.values()):
        raise TypeError("cost does not hold numbers")
    return run
