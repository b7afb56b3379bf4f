"""Read one file after the other, in a process that may be lost: `python -m fuzz.reading`.

A line of JSON on standard input names a format, a path and how many bytes of memory may be taken; a
line on standard output says how the reading ended, and which promise it broke.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fuzz.honest import PENCIL, D, N
from fuzz.oracle import honest_reading

__all__ = ["CONSTANT", "main"]

CONSTANT = 1 << 26  # bytes that reading may take besides twice the honest size
ROOM = 6 << 30  # bytes of address space beyond which nothing is given
SMALL = 1 << 24  # numbers that are compared one by one
LONGEST = 1200  # letters of a message


@dataclass(frozen=True)
class Ending:
    """How a route ended; the defect is empty where there is none."""

    word: str
    defect: str = ""


def main() -> None:
    """Answer requests until there are no more."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (ROOM, resource.RLIM_INFINITY))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        request = json.loads(line)
        endings = [
            _ending(route, request["format"], Path(request["path"]), request["honest"])
            for route in ROUTES[request["format"]](Path(request["path"]))
        ]
        defects = [ending.defect for ending in endings if ending.defect]
        word = "+".join(sorted({ending.word for ending in endings}))
        spent = _status("VmSize") > ROOM * 5 // 6  # which libraries keep, file after file
        answers.write(json.dumps({"ending": word, "defects": defects, "spent": spent}) + "\n")
        answers.flush()


def _ending(route: Callable[[Path], Any], kind: str, path: Path, honest: int) -> Ending:
    """Play one route: what is read must be right, what is refused must be explained."""
    before = _begin()
    try:
        found = route(path)
    except (Exception, _rust_panic()) as error:
        taken = _peak() - before
        defect = _badly_refused(error, path)
        if not defect and taken > 2 * honest + CONSTANT:
            defect = f"{taken:,} bytes were taken before a file of {honest:,} was refused: {error}"
        return Ending("refused", defect and f"{route.__name__}: {defect}")
    taken = _peak() - before
    defect = _badly_read(found, kind, path, route is viewed)
    if not defect and taken > 2 * honest + CONSTANT + 4 * _size(found):
        defect = f"{taken:,} bytes were taken by a file of {honest:,}"
    return Ending("read", defect and f"{route.__name__}: {defect}")


def _rust_panic() -> type[BaseException]:
    """What Polars raises over its own mistakes, which is no Exception."""
    from polars.exceptions import PanicException

    return PanicException


def _begin() -> int:
    """Forget the highest memory so far, and say what is used now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return _status("VmRSS")


def _peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])
    raise LookupError(name)


def _badly_refused(error: BaseException, path: Path) -> str:
    """Why a refusal is none that a user should see."""
    from genelin.cli.exit_codes import BadInputError
    from genelin.errors import DataError

    text, shown = str(error), "".join(traceback.format_exception(error))[-3000:]
    if not isinstance(error, DataError | BadInputError) and type(error) is not ValueError:
        return f"raw {type(error).__name__}: {shown}"
    if path.name not in text and path.parent.name not in text:
        return f"the message does not name the file: {text}\n{shown}"
    if "\n" in text or len(text) > LONGEST or not text.isprintable():
        return f"the message is not one sentence: {text!r}"
    return ""


def _size(found: Any) -> int:
    """Bytes of what was read."""
    if sparse.issparse(found):
        return int(found.data.nbytes + found.indices.nbytes + found.indptr.nbytes)
    return int(getattr(found, "nbytes", 0))


def _badly_read(found: Any, kind: str, path: Path, by_polars: bool) -> str:
    """Why what was read cannot be right.

    Polars reads columns without their checksums and where metadata contradict each other in what it
    does not need: of what PyArrow refuses, it must find as many rows and columns, and numbers.
    """
    if found is None:
        return ""
    if len(found.shape) != 2 or 0 in found.shape:
        return f"a matrix of shape {found.shape}"
    if found.dtype.kind not in "biuf":
        return f"a matrix of {found.dtype}"
    if found.shape[0] * found.shape[1] > SMALL:
        return ""
    if sparse.issparse(found):
        found.check_format(full_check=True)
    try:
        expected = honest_reading(kind, path)
    except Exception as error:
        if by_polars and kind in ("parquet", "arrow") and found.shape == (N, D):
            return ""
        return f"an honest reader refuses it: {type(error).__name__}: {error}"
    if expected is None:
        return ""
    got = (found.toarray() if sparse.issparse(found) else np.asarray(found)).astype(np.float64)
    if got.shape != expected.shape:
        return f"shape {got.shape}, an honest reader finds {expected.shape}"
    if not np.allclose(got, expected, rtol=1e-6, atol=0, equal_nan=True):
        i, j = np.argwhere(~np.isclose(got, expected, rtol=1e-6, atol=0, equal_nan=True))[0]
        return f"entry ({i}, {j}) is {got[i, j]}, an honest reader finds {expected[i, j]}"
    return ""


# --- Routes ------------------------------------------------------------------------------------


def opened(path: Path) -> Any:
    """`open_rows`, everything looked at, and loaded."""
    from genelin.io import open_rows

    rows = open_rows(path)
    rows.verify()
    return rows.load()


def viewed(path: Path) -> Any:
    """What `genelin cca` reads."""
    from genelin.cli.read_views import read_view

    rows = read_view(str(path)).rows
    return rows.load() if hasattr(rows, "load") else rows


def converted(path: Path) -> Any:
    """What `genelin.io.convert` reads."""
    from genelin.io import convert

    with tempfile.TemporaryDirectory() as folder:
        return convert(path, Path(folder) / "rows").load()


def parsed(path: Path) -> Any:
    """An svmlight file in memory."""
    from genelin.io.formats.svmlight import read_svmlight

    return read_svmlight(path)[0]


def restored(path: Path) -> None:
    """A saved model, which must be of use."""
    from genelin import CCA

    _use(CCA.load(path), path)


def _use(cca: Any, path: Path) -> None:
    """A model that was read transforms rows; overflow is its weights' own affair."""
    x, y = len(cca.x_weights_), len(cca.y_weights_)
    if x + y > 10_000:
        return
    scores = cca.transform(np.ones((3, x)), np.ones((3, y)))
    if any(np.isnan(part).any() for part in scores):
        raise AssertionError(f"{path}: scores are NaN")


def resumed(path: Path) -> None:
    """A run that goes on from a checkpoint."""
    from genelin import Davidson, top_k

    found = top_k(PENCIL, k=2, method=Davidson(), checkpoint=path.parent, resume=True)
    if found.values.shape != (2,) or not np.allclose(found.values, [40.0, 39.0], rtol=1e-5):
        raise AssertionError(f"{path}: a resumed run finds {found.values}")


def of_run(path: Path) -> None:
    """The folder of a run of `genelin cca`."""
    from genelin.cli.commands.transform_command import load_model

    cca, names = load_model(str(path.parent))
    assert all(isinstance(name, str) for part in names.values() for name in part), names
    _use(cca, path)


def of_experiments(path: Path) -> None:
    """Records of runs, which can be shown."""
    from genelin.experiments.records import read_records

    for run in read_records(path):
        repr(run)


def of_words(path: Path) -> Any:
    """A text as a data set."""
    from genelin.datasets import ptb_bigrams

    return ptb_bigrams(path).X


def of_paths(path: Path) -> Any:
    """An index of Debian as a data set."""
    from genelin.datasets import debian_paths

    return debian_paths(path, seen=2).X


def of_urls(path: Path) -> Any:
    """URLs as a data set."""
    from genelin.datasets import url_reputation

    return url_reputation(path, columns=2 * D).X


def _always(*routes: Callable[[Path], Any]) -> Callable[[Path], Iterator[Callable[[Path], Any]]]:
    return lambda path: iter(routes)


def _of_text(path: Path) -> Iterator[Callable[[Path], Any]]:
    """Only plain files of commas can be converted."""
    yield viewed
    if path.suffix == ".csv":
        yield converted


def _of_npz(path: Path) -> Iterator[Callable[[Path], Any]]:
    yield viewed
    yield opened


ROUTES: dict[str, Callable[[Path], Iterator[Callable[[Path], Any]]]] = {
    "npy": _always(opened, viewed),
    "npz": _of_npz,
    "mtx": _always(viewed),
    "csv": _of_text,
    "tsv": _always(viewed),
    "parquet": _always(opened, viewed),
    "arrow": _always(opened, viewed),
    "svmlight": _always(converted, parsed),
    "h5ad": _always(opened, viewed),
    "zarr": _always(opened),
    "rows": _always(opened, viewed),
    "model": _always(restored),
    "solution": _always(resumed),
    "state": _always(resumed),
    "run": _always(of_run),
    "records": _always(of_experiments),
    "words": _always(of_words),
    "debian": _always(of_paths),
    "url": _always(of_urls),
}

if __name__ == "__main__":
    main()
