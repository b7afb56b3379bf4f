"""Wrong types, shapes and values for every argument: an answer, or an error that names it."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import genelin
from fuzz import Defect
from fuzz.spectra import chosen
from fuzz.watch import called
from genelin import (
    CCA,
    CCALin,
    ClusterSpec,
    DataSpec,
    Davidson,
    GenELin,
    GenELinK,
    GeneralizedEigen,
    Lanczos,
    ShiftInvert,
    baselines,
    datasets,
    plan_cca,
    plan_top_k,
    solvers,
    theory,
    top_k,
    top_k_cca,
)
from genelin.operators import Gram, as_operator, as_rows

__all__ = ["attack"]

Rng = np.random.Generator
A = np.diag(np.arange(1.0, 7.0)) + np.eye(6, k=1) * 0.1 + np.eye(6, k=-1) * 0.1
B = np.diag(np.arange(2.0, 8.0))
X, Y = (np.random.default_rng(seed).standard_normal((20, d)) for seed, d in ((0, 4), (1, 3)))
LABELS = np.arange(20) % 2

# what no argument can be taken for
NONSENSE: tuple[Any, ...] = (
    object(),
    {"a": 1},
    b"bytes",
    1j,
    {1, 2},
    lambda *_: None,
    Path("none"),
)
NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2, 10**30, -(10**30), 0.0, -0.5, 0.5, 1.5, 1e-320, 1e308, 10**400,
    np.nan, np.inf, -np.inf, True, False, np.float32(0.5), np.int8(2), np.array(0.5), np.array([1]),
    np.array([0.1, 0.2]), (0.1, 0.2), (0.1, 0.2, 0.3), [], (), None, "", "a", "auto", "1", "LM",
)  # fmt: skip
MATRICES: tuple[Any, ...] = (
    np.ones(3), np.ones((2, 2, 2)), np.empty((0, 0)), np.empty((0, 4)), np.empty((20, 0)),
    np.full((20, 4), np.nan), np.full((6, 6), np.inf), np.ones((6, 6)), np.zeros((6, 6)),
    np.ones((20, 4), dtype=complex), np.array([["a", "b"], ["c", "d"]]), np.array([[None, 1]]),
    np.ones((20, 4), dtype=object), np.ma.masked_less(X, 0), [[1.0, 2.0], [3.0]], [[]], [1, 2, 3],
    [["1", "2"]], np.ones((6, 5)), -np.eye(6), np.triu(np.ones((6, 6))),
    np.eye(6, dtype=bool),
    np.ones((19, 4)), np.full((20, 4), 1e200), np.full((20, 4), 1e-200), X.astype(np.float16),
    X.astype(np.longdouble), np.ones((20, 4), dtype="datetime64[s]"),
    np.ones((20, 4), "timedelta64[s]"),
    np.zeros((3, 3), dtype=[("a", float)]), sparse.csr_array(np.full((20, 4), np.nan)),
    sparse.csr_array((20, 4)), sparse.coo_array((0, 0)), sparse.csr_array(np.ones((20, 4)) * 1j),
    sparse.coo_array(np.ones(4)), sparse.eye_array(6, format="dia"), "data.npy", Path("data.npy"),
    (X, Y), np.float64(3.0), np.iinfo(np.int64).max * np.ones((20, 4), dtype=np.int64),
    np.full((20, 4), np.iinfo(np.uint64).max, dtype=np.uint64), range(5), iter([1]), memoryview(X),
)  # fmt: skip


def _fit(**given: Any) -> Any:
    settings = {
        name: value for name, value in given.items() if name not in ("X", "y", "sample_weight")
    }
    weights = given.get("sample_weight")
    return CCA(**settings).fit(given["X"], given["y"], sample_weight=weights)


def _partial_fit(**given: Any) -> Any:
    model = CCA(1, reg=0.1).partial_fit(X, Y)
    return model.partial_fit(given["X"], given["y"], sample_weight=given["sample_weight"])


def _after_fit(name: str) -> Callable[..., Any]:
    def run(**given: Any) -> Any:
        return getattr(CCA(2, reg=0.1).fit(X, Y), name)(**given)

    return run


def _contrast(**given: Any) -> Any:
    data = ("X", "y", "background")
    settings = {name: value for name, value in given.items() if name not in data}
    model = GeneralizedEigen(**settings)
    return model.fit(given["X"], given["y"], background=given["background"])


def _solve(kind: Any) -> Callable[..., Any]:
    """A solver with these settings, put to work on B."""

    def run(**settings: Any) -> Any:
        operator = Gram(X, 0.1) if kind in STOCHASTIC else B[:4, :4]
        solver = kind(**settings)
        return solver.solve(solver.init(operator), np.ones((4, 1)), np.zeros((4, 1)), reduction=0.5)

    return run


def _eigen(kind: Any) -> Callable[..., Any]:
    """A method with these settings, put to work on A and B."""
    return lambda **settings: top_k(A, B, 1, method=kind(**settings))


def _canonical(kind: Any) -> Callable[..., Any]:
    """The same, on two views."""
    return lambda **settings: top_k_cca(X, Y, 1, reg=0.1, method=kind(**settings))


def _preconditioned(kind: Any) -> Callable[..., Any]:
    return lambda **settings: top_k(
        A, B, 1, method=GenELinK(solver=solvers.CG(preconditioner=kind(**settings)), max_iter=20)
    )


STOCHASTIC = (solvers.SVRG, solvers.ASVRG, solvers.MinibatchAGD)
CCA_SETTINGS = {
    "n_components": 1, "reg": 0.1, "shrinkage": None, "center": True, "scale": False, "tol": 1e-6,
    "method": None, "max_iter": None, "warm_start": False, "random_state": 0, "verbose": 0,
    "checkpoint": None, "resume": False,
}  # fmt: skip
PENCIL = {"A": A, "B": B, "k": 1, "which": "LM", "tol": 1e-8}
VIEWS = {
    "X": X, "Y": Y, "k": 1, "reg": 0.1, "shrinkage": None, "center": True, "scale": False,
    "form": None, "tol": 1e-6,
}  # fmt: skip
RUN = {"method": None, "rng": 0, "callback": None, "checkpoint": None, "resume": False}
ITERATION = {"reduction": 0.1, "iterations": None, "max_iter": 5, "solver": solvers.CG()}
DAVIDSON = {
    "solver": solvers.CG(), "reduction": 0.1, "steps": 4, "blocks": 6, "keep": 2, "max_iter": 5,
    "max_applications": np.inf, "start": None,
}  # fmt: skip
GRADIENT = {"max_iter": 5, "bounds": None}
STEPS = {"max_iter": 5, "bounds": None, "batch": None, "sampling": "norms", "seed": 0}
# name → (function, good arguments)
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "top_k": (top_k, {**PENCIL, **RUN}),
    "top_k_cca": (top_k_cca, {**VIEWS, **RUN}),
    "plan_top_k": (plan_top_k, PENCIL),
    "plan_cca": (plan_cca, {**VIEWS, "cluster": None}),
    "CCA.fit": (_fit, {"X": X, "y": Y, "sample_weight": None, **CCA_SETTINGS}),
    "CCA.partial_fit": (_partial_fit, {"X": X, "y": Y, "sample_weight": None}),
    "CCA.transform": (_after_fit("transform"), {"X": X, "y": Y, "copy": True}),
    "CCA.inverse_transform": (_after_fit("inverse_transform"), {"X": X[:, :2], "y": Y[:, :2]}),
    "CCA.predict": (_after_fit("predict"), {"X": X}),
    "CCA.score": (_after_fit("score"), {"X": X, "y": Y, "sample_weight": None}),
    "CCA.save": (_after_fit("save"), {"path": "/nonexistent/model"}),
    "CCA.load": (CCA.load, {"path": "/nonexistent/model"}),
    "GeneralizedEigen.fit": (
        _contrast,
        {
            "X": X, "y": LABELS, "background": None, "n_components": 1, "which": "LM",
            "criterion": "lda", "reg": 0.1, "shrinkage": None, "center": None, "method": None,
            "tol": 1e-8, "random_state": 0, "checkpoint": None, "resume": False,
        },
    ),
    "GenELinK": (_eigen(GenELinK), {**ITERATION, "locally_optimal": False, "batch": None}),
    "GenELin": (_eigen(GenELin), ITERATION),
    "CCALin": (
        _canonical(CCALin),
        {**ITERATION, "locally_optimal": False, "projection": "ritz", "batch": None},
    ),
    "Davidson": (_eigen(Davidson), DAVIDSON),
    "Davidson on views": (_canonical(Davidson), DAVIDSON),
    "Lanczos": (
        _eigen(Lanczos), {"columns": 1, "room": None, "max_steps": None, "further": Davidson()}
    ),
    "ShiftInvert": (
        lambda shift: top_k(
            sparse.csr_array(A), sparse.csr_array(B), 1, which="SA", method=ShiftInvert(shift)
        ),
        {"shift": None},
    ),
    "AppGrad": (_canonical(baselines.AppGrad), {"step": None, "iterations": None, "max_iter": 5}),
    "StochasticAppGrad": (
        _canonical(baselines.StochasticAppGrad),
        {"batch": None, "epochs": 1.0, "step": None, "decay": 1.0, "records": 2},
    ),
    "MomentumALS": (
        _canonical(baselines.MomentumALS),
        {
            "solver": solvers.CG(), "reduction": 0.01, "momentum": None, "guards": 1,
            "iterations": None, "max_iter": 5,
        },
    ),
    "PCACCA": (_canonical(baselines.PCACCA), {"components": None}),
    "RandomizedCCA": (_canonical(baselines.RandomizedCCA), {"oversample": 2, "power": 1}),
    "CG": (_solve(solvers.CG), {"max_iter": 5, "preconditioner": "auto"}),
    "GD": (_solve(solvers.GD), GRADIENT),
    "AGD": (_solve(solvers.AGD), GRADIENT),
    "SVRG": (_solve(solvers.SVRG), STEPS),
    "ASVRG": (_solve(solvers.ASVRG), STEPS),
    "MinibatchAGD": (_solve(solvers.MinibatchAGD), STEPS),
    "Nystrom": (_preconditioned(solvers.Nystrom), {"rank": 2, "rng": 0}),
    "BlockJacobi": (_preconditioned(solvers.BlockJacobi), {"size": 2, "blocks": None}),
    "Gram": (
        Gram, {"X": X, "reg": 0.1, "center": True, "scale": False, "weight": 1.0}
    ),
    "as_rows": (as_rows, {"X": X, "sample_weight": None}),
    "as_operator": (as_operator, {"A": A, "shape": None}),
    "solve": (
        lambda **given: solvers.CG().solve(solvers.CG().init(B), **given),
        {"rhs": np.ones((6, 1)), "x0": np.zeros((6, 1)), "reduction": 0.5},
    ),
    "two_view_gaussian": (
        datasets.two_view_gaussian,
        {"n": 30, "d": 4, "correlations": (0.9, 0.5), "kappa": 10.0, "rng": 0},
    ),
    "sparse_pairs": (datasets.sparse_pairs, {"correlations": (0.9, 0.5), "rng": 0}),
    "pencil": (
        datasets.pencil,
        {"d": 12, "k": 2, "kappa": 10.0, "rho": 0.1, "gamma": 2.0, "indefinite": True, "rng": 0},
    ),
    "mesh_pencil": (datasets.mesh_pencil, {"side": 4, "rng": 0}),
    "sparse_topics": (
        datasets.sparse_topics, {"n": 30, "d": 60, "nonzeros": 3, "topics": 4, "rng": 0}
    ),
    "iteration_bound": (
        theory.iteration_bound, {"rho": 0.4, "epsilon": 1e-6, "cos_theta0": 0.02}
    ),
    "TwoPhase": (theory.TwoPhase, {"rho": 0.4, "gamma": 1.5, "k": 3, "cos_theta0": 0.02}),
    "DataSpec": (DataSpec, {"n": 100, "d": 10, "nonzeros": None, "dtype": np.float32}),
    "ClusterSpec": (
        ClusterSpec, {"workers": 4, "cores": 2, "memory": 1e9, "bandwidth": 1e9, "latency": 0.02}
    ),
}  # fmt: skip
DATA = {"X", "Y", "A", "B", "y", "background", "sample_weight", "rhs", "x0", "start", "blocks"}
PATIENCE = {"power", "iterations", "max_iter", "steps", "max_steps", "epochs", "records"}
# other words by which a message may name an argument
WORDS = {
    "y": ("y", "Y", "target", "label", "class"),
    "k": ("k", "n_components"),
    "n_components": ("n_components", "components"),
    "sample_weight": ("weight", "weights", "sample_weight"),
    "rhs": ("rhs", "b", "right-hand"),
    "x0": ("x0", "start"),
    "background": ("background", "X"),
    "path": ("path",),
    "checkpoint": ("checkpoint", "folder"),
    "resume": ("resume", "checkpoint"),
    "random_state": ("random_state", "rng", "seed"),
    "rng": ("rng", "seed"),
    "A": ("A", "B"),  # whose sizes have to agree
    "B": ("A", "B"),
    "X": ("X", "Y", "y"),
    "Y": ("X", "Y"),
}


def attack(rng: Rng) -> str:
    """One call, one of whose arguments is wrong (or only strange)."""
    name = chosen(rng, CALLS)
    function, good = CALLS[name]
    argument = chosen(rng, good)
    pool = (*NONSENSE, *MATRICES, *NUMBERS) if argument in DATA else (*NUMBERS, *NUMBERS, *NONSENSE)
    if rng.random() < 0.1:
        pool = (*NONSENSE, *MATRICES)
    value = chosen(rng, pool)
    if argument in PATIENCE and isinstance(value, int | float) and value > 1e9:
        value = 2  # so many iterations are wanted then
    given = {**good, argument: value}
    shown = repr(value).replace("\n", " ")
    kind = f" {value.dtype} {value.shape}" if isinstance(value, np.ndarray) else ""
    about = f"{name}({argument}={shown[:70]}{kind})"
    libraries = ("sklearn",) if "." in name else ()
    may = (genelin.SolverError, OSError) if argument in ("path", "checkpoint", "solver") else ()
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            outcome = called(lambda: function(**given), may=may, libraries=libraries)
    except Defect as defect:
        raise Defect(f"{defect} [{about}]") from defect
    except Exception as error:
        raise Defect(f"{type(error).__name__}: {error} [{about}]") from error
    if not outcome.refused:
        if any(value is nonsense for nonsense in NONSENSE[:4]):
            raise Defect(f"taken without a word [{about}]")
        return "taken"
    words = WORDS.get(argument, (argument,))
    named = any(
        re.search(rf"(?<![A-Za-z]){re.escape(word)}(?![a-z])", outcome.refusal) for word in words
    )
    if not named and outcome.by_genelin:  # scikit-learn has its own words for data
        raise Defect(f"the message does not name it: {outcome.refusal[:300]} [{about}]")
    return "refused"
