"""What a checkpoint is about: data and settings, in a few lines of JSON."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from genelin.linalg import column_dots
from genelin.linalg.column_products import Vector
from genelin.operators import Operator, Rows
from genelin.problems import Pencil, TwoView
from genelin.results import CCASolution, EigenSolution
from genelin.version import __version__

__all__ = ["described", "fingerprint", "refuse_wrong_answer"]

LIMITS = ("max_iter", "max_applications", "start")  # of a method; they do not change the answer
BLOCK = 2**24  # numbers that are looked at in one go
SAMPLE = 256  # rows that stand for those that are not in memory


def fingerprint(problem: Pencil | TwoView, k: int, tol: float, method: Any) -> dict[str, Any]:
    """Everything that a resumed run must share with the one that it continues.

    Examples
    --------
    >>> from genelin import Dense
    >>> about = fingerprint(TwoView(np.eye(3), np.ones((3, 2)), reg=0.1), 1, 1e-6, Dense())
    >>> about["X"], about["reg"], about["method"]
    ('3 × 3 float64, 9 numbers, checksum f154c4f4', [0.1, 0.1], 'Dense()')
    """
    about: dict[str, Any] = {"genelin": __version__.split(".")[0]}
    about |= _of_views(problem) if isinstance(problem, TwoView) else _of_pencil(problem)
    return about | {"k": int(k), "tol": float(tol), "method": described(method)}


def _of_views(problem: TwoView) -> dict[str, Any]:
    reg: Any = np.atleast_1d(np.asarray(problem.reg, dtype=np.float64)).tolist()
    shrinkage = problem.shrinkage
    problem.gather()  # the means with the covariances, where one read gives both
    return {
        **_of_rows("X", problem.X),
        **_of_rows("Y", problem.Y),
        "weights": None if problem.X.weights is None else _checksum([problem.X.weights]),
        "reg": reg * 2 if len(reg) == 1 else reg,
        "shrinkage": None if shrinkage is None else np.atleast_1d(shrinkage).tolist(),
        "center": bool(problem.center),
        "scale": bool(problem.scale),
        "form": problem.form if problem.form is None else bool(problem.form),
    }


def _of_pencil(problem: Pencil) -> dict[str, Any]:
    return {
        "size": problem.d,
        "A": _of_operator(problem.A),
        "B": _of_operator(problem.B),
        "which": problem.which,
    }


def _of_rows(name: str, rows: Rows) -> dict[str, Any]:
    """Shape, kind and a checksum of all numbers; elsewhere, of some rows, and column means."""
    seen = rows
    if not rows.in_memory:
        seen = rows.taken(np.unique(np.linspace(0, rows.n - 1, SAMPLE).astype(np.int64)))
    X = seen.matrix
    parts = (X.indptr, X.indices, X.data) if sparse.issparse(X) else (X,)
    which = "" if seen is rows else f" of {seen.n} rows"
    text = f"{rows.n} × {rows.d} {X.dtype}, {rows.stored} numbers"
    about: dict[str, Any] = {name: f"{text}, checksum{which} {_checksum(parts)}"}
    if seen is not rows:
        about[f"column means of {name}"] = _summary(rows.mean, 1e-9)
    return about


def _of_operator(operator: Operator) -> dict[str, Any]:
    """Numbers from one product, the same up to rounding wherever they are computed."""
    product = operator @ np.random.default_rng(1).standard_normal(operator.shape[0])
    return _summary(product, 1e-9 if operator.dtype == np.float64 else 1e-4)


def _summary(vector: Vector, within: float) -> dict[str, Any]:
    """The length of a vector and its products with three others, to be compared up to rounding."""
    others = np.random.default_rng(0).standard_normal((3, len(vector)))
    numbers = [float(np.linalg.norm(vector)), *(others @ vector).tolist()]
    return {"numbers": numbers, "within": within}


def _checksum(parts: Iterable[Any]) -> str:
    """CRC-32 of the bytes of arrays, whatever their order in memory."""
    total = 0
    for array in parts:
        step = max(1, BLOCK // max(1, int(np.prod(array.shape[1:]))))
        for first in range(0, len(array), step):
            part = np.ascontiguousarray(array[first : first + step])
            total = zlib.crc32(part.data, total)
    return f"{total:08x}"


def described(value: Any) -> str:
    """A setting in words that are the same in every process.

    Examples
    --------
    >>> from genelin import solvers
    >>> described(solvers.CG(max_iter=7))
    "CG(preconditioner='auto')"
    """
    if isinstance(value, np.ndarray):
        return f"array {value.shape}, checksum {_checksum([np.atleast_1d(value)])}"
    if is_dataclass(value) and not isinstance(value, type):
        parts = (field.name for field in fields(value) if field.name not in LIMITS)
        inside = ", ".join(f"{name}={described(getattr(value, name))}" for name in parts)
        return f"{type(value).__name__}({inside})"
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    text = repr(value)
    return f"{type(value).__module__}.{type(value).__qualname__}" if " at 0x" in text else text


# --- Answers -----------------------------------------------------------------------------------


def refuse_wrong_answer(
    problem: Pencil | TwoView, solution: EigenSolution | CCASolution, path: Path
) -> None:
    """Raise unless a stored answer has the Ritz values and the norms that it should have.

    One product with every matrix: far from a certificate, which the run itself has made.
    """
    try:
        worst = _worst(problem, solution)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path} holds an answer that is not one to this problem ({error}): start anew with "
            "resume=False"
        ) from error
    if not worst <= 1e-4:
        raise ValueError(
            f"{path} holds an answer that does not solve this problem (off by {worst:.1e}): start "
            "anew with resume=False"
        )


def _worst(problem: Pencil | TwoView, solution: EigenSolution | CCASolution) -> float:
    """By how much norms and Ritz values differ from what they should be; NaN where they are."""
    if isinstance(problem, TwoView) and isinstance(solution, CCASolution):
        streamed, Wx, Wy = problem.replace(form=False), solution.x_weights, solution.y_weights
        norms = [column_dots(Wx, streamed.S_x @ Wx), column_dots(Wy, streamed.S_y @ Wy)]
        values, ritz = solution.correlations, column_dots(Wx, streamed.S_xy @ Wy)
    elif isinstance(problem, Pencil) and isinstance(solution, EigenSolution):
        W, values = solution.vectors, solution.values
        norms, ritz = [column_dots(W, problem.B @ W)], column_dots(W, problem.A @ W)
    else:
        raise TypeError(f"it is a {type(solution).__name__}")
    errors = [np.abs(norm - 1.0) for norm in norms]
    errors.append(np.abs(ritz - values) / max(float(np.abs(values).max()), 1e-300))
    if any(np.shape(error) != (len(values),) for error in (*errors, solution.residuals)):
        raise ValueError("its arrays do not fit each other")
    if np.any(np.isnan(solution.residuals)):
        raise ValueError("it has NaN for a residual")
    return float(np.max(errors))
