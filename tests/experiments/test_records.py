import json
import time
from dataclasses import replace

import numpy as np
import pytest

from genelin import CCALin, Davidson, Dense, TwoView, baselines, datasets, measures, solvers
from genelin.experiments import read_records, record_run, records, write_records
from genelin.results import Status

METHODS = {
    "default": None,
    "Dense": Dense(),
    "Davidson": Davidson(),
    "CCALin": CCALin(solver=solvers.AGD(), reduction=1e-2),
    "CCALin, random": CCALin(projection="random", reduction=1e-2),
    "NWCCA": baselines.NWCCA(),
    "DWCCA": baselines.DWCCA(),
    "PCACCA": baselines.PCACCA(components=5),
    "RandomizedCCA": baselines.RandomizedCCA(oversample=2),
    "AppGrad": baselines.AppGrad(max_iter=300),
    "StochasticAppGrad": baselines.StochasticAppGrad(epochs=2),
    "MomentumALS": baselines.MomentumALS(),
}
EXACT = ("default", "Dense", "Davidson", "CCALin", "CCALin, random", "MomentumALS")


@pytest.fixture(scope="module")
def digits():
    return datasets.digits_halves()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_leaves_a_record(digits, name, tmp_path):
    run = record_run(digits, METHODS[name], k=3, reg=0.1, tol=1e-4, seed=2)
    assert run.dataset == "digits halves"
    assert run.problem["d1"] == 32
    assert run.problem["reg"] == [0.1, 0.1]
    assert len(run.points) >= 1
    last = run.points[-1]
    assert 0 < last.pcc <= 1 + 1e-12
    assert last.tcc == pytest.approx(last.pcc * run.best)
    for column in ("flops", "passes", "seconds"):
        assert np.all(np.diff(run.column(column)) >= 0)
        assert last.__getattribute__(column) <= run.cost[column] + 1e-12
    for column in ("sin_theta_x", "sin_theta_y", "sin_theta_b", "residual"):
        assert np.all(np.isfinite(run.column(column)))
    if name in EXACT:
        assert run.status == Status.CONVERGED.label
        assert last.pcc == pytest.approx(1.0, abs=1e-6)
        assert max(last.sin_theta_x, last.sin_theta_y) < 1e-2
    assert read_records(write_records(tmp_path / "runs.jsonl", [run])) == [run]


def test_measures_are_those_of_the_package(digits):
    seen = []

    def method(problem, k, tol, rng, callback):
        def both(record, W):
            seen.append(W.copy())
            return callback(record, W)

        return baselines.MomentumALS(max_iter=4)(problem, k, tol, rng, both)

    run = record_run(digits, method, k=2, reg=1e-2)
    problem = TwoView(*digits, 1e-2)
    exact = Dense()(problem, 2)
    assert len(seen) == len(run.points) == 4
    for W, point in zip(seen, run.points, strict=True):
        Wx, Wy = W[:32], W[32:]
        assert point.tcc == pytest.approx(measures.tcc(problem, Wx, Wy))
        assert point.sin_theta_x == pytest.approx(
            measures.sin_theta_x(problem, Wx, exact.x_weights), abs=1e-9
        )
        assert point.sin_theta_b == max(point.sin_theta_x, point.sin_theta_y)


def test_the_angle_of_the_block_pair_falls(digits):
    run = record_run(digits, CCALin(), k=2, reg=1e-1, tol=1e-7)
    sines = run.column("sin_theta_b")
    assert sines[0] > 0.1
    assert sines[-1] < 1e-5
    assert np.all(np.diff(np.log(sines)) < 1e-6)


def test_fewer_points_keep_the_last(digits):
    every = record_run(digits, baselines.MomentumALS(), k=2, reg=1e-2)
    fewer = record_run(digits, baselines.MomentumALS(), k=2, reg=1e-2, every=4)
    assert fewer.column("iteration").tolist() == sorted(
        {*range(1, len(every.points) + 1, 4), len(every.points)}
    )
    assert fewer.points[-1].tcc == every.points[-1].tcc


def test_deficient_views_are_measured():
    X, Y = datasets.two_view_gaussian(500, (6, 5))
    X = np.c_[X, X[:, :1]]
    views = datasets.Views("deficient", X, Y, "a column twice", "none")
    for method in (CCALin(), baselines.MomentumALS()):
        run = record_run(views, method, k=2)
        assert run.points[-1].pcc == pytest.approx(1.0, abs=1e-6)


def test_measuring_takes_no_time_of_the_method(digits, monkeypatch):
    slow = records._measured

    def slower(*args):
        time.sleep(0.05)
        return slow(*args)

    monkeypatch.setattr(records, "_measured", slower)
    began = time.perf_counter()
    run = record_run(digits, baselines.MomentumALS(iterations=10), k=2, reg=1e-2)
    elapsed = time.perf_counter() - began
    assert len(run.points) == 10
    assert run.points[-1].seconds <= run.cost["seconds"] <= elapsed - 10 * 0.05


def test_settings_are_on_record(digits):
    run = record_run(digits, CCALin(solver=solvers.AGD(), iterations=3), k=2, reg=1e-2)
    assert run.method == "CCALin"
    assert run.settings["iterations"] == 3
    assert run.settings["solver"]["name"] == "AGD"
    mine = CCALin(solver=lambda B, b, u0, delta: np.linalg.solve(B @ np.eye(len(b)), b))
    assert "lambda" in record_run(digits, mine, k=1, reg=1e-1).settings["solver"]


def test_broken_files_are_named_and_good_ones_survive(digits, tmp_path):
    run = record_run(digits, baselines.NWCCA(), k=2, reg=1e-2)
    file = write_records(tmp_path / "runs.jsonl", [run, run])
    lines = file.read_text().splitlines()
    assert all(json.loads(line)["seed"] == 0 for line in lines)
    unbounded = replace(run, residual=np.inf, points=(replace(run.points[0], residual=np.inf),))
    assert read_records(write_records(tmp_path / "runs.jsonl", [unbounded])) == [unbounded]
    assert "Infinity" not in file.read_text()
    write_records(file, [run, run])
    with pytest.raises(TypeError):
        write_records(file, [run, object()])
    assert read_records(file) == [run, run]
    assert [path.name for path in tmp_path.iterdir()] == ["runs.jsonl"]
    file.write_text(lines[0] + "\n" + lines[1][:-20])
    with pytest.raises(ValueError, match=r"runs.jsonl, line 2"):
        read_records(file)
