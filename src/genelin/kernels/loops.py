"""Loops, blocks and registers of LLVM, to write intrinsics that read like the loops they become.

A loop of Python over `Code.over` runs once, and what it does is built into a loop of the kernel:

    for e in code.over(low, high):
        total.add(data.number(e) * V.lanes(indices.position(e), q, 8))
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils

from genelin.kernels.lanes import INT64, LOOSELY, Lanes, everywhere, prefetch
from genelin.room import LINE

__all__ = ["ALONE", "ANY", "BY_FOURS", "Code"]

# Columns that are worked on together, by registers.
BY_FOURS = ((16, 8), (16, 4), (16,), (8,), (4,))
ALONE = ((16,), (8,), (4,))
ANY = (*ALONE, (1,))
AHEAD = 16  # entries between asking for a row of a block and using it
BYTE = ir.IntType(8)


class Code:
    """The code of a kernel where an intrinsic stands.

    The kernel is marked for small code: columns are in registers already, so that copies of loops
    would only take long to compile.
    """

    def __init__(self, context, builder):
        self.context, self.builder = context, builder
        builder.function.attributes.add("optsize")

    def seen(self, signature, args):
        """Arguments as blocks, vectors, numbers, and positions (as they are)."""
        return [self._seen(kind, value) for kind, value in zip(signature.args, args, strict=True)]

    def _seen(self, kind, value):
        if isinstance(kind, types.Array):
            return (_Vector if kind.ndim == 1 else _Block)(self, kind, value)
        return _Number(self, kind, value) if isinstance(kind, types.Float) else value

    def over(self, start, stop, step=1):
        """Build `for i in range(start, stop, step)`."""
        bounds = (INT64(n) if isinstance(n, int) else n for n in (start, stop, step))
        with cgutils.for_range_slice(self.builder, *bounds, INT64) as (i, _):
            yield i

    def by_columns(self, block, kinds):
        """Build loops over groups of columns, widest first: [(first column, width), …] of a group.

        A group is as many registers as its kind has widths.
        """
        start = INT64(0)
        for widths in kinds:
            left = self.builder.srem(self.builder.sub(block.columns, start), INT64(sum(widths)))
            stop = self.builder.sub(block.columns, left)
            for q in self.over(start, stop, sum(widths)):
                yield [(self.plus(q, sum(widths[:t])), width) for t, width in enumerate(widths)]
            start = stop

    def plus(self, place, more):
        """A position so many behind another."""
        return self.builder.add(place, INT64(more))

    def ahead(self, entry, most):
        """The entry that is needed a little later, of those up to `most`."""
        later = self.plus(entry, AHEAD)
        return self.builder.select(self.builder.icmp_signed("<", later, most), later, most)

    def sum(self, lanes):
        """A sum that begins with these lanes; LLVM keeps it in a register."""
        return _Sum(self, lanes)


class _Number:
    """A number of a kernel; times lanes it is rounded to their precision."""

    def __init__(self, code, kind, value):
        self._code, self._kind, self._value = code, kind, value

    def __mul__(self, lanes):
        code, kind = self._code, Lanes(lanes.scalar, lanes.width)
        factor = everywhere(code.context, code.builder, self._value, self._kind, kind)
        return _Register(code, lanes.scalar, factor) * lanes


class _Register:
    """A few columns of a row; sums of products may be rounded once."""

    def __init__(self, code, scalar, value):
        self._code, self.scalar, self.value, self.width = code, scalar, value, value.type.count

    def __add__(self, other):
        return self._of("fadd", other)

    def __sub__(self, other):
        return self._of("fsub", other)

    def __mul__(self, other):
        return self._of("fmul", other)

    def _of(self, operation, other):
        value = getattr(self._code.builder, operation)(self.value, other.value, LOOSELY)
        return _Register(self._code, self.scalar, value)

    def zeros(self):
        """As many zeros."""
        return _Register(self._code, self.scalar, ir.Constant(self.value.type, [0.0] * self.width))

    def as_double(self):
        """The same numbers in double precision."""
        code, double = self._code, types.float64
        if self.scalar == double:
            return self
        target = code.context.get_value_type(Lanes(double, self.width))
        return _Register(code, double, code.builder.fpext(self.value, target))


class _Sum:
    """Lanes that are added up in a loop."""

    def __init__(self, code, lanes):
        self._code, self._scalar = code, lanes.scalar
        self._place = cgutils.alloca_once(code.builder, lanes.value.type)
        code.builder.store(lanes.value, self._place)

    @property
    def lanes(self):
        """What it has come to."""
        return _Register(self._code, self._scalar, self._code.builder.load(self._place))

    def add(self, lanes):
        """Add lanes."""
        self._code.builder.store((self.lanes + lanes).value, self._place)


class _Vector:
    """A contiguous vector; its places do not count from the end."""

    def __init__(self, code, kind, value):
        self._code, self._kind = code, kind.dtype
        self._data = code.context.make_array(kind)(code.context, code.builder, value).data

    def number(self, place):
        """One number."""
        return _Number(self._code, self._kind, self._load(place))

    def position(self, place):
        """One number, as a place in another array."""
        code = self._code
        return code.context.cast(code.builder, self._load(place), self._kind, types.intp)

    def _load(self, place):
        return self._code.builder.load(self._code.builder.gep(self._data, [place]))


class _Block:
    """A block with contiguous rows.

    Attributes
    ----------
    rows, columns : how many.
    """

    def __init__(self, code, kind, value):
        self._code, self._kind, self._size = code, kind.dtype, kind.dtype.bitwidth // 8
        parts = code.context.make_array(kind)(code.context, code.builder, value)
        self.rows, self.columns = cgutils.unpack_tuple(code.builder, parts.shape, 2)
        self._stride = cgutils.unpack_tuple(code.builder, parts.strides, 2)[0]
        self._data = code.builder.bitcast(parts.data, BYTE.as_pointer())

    def lanes(self, row, column, width):
        """A few columns of a row."""
        value = self._code.builder.load(self._place(row, column, width))
        value.align = self._size
        return _Register(self._code, self._kind, value)

    def put(self, row, column, lanes):
        """Write a few columns of a row."""
        place = self._place(row, column, lanes.width)
        self._code.builder.store(lanes.value, place).align = self._size

    def number(self, row, column):
        """One number."""
        code, kind = self._code, self._code.context.get_value_type(self._kind)
        place = code.builder.bitcast(self._address(row, column), kind.as_pointer())
        return _Number(code, self._kind, code.builder.load(place))

    def ask(self, row, group):
        """Ask the memory for a group of columns of a row that will be needed soon."""
        (first, _), *_ = group
        begin, size = self._address(row, first), self._size * sum(width for _, width in group)
        for more in range(0, size, LINE):
            prefetch(self._code.builder, self._code.builder.gep(begin, [INT64(more)]))

    def _place(self, row, column, width):
        kind = self._code.context.get_value_type(Lanes(self._kind, width))
        return self._code.builder.bitcast(self._address(row, column), kind.as_pointer())

    def _address(self, row, column):
        builder = self._code.builder
        row = INT64(row) if isinstance(row, int) else row
        before = builder.mul(row, self._stride), builder.mul(column, INT64(self._size))
        return builder.gep(self._data, [builder.add(*before)])
