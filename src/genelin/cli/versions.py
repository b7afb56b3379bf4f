"""Versions of what the figures depend on."""

from __future__ import annotations

import platform
from importlib import metadata

from genelin import __version__

__all__ = ["versions"]


def versions() -> dict[str, str]:
    """Name → version, of genelin and what it stands on.

    Examples
    --------
    >>> list(versions())[:3]
    ['genelin', 'python', 'numpy']
    """
    found = {"genelin": __version__, "python": platform.python_version()}
    for name in ("numpy", "scipy", "numba", "scikit-learn", "polars"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found | {"BLAS": _blas()}


def _blas() -> str:
    """The libraries that NumPy and SciPy have loaded, with their threads."""
    import scipy.linalg  # noqa: F401 - loads SciPy's own
    from threadpoolctl import threadpool_info

    loaded = {
        f"{info['internal_api']} {info['version']} ({info['num_threads']} threads)"
        for info in threadpool_info()
        if info["user_api"] == "blas"
    }
    return ", ".join(sorted(loaded)) or "unknown"
