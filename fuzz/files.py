"""Damaged files of every format: they are read rightly, or refused in a sentence and at no cost.

A case damages a copy of a small honest file and has it read in another process, by every way in
which genelin reads the format (`fuzz.reading`). What is read must be what an honest reader finds; a
refusal must be of a type that users are told of, name the file, and come before memory is taken. A
process that ends or does not answer is a defect. `FUZZ_FILES` limits the formats, by names and
commas.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from fuzz import Defect
from fuzz.damage import copied, damaged
from fuzz.honest import FORMATS, VARIANTS

__all__ = ["attack", "play"]

PATIENCE = 20  # seconds for a file of kilobytes
FIRST = 120  # for an honest one, when libraries are loaded


class Reading:
    """The process that reads; another one takes its place when it is lost."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.spent = False  # whether most of its address space is taken

    def ask(self, kind: str, path: Path, honest: int, patience: float = PATIENCE) -> dict:
        """How a file was read."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fuzz.reading"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=Path(__file__).parent.parent,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"format": kind, "path": str(path), "honest": honest}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)
            if not waiting.select(patience):
                self._lose()
                raise Defect(f"{path}: no answer in {patience} s")
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            self._lose()
            raise Defect(f"{path}: the process ended with code {code}")
        answer: dict = json.loads(line)
        self.spent = answer["spent"]
        return answer

    def renew(self) -> None:
        """Let another process take its place if it is spent."""
        if self.spent:
            self._lose()

    def _lose(self) -> None:
        if self.process is not None:
            with self.process as process:  # which closes its pipes
                process.kill()
        self.process, self.spent = None, False
        _honest.cache_clear()  # the next one is to load libraries on honest files


READING = Reading()
atexit.register(READING._lose)


@cache
def _honest(kind: str, variant: str) -> tuple[Path, int]:
    """An honest file, read as it is; and its bytes, packed or not."""
    folder = Path(_home()) / f"{kind} {variant}".strip().replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = VARIANTS[kind][0](folder, variant)
    files = [file for file in folder.rglob("*") if file.is_file()]
    honest = sum(file.stat().st_size for file in files) + 8 * 60 * 60
    copy = copied(path, folder.with_name("whole"))
    answer = READING.ask(kind, copy, 1 << 32, FIRST)
    shutil.rmtree(copy.parent)
    allowed = {"read"} if kind != "npz" else {"read", "read+refused"}
    if answer["defects"] or answer["ending"] not in allowed:
        raise Defect(f"an honest file, {kind} {variant}: {answer}")
    return path, honest


@cache
def _home() -> str:
    home = tempfile.mkdtemp(prefix="genelin-files-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def attack(rng: np.random.Generator) -> str:
    """Damage a file of some format."""
    formats = os.environ.get("FUZZ_FILES", ",".join(FORMATS)).split(",")
    return play(formats[rng.integers(len(formats))], rng)


def play(kind: str, rng: np.random.Generator) -> str:
    """Damage a file of one format."""
    READING.renew()
    variants = VARIANTS[kind][1]
    path, honest = _honest(kind, variants[rng.integers(len(variants))])
    case = Path(_home()) / "case"
    try:
        copy = copied(path, case)
        by, refuse = damaged(kind, copy, rng)
        answer = READING.ask(kind, copy, honest)
        if answer["defects"]:
            raise Defect(f"{kind}, {by}: " + "\n".join(answer["defects"]))
        if refuse and answer["ending"] != "refused":
            raise Defect(f"{kind}: a {by} is {answer['ending']}")
    finally:
        kept = os.environ.get("FUZZ_KEEP")
        if kept and case.exists():
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(case, kept, symlinks=True, ignore=lambda *_: [])
        shutil.rmtree(case, ignore_errors=True)
    return f"{kind} {answer['ending']}"
