"""What an expert would run instead: SciPy, PRIMME, scikit-learn, cca-zoo and recipes by hand.

A peer of a pencil is a function (A, B, k, which, tol) → vectors, a peer of two views one
(X, Y, k, reg, tol) → (x_weights, y_weights). Recipes for dense views centre them, those for sparse
views do not. PRIMME and cca-zoo are imported where they are called: neither is a dependency.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import linalg as splinalg

__all__ = ["PENCIL", "VIEWS", "Counted", "data_pair", "gram_pair"]

Pair = tuple[Any, Any]


class Counted(splinalg.LinearOperator):
    """A symmetric matrix of which only products are given; `columns` counts them."""

    def __init__(self, matrix: Any) -> None:
        super().__init__(np.dtype(float), matrix.shape)
        self._matrix, self.columns = matrix, 0

    def _matvec(self, v: Any) -> Any:
        self.columns += 1
        return self._matrix @ v

    def _matmat(self, V: Any) -> Any:
        self.columns += V.shape[1]
        return self._matrix @ V

    def _adjoint(self) -> Counted:
        return self


# Two views as the pencil A = [0 C; Cᵀ 0], B = diag(S_x, S_y), whose largest values are the
# correlations.


def gram_pair(X: Any, Y: Any, reg: float, center: bool = False) -> Pair:
    """The pencil with its covariances formed, dense or sparse as the data are."""
    n, (d_x, d_y) = X.shape[0], (X.shape[1], Y.shape[1])
    if center:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    C = X.T @ Y / n
    if sparse.issparse(C):
        S_x, S_y = X.T @ X / n, Y.T @ Y / n
        ridge = reg * sparse.eye_array(d_x + d_y)
        A = sparse.block_array([[None, C], [C.T, None]], format="csr")
        return A, (sparse.block_diag([S_x, S_y]) + ridge).tocsr()
    A = np.block([[np.zeros((d_x, d_x)), C], [C.T, np.zeros((d_y, d_y))]])
    return A, linalg.block_diag(X.T @ X / n, Y.T @ Y / n) + reg * np.eye(d_x + d_y)


def data_pair(X: Any, Y: Any, reg: float) -> Pair:
    """The pencil as products with the data; the diagonal of B is known."""
    n, d = X.shape[0], X.shape[1]
    squares = [np.asarray((Z * Z).sum(axis=0)).ravel() for Z in (X, Y)]  # arrays: by entries

    def cross(V: Any) -> Any:
        return np.concatenate([X.T @ (Y @ V[d:]), Y.T @ (X @ V[:d])]) / n

    def covariances(V: Any) -> Any:
        return np.concatenate([X.T @ (X @ V[:d]), Y.T @ (Y @ V[d:])]) / n + reg * V

    shape = (d + Y.shape[1], d + Y.shape[1])
    A, B = (
        splinalg.LinearOperator(shape, matvec=product, matmat=product, dtype=float)
        for product in (cross, covariances)
    )
    B.diagonal = lambda: np.concatenate(squares) / n + reg
    return A, B


def _views(peer: Callable[..., Any], pair: Callable[..., Pair]) -> Callable[..., Pair]:
    """The peer of two views that solves their pencil."""

    def solve(X: Any, Y: Any, k: int, reg: float, tol: float) -> Pair:
        V = peer(*pair(X, Y, reg), k, "LA", tol)
        return V[: X.shape[1]], V[X.shape[1] :]

    return solve


# Pencils. Jacobi is applied by scaling B to a unit diagonal: the same iterates, and tolerances
# that mean more. Where only products with B are known, there is no scaling.


def _jacobi(A: Any, B: Any) -> tuple[Any, Any, Any]:
    if not hasattr(B, "diagonal"):
        return A, B, np.ones(1)
    scale = 1 / np.sqrt(B.diagonal())
    D = sparse.diags_array(scale).tocsr()

    def scaled(M: Any) -> Any:
        if sparse.issparse(M):
            return (D @ M @ D).tocsr()
        return splinalg.aslinearoperator(D) @ M @ splinalg.aslinearoperator(D)

    return scaled(A), scaled(B), scale


def _lead(values: Any, which: str, k: int) -> Any:
    sizes = {"LM": np.abs(values), "LA": values, "SA": -values}[which]
    return np.argsort(-sizes)[:k]


def lobpcg(A: Any, B: Any, k: int, which: str, tol: float) -> Any:
    """SciPy's lobpcg; for the largest magnitude at both ends. A few steps tell the scale first."""
    A, B, scale = _jacobi(A, B)
    start = _start(A.shape[0], k)
    ends = {"LM": (True, False), "LA": (True,), "SA": (False,)}[which]
    found = [splinalg.lobpcg(A, start, B=B, largest=end, maxiter=20) for end in ends]
    size = max(np.abs(values).max() for values, _ in found)
    found = [
        splinalg.lobpcg(A, V, B=B, largest=end, tol=tol * size, maxiter=20_000)
        for end, (_, V) in zip(ends, found, strict=True)
    ]
    values, V = (np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True))
    return scale[:, None] * V[:, _lead(values, which, k)]


def eigsh_plain(A: Any, B: Any, k: int, which: str, tol: float) -> Any:
    """ARPACK as it comes, without B."""
    return splinalg.eigsh(A, k, which=which, tol=tol, v0=_start(A.shape[0]))[1]


def eigsh_splu(A: Any, B: Any, k: int, which: str, tol: float) -> Any:
    """ARPACK with B factored by SuperLU, in its mode for symmetric matrices."""
    factor = splinalg.splu(
        B.tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    inverse = splinalg.LinearOperator(B.shape, matvec=factor.solve, dtype=float)
    return splinalg.eigsh(A, k, M=B, Minv=inverse, which=which, tol=tol, v0=_start(A.shape[0]))[1]


def eigsh_cg(A: Any, B: Any, k: int, which: str, tol: float) -> Any:
    """ARPACK with B⁻¹ by conjugate gradients, tight: a loose inverse makes it wrong silently."""
    A, B, scale = _jacobi(A, B)

    def solve(b: Any) -> Any:
        return splinalg.cg(B, b, rtol=1e-3 * tol, maxiter=100 * len(b))[0]

    inverse = splinalg.LinearOperator(B.shape, matvec=solve, dtype=float)
    V = splinalg.eigsh(A, k, M=B, Minv=inverse, which=which, tol=tol, v0=_start(A.shape[0]))[1]
    return scale[:, None] * V


def eigsh_inverted(A: Any, B: Any, k: int, which: str, tol: float) -> Any:
    """ARPACK around zero, for the smallest values of a definite A; SciPy factors A by itself."""
    return splinalg.eigsh(A, k, M=B, sigma=0.0, tol=tol, v0=_start(A.shape[0]))[1]


def eigh_all(A: Any, B: Any, k: int, which: str, tol: float) -> Any:
    """LAPACK: all vectors, the best of them."""
    values, V = linalg.eigh(A, B)
    return V[:, _lead(values, which, k)]


def eigh_some(A: Any, B: Any, k: int, which: str, tol: float) -> Any:
    """LAPACK: the vectors of the k largest values only."""
    return linalg.eigh(A, B, subset_by_index=[len(A) - k, len(A) - 1])[1]


def primme(A: Any, B: Any, k: int, which: str, tol: float, block: int = 0) -> Any:
    """PRIMME with its own choice of method, and of the block unless that is given."""
    from primme import eigsh

    A, B, scale = _jacobi(A, B)
    start = _start(A.shape[0], k)
    return scale[:, None] * eigsh(A, k, M=B, which=which, tol=tol, v0=start, maxBlockSize=block)[1]


def primme_block(A: Any, B: Any, k: int, which: str, tol: float) -> Any:
    """PRIMME with blocks of k: by itself it takes one vector, and may miss pairs of either sign."""
    return primme(A, B, k, which, tol, block=k)


def _start(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape)


# Two views, by hand or by a library.


def numpy_recipe(X: Any, Y: Any, k: int, reg: float, tol: float) -> Pair:
    """Centre, Gram matrices, Cholesky, SVD of the whitened cross-covariance."""
    n, X, Y = len(X), X - X.mean(axis=0), Y - Y.mean(axis=0)
    L_x, L_y = (np.linalg.cholesky(Z.T @ Z / n + reg * np.eye(Z.shape[1])) for Z in (X, Y))
    T = linalg.solve_triangular(L_x, X.T @ Y / n, lower=True)
    T = linalg.solve_triangular(L_y, T.T, lower=True).T
    U, _, Vt = np.linalg.svd(T)
    W_x = linalg.solve_triangular(L_x.T, U[:, :k])
    return W_x, linalg.solve_triangular(L_y.T, Vt[:k].T)


def svds_recipe(X: Any, Y: Any, k: int, reg: float, tol: float) -> Pair:
    """Views whose rows are indicators: sparse XᵀY, scaled by the diagonals of both Grams, svds."""
    n = X.shape[0]
    s_x, s_y = (
        1 / np.sqrt(np.asarray(Z.multiply(Z).sum(axis=0)).ravel() / n + reg) for Z in (X, Y)
    )
    C = sparse.diags_array(s_x) @ (X.T @ Y / n) @ sparse.diags_array(s_y)
    U, _, Vt = splinalg.svds(C.tocsr(), k, tol=tol, v0=_start(min(C.shape)))
    return s_x[:, None] * U, s_y[:, None] * Vt.T


def rows_recipe(X: Any, Y: Any, k: int, reg: float, tol: float) -> Pair:
    """Few rows: eigenvectors of XXᵀ and YYᵀ, SVD of the whitened product of both."""
    n, bases = len(X), []
    for Z in (X, Y):
        w, U = np.linalg.eigh(Z @ Z.T / n)
        kept = w > 1e-12 * w[-1]
        bases.append((w[kept], U[:, kept], np.sqrt(w[kept] + reg)))
    (w_x, U_x, d_x), (w_y, U_y, d_y) = bases
    M = (np.sqrt(w_x) / d_x)[:, None] * (U_x.T @ U_y) * (np.sqrt(w_y) / d_y)
    P, _, Qt = np.linalg.svd(M)
    W_x = X.T @ (U_x @ (P[:, :k] / (np.sqrt(n * w_x) * d_x)[:, None]))
    return W_x, Y.T @ (U_y @ (Qt[:k].T / (np.sqrt(n * w_y) * d_y)[:, None]))


def sklearn_cca(X: Any, Y: Any, k: int, reg: float, tol: float) -> Pair:
    """scikit-learn's CCA as it comes, which has no ridge."""
    return _sklearn(X, Y, k)


def sklearn_ridge(X: Any, Y: Any, k: int, reg: float, tol: float) -> Pair:
    """The same with a ridge, and iterated to the accuracy.

    Its tolerance is for the squared change of a vector in one step of a power iteration.
    """
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    return _sklearn(X, Y, k, np.sqrt(len(X) * reg / 2), max_iter=1_000_000, tol=tol**2)


def _sklearn(X: Any, Y: Any, k: int, ridge: float = 0.0, **settings: Any) -> Pair:
    """On the columns that vary; a ridge is rows ±ridge·eⱼ below the data, zero in the other."""
    from sklearn.cross_decomposition import CCA

    vary = [np.ptp(Z, axis=0) > 0 for Z in (X, Y)]
    views = [Z[:, columns] for Z, columns in zip((X, Y), vary, strict=True)]
    if ridge:
        signed = [ridge * np.vstack([np.eye(Z.shape[1]), -np.eye(Z.shape[1])]) for Z in views]
        below = linalg.block_diag(*signed)
        parts = np.split(below, [views[0].shape[1]], axis=1)
        views = [np.vstack(pair) for pair in zip(views, parts, strict=True)]
    model = CCA(n_components=k, scale=False, **settings).fit(*views)
    W_x, W_y = (np.zeros((len(columns), k)) for columns in vary)
    W_x[vary[0]], W_y[vary[1]] = model.x_rotations_, model.y_rotations_
    return W_x, W_y


def cca_zoo(X: Any, Y: Any, k: int, reg: float, tol: float) -> Pair:
    """cca-zoo's RidgeCCA; it divides by n − 1 and takes (1 − c)·S + c·I."""
    from cca_zoo.linear import RidgeCCA

    odds = reg * len(X) / (len(X) - 1)
    W_x, W_y = RidgeCCA(n_components=k, shrinkage=odds / (1 + odds)).fit([X, Y]).weights_
    return W_x, W_y


PENCIL: dict[str, Callable[..., Any]] = {
    "lobpcg": lobpcg,
    "eigsh": eigsh_plain,
    "eigsh + splu": eigsh_splu,
    "eigsh + CG": eigsh_cg,
    "eigsh, shift-invert": eigsh_inverted,
    "eigh": eigh_all,
    "eigh, subset": eigh_some,
    "PRIMME": primme,
    "PRIMME, block": primme_block,
}
VIEWS: dict[str, Callable[..., Pair]] = {
    "NumPy recipe": numpy_recipe,
    "XᵀY, svds": svds_recipe,
    "XXᵀ recipe": rows_recipe,
    "sklearn CCA": sklearn_cca,
    "sklearn, ridge": sklearn_ridge,
    "cca-zoo": cca_zoo,
    **{name: _views(peer, gram_pair) for name, peer in PENCIL.items()},
    "lobpcg, data": _views(lobpcg, data_pair),
    "eigsh + CG, data": _views(eigsh_cg, data_pair),
    "PRIMME, data": _views(primme, data_pair),
}
