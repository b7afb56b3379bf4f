"""What kernels do with whole rows of blocks: a few columns at a time, sums in registers.

Every function is a piece of a kernel, built from loops of LLVM for every width of a register. Loops
that LLVM itself puts into registers take twice as long to compile.
"""

from __future__ import annotations

from functools import wraps

from numba import types
from numba.extending import intrinsic

from genelin.kernels.loops import ALONE, ANY, BY_FOURS, Code

__all__ = [
    "ROWS",
    "advance_rows",
    "finish_row",
    "fold",
    "gather",
    "mix",
    "shift_row",
    "spread",
    "turn_rows",
]

ROWS = 4  # rows of tall blocks that are worked on together


def _built(build):
    """An intrinsic of arrays, numbers and positions, which returns nothing."""

    @wraps(build)
    def typed(typingctx, *kinds):
        def generate(context, builder, signature, args):
            code = Code(context, builder)
            build(code, *code.seen(signature, args))
            return context.get_dummy_value()

        kept = (types.Array, types.Float)
        places = [kind if isinstance(kind, kept) else types.intp for kind in kinds]
        return types.void(*places), generate

    return intrinsic(typed)


@_built
def gather(code, data, indices, low, high, most, V, start, s, T, i):
    """T[i] = start[s] + the row of X between low and high, times V, whose columns come by fours.

    Rows of V for entries that follow, up to `most`, are asked for on the way.
    """
    for group in code.by_columns(V, BY_FOURS):
        sums = [code.sum(start.lanes(s, *columns)) for columns in group]
        for e in code.over(low, high):
            V.ask(indices.position(code.ahead(e, most)), group)
            j, x = indices.position(e), data.number(e)
            for total, columns in zip(sums, group, strict=True):
                total.add(x * V.lanes(j, *columns))
        for total, (q, _) in zip(sums, group, strict=True):
            T.put(i, q, total.lanes)


@_built
def spread(code, data, indices, low, high, most, T, i, weight, out, total):
    """Add t = weight·T[i] to total[i], and xᵀt to `out`, for the row x of X between low and high.

    Rows of `out` for entries that follow, up to `most`, are asked for on the way.
    """
    for group in code.by_columns(T, BY_FOURS):
        row = [weight * T.lanes(i, *columns) for columns in group]
        for t, (q, width) in zip(row, group, strict=True):
            total.put(i, q, total.lanes(i, q, width) + t)
        for e in code.over(low, high):
            out.ask(indices.position(code.ahead(e, most)), group)
            j, x = indices.position(e), data.number(e)
            for t, (q, width) in zip(row, group, strict=True):
                out.put(j, q, out.lanes(j, q, width) + x * t)


@_built
def mix(code, own, other, T):
    """Rows u and v of T become a·u + c·v and b·v + c·u; `own` has rows a and b, `other` has c."""
    for ((q, width),) in code.by_columns(T, ALONE):
        (a, b), c = (own.lanes(row, q, width) for row in (0, 1)), other.lanes(0, q, width)
        u, v = (T.lanes(row, q, width) for row in (0, 1))
        T.put(0, q, a * u + c * v)
        T.put(1, q, b * v + c * u)


@_built
def shift_row(code, T, theta, sign, P, KP, sums, i):
    """KP[i] = sign·(theta·T[1] − T[0]), and sums += P[i]·KP[i]; all but P and KP are rows."""
    for ((q, width),) in code.by_columns(P, ALONE):
        a, b, p = T.lanes(0, q, width), T.lanes(1, q, width), P.lanes(i, q, width)
        kp = sign.lanes(0, q, width) * (theta.lanes(0, q, width) * b - a)
        KP.put(i, q, kp)
        sums.put(0, q, sums.lanes(0, q, width) + p * kp)


@_built
def finish_row(code, outs, i, apart, stop, P, mean, factor, total, ridge, sums):
    """outs[i] = factor·(o − mean·total) + ridge·P[i] = kp, and sums += P[i]·kp.

    o is the sum of the rows of `outs` from i on that lie `apart`, before `stop`.
    """
    for ((q, width),) in code.by_columns(P, ALONE):
        p, t = P.lanes(i, q, width), total.lanes(0, q, width)
        o = code.sum(p.zeros())
        for row in code.over(i, stop, apart):
            o.add(outs.lanes(row, q, width))
        kp = factor * (o.lanes - mean * t) + ridge.lanes(0, q, width) * p
        outs.put(i, q, kp)
        sums.put(0, q, sums.lanes(0, q, width) + p * kp)


@_built
def fold(code, sums, total):
    """Total += sums, in double precision, and sums = 0."""
    for ((q, width),) in code.by_columns(sums, ANY):
        for row in code.over(0, sums.rows):
            part = sums.lanes(row, q, width)
            total.put(row, q, total.lanes(row, q, width) + part.as_double())
            sums.put(row, q, part.zeros())


@_built
def advance_rows(code, C, R, P, KP, step, Y, weights, S, i):
    """C += step·P and R −= step·KP in four rows from i on; S += Yᵀr, its last row Σ weights·r²."""
    rows, m = [code.plus(i, t) for t in range(ROWS)], Y.columns
    for ((q, width),) in code.by_columns(R, ANY):
        length, squares, new = step.lanes(0, q, width), S.lanes(m, q, width), []
        for row in rows:
            C.put(row, q, C.lanes(row, q, width) + length * P.lanes(row, q, width))
            r = R.lanes(row, q, width) - length * KP.lanes(row, q, width)
            R.put(row, q, r)
            squares += weights.number(row) * (r * r)
            new.append(r)
        S.put(m, q, squares)
        for j in code.over(0, m):
            total = S.lanes(j, q, width)
            for row, r in zip(rows, new, strict=True):
                total += Y.number(row, j) * r
            S.put(j, q, total)


@_built
def turn_rows(code, P, Z, conjugation, weights, Y, S, i):
    """P = weights·Z + conjugation·P + YS in four rows from i on."""
    rows = [code.plus(i, t) for t in range(ROWS)]
    for ((q, width),) in code.by_columns(P, ANY):
        factor, sums = conjugation.lanes(0, q, width), []
        for row in rows:
            p, z = P.lanes(row, q, width), Z.lanes(row, q, width)
            sums.append(code.sum(factor * p + weights.number(row) * z))
        for j in code.over(0, Y.columns):
            lanes = S.lanes(j, q, width)
            for row, total in zip(rows, sums, strict=True):
                total.add(Y.number(row, j) * lanes)
        for row, total in zip(rows, sums, strict=True):
            P.put(row, q, total.lanes)
