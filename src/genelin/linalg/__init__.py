"""Small dense work: orthonormal bases in the B-inner product, Ritz pairs, principal angles."""

from genelin.linalg.column_products import EPS, column_dots, column_norms
from genelin.linalg.diagonal_scaling import ScaledFactor, range_basis, scaled_factor, unit_diagonal
from genelin.linalg.eigh_subset import leading_pairs
from genelin.linalg.orthonormalise import orthonormalise
from genelin.linalg.principal_angles import principal_sines, sin_theta
from genelin.linalg.rayleigh_ritz import Which, magnitudes, order, rayleigh_ritz
from genelin.linalg.sparse_cholesky import SparseFactor, sparse_factor
from genelin.linalg.tridiagonal import tridiagonal_eigen

__all__ = [
    "EPS",
    "ScaledFactor",
    "SparseFactor",
    "Which",
    "column_dots",
    "column_norms",
    "leading_pairs",
    "magnitudes",
    "order",
    "orthonormalise",
    "principal_sines",
    "range_basis",
    "rayleigh_ritz",
    "scaled_factor",
    "sin_theta",
    "sparse_factor",
    "tridiagonal_eigen",
    "unit_diagonal",
]
