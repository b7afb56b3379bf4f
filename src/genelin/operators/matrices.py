"""Operators made of matrices and of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from genelin.linalg import ScaledFactor, SparseFactor, scaled_factor, sparse_factor
from genelin.linalg.block_products import filled_up, times
from genelin.linalg.column_products import Block, Vector
from genelin.linalg.sparse_cholesky import Fill, predicted_fill
from genelin.linalg.tall_skinny import in_precision
from genelin.operators.base import Entries, Operator
from genelin.system.cached import cached_property

__all__ = [
    "FunctionOperator",
    "Identity",
    "MatrixOperator",
    "Rounded",
    "Scaled",
    "Shifted",
    "ShiftedProduct",
]


class MatrixOperator(Operator):
    """A dense array or a CSR matrix.

    Examples
    --------
    >>> import numpy as np
    >>> op = MatrixOperator(np.array([[0.0, 1.0], [2.0, 0.0]]))
    >>> (op.T @ np.array([1.0, 0.0])).tolist()
    [0.0, 1.0]
    """

    def __init__(self, matrix: Any) -> None:
        super().__init__(matrix.shape)
        self.matrix = matrix
        stored = matrix.nnz if sparse.issparse(matrix) else matrix.size
        self.reads, self.flops = float(stored), 2.0 * stored

    def _apply(self, V: Block) -> Block:
        return times(self.matrix, V)

    def _apply_transposed(self, V: Block) -> Block:
        product: Block = self.matrix.T @ V
        return product

    def diagonal(self) -> Vector:
        """The diagonal of the matrix."""
        return np.array(self.matrix.diagonal(), dtype=np.float64)

    def entries(self) -> Entries:
        """The matrix itself."""
        return Entries(self.matrix)

    @cached_property
    def _fill(self) -> Fill | None:
        return predicted_fill(self.matrix) if sparse.issparse(self.matrix) else None

    @property
    def fill(self) -> Fill | None:
        """What sparse factors of the matrix would be, if it is sparse itself."""
        return self._fill

    @cached_property
    def _factor(self) -> ScaledFactor | SparseFactor:
        sparsely = self.fill is not None and self.fill.is_sparse
        return sparse_factor(self.matrix) if sparsely else scaled_factor(self.entries().dense())

    def in_float32(self) -> MatrixOperator:
        """The same matrix in float32."""
        twin = MatrixOperator(self.matrix.astype(np.float32))
        twin.dtype = np.dtype(np.float32)
        return twin

    def pencil_product(self, B: Operator) -> ShiftedProduct | None:
        """θB − A row by row, for a sparse A."""
        return ShiftedProduct(self, B) if sparse.issparse(self.matrix) else None


class ShiftedProduct:
    """s(θB − A)P for a CSR matrix A, with no block for AP, nor for BP where B is one as well.

    Examples
    --------
    >>> import numpy as np
    >>> A = MatrixOperator(sparse.csr_array(np.diag([1.0, 3.0])))
    >>> KP, curvature = ShiftedProduct(A, Identity(2))(np.ones((2, 1)), np.array([4.0]), np.ones(1))
    >>> KP.tolist(), curvature.tolist()
    ([[3.0], [1.0]], [4.0])
    """

    def __init__(self, A: MatrixOperator, B: Operator) -> None:
        self._A, self._B = A.matrix.tocsr(), B
        known = B.matrix if isinstance(B, MatrixOperator) and sparse.issparse(B.matrix) else None
        self._entries = None if known is None else known.tocsr()
        self.reads = A.reads + B.reads

    def __call__(self, P: Block, theta: Vector, sign: Vector) -> tuple[Block, Vector]:
        """The product and the curvatures pᵀ·s(θB − A)p."""
        from genelin.kernels import shifted_times

        k = P.shape[1]
        P, theta, sign = filled_up(P, theta, sign)
        BP = None if self._entries is not None else np.ascontiguousarray(self._B @ P, P.dtype)
        KP, curvature = shifted_times(self._A, self._entries, P, theta, sign, BP)
        return KP[:, :k], curvature[:k]


class Identity(Operator):
    """The identity of size d: what B=None stands for.

    Examples
    --------
    >>> import numpy as np
    >>> (Identity(2) @ np.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """

    lambda_min_bound, is_identity = 1.0, True

    def __init__(self, d: int) -> None:
        super().__init__((d, d))

    def _apply(self, V: Block) -> Block:
        return in_precision(V, V.dtype)

    def in_float32(self) -> Identity:
        """The identity of float32 blocks."""
        twin = Identity(self.shape[0])
        twin.dtype = np.dtype(np.float32)
        return twin

    def diagonal(self) -> Vector:
        """Ones."""
        return np.ones(self.shape[0])

    def entries(self) -> Entries:
        """The sparse identity."""
        return Entries(sparse.eye_array(self.shape[0], format="csr"))


class FunctionOperator(Operator):
    """A function of blocks: f(V) of shape (rows, m) for V of shape (columns, m).

    Examples
    --------
    >>> import numpy as np
    >>> second_difference = FunctionOperator(lambda V: 2 * V - np.roll(V, 1, 0), (3, 3))
    >>> (second_difference @ np.array([1.0, 0.0, 0.0])).tolist()
    [2.0, -1.0, 0.0]
    """

    def __init__(
        self,
        function: Callable[[Block], Any],
        shape: tuple[int, int],
        transposed: Callable[[Block], Any] | None = None,
        name: str = "operator",
    ) -> None:
        super().__init__(shape)
        self._function, self._transposed, self._name = function, transposed, name
        self.reads = float(self.shape[0]) * self.shape[1]

    def _apply(self, V: Block) -> Block:
        return self._checked(self._function(V), (self.shape[0], V.shape[1]))

    def _apply_transposed(self, V: Block) -> Block:
        function = self._function if self._transposed is None else self._transposed
        return self._checked(function(V), (self.shape[1], V.shape[1]))

    def _checked(self, product: Any, expected: tuple[int, int]) -> Block:
        block: Block = np.array(product, dtype=np.float64)  # a function may use its own again
        if block.shape == (expected[0], 1, expected[1]):
            block = block[:, 0]  # a LinearOperator whose matvec returns (d, 1) columns
        if block.shape != expected:
            raise ValueError(
                f"{self._name}: the product with a block of {expected[1]} columns has shape "
                f"{block.shape}, expected {expected}. A function must accept a (d, m) block; wrap "
                "one for single vectors in scipy.sparse.linalg.LinearOperator(matvec=...)."
            )
        if not np.isfinite(block.sum()) and not np.all(np.isfinite(block)):
            raise ValueError(f"{self._name} @ V has NaN or inf for a finite V: check the operator")
        return block

    def in_float32(self) -> Rounded:
        """Blocks in float32, products as they are."""
        return Rounded(self)


class Rounded(Operator):
    """An operator of which only products are known, between blocks in float32.

    The work on blocks around its products is halved, and their own error is that of rounding.

    Examples
    --------
    >>> import numpy as np
    >>> thirds = FunctionOperator(lambda V: V / 3, (2, 2))
    >>> (Rounded(thirds) @ np.ones((2, 1))).dtype
    dtype('float32')
    """

    dtype = np.dtype(np.float32)

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator.shape)
        self._operator, self.reads, self.flops = operator, operator.reads, operator.flops

    def _apply(self, V: Block) -> Block:
        return in_precision(self._operator @ in_precision(V, np.float64), np.float32)

    def _apply_transposed(self, V: Block) -> Block:
        return in_precision(self._operator.T @ in_precision(V, np.float64), np.float32)


class Scaled(Operator):
    """factor·A, for a factor above zero.

    Examples
    --------
    >>> (Scaled(MatrixOperator(np.eye(2)), 4.0) @ np.ones(2)).tolist()
    [4.0, 4.0]
    """

    def __init__(self, operator: Operator, factor: float) -> None:
        super().__init__(operator.shape)
        self._operator, self._times = operator, factor
        self.flops, self.reads, self.n_rows = operator.flops, operator.reads, operator.n_rows
        self.lambda_min_bound = factor * operator.lambda_min_bound

    def _apply(self, V: Block) -> Block:
        return np.asarray(self._times * (self._operator @ V))

    def diagonal(self) -> Vector | None:
        """That of A, scaled."""
        diagonal = self._operator.diagonal()
        return None if diagonal is None else self._times * diagonal

    @cached_property
    def _entries(self) -> Entries | None:
        known = self._operator.entries()
        if known is None:
            return None
        minus = None if known.minus is None else np.sqrt(self._times) * known.minus
        return Entries(self._times * known.core, minus)

    def entries(self) -> Entries | None:
        """Those of A, scaled."""
        return self._entries

    @property
    def fill(self) -> Fill | None:
        """That of A."""
        return self._operator.fill

    @cached_property
    def _factor(self) -> ScaledFactor | SparseFactor | None:
        entries = self.entries()
        if entries is None:
            return None
        return MatrixOperator(entries.core if entries.minus is None else entries.dense()).factor()

    def on_rows(self, rows: Any) -> Scaled:
        """The same from some of the rows of A."""
        return Scaled(self._operator.on_rows(rows), self._times)


class Shifted(Operator):
    """sign·A + shift·B: the same eigenvectors, eigenvalues sign·λ + shift.

    Examples
    --------
    >>> import numpy as np
    >>> A, B = MatrixOperator(np.diag([1.0, -3.0])), Identity(2)
    >>> (Shifted(A, B, shift=3.0) @ np.ones(2)).tolist()
    [4.0, 0.0]
    """

    def __init__(self, A: Operator, B: Operator, shift: float, sign: float = 1.0) -> None:
        super().__init__(A.shape)
        self._A, self._B, self._shift, self._sign = A, B, shift, sign
        self.flops, self.reads = A.flops + B.flops, A.reads + B.reads
        self.n_rows = A.n_rows if A.n_rows == B.n_rows else 0

    def on_rows(self, rows: Any) -> Shifted:
        """The same from some of the rows of A and B."""
        return Shifted(self._A.on_rows(rows), self._B.on_rows(rows), self._shift, self._sign)

    def _apply(self, V: Block) -> Block:
        return self._sign * (self._A @ V) + self._shift * (self._B @ V)
