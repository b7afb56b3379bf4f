"""What is known of a problem before a method is chosen: looked up once, read by all estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from genelin.eigen.costs.formulas import SKINNY, Moment, moment_of, moment_pairs
from genelin.eigen.costs.machine import Machine, Profile
from genelin.eigen.costs.spectrum_probe import clustering, digits_seen
from genelin.eigen.subspace.whitening import by_diagonal
from genelin.linalg.sparse_cholesky import is_diagonal_matrix
from genelin.operators import Operator
from genelin.problems import SMALL, Pencil, TwoView
from genelin.system.cached import cached_property

__all__ = ["Facts", "WhiteningCost", "one_sided", "sparse_core"]

MOST_FACTORED, FACTORED = 2.0**32, 40.0  # bytes for factors of a dense B, and for a number of it
# Steps of Lanczos that are predicted, by benchmarks/plans.py.
BLOCKS = 60  # for one pair, as a rule
STEEP, WIDER = 8.0, 20  # by the measure of `clustering`, and pairs that take twice as many
SEEN, PLENTY = 480, 4.0  # for every digit less that a probe sees, and digits below which more

STORED = 40.0  # bytes for an entry of sparse factors, while they are found
FURTHER = 2.0  # times that a try with sparse factors must be cheaper than what follows it


@dataclass(frozen=True)
class WhiteningCost:
    """What T with TᵀBT = I costs, for a B of a certain kind.

    Attributes
    ----------
    name : what it comes from.
    setup, column : seconds to find it, and of both products with a column.
    memory : bytes that it takes.
    dense : whether it is a dense matrix.
    caution : how many times cheaper than the next best method a try with it must be.
    """

    name: str
    setup: float = 0.0
    column: float = 0.0
    memory: float = 0.0
    dense: bool = False
    caution: float = 1.0


@dataclass(frozen=True)
class Facts:
    """A problem, k, a machine, and what trials have shown.

    Attributes
    ----------
    steps : of a solve with B, by a trial.
    column : seconds of the products of A and B with a column, by a trial.
    probe : whether a look at the spectrum is worth its time.
    """

    problem: Any
    k: int
    machine: Machine
    steps: int | None = None
    column: float | None = None
    probe: bool = True

    @property
    def profile(self) -> Profile:
        """Speeds of the machine."""
        return self.machine.profile

    # --- Views ---------------------------------------------------------------------------------

    @cached_property
    def moments(self) -> list[Moment]:
        """What S_x, S_y and S_xy cost."""
        return [moment_of(*pair, self.profile) for pair in moment_pairs(self.problem)]

    @property
    def held(self) -> float:
        """Bytes of the data that are in memory: numbers, and as many indices of half their size."""
        if isinstance(self.problem, TwoView):
            return 12.0 * float(sum(rows.stored for rows in self.problem.views if rows.in_memory))
        return 12.0 * float(self.problem.data_size)

    # --- Pencils -------------------------------------------------------------------------------

    @cached_property
    def is_explicit(self) -> bool:
        """Whether the entries of A and B are known."""
        return all(part.entries() is not None for part in self.problem.operators)

    @property
    def multiplied_out(self) -> bool:
        """Whether a matrix known by its products only is small enough to be had by as many."""
        return not self.is_explicit and self.problem.d <= SMALL

    @cached_property
    def matrices(self) -> tuple[Any, Any]:
        """A and B as sparse matrices, None where they are not."""
        A, B = (sparse_core(operator) for operator in self.problem.operators)
        return A, B

    @cached_property
    def column_seconds(self) -> float:
        """Seconds of the products of A and B with one column of a block."""
        if self.column is not None:
            return self.column
        return float(sum(map(self.product_seconds, self.problem.operators)))

    def product_seconds(self, operator: Operator) -> float:
        """Seconds of the product of one of them."""
        entry = SKINNY * self.profile.multiply if _is_dense(operator) else self.profile.entry
        return float(operator.flops / 2 * entry)

    @cached_property
    def clustering(self) -> float | None:
        """How clustered the values are at the end that is wanted, where entries can tell."""
        known = all(core is not None for core in self.matrices) and self.problem.which != "LM"
        known = known and self.probe
        return clustering(*one_sided(self.problem)) if known else None

    @cached_property
    def easy_B(self) -> bool | None:
        """Whether a sparse B is well conditioned by its diagonal, beside which it has entries."""
        B = self.matrices[1]
        if B is None or is_diagonal_matrix(B) or not self.probe:
            return None
        return clustering(B, sparse.diags_array(B.diagonal())) is None

    @cached_property
    def lanczos_steps(self) -> int:
        """Steps that block Lanczos needs.

        Where they are expensive, and B is so well conditioned that its diagonal can stand for it,
        the spectrum is looked at first.
        """
        k, A = self.k, self.matrices[0]
        if self.clustering is not None:
            return max(BLOCKS + 2 * k, round(STEEP * (1 + k / WIDER) * self.clustering))
        if self.easy_B is not True or A is None:
            return BLOCKS + 2 * k
        digits = max(digits_seen(A, self.matrices[1], k, self.problem.which), 1.0)
        return round(SEEN / digits * max(1.0, PLENTY / digits))

    @cached_property
    def whitening(self) -> WhiteningCost | None:
        """What a whitening transform costs, where it is cheap to have."""
        B, d, profile = self.problem.B, float(self.problem.d), self.profile
        if by_diagonal(B) is not None:
            return WhiteningCost("a diagonal")
        if B.fill is not None and B.fill.is_sparse:
            setup, entries = B.fill.factoring(profile.factor), B.fill.entries
            column = 2 * profile.entry * entries
            return WhiteningCost("a sparse factor", setup, column, STORED * entries, False, FURTHER)
        known = B.entries() is not None and any(map(_is_dense, self.problem.operators))
        if not known or FACTORED * d**2 > MOST_FACTORED:
            return None
        setup, column = profile.multiply * d**3 / 3, SKINNY * profile.multiply * d**2
        return WhiteningCost("a Cholesky factor", setup, column, 16 * d**2, dense=True)


def one_sided(problem: Pencil) -> tuple[Any, Any]:
    """A and B whose smallest values are wanted, as sparse matrices."""
    A, B = (sparse_core(operator) for operator in problem.operators)
    if A is None or B is None:
        raise ValueError(
            "ShiftInvert needs A and B as sparse matrices: use method=None or Davidson()"
        )
    if problem.which == "LM":
        raise ValueError(
            'ShiftInvert finds one end of the spectrum: ask for which="SA" or "LA", or use '
            "method=None"
        )
    return (A if problem.which == "SA" else -A), B


def sparse_core(operator: Operator) -> Any:
    """The entries of an operator if they are those of a sparse matrix and nothing else."""
    entries = operator.entries()
    if entries is None or entries.minus is not None or not sparse.issparse(entries.core):
        return None
    return entries.core


def _is_dense(operator: Operator) -> bool:
    entries = operator.entries()
    return entries is not None and isinstance(entries.core, np.ndarray)
