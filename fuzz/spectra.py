"""Random symmetric matrices, pencils and graphs with spectra that are hard on eigensolvers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

__all__ = [
    "FORMATS",
    "chosen",
    "definite",
    "dressed",
    "log_uniform",
    "orthogonal",
    "spectrum",
    "symmetric",
]

FORMATS = ("csr", "csc", "coo", "bsr", "dia", "dok", "lil")
Rng = np.random.Generator
KINDS = (
    "normal",
    "integer",
    "clustered",
    "multiple",
    "plus and minus",
    "geometric",
    "low rank",
    "zero",
    "identity",
    "two values",
    "one large",
    "near ties",
)


def chosen(rng: Rng, options: Any, weights: Any = None) -> Any:
    """One of the options, as it is (numpy would make arrays of them)."""
    options = list(options)
    p = None if weights is None else np.asarray(weights, dtype=float) / np.sum(weights)
    return options[int(rng.choice(len(options), p=p))]


def log_uniform(rng: Rng, low: float, high: float) -> float:
    """A number between both whose logarithm is uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def orthogonal(rng: Rng, d: int) -> Any:
    """A random orthogonal matrix."""
    return np.linalg.qr(rng.standard_normal((d, d)))[0]


def spectrum(rng: Rng, d: int) -> Any:
    """D eigenvalues of a random kind, in random order."""
    kind = chosen(rng, KINDS)
    if kind == "normal":
        values = rng.standard_normal(d)
    elif kind == "integer":
        values = rng.integers(-4, 5, d).astype(float)
    elif kind == "clustered":
        width = log_uniform(rng, 1e-16, 1e-3)
        values = chosen(rng, (1.0, -1.0, 0.5)) + width * rng.standard_normal(d)
        values[: d // 3] = rng.standard_normal(d // 3)
    elif kind == "multiple":
        values = np.repeat(rng.standard_normal(d), rng.integers(1, 8, d))[:d]
    elif kind == "plus and minus":
        half = rng.standard_normal(-(-d // 2)).round(int(rng.integers(1, 16)))
        values = np.concatenate([half, -half])[:d]
    elif kind == "geometric":
        values = np.geomspace(1, log_uniform(rng, 1e-30, 0.5), d) * rng.choice([-1.0, 1.0], d)
    elif kind == "low rank":
        values = np.zeros(d)
        values[: int(rng.integers(0, d)) + 1] = rng.standard_normal()
        values[: int(rng.integers(0, d)) // 2] += rng.standard_normal(1)
    elif kind == "one large":
        values = rng.standard_normal(d) * log_uniform(rng, 1e-14, 1.0)
        values[0] = rng.choice([-1.0, 1.0])
    elif kind == "near ties":
        values = np.round(rng.standard_normal(d), 1)
        values = values + log_uniform(rng, 1e-15, 1e-5) * rng.standard_normal(d)
    else:
        values = {
            "zero": np.zeros(d),
            "identity": np.ones(d),
            "two values": rng.choice([1.0, -0.5], d),
        }[kind]
    return rng.permutation(values)


def symmetric(rng: Rng, d: int) -> Any:
    """A dense symmetric matrix: rotated, diagonal, of integers, or in blocks."""
    kind = chosen(rng, ("rotated", "diagonal", "integers", "blocks", "banded", "zero-one"))
    if kind == "rotated":
        Q = orthogonal(rng, d)
        M = (Q * spectrum(rng, d)) @ Q.T
    elif kind == "diagonal":
        M = np.diag(spectrum(rng, d))
    elif kind == "integers":
        M = rng.integers(-2, 3, (d, d)).astype(float)
    elif kind == "blocks":
        size = int(rng.integers(1, max(d // 2, 1) + 1))
        block = rng.integers(-2, 3, (size, size)).astype(float)
        M = np.zeros((d, d))
        for start in range(0, d - size + 1, size):
            M[start : start + size, start : start + size] = block
    elif kind == "banded":
        M = np.diag(np.full(d, 2.0)) - np.eye(d, k=1) - np.eye(d, k=-1)
    else:
        M = np.triu(rng.random((d, d)) < rng.uniform(0, 0.6), 1).astype(float)
        M = M + M.T
    return (M + M.T) / 2


def definite(rng: Rng, d: int, kappa: float) -> Any:
    """A dense positive definite matrix of about this condition number."""
    kind = chosen(rng, ("rotated", "diagonal", "scaled", "tridiagonal", "identity"))
    weights = np.exp(np.log(kappa) * (rng.random(d) - 0.5))
    if kind == "diagonal":
        return np.diag(weights)
    if kind == "tridiagonal":
        return np.diag(np.full(d, 4.0)) + np.eye(d, k=1) + np.eye(d, k=-1)
    if kind == "identity":
        return np.eye(d)
    if kind == "scaled":  # ill conditioned by its scales alone
        Q = orthogonal(rng, d)
        M = (Q * rng.uniform(0.5, 2.0, d)) @ Q.T
        M = M * np.outer(weights, weights) ** 0.5
    else:
        Q = orthogonal(rng, d)
        M = (Q * weights) @ Q.T
    return (M + M.T) / 2


def dressed(rng: Rng, M: Any, kinds: Any = None) -> tuple[Any, str]:
    """The same matrix as an array of some layout, a sparse format, or an operator; and its name."""
    plain = ("array", "array", "fortran", "read-only", "strided", "list", "float32", "integer")
    kind = chosen(rng, kinds or (*plain, *FORMATS, *FORMATS, "operator", "function"))
    if kind == "array":
        return M.copy(), kind
    if kind == "fortran":
        return np.asfortranarray(M), kind
    if kind == "read-only":
        M = M.copy()
        M.flags.writeable = False
        return M, kind
    if kind == "strided":
        return np.repeat(np.repeat(M, 2, 0), 2, 1)[::2, ::2], kind
    if kind == "list":
        return M.tolist(), kind
    if kind == "float32":
        with np.errstate(over="ignore"):
            single = M.astype(np.float32)
        same = np.array_equal(single.astype(float), M)
        return (single, kind) if same else (M.copy(), "array")
    if kind == "integer":
        whole = np.abs(M).max(initial=0) < 1e9 and np.array_equal(np.round(M), M)
        return (M.astype(np.int64), kind) if whole else (M.copy(), "array")
    if kind == "operator":
        return aslinearoperator(M.copy()), kind
    if kind == "function":
        return LinearOperator(
            M.shape, matvec=lambda v: M @ v, matmat=lambda V: M @ V, dtype=float
        ), (kind)
    maker = getattr(sparse, f"{kind}_{chosen(rng, ('array', 'matrix'))}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that some formats do not suit these entries
        return maker(M), kind
