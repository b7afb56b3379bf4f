"""Stochastic steps c ← c − η(Hc − r), H = Σ ωᵢ xᵢxᵢᵀ / b + reg·I over a batch of b rows.

Both kernels add up iterates for their mean: from step `tail` on, the iterate after every
`stride`-th step.
"""

from __future__ import annotations

import numpy as np

from genelin.kernels.compiled import compiled

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


@compiled
def sparse_steps(data, indices, indptr, order, weights, GRM, total, batch, eta, reg, tail, stride):
    """Steps through the CSR rows in `order`, each at the cost of its nonzeros.

    What a step does to all of c is kept in numbers, c = α·g + s·r − m·pᵀ with the mean m of the
    rows; only g changes in the columns of a row. GRM is (d, 2k + 1), [g, r, m], or (d, 2k), [g, r],
    where rows are not centred; `total` is (d, k). Returns the sums of s and p that belong to
    `total`, and their count.
    """
    (d, width), k = GRM.shape, total.shape[1]
    centred = width > 2 * k
    alpha, s, decay = 1.0, 0.0, 1.0 - eta * reg
    p, mean_products = np.zeros(k), np.zeros(width)  # mᵀg, mᵀr and mᵀm
    if centred:
        for j in range(d):
            mean_products[k:] += GRM[j, 2 * k] * GRM[j, k:]
    product, products = np.empty(width), np.empty((batch, width))
    sum_s, sum_p, added = 0.0, np.zeros(k), 0
    for step in range((order.shape[0] + batch - 1) // batch):
        low, high = step * batch, min((step + 1) * batch, order.shape[0])
        for i in range(low, high):
            for q in range(width):
                product[q] = -mean_products[q]
            for entry in range(indptr[order[i]], indptr[order[i] + 1]):
                value, j = data[entry], indices[entry]
                for q in range(width):  # gᵀx, rᵀx and mᵀx in one sweep
                    product[q] += value * GRM[j, q]
            for q in range(k):
                product[q] = alpha * product[q] + s * product[k + q]
            if centred:
                for q in range(k):
                    product[q] -= product[2 * k] * p[q]
            if batch > 1:
                products[i - low] = product
        alpha *= decay
        s = decay * s + eta
        for q in range(k):
            p[q] *= decay
        for i in range(low, high):
            if batch > 1:
                product[:] = products[i - low]
            factor = eta * weights[i] / (high - low)
            for entry in range(indptr[order[i]], indptr[order[i] + 1]):
                value, j = factor / alpha * data[entry], indices[entry]
                for q in range(k):
                    GRM[j, q] -= value * product[q]
            if centred:
                of_mean = factor / alpha * (product[2 * k] + mean_products[2 * k])
                for q in range(k):
                    p[q] -= factor * product[q]
                    mean_products[q] -= of_mean * product[q]
        if step >= tail and (step - tail) % stride == 0:
            added += 1
            sum_s += s
            sum_p += p
            _add(total, alpha, GRM)
        if alpha < 1e-8:  # before it underflows
            _add(GRM[:, :k], alpha - 1.0, GRM)
            mean_products[:k] *= alpha
            alpha = 1.0
    return sum_s, sum_p, added
