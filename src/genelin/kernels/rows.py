"""What compiled loops do with whole rows of blocks: a few columns at a time, sums in registers.

Written as loops of LLVM, for every width of a register: as Python functions that are inlined in
their callers they took three times as long to compile.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from genelin.kernels.lanes import INT64, LOOSELY, Lanes, everywhere, pointer_to, prefetch
from genelin.room import LINE

__all__ = ["ROWS", "add_dots", "add_times", "ask", "gather", "spread"]

BY_FOURS = ((16, 8), (16,), (8,), (4,))  # columns that are worked on together, by registers
ANY = ((16,), (8,), (4,), (1,))
AHEAD = 16  # entries between asking for a row of a block and using it
ROWS = 4  # rows of tall blocks that are worked on together


class _Loops:
    """Loops over entries and columns in the code that is being built."""

    def __init__(self, context, builder):
        self.context, self.builder = context, builder

    def over(self, start, stop, step=1):
        """`with loops.over(start, stop) as (i, _)`."""
        return cgutils.for_range_slice(self.builder, start, stop, INT64(step), INT64)

    def groups(self, columns, kinds):
        """Columns that are worked on together, first and last: all groups of a kind, then less.

        Columns of a group are pairs of where a register begins and of its width.
        """
        start = INT64(0)
        for widths in kinds:
            left = self.builder.srem(self.builder.sub(columns, start), INT64(sum(widths)))
            stop = self.builder.sub(columns, left)
            begins = [sum(widths[:t]) for t in range(len(widths))]
            yield list(zip(begins, widths, strict=True)), sum(widths), start, stop
            start = stop

    def columns(self, kind, array):
        """Number of columns of a block, or of entries of a vector."""
        parts = self.context.make_array(kind)(self.context, self.builder, array)
        return cgutils.unpack_tuple(self.builder, parts.shape, kind.ndim)[-1]

    def entry(self, kind, array, place):
        """array[place] of a contiguous vector."""
        parts = self.context.make_array(kind)(self.context, self.builder, array)
        return self.builder.load(self.builder.gep(parts.data, [place]))

    def index(self, kind, array, place):
        """The same as a position."""
        return self.context.cast(
            self.builder, self.entry(kind, array, place), kind.dtype, types.intp
        )

    def number(self, kind, array, row, column):
        """array[row, column]."""
        target = self.context.get_value_type(kind.dtype)
        place = pointer_to(self.context, self.builder, kind, array, row, column, target)
        return self.builder.load(place)

    def load(self, kind, array, row, column, width):
        """array[row, column : column + width]."""
        place = self._place(kind, array, row, column, width)
        value = self.builder.load(place)
        value.align = kind.dtype.bitwidth // 8
        return value

    def store(self, kind, array, row, column, width, value):
        """array[row, column : column + width] = value."""
        place = self._place(kind, array, row, column, width)
        self.builder.store(value, place).align = kind.dtype.bitwidth // 8

    def _place(self, kind, array, row, column, width):
        target = self.context.get_value_type(Lanes(kind.dtype, width))
        return pointer_to(self.context, self.builder, kind, array, row, column, target)

    def add_product(self, total, number, kind, lanes, scalar, width):
        """Total + number·lanes, for a number of type `kind`."""
        factor = everywhere(self.context, self.builder, number, kind, Lanes(scalar, width))
        return self.builder.fadd(total, self.builder.fmul(factor, lanes, LOOSELY), LOOSELY)

    def sums(self, scalar, width):
        """A place for sums, which LLVM keeps in a register."""
        kind = self.context.get_value_type(Lanes(scalar, width))
        return cgutils.alloca_once(self.builder, kind), ir.Constant(kind, [0.0] * width)


@intrinsic
def gather(typingctx, data, indices, low, high, V, T, i):
    """Row i of T is the row of X between low and high, times V, whose columns come by fours."""

    def generate(context, builder, signature, args):
        loops, scalar = _Loops(context, builder), V.dtype
        numbers, positions, first, last, block, out, row = args
        for group, width, start, stop in loops.groups(loops.columns(V, block), BY_FOURS):
            sums = [(*loops.sums(scalar, wide), at, wide) for at, wide in group]
            with loops.over(start, stop, width) as (q, _):
                for total, zeros, _, _ in sums:
                    builder.store(zeros, total)
                with loops.over(first, last) as (e, _):
                    j, number = loops.index(indices, positions, e), loops.entry(data, numbers, e)
                    for total, _, at, wide in sums:
                        lanes = loops.load(V, block, j, builder.add(q, INT64(at)), wide)
                        added = (builder.load(total), number, data.dtype, lanes, scalar, wide)
                        builder.store(loops.add_product(*added), total)
                for total, _, at, wide in sums:
                    place = builder.add(q, INT64(at))
                    loops.store(T, out, row, place, wide, builder.load(total))
        return context.get_dummy_value()

    return types.void(data, indices, types.intp, types.intp, V, T, types.intp), generate


@intrinsic
def spread(typingctx, data, indices, low, high, T, i, out):
    """Add the row of X between low and high, transposed, times row i of T, to `out`."""

    def generate(context, builder, signature, args):
        loops, scalar = _Loops(context, builder), T.dtype
        numbers, positions, first, last, block, row, total = args
        for group, width, start, stop in loops.groups(loops.columns(T, block), BY_FOURS):
            with loops.over(start, stop, width) as (q, _):
                places = [(builder.add(q, INT64(at)), wide) for at, wide in group]
                lanes = [loops.load(T, block, row, place, wide) for place, wide in places]
                with loops.over(first, last) as (e, _):
                    j, number = loops.index(indices, positions, e), loops.entry(data, numbers, e)
                    for (place, wide), lane in zip(places, lanes, strict=True):
                        sums = loops.load(out, total, j, place, wide)
                        added = loops.add_product(sums, number, data.dtype, lane, scalar, wide)
                        loops.store(out, total, j, place, wide, added)
        return context.get_dummy_value()

    return types.void(data, indices, types.intp, types.intp, T, types.intp, out), generate


@intrinsic
def ask(typingctx, indices, low, high, last, V):
    """Ask the memory for the rows of V that are needed a few entries after low … high − 1."""

    def generate(context, builder, signature, args):
        loops, byte = _Loops(context, builder), ir.IntType(8)
        positions, first, stop, most, block = args
        with loops.over(first, stop) as (e, _):
            later = builder.add(e, INT64(AHEAD))
            near = builder.icmp_signed("<", later, most)
            row = loops.index(indices, positions, builder.select(near, later, most))
            step = LINE // (V.dtype.bitwidth // 8)
            with loops.over(INT64(0), loops.columns(V, block), step) as (q, _):
                prefetch(builder, pointer_to(context, builder, V, block, row, q, byte))
        return context.get_dummy_value()

    return types.void(indices, types.intp, types.intp, types.intp, V), generate


@intrinsic
def add_dots(typingctx, Y, R, i, S):
    """S += YᵀR of four rows from i on."""

    def generate(context, builder, signature, args):
        loops, scalar = _Loops(context, builder), R.dtype
        left, right, row, sums = args
        rows = [builder.add(row, INT64(t)) for t in range(ROWS)]
        for _, width, start, stop in loops.groups(loops.columns(R, right), ANY):
            with loops.over(start, stop, width) as (q, _):
                lanes = [loops.load(R, right, r, q, width) for r in rows]
                with loops.over(INT64(0), loops.columns(Y, left)) as (j, _):
                    total = loops.load(S, sums, j, q, width)
                    for r, lane in zip(rows, lanes, strict=True):
                        number = loops.number(Y, left, r, j)
                        total = loops.add_product(total, number, Y.dtype, lane, scalar, width)
                    loops.store(S, sums, j, q, width, total)
        return context.get_dummy_value()

    return types.void(Y, R, types.intp, S), generate


@intrinsic
def add_times(typingctx, Y, S, i, P):
    """P += YS in four rows from i on."""

    def generate(context, builder, signature, args):
        loops, scalar = _Loops(context, builder), P.dtype
        left, small, row, out = args
        rows = [builder.add(row, INT64(t)) for t in range(ROWS)]
        for _, width, start, stop in loops.groups(loops.columns(P, out), ANY):
            totals = [loops.sums(scalar, width)[0] for _ in rows]
            with loops.over(start, stop, width) as (q, _):
                for r, total in zip(rows, totals, strict=True):
                    builder.store(loops.load(P, out, r, q, width), total)
                with loops.over(INT64(0), loops.columns(Y, left)) as (j, _):
                    lanes = loops.load(S, small, j, q, width)
                    for r, total in zip(rows, totals, strict=True):
                        number = loops.number(Y, left, r, j)
                        added = (builder.load(total), number, Y.dtype, lanes, scalar, width)
                        builder.store(loops.add_product(*added), total)
                for r, total in zip(rows, totals, strict=True):
                    loops.store(P, out, r, q, width, builder.load(total))
        return context.get_dummy_value()

    return types.void(Y, S, types.intp, P), generate
