"""genelin: canonical correlations and top-k generalized eigenvectors through linear solvers.

>>> import numpy as np
>>> from genelin import top_k
>>> top_k(np.diag([1.0, 5.0, 3.0]), k=2).values.tolist()
[5.0, 3.0]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from genelin.system.fork_safety import at_fork

at_fork()

# Public name → the module it lives in; each is loaded on first use (PEP 562).
_HOMES = {
    "CCA": "genelin.estimators.cca",
    "CCALin": "genelin.eigen.paper.ccalin",
    "CCASolution": "genelin.results",
    "CheckpointWarning": "genelin.errors",
    "ClusterSpec": "genelin.eigen.planning.cluster",
    "ConvergenceDisplay": "genelin.estimators.displays",
    "ConvergenceWarning": "genelin.errors",
    "CorrelationsDisplay": "genelin.estimators.displays",
    "Cost": "genelin.results",
    "DataSpec": "genelin.eigen.planning.cluster",
    "Davidson": "genelin.eigen.methods.davidson",
    "Dense": "genelin.eigen.methods.dense",
    "EigenSolution": "genelin.results",
    "FewRows": "genelin.eigen.methods.dual_cca",
    "GenELin": "genelin.eigen.paper.genelin",
    "GenELinK": "genelin.eigen.paper.genelink",
    "GeneralizedEigen": "genelin.estimators.generalized_eigen",
    "Lanczos": "genelin.eigen.methods.lanczos",
    "LinearSolution": "genelin.results",
    "LoadingsDisplay": "genelin.estimators.displays",
    "NotPositiveDefiniteError": "genelin.errors",
    "Pencil": "genelin.problems",
    "Plan": "genelin.eigen.costs.plan",
    "RankDeficiencyWarning": "genelin.errors",
    "Record": "genelin.results",
    "Route": "genelin.eigen.costs.plan",
    "ScoresDisplay": "genelin.estimators.displays",
    "ShiftInvert": "genelin.eigen.methods.shift_invert",
    "SolverError": "genelin.errors",
    "Status": "genelin.results",
    "Trace": "genelin.results",
    "TwoView": "genelin.problems",
    "Views": "genelin.problems",
    "__version__": "genelin.version",
    "as_operator": "genelin.operators",
    "plan_cca": "genelin.eigen.api",
    "plan_top_k": "genelin.eigen.api",
    "plot_convergence": "genelin.estimators.displays",
    "plot_correlations": "genelin.estimators.displays",
    "plot_loadings": "genelin.estimators.displays",
    "plot_scores": "genelin.estimators.displays",
    "top_k": "genelin.eigen.api",
    "top_k_cca": "genelin.eigen.api",
}
_MODULES = {
    "baselines": "genelin.baselines",
    "datasets": "genelin.datasets",
    "io": "genelin.io",
    "measures": "genelin.measures",
    "operators": "genelin.operators",
    "solvers": "genelin.solvers",
    "theory": "genelin.eigen.paper.theory",
}

__all__ = [
    "CCA",
    "CCALin",
    "CCASolution",
    "CheckpointWarning",
    "ClusterSpec",
    "ConvergenceDisplay",
    "ConvergenceWarning",
    "CorrelationsDisplay",
    "Cost",
    "DataSpec",
    "Davidson",
    "Dense",
    "EigenSolution",
    "FewRows",
    "GenELin",
    "GenELinK",
    "GeneralizedEigen",
    "Lanczos",
    "LinearSolution",
    "LoadingsDisplay",
    "NotPositiveDefiniteError",
    "Pencil",
    "Plan",
    "RankDeficiencyWarning",
    "Record",
    "Route",
    "ScoresDisplay",
    "ShiftInvert",
    "SolverError",
    "Status",
    "Trace",
    "TwoView",
    "Views",
    "__version__",
    "as_operator",
    "baselines",
    "datasets",
    "io",
    "measures",
    "operators",
    "plan_cca",
    "plan_top_k",
    "plot_convergence",
    "plot_correlations",
    "plot_loadings",
    "plot_scores",
    "solvers",
    "theory",
    "top_k",
    "top_k_cca",
]

if TYPE_CHECKING:
    from genelin import baselines, datasets, io, measures, operators, solvers
    from genelin.eigen.api import plan_cca, plan_top_k, top_k, top_k_cca
    from genelin.eigen.costs.plan import Plan, Route
    from genelin.eigen.methods.davidson import Davidson
    from genelin.eigen.methods.dense import Dense
    from genelin.eigen.methods.dual_cca import FewRows
    from genelin.eigen.methods.lanczos import Lanczos
    from genelin.eigen.methods.shift_invert import ShiftInvert
    from genelin.eigen.paper import theory
    from genelin.eigen.paper.ccalin import CCALin
    from genelin.eigen.paper.genelin import GenELin
    from genelin.eigen.paper.genelink import GenELinK
    from genelin.eigen.planning.cluster import ClusterSpec, DataSpec
    from genelin.errors import (
        CheckpointWarning,
        ConvergenceWarning,
        NotPositiveDefiniteError,
        RankDeficiencyWarning,
        SolverError,
    )
    from genelin.estimators.cca import CCA
    from genelin.estimators.displays import (
        ConvergenceDisplay,
        CorrelationsDisplay,
        LoadingsDisplay,
        ScoresDisplay,
        plot_convergence,
        plot_correlations,
        plot_loadings,
        plot_scores,
    )
    from genelin.estimators.generalized_eigen import GeneralizedEigen
    from genelin.operators import as_operator
    from genelin.problems import Pencil, TwoView, Views
    from genelin.results import (
        CCASolution,
        Cost,
        EigenSolution,
        LinearSolution,
        Record,
        Status,
        Trace,
    )
    from genelin.version import __version__


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = importlib.import_module(_MODULES[name])
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'genelin' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
