"""A fitted `CCA` as arrays and JSON, and back: nothing in a file is ever run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import isabstract, isclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from genelin import solvers
from genelin.eigen.paper.theory import TwoPhase
from genelin.eigen.registry import class_of
from genelin.eigen.run.method import Method
from genelin.estimators.partial_fit import Moments, Reservoir
from genelin.inference.classical_tests import Spectrum
from genelin.io import load_archive, save_archive
from genelin.io.archive import damaged
from genelin.io.random_state_json import generator_of, generator_parts
from genelin.io.solution_json import (
    cost_of,
    solution_of,
    solution_parts,
    trace_arrays,
    trace_of,
)
from genelin.results import CCASolution, Cost, EigenSolution, Status

__all__ = ["load", "save"]

KIND, LAYOUT = "genelin.CCA", 1

# Attribute → shape, where p and q are the features of the views and k the components.
SHAPES = {
    "x_weights_": "pk",
    "y_weights_": "qk",
    "x_loadings_": "pk",
    "y_loadings_": "qk",
    "x_mean_": "p",
    "y_mean_": "q",
    "x_scale_": "p",
    "y_scale_": "q",
    "x_explained_variance_ratio_": "k",
    "y_explained_variance_ratio_": "k",
    "x_redundancy_": "k",
    "y_redundancy_": "k",
    "_y_from_x": "qk",
}
OF_SOLUTION = {
    "x_weights": "pk",
    "y_weights": "qk",
    "correlations": "k",
    "score_correlations": "k",
    "residuals": "k",
}
KINDS = {  # of settings that the estimator looks at only when it fits
    "reg": int | float,
    "shrinkage": int | float | None,
    "tol": int | float,
    "random_state": int | np.random.RandomState | None,
}
OF_RUNS = {"checkpoint": None, "resume": False}  # settings that are not about the model

NO_PARTS = (solvers.Custom, solvers.SpectralBounds, solvers.Step)  # functions, results
PARTS: dict[str, type[Any]] = {  # what methods may be made of, by name
    kind.__name__: kind
    for kind in (TwoPhase, *(getattr(solvers, name) for name in solvers.__all__))
    if isclass(kind) and is_dataclass(kind) and not isabstract(kind) and kind not in NO_PARTS
}
RANDOM = np.random.Generator | np.random.RandomState


def save(cca: Any, path: str | Path) -> None:
    """Write a fitted estimator."""
    parameters, arrays = cca.get_params(deep=False) | OF_RUNS, dict[str, Any]()
    settings = {name: _plain(value, name, arrays) for name, value in parameters.items()}
    arrays |= {name: getattr(cca, name) for name in SHAPES}
    arrays |= {f"solution.{name}": getattr(cca.solution_, name) for name in OF_SOLUTION}
    arrays |= trace_arrays(cca.solution_.trace)
    arrays["spectrum"] = cca._spectrum.correlations
    solution, spectrum = cca.solution_, cca._spectrum
    names = getattr(cca, "feature_names_in_", None)
    stream, stream_arrays = _stream_out(getattr(cca, "_stream", None))
    header = {
        "settings": settings,
        "features": [int(cca.n_features_in_), int(cca._n_targets)],
        "components": len(cca.canonical_correlations_),
        "names": None if names is None else [str(name) for name in names],
        "flat": bool(cca._flat),
        "seen": int(cca.n_samples_seen_),
        "status": solution.status.name,
        "sin_theta_bound": float(solution.sin_theta_bound),
        "gap_certified": bool(solution.gap_certified),
        "route": str(solution.route),
        "cost": [float(getattr(solution.cost, field.name)) for field in fields(Cost)],
        "spectrum": [*map(int, spectrum.ranks), int(spectrum.n), spectrum.refusal],
        "stream": stream,
    }
    save_archive(path, KIND, LAYOUT, header, arrays | stream_arrays)


def load(cls: Callable[..., Any], path: str | Path) -> Any:
    """Read an estimator that `save` has written."""
    header, arrays = load_archive(path, KIND, LAYOUT)
    try:
        return _restored(cls, header, arrays)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from error
    except RecursionError as error:
        raise damaged(path, "its header is nested too deeply") from error


def _restored(cls: Callable[..., Any], header: Any, arrays: dict[str, Any]) -> Any:
    settings = {name: _object(value, arrays) for name, value in header["settings"].items()}
    cca = cls(**settings)
    cca._check_parameters()
    if not isinstance(settings["method"], Method | None):
        raise TypeError(f"method is {settings['method']!r:.40}")
    for name, kinds in KINDS.items():
        parts = settings[name] if isinstance(settings[name], tuple) else (settings[name],)
        if len(parts) not in (1, 2) or not all(isinstance(part, kinds) for part in parts):
            raise TypeError(f"{name} is {settings[name]!r:.40}")
    p, q = (_count(value, 1) for value in header["features"])
    sizes = {"p": p, "q": q, "k": _count(header["components"], 1)}
    for name, shape in SHAPES.items():
        setattr(cca, name, _array(arrays, name, *(sizes[letter] for letter in shape)))
    cca.x_rotations_, cca.y_rotations_ = cca.x_weights_, cca.y_weights_
    cca.solution_ = solution = _solution(header, arrays, sizes)
    cca.canonical_correlations_ = solution.correlations
    cca.score_correlations_ = solution.score_correlations
    cca.n_iter_ = np.full(sizes["k"], max(1, len(solution.trace)))
    cca.n_samples_seen_ = _count(header["seen"], 1)
    cca.n_features_in_, cca._n_targets, cca._flat = p, q, bool(header["flat"])
    if header["names"] is not None:
        names = [_text(name) for name in header["names"]]
        if len(names) != p:
            raise ValueError(f"{len(names)} names of {p} features")
        cca.feature_names_in_ = np.array(names, dtype=object)
    *numbers, refusal = header["spectrum"]
    x_rank, y_rank, n = (_count(number, 0) for number in numbers)
    correlations = _array(arrays, "spectrum", 0 if refusal else min(x_rank, y_rank))
    cca._spectrum = Spectrum(correlations, (x_rank, y_rank), n, _text(refusal))
    if header["stream"] is not None:
        cca._stream = _stream_in(header["stream"], arrays, (p, q))
    return cca


def _solution(header: Any, arrays: dict[str, Any], sizes: dict[str, int]) -> CCASolution:
    parts = {
        name: _array(arrays, f"solution.{name}", *(sizes[letter] for letter in shape), finite=False)
        for name, shape in OF_SOLUTION.items()
    }
    return CCASolution(
        sin_theta_bound=float(header["sin_theta_bound"]),
        gap_certified=bool(header["gap_certified"]),
        route=_text(header["route"]),
        status=Status[header["status"]],
        cost=cost_of(header["cost"]),
        trace=trace_of(arrays),
        **parts,
    )


# --- Settings ----------------------------------------------------------------------------------


def _plain(value: Any, name: str, arrays: dict[str, Any]) -> Any:
    """A setting in JSON: numbers, text, lists, and genelin's own methods and solvers.

    Arrays of methods, such as those to begin with, go to `arrays`.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray) and "." in name and value.dtype.kind in "fiub":
        arrays[f"settings.{name}"] = value
        return {"array": f"settings.{name}"}
    if isinstance(value, list | tuple | range | np.ndarray):
        return [_plain(part, f"{name}.{i}", arrays) for i, part in enumerate(value)]
    if isinstance(value, RANDOM):
        return {"random": generator_parts(value)}
    if isinstance(value, CCASolution | EigenSolution):
        header, parts = solution_parts(value)
        arrays |= {f"settings.{name}.{part}": array for part, array in parts.items()}
        return {"solution": header, "arrays": [f"settings.{name}.", *parts]}
    if _is_known(type(value)):
        parts = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        return {
            "class": type(value).__name__,
            "fields": {
                part: _plain(content, f"{name}.{part}", arrays) for part, content in parts.items()
            },
        }
    raise ValueError(
        f"{name}={value!r} cannot be saved without pickle, as it is not of genelin: "
        f"set_params({name.split('.')[0]}=None) first (the fitted model stays as it is), or use "
        "pickle"
    )


def _object(value: Any, arrays: dict[str, Any]) -> Any:
    """A setting from JSON; only known classes are made, from plain fields."""
    if isinstance(value, list):
        return tuple(_object(part, arrays) for part in value)
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "random" in value:
        return generator_of(value["random"])
    if "solution" in value:
        place, *names = value["arrays"]
        return solution_of(value["solution"], {name: arrays[place + name] for name in names})
    setting = _known(value["class"])
    known = {field.name for field in fields(setting) if field.init}
    if strange := set(value["fields"]) - known:
        raise ValueError(f"{value['class']} has no setting {min(strange)[:40]!r}")
    return setting(**{name: _object(part, arrays) for name, part in value["fields"].items()})


def _known(name: str) -> type[Any]:
    """A class that settings may be made of, by its name; KeyError for others."""
    return PARTS[name] if name in PARTS else class_of(name)


def _is_known(kind: type[Any]) -> bool:
    """Whether settings may be made of a class."""
    try:
        return is_dataclass(kind) and _known(kind.__name__) is kind
    except KeyError:
        return False


# --- Pieces, each looked at --------------------------------------------------------------------


def _array(arrays: dict[str, Any], name: str, *shape: int, finite: bool = True) -> Any:
    array = arrays[name]
    if array.shape != shape or array.dtype != np.float64:
        raise ValueError(f"array {name!r} is {array.dtype}{array.shape}, expected float64{shape}")
    if finite and not np.all(np.isfinite(array)):
        raise ValueError(f"array {name!r} is not finite")
    return array


def _count(value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**53:
        raise ValueError(f"{value!r:.40} is not a count of at least {least}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not text")
    return value


def _stream_out(stream: Moments | Reservoir | None) -> tuple[Any, dict[str, Any]]:
    if stream is None:
        return None, {}
    if isinstance(stream, Moments):
        header = {name: getattr(stream, name) for name in ("counted", "total", "weighted")}
        means = {"stream.mean": stream.centre, "stream.offset": stream.offset}
        return header, means | {"stream.covariance": stream.covariance}
    counts = {name: getattr(stream, name) for name in ("seed", "numbers", "seen", "capacity")}
    arrays = {"stream.weights": stream.weights}
    for view in ("X", "Y"):
        rows = getattr(stream, view)
        if sparse.issparse(rows):
            arrays |= {f"stream.{view}.{part}": getattr(rows, part) for part in CSR}
        else:
            arrays[f"stream.{view}"] = rows
    return counts, arrays


CSR = ("data", "indices", "indptr")


def _stream_in(header: Any, arrays: dict[str, Any], splits: tuple[int, int]) -> Moments | Reservoir:
    if "counted" in header:
        moments, d = Moments(), sum(splits)
        moments.splits, moments.counted = splits, _count(header["counted"], 1)
        moments.total, moments.weighted = float(header["total"]), bool(header["weighted"])
        if not 0 < moments.total < np.inf:
            raise ValueError(f"a total weight of {moments.total}")
        moments.centre, moments.offset = _array(arrays, "stream.mean", d), np.zeros(d)
        if "stream.offset" in arrays:  # which earlier models do without
            moments.offset = _array(arrays, "stream.offset", d)
        moments.covariance = _array(arrays, "stream.covariance", d, d)
        return moments
    kept = Reservoir(_count(header["seed"], 0), _count(header["numbers"], 1))
    kept.seen, kept.capacity = _count(header["seen"], 1), _count(header["capacity"], 1)
    n = len(arrays["stream.weights"])
    kept.weights = _array(arrays, "stream.weights", n)
    if np.any(kept.weights < 0) or n != min(kept.seen, kept.capacity):
        raise ValueError("the sample of rows does not fit its counts")
    kept.X, kept.Y = (
        _sample(arrays, f"stream.{view}", (n, d)) for view, d in zip("XY", splits, strict=True)
    )
    return kept


def _sample(arrays: dict[str, Any], name: str, shape: tuple[int, int]) -> Any:
    """Rows of a view, every index checked."""
    if name in arrays:
        rows = arrays[name]
        if rows.shape != shape or rows.dtype.kind != "f" or not np.all(np.isfinite(rows)):
            raise ValueError(f"array {name!r} does not hold {shape} finite numbers")
        return rows
    data, indices, indptr = (arrays[f"{name}.{part}"] for part in CSR)
    if data.dtype.kind != "f" or not np.all(np.isfinite(data)):
        raise ValueError(f"array {name!r} is not finite")
    rows = sparse.csr_array((data, indices, indptr), shape=shape)
    rows.check_format(full_check=True)
    return rows
