"""Corrections of Ritz vectors: (θB − A)t = r on the complement of W, by preconditioned CG."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from genelin.eigen.subspace.ritz_basis import RitzBasis
from genelin.linalg.column_products import Block, Vector, column_norms
from genelin.linalg.tall_skinny import put_columns, tall_dot, with_columns
from genelin.operators import Operator
from genelin.operators.base import PencilProduct
from genelin.problems import Pencil

__all__ = ["Correction", "CorrectionEquation"]

SINGLE = 1e30  # largest variance that float32 takes, with room for sums
LONG = 1e7  # flops of a product from which on float32 and fused products pay
Inverse = Callable[[Block], Block]
Positions = NDArray[np.intp]


@dataclass(frozen=True)
class Correction:
    """Directions T, one for every column of the residual, and the steps that they took."""

    directions: Block
    steps: int


class CorrectionEquation:
    """Solves that need a digit at most, in float32 where the operators have it.

    Parameters
    ----------
    pencil : A and B.
    inverse : M⁻¹ ≈ B⁻¹, the preconditioner.
    columns : of a block, about: short work is done in float64, without kernels of its own that
        would have to be compiled first.
    diagonal : of M⁻¹, if it is one: it is not applied by itself then.

    Attributes
    ----------
    low : A and B in float32, where they are used.
    """

    def __init__(
        self, pencil: Pencil, inverse: Inverse, columns: int, diagonal: Vector | None = None
    ) -> None:
        long = columns * (pencil.A.flops + pencil.B.flops) > LONG
        self.low = _in_float32(pencil) if long else None
        self._A, self._B = pencil.operators if self.low is None else self.low
        self._dtype: np.dtype[Any] = np.dtype(np.float64 if self.low is None else np.float32)
        self._inverse = _Inverse(inverse, diagonal, self._dtype)
        opaque = not (pencil.A.flops and pencil.B.flops)  # columns that fill up may be dear there
        self._whole = _whole(pencil.A) if self.low is None or opaque else 8
        self._at_once = self._A.pencil_product(self._B) if long else None

    def plain(self, R: Block, columns: Positions, enough: float, steps: int) -> Correction:
        """T ≈ B⁻¹R for some columns: what one warm-started step of GenELin adds to WΓ."""
        ones = np.ones(len(columns))
        shift = _Shift(None, self._B, ones, ones)
        nothing: Block = np.empty((len(R), 0))
        outside = _Outside(nothing, self._inverse)
        return self._conjugate_gradients(shift, outside, (R, columns), enough, steps)

    def shifted(
        self, basis: RitzBasis, columns: Positions, sign: Vector, enough: float, steps: int
    ) -> Correction:
        """T with s(θB − A)T ≈ R for some columns, B-orthogonal to all of W (Jacobi & Davidson).

        On that complement s(θB − A) is positive definite once W is good; a column that meets
        negative curvature before stops where it is.
        """
        shift = _Shift(self._A, self._B, basis.theta[columns], sign, self._at_once)
        outside = _Outside(basis.BW, self._inverse)
        return self._conjugate_gradients(shift, outside, (basis.residual, columns), enough, steps)

    def _conjugate_gradients(
        self,
        shift: _Shift,
        outside: _Outside,
        right: tuple[Block, Positions],
        enough: float,
        steps: int,
    ) -> Correction:
        """One solve for all columns; one that is done stays in its block until that can shrink."""
        R0, chosen = right
        scale = np.maximum(column_norms(R0)[chosen], 1e-300)
        going = np.arange(self._filled_up(len(chosen))) < len(chosen)
        columns = np.where(going, np.arange(len(going)), 0)  # of T, for those of the block
        R = with_columns(R0, chosen[columns], going / scale[columns], self._dtype)
        C, P, none = np.zeros_like(R), np.zeros_like(R), np.zeros(len(going))
        Z = outside.advance(C, R, P, P, none)
        Z.turn(P, none)
        T = with_columns(P, np.arange(len(chosen)))  # for those that meet negative curvature first
        rz, gained, t = Z.dots, np.zeros_like(scale[columns]), 0
        floor = (10 * np.finfo(self._dtype).eps) ** 2 * rz  # beyond it there is only rounding
        while t < steps and going.any():
            KP, curvature = shift.apply(P, columns)
            t += 1
            upward = going & (curvature > 0) & (rz > 0)
            step = np.divide(rz, curvature, out=np.zeros_like(rz), where=upward)
            Z = outside.advance(C, R, P, KP, step)
            gained += step * rz
            rz, before = Z.dots, rz
            more = upward & (rz > floor) & (t * step * before > enough * gained)
            ready = going & (upward | (t > 1)) & (~more | (t == steps))
            put_columns(T, columns[ready], C, np.flatnonzero(ready))
            going, left = more, self._filled_up(int(more.sum()))
            if 0 < left < len(going):
                kept = np.argsort(~going, kind="stable")[:left]
                columns, gained, floor = columns[kept], gained[kept], floor[kept]
                rz, before, going = rz[kept], before[kept], going[kept]
                C, R, P = (with_columns(block, kept) for block in (C, R, P))
                Z = Z.only(kept, R)
            Z.turn(P, np.divide(rz, before, out=np.zeros_like(rz), where=going))
        return Correction(with_columns(T, np.arange(len(chosen)), scale, np.float64), t)

    def _filled_up(self, columns: int) -> int:
        """Columns of a block for so many: kernels of sparse products like whole cache lines."""
        return -(-columns // self._whole) * self._whole


def _whole(A: Operator) -> int:
    """Columns that products with A take together: four with sparse entries."""
    entries = A.entries()
    return 4 if entries is not None and sparse.issparse(entries.core) else 1


def _in_float32(pencil: Pencil) -> tuple[Operator, Operator] | None:
    """A and B in single precision, if both are to be had so and float32 holds their numbers."""
    diagonal = pencil.B.diagonal()
    if diagonal is not None and diagonal.max(initial=0.0) > SINGLE:
        return None
    A, B = pencil.A.in_float32(), pencil.B.in_float32()
    return None if A is None or B is None else (A, B)


class _Shift:
    """s(θB − A), every column with its own θ and s; s·θ·B where A is None."""

    def __init__(
        self,
        A: Operator | None,
        B: Operator,
        theta: Vector,
        sign: Vector,
        at_once: PencilProduct | None = None,
    ) -> None:
        self._at_once = at_once
        self._A, self._B, self._theta, self._sign = A, B, theta, sign

    def apply(self, P: Block, columns: Positions) -> tuple[Block, Vector]:
        """The product with P and the curvatures pᵀKp."""
        from genelin.kernels import dots, shifted_dots

        if self._at_once is not None:
            return self._at_once(P, self._theta[columns], self._sign[columns])
        KP = np.ascontiguousarray(self._B @ P)
        if self._A is None:
            return KP, dots(P, KP)
        AP = np.ascontiguousarray(self._A @ P)
        curvature = shifted_dots(P, AP, KP, self._theta[columns], self._sign[columns])
        return KP, curvature


class _Inverse:
    """M⁻¹: a function of blocks, or a diagonal that kernels apply on their way."""

    def __init__(self, apply: Inverse, diagonal: Vector | None, dtype: np.dtype[Any]) -> None:
        self.apply, self.dtype = apply, dtype
        self.diagonal = None if diagonal is None else diagonal.astype(dtype)


class _Outside:
    """Keeps preconditioned residuals B-orthogonal to W: z = M⁻¹r − YG⁻¹Yᵀr.

    Y = M⁻¹BW and G = WᵀBY.
    """

    def __init__(self, BW: Block, inverse: _Inverse) -> None:
        Y = inverse.apply(BW)
        G = tall_dot(BW, Y)
        self._inverse = inverse
        self._Y = np.ascontiguousarray(Y, dtype=inverse.dtype)
        self._G_inverse = np.linalg.inv((G + G.T) / 2)

    def advance(self, C: Block, R: Block, P: Block, KP: Block, step: Vector) -> _Projected:
        """C += step·P, R −= step·KP, and Z of the residuals that are left."""
        from genelin.kernels import advance, dots

        inverse, weights = self._inverse, self._inverse.diagonal
        S, squares = advance(C, R, P, KP, step, self._Y, weights)
        Z = R
        if weights is None:
            Z = np.ascontiguousarray(inverse.apply(R), dtype=R.dtype)
            squares = dots(R, Z)
        along = self._G_inverse @ S
        rz = np.maximum(squares - np.einsum("ij,ij->j", S, along), 0.0)
        return _Projected(Z, weights, self._Y, along, rz)


@dataclass(frozen=True)
class _Projected:
    """Z = weights·M⁻¹R − Y·along, not formed, and rᵀz of every column."""

    inverse: Block
    weights: Vector | None
    Y: Block
    along: Block
    dots: Vector

    def only(self, columns: Positions, R: Block) -> _Projected:
        """The same for some of the columns, of which R are the residuals."""
        inverse = R if self.weights is not None else with_columns(self.inverse, columns)
        return replace(self, inverse=inverse, along=self.along[:, columns], dots=self.dots[columns])

    def turn(self, P: Block, conjugation: Vector) -> None:
        """P = Z + conjugation·P, in place."""
        from genelin.kernels import turn

        turn(P, self.inverse, conjugation, self.weights, self.Y, -self.along)
