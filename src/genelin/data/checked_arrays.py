"""Arrays of numbers as users pass them, looked at before they are used."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from genelin.system.readonly import read_only
from genelin.system.threads import blas_threads, equal, in_threads, one_blas_thread

__all__ = ["LARGEST", "as_numbers", "refuse_dtype", "refuse_extreme"]

SMALLEST, LARGEST = 1e-100, 1e100  # whose products are numbers still

MANY = 2**20  # numbers that are worth more than one thread


def as_numbers(A: Any, name: str, whole: bool = True) -> Any:
    """A two-dimensional array of floats, ndarray or CSR; non-empty and finite, if it is `whole`.

    What belongs to the caller is seen through views that cannot be written to.
    """
    is_sparse = bool(sparse.issparse(A))
    if isinstance(A, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose masked entries would be used as they are: drop those "
            f"rows or impute them, then pass {name}.filled()"
        )
    if not is_sparse:
        try:
            A = np.asarray(A)
        except ValueError as error:
            raise ValueError(f"{name} is not a rectangular array of numbers: {error}") from error
    refuse_dtype(A.dtype, name)
    if A.ndim != 2:
        raise ValueError(f"{name} must have two dimensions, got shape {A.shape}")
    if whole and 0 in A.shape:
        raise ValueError(f"{name} is empty, with shape {A.shape}: there is nothing to solve")
    if is_sparse:
        A = sparse.csr_array(A)
        if not A.has_canonical_format:
            A = A.copy()  # the user's matrix stays as it is
            A.sum_duplicates()
    if A.dtype not in (np.float32, np.float64):
        A = A.astype(np.float64)
    if whole:
        _refuse_nonfinite(A, name)
    return read_only(A)


def refuse_dtype(dtype: Any, name: str) -> None:
    """Raise if numbers of this type cannot be worked with."""
    if dtype is None:
        return
    kind = np.dtype(dtype).kind
    if kind == "c":
        raise TypeError(
            f"{name} is complex ({dtype}): genelin solves real symmetric problems; pass "
            f"{name}.real if its imaginary part is zero"
        )
    if kind not in "biuf":
        raise TypeError(
            f"{name} has dtype {dtype}, not numbers: convert it, e.g. with {name}.astype(float), "
            "and encode categories first"
        )


def _squares(numbers: Any) -> float:
    """Their sum, without threads of BLAS: those wait in a busy loop where kernels are to work."""

    def share(first: int, last: int) -> float:
        part = numbers[first:last]
        with np.errstate(over="ignore", invalid="ignore"):  # of this thread
            return float(part @ part)

    parts = equal(len(numbers), blas_threads() if len(numbers) > MANY else 1)
    with one_blas_thread():
        return float(sum(in_threads(share, parts)))


def _refuse_nonfinite(A: Any, name: str) -> None:
    """Look for NaN and inf; the sum of squares is a quick test that rarely needs the slow one."""
    values = A.data if sparse.issparse(A) else A
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(_squares(values.ravel("K")) if values.flags.forc else values.sum()):
            return
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    if sparse.issparse(A):
        entry = int(np.flatnonzero(bad)[0])
        row = int(np.searchsorted(A.indptr, entry, side="right")) - 1
        column = int(A.indices[entry])
        value = values[entry]
    else:
        row, column = (int(place[0]) for place in np.nonzero(bad))
        value = values[row, column]
    count = int(bad.sum())
    shown = "NaN" if np.isnan(value) else value
    others = f" ({count} such entries in all)" if count > 1 else ""
    raise ValueError(
        f"{name} has {shown} at row {row}, column {column}{others}: drop those rows or impute "
        "them, e.g. with sklearn.impute.SimpleImputer"
    )


def refuse_extreme(size: float, name: str) -> None:
    """Raise if numbers are so large or small that their squares leave the range of floats."""
    if size > 0 and not SMALLEST < size < LARGEST:
        raise ValueError(
            f"{name} has numbers of the order {size:.0e}, whose products leave the range of "
            f"floating point: divide {name} by that"
        )
