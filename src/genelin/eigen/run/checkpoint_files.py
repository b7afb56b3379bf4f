"""Checkpoints: what a run needs to go on, in one file that is whole or not there at all."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from genelin.eigen.run.checkpointer import Checkpointer, State
from genelin.errors import CheckpointWarning
from genelin.io.archive import damaged, load_archive, save_archive
from genelin.io.checkpoint import FILE, Checkpoint
from genelin.io.damaged_files import said
from genelin.io.random_state_json import plain_state, set_state
from genelin.io.solution_json import cost_of, solution_of, solution_parts, trace_arrays, trace_of
from genelin.results import CCASolution, EigenSolution, Status
from genelin.system.interrupts import uninterrupted

__all__ = ["FileCheckpointer"]

KIND, LAYOUT = "genelin.checkpoint", 1
STRANGE = (*(KeyError, TypeError, ValueError, AttributeError), *(IndexError, ArithmeticError))
SHARE = 20.0  # a write that took t seconds is not repeated for so many t
OPEN = (Status.STOPPED, Status.MAX_ITERATIONS)  # endings after which a run can still go on


class FileCheckpointer(Checkpointer):
    """A checkpointer with a file; as a context it writes what is new at the end.

    Parameters
    ----------
    checkpoint : where, and how often.
    rng : the generator of the run.
    resume : continue what is there.
    """

    def __init__(
        self, checkpoint: Checkpoint, rng: np.random.Generator, resume: bool = False
    ) -> None:
        self._checkpoint, self._rng, self.path = checkpoint, rng, checkpoint.path
        self._about: dict[str, Any] = {}  # data, settings and machine of this run
        self._found: tuple[Any, dict[str, Any]] | None = None  # what an earlier run has left
        self._state: State | None = None
        self._random: Any = None
        self.solution: EigenSolution | CCASolution | None = None  # of a run that has ended
        self._fresh: tuple[State, Any] | None = None  # not on disk yet
        self._on_disk = ""
        _prepare(checkpoint)
        if resume:
            self._read()
        elif checkpoint.exists:
            _warn_of_replacing(checkpoint)
        self._written, self._took = time.monotonic(), 0.0

    @property
    def machine(self) -> Any:
        """What the plan of an earlier run depended on, None without one."""
        if self._found is None:
            return None
        with self.resuming():
            return self._found[0].get("machine")

    def compare(self, fingerprint: Mapping[str, Any], machine: Mapping[str, Any]) -> None:
        """Take over what an earlier run has left, if it is about the same data and settings.

        They are given as JSON; numbers {"numbers": …, "within": …} are compared up to rounding. A
        ValueError says what differs.
        """
        self._about = {"fingerprint": dict(fingerprint), "machine": dict(machine)}
        if self._found is None:
            return
        (header, arrays), self._found = self._found, None
        with self.resuming():
            different = _differences(header["fingerprint"], self._about["fingerprint"])
        if different:
            raise ValueError(
                f"the checkpoint in {str(self._checkpoint.folder)!r} does not match: "
                f"{'; '.join(different)}. Resume with the data and settings that it was made with, "
                "or start anew with resume=False or in another folder"
            )
        with self.resuming():
            self._adopt(header, arrays)

    @property
    def resumed(self) -> bool:  # type: ignore[override]
        """Whether an earlier run has left a state."""
        return self._state is not None

    def load(self) -> State | None:
        """The state of an earlier run; the random generator is set back to where it was."""
        if self._state is not None:
            self.restore_random()
        return self._state

    def restore_random(self) -> None:
        """Set the random generator to where the earlier run had it, if it is of the same kind."""
        try:
            if self._random["bit_generator"] == type(self._rng.bit_generator).__name__:
                set_state(self._rng.bit_generator, self._random)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise _beyond_use(damaged(self._checkpoint.path, f"{error}")) from error

    def save(self, state: State) -> None:
        """Take note of a state, and write it if the last write was long enough ago."""
        self._fresh = state, self._rng.bit_generator.state
        pause = max(self._checkpoint.every, SHARE * self._took if self._checkpoint.every else 0.0)
        if time.monotonic() - self._written >= pause:
            self._write_state()

    def undisturbed(self) -> AbstractContextManager[None]:
        """A context in which Ctrl-C waits."""
        return uninterrupted()

    @contextmanager
    def resuming(self) -> Iterator[None]:
        """A context for taking over a state: one that does not fit is said to be damaged."""
        try:
            yield
        except STRANGE as error:
            raise _strange(self._checkpoint, error) from error

    def finish(self, solution: EigenSolution | CCASolution) -> None:
        """Keep the answer; of a run that was stopped, or cut short, the last state."""
        if solution.status in OPEN:
            self._write_state()
            return
        header, arrays = solution_parts(solution)
        header["random"] = plain_state(self._rng.bit_generator.state)
        if self._wrote({"solution": header}, arrays, "the answer"):
            self._fresh = None

    def __enter__(self) -> FileCheckpointer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._write_state()

    # --- Writing ---------------------------------------------------------------------------------

    def _write_state(self) -> None:
        if self._fresh is None:
            return
        state, random = self._fresh
        cost = state.cost
        header = {
            "numbers": dict(state.numbers),
            "cost": [cost.passes, cost.applications, cost.flops, cost.seconds],
            "random": plain_state(random),
        }
        arrays = {f"state.{name}": array for name, array in state.arrays.items()}
        what = f"the state after {state.iterations} outer iterations"
        if self._wrote({"state": header}, arrays | trace_arrays(state.trace), what):
            self._fresh = None

    def _wrote(self, header: dict[str, Any], arrays: dict[str, Any], what: str) -> bool:
        """Write, or warn that it could not be done: what was there before stays."""
        header, began = header | self._about, time.monotonic()
        try:
            save_archive(self._checkpoint.path, KIND, LAYOUT, header, arrays)
        except (OSError, MemoryError) as error:
            kept = f"{self._on_disk} is still there" if self._on_disk else "nothing was kept so far"
            warnings.warn(
                f"checkpoint={str(self._checkpoint.folder)!r}: {what} could not be written "
                f"({error}); {kept}. The run itself is not affected.",
                CheckpointWarning,
                stacklevel=2,
            )
            return False
        finally:
            self._written = time.monotonic()
            self._took = self._written - began
        self._on_disk = what
        return True

    # --- Reading ---------------------------------------------------------------------------------

    def _read(self) -> None:
        checkpoint = self._checkpoint
        if not checkpoint.exists:
            warnings.warn(
                f"resume=True, but there is no checkpoint in {str(checkpoint.folder)!r}: starting "
                "anew",
                CheckpointWarning,
                stacklevel=2,
            )
            return
        self._found = _loaded(checkpoint.path)

    def _adopt(self, header: Any, arrays: dict[str, Any]) -> None:
        kept = header["solution"] if "solution" in header else header["state"]
        _check_random(kept["random"])
        if "solution" in header:
            self.solution = solution_of(header["solution"], arrays)
            self._random, self._on_disk = header["solution"]["random"], "the answer"
            return
        left, trace = kept, trace_of(arrays)
        blocks = {
            name.removeprefix("state."): array
            for name, array in arrays.items()
            if name.startswith("state.")
        }
        for name, block in blocks.items():
            numbers = block.ndim in (2, 3) and block.dtype.kind == "f"  # panels have three
            if not numbers or not np.all(np.isfinite(block)):
                raise ValueError(f"the array {name!r} is not a block of finite numbers")
        self._state = State(blocks, left["numbers"], list(trace), cost_of(left["cost"]))
        self._random = left["random"]
        self._on_disk = f"the state after {len(trace)} outer iterations"


def _prepare(checkpoint: Checkpoint) -> None:
    """Make the folder, and clear away what a killed process has left half written."""
    try:
        import safetensors  # noqa: F401 - before a long run, not after it
    except ImportError as error:
        raise ImportError('checkpoint= needs safetensors: pip install "genelin[io]"') from error
    folder = Path(checkpoint.folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise type(error)(
            f"checkpoint={str(folder)!r} cannot be used as a folder: {error}"
        ) from error
    for half in folder.glob(f".{FILE}.*"):
        half.unlink(missing_ok=True)


def _loaded(path: Path) -> tuple[Any, dict[str, Any]]:
    try:
        return load_archive(path, KIND, LAYOUT)
    except ValueError as error:
        raise _beyond_use(error) from error


def _strange(checkpoint: Checkpoint, error: Exception) -> ValueError:
    why = f"{type(error).__name__}: {said(error)}"
    return _beyond_use(damaged(checkpoint.path, why))


def _check_random(state: Any) -> None:
    """It must be the state of a bit generator that NumPy has."""
    kind = getattr(np.random, state["bit_generator"], None)
    if not isinstance(kind, type) or not issubclass(kind, np.random.BitGenerator):
        raise ValueError("its random numbers are of no kind that is known")
    set_state(kind(0), state)


def _beyond_use(error: ValueError) -> ValueError:
    return ValueError(f"{error}. Start anew with resume=False, which replaces it")


def _warn_of_replacing(checkpoint: Checkpoint) -> None:
    """An unfinished run is lost without resume=True: say so while it can still be had."""
    try:
        header, arrays = load_archive(checkpoint.path, KIND, LAYOUT)
        done = None if "solution" in header else len(arrays["trace"])
    except STRANGE:
        return  # damaged: nothing to lose
    if done is not None:
        warnings.warn(
            f"checkpoint={str(checkpoint.folder)!r} holds an unfinished run of {done} outer "
            "iterations, which this one replaces: pass resume=True to continue it",
            CheckpointWarning,
            stacklevel=2,
        )


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Of the data and settings of a checkpoint from those of this run."""
    names = [*now, *(name for name in before if name not in now)]
    return [
        f"{name} was {_shown(before.get(name))}, now {_shown(now.get(name))}"
        for name in names
        if not _agree(before.get(name), now.get(name))
    ]


def _agree(before: Any, now: Any) -> bool:
    if not isinstance(before, Mapping) or not isinstance(now, Mapping):
        return bool(before == now)
    old, new = (np.array(part["numbers"], dtype=np.float64) for part in (before, now))
    size = float(np.abs(new).max(initial=0.0))
    return old.shape == new.shape and bool(np.all(np.abs(old - new) <= now["within"] * size))


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({', '.join(f'{number:.6g}' for number in value['numbers'])})"
    return str(value)
