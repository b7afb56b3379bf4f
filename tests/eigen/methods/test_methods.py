"""Every method with every kind of problem: an answer, or a sentence that says what to take."""

import warnings
from inspect import isabstract, isclass

import numpy as np
import pytest
from scipy import sparse

import genelin
from genelin import CCA, GeneralizedEigen, Lanczos, Pencil, TwoView, top_k, top_k_cca
from genelin.eigen import registry
from genelin.eigen.run.method import Method

METHODS = {row.class_name: row.load()() for row in registry.METHODS.values()}
RNG = np.random.default_rng(0)
LABELS = sparse.csr_array(np.eye(4)[RNG.integers(0, 4, 60)])
GROUPS = sparse.csr_array(np.eye(5)[RNG.integers(0, 5, 60)])
MESH = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(30, 30)).tocsr()
Z = RNG.standard_normal((80, 4))

PROBLEMS = {  # name → what is solved, and a call that every method for that can answer
    "top_k": (Pencil, lambda method: top_k(MESH, which="SA", method=method)),
    "top_k_cca": (
        TwoView,
        lambda method: top_k_cca(LABELS, GROUPS, reg=0.1, center=False, method=method),
    ),
    "CCA": (
        TwoView,
        lambda method: CCA(1, reg=0.1, center=False, method=method).fit(LABELS, GROUPS),
    ),
    "GeneralizedEigen": (
        Pencil,
        lambda method: GeneralizedEigen(1, method=method).fit(Z, background=Z[:50]),
    ),
    "a direct call, pencil": (Pencil, lambda method: method(Pencil(MESH, which="SA"), 1)),
    "a direct call, two views": (
        TwoView,
        lambda method: method(TwoView(LABELS, GROUPS, reg=0.1, center=False), 1),
    ),
}


def test_the_table_has_all_methods():
    assert {"Davidson", "Dense", "ShiftInvert", "Lanczos", "FewRows", "AppGrad"} < set(METHODS)
    public = (getattr(home, name) for home in (genelin, genelin.baselines) for name in home.__all__)
    assert all(kind in set(map(type, METHODS.values())) for kind in public if _is_method(kind))


def _is_method(kind):
    return isclass(kind) and issubclass(kind, Method) and not isabstract(kind)


@pytest.mark.parametrize("row", registry.METHODS.values(), ids=lambda row: row.name)
def test_the_registry_tells_what_a_method_is_for(row):
    kinds = {"pencils": (Pencil,), "views": (TwoView,), "both": (Pencil, TwoView)}
    assert row.load().solves == kinds[row.solves]


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_answers_or_says_what_to_take(name, problem):
    method, (kind, call) = METHODS[name], PROBLEMS[problem]
    if kind not in method.solves:
        handled, other = (
            ("pencils", "two data sets")
            if Pencil in method.solves
            else ("two data sets", "a pencil")
        )
        message = rf"^method={name}\(\) solves {handled}.*: for {other} .*leave method out, or use"
        with pytest.raises(TypeError, match=message):
            call(method)
    elif name == "ShiftInvert" and problem == "GeneralizedEigen":
        with pytest.raises(ValueError, match="ShiftInvert needs A and B as sparse matrices: use"):
            call(method)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rivals do not reach the tolerance
            assert call(method) is not None


@pytest.mark.parametrize("further", ["Davidson()", genelin.FewRows(), genelin.CCALin()], ids=str)
def test_lanczos_is_not_followed_by_what_cannot_solve_pencils(further):
    with pytest.raises(TypeError, match=r"further=.* must be an? (eigen )?method.*, such as Dav"):
        Lanczos(further=further)


@pytest.mark.parametrize(
    ("command", "method", "solves"),
    [("cca", "genelin", "pencils"), ("cca", "genelink", "pencils"), ("eig", "ccalin", "two data")],
)
def test_the_command_line_says_where_a_method_belongs(command, method, solves, capsys):
    from genelin.cli.main import main

    assert main([command, "a.npy", "b.npy", "--method", method]) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert f"'--method': {method} solves {solves}" in printed
    assert "use one of auto, dense, davidson" in printed
