"""What is needed to do it again."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

import genelin
from genelin import solvers
from genelin.report.subject import Subject

__all__ = ["settings_rows", "snippet"]


def settings_rows(subject: Subject, given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """All settings of the estimator, and those that the caller adds."""
    own = {} if subject.estimator is None else subject.estimator.get_params(deep=False)
    rows = [(name, _written(value)) for name, value in own.items()]
    return rows + [(str(name), str(value)) for name, value in given.items()]


def snippet(subject: Subject) -> str:
    """Python that fits the same again; empty for a solution on its own.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from genelin import CCA
    >>> from genelin.report.subject import subject_of
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> print(snippet(subject_of(CCA(1, reg=0.1).fit(X, Y))))
    from genelin import CCA
    <BLANKLINE>
    fitted = CCA(n_components=1, reg=0.1).fit(X, y)
    """
    if subject.estimator is None:
        return ""
    kind = type(subject.estimator)
    defaults = inspect.signature(kind).parameters
    changed = [
        f"{name}={_written(value)}"
        for name, value in subject.estimator.get_params(deep=False).items()
        if _written(value) != _written(defaults[name].default)
    ]
    labelled = subject.two_views or hasattr(subject.estimator, "classes_")
    others = "X, y" if labelled else "X, background=background"
    call = f"{kind.__name__}({', '.join(changed)})"
    return f"{_imports(call)}\n\nfitted = {call}.fit({others})"


def _written(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)


def _imports(call: str) -> str:
    """Import lines for the classes that an expression names."""
    named = sorted(set(re.findall(r"\b([A-Z]\w*)\(", call)))
    homes = (("genelin", genelin.__all__), ("genelin.solvers", solvers.__all__))
    lines = ((home, [name for name in named if name in public]) for home, public in homes)
    return "\n".join(f"from {home} import {', '.join(names)}" for home, names in lines if names)
