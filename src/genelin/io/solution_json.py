"""Traces and solutions as arrays and JSON, and back; what comes back is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from genelin.results import CCASolution, Cost, EigenSolution, Record, Status, Trace

__all__ = ["cost_of", "solution_of", "solution_parts", "trace_arrays", "trace_of"]

RECORD = [field.name for field in fields(Record) if field.name != "ritz_values"]
COUNTS = ("iteration", "applications", "inner_iterations")
KINDS = {kind.__name__: kind for kind in (EigenSolution, CCASolution)}
PLAIN = ("sin_theta_bound", "gap_certified", "route")


def trace_arrays(trace: Trace) -> dict[str, Any]:
    """A table with a row for every record, and one of their Ritz values.

    Examples
    --------
    >>> record = Record(1, 0.5, 2.0, 1e6, 8, 3, 1e-2, np.array([0.9, 0.4]))
    >>> arrays = trace_arrays(Trace([record]))
    >>> arrays["trace"].shape, arrays["ritz_values"].tolist()
    ((1, 7), [[0.9, 0.4]])
    >>> trace_of(arrays)[0].inner_iterations
    3
    """
    rows = [[float(getattr(record, name)) for name in RECORD] for record in trace]
    width = max((len(record.ritz_values) for record in trace), default=0)
    ritz = np.full((len(trace), width), np.nan)  # where an early iteration had fewer
    for row, record in zip(ritz, trace, strict=True):
        row[: len(record.ritz_values)] = record.ritz_values
    return {"trace": np.array(rows).reshape(len(trace), len(RECORD)), "ritz_values": ritz}


def trace_of(arrays: Mapping[str, Any]) -> Trace:
    """The trace from its arrays; ValueError where they do not fit."""
    table, ritz = arrays["trace"], arrays["ritz_values"]
    if table.shape[1:] != (len(RECORD),) or ritz.ndim != 2 or len(ritz) != len(table):
        raise ValueError(f"a trace of shape {table.shape} with Ritz values of {ritz.shape}")
    if table.dtype != np.float64 or ritz.dtype != np.float64:
        raise ValueError(f"a trace of {table.dtype} and {ritz.dtype}, expected float64")
    return Trace([_record(row, values) for row, values in zip(table, ritz, strict=True)])


def _record(row: Any, values: Any) -> Record:
    parts = dict(zip(RECORD, row.tolist(), strict=True))
    parts |= {name: int(parts[name]) for name in COUNTS}
    return Record(ritz_values=values[~np.isnan(values)], **parts)


def cost_of(numbers: Any) -> Cost:
    """A cost from its four numbers."""
    passes, applications, flops, seconds = (float(number) for number in numbers)
    return Cost(passes, int(applications), flops, seconds)


def solution_parts(solution: EigenSolution | CCASolution) -> tuple[dict[str, Any], dict[str, Any]]:
    """A header of JSON and arrays that hold a solution.

    Examples
    --------
    >>> from genelin import top_k
    >>> header, arrays = solution_parts(top_k(np.diag([1.0, 2.0])))
    >>> header["kind"], sorted(arrays)
    ('EigenSolution', ['residuals', 'ritz_values', 'trace', 'values', 'vectors'])
    >>> solution_of(header, arrays).values.tolist()
    [2.0]
    """
    arrays = {
        field.name: value
        for field in fields(solution)
        if isinstance(value := getattr(solution, field.name), np.ndarray)
    }
    header = {name: getattr(solution, name) for name in PLAIN}
    header["sin_theta_bound"] = float(solution.sin_theta_bound)
    header["gap_certified"] = bool(solution.gap_certified)
    header |= {"kind": type(solution).__name__, "status": solution.status.name}
    header["cost"] = [float(getattr(solution.cost, field.name)) for field in fields(Cost)]
    return header, arrays | trace_arrays(solution.trace)


def solution_of(
    header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> EigenSolution | CCASolution:
    """The solution from its parts."""
    kind = KINDS[header["kind"]]
    known: dict[str, Any] = {"status": Status[header["status"]], "cost": cost_of(header["cost"])}
    known |= {name: header[name] for name in PLAIN} | {"trace": trace_of(arrays)}
    kinds = zip(PLAIN, (float, bool, str), strict=True)
    if strange := [name for name, kind in kinds if not isinstance(header[name], kind)]:
        raise TypeError(f"{strange[0]} is {header[strange[0]]!r:.40}")
    wanted = [field.name for field in fields(kind) if field.name not in known]
    return kind(**known, **{name: arrays[name] for name in wanted})
