"""Moments of two data sets, summed over their rows: XᵀΩY/n, and those about the means."""

from __future__ import annotations

from typing import Any

import numpy as np

from genelin.data.out_of_core import ChunkedRows
from genelin.data.reductions import CentralMoments, DenseMoment, SparseMoment
from genelin.data.rows import Rows
from genelin.linalg.column_products import Block, Vector

__all__ = ["central_moments", "moment_between", "own_moment"]

FAR = 100.0  # squared distance of a centre from the mean, against the variance, that loses digits


def moment_between(x: Rows, y: Rows, x_mean: Vector | None, y_mean: Vector | None) -> Any:
    """XᵀΩY/n in one sweep over the rows: as CSR if both are sparse, else dense and centred."""
    both_sparse = x.is_sparse and y.is_sparse
    task = SparseMoment() if both_sparse else DenseMoment(x_mean, y_mean)
    return x.summed(task, y, 1 if both_sparse else y.d)[0] / x.n


def central_moments(x: Rows, y: Rows) -> Block:
    """The cross-moment of two dense views about their means; each keeps its own moment too.

    One sweep over the rows, and every block of them is centred once: about the mean of some rows,
    which is close to the mean of all, so that the difference can be subtracted afterwards without
    cancellation, or about zero where that is close enough. Should it turn out to be far off, there
    is another sweep.
    """
    cut, d = x.d, x.d + y.d
    plain = x.about_zero and y.about_zero
    centre = np.zeros(d) if plain else np.concatenate([rows.near_mean for rows in (x, y)])
    moment, shift = _about(centre, x, y)
    variance, digits = moment.diagonal(), 1e-10 * (centre + shift) ** 2
    if np.all(np.isfinite(variance)) and np.any(shift**2 > np.maximum(FAR * variance, digits)):
        centre = centre + shift
        moment, shift = _about(centre, x, y)
    x_mean, y_mean = np.split(centre + shift, [cut])
    x.keep_moments(x_mean, np.array(moment[:cut, :cut]))
    y.keep_moments(y_mean, np.array(moment[cut:, cut:]))
    return np.array(moment[:cut, cut:])


def own_moment(x: Rows) -> None:
    """Let one dense view keep the moment about its mean, by the same kind of sweep."""
    if x.central_moment is None:
        central_moments(x, Rows(np.empty((x.n, 0))))


def _about(centre: Vector, x: Rows, y: Rows) -> tuple[Block, Vector]:
    """Moments about the mean by way of a centre, and how far that is from the mean."""
    with np.errstate(over="ignore", invalid="ignore"):
        moment, total = x.summed(CentralMoments(centre), y, len(centre))
        shift = total / x.n
        moment = moment / x.n - np.outer(shift, shift)
        squares = moment.diagonal() + np.square(centre + shift)
    if not np.all(np.isfinite(squares)):
        for rows in (x, y):
            if isinstance(rows, ChunkedRows):
                rows.refuse_nonfinite()
                rows.refuse_overflowing()
    return moment, shift
