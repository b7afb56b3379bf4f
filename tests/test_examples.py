"""The examples run, and what they print is what they promise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def run():
    def run(name):
        command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
        env = os.environ | {"MPLBACKEND": "template"}  # draws nothing, shows nothing
        result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


def after(text, label, count=1):
    """The first numbers that follow a label."""
    found = re.findall(r"-?\d+\.\d+", text.split(label, 1)[1])[:count]
    return float(found[0]) if count == 1 else [float(number) for number in found]


def test_bilingual_retrieval(run):
    out = run("bilingual_retrieval")
    assert after(out, "precision at 1:") > 0.95
    assert after(out, "mean reciprocal rank:") > 0.95
    assert out.count("→") == 3


def test_word_vectors(run):
    out = run("word_vectors")
    assert after(out, "neighbours of the same kind:") > 0.95
    animals = {"dog", "cat", "horse", "cow", "pig", "goat", "fox", "wolf"}
    assert set(re.search(r"dog: (.*)", out).group(1).split(", ")) <= animals


def test_digit_halves(run):
    out = run("digit_halves")
    left, right = after(out, "canonical scores", 2)
    pixels = after(out, "pixels", 2)
    assert left > 0.8
    assert right > 0.6
    assert pixels[1] < 0.2  # pixels of one half say nothing about the other


def test_clusters_and_regression(run):
    out = run("clusters_and_regression")
    raw, scores = after(out, "features of X", 2), after(out, "canonical scores", 2)
    assert scores[0] > raw[0] + 0.5
    assert scores[1] > raw[1] + 0.2


def test_pipelines(run):
    out = run("pipelines")
    lines = [line for line in out.splitlines() if "correlation of test scores" in line]
    assert len(lines) == 2
    for line in lines:
        chosen = after(line, "test scores")
        bare = float(re.search(r": (-?[\d.]+)\)$", line).group(1))
        assert chosen > bare + 0.01
