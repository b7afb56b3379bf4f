"""The contract of an operator: a shape, `op @ V`, `op.T`, and properties a solver may ask for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy import sparse

from genelin.linalg import ScaledFactor, SparseFactor, scaled_factor
from genelin.linalg.block_products import magnitudes_times
from genelin.linalg.column_products import Block, Vector
from genelin.linalg.sparse_cholesky import Fill, is_diagonal_matrix
from genelin.system.cached import cached_property

if TYPE_CHECKING:
    from genelin.operators.finite_sum import RowSum

__all__ = ["Entries", "Operator", "PencilProduct"]


@dataclass(frozen=True)
class Entries:
    """An explicit matrix, core − minus·minusᵀ: the rank-one part keeps a centred core sparse.

    Examples
    --------
    >>> import numpy as np
    >>> Entries(np.eye(2), minus=np.array([0.5, 0.0])).dense().tolist()
    [[0.75, 0.0], [0.0, 1.0]]
    """

    core: Any  # (d, d) ndarray or CSR
    minus: Vector | None = None  # (d,)

    def dense(self) -> Block:
        """The matrix as one dense array."""
        M: Block = self.core if isinstance(self.core, np.ndarray) else self.core.toarray()
        return M if self.minus is None else M - np.outer(self.minus, self.minus)

    def magnitudes_times(self, V: Block) -> Block:
        """|M|V: what M V would be if no terms cancelled."""
        return magnitudes_times(self.core if self.minus is None else self.dense(), V)

    @property
    def is_diagonal(self) -> bool:
        """Whether it is a sparse matrix without entries beside its diagonal."""
        return self.minus is None and sparse.issparse(self.core) and is_diagonal_matrix(self.core)


class PencilProduct(Protocol):
    """s(θB − A)P for a block P, every column with its own s and θ.

    `reads` are the stored numbers that a product reads.
    """

    reads: float

    def __call__(self, P: Block, theta: Vector, sign: Vector) -> tuple[Block, Vector]:
        """The product, which the next call overwrites, and the curvatures pᵀ·s(θB − A)p."""
        ...


class Operator(ABC):
    """A linear map that is applied to blocks of columns.

    Subclasses give `_apply`, and `_apply_transposed` unless they are symmetric. A solver asks for
    properties, never for a type:

    - `diagonal()`: the diagonal, or None where it cannot be had cheaply;
    - `entries()`: the matrix itself where it is known (for factorisations), or None; what has to
      be formed for it, by so many flops (`forming`), is formed once and kept;
    - `factor()`: the Cholesky factor of that, sparse where it has few entries, or None; kept, too;
    - `fill`: what sparse factors would be, where it is a sparse matrix, or None;
    - `lambda_min_bound`: a lower bound on the smallest eigenvalue (a ridge gives one); 0: unknown;
    - `diagonal_blocks`: operators of which this one is the block-diagonal sum, or ();
    - `row_blocks()`: the sum over rows of data that this operator is, or None;
    - `n_rows` of the data behind it (0: there are none), and `on_rows(rows)`: the same operator
      from some of them;
    - `in_float32()`: the same operator in single precision where that is cheaper, or None;
    - `pencil_product(B)`: θB − A in one sweep, where that is cheaper than both products, or None;
    - `is_identity`: whether products are what they are products with, so that none is needed;
    - `flops` per column and `reads`, stored numbers read per application: its cost.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin.operators import as_operator
    >>> op = as_operator(np.array([[2.0, 1.0], [1.0, 3.0]]))
    >>> (op @ np.ones(2)).tolist(), op.diagonal().tolist(), op.flops
    ([3.0, 4.0], [2.0, 3.0], 8.0)
    """

    dtype: np.dtype[Any] = np.dtype(np.float64)
    is_identity: bool = False
    flops: float = 0.0
    reads: float = 0.0
    forming: float = 0.0
    lambda_min_bound: float = 0.0
    n_rows: int = 0
    diagonal_blocks: tuple[Operator, ...] = ()

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = (int(shape[0]), int(shape[1]))

    @abstractmethod
    def _apply(self, V: Block) -> Block:
        """Product with a block V of shape (shape[1], m)."""

    def _apply_transposed(self, V: Block) -> Block:
        return self._apply(V)

    def __matmul__(self, V: Any) -> Block:
        V = np.asarray(V)
        if V.ndim not in (1, 2) or V.shape[0] != self.shape[1]:
            raise ValueError(
                f"operator of shape {self.shape} cannot be applied to an array of shape {V.shape}"
            )
        V = V.astype(self.dtype, copy=False)
        return self._apply(V[:, None])[:, 0] if V.ndim == 1 else self._apply(V)

    @property
    def T(self) -> Operator:
        """The transposed operator."""
        return Transposed(self)

    def diagonal(self) -> Vector | None:
        """The diagonal, or None where it cannot be had cheaply."""
        return None

    def entries(self) -> Entries | None:
        """The matrix itself where it is available, or None."""
        return None

    @cached_property
    def _factor(self) -> ScaledFactor | SparseFactor | None:
        entries = self.entries()
        return None if entries is None else scaled_factor(entries.dense())

    def factor(self) -> ScaledFactor | SparseFactor | None:
        """The Cholesky factor of its entries, which is found once; None where they are unknown."""
        return self._factor

    @property
    def fill(self) -> Fill | None:
        """What sparse factors of its entries would be; None where these are not sparse."""
        return None

    def row_blocks(self) -> RowSum | None:
        """The operator as a sum over rows of data, or None."""
        return None

    def in_float32(self) -> Operator | None:
        """The same operator in float32, for solves of a few digits; None where it has none."""
        return None

    def parts(self, *blocks: Block) -> tuple[Block, ...]:
        """Σ_j C_ij V_j for every view i, for an operator made of the covariances between views."""
        raise ValueError(f"{self!r} is not made of the covariances between views")

    def pencil_product(self, B: Operator) -> PencilProduct | None:
        """θB − A of this operator A in one sweep over what is behind both; None without one."""
        return None

    def on_rows(self, rows: Any) -> Operator:
        """The same operator from some of its rows; means and scales stay those of all rows."""
        raise ValueError(f"{self!r} is not made of rows of data: it has no part on some of them")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of shape {self.shape}>"


class Transposed(Operator):
    """opᵀ, from an operator that knows its transposed product."""

    def __init__(self, operator: Operator) -> None:
        super().__init__((operator.shape[1], operator.shape[0]))
        self._operator = operator
        self.flops, self.reads = operator.flops, operator.reads

    def _apply(self, V: Block) -> Block:
        return self._operator._apply_transposed(V)

    def _apply_transposed(self, V: Block) -> Block:
        return self._operator._apply(V)

    @property
    def T(self) -> Operator:
        """The operator that was transposed."""
        return self._operator
