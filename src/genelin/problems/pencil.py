"""A pencil (A, B): A v = λ B v."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from genelin.linalg import Which
from genelin.operators import Identity, Operator, as_operator
from genelin.operators.definiteness import refuse_asymmetric, refuse_indefinite, refuse_nonsquare

__all__ = ["Pencil", "check_pencil"]


@dataclass(frozen=True)
class Pencil:
    """A v = λ B v with A symmetric and B symmetric positive definite (None: the identity).

    Examples
    --------
    >>> import numpy as np
    >>> Pencil(np.diag([1.0, 2.0])).d
    2
    """

    A: Any
    B: Any = None
    which: Which = "LM"

    def __post_init__(self) -> None:
        A = as_operator(self.A, name="A")
        refuse_nonsquare(A, "A")
        B = Identity(A.shape[0]) if self.B is None else as_operator(self.B, name="B")
        refuse_nonsquare(B, "B")
        if A.shape != B.shape:
            raise ValueError(
                f"A has shape {A.shape} but B has shape {B.shape}: they must be of one size"
            )
        if not isinstance(self.which, str) or self.which not in ("LM", "LA", "SA"):
            raise ValueError(f"which={self.which!r} is not known: use 'LM', 'LA' or 'SA'")
        object.__setattr__(self, "A", A)
        object.__setattr__(self, "B", B)

    @property
    def d(self) -> int:
        """Size of A and B."""
        return int(self.A.shape[0])

    @property
    def operators(self) -> tuple[Operator, Operator]:
        """A and B."""
        return self.A, self.B

    @property
    def data_size(self) -> float:
        """Stored entries that make one pass."""
        return float(self.A.reads + self.B.reads)


def check_pencil(pencil: Pencil, rng: np.random.Generator) -> None:
    """Raise if A or B is not symmetric, or B is not positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> check_pencil(Pencil(np.array([[1.0, 2.0], [0.0, 1.0]])), np.random.default_rng(0))
    Traceback (most recent call last):
        ...
    ValueError: A is not symmetric: entry (0, 1) is 2 but (1, 0) is 0. ...
    """
    refuse_asymmetric(pencil.A, "A", rng)
    if not isinstance(pencil.B, Identity):
        refuse_asymmetric(pencil.B, "B", rng)
        refuse_indefinite(pencil.B, rng)
