"""An adversary: random hostile problems, files and processes against every promise of genelin.

`python -m fuzz --seconds 60 --seed 0` runs all attacks in turns. An attack is a function of a
random generator that plays one case: it returns how the case ended, in a few words that are counted
("answered", "refused", "not converged"), and raises `Defect` where a promise is broken. Any other
exception that leaves it is a defect as well.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["Attack", "Defect"]

Attack = Callable[[np.random.Generator], str]


class Defect(AssertionError):
    """A promise of genelin that a case has broken; the message says which, and by how much."""
