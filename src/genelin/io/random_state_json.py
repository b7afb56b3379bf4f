"""The state of random numbers in JSON, and back; what comes back is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["generator_of", "generator_parts", "plain_state", "set_state"]

BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
PLACES = {"pos": 624, "buffer_pos": 4}  # in arrays, which NumPy does not look at
Generator = np.random.Generator | np.random.RandomState


def plain_state(state: Any) -> Any:
    """The state of a bit generator in JSON.

    Examples
    --------
    >>> plain_state(np.random.SFC64(0).state)["state"]["state"]["dtype"]
    'uint64'
    """
    if isinstance(state, Mapping):
        return {name: plain_state(part) for name, part in state.items()}
    if isinstance(state, np.ndarray):
        return {"uint": state.tolist(), "dtype": str(state.dtype)}
    return state.item() if isinstance(state, np.generic) else state


def set_state(bits: Any, state: Any) -> None:
    """Set a bit generator to a state from `plain_state`; ValueError where that is none of its.

    Examples
    --------
    >>> first, second = np.random.default_rng(0), np.random.default_rng(1)
    >>> set_state(second.bit_generator, plain_state(first.bit_generator.state))
    >>> bool(first.random() == second.random())
    True
    """
    bits.state = _like(state, bits.state, "state")


def generator_parts(random: Generator) -> dict[str, Any]:
    """A `Generator` or a `RandomState` in JSON.

    Examples
    --------
    >>> again = generator_of(generator_parts(np.random.RandomState(3)))
    >>> again.randint(100) == np.random.RandomState(3).randint(100)
    True
    """
    if isinstance(random, np.random.Generator):
        state, rest = dict(random.bit_generator.state), {}
    else:
        state = dict(random.get_state(legacy=False))
        rest = {name: state.pop(name) for name in ("has_gauss", "gauss")}
    if state["bit_generator"] not in BIT_GENERATORS:
        raise ValueError(f"a bit generator {state['bit_generator']!r} that NumPy does not have")
    return {"kind": type(random).__name__, "state": plain_state(state)} | rest


def generator_of(parts: Mapping[str, Any]) -> Generator:
    """The generator from its parts; ValueError where they are not those of one."""
    name = parts["state"]["bit_generator"]
    if name not in BIT_GENERATORS:
        raise ValueError(f"{name!r:.40} is not a bit generator")
    bits = getattr(np.random, name)()
    set_state(bits, parts["state"])
    if parts["kind"] == "Generator":
        return np.random.Generator(bits)
    if parts["kind"] != "RandomState":
        raise ValueError(f"{parts['kind']!r:.40} is not a generator of random numbers")
    random = np.random.RandomState(bits)
    rest = {"has_gauss": int(bool(parts["has_gauss"])), "gauss": float(parts["gauss"])}
    random.set_state(bits.state | rest)
    return random


def _like(value: Any, known: Any, name: str) -> Any:
    """A part of a state, once it is of the kind that is known there."""
    if isinstance(known, Mapping):
        if not isinstance(value, Mapping) or set(value) != set(known):
            raise ValueError(f"{name} of random numbers is not that of its kind")
        return {part: _like(value[part], known[part], part) for part in known}
    if isinstance(known, np.ndarray):
        numbers = value["uint"]  # NumPy 1 wraps numbers that its type cannot hold
        most = np.iinfo(known.dtype).max
        fitting = all(type(part) is int and 0 <= part <= most for part in numbers)
        if len(numbers) != len(known) or not fitting:
            raise ValueError(f"{name} of random numbers is not that of its kind")
        return np.array(numbers, dtype=known.dtype)
    if isinstance(known, str):
        if value != known:
            raise ValueError(f"{name} of random numbers is {value!r:.40}, not {known!r}")
        return value
    if not isinstance(value, int) or not 0 <= value <= PLACES.get(name, 2**128 - 1):
        raise ValueError(f"{name} of random numbers is {value!r:.40}")
    return value
