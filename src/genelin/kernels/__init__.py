"""Compiled inner loops (Numba) on plain arrays; imported where they are first used."""

from genelin.kernels.steps import dense_steps, sparse_steps

__all__ = ["dense_steps", "sparse_steps"]
