"""Loops, blocks and registers of LLVM, to write intrinsics that read like the loops they become.

A loop of Python over `LoopBuilder.over` runs once, and what it does is built into a loop of the
kernel:

    for i in code.over(first, last):
        out.put(i, group, weights.number(i) * V.at(i, group))

A group of columns is as many as are worked on together, in one register or in several.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from llvmlite import ir
from numba import types
from numba.core import cgutils

from genelin.kernels.codegen.simd import INT64, LOOSELY, SimdVector, everywhere, prefetch
from genelin.system.buffer_pool import LINE

__all__ = ["ANY", "BY_FOURS", "HALF", "LoopBuilder"]

# Columns that are worked on together, by registers.
BY_FOURS = ((16, 8), (16, 4), (16,), (8, 4), (8,), (4,))
ANY = ((16,), (8,), (4,), (1,))
HALF = 4  # the columns of a group by fours that are not a multiple of eight
BYTE = ir.IntType(8)


class LoopBuilder:
    """The code of a kernel where an intrinsic stands.

    The kernel is marked for small code: columns are in registers already, so that copies of loops
    would only take long to compile.
    """

    def __init__(self, context, builder):
        self.context, self.builder = context, builder
        builder.function.attributes.add("optsize")

    def seen(self, signature, args):
        """Arguments as blocks, vectors, sparse rows, numbers, None, and positions (as they are).

        Tuples of blocks are blocks in two parts, and tuples of vectors are sparse rows.
        """
        return [self._seen(kind, value) for kind, value in zip(signature.args, args, strict=True)]

    def _seen(self, kind, value):
        if isinstance(kind, types.Tuple | types.UniTuple):
            parts = map(self._seen, kind.types, cgutils.unpack_tuple(self.builder, value))
            return (_Parted if kind.types[0].ndim == 2 else _Rows)(self, *parts)
        if isinstance(kind, types.Array):
            return (_Vector if kind.ndim == 1 else _Block)(self, kind, value)
        if isinstance(kind, types.Float):
            return _Number(self, kind, value)
        return None if isinstance(kind, types.NoneType) else value

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
        return self.builder.add(place, INT64(more) if isinstance(more, int) else more)

    def minus(self, place, other):
        """How far a position is behind another."""
        return self.builder.sub(place, other)

    def least(self, place, other):
        """The smaller of two positions."""
        return self.builder.select(self.builder.icmp_signed("<", place, other), place, other)

    def sum(self, columns):
        """A sum that begins with these columns; LLVM keeps it in registers."""
        return _Sum(self, columns)


class _Number:
    """A number of a kernel; times columns it is rounded to their precision."""

    def __init__(self, code, kind, value):
        self._code, self._kind, self._value = code, kind, value

    def __mul__(self, columns):
        return self.as_wide_as(columns) * columns

    def as_wide_as(self, columns):
        """The same number for every column."""
        code, number = self._code, (self._value, self._kind)
        kinds = [SimdVector(columns.scalar, width) for width in columns.widths]
        same = [everywhere(code.context, code.builder, *number, kind) for kind in kinds]
        return _Columns(code, columns.scalar, same)


class _Columns:
    """A group of columns of a row, in registers; sums of products may be rounded once."""

    def __init__(self, code, scalar, values):
        self._code, self.scalar, self.values = code, scalar, values
        self.widths = [value.type.count for value in values]

    def __add__(self, other):
        return self._of("fadd", other)

    def __sub__(self, other):
        return self._of("fsub", other)

    def __mul__(self, other):
        return self._of("fmul", other)

    def __truediv__(self, number):
        return self._of("fdiv", number.as_wide_as(self))

    def _of(self, operation, other):
        build = getattr(self._code.builder, operation)
        pairs = zip(self.values, other.values, strict=True)
        return _Columns(self._code, self.scalar, [build(*pair, LOOSELY) for pair in pairs])

    def zeros(self):
        """As many zeros."""
        none = [ir.Constant(value.type, [0.0] * value.type.count) for value in self.values]
        return _Columns(self._code, self.scalar, none)

    def as_double(self):
        """The same numbers in double precision."""
        code, double = self._code, types.float64
        if self.scalar == double:
            return self
        kinds = [code.context.get_value_type(SimdVector(double, width)) for width in self.widths]
        longer = map(code.builder.fpext, self.values, kinds)
        return _Columns(code, double, list(longer))


class _Sum:
    """Columns that are added up in a loop."""

    def __init__(self, code, columns):
        self._code, self._scalar = code, columns.scalar
        self._places = [cgutils.alloca_once(code.builder, v.type) for v in columns.values]
        self._put(columns)

    @property
    def value(self):
        """What it has come to."""
        return _Columns(self._code, self._scalar, list(map(self._code.builder.load, self._places)))

    def add(self, columns):
        """Add columns."""
        self._put(self.value + columns)

    def _put(self, columns):
        for value, place in zip(columns.values, self._places, strict=True):
            self._code.builder.store(value, place)


class _Vector:
    """A contiguous vector; its places do not count from the end.

    Attributes
    ----------
    size : how many numbers.
    """

    def __init__(self, code, kind, value):
        self._code, self._kind = code, kind.dtype
        parts = code.context.make_array(kind)(code.context, code.builder, value)
        self._data, (self.size,) = parts.data, cgutils.unpack_tuple(code.builder, parts.shape, 1)

    def number(self, place):
        """One number."""
        return _Number(self._code, self._kind, self._load(place))

    def position(self, place):
        """One number, as a place in another array."""
        code = self._code
        return code.context.cast(code.builder, self._load(place), self._kind, types.intp)

    def _load(self, place):
        return self._code.builder.load(self._code.builder.gep(self._data, [place]))


class _Grid(ABC):
    """What is common to blocks, wherever the columns of a row lie.

    Attributes
    ----------
    rows, columns : how many.
    """

    def __init__(self, code, kind):
        self._code, self._kind, self._size = code, kind, kind.bitwidth // 8

    @abstractmethod
    def _places(self, row, group):
        """Pointers to a group of columns of a row, one for every register."""

    def at(self, row, group):
        """A group of columns of a row."""
        values = [self._code.builder.load(place) for place in self._places(row, group)]
        for value in values:
            value.align = self._size
        return _Columns(self._code, self._kind, values)

    def put(self, row, group, columns):
        """Write a group of columns of a row."""
        for value, place in zip(columns.values, self._places(row, group), strict=True):
            self._code.builder.store(value, place).align = self._size


class _Block(_Grid):
    """A block with contiguous rows."""

    def __init__(self, code, kind, value):
        super().__init__(code, kind.dtype)
        parts = code.context.make_array(kind)(code.context, code.builder, value)
        self.rows, self.columns = cgutils.unpack_tuple(code.builder, parts.shape, 2)
        self._stride = cgutils.unpack_tuple(code.builder, parts.strides, 2)[0]
        self._data = code.builder.bitcast(parts.data, BYTE.as_pointer())

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

    def _places(self, row, group):
        for column, width in group:
            kind = self._code.context.get_value_type(SimdVector(self._kind, width))
            yield self._code.builder.bitcast(self._address(row, column), kind.as_pointer())

    def _address(self, row, column):
        builder = self._code.builder
        row, column = (INT64(n) if isinstance(n, int) else n for n in (row, column))
        before = builder.mul(row, self._stride), builder.mul(column, INT64(self._size))
        return builder.gep(self._data, [builder.add(*before)])


class _Parted(_Grid):
    """A block whose last four columns may lie elsewhere, unless there is a multiple of eight.

    Groups by fours have a register of four for the last columns and nowhere else; those of a
    multiple of eight have none, and find the last columns behind the others.
    """

    def __init__(self, code, whole, rest):
        super().__init__(code, whole._kind)
        self._whole, self._rest = whole, rest
        self.rows, self.columns = whole.rows, code.plus(whole.columns, rest.columns)

    def ask(self, row, group):
        """Ask the memory for a group of columns of a row that will be needed soon."""
        for part, columns in self._split(group):
            part.ask(row, columns)

    def _places(self, row, group):
        for part, columns in self._split(group):
            yield from part._places(row, columns)

    def _split(self, group):
        """Both parts, with the columns of the group that are theirs."""
        whole = [columns for columns in group if columns[1] != HALF]
        rest = [(INT64(0), HALF)] if len(whole) < len(group) else []
        return [pair for pair in ((self._whole, whole), (self._rest, rest)) if pair[1]]


class _Rows:
    """Rows of a sparse matrix: values, columns, and where rows begin.

    Rows of blocks for entries that follow are asked for on the way, so many entries ahead, where
    that is given.
    """

    def __init__(self, code, data, indices, indptr, ahead=None):
        self._code, self._data, self._indices, self._indptr = code, data, indices, indptr
        self._ahead, self._most = ahead, code.plus(indptr.position(code.plus(indptr.size, -1)), -1)

    def row(self, i):
        """Where the entries of a row begin and end."""
        return self._indptr.position(i), self._indptr.position(self._code.plus(i, 1))

    def number(self, entry):
        """One of the values."""
        return self._data.number(entry)

    def times(self, entries, block, group, start, last_first=False):
        """Start + the sum of entries times their rows of a block."""
        total = self._code.sum(start)
        for j, x in self._each(entries, block, group, last_first):
            total.add(x * block.at(j, group))
        return total.value

    def spread(self, entries, columns, block, group):
        """Add columns times entries to their rows of a block."""
        for j, x in self._each(entries, block, group):
            block.put(j, group, block.at(j, group) + x * columns)

    def _each(self, entries, block, group, last_first=False):
        code, (low, high) = self._code, entries
        for e in code.over(low, high):
            e = code.minus(code.plus(low, code.plus(high, -1)), e) if last_first else e
            if self._ahead is not None:
                later = code.least(code.plus(e, self._ahead), self._most)
                block.ask(self._indices.position(later), group)
            yield self._indices.position(e), self._data.number(e)
