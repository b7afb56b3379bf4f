"""Views whose columns are dependent, so that their covariance is singular."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from genelin.linalg import unit_diagonal
from genelin.linalg.column_products import EPS
from genelin.operators import Gram, Rows
from genelin.problems.forming import SMALL

__all__ = ["Deficiency", "deficiency_of", "is_bare"]


@dataclass(frozen=True)
class Deficiency:
    """A view whose covariance is singular: its name, its rank where known, and what to say."""

    name: str
    rank: int | None
    message: str


def is_bare(gram: Gram) -> bool:
    """Whether the ridge is no more than rounding, so that the covariance may be singular."""
    return gram.reg == 0 or bool(gram.reg <= gram.shape[0] * EPS * gram.diagonal().max())


def deficiency_of(
    name: str, rows: Rows, gram: Gram, given: float, center: bool
) -> Deficiency | None:
    """What is to be said of a view whose columns are dependent; None of others."""
    rank = _numerical_rank(rows, gram, center)
    dead = np.flatnonzero(gram.diagonal() == 0)
    if rank == rows.d or (rank is None and not len(dead)):
        return None
    parts = []
    if len(dead):
        shown = ", ".join(str(j) for j in dead[:5]) + (", …" if len(dead) > 5 else "")
        kind = "constant" if center else "all zero"
        parts.append(f"{len(dead)} of its {rows.d} columns are {kind} ({shown})")
    if rank is not None and rank < rows.d - len(dead):
        parts.append(f"its {rows.d} columns have numerical rank {rank}")
    if rank is not None and rank >= rows.counted - bool(center):
        parts.append(
            f"with {rows.counted} rows it can fit anything: every correlation is trivially 1"
        )
    reg = 0.01 * float(np.mean(gram.diagonal()))
    ridge = f" (a ridge of {given:.1g} is lost in rounding)" if given else ""
    message = (
        f"{name} is rank-deficient: {'; '.join(parts)}{ridge}. Solved on its numerical range; to "
        f"regularise instead, try reg={reg:.1g}."
    )
    return Deficiency(name, rank, message)


def _numerical_rank(rows: Rows, gram: Gram, center: bool) -> int | None:
    """Rank by pivoted Cholesky of the scaled covariance.

    Where d is too large for that, the least of what bounds it; None if nothing does.
    """
    alive = gram.diagonal() > 0
    if rows.d > SMALL:
        most = min(rows.counted - bool(center), int(np.count_nonzero(alive)))
        return None if most >= rows.d else most
    if not alive.any():
        return 0
    scaled, _ = unit_diagonal(gram.entries().dense()[np.ix_(alive, alive)])
    *_, rank, _ = lapack.dpstrf(np.asfortranarray(scaled), lower=1, tol=len(scaled) * EPS)
    lifted = np.count_nonzero(
        gram.reg > rows.d * EPS * gram.diagonal()
    )  # by a ridge, however small
    return min(int(rank), rows.counted - bool(center) + int(lifted))
