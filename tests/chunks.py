"""Views as Dask arrays."""

import dask
import dask.array as da
import numpy as np
from scipy import sparse


def shared_factors(n, d1, d2, seed=0):
    """Two dense views that share five factors, stronger and weaker ones."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 5)) * [3.0, 2.0, 1.0, 0.5, 0.2]
    X, Y = (Z @ rng.standard_normal((5, d)) + rng.standard_normal((n, d)) for d in (d1, d2))
    return X + 3.0, Y


def in_chunks(X, rows, columns=-1, kind=None):
    """X as a Dask array; its chunks of a sparse kind, if so asked."""
    if not sparse.issparse(X):
        array = da.from_array(X, chunks=(rows, columns))
        return array if kind is None else array.map_blocks(kind)
    parts = [X[i : i + rows] for i in range(0, X.shape[0], rows)]
    blocks = [
        da.from_delayed(dask.delayed(part), part.shape, part.dtype, sparse.csr_array((0, 0)))
        for part in parts
    ]
    return da.concatenate(blocks)
