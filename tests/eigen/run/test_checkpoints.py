"""Runs that are interrupted, killed, or cut off from their disk go on to the same answer."""

import os
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from scipy import sparse

from genelin import (
    CCA,
    CCALin,
    CheckpointWarning,
    ConvergenceWarning,
    Davidson,
    Dense,
    GenELin,
    GenELinK,
    GeneralizedEigen,
    Status,
    TwoView,
    solvers,
    top_k,
    top_k_cca,
)
from genelin.baselines import AppGrad, MomentumALS, StochasticAppGrad
from genelin.datasets import sparse_topics, two_view_gaussian
from genelin.eigen.costs import machine
from genelin.eigen.methods import davidson_run, initial_guess
from genelin.eigen.planning.planner import best_route
from genelin.eigen.run import checkpoint_files
from genelin.eigen.subspace import correction_equation
from genelin.io import Checkpoint, load_archive, save_archive
from genelin.linalg import sin_theta
from in_parts import InParts

X, Y = two_view_gaussian(1000, d=40, correlations=[0.9, 0.8, 0.7, 0.6, 0.5], kappa=10.0)
A, B = np.diag(np.linspace(-2.0, 1.0, 200)), np.diag(np.linspace(1.0, 9.0, 200))


def views(**settings):
    return top_k_cca(X, Y, **{"k": 3, "tol": 1e-6} | settings)


def pencil(**settings):
    return top_k(A, B, **{"k": 3, "tol": 1e-6} | settings)


def interrupted(solve, folder, at=3, error=KeyboardInterrupt, **settings):
    """Run into an exception in the callback of outer iteration `at`."""

    def callback(record, W):
        if record.iteration == at:
            raise error

    with pytest.raises(error):
        solve(checkpoint=folder, callback=callback, **settings)


def assert_same(found, expected):
    both = (found, expected)
    values = [s.values if hasattr(s, "values") else s.correlations for s in both]
    assert np.abs(values[0] - values[1]).max() <= 1e-8 * np.abs(values[1]).max()
    blocks = [s.vectors if hasattr(s, "vectors") else s.x_weights for s in both]
    assert sin_theta(*blocks, np.eye(len(blocks[0]))) <= 1e-8


METHODS = [
    (views, Davidson()),
    (views, Davidson(solver=solvers.AGD(), blocks=3, keep=2)),
    (views, CCALin()),
    (views, CCALin(locally_optimal=True)),
    (views, CCALin(batch=250)),
    (views, CCALin(projection="random", reduction=1e-6)),
    (views, MomentumALS()),
    (views, AppGrad()),
    (pencil, Davidson()),
    (pencil, GenELinK(locally_optimal=True)),
]


@pytest.mark.parametrize(
    ("solve", "method"), METHODS, ids=lambda part: getattr(part, "__name__", type(part).__name__)
)
def test_interrupted_runs_go_on_where_they_were(solve, method, tmp_path):
    expected = solve(method=method)
    interrupted(solve, tmp_path, at=6, method=method)
    seen = []
    resumed = solve(
        method=method,
        checkpoint=tmp_path,
        resume=True,
        callback=lambda record, W: seen.append(record.iteration),
        rng=None,
    )
    assert resumed.status is expected.status
    assert_same(resumed, expected)
    steps = resumed.trace.column("iteration")
    assert steps.tolist() == list(range(1, len(steps) + 1))
    assert seen == list(range(6, len(steps) + 1))
    assert abs(len(resumed.trace) - len(expected.trace)) <= 1
    for name in ("seconds", "passes", "flops", "applications"):
        assert np.all(np.diff(resumed.trace.column(name)) >= 0)
        assert getattr(resumed.cost, name) >= resumed.trace.column(name)[-1]


@pytest.mark.parametrize("which", ["LA", "SA"])
def test_other_ends_of_the_spectrum_resume(which, tmp_path):
    small = np.diag(np.r_[np.linspace(-1.0, 1.0, 30), 3.0, -4.0])

    def solve(**settings):
        return top_k(small, k=1, which=which, method=GenELinK(), **settings)

    interrupted(solve, tmp_path)
    assert_same(solve(checkpoint=tmp_path, resume=True), solve())


def test_the_top_pair_resumes(tmp_path):
    interrupted(pencil, tmp_path, k=1, method=GenELin(), tol=1e-6)
    resumed = pencil(k=1, method=GenELin(), tol=1e-6, checkpoint=tmp_path, resume=True)
    assert resumed.values == pytest.approx([-2.0], rel=1e-8)


@pytest.mark.parametrize("kind", ["PCG64", "MT19937", "SFC64", "Philox"])
def test_a_random_method_goes_on_with_the_same_random_numbers(kind, tmp_path):
    method, bits = StochasticAppGrad(epochs=1), getattr(np.random, kind)
    with pytest.warns(ConvergenceWarning):
        expected = views(method=method, rng=np.random.Generator(bits(3)))
    interrupted(views, tmp_path, at=8, method=method, rng=np.random.Generator(bits(3)))
    other = np.random.Generator(bits(4))
    with pytest.warns(ConvergenceWarning):
        resumed = views(method=method, checkpoint=tmp_path, resume=True, rng=other)
    assert np.array_equal(resumed.correlations, expected.correlations)


def test_large_spaces_are_kept_by_their_best_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr(davidson_run, "MOST_KEPT", 0)
    for solve, name in ((views, "views"), (pencil, "pencil")):
        settings = {"method": Davidson(), "tol": 1e-10}
        interrupted(solve, tmp_path / name, at=6, **settings)
        _, arrays = load_archive(Checkpoint(tmp_path / name).path, "genelin.checkpoint", 1)
        assert arrays["state.W"].shape[1] == Davidson.width(3)
        assert_same(solve(checkpoint=tmp_path / name, resume=True, **settings), solve(**settings))


@pytest.mark.parametrize("late", [False, True])
def test_spaces_in_single_precision_resume(late, tmp_path, monkeypatch):
    """Interrupted before and after double precision takes over."""
    monkeypatch.setattr(correction_equation, "LONG", 0.0)  # work that is long enough for it
    data = sparse_topics(20_000, 600, rng=0)

    def solve(**settings):
        method = Davidson(reduction=0.5)
        return top_k_cca(*data, 8, reg=1e-3, center=False, tol=1e-9, method=method, **settings)

    expected = solve()
    interrupted(solve, tmp_path, at=len(expected.trace) - 1 if late else 2)
    _, arrays = load_archive(Checkpoint(tmp_path).path, "genelin.checkpoint", 1)
    assert arrays["state.x"].dtype == (np.float64 if late else np.float32)
    assert_same(solve(checkpoint=tmp_path, resume=True), expected)


def test_sparse_views_of_deficient_rank_resume(tmp_path, monkeypatch):
    monkeypatch.setattr(initial_guess, "FREQUENT", 5)  # else the start is the answer
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 140, (2, 900, 4))
    columns[1, :, :2] = columns[0, :, :2]
    rows = np.repeat(np.arange(900), 4)
    data = [
        sparse.csr_array((np.ones(3600), (rows, part.ravel())), shape=(900, 150))
        for part in columns
    ]

    def solve(**settings):
        return top_k_cca(*data, 2, reg=(0.0, 1e-2), form=False, tol=1e-8, **settings)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interrupted(solve, tmp_path, at=4, method=Davidson())
        resumed = solve(method=Davidson(), checkpoint=tmp_path, resume=True)
        expected = solve(method=Davidson())
    assert np.allclose(resumed.correlations, expected.correlations, atol=1e-8)


def test_rows_that_are_elsewhere_resume(tmp_path):
    views = [InParts(X), InParts(Y)]

    def solve(X=views[0], **settings):
        return top_k_cca(X, views[1], 3, method=CCALin(), **settings)

    expected = solve()
    before = views[0].reads + views[1].reads
    interrupted(solve, tmp_path, at=6)
    assert views[0].reads + views[1].reads <= 2 * before  # the fingerprint takes no read more
    assert_same(solve(checkpoint=tmp_path, resume=True), expected)
    other = X.copy()
    other[499, 7] += 1.0  # in none of the rows that are looked at
    with pytest.raises(ValueError, match=r"does not match: column means of X was \("):
        solve(InParts(other), checkpoint=tmp_path, resume=True)


# --- Runs that have ended ------------------------------------------------------------------------


def never(record, W):
    raise AssertionError("an answer that is there was looked for again")


@pytest.mark.parametrize("method", [None, Dense(), Davidson()])
def test_a_finished_run_gives_its_answer_at_once(method, tmp_path):
    for solve, name in ((views, "views"), (pencil, "pencil")):
        settings = {"method": method, "checkpoint": tmp_path / name}
        first = solve(**settings)
        again = solve(**settings, resume=True, callback=never)
        assert again.cost == first.cost
        assert again.route == first.route
        assert len(again.trace) == len(first.trace)
        assert repr(again) == repr(first)
        assert_same(again, first)


def test_an_answer_that_is_none_is_refused(tmp_path):
    pencil(checkpoint=tmp_path)
    path = Checkpoint(tmp_path).path
    header, arrays = load_archive(path, "genelin.checkpoint", 1)
    arrays["values"][0] *= 1.01
    save_archive(path, "genelin.checkpoint", 1, header, arrays)
    with pytest.raises(ValueError, match="does not solve this problem"):
        pencil(checkpoint=tmp_path, resume=True)


def test_a_run_that_was_stopped_or_cut_short_goes_on(tmp_path):
    expected = views(method=Davidson())
    for name, settings in {
        "stopped": {"method": Davidson(), "callback": lambda record, W: record.iteration == 4},
        "short": {"method": Davidson(max_iter=4)},
    }.items():
        with pytest.warns(ConvergenceWarning):
            first = views(checkpoint=tmp_path / name, **settings)
        assert first.status in (Status.STOPPED, Status.MAX_ITERATIONS)
        resumed = views(method=Davidson(), checkpoint=tmp_path / name, resume=True)
        assert resumed.converged
        assert_same(resumed, expected)
        assert abs(len(resumed.trace) - len(expected.trace)) <= 1


def test_methods_without_checkpoints_keep_their_answer(tmp_path):
    calls = []

    def method(problem, k, tol, rng, callback):
        calls.append(k)
        return Dense()(problem, k, tol)

    first = pencil(method=method, checkpoint=tmp_path)
    assert_same(pencil(method=method, checkpoint=tmp_path, resume=True), first)
    assert calls == [3]


# --- What does not match -------------------------------------------------------------------------


def changed(matrix):
    other = matrix.copy()
    other[-1, -1] *= 1 + 1e-6
    return other


@pytest.mark.parametrize(
    ("name", "change"),
    {
        "X": {"X": changed(X)},
        "Y": {"Y": changed(Y)},
        "Y was 1000 × 40 float64, .* now 1000 × 40 float32": {"Y": Y.astype(np.float32)},
        "reg": {"reg": 1e-3},
        "reg was .* shrinkage was None": {"reg": 0.0, "shrinkage": 0.1},
        "center": {"center": False},
        "scale": {"scale": True},
        "form": {"form": False},
        "k was 3, now 2": {"k": 2},
        "tol": {"tol": 1e-7},
        r"method was Davidson\(.*\), now CCALin": {"method": CCALin()},
        "method was .* blocks=6.* blocks=9": {"method": Davidson(blocks=9)},
    }.items(),
)
def test_other_data_and_settings_are_refused(name, change, tmp_path):
    def solve(**settings):
        known = {"X": X, "Y": Y, "k": 3, "reg": 1e-2, "tol": 1e-9, "method": Davidson()}
        return top_k_cca(**known | settings)

    interrupted(solve, tmp_path)
    with pytest.raises(ValueError, match=rf"does not match: {name}"):
        solve(checkpoint=tmp_path, resume=True, **change)
    assert solve(checkpoint=tmp_path, resume=True).converged


def user_solver(B, b, u0, delta):
    return b / B.diagonal()[:, None]


@pytest.mark.parametrize(
    ("name", "change"),
    {
        r"A was \(.*\), now \(": {"A": changed(A)},
        "B": {"B": changed(B)},
        "size was 200, now 199": {"A": A[1:, 1:], "B": B[1:, 1:]},
        "which": {"which": "LA"},
    }.items(),
)
def test_other_pencils_are_refused(name, change, tmp_path):
    def solve(**settings):
        return top_k(**{"A": A, "B": B, "k": 2, "method": GenELinK(user_solver)} | settings)

    interrupted(solve, tmp_path)
    with pytest.raises(ValueError, match=rf"does not match: {name}"):
        solve(checkpoint=tmp_path, resume=True, **change)
    assert solve(checkpoint=tmp_path, resume=True).converged


def test_nothing_to_resume_is_said(tmp_path):
    with pytest.warns(CheckpointWarning, match="no checkpoint in .*: starting anew"):
        assert views(checkpoint=tmp_path / "new", resume=True).converged
    assert views(checkpoint=tmp_path / "new", resume=True, callback=never).converged


def test_an_unfinished_run_is_not_replaced_in_silence(tmp_path):
    interrupted(views, tmp_path, at=4, method=Davidson())
    with pytest.warns(CheckpointWarning, match="unfinished run of 3 outer iterations"):
        views(method=Davidson(), checkpoint=tmp_path)
    views(method=Davidson(), checkpoint=tmp_path)  # an answer can be had again


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resume": True}, "resume=True needs checkpoint="),
        ({"resume": "yes", "checkpoint": "x"}, "resume='yes' must be"),
        ({"checkpoint": 3}, "checkpoint=3 must be a folder"),
        ({"checkpoint": ""}, "checkpoint='' must be a folder"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    for solve in (views, pencil):
        with pytest.raises((TypeError, ValueError), match=message):
            solve(**settings)


@pytest.mark.parametrize("every", [-1.0, np.inf, np.nan, "1", True])
def test_bad_intervals_are_refused(every):
    with pytest.raises(ValueError, match="every="):
        Checkpoint("folder", every=every)


def test_a_folder_that_is_none_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match=r"checkpoint=.*file.* cannot be used as a folder"):
        views(checkpoint=tmp_path / "file", callback=never, method=Davidson())
    assert (tmp_path / "file").read_text() == "mine"


# --- When it is written --------------------------------------------------------------------------


def writes(monkeypatch, seconds=0.0):
    """A list that grows with the iterations of every state that is written."""
    seen = []

    def save(path, kind, version, header, arrays):
        time.sleep(seconds)
        seen.append(len(arrays["trace"]))
        save_archive(path, kind, version, header, arrays)

    monkeypatch.setattr(checkpoint_files, "save_archive", save)
    return seen


def test_states_are_written_no_more_often_than_asked(tmp_path, monkeypatch):
    seen = writes(monkeypatch)
    n = len(views(method=Davidson(), checkpoint=Checkpoint(tmp_path, every=0.0)).trace)
    assert seen == [*range(1, n), n]
    seen.clear()
    views(method=Davidson(), checkpoint=Checkpoint(tmp_path, every=1e6))
    assert seen == [n]


def test_slow_writes_are_rarer(tmp_path, monkeypatch):
    seen = writes(monkeypatch, seconds=0.2)
    views(method=Davidson(), checkpoint=Checkpoint(tmp_path, every=1e-9))
    assert len(seen) == 2  # the first one, and the answer


def test_the_callback_comes_before_the_state(tmp_path):
    kept = Checkpoint(tmp_path, every=0.0)
    states = []

    def callback(record, W):
        before = 0
        if kept.exists:
            before = len(load_archive(kept.path, "genelin.checkpoint", 1)[1]["trace"])
        states.append((record.iteration, before))

    views(method=CCALin(locally_optimal=True), checkpoint=kept, callback=callback)
    assert all(before == iteration - 1 for iteration, before in states)


# --- Files that cannot be believed ---------------------------------------------------------------


@pytest.mark.parametrize("harm", ["truncated", "altered", "empty", "foreign", "other kind"])
def test_damaged_checkpoints_are_named(harm, tmp_path):
    interrupted(views, tmp_path, at=4, method=Davidson())
    path = Checkpoint(tmp_path).path
    content = bytearray(path.read_bytes())
    if harm == "truncated":
        content = content[: len(content) // 2]
    elif harm == "altered":
        content[-100] ^= 1
    elif harm == "empty":
        content = bytearray()
    elif harm == "foreign":
        content = bytearray(b"something else entirely")
    path.write_bytes(content)
    if harm == "other kind":
        CCA().fit(X, Y).save(path)
    with pytest.raises(ValueError, match=r"checkpoint\.safetensors .*resume=False"):
        views(method=Davidson(), checkpoint=tmp_path, resume=True)
    assert views(method=Davidson(), checkpoint=tmp_path).converged
    assert views(method=Davidson(), checkpoint=tmp_path, resume=True, callback=never).converged


@pytest.mark.parametrize("missing", ["fingerprint", "state", "numbers", "array"])
def test_incomplete_checkpoints_are_named(missing, tmp_path):
    interrupted(views, tmp_path, at=4, method=Davidson())
    path = Checkpoint(tmp_path).path
    header, arrays = load_archive(path, "genelin.checkpoint", 1)
    if missing == "array":
        del arrays["ritz_values"]
    elif missing == "numbers":
        del header["state"]["numbers"]
    else:
        del header[missing]
    save_archive(path, "genelin.checkpoint", 1, header, arrays)
    with pytest.raises(ValueError, match=r"damaged: .*resume=False"):
        views(method=Davidson(), checkpoint=tmp_path, resume=True)


# --- Estimators ----------------------------------------------------------------------------------


def test_cca_resumes(tmp_path, monkeypatch):
    settings = {"n_components": 3, "method": Davidson(max_iter=4), "tol": 1e-9}
    with pytest.warns(ConvergenceWarning):
        CCA(**settings, checkpoint=str(tmp_path)).fit(X, Y)
    settings["method"] = Davidson()
    resumed = CCA(**settings, checkpoint=Checkpoint(tmp_path), resume=True).fit(X, Y)
    expected = CCA(**settings).fit(X, Y)
    assert_same(resumed.solution_, expected.solution_)
    assert np.allclose(resumed.x_loadings_, expected.x_loadings_, atol=1e-6)
    resumed.save(tmp_path / "model")
    loaded = CCA.load(tmp_path / "model")
    assert (loaded.checkpoint, loaded.resume) == (None, False)
    with pytest.raises(ValueError, match="does not match: X"):
        resumed.fit(changed(X), Y)


def test_partial_fit_keeps_nothing(tmp_path):
    CCA(2, checkpoint=tmp_path / "none").partial_fit(X, Y)
    assert not (tmp_path / "none").exists()


def test_several_problems_of_one_estimator_resume_each(tmp_path):
    rng = np.random.default_rng(0)
    data, background = rng.standard_normal((2, 300, 20)) * np.linspace(1, 5, 20)
    data[:, 3] *= 4
    settings = {"n_components": 4, "which": "BE", "method": Davidson()}
    expected = GeneralizedEigen(**settings).fit(data, background=background)
    kept = {"checkpoint": tmp_path, "resume": True}
    with pytest.warns(CheckpointWarning, match="no checkpoint"):
        GeneralizedEigen(**settings, **kept).fit(data, background=background)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["problem-0", "problem-1"]
    Checkpoint(tmp_path).part("problem-1").path.unlink()  # as if it had ended after the first
    again = GeneralizedEigen(**settings, **kept).fit(data, background=background)
    assert np.allclose(again.eigenvalues_, expected.eigenvalues_, rtol=1e-8)
    with pytest.raises(ValueError, match="does not match: A"):
        GeneralizedEigen(**settings, **kept).fit(2 * data, background=background)
    with pytest.raises(ValueError, match="resume=True needs checkpoint="):
        GeneralizedEigen(resume=True).fit(data, background=background)


def test_dependent_features_of_an_estimator_resume(tmp_path):
    rng = np.random.default_rng(0)
    data, background = rng.standard_normal((2, 300, 5))
    data, background = (np.c_[part, part[:, :1]] for part in (data, background))
    kept = GeneralizedEigen(checkpoint=tmp_path)
    with pytest.warns(UserWarning, match="numerical rank"):
        first = kept.fit(data, background=background).eigenvalues_
    with pytest.warns(UserWarning, match="numerical rank"):
        again = kept.set_params(resume=True).fit(data, background=background).eigenvalues_
    assert np.array_equal(first, again)


# --- Real processes ------------------------------------------------------------------------------

PROBLEM = """
import os, random, resource, signal, sys, time, warnings
import numpy as np
from scipy.sparse.linalg import LinearOperator
from genelin import Davidson, GenELinK, top_k
from genelin.io import Checkpoint, load_archive

d, folder = 400, sys.argv[1]
a, b = np.linspace(-2.0, 1.0, d), np.linspace(1.0, 9.0, d)
B = np.diag(b)

def solve(seconds=0.0, method=Davidson(max_iter=10**6), **settings):
    def times(V):
        time.sleep(seconds)
        return a.reshape(-1, *[1] * (V.ndim - 1)) * V
    A = LinearOperator((d, d), matvec=times, matmat=times, dtype=float)
    return top_k(A, B, k=3, tol=1e-10, method=method, **settings)

def state(kept):
    return load_archive(kept.path, "genelin.checkpoint", 1)
"""

KILLED = (
    PROBLEM
    + """
warnings.simplefilter("ignore")
method = GenELinK()  # about 900 outer iterations: it is far from its end when it is killed last
solve(method=method)  # compiles what has to be, before the forks
random.seed(0)
kept, done, kills = Checkpoint(folder, every=0.0), [0], 0
while kills < 20 or len(set(done)) < 6:
    child = os.fork()
    if child == 0:
        solve(0.01, method, checkpoint=kept, resume=True)
        os._exit(0)
    time.sleep(random.uniform(0.02, 0.4))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        sys.exit("the run ended before it was killed twenty times")
    kills += 1
    if kept.exists:
        header, arrays = state(kept)
        if "solution" in header:
            sys.exit("too soon")
        done.append(len(arrays["trace"]))
assert done == sorted(done), done
solution = solve(0, method, checkpoint=Checkpoint(folder), resume=True)
expected = solve(0, method)
assert solution.converged
assert len(os.listdir(folder)) == 1, os.listdir(folder)
error = np.abs(solution.values - expected.values).max()
angle = np.linalg.norm(expected.vectors - solution.vectors, 2)
print(len(set(done)), len(solution.trace), len(expected.trace), error, angle)
"""
)


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def run_process(code, *arguments, **options):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


@forks
def test_a_process_killed_twenty_times_comes_to_the_same_answer(tmp_path):
    out, problems = (process := run_process(KILLED, tmp_path)).communicate(timeout=120)
    assert process.returncode == 0, problems
    moments, steps, expected, error, angle = map(float, out.split())
    assert moments > 5  # at different stages
    assert abs(steps - expected) <= 2
    assert max(error, angle) <= 1e-8


FULL = (
    PROBLEM
    + """
warnings.simplefilter("always")
kept = Checkpoint(folder, every=0.0)
def callback(record, W):
    if record.iteration == 6:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # bytes that a file can have
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    solution = solve(checkpoint=kept, callback=callback)
assert solution.converged
print(len(state(kept)[1]["trace"]), len(os.listdir(folder)))
for warning in caught:
    print(warning.category.__name__, warning.message)
"""
)


def test_a_full_disk_costs_nothing_but_the_newest_state(tmp_path):
    pytest.importorskip("resource")
    out, problems = (process := run_process(FULL, tmp_path)).communicate(timeout=60)
    assert process.returncode == 0, problems
    first, *warned = out.splitlines()
    written, files = map(int, first.split())
    assert files == 1
    assert warned
    assert all("CheckpointWarning checkpoint=" in line for line in warned)
    assert all("could not be written" in line for line in warned)
    assert f"the state after {written} outer iterations is still there" in warned[-1]


INTERRUPTED = (
    PROBLEM
    + """
solve()
for number, delay in enumerate([0.0, 0.03, 0.06, 0.11]):
    kept = Checkpoint(f"{folder}/{number}", every=1e6)
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        def callback(record, W):
            os.write(sink, bytes([record.iteration]))
        try:
            solve(0.01, checkpoint=kept, callback=callback)
        except KeyboardInterrupt:
            os._exit(7)
        os._exit(0)
    os.close(sink)
    last = 0
    while last != 5:
        last = os.read(source, 1)[0]
    time.sleep(delay)
    os.kill(child, signal.SIGINT)
    _, status = os.waitpid(child, 0)
    last = max(os.read(source, 100), default=last)
    header, arrays = state(kept)
    print(os.WEXITSTATUS(status), last - len(arrays["trace"]), os.listdir(kept.folder))
"""
)


@forks
def test_ctrl_c_keeps_the_last_iteration(tmp_path):
    out, problems = (process := run_process(INTERRUPTED, tmp_path)).communicate(timeout=60)
    assert process.returncode == 0, problems
    assert len(out.splitlines()) == 4
    for line in out.splitlines():
        code, lost, files = line.split(maxsplit=2)
        assert code == "7"  # KeyboardInterrupt reached the caller
        assert lost in ("0", "1")  # the last one may have been on its way
        assert files == "['checkpoint.safetensors']"


def test_what_memory_is_free_does_not_keep_a_run_from_being_resumed(tmp_path, monkeypatch):
    """The plan is made for the machine that the run began on, which the checkpoint holds."""
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(100_000), 2)
    X, Y = (
        sparse.csr_array((rng.random(200_000), (rows, rng.integers(0, 3000, 200_000))))
        for _ in range(2)
    )

    def solve(**settings):
        return top_k_cca(X, Y, 3, reg=1e-3, tol=1e-4, **settings)

    taken = best_route(TwoView(X, Y, reg=1e-3), 3)
    interrupted(solve, tmp_path)
    monkeypatch.setattr(machine, "total_memory", lambda: taken.memory)
    assert best_route(TwoView(X, Y, reg=1e-3), 3).method != taken.method
    resumed = solve(checkpoint=tmp_path, resume=True)
    assert resumed.route.startswith(taken.name)
    np.testing.assert_allclose(resumed.correlations, solve().correlations, rtol=1e-6)
