"""Stochastic steps c ← c − η(Hc − r), H = Σ ωᵢ xᵢxᵢᵀ / b + reg·I over a batch of b rows.

Both kernels add up iterates for their mean: from step `tail` on, the iterate after every
`stride`-th step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from genelin.kernels.codegen.simd import (
    add_product,
    at,
    fetch_entry,
    folded,
    load,
    scaled,
    store,
    zeros,
)
from genelin.kernels.compiled import compiled, inlined
from genelin.system.buffer_pool import empty

__all__ = ["dense_steps", "sparse_steps"]


@compiled
def _add(total, factor, G):
    """Add factor·G to `total`, in the columns that it has."""
    for j in range(total.shape[0]):
        for q in range(total.shape[1]):
            total[j, q] += factor * G[j, q]


@compiled
def dense_steps(rows, weights, C, total, R, batch, eta, reg, first, tail, stride):
    """Steps through all `rows` (m, d), in order; C, R and `total` are (k, d), a row per column.

    `first` is the number of steps done before. Returns the number of iterates added to `total`.
    """
    k, d = C.shape
    added = 0
    products = np.empty(batch)
    for step in range((rows.shape[0] + batch - 1) // batch):
        low, high = step * batch, min((step + 1) * batch, rows.shape[0])
        for q in range(k):
            for i in range(low, high):
                product = 0.0
                for j in range(d):
                    product += rows[i, j] * C[q, j]
                products[i - low] = eta * weights[i] * product / (high - low)
            for j in range(d):
                C[q, j] += eta * (R[q, j] - reg * C[q, j])
            for i in range(low, high):
                product = products[i - low]
                for j in range(d):
                    C[q, j] -= product * rows[i, j]
        t = first + step
        if t >= tail and (t - tail) % stride == 0:
            added += 1
            _add(total, 1.0, C)
    return added


WIDTHS = (1, 2, 4, 8)  # columns that go through all steps together
AHEAD = 32  # rows between asking for one and using it
SEEN, NEAR, RUN = 4096, 4, 64  # steps; rows between neighbours; steps of a run that is long
LARGE = 1e8


@inlined
def _step(data, indices, low, length, G, both, part, sigma, offset, factor):
    """Add x·changeᵀ to g for the row x; the change is factor·(xᵀ(g + σr) + offset)."""
    products = zeros(G, both)  # xᵀg and xᵀr
    for entry in range(length):
        j = len(both) * at(indices, low + entry)
        products = add_product(products, at(data, low + entry), load(G, 0, j, both))
    change = scaled(factor, add_product(folded(sigma, products, part), 1.0, offset))
    for entry in range(length):
        j = len(both) * at(indices, low + entry)
        store(G, 0, j, add_product(load(G, 0, j, part), at(data, low + entry), change))
    return change


@inlined
def _step_by_length(data, indices, low, length, G, both, part, sigma, offset, factor):
    """`_step`, without loops for rows of up to eight entries."""
    if length == 1:
        return _step(data, indices, low, 1, G, both, part, sigma, offset, factor)
    if length == 2:
        return _step(data, indices, low, 2, G, both, part, sigma, offset, factor)
    if length == 3:
        return _step(data, indices, low, 3, G, both, part, sigma, offset, factor)
    if length == 4:
        return _step(data, indices, low, 4, G, both, part, sigma, offset, factor)
    if length == 5:
        return _step(data, indices, low, 5, G, both, part, sigma, offset, factor)
    if length == 6:
        return _step(data, indices, low, 6, G, both, part, sigma, offset, factor)
    if length == 7:
        return _step(data, indices, low, 7, G, both, part, sigma, offset, factor)
    if length == 8:
        return _step(data, indices, low, 8, G, both, part, sigma, offset, factor)
    return _step(data, indices, low, length, G, both, part, sigma, offset, factor)


@inlined
def _fetch(data, indices, indptr, order, step, ahead):
    """Ask for the row of a later step, and for where that of a still later one begins."""
    last = order.shape[0] - 1
    entry = at(indptr, at(order, min(step + ahead, last)))
    fetch_entry(data, entry)
    fetch_entry(indices, entry)
    fetch_entry(indptr, at(order, min(step + 2 * ahead, last)))


@compiled
def _row_steps(
    rows, order, weights, GR, lanes, xm, mean, first, last, eta, grow, rho, sigma, ahead
):
    """Steps first … last − 1, each on one row; returns ρ and σ after them."""
    (data, indices, indptr), (both, part), (M, mm) = rows, lanes, mean
    G = GR.reshape((1, GR.size))
    p, mc, offset = load(M, 0, 0, part), load(M, 1, 0, part), zeros(G, part)
    for step in range(first, last):
        if ahead is not None:
            _fetch(data, indices, indptr, order, step, ahead)
        i = at(order, step)
        if xm is not None:
            mx = at(xm, i)
            offset = add_product(scaled(-1.0, mc), -mx, p)
        low, factor = at(indptr, i), -eta * grow * at(weights, step)
        length = at(indptr, i + 1) - low
        change = _step_by_length(data, indices, low, length, G, both, part, sigma, offset, factor)
        rho *= grow
        sigma += eta * rho
        if xm is not None:
            p = add_product(p, 1.0, change)
            mc = add_product(mc, mx - mm, change)
            mc = add_product(mc, eta * rho, load(M, 2, 0, part))
    store(M, 0, 0, p)
    store(M, 1, 0, mc)
    return rho, sigma


@compiled
def _batch_steps(
    rows, order, weights, GR, lanes, xm, mean, first, last, eta, grow, rho, sigma, batch
):
    """Steps first … last − 1, each on `batch` rows; returns ρ and σ after them."""
    (data, indices, indptr), (both, part), (M, mm) = rows, lanes, mean
    G, changes = GR.reshape((1, GR.size)), np.empty((batch, len(part)))
    for step in range(first, last):
        low, high = step * batch, min((step + 1) * batch, order.shape[0])
        for t in range(low, high):
            i, sums = order[t], zeros(G, both)
            for entry in range(indptr[i], indptr[i + 1]):
                sums = add_product(sums, data[entry], load(G, 0, len(both) * indices[entry], both))
            change = folded(sigma, sums, part)
            if xm is not None:
                change = add_product(change, -xm[i], load(M, 0, 0, part))
                change = add_product(change, -1.0, load(M, 1, 0, part))
            store(changes, t - low, 0, scaled(-eta * grow * weights[t] / (high - low), change))
        rho *= grow
        sigma += eta * rho
        for t in range(low, high):
            i, change = order[t], load(changes, t - low, 0, part)
            for entry in range(indptr[i], indptr[i + 1]):
                j = len(both) * indices[entry]
                store(G, 0, j, add_product(load(G, 0, j, part), data[entry], change))
            if xm is not None:
                store(M, 0, 0, add_product(load(M, 0, 0, part), 1.0, change))
                store(M, 1, 0, add_product(load(M, 1, 0, part), xm[i] - mm, change))
        store(M, 1, 0, add_product(load(M, 1, 0, part), eta * rho, load(M, 2, 0, part)))
    return rho, sigma


@compiled
def _sum_of_iterates(
    rows, order, weights, GR, lanes, xm, mean, total, batch, eta, reg, tail, stride, ahead
):
    """Add αg to `total` (d, width) after each step that counts; sums of s and p, and the count."""
    M, width = mean[0], len(lanes[0]) // 2
    rho, sigma, grow = 1.0, 0.0, 1.0 / (1.0 - eta * reg)
    spell = np.log(LARGE) / np.log(abs(grow)) if abs(grow) > 1.0 else np.inf
    sum_s, sum_p, added = 0.0, np.zeros(width), 0
    step, steps, counting = 0, -(-order.shape[0] // batch), tail
    while step < steps:
        last = min(steps, counting + 1, step + int(min(spell, steps)) + 1)
        span = (step, last, eta, grow, rho, sigma)
        if batch == 1:
            rho, sigma = _row_steps(rows, order, weights, GR, lanes, xm, mean, *span, ahead)
        else:
            rho, sigma = _batch_steps(rows, order, weights, GR, lanes, xm, mean, *span, batch)
        step = last
        if step > counting:
            added, counting = added + 1, counting + stride
            alpha = 1.0 / rho
            sum_s += alpha * sigma
            for q in range(width):
                sum_p[q] += alpha * M[0, q]
            for j in range(GR.shape[0]):
                for q in range(width):
                    total[j, q] += alpha * GR[j, q]
        if abs(rho) > LARGE:
            M[:2] /= rho
            GR[:, :width] /= rho
            rho, sigma = 1.0, sigma / rho
    return sum_s, sum_p, added


def _scattered(order: Any) -> bool:
    """Whether rows have to be asked for ahead: processors do so themselves along longer runs."""
    jumps = np.abs(np.diff(order[:SEEN])) > NEAR
    return bool(RUN * jumps.sum() > len(jumps))


def _beside_zeros(R: Any, width: int) -> Any:
    """[0, R] for `width` columns, of which R may have fewer; a feature begins a cache line."""
    GR = empty((len(R), 2 * width))
    GR[:] = 0
    GR[:, width : width + R.shape[1]] = R
    return GR


def sparse_steps(
    X: Any,
    order: Any,
    weights: Any,
    R: Any,
    batch: int,
    eta: float,
    reg: float,
    tail: int,
    stride: int,
    mean: tuple[Any, Any] | None = None,
) -> tuple[Any, int]:
    """Steps from c = 0 through the CSR rows of X in `order`, each at the cost of its nonzeros.

    What a step does to all of c is kept in numbers, c = α(g + σr − m·pᵀ) with the mean m of the
    rows; only g changes in the columns of a row. `mean` is m and X @ m, if rows are to be centred.
    Returns the sum of the iterates that count, and their number.
    """
    m, xm = (None, None) if mean is None else mean
    arrays = ((X.data, X.indices, X.indptr), *map(np.ascontiguousarray, (order, weights)))
    (d, k), sums, added, ahead = R.shape, [], 0, AHEAD if _scattered(order) else None
    for first in range(0, k, WIDTHS[-1]):
        r = R[:, first : first + WIDTHS[-1]]
        width = next(width for width in WIDTHS if width >= r.shape[1])
        both = (0,) * (2 * width)
        # A store as wide as loads: what is read right after it then comes from the store.
        part = both if width < 4 else both[:width]
        M, mm = np.zeros((3, len(part))), 0.0  # p, mᵀ(g + σr − m·pᵀ) and mᵀr
        if m is not None:
            M[2, : r.shape[1]], mm = m @ r, float(m @ m)
        total = np.zeros((d, width))
        settings = ((both, part), xm, (M, mm), total, batch, eta, reg, tail, stride, ahead)
        sum_s, sum_p, added = _sum_of_iterates(*arrays, _beside_zeros(r, width), *settings)
        if m is not None:
            total -= np.outer(m, sum_p)
        sums.append(total[:, : r.shape[1]] + sum_s * r)
    return np.hstack(sums), added
