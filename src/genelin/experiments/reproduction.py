"""One command for the paper's figures and tables: run, put on record, draw from the records."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path

from genelin.datasets import digits_halves
from genelin.datasets.fetch import only_in
from genelin.experiments.cases import Case, large_cases, mnist_case, ptb_case
from genelin.experiments.convergence import convergence_runs
from genelin.experiments.drawing import markdown, require_matplotlib
from genelin.experiments.figure1 import draw_figure1
from genelin.experiments.figure2 import draw_figure2
from genelin.experiments.figure3 import draw_figure3, large_runs
from genelin.experiments.growth import draw_table
from genelin.experiments.records import RunRecord, read_records, write_records
from genelin.experiments.sweeps import TABLES, exact_views, table_runs
from genelin.experiments.warm_start import draw_warm_start, warm_start_runs
from genelin.io import write_atomically

__all__ = ["reproduce"]

WHAT = ("mnist", "ptb", "url", "solvers", "theory", "all")


def reproduce(
    what: str,
    out: str | Path = "out/reproduction",
    *,
    data: str | Path | None = None,
    quick: bool = False,
) -> list[Path]:
    """Run the paper's experiments and draw its figures and tables; `docs/reproduction.md` says how.

    Runs are put on record first, as lines of JSON in `out`, and figures are drawn from the records
    alone. Progress goes to the standard error stream. Nothing is downloaded: data that are not at
    hand are replaced by those that come with scikit-learn or are generated, and labelled so.

    Parameters
    ----------
    what : "mnist" and "ptb" are Figures 1 and 2, "url" is Figure 3, "solvers" is Table 3, "theory"
        is Tables 1 and 2 and the growth in ε with warm and cold starts. "all" is everything, with
        Table 4; without the URL data it runs Figure 3 on generated data of a tenth of the paper's
        size, where "url" by itself takes all of it.
    out : folder for records, figures (PNG and SVG) and tables (Markdown).
    data : the folder with `mnist/`, `ptb/`, `debian/`, `url_svmlight/`, and no other place; None
        looks in GENELIN_DATA and the user's cache.
    quick : small problems, to see whether everything works; not a reproduction.

    Returns
    -------
    The files that were written.

    Examples
    --------
    >>> from genelin.experiments import reproduce
    >>> reproduce("figure 4")
    Traceback (most recent call last):
        ...
    ValueError: what='figure 4' must be 'mnist', 'ptb', 'url', 'solvers', 'theory' or 'all'
    """
    if what not in WHAT:
        listed = ", ".join(repr(name) for name in WHAT[:-1])
        raise ValueError(f"what={what!r} must be {listed} or {WHAT[-1]!r}")
    if data is not None and not Path(data).is_dir():
        raise ValueError(f"data={str(data)!r} is not a folder: name the one that holds mnist/, …")
    require_matplotlib()
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"out={str(out)!r} is a file: name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    with nullcontext() if data is None else only_in(Path(data)):
        if what != "all":
            return PARTS[what](folder, quick)
        written = [
            path for name, part in PARTS.items() if name != "url" for path in part(folder, quick)
        ]
        written += _url(folder, quick, full=False)
        return [*written, _table4(folder, written)]


# --- The parts ---------------------------------------------------------------------------------


def _mnist(folder: Path, quick: bool) -> list[Path]:
    return _convergence(folder, "mnist", mnist_case(quick), quick)


def _ptb(folder: Path, quick: bool) -> list[Path]:
    return _convergence(folder, "ptb", ptb_case(quick), quick)


def _convergence(folder: Path, name: str, case: Case, quick: bool) -> list[Path]:
    path = _on_record(folder / f"{name}.jsonl", convergence_runs(case, 1 if quick else 5))
    runs = read_records(path)
    figure1 = draw_figure1(runs, folder, f"figure1-{name}")
    return [path, *figure1, *draw_figure2(runs, folder, f"figure2-{name}")]


def _url(folder: Path, quick: bool, full: bool = True) -> list[Path]:
    written: list[Path] = []
    for case in large_cases(quick, full):
        name = case.views.name.split(",")[0].lower().replace(" ", "-")
        path = _on_record(folder / f"url-{name}.jsonl", large_runs(case))
        figure = draw_figure3(read_records(path), folder, f"figure3-{name}")
        written += [path, *figure]
    return written


def _solvers(folder: Path, quick: bool) -> list[Path]:
    return _table(folder, 3, quick)


def _theory(folder: Path, quick: bool) -> list[Path]:
    written = [*_table(folder, 1, quick), *_table(folder, 2, quick)]
    epsilons = tuple(10.0**-j for j in range(2, 6 if quick else 11))
    cases = (
        ("exact", exact_views(1000, 50, k=3, kappa=100.0, rho=0.2), 3, 0.0),
        ("digits", digits_halves(), 5, 1e-2),
    )
    groups = []
    for name, views, k, reg in cases:
        runs = warm_start_runs(views, k, reg, epsilons)
        written.append(_on_record(folder / f"warm-start-{name}.jsonl", runs))
        groups.append(read_records(written[-1]))
    return [*written, *draw_warm_start(groups, folder, "warm-start")]


def _table(folder: Path, number: int, quick: bool) -> list[Path]:
    table = TABLES[number]
    path = _on_record(folder / f"table{number}.jsonl", table_runs(table, quick))
    return [path, *draw_table(table, read_records(path), folder, f"table{number}")]


def _table4(folder: Path, written: list[Path]) -> Path:
    """Table 4, the data sets: those that were used."""
    header = ("data set", "in place of", "d₁", "d₂", "n", "sparsity")
    rows = []
    for path in written:
        if path.suffix != ".jsonl" or path.name.startswith(("table", "warm")):
            continue
        run = read_records(path)[0]
        p = run.problem
        sizes = (f"{p['d1']:,}", f"{p['d2']:,}", f"{p['n']:,}", f"{p['density']:.2g}")
        rows.append((run.dataset, p["stands_for"] or "itself", *sizes))
    target = folder / "table4.md"
    write_atomically(target, markdown(header, rows).encode())
    return target


PARTS: dict[str, Callable[[Path, bool], list[Path]]] = {
    "mnist": _mnist,
    "ptb": _ptb,
    "url": _url,
    "solvers": _solvers,
    "theory": _theory,
}


def _on_record(path: Path, runs: Iterable[RunRecord]) -> Path:
    """Write runs as they end, so that a broken series leaves what it has; and say so."""
    done: list[RunRecord] = []
    began = time.perf_counter()
    for run in runs:
        done.append(run)
        write_records(path, done)
        last = run.points[-1]
        print(
            f"{path.stem:<22} {run.problem['label']:<26} sin θ {last.sin_theta_b:7.1e}  "
            f"PCC {last.pcc:.6f}  {last.flops:8.2e} flops  "
            f"{time.perf_counter() - began:7.1f} s",
            file=sys.stderr,
            flush=True,
        )
    return path
