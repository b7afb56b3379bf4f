"""`genelin eig`: top-k generalized eigenvectors of matrices in files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from genelin.cli.exit_codes import BadInputError, ExitCode
from genelin.cli.options import SOLVERS, MethodChoice, force, json_flag, method_of

if TYPE_CHECKING:
    from genelin.cli.outputs import RunFolder

__all__ = ["eig"]

FILES = ("eigen.npz", "trace.jsonl", "run.json")


@click.command(short_help="Top-k generalized eigenvectors of two matrices, A v = λ B v.")
@click.argument("a", metavar="A", type=click.Path())
@click.argument("b", metavar="[B]", type=click.Path(), required=False)
@click.option(
    "-k", "k", type=click.IntRange(min=1), default=1, show_default=True, help="Number of pairs."
)
@click.option(
    "--which",
    type=click.Choice(["LM", "LA", "SA"]),
    default="LM",
    show_default=True,
    help="Largest magnitude, largest, or smallest algebraic value.",
)
@click.option(
    "--tol", type=float, default=1e-8, show_default=True, help="Largest residual of a pair."
)
@click.option(
    "--max-iter", type=click.IntRange(min=1), help="Most outer iterations (with --method)."
)
@click.option(
    "--method",
    type=MethodChoice("pencils"),
    default="auto",
    show_default=True,
    help="How to solve; auto takes the cheapest way.",
)
@click.option("--solver", type=click.Choice(SOLVERS), help="Linear solver inside genelin(k).")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of the random start.")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    metavar="FOLDER",
    help="Keep eigen.npz (values, vectors, residuals), trace.jsonl and run.json there.",
)
@click.option("--resume", is_flag=True, help="Go on where an interrupted run was.")
@force
@json_flag
def eig(
    a: str,
    b: str | None,
    k: int,
    output: str | None,
    resume: bool,
    force: bool,
    as_json: bool,
    **settings: Any,
) -> int:
    """Find the top-k eigenpairs of A v = λ B v, for symmetric A and positive definite B.

    A and B are .npy, .npz (scipy.sparse) or .mtx files; without B it is the identity.
    """
    from genelin.cli.console import Screen
    from genelin.cli.outputs import interruptible, run_folder
    from genelin.cli.read_views import read_matrix

    screen = Screen(as_json)
    with run_folder(output, FILES, force, resume) as folder, interruptible(folder):
        A, B = read_matrix(a), None if b is None else read_matrix(b)
        if k > A.shape[0]:
            raise BadInputError(f"-k {k} is more than the size of {a}, {A.shape[0]}: ask for fewer")
        kept = {} if folder is None else folder.begin()
        solution = _solved(screen, A, B, k, kept, **settings)
        record = _record(a, b, solution, {"k": k, **settings}) | {"warnings": screen.warnings}
        if folder is not None:
            _write(folder, solution, record)
            record["files"] = folder.publish(ended=solution.converged)
    _show(screen, record)
    return ExitCode.DONE if solution.converged else ExitCode.NOT_CONVERGED


def _solved(screen: Any, A: Any, B: Any, k: int, kept: dict[str, Any], **settings: Any) -> Any:
    from genelin import top_k
    from genelin.estimators.progress import showing

    tol, max_iter = settings["tol"], settings["max_iter"]
    if max_iter is not None and settings["method"] == "auto":
        raise BadInputError("--max-iter belongs to an iterative method: give --method davidson too")
    method = method_of(settings["method"], settings["solver"], max_iter)
    with screen.listening(), showing(0 if screen.as_json else 1, tol, "eigenpairs") as progress:
        solution = top_k(
            A,
            B,
            k,
            method=method,
            tol=tol,
            which=settings["which"],
            rng=settings["seed"],
            callback=progress,
            **kept,
        )
        if progress is not None:
            progress.finish(solution)
    return solution


def _record(a: str, b: str | None, solution: Any, settings: dict[str, Any]) -> dict[str, Any]:
    from genelin.cli.outputs import ending

    return {
        "command": "eig",
        "values": solution.values,
        "residuals": solution.residuals,
        **ending(solution),
        "settings": settings,
        "inputs": [a, b],
    }


def _write(folder: RunFolder, solution: Any, record: dict[str, Any]) -> None:
    from genelin.cli.outputs import write_arrays, write_json, write_trace

    arrays = {name: getattr(solution, name) for name in ("values", "vectors", "residuals")}
    write_arrays(folder.path("eigen.npz"), arrays)
    write_trace(folder.path("trace.jsonl"), solution.trace)
    write_json(folder.path("run.json"), record)


def _show(screen: Any, record: dict[str, Any]) -> None:
    pairs = zip(record["values"], record["residuals"], strict=True)
    rows = ([f"{j}", f"{value:.9g}", f"{error:.1e}"] for j, (value, error) in enumerate(pairs, 1))
    screen.table(["pair", "eigenvalue", "error ≤"], rows)
    screen.verdict(record)
    screen.result(record)
