"""Every message names the argument, the place and the remedy, before any long work starts."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from genelin import (
    GenELin,
    GenELinK,
    NotPositiveDefiniteError,
    SolverError,
    solvers,
    top_k,
    top_k_cca,
)
from genelin.operators import as_operator

I3 = np.eye(3)


def entry(value, row=1, column=2, d=3):
    M = np.eye(d)
    M[row, column] = value
    return M


BAD_PENCILS = {
    "nan in A": (entry(np.nan), I3, {}, ValueError, r"A has NaN at row 1, column 2: drop"),
    "inf in B": (I3, entry(np.inf), {}, ValueError, r"B has inf at row 1, column 2"),
    "nan in sparse A": (
        sparse.csc_array(entry(np.nan)),
        I3,
        {},
        ValueError,
        r"A has NaN at row 1, column 2",
    ),
    "several": (np.full((3, 3), np.nan), I3, {}, ValueError, r"row 0, column 0 \(9 such entries"),
    "A not square": (np.ones((2, 3)), I3, {}, ValueError, r"A must be square, got shape \(2, 3\)"),
    "B not square": (I3, np.ones((2, 3)), {}, ValueError, r"B must be square"),
    "sizes differ": (I3, np.eye(4), {}, ValueError, r"A has shape \(3, 3\) but B has shape \(4, 4"),
    "A not symmetric": (
        entry(5.0),
        I3,
        {},
        ValueError,
        r"A is not symmetric: entry \(1, 2\) is 5 but \(2, 1\) is 0\. Pass \(A \+ A\.T\) / 2",
    ),
    "sparse A not symmetric": (
        sparse.csr_array(entry(5.0)),
        I3,
        {},
        ValueError,
        r"A is not symmetric: entry \(1, 2\) is 5",
    ),
    "operator not symmetric": (
        aslinearoperator(entry(5.0)),
        I3,
        {},
        ValueError,
        r"A is not symmetric: uᵀ\(A v\)",
    ),
    "B not symmetric": (I3, entry(0.5), {}, ValueError, r"B is not symmetric: entry \(1, 2\)"),
    "B indefinite on its diagonal": (
        I3,
        np.diag([1.0, 2, -1]),
        {},
        NotPositiveDefiniteError,
        r"diagonal entry 2 is -1.*indefinite.*ridge",
    ),
    "B indefinite": (
        I3,
        entry(2.0) + entry(2.0).T - I3,
        {},
        NotPositiveDefiniteError,
        r"leading 3×3 block.*ridge",
    ),
    "B singular": (
        I3,
        np.ones((3, 3)),
        {},
        NotPositiveDefiniteError,
        r"not positive definite.*remove dependent rows and columns, or add a ridge",
    ),
    "B sparse and singular": (
        I3,
        sparse.csr_array(np.ones((3, 3))),
        {},
        NotPositiveDefiniteError,
        r"remove dependent rows",
    ),
    "B zero": (I3, np.zeros((3, 3)), {}, NotPositiveDefiniteError, r"diagonal entry 0 is 0"),
    "B indefinite operator": (
        np.eye(300),
        aslinearoperator(-np.eye(300)),
        {},
        NotPositiveDefiniteError,
        r"vᵀBv = -.*random v",
    ),
    "k zero": (I3, I3, {"k": 0}, ValueError, r"k=0 must be at least 1 and at most.*size of A, 3"),
    "k too large": (I3, I3, {"k": 4}, ValueError, r"k=4 must be"),
    "k fractional": (I3, I3, {"k": 1.5}, TypeError, r"k=1.5 must be an integer"),
    "A empty": (np.empty((0, 0)), None, {}, ValueError, r"A is empty, with shape \(0, 0\)"),
    "A complex": (I3 * 1j, I3, {}, TypeError, r"A is complex.*A\.real"),
    "operator complex": (
        LinearOperator((3, 3), matvec=lambda v: 1j * v, dtype=complex),
        I3,
        {},
        TypeError,
        r"A is complex",
    ),
    "A objects": (I3.astype(object), I3, {}, TypeError, r"A has dtype object.*astype\(float\)"),
    "A strings": (I3.astype(str), I3, {}, TypeError, r"A has dtype <U.*encode categories"),
    "A a vector": (np.ones(3), None, {}, ValueError, r"A must have two dimensions, got shape"),
    "A without shape": (lambda V: V, None, {}, TypeError, r"as_operator\(f, shape=\(d, d\)\)"),
    "tol negative": (I3, I3, {"tol": -1}, ValueError, r"tol=-1 must be a number between 0 and 1"),
    "tol text": (I3, I3, {"tol": "small"}, ValueError, r"tol='small' must be"),
    "which unknown": (I3, I3, {"which": "SM"}, ValueError, r"which='SM' is not known: use 'LM'"),
    "method a class": (I3, I3, {"method": GenELinK}, TypeError, r"is not an eigen method"),
    "method a string": (I3, I3, {"method": "genelink"}, TypeError, r"method='genelink' is not"),
    "masked": (np.ma.masked_equal(I3, 0), I3, {}, TypeError, r"A is a masked array.*A\.filled"),
    "ragged": ([[1, 2], [3]], None, {}, ValueError, r"A is not a rectangular array of numbers"),
    "rng negative": (I3, I3, {"rng": -1}, ValueError, r"rng=-1 must be a seed"),
    "rng text": (I3, I3, {"rng": "a"}, TypeError, r"rng='a' must be a seed"),
    "tol complex": (I3, I3, {"tol": 1e-3 + 1j}, ValueError, r"tol=.* must be a number between"),
    "which an array": (I3, I3, {"which": np.ones(2)}, ValueError, r"is not known: use 'LM'"),
    "callback": (I3, I3, {"callback": 3}, TypeError, r"callback=3 must be a function"),
    "method returns nothing": (
        I3,
        I3,
        {"method": lambda *a: None},
        TypeError,
        r"method returned NoneType",
    ),
    "values tiny": (1e-160 * I3, 1e150 * I3, {}, ValueError, r"order 1e-310, .*divide A or B"),
    "B huge": (I3, 1e300 * I3, {}, ValueError, r"B has numbers whose products leave .*divide B"),
    "GenELin with k": (I3, I3, {"method": GenELin(), "k": 2}, ValueError, r"use GenELinK for more"),
}


@pytest.mark.parametrize("name", BAD_PENCILS)
def test_bad_pencils(name):
    A, B, options, error, message = BAD_PENCILS[name]
    with pytest.raises(error, match=message):
        top_k(A, B, **{"k": 1, **options})


X, Y = np.random.default_rng(0).standard_normal((2, 20, 3))


def spoiled(value):
    Z = X.copy()
    Z[4, 1] = value
    return Z


BAD_VIEWS = {
    "rows differ": (X, Y[:-1], {}, ValueError, r"X has 20 rows but Y has 19"),
    "nan": (spoiled(np.nan), Y, {}, ValueError, r"X has NaN at row 4, column 1.*SimpleImputer"),
    "inf in sparse Y": (
        X,
        sparse.csr_array(spoiled(-np.inf)),
        {},
        ValueError,
        r"Y has -inf at row 4, column 1",
    ),
    "empty": (X[:, :0], Y, {}, ValueError, r"X is empty, with shape \(20, 0\)"),
    "no rows": (X[:0], Y[:0], {}, ValueError, r"X is empty"),
    "one row": (X[:1], Y[:1], {}, ValueError, r"single row: nothing is left after centring"),
    "complex": (X * 1j, Y, {}, TypeError, r"X is complex"),
    "text": (X.astype(str), Y, {}, TypeError, r"X has dtype"),
    "not an array": (X, {"a": 1}, {}, TypeError, r"Y must be a two-dimensional array.*got dict"),
    "vector": (X, Y[:, 0], {}, ValueError, r"Y must have two dimensions"),
    "k": (X, Y[:, :2], {"k": 3}, ValueError, r"k=3 must be .*smaller number of columns, 2"),
    "reg negative": (X, Y, {"reg": -1}, ValueError, r"reg=-1: give one number or a pair"),
    "reg nan": (X, Y, {"reg": np.nan}, ValueError, r"reg=nan"),
    "reg inf": (X, Y, {"reg": np.inf}, ValueError, r"reg=inf is not finite"),
    "reg of three": (X, Y, {"reg": (1, 2, 3)}, ValueError, r"reg=\(1, 2, 3\): give one number"),
    "reg text": (X, Y, {"reg": "a"}, ValueError, r"reg='a': give one number or a pair"),
    "center text": (X, Y, {"center": "no"}, TypeError, r"center='no' must be True or False"),
    "scale array": (X, Y, {"scale": np.ones(3)}, TypeError, r"scale=.* must be True or False"),
    "X huge": (1e160 * X, Y, {}, ValueError, r"X has numbers of the order 2e\+160.*divide X"),
    "Y tiny": (X, 1e-170 * Y, {}, ValueError, r"Y has numbers of the order"),
    "shrinkage": (X, Y, {"shrinkage": 2}, ValueError, r"shrinkage=2: .*at most 1"),
    "both": (X, Y, {"shrinkage": 0.1, "reg": 0.1}, ValueError, r"exclude each other"),
}


@pytest.mark.parametrize("name", BAD_VIEWS)
def test_bad_views(name):
    first, second, options, error, message = BAD_VIEWS[name]
    with pytest.raises(error, match=message):
        top_k_cca(first, second, **{"k": 1, **options})


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: GenELinK(reduction=1), ValueError, r"reduction=1 must lie in \[0, 1\)"),
        (lambda: GenELinK(reduction="a"), ValueError, r"reduction='a' must lie"),
        (lambda: GenELinK(max_iter=0), ValueError, r"max_iter=0 must be a whole number"),
        (lambda: GenELinK(max_iter=2.5), ValueError, r"max_iter=2.5 must be a whole number"),
        (lambda: GenELinK(iterations=True), ValueError, r"iterations=True must be"),
        (lambda: GenELinK(solver="cg"), TypeError, r"solver='cg' is not a linear solver"),
        (lambda: solvers.CG(preconditioner="jacobi"), ValueError, r"solvers\.Jacobi\(\)"),
        (lambda: solvers.CG(max_iter=0), ValueError, r"max_iter=0 must be"),
        (lambda: solvers.AGD(bounds=(1,)), ValueError, r"bounds=\(1,\) must be \(α, β\)"),
        (lambda: solvers.GD(bounds=3), ValueError, r"bounds=3 must be"),
        (lambda: solvers.GD(bounds=(1, 2, 3)), ValueError, r"must be \(α, β\)"),
    ],
)
def test_bad_settings(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_callback_cannot_spoil_the_run():
    def spoil(record, W):
        for values in (W, record.ritz_values):
            with pytest.raises(ValueError, match="read-only"):
                values.fill(0.0)

    assert top_k(A4, B4, k=2, method=GenELinK(), callback=spoil).converged


A4 = np.diag([4.0, 3.0, 2.0, 1.0])
B4 = np.diag([1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (lambda B, b, u0, delta: (b - B @ u0)[:2], r"returned shape \(2, 2\), expected \(4, 2\)"),
        (lambda B, b, u0, delta: u0 + 5 * (b - B @ u0), r"diverges: in column \d"),
        (lambda B, b, u0, delta: u0 / 0, r"returned NaN or inf"),
        (lambda B, b, u0, delta: "done", r"returned <U4 values, expected real numbers"),
        (lambda B, b, u0, delta: u0 * 1j, r"returned complex128 values"),
    ],
)
def test_bad_solvers_are_named(solver, message):
    with np.errstate(all="ignore"), pytest.raises(SolverError, match=message):
        top_k(A4, B4, k=2, method=GenELinK(solver=solver))


def test_nan_from_an_operator_is_noticed_when_it_comes():
    calls = []

    def product(V):
        calls.append(V)
        return np.full_like(V, np.nan) if len(calls) > 5 else V * np.arange(1.0, 301.0)[:, None]

    A = LinearOperator((300, 300), matvec=product, matmat=product, dtype=float)
    with pytest.raises(ValueError, match=r"A @ V has NaN or inf for a finite V"):
        top_k(A, k=2)


def test_negative_curvature_is_noticed_on_the_way():
    """Too thin for a random probe, found by the solver or by Gram–Schmidt."""
    d = 3000
    weights = np.ones(d)
    weights[17] = -1.0
    B = LinearOperator((d, d), matvec=lambda v: weights[:, None] * v.reshape(d, -1), dtype=float)
    with pytest.raises(NotPositiveDefiniteError):
        top_k(aslinearoperator(sparse.diags_array(np.linspace(1, 2, d)).tocsr()), B, k=2)


@pytest.mark.parametrize("layout", ["rows", "columns", "strided", "large"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_found_in_any_layout(layout, bad):
    """Both infinities together, which add up to NaN, and numbers whose squares overflow."""
    X = np.full((1100, 2000) if layout == "large" else (30, 20), 1e200)
    X = {"columns": np.asfortranarray(X), "strided": np.tile(X, 2)[:, ::2]}.get(layout, X)
    as_operator(X)
    X[3, 4], X[5, 6] = bad, -bad
    with pytest.raises(ValueError, match="row 3, column 4 \\(2 such"):
        as_operator(X)
