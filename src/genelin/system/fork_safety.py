"""Forks beside threads: what a child would wait for in vain is waited for before it is made.

Only the thread that forks lives on in a child. A lock that another thread held stays locked there
for ever, and a module that another thread was importing stays half imported.
"""

from __future__ import annotations

import _imp
import importlib
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

__all__ = ["at_fork", "kept_whole"]


class _Lock(Protocol):
    def acquire(self) -> Any: ...

    def release(self) -> Any: ...


class _Kept(NamedTuple):
    lock: _Lock
    in_child: Callable[[], None]


PACKAGES = ("genelin", "llvmlite", "numba", "numpy", "scipy", "sklearn", "threadpoolctl")

_all: list[_Kept] = []
_taken: list[_Kept] = []


def kept_whole(lock: _Lock, in_child: Callable[[], None] = lambda: None) -> None:
    """Let no process fork while another thread holds a lock.

    Parameters
    ----------
    lock : that of the thread that forks is free in the child, as it is here.
    in_child : what is to be done there before it is released.

    Examples
    --------
    >>> import threading
    >>> kept_whole(threading.RLock())
    """
    _all.append(_Kept(lock, in_child))


def at_fork() -> None:
    """Begin to look after forks, where there are any; called once."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)


def _before() -> None:
    _finish_imports()
    for kept in _all:
        kept.lock.acquire()
        _taken.append(kept)
    while not _no_imports_begin():  # one was begun by a thread that had a lock until now
        _finish_imports()


def _after() -> None:
    with suppress(RuntimeError):  # Ctrl-C came before it was taken
        _imp.release_lock()
    while _taken:
        _taken.pop().lock.release()


def _after_in_child() -> None:
    for kept in _taken:
        kept.in_child()
    _after()


def _no_imports_begin() -> bool:
    """Keep other threads from beginning to import, unless one of them is at it: then say so."""
    _imp.acquire_lock()
    if not _imported_by_others():
        return True
    _imp.release_lock()
    return False


def _finish_imports() -> None:
    """Wait for modules that other threads are importing."""
    for name in _imported_by_others():
        with suppress(Exception):  # the thread that imports it says what is wrong
            importlib.import_module(name)


def _imported_by_others() -> list[str]:
    """Modules that threads other than this one are importing, of packages whose imports end."""
    locks = dict(getattr(importlib._bootstrap, "_module_locks", {}))
    return [
        name
        for name, lock in ((name, reference()) for name, reference in locks.items())
        if name.partition(".")[0] in PACKAGES
        and getattr(lock, "owner", None) not in (None, threading.get_ident())
    ]
