"""How much memory there is, and how much of it is free."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["available_memory", "total_memory"]

LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a group


def available_memory() -> float:
    """Bytes of memory that can be had now, inf where the system does not say.

    Pages of files that are cached count as free: the system gives them up.

    Examples
    --------
    >>> available_memory() > 0
    True
    """
    return _of_meminfo("MemAvailable", "SC_AVPHYS_PAGES")


def total_memory() -> float:
    """Bytes of memory that this process may ever have, whatever is free now; inf if unknown.

    Examples
    --------
    >>> total_memory() > 0
    True
    """
    return min(_of_meminfo("MemTotal", "SC_PHYS_PAGES"), *map(_limit, LIMITS))


def _of_meminfo(line: str, pages: str) -> float:
    """What the system says of its memory, in a line of /proc or by `sysconf`."""
    try:
        for entry in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if entry.startswith(f"{line}:"):
                return 1024.0 * int(entry.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        return float(os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def _limit(path: str) -> float:
    """The limit of a control group (containers have one), inf without one."""
    try:
        return float(Path(path).read_text(encoding="ascii"))  # "max" where there is none
    except (OSError, ValueError):
        return float("inf")
