"""Values in many copies, as graphs and block-diagonal matrices have them: none may be missed.

The spectrum is that of one building block, by dense eigh, each value c times: so the truth is known
for problems far larger than the referee could solve.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse

from fuzz import Defect
from fuzz.referee import EPS, magnitudes
from fuzz.spectra import FORMATS, chosen, definite, symmetric
from fuzz.watch import called
from genelin import Davidson, Dense, GenELinK, Lanczos, ShiftInvert, top_k

__all__ = ["Copies", "attack", "judge_copies"]

Rng = np.random.Generator
METHODS: dict[str, Callable[[], Any]] = {
    "planner": lambda: None,
    "Lanczos": Lanczos,
    "ShiftInvert": ShiftInvert,
    "Davidson": Davidson,
    "Dense": Dense,
    "Lanczos, one column": lambda: Lanczos(columns=1),
    "GenELinK": lambda: GenELinK(max_iter=100),
}
WEIGHTS = (8, 4, 3, 3, 1, 1, 0.3)
BIG = 600  # size from which only some cases are played, and Dense and GenELinK are not


@dataclass(frozen=True)
class Copies:
    """A sparse pencil, all of its eigenvalues, and what it is."""

    A: Any
    B: Any
    values: Any
    name: str

    @property
    def d(self) -> int:
        """Its size."""
        return int(self.A.shape[0])


def path(n: int) -> Any:
    """The Laplacian of a path."""
    L = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)).tolil()
    L[0, 0] = L[n - 1, n - 1] = 1.0 if n > 1 else 0.0
    return L.tocsr()


def cycle(n: int) -> Any:
    """The Laplacian of a cycle: most of its values are double."""
    links = sparse.coo_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))
    return _laplacian((links + links.T).tocsr())


def star(n: int) -> Any:
    """The Laplacian of a star: 0, n, and 1 in n − 2 copies."""
    hub, leaves = np.zeros(n - 1, dtype=int), np.arange(1, n)
    links = sparse.coo_array((np.ones(n - 1), (hub, leaves)), shape=(n, n))
    return _laplacian((links + links.T).tocsr())


def bipartite(a: int, b: int) -> Any:
    """The adjacency matrix of a complete bipartite graph: ±√(ab), and 0."""
    M = np.zeros((a + b, a + b))
    M[:a, a:] = M[a:, :a] = 1.0
    return sparse.csr_array(M)


def hypercube(dimension: int) -> Any:
    """Its adjacency matrix: dimension − 2j in binomial many copies."""
    M = sparse.csr_array(np.zeros((1, 1)))
    for _ in range(dimension):
        eye = sparse.eye_array(M.shape[0])
        M = sparse.csr_array(sparse.block_array([[M, eye], [eye, M]]))
    return M


def _laplacian(W: Any) -> Any:
    return sparse.csr_array(sparse.diags_array(np.asarray(W.sum(axis=0)).ravel()) - W)


def _summed(P: Any, Q: Any) -> Any:
    """P ⊗ I + I ⊗ Q."""
    left = sparse.kron(P, sparse.eye_array(Q.shape[0]))
    return sparse.csr_array(left + sparse.kron(sparse.eye_array(P.shape[0]), Q))


def _eigenvalues(M: Any) -> Any:
    return linalg.eigvalsh(M.toarray() if sparse.issparse(M) else M)


def copies(rng: Rng) -> Copies:
    """A problem of a random kind."""
    big = rng.random() < 0.12
    kind = chosen(rng, KINDS)
    return KINDS[kind](rng, big)


def _components(rng: Rng, big: bool) -> Copies:
    """Identical graphs, relabelled or not, with B none, diagonal or copied as well."""
    n = int(rng.integers(5, 201 if big else 30))
    c = int(rng.integers(2, 61 if big else 20))
    block = chosen(rng, (path, cycle, star))(n)
    if rng.random() < 0.3:
        block = abs(block - sparse.diags_array(block.diagonal())).tocsr()  # its adjacency
    return _repeated(rng, block, c, f"{c} graphs of {n} nodes")


def _blocks(rng: Rng, big: bool) -> Copies:
    """Identical dense blocks."""
    n, c = int(rng.integers(1, 25)), int(rng.integers(2, 61 if big else 20))
    return _repeated(rng, sparse.csr_array(symmetric(rng, n)), c, f"{c} blocks of {n}")


def _repeated(rng: Rng, block: Any, c: int, name: str) -> Copies:
    n = block.shape[0]
    kind = chosen(rng, ("none", "none", "diagonal", "copied"))
    A = sparse.kron(sparse.eye_array(c), block)
    if kind == "none":
        B, values = None, _eigenvalues(block)
    else:
        D = definite(rng, n, 100.0) if kind == "copied" else np.diag(rng.uniform(1, 3, n))
        B, values = sparse.kron(sparse.eye_array(c), D), linalg.eigh(block.toarray(), D)[0]
    shuffled = rng.permutation(n * c) if rng.random() < 0.4 else np.arange(n * c)
    A = sparse.csr_array(A)[shuffled][:, shuffled]
    B = None if B is None else sparse.csr_array(B)[shuffled][:, shuffled]
    return Copies(A, B, np.repeat(values, c), f"{name}, B {kind}")


def _hypercube(rng: Rng, big: bool) -> Copies:
    dimension = int(rng.integers(9, 12) if big else rng.integers(2, 9))
    A = hypercube(dimension)
    values = np.concatenate(
        [np.full(int(_binomial(dimension, j)), dimension - 2.0 * j) for j in range(dimension + 1)]
    )
    if rng.random() < 0.5:
        return Copies(_laplacian(A), None, dimension - values, f"Laplacian of the {dimension}-cube")
    return Copies(A, None, values, f"{dimension}-cube")


def _binomial(n: int, j: int) -> int:
    return int(np.round(np.prod([(n - i) / (i + 1) for i in range(j)]))) if j else 1


def _star(rng: Rng, big: bool) -> Copies:
    n = int(rng.integers(1000, 5000) if big else rng.integers(3, 400))
    values = np.concatenate([[0.0, n], np.ones(n - 2)])
    return Copies(star(n), None, values, f"star of {n}")


def _bipartite(rng: Rng, big: bool) -> Copies:
    a, b = (int(m) for m in rng.integers(1, 300 if big else 60, 2))
    ends = np.sqrt(a * b)
    values = np.concatenate([[ends, -ends], np.zeros(a + b - 2)])
    return Copies(bipartite(a, b), None, values, f"complete bipartite graph of {a} and {b}")


def _grid(rng: Rng, big: bool) -> Copies:
    """A grid or torus of two or three dimensions, by the sums of their values."""
    most = 40 if big else 14
    form = chosen(rng, (path, cycle))
    n = int(rng.integers(3, most))
    dimension = 2 if n > 12 or rng.random() < 0.7 else 3
    M, values = form(n), _eigenvalues(form(n))
    one, first = M, values
    for _ in range(dimension - 1):
        M, values = _summed(M, one), np.add.outer(values, first).ravel()
    name = f"{form.__name__} of {n} to the power of {dimension}"
    return Copies(M, None, values, name)


def _kronecker(rng: Rng, big: bool) -> Copies:
    """P ⊗ I + I ⊗ Q for small P and Q of integers."""
    m, n = (int(v) for v in rng.integers(1, 40 if big else 14, 2))
    P, Q = symmetric(rng, m), symmetric(rng, n)
    A = _summed(sparse.csr_array(P), sparse.csr_array(Q))
    return Copies(A, None, _eigenvalues(A), f"Kronecker sum of {m} and {n}")


def _diagonal(rng: Rng, big: bool) -> Copies:
    """A diagonal with few different values, in which vectors are unit vectors."""
    d = int(rng.integers(200, 3000) if big else rng.integers(2, 200))
    few = rng.standard_normal(int(rng.integers(1, 6)))
    values = few[rng.integers(0, len(few), d)]
    return Copies(sparse.csr_array(sparse.diags_array(values)), None, values, "diagonal")


KINDS: dict[str, Callable[[Rng, bool], Copies]] = {
    "components": _components,
    "blocks": _blocks,
    "hypercube": _hypercube,
    "star": _star,
    "bipartite": _bipartite,
    "grid": _grid,
    "kronecker": _kronecker,
    "diagonal": _diagonal,
}


def attack(rng: Rng) -> str:
    """One problem, one method, one k."""
    case = copies(rng)
    d, which = case.d, chosen(rng, ("LM", "LA", "SA"))
    most = min(d, 60)
    k = int(rng.integers(1, most + 1)) if rng.random() < 0.7 else min(int(rng.integers(1, 16)), d)
    names, weights = list(METHODS), list(WEIGHTS)
    if d > BIG:
        names, weights = names[:4], [3.0, 3.0, 2.0, 1.0]
    if which == "LM":
        weights[2] = 0.0
    name = chosen(rng, names, weights)
    tol = chosen(rng, (1e-8, 1e-8, 1e-4, 1e-10))
    seed = int(rng.integers(3))
    form = "dense" if d <= BIG and rng.random() < 0.2 and name != "ShiftInvert" else "sparse"
    if form == "dense":
        A, B = case.A.toarray(), None if case.B is None else case.B.toarray()
    else:
        form = chosen(rng, FORMATS[:3])
        A, B = case.A.asformat(form), None if case.B is None else case.B.asformat(form)
    about = f"{name}, {case.name}, {form}, d={d}, k={k}, which={which}, tol={tol:g}, rng={seed}"
    try:
        outcome = called(
            lambda: top_k(A, B, k, which=which, tol=tol, method=METHODS[name](), rng=seed)
        )
        if outcome.refused:
            raise Defect(f"refused: {outcome.kind}: {outcome.refusal}")
        if ("ConvergenceWarning" in outcome.warned) == outcome.answer.converged:
            raise Defect(f"status {outcome.answer.status.name} with warnings {outcome.warned}")
        return judge_copies(case, which, k, tol, outcome.answer)
    except Defect as defect:
        raise Defect(f"{defect} [{about}]") from defect
    except Exception as error:
        error.add_note(about)
        raise


def judge_copies(case: Copies, which: str, k: int, tol: float, solution: Any) -> str:
    """How the answer ended; raises `Defect` where a copy is missing or a number is wrong."""
    A, W, theta = case.A, solution.vectors, solution.values
    if not (np.isfinite(W).all() and np.isfinite(theta).all()):
        raise Defect("NaN or inf in values or vectors")
    if np.isnan(solution.residuals).any() or not 0 <= solution.sin_theta_bound <= 1:
        raise Defect(f"residuals {solution.residuals}, bound {solution.sin_theta_bound}")
    if not solution.converged:
        return f"not converged: {solution.status.name}"
    BW = W if case.B is None else case.B @ W
    largest = max(float(np.abs(case.values).max()), float(np.abs(theta).max()))
    off = float(np.abs(W.T @ BW - np.eye(k)).max())
    if off > 1e-9:
        raise Defect(f"WᵀBW − I has {off:.2e}")
    low = 1.0 if case.B is None else _lowest(case.B)
    rest = np.linalg.norm(A @ W - BW * theta, axis=0) / np.sqrt(low)  # from above
    sure = float(np.linalg.norm(solution.residuals)) + 1e-12 * largest
    high = 1.0 if case.B is None else float(abs(case.B).sum(axis=0).max())
    floor = np.linalg.norm(A @ W - BW * theta, axis=0) / np.sqrt(high)  # from below
    worst = int(np.argmax(floor - solution.residuals))
    if floor[worst] > solution.residuals[worst] * (1 + 1e-6) + 1e-12 * largest:
        raise Defect(
            f"residual {worst} is over {floor[worst]:.2e}, not {solution.residuals[worst]:.2e}"
        )
    sizes = np.sort(magnitudes(case.values, which))[::-1]
    found = np.sort(magnitudes(theta, which))[::-1]
    apart = 1 if solution.sin_theta_bound < 0.999 else 3  # without a gap another may stand for it
    allowed = apart * min(sure, float(np.linalg.norm(rest)) + 1e-12 * largest)
    allowed += 20 * case.d * EPS * largest
    wrong = np.abs(found - sizes[:k])
    what = f"{solution.status.name}, sin θ ≤ {solution.sin_theta_bound:.1e}, " + (
        "certified" if solution.gap_certified else "not certified"
    )
    if wrong.max() > allowed:
        place = int(np.argmax(wrong))
        raise Defect(
            f"missed: magnitude {place} is {found[place]:.10g}, the true one {sizes[place]:.10g}, "
            f"{int((wrong > allowed).sum())} of {k} are wrong ({what})"
        )
    rounding = 10 * np.sqrt(case.d) * EPS * largest  # in what LAPACK says of equal values
    tied = k < case.d and sizes[k - 1] - sizes[k] <= rounding
    if tied and solution.sin_theta_bound < 0.999 and solution.status.name != "TIED":
        raise Defect(f"the space is not unique, as values k and k + 1 are equal ({what})")
    return "answered, a tie" if solution.status.name == "TIED" else "answered"


def _lowest(B: Any) -> float:
    """The smallest eigenvalue of B, from below: of a diagonal, or by the blocks it consists of."""
    from scipy.sparse.csgraph import connected_components

    count, labels = connected_components(sparse.csr_array(B))
    B = sparse.csr_array(B)
    first = np.flatnonzero(labels == labels[0])
    if count == B.shape[0]:
        return float(B.diagonal().min())
    # all blocks are copies of one, which may itself fall apart
    lows = []
    for part in range(min(count, 60)):
        rows = np.flatnonzero(labels == part) if part else first
        lows.append(float(linalg.eigvalsh(B[rows][:, rows].toarray())[0]))
    return min(lows)
