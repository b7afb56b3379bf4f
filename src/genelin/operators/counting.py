"""A meter on operators: applications, passes over the data, flops."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from genelin.linalg import ScaledFactor, SparseFactor
from genelin.linalg.column_products import Block, Vector
from genelin.linalg.sparse_cholesky import Fill
from genelin.operators.base import Entries, Operator, PencilProduct
from genelin.operators.finite_sum import RowSum

__all__ = ["Counter", "Counting"]


@dataclass
class Counter:
    """Running totals; `data_size` is the number of stored entries that make one pass.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin.operators import as_operator
    >>> counter = Counter(data_size=4)
    >>> op = Counting(as_operator(np.eye(2)), counter)
    >>> _ = op @ np.ones((2, 3))
    >>> counter.applications, counter.passes, counter.flops
    (3, 1.0, 24.0)
    """

    data_size: float = 0.0
    passes: float = 0.0
    applications: int = 0
    flops: float = 0.0
    _formed: list[Operator] = field(default_factory=list, repr=False, compare=False)

    def add(self, operator: Operator, columns: int) -> None:
        """Count one application of `operator` to a block of `columns` columns."""
        self.applications += columns
        self.flops += operator.flops * columns
        self.read(operator.reads)

    def read(self, stored: float, flops: float = 0.0) -> None:
        """Count a read of so many stored entries, and work done on them."""
        self.flops += flops
        if self.data_size:
            self.passes += stored / self.data_size

    def form(self, operator: Operator) -> None:
        """Count one read, and the work, for the entries of an operator, which keeps them."""
        if not any(operator is formed for formed in self._formed):
            self._formed.append(operator)
            self.read(operator.reads, operator.forming)


class Counting(Operator):
    """An operator that counts its applications; all other properties shine through.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin.operators import as_operator
    >>> counter = Counter()
    >>> op = Counting(as_operator(np.diag([1.0, 2.0])), counter)
    >>> (op @ np.ones(2)).tolist(), op.diagonal().tolist(), counter.applications
    ([1.0, 2.0], [1.0, 2.0], 1)
    """

    def __init__(self, operator: Operator, counter: Counter) -> None:
        super().__init__(operator.shape)
        self._operator, self._counter = operator, counter
        self.dtype, self.flops, self.reads = operator.dtype, operator.flops, operator.reads
        self.lambda_min_bound, self.n_rows = operator.lambda_min_bound, operator.n_rows
        self.is_identity = operator.is_identity
        self.diagonal_blocks = tuple(Counting(b, counter) for b in operator.diagonal_blocks)

    def _apply(self, V: Block) -> Block:
        self._counter.add(self._operator, V.shape[1])
        return self._operator._apply(V)

    def parts(self, *blocks: Block) -> tuple[Block, ...]:
        """One application, of the widest block."""
        self._counter.add(self._operator, max(block.shape[1] for block in blocks))
        return self._operator.parts(*blocks)

    def _apply_transposed(self, V: Block) -> Block:
        self._counter.add(self._operator, V.shape[1])
        return self._operator._apply_transposed(V)

    def in_float32(self) -> Counting | None:
        """The operator inside in float32, on the same meter."""
        inner = self._operator.in_float32()
        return None if inner is None else Counting(inner, self._counter)

    def pencil_product(self, B: Operator) -> PencilProduct | None:
        """θB − A of the operators inside: two applications in one sweep."""
        inner = self._operator.pencil_product(B._operator if isinstance(B, Counting) else B)
        if inner is None:
            return None
        return _CountedProduct(inner, self._operator.flops + B.flops, self._counter)

    @property
    def forming(self) -> float:  # type: ignore[override]
        """Flops that the entries of the operator inside take."""
        return self._operator.forming

    def diagonal(self) -> Vector | None:
        """The diagonal of the operator inside."""
        return self._operator.diagonal()

    def entries(self) -> Entries | None:
        """The entries of the operator inside, which keeps them: they are read or formed once."""
        entries = self._operator.entries()
        if entries is not None:
            self._counter.form(self._operator)
        return entries

    def factor(self) -> ScaledFactor | SparseFactor | None:
        """The factor that the operator inside keeps."""
        self.entries()
        return self._operator.factor()

    @property
    def fill(self) -> Fill | None:
        """That of the operator inside."""
        return self._operator.fill

    def row_blocks(self) -> RowSum | None:
        """The rows of the operator inside; reading them is counted."""
        rows = self._operator.row_blocks()
        return None if rows is None else rows.metered(self._counter.read)

    def on_rows(self, rows: Any) -> Counting:
        """A part of the operator inside, on the same meter."""
        return Counting(self._operator.on_rows(rows), self._counter)


class _CountedProduct:
    """s(θB − A)P, on the meter of A."""

    def __init__(self, inner: PencilProduct, flops: float, counter: Counter) -> None:
        self._inner, self._flops, self._counter, self.reads = inner, flops, counter, inner.reads

    def __call__(self, P: Block, theta: Vector, sign: Vector) -> tuple[Block, Vector]:
        self._counter.applications += 2 * P.shape[1]
        self._counter.read(self.reads, self._flops * P.shape[1])
        return self._inner(P, theta, sign)
