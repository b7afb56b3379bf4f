"""Sums of covariances: within-class scatter, pooled and mixed moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from genelin.linalg.column_products import Block, Vector
from genelin.operators.base import Entries, Operator
from genelin.operators.covariance import Gram
from genelin.operators.finite_sum import RowSum
from genelin.system.cached import cached_property

__all__ = ["Sum"]

LARGEST = 2048  # size up to which the terms are added up to one matrix


class Sum(Operator):
    """S₁ + S₂ + … for covariances of data sets with the same columns, of any row counts.

    Each term is applied through its own rows. The matrix itself (`entries`) is there up to a size
    of 2048.

    Parameters
    ----------
    terms : `Gram` operators of one size, with their weights and ridges.

    Examples
    --------
    >>> import numpy as np
    >>> first, second = np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([[0.0, 2.0]])
    >>> S = Sum([Gram(first, reg=0.5, center=True, weight=2.0), Gram(second)])
    >>> (S @ np.eye(2)).tolist(), S.lambda_min_bound
    ([[2.5, 0.0], [0.0, 4.5]], 0.5)
    """

    def __init__(self, terms: Sequence[Gram]) -> None:
        super().__init__(terms[0].shape)
        self.terms = tuple(terms)
        self.flops = sum(term.flops for term in terms)
        self.reads = sum(term.reads for term in terms)
        self.lambda_min_bound = sum(term.lambda_min_bound for term in terms)
        self.data_rows = sum(term.rows.counted for term in terms)
        self.n_rows = terms[0].n_rows if len(terms) == 1 else 0

    def _apply(self, V: Block) -> Block:
        total = self.terms[0] @ V
        for term in self.terms[1:]:
            total += term @ V
        return total

    def diagonal(self) -> Vector:
        """The diagonals of the terms, added."""
        return np.asarray(np.sum([term.diagonal() for term in self.terms], axis=0))

    @cached_property
    def _matrix(self) -> Block:
        first, *others = (term.formed().entries().dense() for term in self.terms)  # not kept there
        return np.asarray(sum(others, first))

    @property
    def forming(self) -> float:  # type: ignore[override]
        """Flops that the entries take."""
        return sum(term.forming for term in self.terms)

    def entries(self) -> Entries | None:
        """The matrix, where it is small; reads the data once."""
        return Entries(self._matrix) if self.shape[0] <= LARGEST else None

    def row_blocks(self) -> RowSum | None:
        """The rows of a single term; several data sets are not one sum over rows."""
        return self.terms[0].row_blocks() if len(self.terms) == 1 else None

    def on_rows(self, rows: Any) -> Sum:
        """A single term from some of its rows; those of several data sets have no common order."""
        if len(self.terms) > 1:
            super().on_rows(rows)
        return Sum([self.terms[0].on_rows(rows)])

    def in_float32(self) -> Sum | None:
        """The terms in float32, if all of them can be had so."""
        lowered = [term.in_float32() for term in self.terms]
        known = [term for term in lowered if term is not None]
        if len(known) < len(lowered):
            return None
        twin = Sum(known)
        twin.dtype = np.dtype(np.float32)
        return twin
