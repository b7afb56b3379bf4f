"""Wrong arguments: an error that names them and says what they must be."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from genelin import (
    CCA,
    CCALin,
    DataSpec,
    Lanczos,
    baselines,
    datasets,
    solvers,
    theory,
    top_k,
    top_k_cca,
)
from genelin.operators import Gram, as_operator, as_rows
from genelin.solvers.cg import _Radau

X, Y = (np.random.default_rng(seed).standard_normal((20, d)) for seed, d in ((0, 4), (1, 3)))
B = np.diag([1.0, 2.0, 3.0])


def fitted():
    return CCA(2, reg=0.1).fit(X, Y)


def solve(**given):
    cg = solvers.CG()
    return cg.solve(cg.init(B), **{"rhs": np.ones(3), "x0": np.zeros(3), "reduction": 0.5, **given})


WRONG = {
    "rng of views": (lambda: datasets.two_view_gaussian(9, rng="a"), "rng='a' must be a seed"),
    "rng of pairs": (lambda: datasets.sparse_pairs([0.5], rng=-1), "rng=-1 must be a seed"),
    "rng of a mesh": (lambda: datasets.mesh_pencil(3, rng=0.5), "rng=0.5 must be a seed"),
    "rng of topics": (lambda: datasets.sparse_topics(9, 50, rng=1j), "rng=1j must be a seed"),
    "rng of a pencil": (lambda: datasets.pencil(9, rng={1, 2}), r"rng=\{1, 2\} must be a seed"),
    "rng of a sketch": (lambda: solvers.Nystrom(rng=np.inf), "rng=inf must be a seed"),
    "rng of a method": (lambda: top_k(B, method=lambda *a: Lanczos()(*a[:3], "a")), "rng='a'"),
    "random_state": (lambda: CCA(1, random_state=-1).fit(X, Y), "random_state=-1 must be an int"),
    "rows": (lambda: datasets.two_view_gaussian(np.inf), "n=inf must be a whole number"),
    "columns": (lambda: datasets.two_view_gaussian(9, d=()), r"d=\(\) must be one number or a"),
    "kappa": (lambda: datasets.two_view_gaussian(9, kappa={}), r"kappa=\{\} must be a finite"),
    "correlations": (lambda: datasets.sparse_pairs("LM"), "correlations='LM' must be real"),
    "size": (lambda: datasets.pencil(None), "d=None must be a whole number of at least 1"),
    "condition": (lambda: datasets.pencil(9, kappa=1e308), r"kappa=1e\+308 must lie in \[1, 1e"),
    "side": (lambda: datasets.mesh_pencil(range(5)), r"side=range\(0, 5\) must be a whole"),
    "words": (lambda: datasets.sparse_topics(9, 10**30), "d=10+ must be a whole number.*at most"),
    "theory": (lambda: theory.iteration_bound("1", 0.1, 0.1), r"rho='1' must lie in \[1e-50, 1"),
    "cosine": (lambda: theory.iteration_bound(0.5, 0.1, -1), "cos_theta0=-1 must lie in"),
    "two phases": (lambda: theory.TwoPhase(1j, 1.0, 1, 0.1), "rho=1j must lie in"),
    "save": (lambda: fitted().save(1), "path=1 must be the name of a file"),
    "save nowhere": (lambda: fitted().save(""), "path='' must be the name of a file"),
    "load": (lambda: CCA.load(np.nan), "path=nan must be the name of a file"),
    "scores": (lambda: fitted().inverse_transform(X), r"X must be dense scores with 2 columns"),
    "scores of y": (lambda: fitted().inverse_transform(X[:, :2], Y), r"y must be dense scores"),
    "copy": (lambda: fitted().transform(X, copy="no"), "copy='no' must be True or False"),
    "huge": (lambda: fitted().predict([[10**400] * 4]), "X has an integer beyond the range"),
    "weight": (lambda: fitted().score(X, Y, "LM"), "sample_weight='LM' must be real numbers"),
    "weights": (lambda: as_rows(X, sample_weight=np.ones(20) * 1j), "sample_weight=.*must be real"),
    "no weights": (lambda: as_rows(X, sample_weight=Path("a")), "sample_weight=.*must be real"),
    "a batch": (lambda: CCA(1).partial_fit(X * 1e200, Y), r"X has numbers of the order"),
    "further": (lambda: Lanczos(further=None), "further=None must be an eigen method"),
    "no solution": (
        lambda: top_k(B, method=Lanczos(room=1, further=lambda *_: None)),
        "further returned NoneType",
    ),
    "locally optimal": (lambda: CCALin(locally_optimal={1: 1}), "locally_optimal=.*True or False"),
    "projection": (lambda: CCALin(projection=np.ones(2)), "projection=.* must be 'ritz' or 'rand"),
    "blocks": (lambda: solvers.BlockJacobi(blocks=3), "blocks=3 of BlockJacobi must be a list"),
    "a view of blocks": (lambda: solvers.BlockJacobi(blocks=memoryview(X)), "blocks=.*must be a"),
    "sampling": (lambda: solvers.SVRG(sampling=np.ones(2)), "sampling=.* must be 'norms' or"),
    "epochs": (lambda: baselines.StochasticAppGrad(epochs=1e308), r"epochs=1e\+308 must lie in"),
    "no epochs": (lambda: baselines.StochasticAppGrad(epochs=10**400), "epochs=.*must lie in"),
    "step": (
        lambda: top_k_cca(X, Y, 1, reg=0.1, method=baselines.AppGrad(step=1e308)),
        "step is too long",
    ),
    "steps": (lambda: baselines.AppGrad(step=()), r"step=\(\) must be one number or a pair"),
    "momentum": (lambda: baselines.MomentumALS(momentum="1"), "momentum='1' must lie in"),
    "reduction": (lambda: baselines.MomentumALS(reduction="1"), "reduction='1' must lie in"),
    "solve": (lambda: solve(reduction=1j), r"reduction=1j must lie in \[0, 1\)"),
    "right-hand side": (lambda: solve(rhs="a"), "rhs='a' must be real numbers"),
    "start": (lambda: solve(x0=["a"] * 3), "x0=.* must be real numbers"),
    "ridge": (lambda: Gram(X, reg=len), "reg=.* must be a finite number, not negative"),
    "text as ridge": (lambda: CCA(1, reg="1").fit(X, Y), "reg='1': give one number or a pair"),
    "huge ridge": (lambda: top_k_cca(X, Y, 1, reg=10**400), "reg=10+….*: give one number"),
    "preconditioner": (lambda: solvers.CG(preconditioner=B), "preconditioner=.*is not known"),
    "shape": (lambda: as_operator(B, shape=1j), "shape=1j must be two whole numbers"),
    "dtype": (lambda: DataSpec(9, 9, dtype="a"), "dtype='a' must be float32 or float64"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_named(name):
    call, words = WRONG[name]
    with pytest.raises((TypeError, ValueError), match=words) as caught:
        call()
    assert "genelin" in Path(caught.traceback[-1].path).parts  # not of a library below


def test_small_integers_do_not_overflow():
    solver = solvers.ASVRG(batch=np.int8(2), max_iter=np.int8(100))
    assert type(solver.batch) is int
    state = solver.init(Gram(X, 0.1))
    assert solver.solve(state, np.ones(4), np.zeros(4), 0.5).met.all()


@pytest.mark.parametrize("value", [0.1, 1 / 3, 7.7, -3.3])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_constant_column_stays_constant_in_batches(value, form, weighted):
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((200, 3)), rng.standard_normal((200, 2))
    first[:, 2] = value
    for _ in range(20):
        cuts = np.sort(rng.choice(np.arange(5, 195), 3, replace=False))
        cca = CCA(1, reg=1e-3, scale=True)
        for x, y in zip(np.split(first, cuts), np.split(second, cuts), strict=True):
            weights = 0.1 + rng.random(len(x)) if weighted else None
            cca.partial_fit(form(x), form(y), sample_weight=weights)
        assert cca.x_scale_[2] == 1.0


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_constant_column_of_many_rows_is_constant(form):
    rows = as_rows(form(np.full((100_000, 1), 0.1)))
    assert rows.constant.all()
    assert rows.mean[0] == pytest.approx(0.1, rel=1e-15)


def test_bounds_of_a_spectrum_without_reciprocal():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        radau = _Radau(1e-310, np.array([1e20]))
        radau.advance(np.array([0.5]), np.array([0.1]), np.array([1e20]), np.array([1e10]))
        decrease, bound = radau.measure()
    assert decrease[0] == 5e19
    assert bound[0] > 0
