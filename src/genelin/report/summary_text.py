"""The verdict and the warnings, in words."""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genelin.errors import ConvergenceWarning
from genelin.report.report_model import Array, ReportModel
from genelin.results import Status

__all__ = ["Caution", "cautions", "plural", "power", "spans", "verdict"]

LOST = 0.5  # part of a correlation that must be left on held-out rows
VAGUE = 0.1  # a sine from which on directions are not settled


def plural(count: int, noun: str) -> str:
    """The count with its noun: "1 component", "20 components"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def power(number: float) -> str:
    """Two digits and a power of ten.

    Examples
    --------
    >>> power(1e-6), power(0.00123)
    ('1e-6', '1.2e-3')
    """
    mantissa, exponent = f"{number:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}" if number else "0"


def spans(places: Sequence[int]) -> str:
    """Numbers from 1, runs joined.

    Examples
    --------
    >>> spans([0, 1, 2, 5])
    '1–3, 6'
    """
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][-1] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return ", ".join(
        str(run[0] + 1) if len(run) == 1 else f"{run[0] + 1}–{run[-1] + 1}" for run in runs
    )


def verdict(model: ReportModel) -> tuple[str, str]:
    """What was reached in a sentence, and how far to trust it in another.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import top_k
    >>> from genelin.report.report_model import report_model_of
    >>> verdict(report_model_of(top_k(np.diag([1.0, 5.0, 3.0]), k=2), tol=1e-8))[0]
    '2 eigenpairs, all certified to 1e-8'
    """
    k, met = len(model.values), model.certified
    worst = float(model.relative_residuals.max(initial=0.0))
    reached = power(worst) if model.tol is None else power(model.tol)
    counted = plural(k, model.component)
    if met.all():
        headline = f"{counted},{' all' if k > 1 else ''} certified to {reached}"
    elif met.any():
        others = f"the others reached {power(worst)}"
        headline = f"{int(met.sum())} of {counted} certified to {reached}; {others}"
    else:
        headline = f"{counted}, not converged: the largest residual is {power(worst)}"
    return headline, _trust(model)


def _trust(model: ReportModel) -> str:
    solution = model.solution
    sine = float(solution.sin_theta_bound)
    if sine >= 1:
        return f"No gap behind the last {model.value} is seen, so the angle has no bound."
    space = "canonical spaces" if model.two_views else "eigenspace"
    if solution.gap_certified:
        certain = "for certain: every value was computed or counted, so none can have been missed"
    else:
        certain = "with high probability: the next value was found from random starts"
    return f"The sine of the largest angle to the true {space} is at most {power(sine)}, {certain}."


@dataclass(frozen=True)
class Caution:
    """Something that the reader should know: what it is, and what to do about it."""

    title: str
    text: str


def cautions(model: ReportModel, held_out: Array | None, given: Iterable[Any]) -> list[Caution]:
    """What the answer itself shows, then what was warned of while it was found."""
    found = [*_of_status(model), *_of_data(model), *_of_held_out(model, held_out)]
    for warning in given:
        if isinstance(warning, python_warnings.WarningMessage):
            warning = warning.message
        if isinstance(warning, ConvergenceWarning):
            continue  # its status is told above
        kind = "" if isinstance(warning, str) else type(warning).__name__
        caution = Caution(TITLES.get(kind, "Warned of during the run"), str(warning))
        if caution not in found:
            found.append(caution)
    return found


TITLES = {"RankDeficiencyWarning": "Features are dependent"}


def _of_status(model: ReportModel) -> list[Caution]:
    solution = model.solution
    status = solution.status
    if not solution.converged:
        return [Caution(f"Not converged: {status.label}", status.advice)]
    if status is Status.TIED:
        return [Caution("The last value is tied with the next", status.advice)]
    if solution.sin_theta_bound >= VAGUE:
        return [
            Caution(
                "Values are good, directions are not settled",
                f"The values meet the tolerance, but the {model.component}s may turn: values "
                "behind the last are close. Lower tol, or choose their number at a gap.",
            )
        ]
    return []


def _of_data(model: ReportModel) -> list[Caution]:
    found = []
    if model.two_views and float(model.values.max(initial=0.0)) > 1 + 1e-9:
        found.append(
            Caution(
                "Correlations above 1",
                "shrinkage shrinks the covariances of each view, but not that between them: read "
                "the correlations of scores instead.",
            )
        )
    features = sum(len(view.features) for view in model.views)
    settings = model.estimator
    if model.two_views and model.rows is not None and features >= model.rows:
        bare = settings.shrinkage is None and not np.any(np.asarray(settings.reg) > 0)
        if bare:
            found.append(
                Caution(
                    "More features than rows, and no ridge",
                    f"{plural(features, 'feature')} can fit {plural(model.rows, 'row')} by "
                    "chance: correlations of 1 mean nothing here. Set reg, and judge by rows that "
                    "were held out.",
                )
            )
    return found


def _of_held_out(model: ReportModel, held_out: Array | None) -> list[Caution]:
    if held_out is None:
        return []
    lost = np.flatnonzero(held_out < LOST * model.values)
    if not len(lost):
        return []
    one = len(lost) == 1
    return [
        Caution(
            "Less than half of the correlation is left on held-out rows",
            f"{'Component' if one else 'Components'} {spans(lost.tolist())} "
            f"{'does' if one else 'do'} not carry over to rows that were not in the fit. Raise "
            "reg, keep fewer components, or find more rows.",
        )
    ]
