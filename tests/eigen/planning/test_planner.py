"""Which route is taken, what a plan says of it, and that top_k follows it."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from genelin import (
    Davidson,
    Dense,
    Lanczos,
    Pencil,
    TwoView,
    plan_cca,
    plan_top_k,
    top_k,
    top_k_cca,
)
from genelin.datasets import mesh_pencil
from genelin.eigen.costs.facts import Facts
from genelin.eigen.costs.machine import DEFAULT_PROFILE, default_machine, measured
from genelin.eigen.costs.plan import Route
from genelin.eigen.methods import davidson
from genelin.eigen.methods.davidson import held_up
from genelin.eigen.methods.dense import OrDense
from genelin.eigen.methods.diagonal_cca import WhitenedSVD
from genelin.eigen.planning import planner
from genelin.eigen.planning.planner import best_route, planned
from genelin.system.memory import available_memory, total_memory

USUAL = default_machine()


def wide_views(n, d, nonzeros, seed=0):
    """Sparse rows; each of `nonzeros` features is one of d."""
    rng = np.random.default_rng(seed)
    indptr = np.arange(0, n * nonzeros + 1, nonzeros)
    return [
        sparse.csr_array((np.ones(n * nonzeros), rng.integers(0, d, n * nonzeros), indptr), (n, d))
        for _ in range(2)
    ]


def test_small_problems_are_solved_densely():
    assert best_route(Pencil(np.eye(300)), 5).method == Dense()
    X = np.random.default_rng(0).random((50, 40))
    assert best_route(TwoView(X, X[:, :30], reg=0.1), 5).method == Dense()


def test_many_pairs_of_a_large_pencil_are_solved_densely():
    assert best_route(Pencil(sparse.eye_array(3000)), 1000).method == Dense()


def test_operators_without_entries_get_a_budget():
    A = aslinearoperator(np.diag(np.arange(1.0, 501.0)))
    assert best_route(Pencil(A), 3).method == OrDense(Davidson(max_applications=1000))


def test_large_sparse_pencils_are_iterated():
    plan = plan_top_k(sparse.diags_array(np.arange(1.0, 20_001.0)), k=3)
    assert [route.name for route in plan.routes] == ["Lanczos", "Davidson", "dense"]
    assert plan.chosen.method.further == Davidson()


def test_indicators_are_solved_by_their_singular_vectors():
    X, Y = wide_views(9000, 3000, 1)
    assert best_route(TwoView(X, Y, reg=1e-3, center=False), 5).method == WhitenedSVD()


def test_a_trial_tells_when_a_dense_solution_is_not_worth_it():
    X, Y = wide_views(150_000, 3000, 6)
    problem = TwoView(X, Y, reg=1e-6, center=False)
    assert planned(problem, 20, USUAL).chosen.name == "dense"  # solves might take 20 steps
    route = best_route(problem, 20)
    assert (route.name, route.trial) == ("data as operator", 1.0 + planner.trial_steps(problem))


def test_a_trial_keeps_a_dense_solution_where_solves_are_long(monkeypatch):
    X, Y = wide_views(150_000, 3000, 6)
    monkeypatch.setattr(planner, "trial_steps", lambda problem: planner.STEPS)
    route = best_route(TwoView(X, Y, reg=1e-6, center=False), 20)
    assert (route.name, route.trial) == ("dense", 1.0 + planner.STEPS)


def test_reads_of_a_trial_are_counted(monkeypatch):
    X, Y = wide_views(20_000, 2500, 2)
    alone = top_k_cca(X, Y, 2, reg=1.0, center=False, tol=1e-2)
    taken = replace(best_route(TwoView(X, Y, reg=1.0, center=False), 2), trial=7.0)
    monkeypatch.setattr("genelin.eigen.api.best_route", lambda problem, k, machine: taken)
    found = top_k_cca(X, Y, 2, reg=1.0, center=False, tol=1e-2)
    assert found.cost.passes == pytest.approx(alone.cost.passes + 7.0)


def test_covariances_are_formed_where_that_is_cheaper():
    few, many = wide_views(200_000, 3000, 2), wide_views(20_000, 20_000, 30)
    formed = best_route(TwoView(*few, reg=1e-3), 5)
    streamed = best_route(TwoView(*many, reg=1e-3), 5)
    assert (formed.name, streamed.name) == ("covariances formed", "data as operator")
    assert not formed.problem.S_x.reads
    assert streamed.problem.S_x.reads


def test_the_user_decides_on_forming():
    views = wide_views(200_000, 3000, 2)
    for form in (False, True):
        plan = planned(TwoView(*views, reg=1e-3, form=form), 5, USUAL)
        names = {route.name for route in plan.routes}
        assert names == {"dense", "covariances formed" if form else "data as operator"}


def test_what_does_not_fit_in_memory_comes_last():
    problem = Pencil(sparse.diags_array(np.arange(1.0, 3001.0)))
    slow = replace(USUAL, profile=replace(DEFAULT_PROFILE, entry=1.0))  # iterations take for ever
    assert planned(problem, 3, slow).chosen.name == "dense"
    assert planned(problem, 3, replace(slow, memory=1e7)).routes[-1].name == "dense"


def test_a_plan_prints_routes_and_reasons():
    text = str(plan_cca(*wide_views(20_000, 5000, 8), k=5, reg=1e-3))
    lines = text.splitlines()
    assert lines[0] == "plan for 5 canonical pairs of X (20000 × 5000) and Y (20000 × 5000)"
    assert lines[1].split() == ["route", "seconds", "passes", "memory", "why"]
    assert lines[2].startswith("→ ")
    assert len(lines) == 5


def test_a_plan_begins_an_iteration_and_tells_what_it_saw():
    X, Y = wide_views(20_000, 5000, 8)
    more = sparse.random_array((20_000, 40), density=0.2, rng=0)
    shared = sparse.csr_array(sparse.hstack([X, more]))
    easy, hard = ((shared, sparse.csr_array(shared[:, ::-1])), (X, Y))
    plans = [plan_cca(*views, k=5, reg=1e-3, form=False).chosen for views in (easy, hard)]
    assert all("3 iterations took" in route.why for route in plans)
    assert plans[0].passes < plans[1].passes
    found = top_k_cca(*hard, k=5, reg=1e-3, form=False, tol=1e-5)
    assert plans[1].passes / 3 < found.cost.passes < 3 * plans[1].passes


def test_a_plan_begins_lanczos_and_tells_what_it_saw():
    """A lattice in disorder: more steps than the rule predicts."""
    line = sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(150, 150))
    disorder = np.random.default_rng(0).uniform(-1, 1, 150**2)
    A, wanted = sparse.kronsum(line, line) + sparse.diags_array(disorder), {"which": "LA"}
    chosen = plan_top_k(A.tocsr(), k=10, tol=1e-6, **wanted).chosen
    found = top_k(A.tocsr(), k=10, tol=1e-6, **wanted)
    assert isinstance(chosen.method, Lanczos)
    assert "iterations took" in chosen.why
    assert chosen.passes / 3 < found.cost.passes < 3 * chosen.passes
    assert planned(Pencil(A.tocsr(), **wanted), 10, USUAL).chosen.passes < found.cost.passes / 1.5


def test_lanczos_that_hands_over_is_foreseen_by_what_it_saw_if_anything():
    line = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(5000, 5000)).tocsr()
    route = Route("Lanczos", 1.0, 80.0, 0.0, "", Pencil(line), Lanczos(max_steps=4))
    short = route.method.piloted(route, Facts(Pencil(line), 3, USUAL), 1e-6)
    assert int(short.prediction.split()[0]) < 40
    narrow = replace(route, problem=Pencil(line[:300, :300]), method=Lanczos())
    assert (
        narrow.method.piloted(narrow, Facts(narrow.problem, 60, USUAL), 1e-6) == narrow
    )  # no room


def test_a_look_at_the_spectrum_tells_where_davidson_is_held_up():
    A, B = mesh_pencil(100)
    assert held_up(Facts(Pencil(A, B), 10, USUAL)) > 2
    apart = sparse.diags_array(1.0 / np.arange(1.0, 10_001.0)).tocsr()
    assert held_up(Facts(Pencil(apart, B), 10, USUAL)) == 1
    assert held_up(Facts(Pencil(A, aslinearoperator(B)), 10, USUAL)) == 1  # nothing to look at
    assert held_up(Facts(Pencil(A), 10, USUAL)) == 1


def test_a_tighter_tolerance_is_foreseen_to_take_longer():
    views, A = wide_views(20_000, 5000, 8), sparse.diags_array(np.arange(1.0, 20_001.0))
    for loose, tight in (
        (plan_cca(*views, k=5, reg=1e-3, tol=tol).chosen.passes for tol in (1e-2, 1e-8)),
        (plan_top_k(A, k=3, tol=tol).chosen.passes for tol in (1e-2, 1e-8)),
    ):
        assert 1.5 * loose < tight
    with pytest.raises(ValueError, match="tol=2"):
        plan_top_k(A, k=3, tol=2)


def test_a_plan_does_not_begin_what_would_be_long(monkeypatch):
    monkeypatch.setattr(davidson, "LONGEST", 0.0)
    chosen = plan_cca(*wide_views(20_000, 5000, 8), k=5, reg=1e-3).chosen
    assert "outer iterations of" in chosen.why


@pytest.mark.parametrize("k", [0, 6, 2.5])
def test_plans_refuse_what_top_k_refuses(k):
    X = np.random.default_rng(0).random((20, 5))
    for plan in (lambda: plan_cca(X, X, k), lambda: plan_top_k(np.eye(5), k=k)):
        with pytest.raises((ValueError, TypeError), match="k="):
            plan()


def test_solutions_say_which_route_was_taken():
    X = np.random.default_rng(0).random((50, 6))
    assert top_k_cca(X[:, :3], X[:, 3:], 1).route.startswith("dense: ")
    assert "route      dense" in str(top_k(np.diag([1.0, 2.0]), k=1))
    assert top_k(np.diag([1.0, 2.0]), k=1, method=Dense()).route == ""


def test_the_machine_is_measured_once():
    assert measured() is measured()
    assert min(vars(measured()).values()) > 0
    assert default_machine().memory == total_memory() > 0


def test_a_system_that_does_not_say_what_memory_is_free(monkeypatch):
    def nothing(path, **options):
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", nothing)  # macOS and Windows have no /proc/meminfo
    monkeypatch.delattr(os, "sysconf", raising=False)  # and Windows not this
    assert available_memory() == total_memory() == float("inf")


def test_an_iteration_ends_densely_where_that_fits():
    """As many columns are granted as take as long; whoever forbids covariances has none formed."""
    X, Y = wide_views(20_000, 2500, 2)
    method = best_route(TwoView(X, Y, reg=1e-3), 5).method
    assert isinstance(method, OrDense)
    assert method.first.max_applications < np.inf
    assert best_route(TwoView(X, Y, reg=1e-3, form=False), 5).method == Davidson()


def test_the_dense_end_of_views_is_their_answer():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, 90, 60))  # hardly more rows than columns: values crowd
    problem = TwoView(X, Y, reg=1e-3)
    short, exact = OrDense(Davidson(max_applications=100)), Dense()(problem, 3)
    found = short(problem, 3)
    assert found.converged
    np.testing.assert_allclose(found.correlations, exact.correlations, rtol=1e-12)
    assert found.cost.applications >= 100
    assert len(found.trace) > 0


def test_dense_views_with_hardly_more_rows_than_columns_are_solved_densely():
    """Most of their correlations are close to one, which an iteration would take minutes for."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, 3000, 2500))
    assert best_route(TwoView(X, Y, reg=1e-3), 5).name == "dense"
