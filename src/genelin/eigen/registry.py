"""Every eigen method, a row each: read by the command line, `save` and `load`, and the tests."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from genelin.eigen.run.method import Method

__all__ = ["METHODS", "Registered", "class_of"]


@dataclass(frozen=True)
class Registered:
    """Where a method lives; its module is imported when it is asked for.

    Attributes
    ----------
    name : on the command line.
    class_name, module : of the class.
    solves : the kind of problem that it is for.
    group : who has it: the planner, the paper, or those to compare with.
    """

    name: str
    class_name: str
    module: str
    solves: Literal["pencils", "views", "both"]
    group: Literal["planned", "paper", "baseline"]

    def load(self) -> type[Method]:
        """The class.

        Examples
        --------
        >>> METHODS["dense"].load().__name__
        'Dense'
        """
        kind: type[Method] = getattr(importlib.import_module(self.module), self.class_name)
        return kind


_IN, _PAPER, _BASELINES = "genelin.eigen.methods", "genelin.eigen.paper", "genelin.baselines"

METHODS = {
    row.name: row
    for row in (
        Registered("dense", "Dense", f"{_IN}.dense", "both", "planned"),
        Registered("davidson", "Davidson", f"{_IN}.davidson", "both", "planned"),
        Registered("lanczos", "Lanczos", f"{_IN}.lanczos", "pencils", "planned"),
        Registered("shift-invert", "ShiftInvert", f"{_IN}.shift_invert", "pencils", "planned"),
        Registered("dual-cca", "FewRows", f"{_IN}.dual_cca", "views", "planned"),
        Registered("diagonal-cca", "WhitenedSVD", f"{_IN}.diagonal_cca", "views", "planned"),
        Registered("genelin", "GenELin", f"{_PAPER}.genelin", "pencils", "paper"),
        Registered("genelink", "GenELinK", f"{_PAPER}.genelink", "pencils", "paper"),
        Registered("ccalin", "CCALin", f"{_PAPER}.ccalin", "views", "paper"),
        Registered("momentum-als", "MomentumALS", f"{_BASELINES}.als", "views", "baseline"),
        Registered("appgrad", "AppGrad", f"{_BASELINES}.appgrad", "views", "baseline"),
        Registered("s-appgrad", "StochasticAppGrad", f"{_BASELINES}.appgrad", "views", "baseline"),
        Registered("nwcca", "NWCCA", f"{_BASELINES}.oneshot", "views", "baseline"),
        Registered("dwcca", "DWCCA", f"{_BASELINES}.oneshot", "views", "baseline"),
        Registered("pcacca", "PCACCA", f"{_BASELINES}.oneshot", "views", "baseline"),
        Registered("rcca", "RandomizedCCA", f"{_BASELINES}.oneshot", "views", "baseline"),
    )
}


def class_of(class_name: str) -> type[Method]:
    """The registered class of that name; KeyError for others.

    Examples
    --------
    >>> class_of("CCALin").__name__
    'CCALin'
    """
    rows = {row.class_name: row for row in METHODS.values()}
    return rows[class_name].load()
