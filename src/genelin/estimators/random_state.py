"""The random_state of scikit-learn as a seed."""

from __future__ import annotations

from typing import Any

from sklearn.utils import check_random_state

from genelin.validation import shown

__all__ = ["drawn_seed"]


def drawn_seed(random_state: Any, below: int) -> int:
    """A seed in [0, below) for one run.

    Examples
    --------
    >>> drawn_seed(-1, 10)
    Traceback (most recent call last):
        ...
    ValueError: random_state=-1 must be an integer in [0, 2³²), a numpy RandomState, or None
    """
    try:
        return int(check_random_state(random_state).randint(below))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"random_state={shown(random_state)} must be an integer in [0, 2³²), a numpy "
            "RandomState, or None"
        ) from error
