"""Covariances of data as operators: XᵀX/n + reg·I and XᵀY/n, centred and scaled implicitly."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from scipy import sparse

from genelin.data.as_rows import as_rows
from genelin.data.moments import moment_between
from genelin.data.out_of_core import paired
from genelin.data.reductions import (
    BothTimes,
    CrossTimes,
    OwnTimes,
)
from genelin.data.rows import Rows
from genelin.linalg.block_products import times
from genelin.linalg.column_products import Block, Vector
from genelin.linalg.tall_skinny import by_rows
from genelin.operators.base import Entries, Operator
from genelin.operators.finite_sum import RowSum
from genelin.system.cached import cached_property
from genelin.validation import check_flag, check_number, check_numbers

__all__ = ["Cross", "Gram", "own_products", "resolve_scale"]

SINGLE = 1e15  # largest number in data whose squares float32 takes, with room for sums
Scale = bool | Any | None  # True: unit variance; an array: divide column j by scale[j]


def resolve_scale(rows: Rows, scale: Scale, center: bool, name: str = "X") -> Vector | None:
    """The factors by which columns are multiplied, or None for no scaling.

    Columns that are constant up to rounding get the factor zero when they are centred: what
    remains of them would be noise, and even negative variance.
    """
    constant = rows.constant if center else np.zeros(rows.d, dtype=bool)
    if (scale is None or scale is False) and not constant.any():
        return None
    spread = np.ones(rows.d)
    if scale is True:
        spread = np.sqrt(np.where(rows.constant, 1.0, rows.variance))
    elif scale is not None and scale is not False:
        spread = check_numbers("scale", scale)
        if spread.shape != (rows.d,) or not np.all(np.isfinite(spread) & (spread > 0)):
            raise ValueError(
                f"scale for {name} must be {rows.d} positive finite numbers, one per column"
            )
    return np.where(constant, 0.0, 1.0 / spread)


def _scaled(V: Block, factors: Vector | None) -> Block:
    return V if factors is None else V * factors[:, None]


class Gram(Operator):
    """weight·XᵀX/n + reg·I, after centring and scaling the columns of X; X stays as it is.

    Parameters
    ----------
    X : (n, d) dense or sparse data.
    reg : ridge added to the diagonal.
    center : subtract column means (never densifies sparse data).
    scale : True for unit variance, or divisors, one per column.
    weight : factor of the covariance (1 − s for shrinkage s).

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> X = np.array([[1.0, 0.0], [3.0, 4.0]])
    >>> S = Gram(sparse.csr_array(X), reg=0.5, center=True)
    >>> (S @ np.eye(2)).tolist()
    [[1.5, 2.0], [2.0, 4.5]]
    >>> S.diagonal().tolist(), S.lambda_min_bound
    ([1.5, 4.5], 0.5)
    """

    def __init__(
        self,
        X: Any,
        reg: float = 0.0,
        center: bool = False,
        scale: Scale = None,
        weight: float = 1.0,
    ) -> None:
        reg = check_number("reg", reg, 0)
        weight = check_number("weight", weight, 0)
        check_flag("center", center)
        rows = as_rows(X)
        self.rows = rows.well_centred if center else rows
        super().__init__((self.rows.d, self.rows.d))
        self.reg, self.weight = reg, weight
        self._variance = self.rows.variance if center else self.rows.mean_square
        self._data_mean = self.rows.mean if center else None
        self._mean = self._data_mean  # None once a formed matrix is centred
        self._factors = resolve_scale(self.rows, scale, center)
        self._moment: Any = None  # XᵀX/n once formed
        self.setup_flops = 0.0
        self.lambda_min_bound = self.reg
        self.n_rows = self.rows.n
        self.reads, self.flops = float(self.rows.stored), 4.0 * self.rows.stored

    @property
    def centre(self) -> Vector | None:
        """What is subtracted from rows of the data; None where they are not centred."""
        return self._data_mean

    @property
    def factors(self) -> Vector | None:
        """What columns of the data are multiplied by; None for ones."""
        return self._factors

    def _apply(self, V: Block) -> Block:
        U = _scaled(V, self._factors)
        out: Block
        if self._moment is not None:
            out = times(self._moment, U)
            if self._mean is not None:
                out -= np.outer(self._mean, self._mean @ U)
        else:
            task = CrossTimes(U, self._mean, self._mean)
            (out,) = self.rows.summed(task, self.rows, U.shape[1])
            out /= self.rows.n
        return self._finished(out, V)

    def _finished(self, out: Block, V: Block) -> Block:
        """The product with V, from that of the covariance of unscaled columns."""
        out = _scaled(out, self._factors)
        if self.weight != 1.0:
            out *= self.weight
        if self.reg:

            def piece(rows: slice) -> None:
                out[rows] += self.reg * V[rows]

            by_rows(piece, len(V), V.size)
        return out

    def diagonal(self) -> Vector:
        """Variances (or mean squares) of the columns, plus the ridge."""
        variance = self._variance
        if self._factors is not None:
            variance = variance * self._factors**2
        return self.weight * variance + self.reg

    @cached_property
    def _row_sum(self) -> RowSum:
        return RowSum(self.rows, self._data_mean, self._factors, self.weight, self.reg)

    def row_blocks(self) -> RowSum | None:
        """The sum over the rows of X, whether or not XᵀX is formed; None if not in memory."""
        return self._row_sum if self.rows.in_memory else None

    def on_rows(self, rows: Any) -> Gram:
        """The same operator from some rows of X, centred and scaled as all of them are."""
        part = self._twin()
        part.rows, part._moment, part._mean = self.rows.taken(rows), None, self._data_mean
        part.n_rows = part.rows.n
        centre = np.zeros(self.shape[0]) if self._data_mean is None else self._data_mean
        part._variance = part.rows.mean_square_about(centre)
        part.reads, part.flops = float(part.rows.stored), 4.0 * part.rows.stored
        return part

    def in_float32(self) -> Gram | None:
        """The same operator in float32; None where dense data would be copied, or overflow."""
        if (self._moment is None and not self.rows.is_sparse) or self.rows.largest > SINGLE:
            return None
        twin = self._twin()
        twin.dtype = np.dtype(np.float32)
        if self._moment is None:
            twin.rows = self.rows.in_float32
        else:
            twin._moment = self._moment.astype(np.float32)
        twin._mean, twin._factors = _in_float32(self._mean), _in_float32(self._factors)
        return twin

    def formed(self) -> Gram:
        """The same operator with XᵀX/n formed, so that products no longer read the data.

        Dense data give a dense matrix, centred before the product; sparse data give a sparse one
        with the mean kept apart.
        """
        if self._moment is not None:
            return self
        twin = self._twin()
        if self.rows.single:
            twin._moment = sparse.diags_array(self.rows.mean_square).tocsr()
        elif self.rows.is_sparse:
            twin._moment = moment_between(self.rows, self.rows, None, None)
        else:
            twin._moment = self.rows.central_moment
            if twin._moment is not None and self._mean is None:
                twin._moment = twin._moment + np.outer(self.rows.mean, self.rows.mean)
            if twin._moment is None:
                twin._moment = moment_between(self.rows, self.rows, self._mean, self._mean)
            twin._mean = None
        twin.setup_flops = self.forming
        twin.reads, twin.flops = 0.0, 2.0 * _stored(twin._moment)
        return twin

    def _twin(self) -> Gram:
        """A copy without what is kept of the matrix itself."""
        twin = copy(self)
        for kept in ("_row_sum", "_entries", "_factor"):
            twin.__dict__.pop(kept, None)
        return twin

    @property
    def forming(self) -> float:  # type: ignore[override]
        """Flops that the matrix itself takes: none where it is formed."""
        if self._moment is not None:
            return 0.0
        if self.rows.single:
            return 2.0 * self.rows.stored
        if self.rows.is_sparse:
            return 2.0 * self.rows.pairs_with(self.rows)
        return 2.0 * self.rows.stored * self.rows.d

    def entries(self) -> Entries:
        """The matrix itself, which is kept; reads the data once unless it is formed already."""
        return self._entries

    @cached_property
    def _entries(self) -> Entries:
        formed = self.formed()
        core = formed._moment * self.weight
        mean = None if formed._mean is None else formed._mean * np.sqrt(self.weight)
        if self._factors is not None:
            core = _scale_both(core, self._factors, self._factors)
            mean = None if mean is None else mean * self._factors
        if sparse.issparse(core):
            core = (core + self.reg * sparse.eye_array(self.shape[0])).tocsr()
        else:
            core = core + self.reg * np.eye(self.shape[0])
        return Entries(core, mean)


def own_products(grams: tuple[Any, ...], blocks: list[Block]) -> tuple[Block, Block] | None:
    """S_x Vx and S_y Vy of two views whose rows are out of core, in one sum; None for others.

    Examples
    --------
    >>> own_products((Gram([[1.0]]), Gram([[2.0]])), [np.ones((1, 1))] * 2) is None
    True
    """
    streamed = all(
        isinstance(S, Gram) and S._moment is None and not S.rows.in_memory for S in grams
    )
    if not streamed or len(grams) != 2:
        return None
    (x, y), (Vx, Vy) = grams, blocks
    if x.rows.n != y.rows.n or not _weighted_alike(x.rows, y.rows):
        return None
    Ux, Uy = _scaled(Vx, x._factors), _scaled(Vy, y._factors)
    task = OwnTimes(Ux, Uy, x._mean, y._mean)
    to_x, to_y = x.rows.summed(task, y.rows, Vx.shape[1])
    return x._finished(to_x / x.rows.n, Vx), y._finished(to_y / y.rows.n, Vy)


def _weighted_alike(x: Rows, y: Rows) -> bool:
    if x.weights is None or y.weights is None:
        return x.weights is y.weights
    return np.array_equal(x.weights, y.weights)


class Cross(Operator):
    """XᵀY/n after centring and scaling the columns of X and Y; its transpose is YᵀX/n.

    Parameters
    ----------
    X, Y : (n, d₁) and (n, d₂) dense or sparse data with the same rows.
    center : subtract column means.
    scale : True for unit variance, or a pair of divisors, (for X, for Y).

    Examples
    --------
    >>> import numpy as np
    >>> C = Cross(np.array([[1.0], [3.0]]), np.array([[0.0, 1.0], [2.0, 1.0]]), center=True)
    >>> (C @ np.eye(2)).tolist(), (C.T @ np.ones(1)).tolist()
    ([[1.0, 0.0]], [1.0, 0.0])
    """

    def __init__(self, X: Any, Y: Any, center: bool = False, scale: Scale = None) -> None:
        x, y = paired(as_rows(X, "X"), as_rows(Y, "Y"))
        self.x, self.y = (x.well_centred, y.well_centred) if center else (x, y)
        if self.x.n != self.y.n:
            raise ValueError(
                f"X has {self.x.n} rows but Y has {self.y.n}: row i of both must describe the "
                "same observation"
            )
        super().__init__((self.x.d, self.y.d))
        self._data_means: tuple[Vector | None, Vector | None] = (None, None)
        if center:
            self._data_means = (self.x.mean, self.y.mean)
        self._means: tuple[Vector | None, Vector | None]
        self._means = self._data_means  # (None, None) once a formed matrix is centred
        x_scale, y_scale = scale if isinstance(scale, tuple) else (scale, scale)
        self._factors = (
            resolve_scale(self.x, x_scale, center),
            resolve_scale(self.y, y_scale, center, "Y"),
        )
        self._moment: Any = None  # XᵀY/n once formed
        self._transposed: Any = None  # and its transpose, by rows
        self.setup_flops = 0.0
        self.n_rows = self.x.n
        self.reads = float(self.x.stored + self.y.stored)
        self.flops = 2.0 * self.reads

    def on_rows(self, rows: Any) -> Cross:
        """The same operator from some rows of X and Y, centred and scaled as all of them are."""
        part = copy(self)
        part.x, part.y = self.x.taken(rows), self.y.taken(rows)
        part._moment, part._means, part.n_rows = None, self._data_means, part.x.n
        part.reads = float(part.x.stored + part.y.stored)
        part.flops = 2.0 * part.reads
        return part

    def both(self, Vx: Block, Vy: Block) -> tuple[Block, Block]:
        """(XᵀY/n) Vy and (YᵀX/n) Vx, reading the data once for both."""
        x_factors, y_factors = self._factors
        Ux, Uy = _scaled(Vx, x_factors), _scaled(Vy, y_factors)
        to_x, to_y = self._stream(Ux, Uy) if self._moment is None else self._multiply(Ux, Uy)
        return _scaled(to_x, x_factors), _scaled(to_y, y_factors)

    def _stream(self, Ux: Block, Uy: Block) -> tuple[Block, Block]:
        """Through the rows: sparse ones in a sweep for either half, others in blocks for both."""
        columns, task = max(Ux.shape[1], Uy.shape[1]), BothTimes(Ux, Uy, *self._means)
        to_x, to_y = self.x.summed(task, self.y, columns)
        to_x /= self.x.n
        to_y /= self.x.n
        return to_x, to_y

    def _multiply(self, Ux: Block, Uy: Block) -> tuple[Block, Block]:
        """By the formed matrix."""
        to_x, to_y = times(self._moment, Uy), times(self._transposed, Ux)
        x_mean, y_mean = self._means
        if x_mean is not None and y_mean is not None:
            to_x -= np.outer(x_mean, y_mean @ Uy)
            to_y -= np.outer(y_mean, x_mean @ Ux)
        return to_x, to_y

    def _apply(self, V: Block) -> Block:
        return self.both(np.empty((self.shape[0], 0)), V)[0]

    def _apply_transposed(self, V: Block) -> Block:
        return self.both(V, np.empty((self.shape[1], 0)))[1]

    def formed(self, moment: Block | None = None) -> Cross:
        """The same operator with XᵀY/n formed, so that products no longer read the data.

        `moment` is that matrix, centred, where it is known already.
        """
        if self._moment is not None:
            return self
        twin = copy(self)
        if moment is not None:
            twin._moment, twin._means = moment, (None, None)
            twin.setup_flops = 2.0 * self.x.stored * self.y.d
        elif self.x.is_sparse and self.y.is_sparse:
            twin._moment = moment_between(self.x, self.y, None, None)
            twin.setup_flops = 2.0 * self.x.pairs_with(self.y)
        else:
            twin._moment = moment_between(self.x, self.y, *self._means)
            twin._means = (None, None)
            twin.setup_flops = 2.0 * min(self.x.stored * self.y.d, self.y.stored * self.x.d)
        twin._transposed = twin._moment.T
        if sparse.issparse(twin._moment):
            twin._transposed = twin._transposed.tocsr()
        twin.reads, twin.flops = 0.0, 2.0 * _stored(twin._moment)
        return twin

    def in_float32(self) -> Cross | None:
        """The same operator in float32; None where dense data would be copied, or overflow."""
        if self._moment is None and not (self.x.is_sparse and self.y.is_sparse):
            return None
        if max(self.x.largest, self.y.largest) > SINGLE:
            return None
        twin = copy(self)
        twin.dtype = np.dtype(np.float32)
        if self._moment is None:
            twin.x, twin.y = self.x.in_float32, self.y.in_float32
        else:
            twin._moment = self._moment.astype(np.float32)
            twin._transposed = self._transposed.astype(np.float32)
        twin._means = _in_float32(self._means[0]), _in_float32(self._means[1])
        twin._factors = _in_float32(self._factors[0]), _in_float32(self._factors[1])
        return twin

    def scaled(self, left: Vector, right: Vector) -> Any:
        """diag(left)·S_xy·diag(right) as a sparse matrix, for sparse data that are not centred."""
        formed = self.formed()
        left, right = (
            side if own is None else side * own
            for own, side in zip(self._factors, (left, right), strict=True)
        )
        core = formed._moment.tocoo()
        core.data = core.data * left[core.row] * right[core.col]
        return core.tocsr()

    def dense(self) -> Block:
        """The d₁×d₂ matrix as one dense array; reads the data once unless it is formed already."""
        formed = self.formed()
        C: Block = formed._moment.toarray() if sparse.issparse(formed._moment) else formed._moment
        x_mean, y_mean = formed._means
        if x_mean is not None and y_mean is not None:
            C = C - np.outer(x_mean, y_mean)
        x_factors, y_factors = self._factors
        C = _scaled(C, x_factors)
        return C if y_factors is None else C * y_factors


def _in_float32(v: Any) -> Any:
    return None if v is None else v.astype(np.float32)


def _stored(M: Any) -> int:
    return int(M.nnz if sparse.issparse(M) else M.size)


def _scale_both(M: Any, left: Vector, right: Vector) -> Any:
    """diag(left) M diag(right)."""
    if sparse.issparse(M):
        return (sparse.diags_array(left) @ M @ sparse.diags_array(right)).tocsr()
    return left[:, None] * M * right
