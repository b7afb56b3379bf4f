"""What a data set returns: two views of the same rows, or a pencil, with what is known of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["KnownPencil", "Views"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Views:
    """Two views of the same rows; `X, Y = views` unpacks them.

    Attributes
    ----------
    name : of the data set, with its settings.
    X, Y : (n, d₁) and (n, d₂), ndarray or CSR.
    description : what rows and columns are, in a sentence or two.
    licence : under which terms the data stand.
    x_names, y_names : names of the columns, where they have any.
    correlations : of the population, descending, where they are known.
    x_weights, y_weights : canonical weights of the population, where they are known.

    Examples
    --------
    >>> from genelin.datasets import digits_halves
    >>> views = digits_halves()
    >>> X, Y = views
    >>> views
    <Views 'digits halves': 1797 rows, 32 + 32 columns, dense>
    """

    name: str
    X: Any
    Y: Any
    description: str
    licence: str
    x_names: NDArray[np.str_] | None = None
    y_names: NDArray[np.str_] | None = None
    correlations: Array | None = None
    x_weights: Array | None = None
    y_weights: Array | None = None

    def __post_init__(self) -> None:
        if self.X.shape[0] != self.Y.shape[0]:
            raise ValueError(
                f"X has {self.X.shape[0]} rows but Y has {self.Y.shape[0]}: row i of both must "
                "describe the same observation"
            )

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.Y))

    def __repr__(self) -> str:
        kind = (
            "dense" if isinstance(self.X, np.ndarray) else f"{self.X.nnz} + {self.Y.nnz} nonzeros"
        )
        rows, columns = self.X.shape
        return f"<Views {self.name!r}: {rows} rows, {columns} + {self.Y.shape[1]} columns, {kind}>"


@dataclass(frozen=True, eq=False, repr=False)
class KnownPencil:
    """A pencil with its exact eigenpairs; `A, B = pencil` unpacks it.

    Attributes
    ----------
    A, B : (d, d) symmetric; B positive definite.
    values : (d,) eigenvalues, largest magnitude first.
    vectors : (d, d) B-orthonormal eigenvectors in the same order.
    kappa : condition number of B.

    Examples
    --------
    >>> from genelin.datasets import pencil
    >>> case = pencil(6, k=2, kappa=100.0, rho=0.5)
    >>> case
    <KnownPencil of size 6, κ(B) = 100>
    >>> round(case.rho(2), 6), round(case.gamma(2), 6)
    (0.5, 2.0)
    """

    A: Array
    B: Array
    values: Array
    vectors: Array
    kappa: float

    def rho(self, k: int) -> float:
        """The gap behind the k-th pair, 1 − |λ_{k+1}|/|λ_k|."""
        return float(1.0 - abs(self.values[k]) / abs(self.values[k - 1]))

    def gamma(self, k: int) -> float:
        """The spread of the first k, |λ₁|/|λ_k|."""
        return float(abs(self.values[0]) / abs(self.values[k - 1]))

    def __iter__(self) -> Iterator[Any]:
        return iter((self.A, self.B))

    def __repr__(self) -> str:
        return f"<KnownPencil of size {len(self.values)}, κ(B) = {self.kappa:g}>"
