"""Views: any number of data sets with the same rows; what is read of them is read once."""

import sys

import numpy as np
import pytest
from scipy import sparse

from genelin import CCA, CCALin, Davidson, Dense, TwoView, Views, top_k_cca
from genelin.eigen.run.meter import Meter
from genelin.kernels import csr_products
from genelin.problems.views import Views as Problem

RNG = np.random.default_rng(0)
SHARED = RNG.standard_normal((60, 3))
VIEWS = [SHARED @ RNG.standard_normal((3, d)) + RNG.standard_normal((60, d)) for d in (4, 6, 5)]


def covariance(X, Y):
    return (X - X.mean(axis=0)).T @ (Y - Y.mean(axis=0)) / len(X)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csc_matrix])
@pytest.mark.parametrize("form", [None, False, True])
def test_the_block_pair_of_three_views(kind, form):
    problem = Views([kind(X) for X in VIEWS], reg=(0.1, 0.2, 0.3), form=form)
    pencil, eye = problem.pencil, np.eye(15)
    blocks = [[covariance(X, Y) for Y in VIEWS] for X in VIEWS]
    for i, reg in enumerate((0.1, 0.2, 0.3)):
        expected = blocks[i][i] + reg * np.eye(len(blocks[i][i]))
        np.testing.assert_allclose(problem.covariances[i] @ np.eye(len(expected)), expected)
        blocks[i][i] = np.zeros_like(expected)
    np.testing.assert_allclose(pencil.A @ eye, np.block(blocks), atol=1e-14)
    assert pencil.d == 15
    assert problem.splits == (4, 6, 5)


def test_two_views_are_a_case_of_views():
    pair, both = TwoView(*VIEWS[:2], reg=0.1), Views(VIEWS[:2], reg=0.1)
    assert isinstance(pair, Views)
    assert pair.views == (pair.X, pair.Y)
    for a, b in zip(pair.pencil.operators, both.pencil.operators, strict=True):
        np.testing.assert_array_equal(a @ np.eye(10), b @ np.eye(10))


def test_views_of_deficient_rank_are_named():
    problem = Views([VIEWS[0], VIEWS[1], VIEWS[2][:, [0, 0, 1]]])
    assert [deficiency.name for deficiency in problem.deficiencies] == ["views[2]"]
    weights = problem.lift(*(np.eye(d) for d in (4, 6, 2)))
    assert [W.shape for W in weights] == [(4, 4), (6, 6), (3, 2)]
    np.testing.assert_allclose(problem.restrict(*weights)[2], np.eye(2), atol=1e-12)


@pytest.mark.parametrize(
    ("views", "settings", "message"),
    [
        (VIEWS[:1], {}, "views must be a list of two data sets or more"),
        (VIEWS[0], {}, "views must be a list of two data sets or more"),
        ([*VIEWS, VIEWS[0][:50]], {}, r"views\[0\] has 60 rows but views\[3\] has 50"),
        (VIEWS, {"reg": (0.1, 0.2)}, "give one number or 3, one a view, none negative or NaN"),
        ([X[:1] for X in VIEWS], {}, r"views\[0\], views\[1\] and views\[2\] have a single row"),
        (VIEWS, {"reg": 0.1, "shrinkage": 0.1}, "reg and shrinkage exclude each other"),
    ],
)
def test_views_that_do_not_fit_are_refused(views, settings, message):
    with pytest.raises(ValueError, match=message):
        Views(views, **settings)


def test_other_settings_keep_what_was_read():
    problem = TwoView(*VIEWS[:2], reg=0.1)
    problem.gather()
    other = problem.replace(reg=0.5)
    assert other.has_moments
    assert other.regs == (0.5, 0.5)
    assert not problem.replace(center=False).has_moments
    assert not problem.replace(views=(VIEWS[0], VIEWS[2])).has_moments
    with pytest.raises(TypeError, match="regs: views have no such setting"):
        problem.replace(regs=1.0)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_one_fit_builds_its_problem_once(kind, monkeypatch):
    built, build = [], Problem.__post_init__
    monkeypatch.setattr(Problem, "__post_init__", lambda self: built.append(1) or build(self))
    CCA(2, reg=0.1).fit(kind(VIEWS[0]), kind(VIEWS[1]))
    fitted = len(built)
    built.clear()
    top_k_cca(kind(VIEWS[0]), kind(VIEWS[1]), 2, reg=0.1)
    # Statistics of features are those of the views without a ridge: other settings, same moments.
    assert (len(built), fitted) == (1, 2)


def test_a_product_with_a_covariance_goes_through_few_frames(monkeypatch):
    """From the solver's `S @ V` to the compiled loop."""
    rows = sparse.random_array((3000, 500), density=0.01, rng=RNG, format="csr")
    pencil = Meter(1.0).metered(TwoView(rows, rows, reg=0.1, form=False).pencil)
    depths, compiled = [], csr_products._cross_times

    def watched(*given):
        frame, depth = sys._getframe(1), 0
        while frame.f_code is not here:
            frame, depth = frame.f_back, depth + 1
        depths.append(depth)
        return compiled(*given)

    here = sys._getframe().f_code
    monkeypatch.setattr(csr_products, "_cross_times", watched)
    monkeypatch.setattr(csr_products, "worthwhile", lambda *given: 1)  # on this thread
    S = pencil.B.diagonal_blocks[0]
    S @ RNG.standard_normal((500, 8))
    assert 0 < max(depths) <= 8


@pytest.mark.parametrize("method", [Dense(), Davidson(), CCALin()], ids=repr)
def test_methods_say_that_they_are_for_two_views(method):
    with pytest.raises(
        TypeError, match=r"finds pairs of two views, got 3 in Views: pass a TwoView"
    ):
        method(Views(VIEWS), 1)
