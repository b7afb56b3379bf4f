"""What can go wrong, as types: every message names the argument, the place and the remedy."""

from __future__ import annotations

__all__ = [
    "CheckpointWarning",
    "ConvergenceWarning",
    "DataError",
    "InternalError",
    "NotPositiveDefiniteError",
    "RankDeficiencyWarning",
    "SolverError",
]


class NotPositiveDefiniteError(ValueError):
    """B (or a matrix given to a linear solver) is indefinite or singular.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import top_k
    >>> top_k(np.eye(2), np.diag([1.0, -1.0]), k=1)
    Traceback (most recent call last):
        ...
    genelin.errors.NotPositiveDefiniteError: B is not positive definite: ...
    """


def not_positive_definite(what: str) -> NotPositiveDefiniteError:
    """The error for a B of which `what` was found, with the remedy."""
    return NotPositiveDefiniteError(
        f"B is not positive definite: {what}. Check its sign, remove dependent rows and columns, "
        "or add a ridge, B + reg·I."
    )


def too_many_pairs(k: int, rank: int) -> ValueError:
    """The error for more canonical pairs than the views have."""
    return ValueError(
        f"k={k} is more than the smaller numerical rank of X and Y, {rank}: ask for fewer pairs, "
        "or set reg > 0"
    )


class SolverError(RuntimeError):
    """A linear solver broke its contract: wrong shape, NaN, or a growing error.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import GenELinK, top_k
    >>> A, B = np.diag([3.0, 2.0, 1.0]), np.eye(3)
    >>> top_k(A, B, k=1, method=GenELinK(solver=lambda B, b, u0, delta: b[:2]))
    Traceback (most recent call last):
        ...
    genelin.errors.SolverError: solver '<lambda>' returned shape (2, 1), expected (3, 1): ...
    """


class InternalError(RuntimeError):
    """A defect of genelin, and nothing that input could be blamed for: please report it.

    The exception that it comes from is its `__cause__`.

    Examples
    --------
    >>> from genelin.errors import InternalError
    >>> issubclass(InternalError, ValueError)
    False
    """


class ConvergenceWarning(UserWarning):
    """A result did not reach the tolerance; its `status` says why and what to do.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from genelin import ConvergenceWarning, GenELinK, top_k
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     sol = top_k(np.diag([2.0, 1.9, 1.8]), k=1, method=GenELinK(max_iter=3))
    >>> caught[0].category is ConvergenceWarning, sol.converged
    (True, False)
    """


class RankDeficiencyWarning(UserWarning):
    """The data do not span their columns; the answer lives on their numerical range.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from genelin import RankDeficiencyWarning, top_k_cca
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 3))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     pairs = top_k_cca(np.c_[X, X[:, :1]], X @ rng.standard_normal((3, 2)), k=1)
    >>> caught[0].category is RankDeficiencyWarning
    True
    """


class CheckpointWarning(UserWarning):
    """A state could not be written, or there was none to resume, or one is about to be replaced.

    Examples
    --------
    >>> import tempfile, warnings
    >>> import numpy as np
    >>> from genelin import CheckpointWarning, top_k
    >>> with warnings.catch_warnings(record=True) as caught, tempfile.TemporaryDirectory() as new:
    ...     warnings.simplefilter("always")
    ...     sol = top_k(np.eye(2), checkpoint=new, resume=True)
    >>> caught[0].category is CheckpointWarning
    True
    """


class DataError(OSError, ValueError):
    """A file of data is not there, cannot be had, or is not what it should be.

    Examples
    --------
    >>> from genelin.datasets import ptb_bigrams
    >>> ptb_bigrams("no/such/text.txt")
    Traceback (most recent call last):
        ...
    genelin.errors.DataError: no/such/text.txt does not exist
    """
