"""Whether any public call changes what belongs to its caller: every buffer is hashed around it."""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import genelin
from fuzz import Defect
from fuzz.spectra import FORMATS, chosen, orthogonal
from fuzz.watch import called
from genelin import (
    CCA,
    CCALin,
    Davidson,
    Dense,
    FewRows,
    GenELinK,
    GeneralizedEigen,
    Lanczos,
    ShiftInvert,
    baselines,
    plan_cca,
    plan_top_k,
    solvers,
    top_k,
    top_k_cca,
)
from genelin.operators import Gram, as_operator, as_rows

__all__ = ["attack", "fingerprint"]

Rng = np.random.Generator
Call = Callable[[], Any]


def attack(rng: Rng) -> str:
    """One call with inputs of random kinds, and a look at them before and after."""
    make = chosen(rng, (_pencil_call, _view_call, _view_call, _estimator_call, _other_call))
    name, call, inputs = make(rng)
    before = [fingerprint(given) for given in inputs]
    about = f"{name}; " + ", ".join(_named(given) for given in inputs)
    try:
        outcome = called(call, may=(genelin.SolverError,))
    except Defect as defect:
        raise Defect(f"{defect} [{about}]") from defect
    except Exception as error:
        error.add_note(about)
        raise
    for i, (given, known) in enumerate(zip(inputs, before, strict=True)):
        after = fingerprint(given)
        changed = [part for part, value in known.items() if after.get(part) != value]
        if changed or set(after) != set(known):
            raise Defect(f"input {i} has changed: {', '.join(changed) or 'its parts'} [{about}]")
    return "refused" if outcome.refused else "answered"


def fingerprint(given: Any) -> dict[str, str]:
    """A hash for every buffer of an array, sparse matrix or list, and one of what describes it."""
    if isinstance(given, np.ndarray):
        return _of_array("array", given)
    if sparse.issparse(given):
        about = {"form": f"{given.format} {given.shape} {given.dtype} {type(given).__name__}"}
        if given.format == "dok":
            items = [(tuple(map(int, key)), float(value)) for key, value in given.items()]
            return {**about, "items": _digest(repr(items).encode())}
        if given.format == "lil":
            rows = [[list(map(int, row)) for row in given.rows], [list(row) for row in given.data]]
            return {**about, "rows": _digest(repr(rows).encode())}
        parts = ("data", "indices", "indptr", "row", "col", "offsets", "coords")
        for part in parts:
            value = getattr(given, part, None)
            if isinstance(value, np.ndarray):
                about |= _of_array(part, value)
            elif isinstance(value, tuple):
                for i, piece in enumerate(value):
                    about |= _of_array(f"{part}{i}", piece)
        return about
    return {"value": _digest(repr(given).encode())}


def _of_array(name: str, array: Any) -> dict[str, str]:
    form = f"{array.shape} {array.strides} {array.dtype} {array.flags.writeable}"
    return {f"{name} bytes": _digest(array.tobytes()), f"{name} form": form}


def _digest(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def _named(given: Any) -> str:
    if sparse.issparse(given):
        sort = getattr(given, "has_sorted_indices", "")
        kind = getattr(getattr(given, "indices", None), "dtype", "")
        return f"{type(given).__name__} {given.shape} {given.dtype} {kind} sorted={sort}"
    if isinstance(given, np.ndarray):
        return f"array {given.shape} {given.dtype} writeable={given.flags.writeable}"
    return type(given).__name__


def disguised(rng: Rng, M: Any, *, lists: bool = True) -> Any:
    """M in a random type, layout and format, unsorted, with duplicates, read-only or not."""
    kind = chosen(
        rng, ("array", "array", "sparse", "sparse", "sparse", "list" if lists else "array")
    )
    dtype = chosen(rng, (np.float64, np.float64, np.float32, np.int64, np.int32, bool))
    if np.array_equal(M.astype(dtype).astype(float), M):
        M = M.astype(dtype)
    if kind == "list":
        return M.tolist()
    if kind == "array":
        M = chosen(rng, (M.copy(), np.asfortranarray(M), np.repeat(M, 2, 1)[:, ::2]))
        M.flags.writeable = bool(rng.random() < 0.6)
        return M
    return _sparse(rng, M)


def _sparse(rng: Rng, M: Any) -> Any:
    """M in a sparse format, in any order of its entries."""
    form, family = chosen(rng, ("csr", "csc", *FORMATS)), chosen(rng, ("array", "matrix"))
    if form in ("bsr", "dia", "dok", "lil"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a format does not suit these entries
            S = getattr(sparse, f"{form}_{family}")(sparse.coo_array(M))
    else:
        S = _unsorted(rng, M, form, family)
    if rng.random() < 0.4:
        for part in ("data", "indices", "indptr", "row", "col", "offsets"):
            value = getattr(S, part, None)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
    return S


def _unsorted(rng: Rng, M: Any, form: str, family: str) -> Any:
    C = sparse.coo_array(M)
    row, col, data = C.row, C.col, C.data
    if rng.random() < 0.4 and len(data) and data.dtype != bool:  # duplicates that add up
        row, col = np.concatenate([row, row[:5]]), np.concatenate([col, col[:5]])
        data = np.concatenate([data, np.zeros_like(data[:5])])
    if rng.random() < 0.6:
        order = rng.permutation(len(data))
        row, col, data = row[order], col[order], data[order]
    index = chosen(rng, (np.int32, np.int64))
    if form == "coo":
        return getattr(sparse, f"coo_{family}")(
            (data, (row.astype(index), col.astype(index))), M.shape
        )
    lines, others = (row, col) if form == "csr" else (col, row)
    order = np.argsort(lines, kind="stable")
    count = M.shape[0] if form == "csr" else M.shape[1]
    starts = np.searchsorted(lines[order], np.arange(count + 1))
    parts = (data[order], others[order].astype(index), starts.astype(index))
    S = getattr(sparse, f"{form}_{family}")(parts, shape=M.shape)
    if S.indices.dtype != index:
        S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
    return S


def _integers(rng: Rng, n: int, d: int) -> Any:
    """Data of small integers, mostly zeros, that any type can hold."""
    X = rng.integers(0, 2, (n, d)).astype(float)
    if rng.random() < 0.6:
        X = X * rng.standard_normal((n, d)).round(2)
    if rng.random() < 0.4:
        X = X * (rng.random((n, d)) < 0.3)
    return X


def _pencil_call(rng: Rng) -> tuple[str, Call, list[Any]]:
    d = int(chosen(rng, (rng.integers(4, 30), rng.integers(100, 200))))
    M = _integers(rng, d, d)
    A = np.round(M + M.T, 2)
    B = np.diag(rng.integers(1, 5, d).astype(float)) if rng.random() < 0.5 else None
    if B is not None and rng.random() < 0.5:
        B = 8 * B + np.eye(d, k=1) + np.eye(d, k=-1)
    a = disguised(rng, A)
    b = None if B is None else disguised(rng, B)
    which, k = chosen(rng, ("LM", "LA", "SA")), int(rng.integers(1, 4))
    methods = {
        "planner": None,
        "Dense": Dense(),
        "Davidson": Davidson(),
        "Lanczos": Lanczos(),
        "ShiftInvert": ShiftInvert(),
        "GenELinK": GenELinK(max_iter=5),
        "Direct": GenELinK(solver=solvers.Direct(), max_iter=5),
        "AGD": GenELinK(solver=solvers.AGD(), max_iter=5),
        "SparseCholesky": GenELinK(
            solver=solvers.CG(preconditioner=solvers.SparseCholesky()), max_iter=5
        ),
        "IncompleteCholesky": GenELinK(
            solver=solvers.CG(preconditioner=solvers.IncompleteCholesky()), max_iter=5
        ),
        "Nystrom": GenELinK(solver=solvers.CG(preconditioner=solvers.Nystrom()), max_iter=5),
        "BlockJacobi": GenELinK(
            solver=solvers.CG(preconditioner=solvers.BlockJacobi()), max_iter=5
        ),
    }
    name = chosen(rng, methods)
    start = None
    if name == "Davidson" and rng.random() < 0.5:
        start = orthogonal(rng, d)[:, :k]
        start.flags.writeable = bool(rng.random() < 0.5)
        methods["Davidson"] = Davidson(start=start)
    inputs = [given for given in (a, b, start) if given is not None]
    wrapped = aslinearoperator(a) if rng.random() < 0.1 and not isinstance(a, list) else a
    if rng.random() < 0.1:
        return f"plan_top_k k={k} {which}", lambda: plan_top_k(a, b, k, which=which), inputs
    method = methods[name]
    call = lambda: top_k(wrapped, b, k, which=which, method=method)  # noqa: E731
    return f"top_k {name} k={k} {which}", call, inputs


def _views(rng: Rng) -> tuple[Any, Any]:
    n, d1, d2 = (int(v) for v in (chosen(rng, (8, 30, 120)), *rng.integers(2, 20, 2)))
    if rng.random() < 0.15:
        d1, d2 = 10 * d1, 8 * d2
    X, Y = _integers(rng, n, d1), _integers(rng, n, d2)
    if rng.random() < 0.15:  # indicators
        X = np.eye(d1)[rng.integers(0, d1, n)]
        if rng.random() < 0.7:
            Y = np.eye(d2)[rng.integers(0, d2, n)]
    elif rng.random() < 0.7:
        Y[:, : min(d1, d2) // 2 + 1] += X[:, : min(d1, d2) // 2 + 1]
    return disguised(rng, X), disguised(rng, Y)


def _view_options(rng: Rng) -> dict[str, Any]:
    options: dict[str, Any] = {"reg": float(chosen(rng, (0.1, 1e-3, 1.0)))}
    if rng.random() < 0.2:
        options = {"shrinkage": 0.3}
    if rng.random() < 0.1:
        options = {}
    options["center"] = bool(rng.random() < 0.7)
    options["scale"] = bool(rng.random() < 0.3)
    return options


def _view_call(rng: Rng) -> tuple[str, Call, list[Any]]:
    x, y = _views(rng)
    options = _view_options(rng)
    form = chosen(rng, (None, None, True, False))
    methods = {
        "planner": None,
        "planner again": None,
        "planner once more": None,
        "Dense": Dense(),
        "Davidson": Davidson(),
        "FewRows": FewRows(),
        "CCALin": CCALin(max_iter=5),
        "CCALin random": CCALin(max_iter=5, projection="random"),
        "SVRG": CCALin(solver=solvers.SVRG(max_iter=3), max_iter=2),
        "ASVRG": CCALin(solver=solvers.ASVRG(max_iter=3), max_iter=2),
        "minibatch": CCALin(solver=solvers.MinibatchAGD(), max_iter=2),
        "batch": CCALin(batch=5, max_iter=2),
        "AppGrad": baselines.AppGrad(max_iter=5),
        "MomentumALS": baselines.MomentumALS(max_iter=3),
        "NWCCA": baselines.NWCCA(),
        "DWCCA": baselines.DWCCA(),
        "PCACCA": baselines.PCACCA(),
        "RandomizedCCA": baselines.RandomizedCCA(),
        "StochasticAppGrad": baselines.StochasticAppGrad(),
    }
    name = chosen(rng, methods)
    k = int(rng.integers(1, 3))
    if rng.random() < 0.1:
        return f"plan_cca {options}", lambda: plan_cca(x, y, k, form=form, **options), [x, y]
    method = methods[name]
    call = lambda: top_k_cca(x, y, k, form=form, method=method, **options)  # noqa: E731
    return f"top_k_cca {name} k={k} form={form} {options}", call, [x, y]


def _estimator_call(rng: Rng) -> tuple[str, Call, list[Any]]:
    if rng.random() < 0.35:
        return _contrast_call(rng)
    x, y = _views(rng)
    options = _view_options(rng)
    name = chosen(
        rng, ("fit", "fit", "transform", "score", "partial_fit", "weights", "significance")
    )
    weights = np.asarray(rng.integers(0, 3, len(x) if isinstance(x, list) else x.shape[0]), float)
    cca = CCA(n_components=2, **options)

    def call() -> Any:
        if name == "partial_fit":
            return cca.partial_fit(x, y).partial_fit(x, y)
        if name == "weights":
            return cca.fit(x, y, sample_weight=weights).score(x, y, sample_weight=weights)
        cca.fit(x, y)
        if name == "transform":
            return cca.transform(x, y), cca.inverse_transform(cca.transform(x)), cca.predict(x)
        if name == "significance":
            return cca.significance()
        return cca.score(x, y) if name == "score" else cca

    return f"CCA {name} {options}", call, [x, y, weights]


def _contrast_call(rng: Rng) -> tuple[str, Call, list[Any]]:
    X = _integers(rng, 40, 5)
    x, other = disguised(rng, X), disguised(rng, _integers(rng, 30, 5))
    y = rng.integers(0, 3, 40)
    criterion, which = chosen(rng, ("lda", "csp", "class-pairs")), chosen(rng, ("LM", "SA", "BE"))
    if criterion == "csp":
        y = y % 2
    against = rng.random() < 0.4
    model = GeneralizedEigen(n_components=2, criterion=criterion, which=which, reg=0.1)

    def call() -> Any:
        if against:
            return model.fit(x, background=other).transform(x)
        return model.fit(x, y).transform(x)

    return f"GeneralizedEigen {criterion} {which} against={against}", call, [x, other, y]


def _other_call(rng: Rng) -> tuple[str, Call, list[Any]]:
    X = _integers(rng, 30, 6)
    x = disguised(rng, X, lists=False)
    V = rng.standard_normal((6, 3))
    V.flags.writeable = bool(rng.random() < 0.5)
    name = chosen(rng, ("rows", "gram", "operator", "solver", "convert", "io", "partial rows"))

    def call() -> Any:
        if name == "rows":
            rows = as_rows(x)
            return rows, rows.mean
        if name == "gram":
            gram = Gram(x, 0.1)
            return gram @ V, gram.formed() @ V, gram.diagonal()
        if name == "partial rows":
            return genelin.as_operator(x) @ V
        if name == "convert":
            with tempfile.TemporaryDirectory() as folder:
                return genelin.io.convert(x, Path(folder) / "rows")
        if name == "io":
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "m"
                model = CCA(n_components=1, reg=0.1).fit(x, x)
                model.save(path)
                return CCA.load(path).transform(x)
        return _solved(rng, V)

    inputs = [x, V]
    if name == "operator":
        M = disguised(rng, X.T @ X + 6 * np.eye(6), lists=False)
        return "as_operator", lambda: as_operator(M) @ V, [M, V]
    return name, call, inputs


def _solved(rng: Rng, b: Any) -> Any:
    B = np.diag(rng.uniform(1, 2, 6))
    u0 = np.zeros_like(b)
    u0.flags.writeable = False
    kinds = (solvers.GD, solvers.AGD, solvers.CG, solvers.Direct)
    before = B.tobytes(), u0.tobytes()
    solver = chosen(rng, kinds)()
    found = solver.solve(solver.init(B), b, u0, reduction=1e-6)
    if (B.tobytes(), u0.tobytes()) != before:
        raise Defect(f"{type(solver).__name__} has changed B or u0")
    return found
