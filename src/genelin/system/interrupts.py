"""Ctrl-C in the middle of what has to be done as a whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["uninterrupted"]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back until a short piece of work is done.

    Examples
    --------
    >>> done, before = [], signal.signal(signal.SIGINT, signal.default_int_handler)
    >>> try:
    ...     with uninterrupted():
    ...         signal.raise_signal(signal.SIGINT)
    ...         done.append("work")
    ... except KeyboardInterrupt:
    ...     done.append("interrupt")
    >>> done, signal.signal(signal.SIGINT, before) is signal.default_int_handler
    (['work', 'interrupt'], True)
    """
    handler = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not callable(handler):  # nobody would raise here
        yield
        return
    pressed: list[Any] = []
    signal.signal(signal.SIGINT, lambda *event: pressed.append(event))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if pressed:
            handler(*pressed[0])
