"""Short vectors for compiled loops: a few neighbouring columns of a block in one register.

Numba leaves the columns of a block to LLVM's loop vectoriser, which keeps partial sums in memory.
A value of type `Lanes` is a vector of LLVM, so that sums stay in registers; rows of a block that
will be needed soon can be fetched ahead.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

__all__ = ["add_product", "fetch", "load", "store", "zeros"]

INT32, INT64 = ir.IntType(32), ir.IntType(64)
LOOSELY = ("contract", "reassoc", "nsz")


class Lanes(types.Type):
    """`width` numbers of type `scalar`, side by side."""

    def __init__(self, scalar, width):
        self.scalar, self.width = scalar, width
        super().__init__(name=f"Lanes({scalar}, {width})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, lanes):
        number = manager.lookup(lanes.scalar).get_value_type()
        super().__init__(manager, lanes, ir.VectorType(number, lanes.width))


def _pointer(context, builder, array_type, array, row, column, target):
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
    lanes = Lanes(block.dtype, width.literal_value)

    def generate(context, builder, signature, args):
        return ir.Constant(context.get_value_type(lanes), [0.0] * lanes.width)

    return lanes(block, width), generate


@intrinsic(prefer_literal=True)
def load(typingctx, block, row, column, width):
    """block[row, column : column + width]."""
    lanes = Lanes(block.dtype, width.literal_value)

    def generate(context, builder, signature, args):
        target = context.get_value_type(lanes)
        pointer = _pointer(context, builder, signature.args[0], *args[:3], target)
        value = builder.load(pointer)
        value.align = block.dtype.bitwidth // 8
        return value

    return lanes(block, types.intp, types.intp, width), generate


@intrinsic
def store(typingctx, block, row, column, lanes):
    """block[row, column : column + width] = lanes."""

    def generate(context, builder, signature, args):
        target = context.get_value_type(lanes)
        pointer = _pointer(context, builder, signature.args[0], *args[:3], target)
        builder.store(args[3], pointer).align = block.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(block, types.intp, types.intp, lanes), generate


@intrinsic
def add_product(typingctx, total, number, lanes):
    """Total + number·lanes."""

    def generate(context, builder, signature, args):
        vector = context.get_value_type(lanes)
        number = context.cast(builder, args[1], signature.args[1], lanes.scalar)
        nothing = ir.Constant(vector, ir.Undefined)
        one = builder.insert_element(nothing, number, ir.Constant(INT32, 0))
        everywhere = ir.Constant(ir.VectorType(INT32, lanes.width), [0] * lanes.width)
        spread = builder.shuffle_vector(one, nothing, everywhere)
        return builder.fadd(args[0], builder.fmul(spread, args[2], LOOSELY), LOOSELY)

    return lanes(total, number, lanes), generate


@intrinsic
def fetch(typingctx, block, row, column):
    """Ask the memory for block[row, column], which will be read soon."""

    def generate(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], *args, ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, INT32, INT32, INT32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        for_reading, keep, as_data = (ir.Constant(INT32, flag) for flag in (0, 3, 1))
        builder.call(function, [pointer, for_reading, keep, as_data])
        return context.get_dummy_value()

    return types.void(block, types.intp, types.intp), generate
