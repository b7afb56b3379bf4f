"""A B-orthonormal basis of Ritz vectors, with its products, and the ways to improve it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import qr, svd

from genelin.linalg import column_dots, orthonormalise, rayleigh_ritz
from genelin.linalg.column_products import Block, Vector
from genelin.linalg.tall_skinny import by_rows, tall_times
from genelin.problems import Pencil
from genelin.solvers import CG
from genelin.system.buffer_pool import empty
from genelin.system.cached import cached_property

__all__ = [
    "ROUNDING",
    "Products",
    "RitzBasis",
    "first_basis",
    "locally_optimal",
    "refreshed",
    "ritz_basis",
    "start_block",
    "within_range",
]

ROUNDING = 1e-13  # relative to 1 or |θ₁|: a correction or a gap below it is none


@dataclass(frozen=True)
class Products:
    """Columns V with AV and BV; linear combinations act on all three."""

    V: Block
    AV: Block
    BV: Block

    def times(self, C: Block) -> Products:
        """V·C."""
        V, AV = tall_times(self.V, C), tall_times(self.AV, C)
        return Products(V, AV, V if self.BV is self.V else tall_times(self.BV, C))

    def beside(self, other: Products) -> Products:
        """[V, other.V]."""
        pairs = ((self.V, other.V), (self.AV, other.AV), (self.BV, other.BV))
        return Products(*(np.hstack(pair) for pair in pairs))


@dataclass(frozen=True)
class RitzBasis:
    """W with WᵀBW = I and WᵀAW = diag θ: Γ of the paper is diagonal here."""

    products: Products
    theta: Vector
    direction: Products | None = None  # where the last locally optimal step went

    @property
    def W(self) -> Block:
        """The Ritz vectors."""
        return self.products.V

    @property
    def AW(self) -> Block:
        """A @ W."""
        return self.products.AV

    @property
    def BW(self) -> Block:
        """B @ W."""
        return self.products.BV

    @cached_property
    def residual(self) -> Block:
        """AW − BWΘ."""
        R: Block = empty(self.AW.shape)

        def piece(rows: slice) -> None:
            np.multiply(self.BW[rows], self.theta, out=R[rows])
            np.subtract(self.AW[rows], R[rows], out=R[rows])

        by_rows(piece, len(R), R.size)
        return R

    @property
    def arrays(self) -> dict[str, Block]:
        """What cannot be computed anew: W, and the direction if there is one."""
        return {"W": self.W} | ({} if self.direction is None else {"direction": self.direction.V})

    def head(self, k: int) -> RitzBasis:
        """The first k pairs."""
        return self.part(slice(k))

    def part(self, pairs: slice) -> RitzBasis:
        """Some of the pairs."""
        columns = (self.W[:, pairs], self.AW[:, pairs], self.BW[:, pairs])
        return RitzBasis(Products(*columns), self.theta[pairs])


PROBES = 2  # columns that tell the size of a diagonal block


def start_block(pencil: Pencil, k: int, rng: np.random.Generator) -> Block:
    """A Gaussian block in the units of B: of its diagonal, and of each diagonal block.

    The units make a run blind to the scales of features and views.
    """
    W = rng.standard_normal((pencil.d, k))
    diagonal = pencil.B.diagonal()
    if diagonal is not None:
        W /= np.sqrt(np.where(diagonal > 0, diagonal, 1.0))[:, None]
    BW = pencil.B @ W[:, :PROBES]
    sizes = [block.shape[0] for block in pencil.B.diagonal_blocks] or [pencil.d]
    for rows in np.split(np.arange(pencil.d), np.cumsum(sizes)[:-1]):
        length = np.sqrt(np.vdot(W[rows, :PROBES], BW[rows]) / len(rows))
        W[rows] /= length if length > 0 else 1.0
    return W


def within_range(pencil: Pencil, W: Block) -> Block:
    """B⁺B W, about: CG from zero never leaves the range of a semidefinite B."""
    cg = CG()
    return cg.solve(cg.init(pencil.B), pencil.B @ W, np.zeros_like(W), 1e-6).value


def ritz_basis(pencil: Pencil, W: Block, BW: Block) -> RitzBasis:
    """Rotate a B-orthonormal W to Ritz vectors; one product with A."""
    products = Products(W, pencil.A @ W, BW)
    theta, Q = rayleigh_ritz(W, products.AV, pencil.which)
    return RitzBasis(products.times(Q), theta)


def locally_optimal(pencil: Pencil, basis: RitzBasis, Z: Block) -> RitzBasis:
    """The best pairs of span[W, direction, Z], which separates λ from −λ; one product each for Z.

    Z is the correction B⁻¹AW − WΘ, whose digits a difference of W̃ and W would lose; the direction
    is where the last step went (Knyazev 2001). Old products are only ever combined with orthonormal
    coefficients (Hetmaniuk & Lehoucq 2006), so that their rounding does not grow.
    """
    k, S, largest = basis.W.shape[1], basis.products, float(np.abs(basis.theta).max())
    if basis.direction is not None:
        S = S.beside(basis.direction)
    S = S.beside(_outside(pencil, S, Z / largest if largest > 0 else Z))
    theta, C = rayleigh_ritz(S.V, S.AV, pencil.which)
    C = C[:, :k]
    return RitzBasis(S.times(C), theta[:k], _search_direction(S, C))


def _search_direction(S: Products, C: Block) -> Products | None:
    """Orthonormal directions of what the new basis S·C takes from outside the old one."""
    k = C.shape[1]
    step = C.copy()
    step[:k] = 0.0
    U, sizes, _ = svd(step - C @ (C.T @ step), full_matrices=False)
    U = U[:, sizes > 1e-12]
    if not U.shape[1]:
        return None
    for _ in range(2):  # short steps have little in them that is not rounding
        U = qr(U - C @ (C.T @ U), mode="economic")[0]
    return S.times(U)


def _outside(pencil: Pencil, S: Products, Z: Block) -> Products:
    """B-orthonormal basis of what Z holds beyond span(S), with products computed anew."""
    BZ = pencil.B @ Z
    kept = column_dots(Z, BZ) > ROUNDING**2
    Z, BZ = orthonormalise(Z[:, kept], pencil.B, BZ[:, kept])
    for _ in range(4):
        overlap = S.BV.T @ Z
        if np.abs(overlap).max(initial=0.0) < 1e-12:
            break
        Z = Z - S.V @ overlap
        BZ = pencil.B @ Z
        kept = column_dots(Z, BZ) > 1e-8  # little of the rest is new
        Z, BZ = orthonormalise(Z[:, kept], pencil.B, BZ[:, kept])
    return Products(Z, pencil.A @ Z, BZ)


def refreshed(pencil: Pencil, basis: RitzBasis) -> RitzBasis:
    """The same basis with products computed anew, so that rounding does not pile up."""
    W, BW = orthonormalise(basis.W, pencil.B, spare=basis.W)
    fresh = ritz_basis(pencil, W, BW)
    return RitzBasis(fresh.products, fresh.theta, basis.direction)


def first_basis(pencil: Pencil, start: Block, direction: Block | None = None) -> RitzBasis:
    """GS_B of a start, rotated to Ritz vectors; with a direction where one is known."""
    W, BW = orthonormalise(start, pencil.B, spare=start)
    basis = ritz_basis(pencil, W, BW)
    if direction is None:
        return basis
    return replace(basis, direction=Products(direction, pencil.A @ direction, pencil.B @ direction))
