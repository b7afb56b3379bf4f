"""Plans for machines and data that are not here."""

import pickle
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from genelin import ClusterSpec, DataSpec, Davidson, TwoView, plan_cca, top_k_cca
from genelin.eigen.costs.machine import DEFAULT_PROFILE
from genelin.eigen.costs.plan import in_bytes
from genelin.eigen.methods.davidson import OUTER_ITERATIONS
from genelin.eigen.planning.cluster import described
from genelin.eigen.planning.cluster_costs import planned_on
from genelin.eigen.planning.planner import best_route
from in_parts import InParts

FEW = ClusterSpec(workers=8, cores=16, memory=64e9, bandwidth=1.25e9)
WIDE = DataSpec(10**8, 10**6, nonzeros=30)


def plan(X, Y, cluster=FEW, k=20, steps=20, **settings):
    return planned_on(cluster, TwoView(*described(X, Y), **settings), k, DEFAULT_PROFILE, steps)


def route(plan, name):
    return next(route for route in plan.routes if route.name == name)


def sparse_views(n, d, nonzeros, seed=0):
    """Two sparse views with a few features in common."""
    rng = np.random.default_rng(seed)
    columns = np.minimum(d * rng.random((2, n, nonzeros)) ** 3, d - 1).astype(np.int32)
    columns[:, :, 0] = 5 * rng.integers(0, 40, n)
    indptr = np.arange(0, n * nonzeros + 1, nonzeros, dtype=np.int32)
    ones = np.ones(n * nonzeros, dtype=np.float32)
    return [
        sparse.csr_array((ones.copy(), part.ravel(), indptr.copy()), shape=(n, d))
        for part in columns
    ]


# --- What the figures do -------------------------------------------------------------------------


def test_more_workers_share_work_and_memory_and_send_more():
    fast = replace(FEW, bandwidth=1e11)
    plans = [plan(WIDE, WIDE, replace(fast, workers=w)) for w in (8, 16, 32, 64)]
    chosen = [p.chosen for p in plans]
    assert {r.name for r in chosen} == {"data as operator"}
    for less, more in pairwise(chosen):
        assert more.memory < less.memory
        assert more.traffic == pytest.approx(2 * less.traffic)
        assert more.client_memory == less.client_memory
    assert chosen[1].seconds < 0.7 * chosen[0].seconds
    assert len({r.passes for r in chosen}) == 1


def test_a_wire_without_delay_leaves_the_work():
    fast = replace(FEW, bandwidth=1e30, latency=0.0)
    slow = replace(FEW, bandwidth=1e8, latency=0.0)
    work, both = (plan(WIDE, WIDE, cluster).chosen for cluster in (fast, slow))
    sent = both.traffic / 2 / FEW.workers
    hops = FEW.broadcast + FEW.reduction
    assert both.seconds - work.seconds == pytest.approx(sent * hops / 1e8, rel=1e-6)


def test_every_round_costs_its_latency():
    late = plan(WIDE, WIDE, replace(FEW, latency=1.0)).chosen
    early = plan(WIDE, WIDE, replace(FEW, latency=0.0)).chosen
    assert late.seconds - early.seconds == pytest.approx(OUTER_ITERATIONS * 23)


def test_speeds_are_those_of_a_core():
    four = replace(DEFAULT_PROFILE, threads=4, blas_threads=4)
    data = DataSpec(10**8, 1000)
    views = TwoView(*described(data, data))
    cluster = replace(FEW, bandwidth=1e30, latency=0.0)
    two_cores, four_cores = (
        planned_on(cluster, views, 5, p, 20).chosen for p in (DEFAULT_PROFILE, four)
    )
    assert four_cores.seconds > 1.5 * two_cores.seconds


@pytest.mark.parametrize(
    ("workers", "out", "back"), [(1, 1, 1), (2, 2, 2), (8, 4, 8), (9, 5, 15), (64, 7, 15)]
)
def test_blocks_travel_as_trees(workers, out, back):
    cluster = replace(FEW, workers=workers)
    assert (cluster.broadcast, cluster.reduction) == (out, back)
    assert cluster.traffic(3.0, 5.0) == 8.0 * workers
    assert cluster.seconds(1.25e9, 0.0) == pytest.approx(out)


def test_few_features_are_summed_in_one_pass():
    tall = DataSpec(10**9, 400)
    found = plan(tall, tall, replace(FEW, workers=64))
    assert [r.name for r in found.routes] == ["dense"]
    assert found.chosen.passes == 1.0
    assert found.chosen.traffic == 64 * 800**2 * 8
    assert found.chosen.memory == pytest.approx(2 * 10**9 * 400 * 4 / 64 + 9 * 800**2 * 8)


def test_what_does_not_fit_comes_last_and_says_so():
    data = DataSpec(10**7, 5000)
    roomy, tight = (plan(data, data, replace(FEW, memory=m)) for m in (1e12, 52e9))
    assert roomy.chosen.name == "dense"
    assert tight.chosen.name == "data as operator"
    assert "too little memory: workers" in str(tight)
    assert "too little" not in str(roomy)


def test_formed_or_not_is_the_users_choice():
    for form, name in ((True, "covariances formed"), (False, "data as operator")):
        names = {r.name for r in plan(WIDE, WIDE, form=form).routes}
        assert names == {"dense", name}


def test_a_cluster_plan_prints_its_table():
    lines = str(plan(WIDE, WIDE)).splitlines()
    assert lines[0].endswith("on 8 workers of 16 cores")
    assert lines[1].split("  ")[-1] == "why"
    for name in ("route", "seconds", "passes", "worker memory", "client memory", "traffic"):
        assert name in lines[1]
    assert lines[2].startswith("→ data as operator")
    assert len(lines) == 5


# --- Data that are described ---------------------------------------------------------------------


def test_descriptions_count_bytes():
    assert DataSpec(10, 6).bytes == 240
    assert DataSpec(10, 6, dtype="float64").bytes == 480
    assert DataSpec(10, 6, nonzeros=2.5).bytes == 25 * 8 + 40
    X = sparse_views(500, 250, 4)[0]
    X.sum_duplicates()
    spec = DataSpec.of(TwoView(X, X, reg=0.1).X)
    assert (spec.n, spec.d, spec.stored) == (500, 250, X.nnz)
    assert spec.bytes == X.data.nbytes + X.indices.nbytes + 4 * 500


def test_described_data_are_planned_like_those_that_they_describe():
    for shape in ((20_000, 3000, 3), (4000, 9000, 40)):
        rng = np.random.default_rng(0)
        n, d, q = shape
        indptr = np.arange(0, n * q + 1, q)
        X, Y = (
            sparse.csr_array((np.ones(n * q), rng.integers(0, d, n * q), indptr), (n, d))
            for _ in range(2)
        )
        real = TwoView(X, Y, reg=0.1)
        spec = DataSpec(n, d, nonzeros=q, dtype=np.float64)
        imagined = TwoView(*described(spec, spec), reg=0.1)
        expected, found = best_route(real, 5), best_route(imagined, 5)
        assert found.name == expected.name
        assert found.seconds == pytest.approx(expected.seconds, rel=0.1)
        assert found.memory == pytest.approx(expected.memory, rel=0.1)


def test_indicators_that_are_described_are_known_as_such():
    spec = DataSpec(10**6, 5000, nonzeros=1)
    assert best_route(TwoView(*described(spec, spec), center=False), 5).name == "diagonal"


def test_described_data_cannot_be_solved():
    spec = DataSpec(100, 10)
    with pytest.raises(TypeError, match="X must be a two-dimensional array"):
        top_k_cca(spec, spec)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DataSpec(0, 5), "n=0"),
        (lambda: DataSpec(5, 2.5), "d=2.5"),
        (lambda: DataSpec(5, 5, nonzeros=0), "nonzeros=0"),
        (lambda: DataSpec(5, 5, nonzeros=6), "nonzeros=6 of a row with d=5"),
        (lambda: DataSpec(5, 5, dtype=int), "dtype="),
        (lambda: DataSpec(5, 5, dtype="text"), "dtype='text'"),
        (lambda: replace(FEW, workers=0), "workers=0"),
        (lambda: replace(FEW, cores=True), "cores=True"),
        (lambda: replace(FEW, memory=-1.0), "memory=-1.0"),
        (lambda: replace(FEW, bandwidth=0), "bandwidth=0"),
        (lambda: replace(FEW, latency=np.nan), "latency=nan"),
        (lambda: plan_cca(WIDE, np.eye(3), 1), "Y is a ndarray, but the other view a DataSpec"),
        (lambda: plan_cca(WIDE, WIDE, 1, cluster=64), "cluster=64 must be a ClusterSpec"),
        (lambda: plan_cca(WIDE, WIDE, 0), "k=0"),
        (lambda: plan_cca(WIDE, DataSpec(5, 5), 1), "X has 100000000 rows but Y has 5"),
    ],
)
def test_bad_descriptions_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


# --- Against runs --------------------------------------------------------------------------------


class Workers(InParts):
    """A source that hands its rows out to so many workers, and counts the bytes that travel."""

    traffic = 0

    def summed(self, task, other=None, weights=None, columns=1):
        result = super().summed(task, other, weights, columns)
        both = len(pickle.dumps(task)) + len(pickle.dumps(result))
        Workers.traffic += both * -(-self.shape[0] // self._step)
        return result


@pytest.mark.parametrize("workers", [1, 2])
def test_predicted_traffic_is_that_of_a_run(workers, monkeypatch):
    monkeypatch.setattr(Workers, "traffic", 0)
    X, Y = sparse_views(40_000, 3000, 10)
    views = [Workers(part, step=40_000 // workers) for part in (X, Y)]
    settings = {"reg": 1e-2, "form": False}
    solution = top_k_cca(*views, 8, method=Davidson(), **settings)
    steps = solution.trace.column("inner_iterations")
    cluster = ClusterSpec(workers, 1, 1e9, 1e9)
    problem = TwoView(X, Y, **settings)
    predicted = route(
        planned_on(cluster, problem, 8, DEFAULT_PROFILE, steps.mean()), "data as operator"
    )
    assert Workers.traffic == pytest.approx(
        predicted.traffic * len(steps) / OUTER_ITERATIONS, rel=0.5
    )


def test_real_data_can_be_planned_for_a_cluster():
    X, Y = sparse_views(8000, 3000, 10)
    found = plan_cca(X, Y, 4, reg=1e-2, cluster=FEW)
    assert found.cluster is FEW
    assert found.chosen.traffic > 0


def test_the_table_of_the_documentation_is_what_is_planned():
    page = Path(__file__).parents[3] / "docs" / "cluster-plans.md"
    rows = [line for line in page.read_text().splitlines() if re.match(r"\| \d+ \|", line)]
    assert len(rows) == 5
    views = TwoView(*described(*[DataSpec(10**9, 10**6, nonzeros=100)] * 2))
    for row in rows:
        workers, k, hours, on_wire, *sizes = (cell.strip() for cell in row.strip("|").split("|"))
        cluster = replace(FEW, workers=int(workers))
        chosen = planned_on(cluster, views, int(k), DEFAULT_PROFILE, 20).chosen
        endless = replace(cluster, bandwidth=1e30, latency=0.0)
        work = planned_on(endless, views, int(k), DEFAULT_PROFILE, 20).chosen.seconds
        assert f"{chosen.seconds / 3600:.1f}" == hours
        assert f"{(chosen.seconds - work) / 3600:.1f}" == on_wire
        figures = (chosen.memory, chosen.client_memory, chosen.traffic)
        assert [in_bytes(figure) for figure in figures] == sizes
