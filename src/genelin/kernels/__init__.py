"""Compiled inner loops (Numba) on plain arrays; imported where they are first used."""

from genelin.system.interrupts import uninterrupted

with uninterrupted():  # an import of Numba that was broken off could not be begun again
    from genelin.kernels.cg_updates import advance, dots, shifted_dots, turn
    from genelin.kernels.csr_products import (
        cross_times,
        dense_moment,
        finish,
        outs_for,
        pair_times,
        shifted_times,
        times,
    )
    from genelin.kernels.gradient_steps import dense_steps, sparse_steps
    from genelin.kernels.panel_products import (
        panels_add,
        panels_dot,
        panels_gram,
        panels_rotate,
        panels_times,
    )
    from genelin.kernels.triangular_solves import (
        cholesky_solve,
        incomplete_cholesky,
        lower_solve,
        upper_solve,
    )

__all__ = [
    "advance",
    "cholesky_solve",
    "cross_times",
    "dense_moment",
    "dense_steps",
    "dots",
    "finish",
    "incomplete_cholesky",
    "lower_solve",
    "outs_for",
    "pair_times",
    "panels_add",
    "panels_dot",
    "panels_gram",
    "panels_rotate",
    "panels_times",
    "shifted_dots",
    "shifted_times",
    "sparse_steps",
    "times",
    "turn",
    "upper_solve",
]
