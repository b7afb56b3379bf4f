"""Small dense work: orthonormal bases in the B-inner product, Ritz pairs, principal angles."""

from genelin.linalg.angles import principal_sines, sin_theta
from genelin.linalg.columns import column_dots, column_norms
from genelin.linalg.orthonormal import orthonormalise
from genelin.linalg.range import range_basis
from genelin.linalg.ritz import Which, order, rayleigh_ritz

__all__ = [
    "Which",
    "column_dots",
    "column_norms",
    "order",
    "orthonormalise",
    "principal_sines",
    "range_basis",
    "rayleigh_ritz",
    "sin_theta",
]
