"""The command line: every command, every format, and every way to hold it wrong."""

import errno
import gzip
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import io, sparse

import genelin
from genelin import CCA, top_k, top_k_cca
from genelin.cli.main import main
from genelin.cli.read_views import _open_stored
from genelin.linalg import sin_theta

try:
    import resource
except ImportError:  # Windows
    resource = None

N, REG = 300, 1e-3


@pytest.fixture(scope="module")
def views():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((N, 3)) * [3.0, 2.0, 1.0]
    X, Y = (z @ rng.standard_normal((3, d)) + rng.standard_normal((N, d)) for d in (6, 4))
    return X, Y


@pytest.fixture(scope="module")
def files(views, tmp_path_factory):
    """The same two views in every format."""
    folder = tmp_path_factory.mktemp("data")
    X, Y = views
    for name, rows, letter in (("x", X, "a"), ("y", Y, "b")):
        np.save(folder / f"{name}.npy", rows)
        np.savez(folder / f"{name}_dense.npz", rows=rows)
        sparse.save_npz(folder / f"{name}.npz", sparse.csr_array(rows))
        io.mmwrite(folder / f"{name}.mtx", sparse.coo_array(rows), precision=17)
        io.mmwrite(folder / f"{name}_dense.mtx", rows, precision=17)
        frame = pl.DataFrame(rows, schema=[f"{letter}{j}" for j in range(rows.shape[1])])
        frame.write_csv(folder / f"{name}.csv")
        frame.write_csv(folder / f"{name}.tsv", separator="\t")
        frame.write_csv(folder / f"{name}_bare.csv", include_header=False)
        frame.write_csv(folder / f"{name}_semicolon.csv", separator=";")
        frame.write_parquet(folder / f"{name}.parquet")
        frame.write_ipc(folder / f"{name}.arrow")
    both = pl.concat(
        [pl.read_parquet(folder / f"{name}.parquet") for name in "xy"], how="horizontal"
    )
    both = both.with_columns(id=pl.Series([f"row {i}" for i in range(N)]))
    both.write_csv(folder / "both.csv")
    both.write_parquet(folder / "both.parquet")
    return folder


@pytest.fixture
def cli(capsys):
    """Run a command in this process: exit code, stdout, stderr."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def cli_json(cli):
    def run(*arguments):
        code, out, _ = cli(*arguments, "--json")
        return code, json.loads(out)

    return run


def sine(W, V):
    """Of the largest angle between two spans."""
    return sin_theta(W, V, np.eye(len(W)))


def refused(answer, *words):
    """One line on stderr with these words, nothing on stdout, exit code 2."""
    code, out, err = answer
    assert (code, out) == (2, ""), answer
    lines = [line for line in err.splitlines() if not line.startswith(("reading ", "fitting "))]
    assert len(lines) == 1, err
    assert lines[0].startswith("genelin")
    assert "Traceback" not in err
    for word in words:
        assert word in lines[0]


# --- cca ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["{}.npy", "{}_dense.npz", "{}.npz", "{}.mtx", "{}_dense.mtx", "{}.csv", "{}.tsv"]
    + ["{}_bare.csv", "{}_semicolon.csv", "{}.parquet", "{}.arrow"],
)
def test_every_format_gives_the_same_correlations(name, files, views, cli_json):
    paths = [files / name.format(view) for view in "xy"]
    code, found = cli_json("cca", *paths, "-k", 3, "--reg", REG)
    assert code == 0
    expected = top_k_cca(*views, k=3, reg=REG)
    np.testing.assert_allclose(found["correlations"], expected.correlations, atol=1e-9)
    assert found["converged"]
    assert max(found["residuals"]) < 1e-6
    assert [source["shape"] for source in found["inputs"]] == [[N, 6], [N, 4]]


@pytest.mark.parametrize("table", ["both.csv", "both.parquet"])
@pytest.mark.parametrize(
    ("x", "y"),
    [
        (["a0,a1,a2,a3,a4,a5"], ["b0", "b1,b2", "b3"]),
        (["a0:a5"], ["b*"]),
        (["a*"], ["b0:b3"]),
    ],
)
def test_columns_of_one_table(table, x, y, files, views, cli_json):
    chosen = [word for column in x for word in ("--x-columns", column)]
    chosen += [word for column in y for word in ("--y-columns", column)]
    code, found = cli_json("cca", files / table, *chosen, "-k", 2)
    assert code == 0
    np.testing.assert_allclose(
        found["correlations"], top_k_cca(*views, k=2).correlations, atol=1e-9
    )
    assert found["inputs"][1]["columns"] == ["b0", "b1", "b2", "b3"]


def test_what_does_not_fit_in_memory_stays_on_disk(files, views, cli, cli_json, monkeypatch):
    monkeypatch.setattr("genelin.cli.read_views.SHARE", 1e-12)
    monkeypatch.setattr("genelin.cli.read_views.SMALL", 0)
    opened = []
    monkeypatch.setattr(
        "genelin.cli.read_views._open_stored",
        lambda *arguments, real=_open_stored: opened.append(arguments[0]) or real(*arguments),
    )
    expected = top_k_cca(*views, k=2).correlations
    for x, y in (("x.npz", "y.parquet"), ("x.arrow", "y.npz")):
        code, found = cli_json("cca", files / x, files / y, "-k", 2)
        assert code == 0
        np.testing.assert_allclose(found["correlations"], expected, atol=1e-9)
    chosen = ("--x-columns", "a*", "--y-columns", "b*")
    _, found = cli_json("cca", files / "both.parquet", *chosen, "-k", 2)
    np.testing.assert_allclose(found["correlations"], expected, atol=1e-9)
    assert len(opened) == 6
    refused(cli("cca", files / "both.csv", *chosen), "does not fit in memory", "genelin convert")


def test_options_reach_the_estimator(files, views, cli_json):
    options = ("--shrinkage", "0.1,0.2", "--scale", "--no-center", "--seed", 3, "--tol", "1e-7")
    code, found = cli_json("cca", files / "x.npy", files / "y.npy", "-k", 2, *options)
    assert code == 0
    expected = CCA(2, shrinkage=(0.1, 0.2), scale=True, center=False).fit(*views)
    np.testing.assert_allclose(found["correlations"], expected.canonical_correlations_, atol=1e-9)
    assert found["settings"]["shrinkage"] == [0.1, 0.2]


@pytest.mark.parametrize(
    "options",
    [("dense",), ("davidson",), ("ccalin",), ("ccalin", "--solver", "cg")],
)
def test_methods(options, files, views, cli_json):
    code, found = cli_json(
        "cca", files / "x.csv", files / "y.csv", "-k", 2, "--reg", "0.1,0.2", "--method", *options
    )
    assert code == 0
    expected = top_k_cca(*views, k=2, reg=(0.1, 0.2)).correlations
    np.testing.assert_allclose(found["correlations"], expected, atol=1e-6)


def test_held_out_rows_are_not_fitted(files, views, cli, tmp_path):
    arguments = ("cca", files / "x.csv", files / "y.csv", "-k", 2, "--held-out", "0.25")
    code, out, _ = cli(*arguments, "--seed", 5, "-o", tmp_path / "run")
    assert code == 0
    assert "held out" in out
    scores = pl.read_parquet(tmp_path / "run/scores.parquet")
    held = scores["held_out"].to_numpy()
    assert held.sum() == N // 4
    X, Y = views
    fitted = CCA(2).fit(X[~held], Y[~held])
    found = json.loads((tmp_path / "run/run.json").read_text())
    np.testing.assert_allclose(found["correlations"], fitted.canonical_correlations_, atol=1e-9)
    U, V = fitted.transform(X[held], Y[held])
    expected = [np.corrcoef(U[:, j], V[:, j])[0, 1] for j in range(2)]
    np.testing.assert_allclose(found["held_out_correlations"], expected, atol=1e-8)


def test_a_run_leaves_model_scores_trace_report_and_record(files, views, cli, tmp_path):
    out = tmp_path / "deep" / "run"
    code, shown, _ = cli(
        "cca", files / "x.csv", files / "y.csv", "-k", 2, "--reg", "0.1", "--method", "davidson",
        "-o", out, "--scores", "csv",
    )  # fmt: skip
    assert code == 0
    names = {"model.safetensors", "scores.csv", "trace.jsonl", "report.html", "run.json"}
    assert {path.name for path in out.iterdir()} == names
    assert all(str(out / name) in shown for name in names)
    model = CCA.load(out / "model.safetensors")
    assert model.feature_names_in_.tolist() == [f"a{j}" for j in range(6)]
    expected = CCA(2, reg=0.1).fit(*views)
    assert sine(model.x_weights_, expected.x_weights_) < 1e-5
    scores = pl.read_csv(out / "scores.csv")
    assert scores.columns == ["x1", "x2", "y1", "y2"]
    U = expected.transform(views[0])
    assert sine(scores.select("x1", "x2").to_numpy(), U) < 1e-5
    trace = [json.loads(line) for line in (out / "trace.jsonl").read_text().splitlines()]
    assert [record["iteration"] for record in trace] == list(range(1, len(trace) + 1))
    assert len(trace) == json.loads((out / "run.json").read_text())["iterations"] > 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<html" in page
    assert "a5" in page  # a feature by its name


def test_nothing_is_overwritten_without_force(files, cli, tmp_path):
    arguments = ("cca", files / "x.npy", files / "y.npy", "-k", 1, "--no-report", "-o", tmp_path)
    (tmp_path / "mine.txt").write_text("keep")
    assert cli(*arguments)[0] == 0
    before = (tmp_path / "model.safetensors").stat().st_mtime_ns
    refused(cli(*arguments), "model.safetensors is there already", "--force")
    assert (tmp_path / "model.safetensors").stat().st_mtime_ns == before
    assert cli(*arguments, "--force", "--scores", "csv")[0] == 0
    assert (tmp_path / "model.safetensors").stat().st_mtime_ns > before
    assert not (tmp_path / "scores.parquet").exists()  # it was of the other run
    assert (tmp_path / "mine.txt").read_text() == "keep"


def test_an_answer_short_of_the_tolerance_says_so(files, cli, cli_json, tmp_path):
    arguments = ("cca", files / "x.npy", files / "y.npy", "-k", 1, "--method", "ccalin")
    arguments += ("--tol", "1e-9", "--max-iter", 2, "--no-report", "-o", tmp_path / "run")
    code, out, err = cli(*arguments)
    assert code == 1
    assert "maximum of iterations" in out
    assert "warning: " in err
    found = json.loads((tmp_path / "run/run.json").read_text())
    assert not found["converged"]
    assert "max_iter" in found["advice"]
    assert (tmp_path / "run/checkpoint").is_dir()  # more iterations can go on from there
    more = [word for word in arguments if word not in ("--max-iter", 2)]
    assert cli(*more, "--resume", "--force")[0] == 0
    assert not (tmp_path / "run/checkpoint").exists()


def test_unfinished_runs_are_not_forgotten(files, cli, tmp_path):
    arguments = ("cca", files / "x.npy", files / "y.npy", "--no-report", "-o", tmp_path / "out")
    refused(cli(*arguments, "--resume"), "nothing to resume")
    kept = tmp_path / "out/checkpoint/checkpoint.safetensors"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"of another run")
    refused(cli(*arguments), "go on with --resume, or begin anew with --force")
    refused(cli(*arguments, "--resume"), "not a file of genelin, or is damaged")
    assert kept.read_bytes() == b"of another run"
    assert cli(*arguments, "--force")[0] == 0
    assert not kept.parent.exists()


def test_warnings_are_lines(files, views, cli, tmp_path):
    X, _ = views
    np.save(tmp_path / "x.npy", np.c_[X, X[:, :1]])
    code, _, err = cli("cca", tmp_path / "x.npy", files / "y.npy", "-k", 1)
    assert code == 0
    assert re.search(r"^warning: X .*rank", err, re.MULTILINE)
    _, out, err = cli("cca", tmp_path / "x.npy", files / "y.npy", "-k", 1, "--json")
    assert err == ""
    assert "rank" in json.loads(out)["warnings"][0]


# --- cca: bad input ----------------------------------------------------------------------------


@pytest.fixture
def broken(tmp_path, files, views):
    """Files that cannot be used, by what is wrong with them."""
    X, _ = views
    np.save(tmp_path / "short.npy", X[:-1])
    with_nan = X.copy()
    with_nan[7, 2] = np.nan
    np.save(tmp_path / "nan.npy", with_nan)
    (tmp_path / "junk.npy").write_bytes(b"no array")
    (tmp_path / "junk.npz").write_bytes(b"no archive")
    (tmp_path / "junk.mtx").write_text("no matrix\n1 2 3\n")
    (tmp_path / "junk.parquet").write_bytes(b"no table")
    (tmp_path / "junk.csv").write_bytes(b"\xff\xfe\x00a,b\n1,2\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "unknown.xyz").write_text("?")
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n3,4,5\n6\n")
    (tmp_path / "late.csv").write_text("a,b\n" + "1,2\n" * 2000 + "1,word\n")
    (tmp_path / "gap.csv").write_text("a,b\n1,2\n3,\n5,6\n")
    (tmp_path / "na.csv").write_text("a,b\n1,2\n3,NA\n5,6\n")
    np.savez(tmp_path / "two.npz", a=X, b=X)
    (tmp_path / "junk.csv.gz").write_bytes(b"a,b\n1,2\n")
    packed = gzip.compress((files / "x.csv").read_bytes())
    (tmp_path / "cut.csv.gz").write_bytes(packed[: len(packed) // 2])
    for name in ("x.npz", "x.parquet"):
        content = (files / name).read_bytes()
        (tmp_path / f"cut.{name[2:]}").write_bytes(content[: len(content) // 2])
    return tmp_path


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ("absent.csv", ["absent.csv", "check the path"]),
        ("absent.npz", ["absent.npz", "check the path"]),
        ("junk.npy", ["junk.npy is not an array"]),
        ("junk.npz", ["junk.npz cannot be read"]),
        ("junk.mtx", ["junk.mtx cannot be read"]),
        ("junk.parquet", ["junk.parquet cannot be read"]),
        ("junk.csv", ["junk.csv"]),
        ("empty.csv", ["empty.csv is empty"]),
        ("junk.csv.gz", ["junk.csv.gz is not a table"]),
        ("cut.csv.gz", ["cut.csv.gz"]),
        ("cut.npz", ["cut.npz cannot be read"]),
        ("cut.parquet", ["cut.parquet cannot be read"]),
        ("ragged.csv", ["ragged.csv cannot be read"]),
        ("late.csv", ["late.csv cannot be read", "word"]),
        ("gap.csv", ["column 'b' of", "row 1, counted", "drop or fill"]),
        ("na.csv", ["column 'b' of", "row 1, counted", "drop or fill"]),
        ("two.npz", ["2 arrays (a, b)", "save one matrix"]),
        ("unknown.xyz", ["unknown.xyz"]),
        ("short.npy", ["299 rows but", "has 300", "same observation"]),
        ("nan.npy", ["NaN at row 7, column 2", "impute"]),
        (".", []),
    ],
)
@pytest.mark.parametrize("command", ["cca", "plan"])
def test_bad_files_are_refused_in_one_line(command, x, words, broken, files, cli):
    output = ("-o", broken / "out", "--no-report") if command == "cca" else ()
    refused(cli(command, broken / x, files / "y.npy", "-k", 1, *output), *words)
    assert not (broken / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["x.csv", "y.csv", "-k", "5"], ["-k 5 is more than the 4 columns of", "y.csv"]),
        (["x.csv", "y.csv", "-k", "0"], ["'-k'", "--help"]),
        (["x.csv"], ["--x-columns and --y-columns"]),
        (["both.csv", "--x-columns", "a*", "--y-columns", "weight"], ["no column 'weight'", "a0"]),
        (["both.csv", "--x-columns", "a*", "--y-columns", "id"], ["column 'id'", "not numbers"]),
        (["both.csv", "--x-columns", "a*", "--y-columns", "a1"], ["'a1' is in both views"]),
        (["both.csv", "y.npy"], ["column 'id'", "--x-columns"]),
        (["x.npy", "y.npy", "--x-columns", "a"], ["--x-columns", "x.npy is none"]),
        (["x.npy", "--x-columns", "a", "--y-columns", "b"], ["no named columns"]),
        (["x.csv", "y.csv", "--reg", "much"], ["'much' is not a number"]),
        (["x.csv", "y.csv", "--reg", "-1"], ["reg"]),
        (["x.csv", "y.csv", "--reg", "1", "--shrinkage", "0.1"], ["shrinkage"]),
        (["x.csv", "y.csv", "--tol", "2"], ["tol"]),
        (["x.csv", "y.csv", "--solver", "cg"], ["--method"]),
        (["x.csv", "y.csv", "--held-out", "0.001"], ["--held-out 0.001 of 300 rows"]),
        (["x.csv", "y.csv", "--resume"], ["-o"]),
        (["x.csv", "y.csv", "--method", "magic"], ["'magic'", "davidson"]),
        (["x.csv", "y.csv", "--columns", "a"], ["--columns", "--help"]),
    ],
)
def test_bad_options_are_refused_in_one_line(arguments, words, files, cli, monkeypatch):
    monkeypatch.chdir(files)
    refused(cli("cca", *arguments), *words)


def test_errors_are_json_for_machines(cli_json):
    code, found = cli_json("cca", "absent.csv", "absent.csv")
    assert code == found["exit_code"] == 2
    assert "absent.csv" in found["error"]


def commands(files, pencil, run, out):
    """Every command that writes, with `out` as its place."""
    views = [str(files / name) for name in ("x.npy", "y.npy")]
    return {
        "cca": ["cca", *views, "-k", "1", "--no-report", "-o", out],
        "eig": ["eig", str(pencil[0] / "A.npy"), "-o", out],
        "transform": ["transform", str(run), views[0], "-o", f"{out}/scores.csv"],
        "convert": ["convert", views[0], out],
        "demo": ["demo", "-o", out],
        "reproduce": ["reproduce", "theory", "--quick", "-o", out],
    }


WRITING = ["cca", "eig", "transform", "convert", "demo", "reproduce"]


@pytest.mark.parametrize("command", WRITING)
@pytest.mark.skipif(not Path("/sys").is_dir(), reason="no /sys, where not even root may write")
def test_places_without_rights(command, files, pencil, finished, cli):
    refused(cli(*commands(files, pencil, finished, "/sys/genelin")[command]), "no rights")


@pytest.mark.parametrize("command", WRITING)
def test_files_where_folders_should_be(command, files, pencil, finished, cli, tmp_path):
    (tmp_path / "file").write_text("mine")
    out = str(tmp_path / "file")
    code, _, err = cli(*commands(files, pencil, finished, out)[command])
    assert code == 2
    assert "file" in err.splitlines()[-1]
    assert (tmp_path / "file").read_text() == "mine"


@pytest.fixture
def no_space():
    """A real limit on the size of files, much smaller than any result."""
    if resource is None:
        pytest.skip("files have no limits here")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("command", ["cca", "eig", "transform", "convert"])
def test_no_space(command, files, pencil, finished, cli, tmp_path, no_space):
    code, out, err = cli(*commands(files, pencil, finished, str(tmp_path / "out"))[command])
    assert (code, out) == (2, "")
    assert re.search("no space left|too large", err.splitlines()[-1], re.IGNORECASE)
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_no_space_for_a_report(finished, cli, no_space):
    before = (finished / "report.html").read_bytes()
    refused(cli("report", finished, "--force"), "no space left")
    assert (finished / "report.html").read_bytes() == before
    assert not list(finished.glob(".*"))


@pytest.mark.parametrize("writer", ["write_scores", "write_trace", "write_json"])
def test_results_appear_together_or_not_at_all(writer, files, cli, tmp_path, monkeypatch):
    def full(path, content):
        path.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(f"genelin.cli.outputs.{writer}", full)
    answer = cli(
        "cca", files / "x.npy", files / "y.npy", "-k", 1, "--no-report", "-o", tmp_path / "out"
    )
    refused((answer[0], answer[1], answer[2].splitlines()[-1]), "no space left", "--resume")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["checkpoint"]


# --- The other commands ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pencil(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("pencil"), np.random.default_rng(1)
    A = np.diag([9.0, -8.0, 7.0, *rng.uniform(-3, 3, 17)])
    B = np.eye(20) + 0.1 * np.ones((20, 20))
    np.save(folder / "A.npy", A)
    sparse.save_npz(folder / "A.npz", sparse.csr_array(A))
    io.mmwrite(folder / "B.mtx", B, symmetry="symmetric", precision=17)
    return folder, A, B


@pytest.mark.parametrize("a", ["A.npy", "A.npz"])
@pytest.mark.parametrize("which", ["LM", "LA", "SA"])
def test_eig(a, which, pencil, cli_json, tmp_path):
    folder, A, B = pencil
    code, found = cli_json(
        "eig", folder / a, folder / "B.mtx", "-k", 3, "--which", which, "-o", tmp_path
    )
    assert code == 0
    expected = top_k(A, B, 3, which=which)
    np.testing.assert_allclose(found["values"], expected.values, atol=1e-9)
    with np.load(tmp_path / "eigen.npz") as kept:
        assert sine(kept["vectors"], expected.vectors) < 1e-7
    assert set(found["files"]) == {"eigen.npz", "trace.jsonl", "run.json"}


def test_eig_without_b_by_the_papers_method(pencil, cli, tmp_path):
    folder, *_ = pencil
    code, out, err = cli(
        "eig", folder / "A.npy", "-k", 2, "--method", "genelink", "--solver", "cg", "--tol", "1e-6"
    )
    assert code == 0
    assert re.search(r"1\s+9\s", out)
    assert re.search(r"2\s+-8\s", out)
    assert "iteration 1: residual" in err
    few = ("eig", folder / "A.npy", "-k", 2, "--method", "genelink", "-o", tmp_path)
    assert cli(*few, "--max-iter", 2)[0] == 1
    refused(cli(*few, "--resume"), "eigen.npz is there already")
    assert cli(*few, "--resume", "--force")[0] == 0
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.npy"], ["absent.npy", "check the path"]),
        (["A.npy", "absent.mtx"], ["absent.mtx", "check the path"]),
        (["A.npy", "-k", "21"], ["-k 21 is more than the size of A.npy, 20"]),
        (["A.npy", "small.npy"], ["shape"]),
        (["wide.npy"], ["square"]),
        (["text.csv"], [".npy, .npz or .mtx"]),
        (["A.npy", "A.npy"], ["positive definite"]),
        (["A.npy", "--max-iter", "3"], ["--method"]),
        (["A.npy", "--which", "XX"], ["'XX'"]),
        (["A.npy", "-o", "A.npy"], ["is a file"]),
        (["A.npy", "--resume"], ["-o"]),
    ],
)
def test_eig_refuses_bad_input(arguments, words, pencil, cli, monkeypatch):
    folder, *_ = pencil
    monkeypatch.chdir(folder)
    np.save("small.npy", np.eye(3))
    np.save("wide.npy", np.ones((3, 4)))
    Path("text.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    refused(cli("eig", *arguments), *words)


@pytest.fixture(scope="module")
def finished(files, tmp_path_factory):
    """The folder of a run on one table."""
    out = tmp_path_factory.mktemp("finished") / "run"
    table = str(files / "both.csv")
    command = ["cca", table, "--x-columns", "a*", "--y-columns", "b*", "-k", "2", "-o", str(out)]
    assert main(command) == 0
    return out


def test_transform_takes_columns_by_name(finished, files, views, cli, tmp_path):
    table = pl.read_csv(files / "both.csv")
    table.select(sorted(table.columns, reverse=True)).write_parquet(tmp_path / "new.parquet")
    scores = pl.read_parquet(finished / "scores.parquet")
    code, out, _ = cli("transform", finished, tmp_path / "new.parquet", "-o", tmp_path / "u")
    assert code == 0
    assert "300 rows of x1, x2" in out
    new = pl.read_parquet(tmp_path / "u.parquet")
    np.testing.assert_allclose(new.to_numpy(), scores.select("x1", "x2").to_numpy(), atol=1e-9)
    model, target = finished / "model.safetensors", tmp_path / "uv.csv"
    assert cli("transform", model, files / "x.csv", files / "y.csv", "-o", target)[0] == 0
    np.testing.assert_allclose(pl.read_csv(target).to_numpy(), scores.to_numpy(), atol=1e-9)
    refused(cli("transform", model, files / "x.csv", "-o", target), "uv.csv is there already")
    code, _, _ = cli("transform", model, files / "x.npy", "-o", target, "--force")
    assert code == 0
    assert pl.read_csv(target).columns == ["x1", "x2"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent", "x.csv", "-o", "s.csv"], ["no model at absent"]),
        (["x.csv", "x.csv", "-o", "s.csv"], ["x.csv"]),
        (["RUN", "absent.csv", "-o", "s.csv"], ["absent.csv", "check the path"]),
        (["RUN", "y.csv", "-o", "s.csv"], ["no column 'a0'"]),
        (["RUN", "y.npy", "-o", "s.csv"], ["4 columns", "fitted on 6"]),
        (["RUN", "x.csv", "y9.npy", "-o", "s.csv"], ["300 rows but", "has 9"]),
        (["RUN", "x.csv", "-o", "s.xlsx"], [".parquet or .csv"]),
        (["RUN", "x.csv"], ["-o"]),
        (["RUN", "x.csv", "-o", "/sys/genelin.csv"], ["no rights"]),
    ],
)
def test_transform_refuses_bad_input(arguments, words, finished, files, views, cli, monkeypatch):
    monkeypatch.chdir(files)
    np.save("y9.npy", views[1][:9])
    refused(cli("transform", *(str(finished) if a == "RUN" else a for a in arguments)), *words)
    assert not list(files.glob("s.*"))


def test_plan(files, cli, cli_json):
    code, out, _ = cli("plan", files / "x.csv", files / "y.csv", "-k", 2)
    assert code == 0
    assert "plan for 2 canonical pairs of X (300 × 6) and Y (300 × 4)" in out
    assert re.search(r"→\s+dense", out)
    code, found = cli_json("plan", files / "x.csv", files / "y.csv", "-k", 2)
    assert found["routes"][0]["name"] == "dense"
    refused(cli("plan", files / "x.csv", files / "y.csv", "-k", 5), "at most")


def test_report_is_drawn_again(finished, files, cli, cli_json, tmp_path):
    refused(cli("report", finished), "report.html is there already", "--force")
    before = (finished / "report.html").read_bytes()
    (finished / "report.html").unlink()
    code, found = cli_json("report", finished)
    assert code == 0
    assert found["files"] == {"report.html": str(finished / "report.html")}
    assert len((finished / "report.html").read_bytes()) > 0.9 * len(before)  # scores included
    for _ in range(2):  # a folder of figures can be replaced too
        code, found = cli_json("report", finished, "--figures", "--force")
        assert code == 0
        assert list((finished / "figures").glob("*.svg"))
    refused(cli("report", tmp_path), "run.json")
    refused(cli("report", tmp_path / "absent"), "absent")
    (tmp_path / "run.json").write_text("{}")
    refused(cli("report", tmp_path), "damaged")
    (tmp_path / "run.json").write_text((finished / "run.json").read_text())
    refused(cli("report", tmp_path), "no model")
    (tmp_path / "model.safetensors").write_text("junk")
    refused(cli("report", tmp_path), "model.safetensors is not a file of genelin")
    assert not (tmp_path / "report.html").exists()


def test_convert(files, views, cli, cli_json, tmp_path):
    for source in ("x.csv", "x.npz", "x.npy", "x.tsv", "x.mtx", "x_bare.csv", "x.parquet"):
        code, found = cli_json("convert", files / source, tmp_path / source)
        assert (code, found["shape"]) == (0, [N, 6])
    y = tmp_path / "y"
    assert cli("convert", files / "both.parquet", y, "--columns", "b*")[0] == 0
    stored = ("cca", tmp_path / "x.csv", y, "-k", 2, "--reg", REG)
    code, found = cli_json(*stored, "-o", tmp_path / "run")
    assert (code, found["warnings"]) == (0, [])
    assert "a5" in (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert found["inputs"][1]["columns"] == ["b0", "b1", "b2", "b3"]
    assert cli_json(*stored, "--held-out", "0.2")[1]["held_out_correlations"][0] > 0.5
    expected = top_k_cca(*views, k=2, reg=REG).correlations
    np.testing.assert_allclose(found["correlations"], expected, atol=1e-9)
    refused(cli("convert", files / "x.csv", y), "is there already", "--force")
    assert cli("convert", files / "y.csv", y, "--force")[0] == 0
    refused(cli("convert", files / "absent.csv", tmp_path / "z"), "check the path")
    refused(cli("convert", files / "both.csv", tmp_path / "z"), "column 'id'", "--columns")
    (tmp_path / "junk.npy").write_bytes(b"junk")
    refused(cli("convert", tmp_path / "junk.npy", tmp_path / "z"), "junk.npy")
    assert not (tmp_path / "z").exists()


def test_reproduce_passes_its_options_on(cli, cli_json, tmp_path, monkeypatch):
    """What the experiments do is tested with them; here, what they are asked for."""

    def experiment(what, out, *, data, quick):
        (Path(out) / f"{what}.md").write_text(f"{data} {quick}")
        return [Path(out) / f"{what}.md"]

    monkeypatch.setattr("genelin.experiments.reproduce", experiment, raising=False)
    out = tmp_path / "out"
    code, shown, _ = cli("reproduce", "theory", "-o", out, "--quick", "--data", tmp_path)
    assert (code, shown) == (0, f"{out}/theory.md\n")
    assert (out / "theory.md").read_text() == f"{tmp_path} True"
    code, found = cli_json("reproduce", "url", "-o", out, "--force")
    assert (code, found["files"]) == (0, [f"{out}/url.md"])
    assert (out / "url.md").read_text() == "None False"


def test_reproduce_refuses_bad_input(cli, tmp_path):
    refused(cli("reproduce", "everything"), "'everything'", "mnist")
    absent = tmp_path / "absent"
    refused(cli("reproduce", "theory", "--data", absent), "--data", "not a folder")
    (tmp_path / "file").write_text("")
    refused(cli("reproduce", "theory", "-o", tmp_path), "is not empty", "--force")


def test_demo_ends_with_a_report(cli, tmp_path):
    code, out, _ = cli("demo", "-o", tmp_path / "demo")
    assert code == 0
    assert "held out" in out
    assert "5 pairs, all certified to" in out
    assert str(tmp_path / "demo" / "report.html") in out
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000
    refused(cli("demo", "-o", tmp_path / "demo"), "is there already")
    assert cli("report", tmp_path / "demo", "--force")[0] == 0


# --- The program itself ------------------------------------------------------------------------


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "genelin.cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        **options,
    )


def test_text_is_utf8_whatever_the_system_prefers(views, tmp_path):
    for name, Z in zip("xy", views, strict=True):
        header = ",".join(f"Größe {j}" for j in range(Z.shape[1]))
        np.savetxt(
            tmp_path / f"{name}.csv", Z, "%.17g", ",", header=header, comments="", encoding="utf-8"
        )
    other = os.environ | {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    command = ("cca", "x.csv", "y.csv", "-k", 1, "--no-report", "-o", "out")
    result = run(*command, cwd=tmp_path, env=other)
    assert result.returncode == 0, result.stderr


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from genelin.cli.main import main; main(['--help']);"
        "print([m for m in ('numpy', 'scipy', 'rich', 'polars', 'numba') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "[]"
    for word in ("cca", "eig", "transform", "plan", "report", "convert", "reproduce", "demo"):
        assert f"\n  {word} " in result.stdout
    assert "130  interrupted" in result.stdout


@pytest.mark.skipif(resource is None, reason="nobody counts the time of other processes here")
def test_help_is_quick():
    """By the time that the processor takes, so that a busy machine does not matter."""

    def seconds():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 0.5


def test_the_script_is_the_program():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    module, name = project["project"]["scripts"]["genelin"].split(":")
    assert getattr(importlib.import_module(module), name) is main
    assert importlib.import_module(module).app.name == "app"


def test_every_command_has_help_and_json(cli):
    from genelin.cli.app import COMMANDS

    for name in COMMANDS:
        code, out, _ = cli(name, "--help")
        assert code == 0
        assert ("--json" in out) == (name != "completion")


def test_versions(cli):
    code, out, _ = cli("--version")
    assert code == 0
    for name in (
        f"genelin {genelin.__version__}",
        "numpy ",
        "scipy ",
        "numba ",
        "scikit-learn ",
        "BLAS ",
    ):
        assert name in out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell, cli):
    code, out, _ = cli("completion", shell)
    assert code == 0
    assert "_GENELIN_COMPLETE" in out


def test_completion_knows_commands_and_options():
    def completed(*words):
        environment = {"_GENELIN_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words)}
        environment["COMP_CWORD"] = str(len(words) - 1)
        return run(env=os.environ | environment).stdout

    assert "plain,convert" in completed("genelin", "con")
    assert "plain,--held-out" in completed("genelin", "cca", "--held")


def test_a_missing_extra_is_one_line(tmp_path):
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError('no click', name='click')")
    result = run("--help", env=os.environ | {"PYTHONPATH": f"{tmp_path}:{':'.join(sys.path)}"})
    assert result.returncode == 3
    assert result.stderr.splitlines() == [
        'genelin: the command line needs click, rich and polars: pip install "genelin[cli]"'
    ]


def test_a_report_that_cannot_be_drawn_is_refused_before_the_fit(files, cli, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "bokeh", None)
    arguments = ("cca", files / "x.npy", files / "y.npy", "-o", tmp_path / "out")
    code, out, err = cli(*arguments)
    assert (code, out) == (3, "")
    assert 'needs bokeh: pip install "genelin[report]", or leave it out with --no-report' in err
    assert not (tmp_path / "out").exists()
    assert cli(*arguments, "--no-report")[0] == 0


def test_a_mistake_of_our_own_is_told_from_one_of_the_users(files, cli, monkeypatch):
    def broken(*arguments):
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr("genelin.cli.read_views.read_views", broken)
    code, _, err = cli("plan", files / "x.csv", files / "y.csv")
    assert code == 70
    assert "ZeroDivisionError: surprise" in err
    assert len(err.splitlines()) == 1


def test_an_error_that_nobody_meant_to_raise_is_not_blamed_on_the_input(files, cli, monkeypatch):
    """A stray ValueError of our own code, wherever it comes from, is no message for the user."""
    given = ("cca", files / "x.npy", files / "y.npy", "--no-report", "--json")

    scope = {"__name__": "genelin.eigen.methods.dense", "np": np}
    exec("def empty(*arguments, **options):\n    return np.empty(0).max()", scope)
    for place in (
        "genelin.eigen.methods.dense.top_singular",
        "genelin.estimators.cca.view_statistics",
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, scope["empty"])
            code, out, err = cli(*given)
        assert code == json.loads(out)["exit_code"] == 70
        assert "internal error; please report it: ValueError: zero-size array" in err
        assert "GENELIN_TRACEBACK=1" in err
    assert cli(*given)[0] == 0


def test_output_is_plain_where_there_is_no_terminal(files):
    result = run(
        "cca", files / "x.csv", files / "y.csv", "-k", 2, "--method", "ccalin", "--reg", "0.1"
    )
    assert result.returncode == 0, result.stderr
    assert "\x1b" not in result.stdout + result.stderr
    assert "\r" not in result.stdout + result.stderr
    assert re.search(r"^iteration 1: residual", result.stderr, re.MULTILINE)
    assert result.stdout.startswith("pair  correlation")
