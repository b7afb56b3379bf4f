"""What is needed to do it again."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

import numpy as np

import genelin
from genelin import solvers
from genelin.report.report_model import ReportModel

__all__ = ["call", "settings_rows", "snippet", "written"]


def settings_rows(model: ReportModel, given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """All settings of the estimator, and those that the caller adds."""
    own = {} if model.estimator is None else model.estimator.get_params(deep=False)
    rows = [(name, written(value)) for name, value in own.items()]
    return rows + [(str(name), str(value)) for name, value in given.items()]


def call(model: ReportModel) -> str:
    """The expression that makes the estimator, or the function that a solution came from."""
    if model.estimator is None:
        function, data = ("top_k_cca", "X, Y") if model.two_views else ("top_k", "A, B")
        return f"{function}({data}, k={len(model.values)})"
    kind = type(model.estimator)
    defaults = inspect.signature(kind).parameters
    given = {name: written(getattr(model.estimator, name)) for name in defaults}
    changed = [
        f"{name}={value}"
        for name, value in given.items()
        if name == "n_components" or value != written(defaults[name].default)
    ]
    return f"{kind.__name__}({', '.join(changed)})"


def snippet(model: ReportModel) -> str:
    """Python that fits the same again; empty for a solution on its own.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from genelin import CCA
    >>> from genelin.report.report_model import report_model_of
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> print(snippet(report_model_of(CCA(1, reg=0.1).fit(X, Y))))
    from genelin import CCA
    <BLANKLINE>
    fitted = CCA(n_components=1, reg=0.1).fit(X, y)
    """
    if model.estimator is None:
        return ""
    labelled = model.two_views or hasattr(model.estimator, "classes_")
    data = "X, y" if labelled else "X, background=background"
    made = call(model)
    return f"{_imports(made)}\n\nfitted = {made}.fit({data})"


def written(value: Any) -> str:
    """The expression that makes a setting, without what is so by default.

    Examples
    --------
    >>> from genelin import CCALin
    >>> from genelin.solvers import AGD
    >>> written(CCALin(solver=AGD(), max_iter=50))
    'CCALin(solver=AGD(), max_iter=50)'
    """
    if isinstance(value, np.generic | np.ndarray):
        return repr(value.tolist())
    if isinstance(value, tuple | list):
        return repr(
            type(value)(part.item() if isinstance(part, np.generic) else part for part in value)
        )
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    changed = [
        f"{field.name}={written(getattr(value, field.name))}"
        for field in fields(value)
        if field.init and not _is_default(field, getattr(value, field.name))
    ]
    return f"{type(value).__name__}({', '.join(changed)})"


def _is_default(field: Field[Any], value: Any) -> bool:
    default = field.default
    if field.default_factory is not MISSING:
        default = field.default_factory()
    return default is not MISSING and repr(value) == repr(default)


def _imports(expression: str) -> str:
    """Import lines for the classes that an expression names."""
    named = sorted(set(re.findall(r"\b([A-Z]\w*)\(", expression)))
    homes = (("genelin", genelin.__all__), ("genelin.solvers", solvers.__all__))
    lines = ((home, [name for name in named if name in public]) for home, public in homes)
    return "\n".join(f"from {home} import {', '.join(names)}" for home, names in lines if names)
