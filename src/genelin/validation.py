"""Arguments as users give them: every check returns a plain value, or says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from os import PathLike, fspath
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "check_choice",
    "check_count",
    "check_flag",
    "check_float_type",
    "check_index",
    "check_method",
    "check_number",
    "check_numbers",
    "check_path",
    "generator",
    "settle",
    "shown",
]

FLOATS = {
    name: np.dtype(kind)
    for kind, names in (
        (np.float32, ("float32", "single", "f4", "f")),
        (np.float64, ("float64", "double", "float", "f8", "d")),
    )
    for name in names
}
LONG = 60  # characters of a value that a message shows


def shown(value: Any) -> str:
    """The value on one line, cut where it is long.

    Examples
    --------
    >>> shown("a"), shown(range(3)), len(shown(list(range(1000))))
    ("'a'", 'range(0, 3)', 60)
    """
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an integer of more than 4300 digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"


def check_count(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """A whole number of at least `least`, as an int, or a ValueError that names it.

    Examples
    --------
    >>> check_count("max_iter", 0)
    Traceback (most recent call last):
        ...
    ValueError: max_iter=0 must be a whole number of at least 1
    """
    if not _is_whole(value) or value < least or (most is not None and value > most):
        upper = "" if most is None else f" and at most {most}"
        raise ValueError(f"{name}={shown(value)} must be a whole number of at least {least}{upper}")
    return int(value)


def check_index(name: str, value: Any, least: int, most: float = np.inf, limit: str = "") -> int:
    """A whole number that belongs to data: `limit` is what they allow, in words.

    Examples
    --------
    >>> check_index("k", 4, 1, 3, "the size of A, 3")
    Traceback (most recent call last):
        ...
    ValueError: k=4 must be at least 1 and at most the size of A, 3
    """
    if not _is_whole(value):
        raise TypeError(f"{name}={shown(value)} must be an integer")
    if not least <= value <= most:
        upper = f" and at most {limit}" if limit else ""
        raise ValueError(f"{name}={shown(value)} must be at least {least}{upper}")
    return int(value)


def check_number(
    name: str,
    value: Any,
    least: float = -np.inf,
    most: float = np.inf,
    *,
    above: float | None = None,
    below: float | None = None,
    infinite: bool = False,
    otherwise: str = "",
) -> float:
    """A real number with least ≤ value ≤ most and above < value < below, as a float.

    Parameters
    ----------
    infinite : whether inf is a number here.
    otherwise : what else may be given, for the message: ", or None".

    Examples
    --------
    >>> check_number("reduction", 1.5, 0, below=1)
    Traceback (most recent call last):
        ...
    ValueError: reduction=1.5 must lie in [0, 1)
    """
    number = _as_float(value)
    if number is not None and (infinite or np.isfinite(number)):
        inside = (above is None or number > above) and (below is None or number < below)
        if inside and least <= number <= most:
            return number
    words = _range((least, above), (most, below))
    raise ValueError(f"{name}={shown(value)} must {words}{otherwise}")


def check_numbers(name: str, value: Any) -> NDArray[np.float64]:
    """Real numbers of any shape as an array of floats: no text, no dates, nothing complex.

    Examples
    --------
    >>> check_numbers("sample_weight", ["a"])
    Traceback (most recent call last):
        ...
    TypeError: sample_weight=['a'] must be real numbers
    """
    if isinstance(value, np.ndarray) and value.dtype == np.float64 and type(value) is np.ndarray:
        return value
    try:
        given = np.asarray(value)
        if not isinstance(value, np.ma.MaskedArray) and given.dtype.kind in "biufO":
            return given.astype(np.float64)
    except (TypeError, ValueError, OverflowError, NotImplementedError):
        pass
    raise TypeError(f"{name}={shown(value)} must be real numbers")


def check_flag(name: str, value: Any) -> bool:
    """True or False, and no other thing that passes for it.

    Examples
    --------
    >>> check_flag("center", "no")
    Traceback (most recent call last):
        ...
    TypeError: center='no' must be True or False
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name}={shown(value)} must be True or False")
    return bool(value)


def check_float_type(name: str, value: Any) -> np.dtype[Any]:
    """The type of numbers of data: float32 or float64.

    Examples
    --------
    >>> check_float_type("dtype", int)
    Traceback (most recent call last):
        ...
    ValueError: dtype=<class 'int'> must be float32 or float64
    """
    if isinstance(value, str):  # NumPy would warn of old names
        found = FLOATS.get(value.lstrip("=<"))
    elif isinstance(value, type):
        found = np.dtype(value)
    else:
        found = value
    if isinstance(found, np.dtype) and found in FLOATS.values():
        return found
    raise ValueError(f"{name}={shown(value)} must be float32 or float64")


def check_choice(name: str, value: Any, *choices: str) -> str:
    """One of a few words.

    Examples
    --------
    >>> check_choice("projection", "best", "ritz", "random")
    Traceback (most recent call last):
        ...
    ValueError: projection='best' must be 'ritz' or 'random'
    """
    if not isinstance(value, str) or value not in choices:
        *others, last = map(repr, choices)
        known = f"{', '.join(others)} or {last}" if others else last
        raise ValueError(f"{name}={shown(value)} must be {known}")
    return value


def check_method(name: str, value: Any) -> None:
    """An eigen method: an object with settings that can be called, not its class.

    Examples
    --------
    >>> check_method("further", None)
    Traceback (most recent call last):
        ...
    TypeError: further=None must be an eigen method, such as Davidson()
    """
    if isinstance(value, type) or not callable(value):
        raise TypeError(f"{name}={shown(value)} must be an eigen method, such as Davidson()")


def check_path(name: str, value: Any) -> str:
    """The name of a file.

    Examples
    --------
    >>> check_path("path", 1)
    Traceback (most recent call last):
        ...
    TypeError: path=1 must be the name of a file: text or a pathlib.Path
    """
    path = fspath(value) if isinstance(value, str | PathLike) else None
    if not isinstance(path, str) or path in ("", "."):
        raise TypeError(f"{name}={shown(value)} must be the name of a file: text or a pathlib.Path")
    return path


def generator(rng: Any, name: str = "rng") -> np.random.Generator:
    """The generator that `rng` is, or one made of a seed.

    Examples
    --------
    >>> generator(-1)
    Traceback (most recent call last):
        ...
    ValueError: rng=-1 must be a seed (an integer that is not negative), a numpy Generator, or None
    """
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"{name}={shown(rng)} must be a seed (an integer that is not negative), a numpy "
            "Generator, or None"
        ) from error


def settle(
    settings: Any, check: Callable[..., Any], *names: str, optional: bool = False, **limits: Any
) -> None:
    """Check fields of a frozen dataclass, and put the plain values in their place.

    A count that is an np.int8 would overflow where it is multiplied. None passes where a field is
    `optional`.
    """
    for name in names:
        value = getattr(settings, name)
        if value is not None or not optional:
            object.__setattr__(settings, name, check(name, value, **limits))


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _as_float(value: Any) -> float | None:
    """None for what is no real number, or too large for a float."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _range(lower: tuple[float, float | None], upper: tuple[float, float | None]) -> str:
    """What a number must be, from its limits: each that may be reached, or that may not."""
    low, high = (open_ if open_ is not None else closed for closed, open_ in (lower, upper))
    left, right = lower[1] is None, upper[1] is None  # whether they may be reached
    if np.isfinite(low) and np.isfinite(high):
        if not left and not right:
            return f"be a number between {low:g} and {high:g}"
        return f"lie in {'[' if left else '('}{low:g}, {high:g}{']' if right else ')'}"
    if low == 0:
        return "be a finite number, not negative" if left else "be a positive number"
    if np.isfinite(low):
        return f"be a finite number {'of at least' if left else 'above'} {low:g}"
    return "be a finite number"
