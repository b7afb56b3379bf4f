import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from genelin import CCALin, TwoView, datasets, solvers, top_k_cca
from genelin.experiments import (
    flops_to,
    line_of,
    read_records,
    record_pencil,
    record_run,
    reproduce,
)
from genelin.experiments.cases import mnist_case
from genelin.experiments.convergence import convergence_runs
from genelin.experiments.growth import growths
from genelin.experiments.records import Point, RunRecord, exact_answer, value_at
from genelin.experiments.sweeps import TABLES, exact_views
from genelin.experiments.warm_start import ColdStart, growth_exponent, warm_start_runs


def straight(run):
    line = line_of(run)
    assert line.r2 >= 0.98
    assert line.decades >= 5
    assert line.monotone
    assert run.points[-1].pcc >= 0.9999
    return line


def test_five_starts_fall_on_straight_lines():
    digits = datasets.digits_halves()
    exact = exact_answer(TwoView(*digits, 0.1), 6)
    rho = 1 - exact.correlations[5] / exact.correlations[4]
    exact = exact_answer(TwoView(*digits, 0.1), 5)
    for seed in range(5):
        run = record_run(
            digits,
            CCALin(solver=solvers.AGD(), reduction=1e-3),
            k=5,
            reg=0.1,
            tol=1e-10,
            seed=seed,
            exact=exact,
            until=lambda point: point.sin_theta_b <= 1e-7,
        )
        assert straight(run).rate == pytest.approx(rho, rel=0.15)


def test_mnist_falls_on_a_straight_line(data):
    case = replace(mnist_case(), reg=0.1)
    assert case.stands_for == ""
    run, default = convergence_runs(case, starts=1)
    straight(run)
    assert default.points[-1].sin_theta_b < 1e-9
    assert default.points[-1].flops < run.points[-1].flops


def test_runs_end_when_told_to_and_points_can_be_fewer():
    digits = datasets.digits_halves()
    method = CCALin(solver=solvers.AGD(), reduction=1e-2)
    whole = record_run(digits, method, k=2, reg=0.1, tol=1e-6)
    short = record_run(
        digits, method, k=2, reg=0.1, tol=1e-6, until=lambda point: point.sin_theta_b < 1e-2
    )
    assert short.points[-1].sin_theta_b < 1e-2 <= short.points[-2].sin_theta_b
    assert short.status == "stopped by the callback"
    assert short.cost["flops"] == short.points[-1].flops < whole.cost["flops"]
    assert short.cost["applications"] > 0
    inner = whole.column("inner")
    assert np.all(np.diff(inner) > 0)
    fewer = record_run(digits, method, k=2, reg=0.1, tol=1e-6, growth=1.5, facts={"kappa": 3.0})
    assert fewer.problem["kappa"] == 3.0
    assert len(fewer.points) < len(whole.points)
    flops = fewer.column("flops")
    assert np.all(flops[1:-1] >= 1.5 * flops[:-2])
    assert fewer.points[-1].inner == whole.points[-1].inner


def test_pencils_are_on_record_too():
    known = datasets.pencil(40, k=3, kappa=50.0, rho=0.3)
    default = record_pencil(known, k=3)
    assert len(default.points) == 1
    assert default.points[0].sin_theta_b < 1e-9
    assert default.points[0].pcc == pytest.approx(1.0)
    assert default.cost["flops"] == 4 * 40**3  # B is factored, A reduced, then three diagonals


def test_exact_routes_count_their_work():
    X, Y = datasets.digits_halves()
    dense = top_k_cca(X, Y, k=2, reg=1e-2)
    assert dense.cost.flops > 2 * len(X) * 32 * 32 * 3
    words = datasets.sparse_topics(5000, 300, nonzeros=1)
    diagonal = top_k_cca(*words, k=3, reg=1e-3, center=False)
    assert diagonal.route.startswith("diagonal")
    assert diagonal.cost.applications >= 20
    entries = (words.X.T @ words.Y).nnz
    assert diagonal.cost.flops > 2 * entries * diagonal.cost.applications


def made(pcc=(), flops=(), sines=(), **problem):
    empty = [0.0] * max(len(pcc), len(sines))
    rows = zip(flops, pcc or empty, sines or empty, strict=True)
    points = tuple(Point(t, t, f, f, f, 0.0, p, p, s, s, s) for t, (f, p, s) in enumerate(rows, 1))
    return RunRecord("made", problem, "m", {}, 0, points, "converged", 0.0, 0.0, {}, 1.0)


def test_costs_are_read_between_points():
    run = made(pcc=(0.5, 0.9, 1.0), flops=(1e2, 1e4, 1e6))
    assert flops_to(run, 0.7) == pytest.approx(1e3)
    assert flops_to(run, 0.4) == 1e2
    assert flops_to(made(pcc=(0.5,), flops=(1.0,)), 0.9) == np.inf
    falling = made(sines=(1e-1, 1e-3), flops=(10.0, 20.0))
    assert value_at(falling, "sin_theta_b", 1e-2, "flops") == pytest.approx(15.0)
    assert value_at(falling, "sin_theta_b", 1e-4, "flops") == np.inf
    assert value_at(falling, "sin_theta_b", 0.5, "flops") == 10.0


def test_lines_are_fitted_from_half_on():
    t = np.arange(1, 41)
    run = made(sines=np.minimum(0.9, 4 * 0.6**t).tolist(), flops=t.tolist())
    line = line_of(run)
    assert line.rate == pytest.approx(0.4)
    assert line.r2 == pytest.approx(1.0)
    bumpy = made(sines=(0.4, 0.1, 0.2, 0.01), flops=(1, 2, 3, 4))
    assert not line_of(bumpy).monotone
    with pytest.raises(ValueError, match="too few for a line"):
        line_of(made(sines=(0.9, 0.8), flops=(1, 2)))


def test_exponents_of_power_laws_are_found():
    table = TABLES[1]
    runs = []
    for label in table.methods:
        cases = [("base", table.base)]
        cases += [(by, table.base | {by: v}) for by, vs in table.varied.items() for v in vs]
        for by, facts in cases:
            cost = facts["d"] ** 2.5 * facts["k"] / facts["rho"]
            ends = {"label": label, "by": by, "goal": 1e-6, "last": 1e-10}
            sines = tuple(10.0**-j for j in range(1, 11))
            # cost · log(1/ε), up to the goal
            flops = tuple(cost * j / 6 for j in range(1, 11))
            runs.append(made(sines=sines, flops=flops, **(facts | ends)))
    found = {(one.label, one.by): one for one in growths(table, runs)}
    assert found["GenELinK + AGD", "d"].measured == pytest.approx(2.5)
    assert found["GenELinK + AGD", "d"].predicted == pytest.approx(2.0)
    assert found["GenELinK + AGD", "kappa"].measured == pytest.approx(0.0, abs=1e-9)
    assert found["GenELinK + AGD", "kappa"].predicted == pytest.approx(0.5)
    assert found["GenELinK + AGD", "rho"].measured == pytest.approx(-1.0)
    assert found["GenELinK + AGD", "epsilon"].measured == pytest.approx(1.0, abs=0.01)
    stuck = [replace(run, points=run.points[:2]) for run in runs]
    with pytest.raises(ValueError, match="has no cost to 1e-06"):
        growths(table, stuck)


def test_warm_starts_take_log_and_cold_ones_log_squared():
    epsilons = tuple(10.0**-j for j in range(2, 11))
    views = exact_views(300, 20, k=2, kappa=25.0, rho=0.3)
    warm, *cold, default = warm_start_runs(views, 2, 0.0, epsilons)
    assert all(run.points[-1].sin_theta_b <= run.problem["epsilon"] for run in (warm, *cold))
    assert default.points[-1].sin_theta_b <= 1e-10
    steps = [value_at(warm, "sin_theta_b", epsilon, "inner") for epsilon in epsilons]
    assert growth_exponent(epsilons, steps) < 1.2
    assert growth_exponent(epsilons, [run.points[-1].inner for run in cold]) > 1.6
    assert cold[-1].points[-1].inner > 2 * warm.points[-1].inner
    assert isinstance(cold[0].settings["solver"], dict)
    assert ColdStart().solver == solvers.AGD()


@pytest.fixture
def nothing(tmp_path):
    folder = tmp_path / "nothing"
    folder.mkdir()
    return folder


def test_bad_requests_are_refused_before_anything_runs(tmp_path, nothing):
    with pytest.raises(ValueError, match=r"what='figure 4' must be 'mnist'.* or 'all'"):
        reproduce("figure 4")
    with pytest.raises(ValueError, match=r"data='.*nowhere' is not a folder"):
        reproduce("mnist", tmp_path, data=tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"out='.*file' is a file"):
        reproduce("mnist", tmp_path / "file", data=nothing)


def test_figures_need_matplotlib(tmp_path, monkeypatch, nothing):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"genelin\[plot\]"):
        reproduce("mnist", tmp_path / "out", data=nothing)
    assert not (tmp_path / "out").exists()


def test_embedded_data_stand_in_and_are_labelled(tmp_path, nothing, capsys):
    out = tmp_path / "out"
    for what in ("ptb", "url"):
        written = reproduce(what, out, data=nothing, quick=True)
        assert all(path.exists() for path in written)
        assert {path.suffix for path in written} == {".jsonl", ".png", ".svg", ".md"}
    assert capsys.readouterr().out == ""
    assert sorted(path.name for path in out.glob("*.png")) == [
        "figure1-ptb.png",
        "figure2-ptb.png",
        "figure3-sparse-topics.png",
    ]
    for path in out.glob("*.jsonl"):
        runs = read_records(path)
        assert all(run.problem["stands_for"] for run in runs)
        assert "default" in {run.problem["label"] for run in runs}
    drawn = (out / "figure3-sparse-topics.svg").read_text()
    assert "<svg" in drawn
    table = (out / "figure3-sparse-topics.md").read_text().splitlines()
    assert table[2].startswith("| default |")
    assert table[2].endswith("| 1.0 |")
    assert any("one-shot" in line for line in table)


def test_command_line_lists_what_it_wrote(tmp_path, nothing):
    command = [sys.executable, "-m", "genelin.experiments", "mnist", "--quick"]
    done = subprocess.run(
        [*command, "--data", str(nothing), "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    listed = done.stdout.split()
    assert len(listed) == 6
    first = json.loads((tmp_path / "mnist.jsonl").read_text().splitlines()[0])
    assert first["dataset"] == "digits halves"
    assert first["problem"]["stands_for"] == "MNIST"
