"""Block Lanczos: a Krylov space whose blocks are made orthogonal to all others only when needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.linalg import eigh, solve_triangular

from genelin.linalg import Which, order
from genelin.linalg.column_products import EPS, Block, Vector
from genelin.linalg.panel_block import Panels, turned
from genelin.linalg.tall_skinny import subtract_product, tall_dot, tall_times

__all__ = ["KrylovSpace"]

NOISE = 10.0 * EPS  # overlap of blocks that were made orthogonal, and rounding in a product
NOTHING = 1e-11  # of the largest value: what is left of a direction that was in the space already
WEAK = 1e-2  # the same, of one that has lost digits
EVEN = 1e-3  # spread of the squared lengths of columns above which one sweep makes them orthonormal
ANEW = 3  # restarts after which kept vectors are made orthonormal anew
Product = Callable[[Block], Block]


class KrylovSpace:
    """Q with QᵀQ = I, and S Q = Q F + Z R Eᵀ, for a symmetric S; E selects the last block of Q.

    A product S Z has parts in the last two blocks only, but for rounding, which grows as Ritz
    pairs converge. It is followed by the recurrence itself (Simon 1984): where the overlap of
    the next block with others would exceed `limit`, that block and the one after it are made
    orthogonal to all of Q. F takes up what was subtracted, and is symmetric but for that.

    Parameters
    ----------
    product : V → S V.
    d, room : rows of Q, and columns that it can have.
    limit : overlap of blocks that is let pass.
    """

    def __init__(self, product: Product, d: int, room: int, limit: float) -> None:
        self._product, self.limit, self.most = product, limit, room
        self._Q, self.size = Panels(d, room), 0
        self._F, self._overlaps = np.zeros((2, room, room))
        self._noise = np.zeros(room)  # in the columns of S Q = Q F, beyond rounding
        self._last, self._near, self._again, self._restarts = slice(0, 0), 0, False, 0

    def begin(self, Z: Block) -> None:
        """Take the columns of Z to begin with."""
        self._Z, _, R = _normalised(Z, tall_dot(Z, Z))
        self._R, self._beside = R[:, :0], np.zeros((0, len(R)))

    @property
    def width(self) -> int:
        """Columns of the next block."""
        return int(self._Z.shape[1])

    def grow(self) -> None:
        """Add the next block to Q; one product with S."""
        near, old = self._near, self.size
        last = slice(old, old + self.width)
        self._Q.put(old, self._Z)
        self._overlaps[:old, last], self._overlaps[last, :old] = self._beside, self._beside.T
        self._overlaps[last, last] = self._noise[last] = 0.0
        self._F[:near, last] = self._F[last, :old] = 0.0
        self._F[last, self._last] = self._R
        self.size, self._last, self._near = last.stop, last, old
        W = np.ascontiguousarray(self._product(self._Z))
        W = W.copy() if np.may_share_memory(W, self._Z) else W
        self._F[near : self.size, last], gram = self._parted(W, near)
        scale = self._scale
        if np.linalg.eigvalsh(gram)[0] < (WEAK * scale) ** 2:
            C, gram = self._parted(W, 0)
            self._F[: self.size, last] += C
        place = self._Q.next_panel(self.size, W.shape[1])
        self._Z, T, self._R = _normalised(W, gram, NOTHING * scale, place)
        self._beside = self._predicted_overlaps(near, scale) @ T
        if self._again or np.abs(self._beside).max(initial=0.0) > self.limit:
            self._again = not self._again
            self._separate()

    def _parted(self, W: Block, first: int) -> tuple[Block, Block]:
        """W −= QC in place for the columns of Q from `first` on; C = QᵀW, and WᵀW after that."""
        columns = slice(first, self.size)
        C = self._Q.dot(columns, W)
        return C, self._Q.subtract(columns, C, W)

    def _separate(self) -> None:
        """Make the next block orthogonal to all of Q."""
        self._F[: self.size, self._last] += self._parted(self._Z, 0)[0] @ self._R
        self._beside[:] = NOISE

    @property
    def _scale(self) -> float:
        """|θ₁| so far, about."""
        return float(np.abs(self._F[: self.size, : self.size]).max(initial=0.0))

    def _predicted_overlaps(self, near: int, scale: float) -> Block:
        """QᵀZ R by the overlaps K = QᵀQ: QᵀS Q_last − K F_last.

        QᵀS is (S Q)ᵀ = FᵀQᵀ, and F_last itself for the blocks whose products with S Q_last are
        known.
        """
        F, overlaps = self._F[: self.size, : self.size], self._overlaps[: self.size, : self.size]
        grown = -overlaps @ F[:, self._last]
        grown[:near] += F[:, :near].T @ overlaps[:, self._last] - F[:near, self._last]
        return grown + np.copysign(NOISE * scale + self._noise[: self.size, None], grown)

    def ritz(self, which: Which) -> tuple[Vector, Block, Vector]:
        """Ritz values in order, their coordinates in Q, and the norms of their residuals."""
        F = self._F[: self.size, : self.size]
        theta, U = eigh((F + F.T) / 2, check_finite=False)
        ranked = order(theta, which)
        U = U[:, ranked]
        return theta[ranked], U, np.linalg.norm(self._R @ U[self._last], axis=0)

    def vectors(self, U: Block) -> Block:
        """QU."""
        return self._Q.times(U)

    def restart(self, theta: Vector, U: Block, kept: int) -> None:
        """Keep the first Ritz vectors only, of all values and coordinates."""
        F = self._F[: self.size, : self.size]
        X = _invariant(F, theta, U, kept)
        small = X.T @ F @ X
        dropped = np.linalg.norm(F @ X - X @ small, axis=0)
        noise = np.hypot(dropped, np.sqrt(X.T**2 @ self._noise[: self.size] ** 2))
        self._Q.rotate(X)
        self._overlaps[:kept, :kept] = X.T @ self._overlaps[: self.size, : self.size] @ X
        self._F[:kept, :kept], self._noise[:kept] = small, noise
        self._beside, self._R = X.T @ self._beside, self._R @ X[self._last]
        self.size, self._last, self._near = kept, slice(0, kept), 0
        self._restarts += 1
        if self._restarts % ANEW == 0:
            self._renew()

    def _renew(self) -> None:
        """Make Q orthonormal, and the next block orthogonal to it."""
        kept, L = slice(0, self.size), np.linalg.cholesky(self._Q.gram(self.size))
        inverse = np.linalg.inv(L)
        self._Q.rotate(inverse.T)
        self._F[kept, kept] = L.T @ self._F[kept, kept] @ inverse.T
        self._R = self._R @ inverse.T
        self._overlaps[kept, kept] = 0.0
        self._separate()

    def widen(self, fresh: Block) -> None:
        """Take columns of `fresh` beside those of the next block."""
        for _ in range(2):
            if self.size:
                self._parted(fresh, 0)
            subtract_product(fresh, self._Z, tall_dot(self._Z, fresh))
        fresh, _, R = _normalised(fresh, tall_dot(fresh, fresh))
        self._Z = np.hstack([self._Z, fresh])
        self._R = np.vstack([self._R, np.zeros((len(R), self._R.shape[1]))])
        self._beside = np.hstack([self._beside, np.full((self.size, len(R)), NOISE)])

    @property
    def arrays(self) -> dict[str, Any]:
        """All of it after a restart; views that hold until the next one."""
        small = {"F": self._F[: self.size, : self.size].copy(), "R": self._R}
        return {"Q": self._Q.first(self.size), "Z": self._Z.copy(), **small}

    def refill(self, arrays: Mapping[str, Any]) -> None:
        """What `arrays` has said of another space."""
        F, self._R = np.asarray(arrays["F"]), np.array(arrays["R"])
        if F.shape[0] != F.shape[1] or len(F) > self.most:
            raise ValueError(f"a space of {F.shape} products in room for {self.most}")
        self.size, self._last, self._near = len(F), slice(0, len(F)), 0
        self._Q.refill(np.asarray(arrays["Q"]))
        self._F[self._last, self._last] = F
        self._Z = np.array(arrays["Z"])
        self._beside = np.full((self.size, self.width), NOISE)
        self._renew()


def _invariant(F: Block, theta: Vector, U: Block, kept: int) -> Block:
    """Orthonormal X ≈ U_kept with F X = X(XᵀF X) up to second order in what is skew in F.

    Eigenvectors U of the symmetric part leave the skew part K to be corrected: that of U_rest in
    X is U_restᵀK U_kept / (θ_kept − θ_rest), where these are apart.
    """
    skew = (F - F.T) / 2
    coupling = U[:, kept:].T @ skew @ U[:, :kept]
    apart = theta[:kept] - theta[kept:, None]
    far = np.abs(apart) > np.sqrt(EPS) * max(float(np.abs(theta).max()), 1e-300)
    parts = np.divide(coupling, apart, out=np.zeros_like(coupling), where=far)
    X: Block = np.linalg.qr(U[:, :kept] + U[:, kept:] @ parts)[0]
    return X


def _normalised(
    W: Block, gram: Block, least: float = 0.0, place: Block | None = None
) -> tuple[Block, Block, Block]:
    """Z, T, R with Z = WT orthonormal and W = ZR, from WᵀW; what is shorter than `least` goes.

    Z is written to a `place` for as many columns as W has, unless it has fewer.
    """
    weights, V = np.linalg.eigh(gram)
    kept = weights > max(least**2, 10 * len(weights) * EPS * weights[-1])
    lengths = np.sqrt(weights[kept])
    T, R = V[:, kept] / lengths, lengths[:, None] * V[:, kept].T
    Z = tall_times(W, T) if place is None or not kept.all() else turned(W, T, place)
    if kept.any() and weights[kept][0] < EVEN * weights[-1]:
        L = np.linalg.cholesky(tall_dot(Z, Z))
        again = solve_triangular(L, np.eye(len(L)), lower=True).T
        Z, T, R = tall_times(Z, again, out=Z), T @ again, L.T @ R
    return Z, T, R
