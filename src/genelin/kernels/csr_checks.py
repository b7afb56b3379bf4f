"""Whether compressed rows are what they claim to be: one look at every index."""

from __future__ import annotations

from genelin.kernels.compiled import exactly

__all__ = ["first_misplaced"]


@exactly
def first_misplaced(indptr, indices, columns):
    """The first entry that is out of range, and the first that is not above the one before it.

    Rows i have the entries indptr[i] … indptr[i + 1] − 1; −1 stands for none.
    """
    disordered = -1
    for row in range(len(indptr) - 1):
        last = -1
        for at in range(indptr[row], indptr[row + 1]):
            index = indices[at]
            if index < 0 or index >= columns:
                return at, disordered
            if index <= last and disordered < 0:
                disordered = at
            last = index
    return -1, disordered
