"""The version of genelin, in the one place that anything may import.

It is that of the tag which the package was built from; see RELEASING.md.
"""

from importlib import metadata

__all__ = ["__version__"]

try:
    __version__ = metadata.version("genelin")
except metadata.PackageNotFoundError:  # sources that were never installed
    __version__ = "0.dev0"
