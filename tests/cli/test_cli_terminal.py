"""The command line in a real terminal: what moves, Ctrl-C, and how to go on."""

import json
import os
import re
import shlex
import sys

import numpy as np
import polars as pl
import pytest

from genelin import top_k_cca

pexpect = pytest.importorskip("pexpect", reason="pexpect drives the terminal")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminal")

ROWS, FEATURES = 2000, 200
SLOW = ["-k", "2", "--method", "ccalin", "--solver", "gd", "--tol", "1e-10"]


@pytest.fixture
def views(tmp_path):
    """Noise whose correlations are close together, so that iterations are many."""
    rng = np.random.default_rng(5)
    X, Y = rng.standard_normal((2, ROWS, FEATURES))
    for name, rows in (("x", X), ("y", Y)):
        pl.DataFrame(rows, schema=[f"{name}{j}" for j in range(FEATURES)]).write_csv(
            tmp_path / f"{name}.csv"
        )
    return X, Y


@pytest.fixture
def terminal(tmp_path):
    """Start a command in a terminal of 80 columns, in the folder of the data."""
    children = []

    def start(*arguments):
        child = pexpect.spawn(
            sys.executable,
            ["-m", "genelin.cli.main", *arguments],
            cwd=str(tmp_path),
            env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "80"},
            dimensions=(30, 80),
            encoding="utf-8",
            timeout=60,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.close(force=True)


def ended(child):
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


def test_progress_interrupt_and_resume(views, terminal, tmp_path):
    child = terminal("cca", "x.csv", "y.csv", *SLOW, "--no-report", "-o", "out")
    child.expect("reading x.csv and y.csv")
    child.expect(rf"fitting 2 pairs of x.csv \({ROWS:,} × {FEATURES}\)")
    child.expect(r"\d:\d\d:\d\d.* left .*iteration \d+, [\d.]+ passes, residual \d\.\de[-+]\d+")
    child.expect(r"iteration \d\d+,")  # the line is drawn again
    child.sendintr()
    child.expect(r"interrupted; what was found so far is in out/checkpoint, go on with: (.*)")
    lines = child.match[1]
    assert ended(child) == 130
    command = shlex.split(re.sub(r"\s+", " ", lines + child.before).strip())
    assert command[0] == "genelin"
    assert command[-1] == "--resume"
    assert os.listdir(tmp_path / "out") == ["checkpoint"]

    child = terminal(*command[1:])
    child.expect("2 pairs, all certified to")
    assert "\x1b[" in child.before  # drawn for a terminal
    assert ended(child) == 0
    found = json.loads((tmp_path / "out/run.json").read_text())
    np.testing.assert_allclose(
        found["correlations"], top_k_cca(*views, k=2, tol=1e-10).correlations, atol=1e-8
    )
    trace = [json.loads(line) for line in (tmp_path / "out/trace.jsonl").read_text().splitlines()]
    assert [record["iteration"] for record in trace] == list(range(1, len(trace) + 1))
    assert len(trace) > 10  # those before the interrupt are in it
    assert not (tmp_path / "out/checkpoint").exists()


def test_an_interrupt_without_a_folder_keeps_nothing(views, terminal, tmp_path):
    child = terminal("cca", "x.csv", "y.csv", *SLOW)
    child.expect(r"iteration \d+,")
    child.sendintr()
    child.expect("interrupted; nothing is kept without -o")
    assert ended(child) == 130
    assert sorted(os.listdir(tmp_path)) == ["x.csv", "y.csv"]
