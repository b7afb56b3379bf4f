"""All eigenvalues and eigenvectors of a symmetric tridiagonal matrix."""

from __future__ import annotations

from collections.abc import Sequence

from scipy.linalg import LinAlgError, eigh_tridiagonal

from genelin.linalg.column_products import Block, Vector

__all__ = ["tridiagonal_eigen"]


def tridiagonal_eigen(
    diagonal: Sequence[float] | Vector, beside: Sequence[float] | Vector
) -> tuple[Vector, Block]:
    """Ascending eigenvalues and their vectors.

    LAPACK's fast method gives up on matrices with entries of very different size, in the build
    that SciPy 1.15 has in every tenth case; QR iteration takes longer and always ends.

    Examples
    --------
    >>> values, vectors = tridiagonal_eigen([2.0, 2.0], [1.0])
    >>> values.round(6).tolist()
    [1.0, 3.0]
    """
    try:
        values, vectors = eigh_tridiagonal(diagonal, beside)
    except LinAlgError:
        values, vectors = eigh_tridiagonal(diagonal, beside, lapack_driver="stev")
    return values, vectors
