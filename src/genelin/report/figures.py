"""`write_figures`: the pictures of a fit as files."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from genelin.estimators.displays import (
    ConvergenceDisplay,
    CorrelationsDisplay,
    LoadingsDisplay,
    ScoresDisplay,
)
from genelin.io import write_atomically
from genelin.report.subject import Subject, subject_of

__all__ = ["write_figures"]

FORMATS = ("png", "svg", "pdf")


def write_figures(
    folder: str | Path,
    estimator: Any,
    formats: Sequence[str] = ("png", "svg"),
    *,
    X: Any = None,
    y: Any = None,
    x_names: Any = None,
    y_names: Any = None,
    held_out: Any = None,
) -> list[Path]:
    """Write the pictures of a fit as files: values, convergence, scores, loadings.

    Those that make no sense for a fit are left out: convergence of a direct solution, scores
    without data. Needs matplotlib (`pip install "genelin[plot]"`).

    Parameters
    ----------
    folder : where to; it is made if need be.
    estimator, X, y, x_names, y_names, held_out : as for `write_report`.
    formats : any of "png", "svg" and "pdf".

    Returns
    -------
    list of Path
        the files.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_linnerud
    >>> from genelin import CCA
    >>> from genelin.report import write_figures
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_figures(folder, CCA(2).fit(X, Y), ["svg"])]
    ['correlations.svg', 'loadings.svg']
    """
