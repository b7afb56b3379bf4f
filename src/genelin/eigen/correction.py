"""Corrections of Ritz vectors: (θB − A)t = r on the complement of W, by preconditioned CG."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genelin.eigen.basis import RitzBasis
from genelin.linalg.columns import Block, Vector
from genelin.linalg.tall import subtract_product, tall_dot, tall_times
from genelin.operators import Operator
from genelin.operators.base import PencilProduct
from genelin.problems import Pencil

__all__ = ["Correction", "Correctors"]

LONG = 5e7  # flops of a product from which on float32 and fused products pay
Inverse = Callable[[Block], Block]
Positions = NDArray[np.intp]


@dataclass(frozen=True)
class Correction:
    """Directions T, one for every column of the residual, and the steps that they took."""

    directions: Block
    steps: int


class Correctors:
    """Solves that need a digit at most, in float32 where the operators have it.

    Parameters
    ----------
    pencil : A and B.
    inverse : M⁻¹ ≈ B⁻¹, the preconditioner.
    columns : of a block, about: short work is done in float64, without kernels of its own that
        would have to be compiled first.
    """

    def __init__(self, pencil: Pencil, inverse: Inverse, columns: int) -> None:
        low_A: Operator | None = None
        low_B: Operator | None = None
        long = columns * (pencil.A.flops + pencil.B.flops) > LONG
        if long:
            low_A, low_B = pencil.A.lowered(), pencil.B.lowered()
        self._inverse = inverse
        self._A, self._B = pencil.A, pencil.B
        self._dtype: np.dtype[Any] = np.dtype(np.float64)
        if low_A is not None and low_B is not None:
            self._A, self._B, self._dtype = low_A, low_B, np.dtype(np.float32)
        self._at_once = self._A.pencil_product(self._B) if long else None

    def plain(self, R: Block, enough: float, steps: int) -> Correction:
        """T ≈ B⁻¹R: what one warm-started step of GenELin adds to WΓ."""
        ones = np.ones(R.shape[1])
        return self._conjugate_gradients(_Shift(None, self._B, ones, ones), None, R, enough, steps)

    def shifted(
        self, basis: RitzBasis, columns: Positions, sign: Vector, enough: float, steps: int
    ) -> Correction:
        """T with s(θB − A)T ≈ R for some columns, B-orthogonal to all of W (Jacobi & Davidson).

        On that complement s(θB − A) is positive definite once W is good; a column that meets
        negative curvature before stops where it is.
        """
        theta, R = basis.theta[columns], basis.residual[:, columns]
        shift = _Shift(self._A, self._B, theta, sign, self._at_once)
        outside = _Outside(basis.BW, self._inverse, self._dtype)
        return self._conjugate_gradients(shift, outside, R, enough, steps)

    def _conjugate_gradients(
        self, shift: _Shift, outside: _Outside | None, R0: Block, enough: float, steps: int
    ) -> Correction:
        from genelin.kernels import advance, dots, turn

        def precondition(R: Block) -> Block:
            Z = np.ascontiguousarray(self._inverse(R), dtype=R.dtype)
            Z = Z.copy() if np.may_share_memory(Z, R) else Z
            return Z if outside is None else outside.project(Z, R)

        scale = np.maximum(np.abs(R0).max(axis=0), 1e-300)
        R = np.ascontiguousarray(R0 / scale, dtype=self._dtype)
        P = precondition(R)
        T = P.copy()  # what a column is left with that meets negative curvature at once
        C, rz = np.zeros_like(R), dots(R, P)
        floor = (10 * np.finfo(self._dtype).eps) ** 2 * rz  # beyond it there is only rounding
        gained, columns, t = np.zeros_like(rz), np.arange(R.shape[1]), 0
        while t < steps and len(columns):
            KP, curvature = shift.apply(P, columns)
            t += 1
            upward = (curvature > 0) & (rz > 0)
            step = np.divide(rz, curvature, out=np.zeros_like(rz), where=upward)
            advance(C, R, P, KP, step)
            gained += step * rz
            Z = precondition(R)
            rz, before = dots(R, Z), rz
            going = upward & (rz > floor) & (t * step * before > enough * gained)
            ready = (upward | (t > 1)) & (~going | (t == steps))
            T[:, columns[ready]] = C[:, ready]
            if not going.all():
                columns, gained, floor = columns[going], gained[going], floor[going]
                rz, before = rz[going], before[going]
                C, R, P, Z = (np.ascontiguousarray(block[:, going]) for block in (C, R, P, Z))
            turn(P, Z, rz / before)
        return Correction(T * scale, t)


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


class _Outside:
    """Keeps preconditioned residuals B-orthogonal to W: z − M⁻¹BW(WᵀBM⁻¹BW)⁻¹(M⁻¹BW)ᵀr."""

    def __init__(self, BW: Block, inverse: Inverse, dtype: np.dtype[Any]) -> None:
        Y = inverse(BW)
        G = tall_dot(BW, Y)
        self._Y = np.ascontiguousarray(Y, dtype=dtype)
        self._YG = tall_times(self._Y, np.linalg.inv((G + G.T) / 2).astype(dtype))

    def project(self, Z: Block, R: Block) -> Block:
        """Z = M⁻¹R without its part along W."""
        subtract_product(Z, self._YG, tall_dot(self._Y, R))
        return Z
