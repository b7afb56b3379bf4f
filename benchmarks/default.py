"""genelin's default against what an expert would run instead, on the same data, to one accuracy.

Every method has a process of its own, is timed from X and Y (A and B) to its vectors, and is judged
afterwards by one referee, in float64: the largest residual in the B⁻¹-norm, relative to |θ₁|, and
the sum of the values that its vectors attain (of −λ where the smallest are wanted: more is better).
A peer that misses the accuracy is run again with its own tolerance ten times tighter; one that does
not reach it is not repeated.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import linalg, sparse

import inputs
from genelin import top_k, top_k_cca
from harness import write
from peers import PENCIL, VIEWS, Counted, data_pair, gram_pair

try:
    import resource
except ImportError:  # Windows: memory has no limit
    resource = None

OURS = "genelin"
Facts = dict[str, Any]


# Tasks: what is solved, by whom, and how an answer is judged.


@dataclass(frozen=True)
class Views:
    """Canonical correlations of X and Y; `gram` says that their covariances are cheap to form."""

    X: Any
    Y: Any
    k: int
    reg: float
    tol: float = 1e-6
    center: bool = False
    gram: bool = True

    @property
    def size(self) -> int:
        """Stored entries."""
        return sum(Z.nnz if sparse.issparse(Z) else Z.size for Z in (self.X, self.Y))

    def solve(self, method: str, tol: float) -> tuple[Any, Facts]:
        """Weights by one method."""
        if method != OURS:
            return VIEWS[method](self.X, self.Y, self.k, self.reg, tol), {}
        found = top_k_cca(self.X, self.Y, self.k, reg=self.reg, center=self.center, tol=tol)
        return (found.x_weights, found.y_weights), claims(found)

    def judge(self, method: str, answer: Any) -> Facts:
        """TCC, and the residual of the pairs that the weights hold."""
        center = {"center": True} if self.center else {}
        A, B = (gram_pair if self.gram else data_pair)(self.X, self.Y, self.reg, **center)
        W_x, W_y = (np.array(W, dtype=float) for W in answer)
        only_x, only_y = np.zeros((2, A.shape[0], self.k))
        only_x[: len(W_x)], only_y[len(W_x) :] = W_x, W_y
        P, Q = orthonormal(only_x, B), orthonormal(only_y, B)
        U, values, Vt = np.linalg.svd(P.T @ (A @ Q))
        verdict = verdict_on(A, B, (P @ U + Q @ Vt.T) / np.sqrt(2), values)
        return verdict | ({"residual": None} if method == "sklearn CCA" else {})


@dataclass(frozen=True)
class Pencil:
    """Eigenpairs of A v = λ B v; matrices named in `hidden` are given as products only.

    `plain` says that B is the identity, which nobody is told of.
    """

    A: Any
    B: Any
    k: int
    which: str
    tol: float = 1e-6
    hidden: str = ""
    plain: bool = False

    @property
    def size(self) -> int:
        """Stored entries."""
        return sum(M.nnz if sparse.issparse(M) else M.size for M in (self.A, self.B))

    def solve(self, method: str, tol: float) -> tuple[Any, Facts]:
        """Vectors by one method; columns are counted where there are only products."""
        given = {name: getattr(self, name) for name in "AB"}
        given |= {name: Counted(given[name]) for name in self.hidden}
        given |= {"B": None} if self.plain else {}
        if method == OURS:
            found = top_k(**given, k=self.k, which=self.which, tol=tol)
            vectors, facts = found.vectors, claims(found)
        else:
            vectors, facts = PENCIL[method](*given.values(), self.k, self.which, tol), {}
        return vectors, facts | {f"{name}_columns": given[name].columns for name in self.hidden}

    def judge(self, method: str, answer: Any) -> Facts:
        """Values that the space of the vectors attains, and the residual of its pairs."""
        W = orthonormal(np.array(answer, dtype=float), self.B)
        theta, Q = np.linalg.eigh(W.T @ (self.A @ W))
        merit = {"LM": np.abs, "LA": np.positive, "SA": np.negative}[self.which]
        return verdict_on(self.A, self.B, W @ Q, theta, merit)


def claims(solution: Any) -> Facts:
    """What genelin says of its own answer."""
    return {
        "passes": solution.cost.passes,
        "status": solution.status.label,
        "claimed": float(np.linalg.norm(solution.residuals)),
        "sin_theta_bound": float(solution.sin_theta_bound),
    }


# The referee.


def orthonormal(W: Any, B: Any) -> Any:
    """The columns of W, made B-orthonormal, twice for accuracy."""
    for _ in range(2):
        W = W / np.sqrt(np.einsum("ij,ij->j", W, B @ W))
        L = np.linalg.cholesky(W.T @ (B @ W))
        W = linalg.solve_triangular(L, W.T, lower=True).T
    return W


def verdict_on(A: Any, B: Any, W: Any, theta: Any, merit: Any = np.positive) -> Facts:
    """The sum of the values, the largest residual of the pairs over |θ₁|, and that of all.

    The latter is the same for all bases of the eigenvectors of a multiple value.
    """
    R = A @ W - (B @ W) * theta
    norms = np.sqrt(np.einsum("ij,ij->j", R, solved(B, R)))
    first = float(np.abs(theta).max())
    return {
        "residual": float(norms.max()) / first,
        "together": float(np.linalg.norm(norms)),
        "total": float(merit(theta).sum()),
        "first": first,
    }


def solved(B: Any, R: Any, reduction: float = 1e-6, most: int = 20_000) -> Any:
    """B⁻¹R, by Cholesky if B is dense, else by conjugate gradients with Jacobi, by column."""
    if isinstance(B, np.ndarray):
        return linalg.cho_solve(linalg.cho_factor(B), R)
    inverse = 1 / B.diagonal()[:, None]
    E, rest, Z = np.zeros_like(R), R.copy(), inverse * R
    P, rho = Z, np.einsum("ij,ij->j", R, Z)
    goal = reduction**2 * rho
    for _ in range(most):
        active = rho > goal
        if not active.any():
            break
        BP = B @ P
        step = np.where(active, rho / np.maximum(np.einsum("ij,ij->j", P, BP), 1e-300), 0.0)
        E, rest = E + P * step, rest - BP * step
        Z = inverse * rest
        rho, old = np.einsum("ij,ij->j", rest, Z), rho
        P = Z + P * (rho / np.maximum(old, 1e-300))
    return E


# The workloads. Reduced ones keep reg·n, so that noise is damped alike.


def mnist(rows: int) -> Views:
    """Left and right halves of digits."""
    return Views(*inputs.mnist_halves(rows), k=10, reg=1e-4, center=True)


def ptb(step: int = 1) -> Views:
    """A word and the one after it; Grams are diagonal."""
    X, Y = inputs.consecutive_words()
    return Views(*_thinned(X, Y, step), k=10, reg=1e-5 * step)


def samples(n: int, dx: int, dy: int) -> Views:
    """Fewer rows than features, dense."""
    return Views(*inputs.samples(n, dx, dy), k=10, reg=1.0, gram=False)


def debian(files: tuple[str, ...], seen: int, step: int = 1) -> Views:
    """Directories of a path and words of its name."""
    X, Y = _thinned(*inputs.debian_paths(files, seen), step)
    return Views(X, Y, k=20, reg=1e-6 * step, tol=1e-5)


def _thinned(X: Any, Y: Any, step: int) -> tuple[Any, Any]:
    if step == 1:
        return X, Y
    views = (Z[::step].tocsr() for Z in (X, Y))
    return tuple(Z[:, np.bincount(Z.indices, minlength=Z.shape[1]) >= 5] for Z in views)


def power_law(n: int, d: int, reg: float = 1e-6, k: int = 20) -> Views:
    """Words by topic."""
    return Views(*inputs.power_law(n, d), k=k, reg=reg, tol=1e-5, gram=False)


def stairs(d: int, k: int) -> Views:
    """Correlations with the same relative gap behind 5, 10, 20, 40 and 80."""
    return Views(*inputs.known_correlations(inputs.stairs(d)), k=k, reg=1e-8, tol=1e-5)


def mesh(side: int, which: str, hidden: str = "") -> Pencil:
    """Finite elements on a square, indefinite."""
    return Pencil(*inputs.mesh_pencil(side), k=10, which=which, hidden=hidden)


def modes(side: int) -> Pencil:
    """The slowest vibrations of a square."""
    return Pencil(*inputs.square_modes(side), k=10, which="SA")


def rough(side: int) -> Pencil:
    """An ill-conditioned B with cheap factors."""
    return Pencil(*inputs.rough_against_smooth(side), k=10, which="LM")


def plain(A: Any, which: str = "LM") -> Pencil:
    """One matrix."""
    return Pencil(A, sparse.eye_array(A.shape[0]).tocsr(), k=10, which=which, plain=True)


def community(d: int) -> Pencil:
    """A graph whose nodes belong to groups."""
    return plain(inputs.community_graph(d))


def power_graph(d: int) -> Pencil:
    """A graph in which some nodes have very many neighbours."""
    return plain(inputs.power_graph(d))


def lattice(side: int) -> Pencil:
    """A square lattice in disorder, whose largest values belong to a few of its sites each."""
    return plain(inputs.disordered_lattice(side), "LA")


def cube(side: int) -> Pencil:
    """The slowest vibrations of a cube, whose factors are large; many of them come in threes."""
    return plain(inputs.cube(side), "SA")


def dense(d: int, which: str) -> Pencil:
    """A pencil of dense matrices."""
    return Pencil(*inputs.dense_pencil(d), k=10, which=which)


def hard(d: int, kappa: float = 1e8, gap: float = 1e-3) -> Pencil:
    """Ill-conditioned with a small gap, given as products only."""
    return Pencil(*inputs.hard_pencil(d, kappa, gap), k=5, which="LM", hidden="AB")


@dataclass(frozen=True)
class Case:
    """A task in full size, reduced, and small enough to compile by; and who is to solve it."""

    workload: str
    name: str
    full: Callable[[], Any]
    quick: Callable[[], Any]
    tiny: Callable[[], Any]
    peers: tuple[str, ...] = ()
    cold: bool = False  # begin with an empty folder of compiled kernels
    cached: bool = False  # the input is prepared once and kept, in a process of its own


SPARSE = partial(power_law, 20_000, 2_500, 5e-5, 5)
MESH = partial(mesh, 50)
GRAMS = ("lobpcg", "eigsh + splu", "eigsh + CG", "PRIMME")
DATA = ("lobpcg", "lobpcg, data", "eigsh + CG, data", "PRIMME, data")
SAMPLES = ("XXᵀ recipe", "cca-zoo", "lobpcg, data")
PRODUCTS = ("lobpcg", "eigsh + CG", "PRIMME")


def cases() -> list[Case]:
    """All of them, in the order in which they run."""
    amd64, every = ("amd64",), partial(debian, ("amd64", "all"), 20)
    fewer = partial(debian, amd64, 5, 20)
    few = partial(mnist, 500)
    genes = partial(samples, 500, 20_000, 10_000), partial(samples, 200, 4_000, 3_000)
    digits = ("NumPy recipe", "sklearn, ridge", "sklearn CCA", "cca-zoo")
    listed = [
        Case("mnist", "mnist", partial(mnist, 60_000), partial(mnist, 3_000), few, digits[:1]),
        Case("mnist5000", "mnist5000", partial(mnist, 5_000), partial(mnist, 1_000), few, digits),
        Case("ptb", "ptb", ptb, partial(ptb, 10), partial(ptb, 50), ("XᵀY, svds",)),
        Case("few_rows", "few rows", *genes, partial(samples, 100, 3_000, 2_500), SAMPLES),
        Case("debian", "debian", partial(debian, amd64, 5), fewer, SPARSE, GRAMS, cached=True),
        Case("debian_all", "debian_all", every, fewer, SPARSE, GRAMS, cached=True),
        Case("powerlaw", "powerlaw", *_powers(1_000_000, 100_000), SPARSE, DATA),
    ]
    for which in ("LM", "LA"):
        sides = (partial(mesh, side, which) for side in (316, 100))
        listed += [Case("pencil", f"pencil {which}", *sides, partial(MESH, which), GRAMS)]
    for which in ("LM", "LA"):
        sides = (partial(mesh, side, which, "B") for side in (316, 100))
        name, tiny = f"pencil_operator {which}", partial(MESH, which, "B")
        listed += [Case("pencil_operator", name, *sides, tiny, PRODUCTS)]
    sizes = partial(modes, 316), partial(modes, 100), partial(modes, 50)
    listed += [Case("modes", "modes", *sizes, ("eigsh, shift-invert", "lobpcg", "PRIMME"))]
    sizes = partial(cube, 50), partial(cube, 20), partial(cube, 10)
    listed += [Case("cube", "cube", *sizes, ("eigsh, shift-invert", "eigsh", "lobpcg", "PRIMME"))]
    sizes = partial(rough, 100), partial(rough, 50), partial(rough, 30)
    listed += [Case("rough", "rough by smooth", *sizes, GRAMS)]
    for name, make, counts in (
        ("communities", community, (200_000, 20_000, 2_000)),
        ("power-law graph", power_graph, (200_000, 20_000, 2_000)),
        ("lattice", lattice, (400, 100, 40)),
    ):
        sizes = tuple(partial(make, count) for count in counts)
        listed += [Case("graph", name, *sizes, ("eigsh", "lobpcg", "PRIMME"))]
    for which, peers in (("LM", ("eigh",)), ("LA", ("eigh", "eigh, subset"))):
        sizes = partial(dense, 2000, which), partial(dense, 500, which), partial(dense, 100, which)
        listed += [Case("dense_pencil", f"dense pencil {which}", *sizes, peers)]
    easy = partial(hard, 300, 1e2, 1e-1)
    sizes = partial(hard, 2000), partial(hard, 400, 1e4, 1e-2)
    listed += [Case("hard", "hard", *sizes, easy, (*PRODUCTS, "PRIMME, block"))]
    for n in (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000):
        sizes = partial(power_law, n, 10_000), partial(power_law, n // 20, 2_500, 2e-5)
        listed += [Case("scaling_rows", f"rows {n:,}", *sizes, SPARSE)]
    for k in (5, 10, 20, 40, 80):
        sizes = partial(stairs, 30_000, k), partial(stairs, 3_000, k)
        listed += [Case("scaling_k", f"k = {k}", *sizes, SPARSE)]
    return [*listed, Case("first_call", "first call", SPARSE, SPARSE, SPARSE, cold=True)]


def _powers(n: int, d: int) -> tuple[Any, Any]:
    return partial(power_law, n, d), partial(power_law, n // 20, d // 10, 2e-5)


# One method in a process of its own; it reports a line of JSON for every run.


def child(case: Case, method: str, options: argparse.Namespace) -> None:
    """Warm up, load, run and judge, repeat."""
    warnings.simplefilter("ignore")
    if resource is not None:
        most = int(options.memory * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    tiny = case.tiny()
    first, second = (timed(tiny, method, tiny.tol, options.limit)[1]["seconds"] for _ in range(2))
    task = (case.quick if options.quick else case.full)()
    report({"first_call": first - second, "size": task.size, "k": task.k, "tol": task.tol})
    tol, before, ours = task.tol, np.inf, method == OURS
    while True:
        answer, run = timed(task, method, tol, options.limit)
        verdict = task.judge(method, answer)
        report({"run": run, "own_tol": tol} | verdict)
        residual = verdict["residual"] or 0.0
        reached = residual <= task.tol
        if ours or reached or tol < 2e-3 * task.tol or not residual < before / 2:
            break
        tol, before = tol / 10, residual
    del answer
    for _ in range(options.repeats - 1 if ours or reached else 0):
        report({"run": timed(task, method, tol, options.limit)[1], "own_tol": tol})


def timed(task: Any, method: str, tol: float, limit: float) -> tuple[Any, Facts]:
    """Solve once; the alarm ends the process, also inside compiled code."""
    with suppress(
        OSError, AttributeError, TypeError
    ):  # elsewhere than on Linux memory stays unknown
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5", "ascii")
    held = memory("VmRSS")
    _alarm(limit)
    start = time.perf_counter()
    answer, facts = task.solve(method, tol)
    seconds = time.perf_counter() - start
    _alarm(0)
    return answer, {"seconds": seconds, "peak_mb": memory("VmHWM") - held} | facts


def _alarm(seconds: float) -> None:
    if hasattr(signal, "setitimer"):  # not on Windows: runs take as long as they take
        signal.setitimer(signal.ITIMER_REAL, seconds)


def memory(name: str) -> float:
    """One line of this process's status, in MB."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024
    return np.nan


def report(facts: Facts) -> None:
    """One line for the parent."""
    print(json.dumps(facts), flush=True)


# The parent: start, gather, print.


def measured(case: Case, method: str, options: argparse.Namespace) -> Facts:
    """Everything that one method's process reported, and how it ended."""
    command = [sys.executable, __file__, "--child", case.name, method]
    command += [f"--{name}={getattr(options, name)}" for name in ("repeats", "limit", "memory")]
    command += ["--quick"] if options.quick else []
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
    threads = dict.fromkeys(names, str(options.threads)) if options.threads else {}
    with tempfile.TemporaryDirectory() as empty:
        cold = {"NUMBA_CACHE_DIR": empty} if case.cold else {}
        env = os.environ | threads | cold
        ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    row: Facts = {"workload": case.workload, "case": case.name, "method": method, "note": ""}
    row["runs"] = [{"own_tol": line["own_tol"]} | line["run"] for line in lines if "run" in line]
    for line in lines:
        row |= {name: value for name, value in line.items() if name != "run"}
    if ended.returncode:
        row["note"] = _end(ended.returncode, ended.stderr, options.limit)
    last = [run for run in row["runs"] if run["own_tol"] == row.get("own_tol")]
    if last:
        row["peak_mb"] = max(run["peak_mb"] for run in last)
        row |= last[-1] | {"peak_mb": row["peak_mb"]}
        row["seconds"] = statistics.median(run["seconds"] for run in last)
    return row


def _end(code: int, stderr: str, limit: float) -> str:
    if hasattr(signal, "SIGALRM") and code == -signal.SIGALRM:
        return f"> {limit:g} s"
    if code < 0:
        return f"killed by signal {-code}"
    said = (stderr.strip().splitlines() or ["failed"])[-1]
    return "not installed" if said.startswith("ModuleNotFoundError") else said[:60]


def compare(rows: list[Facts]) -> None:
    """Mark who reached the accuracy, and how many times our seconds each took."""
    best = max((row["total"] for row in rows if row.get("total")), default=0.0)
    ours = next((row.get("seconds") for row in rows if row["method"] == OURS), None)
    for row in rows:
        slack = row.get("k", 0) * row.get("tol", 0.0) * row.get("first", 0.0)
        residual, total = row.get("residual"), row.get("total")
        complete = ours and "seconds" in row and not row["note"]
        row["ratio"] = row["seconds"] / ours if complete else None
        row["reached"] = (
            residual is not None
            and residual <= row["tol"]
            and (total is None or total >= best - slack)
            and not row["note"]
        )


HEADER = (
    f"{'case':<22}{'method':<18}{'seconds':>10}{'ratio':>9}{'peak MB':>9}{'passes':>9}"
    f"{'A, B columns':>16}{'residual':>10}{'sum':>13} reached"
)


def as_line(row: Facts) -> str:
    """One row of the table."""
    columns = " ".join(f"{row[name]:,}" for name in ("A_columns", "B_columns") if name in row)
    note = row["note"]
    took, note = (note, "") if note.startswith(">") else (_cell(row, "seconds", ".3f"), note)
    cells = (
        f"{row['case']:<22}{row['method']:<18}{took:>10}{_cell(row, 'ratio', '.2f'):>9}"
        f"{_cell(row, 'peak_mb', '.0f'):>9}{_cell(row, 'passes', '.1f'):>9}"
        f"{columns:>16}{_cell(row, 'residual', '.1e'):>10}{_cell(row, 'total', '.6g'):>13}"
    )
    status = row.get("status", "converged")
    notes = [note, status if status != "converged" else ""]
    true = row.get("together", 0.0)
    understated = row.get("claimed", np.inf) < 0.99 * true
    understated &= true > 1e-12 * row.get("first", 0.0)  # beyond rounding of the referee
    notes += ["claims a smaller residual"] if understated else []
    lost = row.get("first_call", 0.0)
    notes += [f"first call + {lost:.1f} s" if lost > 0.05 and row["method"] == OURS else ""]
    return f"{cells} {'yes' if row['reached'] else 'no':<8}" + ", ".join(filter(None, notes))


def _cell(row: Facts, name: str, form: str) -> str:
    value = row.get(name)
    return "" if value is None else f"{value:{form}}"


SLOPES = {"scaling_rows": "size", "scaling_k": "k"}


def slope(rows: list[Facts], against: str) -> float:
    """The exponent with which seconds grow."""
    known = [row for row in rows if "seconds" in row]
    points = ([np.log(row[name]) for row in known] for name in (against, "seconds"))
    return float(np.polyfit(*points, 1)[0]) if len(known) > 1 else np.nan


def run(workload: str, options: argparse.Namespace) -> list[Facts]:
    """All cases of a workload, a line for each method; JSON at the end."""
    rows: list[Facts] = []
    for case in (case for case in cases() if case.workload == workload):
        if case.cached:
            measured(case, "load", options)
        of_case: list[Facts] = []
        for method in (OURS, *case.peers):
            of_case.append(measured(case, method, options))
            compare(of_case)
            print(as_line(of_case[-1]), flush=True)
        rows += of_case
    name = f"default_{workload}_quick" if options.quick else f"default_{workload}"
    growth = {SLOPES[workload]: slope(rows, SLOPES[workload])} if workload in SLOPES else {}
    for against, exponent in growth.items():
        print(f"{workload}: seconds grow as {against} to the power {exponent:.2f}")
    write(name, {"rows": rows, "exponents": growth})
    return rows


def main() -> None:
    """Parse, run, print all rows again in one table."""
    names = list(dict.fromkeys(case.workload for case in cases()))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="WORKLOAD")
    parser.add_argument("--repeats", type=int, help="timed runs of a method (3; quick: 1)")
    parser.add_argument("--quick", action="store_true", help="reduced sizes, some minutes")
    parser.add_argument("--limit", type=float, help="seconds of one run (600; quick: 10)")
    parser.add_argument("--threads", type=int, help="of BLAS and kernels, for all methods")
    parser.add_argument("--memory", type=float, default=16.0, help="GB of one process")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.repeats = options.repeats or (1 if options.quick else 3)
    options.limit = options.limit or (10.0 if options.quick else 600.0)
    if options.child:
        case = next(case for case in cases() if case.name == options.child[0])
        if options.child[1] == "load":
            (case.quick if options.quick else case.full)()
        else:
            child(case, options.child[1], options)
        return
    print(HEADER)
    rows = [row for workload in options.only for row in run(workload, options)]
    print("\n" + HEADER, *map(as_line, rows), sep="\n")


if __name__ == "__main__":
    main()
