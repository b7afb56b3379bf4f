"""Short vectors for compiled loops: a few neighbouring columns of a block in one register.

Numba leaves the columns of a block to LLVM's loop vectoriser, which keeps partial sums in memory.
A value of type `SimdVector` is a vector of LLVM, so that sums stay in registers; rows of a
block that will be needed soon can be fetched ahead.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

__all__ = [
    "INT64",
    "LOOSELY",
    "SimdVector",
    "add_product",
    "at",
    "everywhere",
    "fetch_entry",
    "folded",
    "load",
    "prefetch",
    "scaled",
    "store",
    "zeros",
]

INT32, INT64 = ir.IntType(32), ir.IntType(64)
LOOSELY = ("contract", "reassoc", "nsz")


class SimdVector(types.Type):
    """`width` numbers of type `scalar`, side by side."""

    def __init__(self, scalar, width):
        self.scalar, self.width = scalar, width
        super().__init__(name=f"SimdVector({scalar}, {width})")


@register_model(SimdVector)
class _SimdVectorModel(models.PrimitiveModel):
    def __init__(self, manager, lanes):
        number = manager.lookup(lanes.scalar).get_value_type()
        super().__init__(manager, lanes, ir.VectorType(number, lanes.width))


def _width(width):
    """A literal number, or the length of a tuple: that is part of its type, also in an argument."""
    return width.count if isinstance(width, types.UniTuple) else width.literal_value


def pointer_to(context, builder, array_type, array, row, column, target):
    """Address of array[row, column], as a pointer to `target`; rows are contiguous."""
    parts = context.make_array(array_type)(context, builder, array)
    stride = cgutils.unpack_tuple(builder, parts.strides, 2)[0]
    size = context.get_constant(types.intp, array_type.dtype.bitwidth // 8)
    offset = builder.add(builder.mul(row, stride), builder.mul(column, size))
    address = builder.add(builder.ptrtoint(parts.data, INT64), offset)
    return builder.inttoptr(address, target.as_pointer())


@intrinsic(prefer_literal=True)
def zeros(typingctx, block, width):
    """Zeros of the kind of `block`."""
    lanes = SimdVector(block.dtype, _width(width))

    def generate(context, builder, signature, args):
        return ir.Constant(context.get_value_type(lanes), [0.0] * lanes.width)

    return lanes(block, width), generate


@intrinsic(prefer_literal=True)
def load(typingctx, block, row, column, width):
    """block[row, column : column + width]."""
    lanes = SimdVector(block.dtype, _width(width))

    def generate(context, builder, signature, args):
        target = context.get_value_type(lanes)
        pointer = pointer_to(context, builder, signature.args[0], *args[:3], target)
        value = builder.load(pointer)
        value.align = block.dtype.bitwidth // 8
        return value

    return lanes(block, types.intp, types.intp, width), generate


@intrinsic
def store(typingctx, block, row, column, lanes):
    """block[row, column : column + width] = lanes."""

    def generate(context, builder, signature, args):
        target = context.get_value_type(lanes)
        pointer = pointer_to(context, builder, signature.args[0], *args[:3], target)
        builder.store(args[3], pointer).align = block.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(block, types.intp, types.intp, lanes), generate


def everywhere(context, builder, number, kind, lanes):
    """A number of type `kind`, as often as there are lanes."""
    number = context.cast(builder, number, kind, lanes.scalar)
    nothing = ir.Constant(context.get_value_type(lanes), ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(INT32, 0))
    first = ir.Constant(ir.VectorType(INT32, lanes.width), [0] * lanes.width)
    return builder.shuffle_vector(one, nothing, first)


@intrinsic
def scaled(typingctx, number, lanes):
    """number·lanes: this product, once, not another one that may come out the same."""

    def generate(context, builder, signature, args):
        number = everywhere(context, builder, args[0], signature.args[0], lanes)
        return builder.fmul(number, args[1])

    return lanes(number, lanes), generate


@intrinsic
def add_product(typingctx, total, number, lanes):
    """Total + number·lanes."""

    def generate(context, builder, signature, args):
        number = everywhere(context, builder, args[1], signature.args[1], lanes)
        return builder.fadd(args[0], builder.fmul(number, args[2], LOOSELY), LOOSELY)

    return lanes(total, number, lanes), generate


@intrinsic
def folded(typingctx, number, lanes, width):
    """The first half of `lanes` + number·(the second half), and zeros if `width` is more."""
    half, result = (
        SimdVector(lanes.scalar, lanes.width // 2),
        SimdVector(lanes.scalar, _width(width)),
    )

    def pick(builder, first, second, places):
        mask = ir.Constant(ir.VectorType(INT32, len(places)), list(places))
        return builder.shuffle_vector(first, second, mask)

    def generate(context, builder, signature, args):
        number = everywhere(context, builder, args[0], signature.args[0], half)
        nothing = ir.Constant(args[1].type, ir.Undefined)
        low = pick(builder, args[1], nothing, range(half.width))
        high = pick(builder, args[1], nothing, range(half.width, lanes.width))
        total = builder.fadd(low, builder.fmul(number, high, LOOSELY), LOOSELY)
        none = ir.Constant(total.type, [0.0] * half.width)
        return pick(builder, total, none, range(result.width))

    return result(number, lanes, width), generate


def prefetch(builder, pointer):
    """Ask the memory for what will be read soon."""
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, INT32, INT32, INT32])
    function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
    for_reading, keep, as_data = (ir.Constant(INT32, flag) for flag in (0, 3, 1))
    builder.call(function, [pointer, for_reading, keep, as_data])


@intrinsic
def at(typingctx, array, entry):
    """array[entry], of a contiguous array; `entry` does not count from the end."""

    def generate(context, builder, signature, args):
        parts = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.load(builder.gep(parts.data, [args[1]]))

    return array.dtype(array, types.intp), generate


@intrinsic
def fetch_entry(typingctx, array, entry):
    """Ask the memory for array[entry], of a contiguous array that will be read soon."""

    def generate(context, builder, signature, args):
        parts = context.make_array(signature.args[0])(context, builder, args[0])
        pointer = builder.gep(parts.data, [args[1]])
        prefetch(builder, builder.bitcast(pointer, ir.IntType(8).as_pointer()))
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
