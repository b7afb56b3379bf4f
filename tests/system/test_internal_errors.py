"""A defect of genelin is told from bad input and from errors of the user's own code."""

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator

from genelin import CCA, Davidson, Dense, GenELinK, top_k, top_k_cca
from genelin.errors import InternalError
from genelin.system.internal_errors import is_defect, our_work

A = np.diag(np.arange(1.0, 9.0))


def of_module(name, body):
    """A function of a module, as tracebacks see it."""
    scope = {"__name__": name, "np": np}
    exec(f"def function(*arguments, **options):\n    {body}", scope)
    return scope["function"]


STRAY = {
    "an empty maximum": "return np.empty(0).max()",
    "shapes that do not fit": "return np.ones(2) + np.ones(3)",
    "a key that is not there": "return {}['key']",
    "an attribute that is not there": "return arguments[0].nothing",
    "an index": "return [][0]",
    "a division": "return 1 / 0",
    "an assertion": "assert not arguments",
    "too many parts": "a, b = 1, 2, 3",
}


@pytest.mark.parametrize("body", STRAY.values(), ids=STRAY)
def test_a_stray_error_of_the_work_is_an_internal_error(monkeypatch, body):
    monkeypatch.setattr(
        "genelin.eigen.methods.dense._entries", of_module("genelin.eigen.methods.dense", body)
    )
    with pytest.raises(InternalError, match=r"^internal error; please report it: ") as caught:
        top_k(A, method=Dense())
    assert not isinstance(caught.value, ValueError)
    assert type(caught.value.__cause__).__name__ in str(caught.value)


def test_what_is_said_on_purpose_stays_as_it_is(monkeypatch):
    said = of_module(
        "genelin.eigen.methods.dense", "raise ValueError('B is singular: add a ridge')"
    )
    monkeypatch.setattr("genelin.eigen.methods.dense._entries", said)
    with pytest.raises(ValueError, match=r"^B is singular: add a ridge$"):
        top_k(A, method=Dense())


def test_what_kernels_refuse_is_a_defect_of_their_callers(monkeypatch):
    said = of_module("genelin.kernels.csr_products", "raise ValueError('fill it up')")
    monkeypatch.setattr("genelin.eigen.methods.dense._entries", said)
    with pytest.raises(InternalError, match="ValueError: fill it up"):
        top_k(A, method=Dense())


def test_errors_of_the_users_own_code_stay_as_they_are():
    def solver(B, b, u0, delta):
        return np.empty(0).max()

    def product(V):
        if len(V.shape) > 1:
            calls.append(V)
        if len(calls) > 3:
            raise KeyError("lost")
        return A @ V

    def callback(record, W):
        raise IndexError("of the callback")

    def method(problem, k, *rest):
        return [][0]

    calls = []
    with pytest.raises(ValueError, match="zero-size array"):
        top_k(A, method=GenELinK(solver=solver))
    with pytest.raises(KeyError, match="lost"):
        top_k(LinearOperator(A.shape, product, matmat=product), method=Davidson(max_iter=9))
    with pytest.raises(IndexError, match="of the callback"):
        top_k(A, method=Davidson(), callback=callback)
    with pytest.raises(IndexError, match="list index out of range"):
        top_k(A, method=method)


def test_bad_input_is_never_an_internal_error():
    X = np.random.default_rng(0).standard_normal((20, 3))
    for call in (
        lambda: top_k(A, k=9),
        lambda: top_k(A, -A),
        lambda: top_k_cca(X, X[:10]),
        lambda: CCA(1).fit(X, np.full((20, 2), np.nan)),
        lambda: CCA(1).fit(X[:0], X[:0]),
        lambda: CCA(1).fit(X, None),
        lambda: top_k(A, method=Davidson(start=np.ones((3, 2)))),
        lambda: top_k(A, method=GenELinK(batch=2)),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - whatever it says
            call()
        assert not is_defect(caught.value)


def test_other_kinds_of_errors_pass():
    for kind in (MemoryError, KeyboardInterrupt, OSError, FloatingPointError):
        with pytest.raises(kind), our_work():
            of_module("genelin.eigen.methods.dense", f"raise {kind.__name__}")()
