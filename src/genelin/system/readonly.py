"""Arrays that belong to others too: nothing may be changed through these views of them."""

from __future__ import annotations

from typing import Any

from scipy import sparse

__all__ = ["read_only", "shared_csr"]


def read_only(A: Any) -> Any:
    """The same numbers, dense or CSR, in views that cannot be written to.

    SciPy sorts and merges the entries of a sparse matrix in place, in methods that look harmless
    (`sum`, `max`, `abs`). Through these views it raises instead of changing what the caller owns.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.ones((2, 2))
    >>> read_only(X).flags.writeable, X.flags.writeable
    (False, True)
    """
    if sparse.issparse(A):
        return shared_csr(A.data, A.indices, A.indptr, A.shape)
    view = A.view()
    view.flags.writeable = False
    return view


def shared_csr(data: Any, indices: Any, indptr: Any, shape: tuple[int, ...]) -> Any:
    """A CSR array of buffers that other matrices use as well.

    Examples
    --------
    >>> import numpy as np
    >>> X = sparse.csr_array(np.eye(2))
    >>> shared_csr(-X.data, X.indices, X.indptr, X.shape).toarray().tolist()
    [[-1.0, 0.0], [0.0, -1.0]]
    """
    parts = tuple(map(read_only, (data, indices, indptr)))
    return sparse.csr_array(parts, shape=shape, copy=False)
