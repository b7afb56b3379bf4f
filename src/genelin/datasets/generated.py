"""Generators whose answer is known: dense and sparse views, pencils of chosen spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular

from genelin.datasets.bunches import Array, KnownPencil, Views
from genelin.validation import (
    check_count,
    check_flag,
    check_index,
    check_number,
    check_numbers,
    generator,
    shown,
)

__all__ = ["mesh_pencil", "pencil", "sparse_pairs", "two_view_gaussian"]

OWN = "Generated; free of rights."
MOST = 2**31 - 1  # rows or columns: indices have 32 bits
MOST_KAPPA = 1e14  # of a matrix that has a Cholesky factor in floating point
Rng = np.random.Generator | int | None


def two_view_gaussian(
    n: int,
    d: int | tuple[int, int] = 20,
    correlations: Any = (0.9, 0.7, 0.5),
    kappa: float | tuple[float, float] = 10.0,
    *,
    rng: Rng = 0,
) -> Views:
    """Gaussian rows with chosen canonical correlations and condition numbers, dense.

    Latent columns of the two views are paired with the given correlations, then mixed by symmetric
    roots of covariances whose spectra are log-uniform. What is promised holds for the population:
    a sample of n rows is off by about (1 − ρ²)/√n, and a little above with many columns.

    Parameters
    ----------
    n : rows.
    d : columns of both views, or a pair.
    correlations : at most min(d₁, d₂) numbers in [0, 1); all others are zero.
    kappa : condition number of both covariances, or a pair.
    rng : seed or generator.

    Examples
    --------
    >>> from genelin import top_k_cca
    >>> X, Y = two_view_gaussian(20_000, d=(6, 4), correlations=[0.8, 0.5])
    >>> top_k_cca(X, Y, k=2).correlations.round(2).tolist()
    [0.8, 0.5]
    """
    n = check_count("n", n, most=MOST)
    d1, d2 = (check_count("d", size, most=MOST) for size in _both("d", d))
    kappas = [check_number("kappa", value, 1) for value in _both("kappa", kappa)]
    sigma = np.atleast_1d(check_numbers("correlations", correlations))
    if sigma.ndim != 1 or len(sigma) > min(d1, d2) or not np.all((sigma >= 0) & (sigma < 1)):
        raise ValueError(
            f"correlations={shown(correlations)} must be numbers in [0, 1), at most as many as the "
            f"smaller d, {min(d1, d2)}"
        )
    rng = generator(rng)
    sigma = -np.sort(-sigma)
    k = len(sigma)
    roots = [_root(rng, size, value) for size, value in zip((d1, d2), kappas, strict=True)]
    Z, E = rng.standard_normal((n, d1)), rng.standard_normal((n, d2))
    E[:, :k] = sigma * Z[:, :k] + np.sqrt(1.0 - sigma**2) * E[:, :k]
    (x_root, x_inverse), (y_root, y_inverse) = roots
    return Views(
        f"Gaussian views, {n} rows",
        Z @ x_root,
        E @ y_root,
        f"Gaussian rows of mean zero with {k} canonical correlations above zero and covariances "
        f"of condition number {kappas[0]:g} and {kappas[1]:g}.",
        OWN,
        correlations=sigma,
        x_weights=x_inverse[:, :k],
        y_weights=y_inverse[:, :k],
    )


def _both(name: str, value: Any) -> tuple[Any, Any]:
    """A setting of both views: one value, or a pair."""
    if not isinstance(value, tuple):
        return value, value
    if len(value) != 2:
        raise ValueError(f"{name}={shown(value)} must be one number or a pair (for X, for Y)")
    return value


def _root(rng: np.random.Generator, d: int, kappa: float) -> tuple[Array, Array]:
    """M and M⁻¹ with M² of condition number κ, its spectrum log-uniform around 1."""
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    roots = np.exp(0.5 * np.log(kappa) * (np.linspace(0.0, 1.0, d) - 0.5))
    return (Q * roots) @ Q.T, (Q / roots) @ Q.T


def sparse_pairs(correlations: Any, *, rng: Rng = 0) -> Views:
    """Sparse views with 2·d rows whose d sample correlations are exactly the given ones.

    They hold without centring and without a ridge. Two rows a pair hold vectors at the angle
    arccos σ, spread over features by a triangular L with unit diagonal and a few random entries a
    column, so that S = L·Lᵀ.

    Examples
    --------
    >>> from genelin import top_k_cca
    >>> X, Y = sparse_pairs([0.9, 0.5, 0.1])
    >>> top_k_cca(X, Y, k=3, center=False).correlations.round(6).tolist()
    [0.9, 0.5, 0.1]
    """
    values = check_numbers("correlations", correlations)
    if values.ndim != 1 or not len(values) or not np.all((values >= 0) & (values <= 1)):
        raise ValueError("correlations must be numbers in [0, 1], one for each column of a view")
    rng, d = generator(rng), len(values)
    pair = rng.permutation(d)
    sines = np.sqrt(1 - values**2)
    E_x = sparse.coo_array((np.ones(d), (2 * pair, pair)), shape=(2 * d, d))
    rows, columns = np.concatenate([2 * pair, 2 * pair + 1]), np.tile(pair, 2)
    latent = np.concatenate([values, sines])
    E_y = sparse.coo_array((latent, (rows, columns)), shape=(2 * d, d))
    X, Y = ((np.sqrt(2 * d) * E.tocsr() @ _mixing(rng, d).T).tocsr() for E in (E_x, E_y))
    return Views(
        f"sparse pairs, {2 * d} rows",
        X,
        Y,
        f"{d} pairs of columns with exact correlations, mixed by sparse triangular matrices.",
        OWN,
        correlations=-np.sort(-values),
    )


def _mixing(rng: np.random.Generator, d: int) -> Any:
    column = np.repeat(np.arange(d), 5)
    row = rng.integers(0, d, len(column))
    below = row > column
    entries = 0.3 * rng.standard_normal(below.sum())
    off = sparse.csr_array((entries, (row[below], column[below])), shape=(d, d))
    return (off + sparse.eye_array(d)).tocsr()


def pencil(
    d: int,
    k: int = 5,
    kappa: float = 100.0,
    rho: float = 0.1,
    gamma: float = 2.0,
    *,
    indefinite: bool = True,
    values: Any = None,
    unit_diagonal: bool = False,
    rng: Rng = 0,
) -> KnownPencil:
    """A dense pencil A v = λ B v of chosen spectrum, with its exact eigenpairs.

    Parameters
    ----------
    d : size.
    k, rho, gamma : |λ| falls evenly from 1 to 1/γ over the first k (γ = 1 for a single one), drops
        by the factor 1 − ρ, and falls evenly to zero over the rest.
    kappa : condition number of B, whose spectrum is log-uniform.
    indefinite : give eigenvalues random signs.
    values : the d eigenvalues themselves, instead of k, rho, gamma and indefinite.
    unit_diagonal : scale the columns of B, so that a solver gains nothing by doing so; κ is then
        only about as asked for.
    rng : seed or generator.

    Examples
    --------
    >>> from genelin import top_k
    >>> A, B = case = pencil(30, k=3, kappa=1e4, rho=0.2)
    >>> sol = top_k(A, B, k=3)
    >>> bool(abs(sol.values - case.values[:3]).max() < 1e-8)
    True
    """
    d = check_count("d", d, most=MOST)
    if values is None:
        k = check_index("k", k, 1, d, f"d={d}")
    kappa = check_number("kappa", kappa, 1, MOST_KAPPA)
    rho, gamma = check_number("rho", rho, 0, 1), check_number("gamma", gamma, 1)
    check_flag("indefinite", indefinite)
    check_flag("unit_diagonal", unit_diagonal)
    chosen = None if values is None else check_numbers("values", values)
    if chosen is not None and chosen.shape != (d,):
        raise ValueError(f"values has shape {chosen.shape}: give d = {d} eigenvalues")
    rng = generator(rng)
    Q, U = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
    B = (Q * np.logspace(0, -np.log10(kappa), d)) @ Q.T
    scale = 1 / np.sqrt(B.diagonal()) if unit_diagonal else np.ones(d)
    B = scale[:, None] * (B + B.T) / 2 * scale
    if chosen is None:
        top = np.linspace(1.0, 1 / gamma, k)
        sizes = np.concatenate([top, np.linspace((1 - rho) * top[-1], 0.0, d - k)])
        chosen = sizes * (rng.choice([-1.0, 1.0], d) if indefinite else 1.0)
    chosen = chosen[np.argsort(-np.abs(chosen), kind="stable")]
    L = np.linalg.cholesky(B)
    V = L @ U
    A = (V * chosen) @ V.T
    vectors = solve_triangular(L.T, U, lower=False)
    known = float(np.linalg.cond(B)) if unit_diagonal else float(kappa)
    return KnownPencil((A + A.T) / 2, B, chosen, vectors, known)


def mesh_pencil(side: int, *, rng: Rng = 0) -> tuple[Any, Any]:
    """Linear elements on the unit square, side² nodes: A = K − 10⁴·M over half of them, B = M.

    Sparse, indefinite, and without a known answer.

    Examples
    --------
    >>> A, B = mesh_pencil(5)
    >>> A.shape, B.nnz
    ((25, 25), 137)
    """
    side = check_count("side", side, 2, 2**15)
    nodes = np.arange(side * side).reshape(side, side)
    corners = (nodes[:-1, :-1], nodes[:-1, 1:], nodes[1:, :-1], nodes[1:, 1:])
    a, b, c, e = (corner.ravel() for corner in corners)
    triangles = np.concatenate([np.stack([b, a, e], axis=1), np.stack([c, a, e], axis=1)])
    stiffness = np.array([[2, -1, -1], [-1, 1, 0], [-1, 0, 1]]) / 2  # right angle first
    mass = (np.ones((3, 3)) + np.eye(3)) / (24 * (side - 1) ** 2)
    half = generator(rng).permutation(len(triangles)) < len(triangles) // 2

    def assembled(local: Any, chosen: Any) -> Any:
        rows, columns = np.repeat(chosen, 3, axis=1).ravel(), np.tile(chosen, (1, 3)).ravel()
        entries = np.tile(local.ravel(), len(chosen))
        return sparse.coo_array((entries, (rows, columns)), shape=(side**2, side**2)).tocsr()

    K, M = assembled(stiffness, triangles), assembled(mass, triangles)
    return (K - 1e4 * assembled(mass, triangles[half])).tocsr(), M
