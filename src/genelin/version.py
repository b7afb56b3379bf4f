"""The version of genelin, in the one place that anything may import."""

__all__ = ["__version__"]

__version__ = "0.1.0"
