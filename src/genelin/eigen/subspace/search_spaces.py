"""Growing search spaces with room for many blocks, and the best pairs that they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from scipy.linalg import svd

from genelin.eigen.subspace.ritz_basis import Products, RitzBasis
from genelin.linalg import column_norms, rayleigh_ritz
from genelin.linalg.column_products import EPS, Block, Vector
from genelin.linalg.orthonormalise import sweep
from genelin.linalg.tall_skinny import (
    by_rows,
    subtract_product,
    tall_dot,
    tall_times,
    with_columns,
)
from genelin.operators import Operator
from genelin.problems import Pencil
from genelin.system.buffer_pool import empty

__all__ = ["SearchSpace", "Space", "SplitSpace", "put", "room_for"]

ORTHOGONAL = {8: 1e-12, 4: 1e-6}  # overlap with the basis that is let pass, by bytes of a number
NEARLY = {8: 1e-6, 4: 1e-3}  # overlap that one more subtraction removes
EIGHT = 8  # bytes of a number in double precision
LOST = 0.1  # part of the squared length of a vector that rounding may be
NEW = {8: 1e-9, 4: 1e-4}  # part of a direction that must be outside the basis to be worth adding


class Space(Protocol):
    """What a Davidson iteration needs of a search space; vectors are those of the pencil."""

    @property
    def size(self) -> int:
        """Dimension so far."""
        ...

    @property
    def pairs(self) -> int:
        """Pairs that it holds."""
        ...

    @property
    def most(self) -> int:
        """Dimension that it can have at most."""
        ...

    def expand(self, Z: Block) -> int:
        """Add directions; the number that were new."""
        ...

    def ritz(self, count: int) -> RitzBasis:
        """The best `count` pairs of the space, fewer if it is smaller."""
        ...

    def restart(self, count: int) -> None:
        """Cut the space back to its best `count` pairs."""
        ...

    @property
    def arrays(self) -> dict[str, Any]:
        """The basis, a vector a row: views that hold until the next restart."""
        ...

    def refill(self, arrays: Mapping[str, Any]) -> None:
        """Fill an empty space with what `arrays` has said of another one."""
        ...


def room_for(rows: int, columns: int, dtype: Any = np.float64) -> Block:
    """Memory for a block that grows by columns: those that are never filled are never touched.

    Single precision takes the first half of what double precision would, which a space in double
    precision can take over after it.
    """
    numbers = empty((columns * rows,)).view(dtype)[: columns * rows]
    return numbers.reshape(columns, rows).T  # type: ignore[no-any-return]


def put(block: Block, columns: slice, Z: Block) -> None:
    """Write columns of a block, which lie far apart in Z."""

    def piece(rows: slice) -> None:
        block[rows, columns] = Z[rows]

    by_rows(piece, len(Z), Z.size)


class Basis:
    """Q with QᵀBQ = I, beside BQ, in memory that is taken once and in the precision of B.

    BQ is Q itself where B is the identity.
    """

    def __init__(self, B: Operator, room: int) -> None:
        self.B, self.size = B, 0
        self._Q = room_for(B.shape[0], room, B.dtype)
        self._BQ = self._Q if B.is_identity else room_for(B.shape[0], room, B.dtype)

    @property
    def Q(self) -> Block:
        """The basis."""
        return self._Q[:, : self.size]

    @property
    def BQ(self) -> Block:
        """B times the basis."""
        return self._BQ[:, : self.size]

    def add(self, Z: Block) -> Block:
        """Append an orthonormal basis of what Z holds beyond Q, and return it."""
        lengths = column_norms(Z)
        longer = np.flatnonzero((lengths > 0) & np.isfinite(lengths))
        bytes_each = self._Q.itemsize
        Z = with_columns(Z, longer, 1.0 / lengths[longer], self.B.dtype)
        subtract_product(Z, self.Q, tall_dot(self.BQ, Z))
        new = column_norms(Z) > NEW[bytes_each]
        Z = Z if new.all() else with_columns(Z, np.flatnonzero(new))
        BZ = self._product(Z)
        for _ in range(4):
            if not Z.shape[1]:
                break
            Z, BZ, weakest = sweep(Z, BZ)
            overlap = tall_dot(self.Q, BZ)
            largest = np.abs(overlap).max(initial=0.0)
            if largest > ORTHOGONAL[bytes_each]:
                subtract_product(Z, self.Q, overlap)
                if BZ is not Z:
                    subtract_product(BZ, self.BQ, overlap)
            if largest > 1e-3 or weakest < 1e-4:
                BZ = self._product(Z)
            if weakest > 0.1 and largest < NEARLY[bytes_each]:
                break
        Z, BZ = self._outside_rounding(Z, BZ)
        Z, BZ = Z[:, : self._Q.shape[1] - self.size], BZ[:, : self._Q.shape[1] - self.size]
        added = slice(self.size, self.size + Z.shape[1])
        put(self._Q, added, Z)
        if not self.B.is_identity:
            put(self._BQ, added, BZ)
        self.size = added.stop
        return Z

    def _outside_rounding(self, Z: Block, BZ: Block) -> tuple[Block, Block]:
        """Columns whose length zᵀBz = 1 is more than rounding in its terms; B may be singular."""
        if self.B.is_identity or self.B.lambda_min_bound > 0 or self._Q.itemsize < EIGHT:
            return Z, BZ
        if np.all(EPS * column_norms(Z) * column_norms(BZ) < LOST):
            return Z, BZ
        diagonal = self.B.diagonal()  # in whose units that may well be otherwise
        units = 1.0 if diagonal is None else np.sqrt(np.where(diagonal > 0, diagonal, 1.0))[:, None]
        known = np.flatnonzero(EPS * column_norms(Z * units) * column_norms(BZ / units) < LOST)
        return with_columns(Z, known), with_columns(BZ, known)

    def rotate(self, U: Block) -> None:
        """Q ← QU for orthonormal columns U."""
        for block in (self._Q,) if self.B.is_identity else (self._Q, self._BQ):
            tall_times(block[:, : self.size], U, out=block[:, : U.shape[1]])
        self.size = U.shape[1]

    def times(self, U: Block) -> tuple[Block, Block]:
        """QU and BQU."""
        W = tall_times(self.Q, U)
        return W, W if self.B.is_identity else tall_times(self.BQ, U)

    def _product(self, Z: Block) -> Block:
        return Z if self.B.is_identity else self.B @ Z


class SearchSpace:
    """A B-orthonormal basis of directions for a pencil, with AQ and H = QᵀAQ."""

    def __init__(self, pencil: Pencil, room: int) -> None:
        self._pencil, self.most = pencil, min(room, pencil.d)
        self._basis = Basis(pencil.B, self.most)
        self._AQ, self._H = room_for(pencil.d, self.most), np.zeros((self.most, self.most))

    @property
    def size(self) -> int:
        """Dimension so far."""
        return self._basis.size

    @property
    def pairs(self) -> int:
        """As many as it has dimensions."""
        return self.size

    def expand(self, Z: Block) -> int:
        """Add directions; one product each with A and B."""
        old, added = self.size, self._basis.add(Z)
        new = slice(old, self.size)
        if added.shape[1]:
            put(self._AQ, new, self._pencil.A @ added)
            corner = tall_dot(self._basis.Q, self._AQ[:, new])
            self._H[: self.size, new], self._H[new, : self.size] = corner, corner.T
        return int(added.shape[1])

    def _rotation(self) -> tuple[Vector, Block]:
        H, m = self._H[: self.size, : self.size], self.size
        return rayleigh_ritz(np.eye(m), H, self._pencil.which)

    def _leading(self, count: int) -> tuple[Vector, Block]:
        """Ritz values and coordinates of the best pairs.

        For the largest magnitude the last of them stands for the other end of the spectrum where
        all are at one: what nobody looks at could hide a pair.
        """
        theta, U = self._rotation()
        chosen = np.arange(min(count, len(theta)))
        if self._pencil.which == "LM" and 2 < count < len(theta):
            other = int(theta.argmin() if theta[0] > 0 else theta.argmax())
            chosen[-1] = max(chosen[-1], other)
        return theta[chosen], U[:, chosen]

    def ritz(self, count: int) -> RitzBasis:
        """The best pairs."""
        theta, U = self._leading(count)
        W, BW = self._basis.times(U)
        return RitzBasis(Products(W, tall_times(self._AQ[:, : self.size], U), BW), theta)

    def restart(self, count: int) -> None:
        """Keep the best pairs only."""
        theta, U = self._leading(count)
        tall_times(self._AQ[:, : self.size], U, out=self._AQ[:, : U.shape[1]])
        self._basis.rotate(U)
        self._H[: U.shape[1], : U.shape[1]] = np.diag(theta)

    @property
    def arrays(self) -> dict[str, Any]:
        """The basis, a vector a row."""
        return {"Q": self._basis.Q.T}

    def refill(self, arrays: Mapping[str, Any]) -> None:
        """Products are computed anew."""
        self.expand(np.asarray(arrays["Q"].T))


class SplitSpace:
    """One basis for each view, S_x- and S_y-orthonormal, and H = Q_xᵀS_xyQ_y.

    Its singular values are the correlations: k columns do, where the block pair needs 2k for ±σ.
    Vectors of the pencil are (x; y) stacked; those of a pair are (φ; ψ)/√2. With `low`, A and B in
    single precision, so is all that is kept: half the memory and half the work, for a residual of
    1e-5 or so. Pairs are told in double precision.
    """

    def __init__(
        self, pencil: Pencil, room: int, low: tuple[Operator, Operator] | None = None
    ) -> None:
        self._pencil, self.single = pencil, low is not None
        A, B = pencil.operators if low is None else low
        self._A, blocks = A, B.diagonal_blocks
        self._cut = int(blocks[0].shape[0])
        self.most = min(room, max(block.shape[0] for block in blocks))
        self._x, self._y = (Basis(block, min(room, block.shape[0])) for block in blocks)
        self._to_x, self._to_y = (room_for(b.shape[0], self.most, B.dtype) for b in blocks)
        self._H = np.zeros((self.most, self.most))

    @property
    def size(self) -> int:
        """Dimension so far, of the larger basis."""
        return max(self._x.size, self._y.size)

    @property
    def pairs(self) -> int:
        """The dimension of the smaller basis."""
        return min(self._x.size, self._y.size)

    def expand(self, Z: Block) -> int:
        """Add the halves of Z, each to its own basis; one product each with A and B."""
        i, j = self._x.size, self._y.size
        x, y = self._x.add(Z[: self._cut]), self._y.add(Z[self._cut :])
        if x.shape[1] or y.shape[1]:
            to_x, to_y = self._A.parts(x, y)
            put(self._to_x, slice(j, self._y.size), to_x)
            put(self._to_y, slice(i, self._x.size), to_y)
            self._H[: self._x.size, j : self._y.size] = tall_dot(self._x.Q, to_x)
            self._H[i : self._x.size, :j] = tall_dot(to_y, self._y.Q[:, :j])
        return int(x.shape[1] + y.shape[1])

    def _rotations(self) -> tuple[Vector, Block, Block]:
        H = self._H[: self._x.size, : self._y.size]
        U, sigma, Vt = svd(H, full_matrices=False, check_finite=False)
        return sigma, U, Vt.T

    def ritz(self, count: int) -> RitzBasis:
        """The best pairs, as vectors (φ; ψ)/√2."""
        sigma, U, V = self._rotations()
        U, V = U[:, :count] / np.sqrt(2.0), V[:, :count] / np.sqrt(2.0)
        to_x, to_y = self._to_x[:, : self._y.size], self._to_y[:, : self._x.size]
        halves = ((self._x.Q, U, self._y.Q, V), (to_x, V, to_y, U), (self._x.BQ, U, self._y.BQ, V))
        products = Products(*(_stacked(*half) for half in halves))
        return RitzBasis(products, sigma[:count])

    def restart(self, count: int) -> None:
        """Keep the best pairs only."""
        sigma, U, V = self._rotations()
        U, V = U[:, :count], V[:, :count]
        tall_times(self._to_x[:, : self._y.size], V, out=self._to_x[:, : V.shape[1]])
        tall_times(self._to_y[:, : self._x.size], U, out=self._to_y[:, : U.shape[1]])
        self._x.rotate(U)
        self._y.rotate(V)
        self._H[: U.shape[1], : V.shape[1]] = np.diag(sigma[:count])

    @property
    def arrays(self) -> dict[str, Any]:
        """Both bases, a vector a row."""
        return {"x": self._x.Q.T, "y": self._y.Q.T}

    def refill(self, arrays: Mapping[str, Any]) -> None:
        """Products are computed anew."""
        x, y = arrays["x"].T, arrays["y"].T
        both = np.zeros((self._pencil.d, max(x.shape[1], y.shape[1])))
        both[: self._cut, : x.shape[1]], both[self._cut :, : y.shape[1]] = x, y
        self.expand(both)


def _stacked(upper: Block, U: Block, lower: Block, V: Block) -> Block:
    """[upper·U; lower·V]."""
    cut = len(upper)
    out: Block = empty((cut + len(lower), U.shape[1]))
    tall_times(upper, U, out=out[:cut])
    tall_times(lower, V, out=out[cut:])
    return out
