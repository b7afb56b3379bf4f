"""Files of NumPy's and SciPy's arrays: `.npy`, and sparse `.npz`."""

from __future__ import annotations

from pathlib import Path

from genelin.errors import DataError
from genelin.io.block_readers import CsrReader, DenseReader, Reader, check_by_rows
from genelin.io.formats.npz import npz_kind, npz_members
from genelin.io.number_streams import npy_flat

__all__ = ["open_npy", "open_npz"]

CSR = ("indptr", "indices", "data")


def open_npy(path: Path) -> Reader:
    """A matrix that np.save has written, by rows or by columns."""
    flat, shape, fortran = npy_flat(path)
    return DenseReader(str(path), flat, shape, path, fortran)


def open_npz(path: Path) -> Reader:
    """A CSR matrix that scipy.sparse.save_npz has written."""
    members = npz_members(path)
    if missing := {*CSR, "format", "shape"} - set(members):
        raise DataError(
            f"{path} lacks {', '.join(sorted(missing))}: it is not a sparse matrix of "
            "scipy.sparse.save_npz; save dense arrays with np.save"
        )
    kind, shape = npz_kind(members)
    check_by_rows(path, kind)
    arrays = [members[name].numbers() for name in CSR]
    return CsrReader(str(path), (arrays[0], arrays[1], arrays[2]), shape, [path], orderly=False)
