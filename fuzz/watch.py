"""Calls of genelin under watch: what may leave them is an answer, a refusal, or a known warning."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzz import Defect

__all__ = ["Outcome", "called", "own"]


@dataclass(frozen=True)
class Outcome:
    """What a call came to: its answer, or the error it refused with, and the warnings before."""

    answer: Any
    refusal: str  # empty where there is an answer
    kind: str  # the type of the refusal
    warned: tuple[str, ...]  # types of warnings
    by_genelin: bool = True  # whether a line of genelin refused, not one of a library it lets speak

    @property
    def refused(self) -> bool:
        """Whether it was refused with a message."""
        return bool(self.refusal)


def own(error: BaseException, libraries: tuple[str, ...] = ()) -> bool:
    """Whether a line of genelin (or of these libraries) raised an exception, and not one below."""
    frames = traceback.extract_tb(error.__traceback__)
    folders = frames[-1].filename.replace("\\", "/").split("/") if frames else []
    return any(name in folders for name in ("genelin", *libraries))


def called(
    f: Callable[[], Any],
    *,
    may: tuple[type[BaseException], ...] = (),
    libraries: tuple[str, ...] = (),
) -> Outcome:
    """Call f: an answer, or a ValueError or TypeError (or what it `may` raise) with a message.

    Any other exception, one that a library below genelin has raised (but for those named), and any
    warning that is not of genelin's own types are defects.
    """
    with (
        warnings.catch_warnings(record=True) as caught,
        np.errstate(divide="warn", over="warn", invalid="warn", under="ignore"),
    ):
        warnings.simplefilter("always")
        answer, refusal, kind, by_genelin = None, "", "", True
        try:
            answer = f()
        except (ValueError, TypeError, *may) as error:
            refusal, kind = str(error).strip(), type(error).__name__
            exact = type(error) in (ValueError, TypeError) or isinstance(error, may)
            by_genelin = own(error)
            if not refusal:
                raise Defect(f"{kind} without a message") from error
            if not own(error, libraries) or not (exact or _of_genelin(type(error))):
                raise Defect(f"{kind} of a library below genelin: {refusal}") from error
    strange = [w for w in caught if not _of_genelin(w.category)]
    if strange:
        first = strange[0]
        place = "/".join(first.filename.replace("\\", "/").split("/")[-3:])
        raise Defect(f"{first.category.__name__} at {place}:{first.lineno}: {first.message}")
    warned = tuple(w.category.__name__ for w in caught)
    return Outcome(answer, refusal, kind, warned, by_genelin)


def _of_genelin(kind: type) -> bool:
    return kind.__module__.split(".")[0] == "genelin"
