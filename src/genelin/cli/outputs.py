"""Results as files: written aside, and put in place together once all are complete."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

import click

from genelin.cli.console import jsonable
from genelin.cli.exit_codes import BadInputError, StoppedError, explained

__all__ = [
    "SCORES",
    "Output",
    "RunFolder",
    "ending",
    "interruptible",
    "score_columns",
    "write_arrays",
    "write_json",
    "write_scores",
    "write_trace",
]

CHECKPOINT = "checkpoint"
SCORES = (".parquet", ".csv")


def ending(solution: Any) -> dict[str, Any]:
    """How a run ended, for its record."""
    return {
        "sin_theta_bound": solution.sin_theta_bound,
        "gap_certified": solution.gap_certified,
        "converged": solution.converged,
        "status": solution.status.label,
        "advice": solution.status.advice,
        "iterations": len(solution.trace),
        "cost": asdict(solution.cost),
        "route": solution.route,
    }


class Output:
    """A folder that gets its files at once: `path(name)` to write to, then `publish()`.

    Parameters
    ----------
    folder : where the files go; made if it is not there.
    names : of the files and folders that may be written.
    force : whether they may replace others.
    """

    def __init__(self, folder: str | Path, names: Iterable[str], force: bool = False) -> None:
        self.folder, self.names = Path(folder), list(names)
        there = [name for name in self.names if (self.folder / name).exists()]
        if there and not force:
            raise BadInputError(
                f"{self.folder / there[0]} is there already: name another place with -o, or let it "
                "be replaced with --force"
            )
        if self.folder.exists() and not self.folder.is_dir():
            raise BadInputError(f"{self.folder} is a file: name a folder with -o")

    def __enter__(self) -> Output:
        self._made = _make_folders(self.folder)
        self._aside = Path(tempfile.mkdtemp(prefix=".writing-", dir=self.folder))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        shutil.rmtree(self._aside, ignore_errors=True)
        for folder in reversed(self._made):  # only those that stayed empty go
            if not any(folder.iterdir()):
                folder.rmdir()

    def path(self, name: str) -> Path:
        """Where to write the file that will be called `name`."""
        return self._aside / name

    def publish(self) -> dict[str, str]:
        """Put everything in place; name → path."""
        placed = {}
        for name in self.names:
            if self.path(name).exists():
                _move(self.path(name), self.folder / name)
                placed[name] = str(self.folder / name)
        return placed


def _move(source: Path, target: Path) -> None:
    """Rename a file, or all files of a folder."""
    if not source.is_dir():
        os.replace(source, target)
        return
    target.mkdir(exist_ok=True)
    for part in source.iterdir():
        _move(part, target / part.name)


class RunFolder(Output):
    """The folder of a run: its results, and the checkpoint of one that did not end.

    Parameters
    ----------
    folder, names, force : as for `Output`.
    resume : go on with the checkpoint that is there.
    """

    def __init__(
        self, folder: str | Path, names: Iterable[str], force: bool = False, resume: bool = False
    ) -> None:
        super().__init__(folder, names, force)
        self.checkpoint, self.resume = self.folder / CHECKPOINT, resume
        if resume and not self.kept:
            raise BadInputError(
                f"{self.checkpoint} is not there, so there is nothing to resume: leave --resume out"
            )
        if self.kept and not resume and not force:
            raise BadInputError(
                f"{self.checkpoint} is there from a run that did not end: go on with --resume, or "
                "begin anew with --force"
            )

    def __enter__(self) -> RunFolder:
        super().__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.checkpoint.is_dir() and not self.kept:
            self.checkpoint.rmdir()
        super().__exit__(kind, error, traceback)

    def begin(self) -> dict[str, Any]:
        """Clear the place for a new run, or not; what `CCA` and `top_k` are to know of it."""
        if not self.resume:
            self.forget()
        return {"checkpoint": str(self.checkpoint), "resume": self.resume}

    def publish(self, ended: bool = True) -> dict[str, str]:
        """Put everything in place; the checkpoint goes, unless the run can go on.

        Files of an earlier run that this one does not replace would tell of another: they go too.
        """
        placed = super().publish()
        for name in self.names:
            if name not in placed:
                (self.folder / name).unlink(missing_ok=True)
        if ended:
            self.forget()
        return placed

    def forget(self) -> None:
        """Remove the checkpoint."""
        shutil.rmtree(self.checkpoint, ignore_errors=True)

    @property
    def kept(self) -> bool:
        """Whether there is something to go on with."""
        return self.checkpoint.is_dir() and any(self.checkpoint.iterdir())

    def how_to_go_on(self) -> str:
        """Where the checkpoint is, and the command that uses it."""
        given = click.get_current_context().obj
        words = [word for word in given if word not in ("--resume", "--force")]
        forced = ["--force"] if "--force" in given else []
        command = shlex.join(["genelin", *words, "--resume", *forced])
        return f"what was found so far is in {self.checkpoint}, go on with: {command}"


@contextmanager
def interruptible(folder: RunFolder | None) -> Iterator[None]:
    """Ctrl-C, or no space for the results, end the command: say how to go on."""
    try:
        yield
    except KeyboardInterrupt as error:
        if folder is None:
            raise StoppedError("interrupted; nothing is kept without -o") from error
        if not folder.kept:
            raise StoppedError("interrupted before there was anything to keep") from error
        raise StoppedError(f"interrupted; {folder.how_to_go_on()}") from error
    except OSError as error:
        if folder is None or not folder.kept:
            raise
        raise BadInputError(f"{explained(error)}; {folder.how_to_go_on()}") from error


def run_folder(
    folder: str | None, names: Iterable[str], force: bool, resume: bool
) -> AbstractContextManager[RunFolder | None]:
    """The folder of a run; None where nothing is to be kept."""
    if folder is not None:
        return RunFolder(folder, names, force, resume)
    if resume:
        raise BadInputError("--resume needs the folder of the run that did not end: give -o too")
    return nullcontext()


def _make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it; the new ones, outermost first."""
    new = []
    for part in (folder, *folder.parents):
        if part.exists():
            break
        new.append(part)
    for part in reversed(new):
        part.mkdir(exist_ok=True)
    return new[::-1]


def score_columns(*scores: Any) -> dict[str, Any]:
    """Scores of x, or of x and y, as columns x1 … xk and y1 … yk."""
    views = zip("xy", scores, strict=False)
    return {f"{view}{j + 1}": S[:, j] for view, S in views for j in range(S.shape[1])}


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """What np.load reads as np.savez's; NumPy 1 leaves the file open where the disk is full."""
    from numpy.lib import format as npy

    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                npy.write_array(file, array, allow_pickle=False)


def write_scores(path: Path, columns: Mapping[str, Any]) -> None:
    """A table of scores, Parquet or CSV by its suffix."""
    import polars as pl

    frame = pl.DataFrame(dict(columns))
    try:
        if path.suffix == ".csv":
            frame.write_csv(path)
        else:
            frame.write_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:  # which keeps its number to itself
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        code = int(number[1])
        raise OSError(code, os.strerror(code), str(path)) from error


def write_trace(path: Path, trace: Iterable[Any]) -> None:
    """A line of JSON for every outer iteration."""
    with path.open("w", encoding="utf-8") as file:
        for record in trace:
            file.write(json.dumps(jsonable(vars(record)), allow_nan=False) + "\n")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """One object, to be read by people too."""
    text = json.dumps(jsonable(content), indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
