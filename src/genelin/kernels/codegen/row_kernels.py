"""What kernels do with sparse rows and blocks: a few columns at a time, sums in registers.

Every function is built from loops of LLVM for every number of columns that is worked on together,
with those outside and rows inside. Loops that LLVM itself puts into registers take twice as long to
compile.
"""

from __future__ import annotations

from functools import wraps

from numba import types
from numba.extending import intrinsic

from genelin.kernels.codegen.loop_builder import ANY, BY_FOURS, LoopBuilder

__all__ = [
    "FOUR",
    "ROWS",
    "added",
    "advance_rows",
    "backward",
    "bracket",
    "cross",
    "dotted",
    "finished",
    "fold",
    "forward",
    "laid",
    "pair",
    "product",
    "shifted",
    "spread",
    "summed",
    "turn_rows",
    "upward",
]

SOON = 16  # rows ahead that are asked for where they lie anywhere
FOUR = 4  # columns of a panel
ROWS = 4  # rows of tall blocks that are worked on together


def _built(build):
    """An intrinsic of arrays, sparse rows, numbers and positions, which returns nothing."""

    @wraps(build)
    def typed(typingctx, *kinds):
        def generate(context, builder, signature, args):
            code = LoopBuilder(context, builder)
            build(code, *code.seen(signature, args))
            return context.get_dummy_value()

        kept = (types.Array, types.Float, types.Tuple, types.UniTuple, types.NoneType)
        places = [kind if isinstance(kind, kept) else types.intp for kind in kinds]
        return types.void(*places), generate

    return intrinsic(typed)


@_built
def product(code, X, V, out, first, last):
    """Rows first … last − 1 of out = X·V; columns come by fours."""
    for group in code.by_columns(V, BY_FOURS):
        none = V.at(0, group).zeros()
        for i in code.over(first, last):
            out.put(i, group, X.times(X.row(i), V, group, none))


@_built
def shifted(code, A, B, P, theta, sign, KP, curvature, first, last):
    """Rows first … last − 1 of KP = s(θB − A)P, and Σ p·kp of them, in double precision.

    B is None where KP is BP already. Columns come by fours.
    """
    for group in code.by_columns(P, BY_FOURS):
        t, s = theta.at(0, group), sign.at(0, group)
        none, sums = t.zeros(), code.sum(curvature.at(0, group))
        for i in code.over(first, last):
            a = A.times(A.row(i), P, group, none)
            b = KP.at(i, group) if B is None else B.times(B.row(i), P, group, none)
            kp = s * (t * b - a)
            KP.put(i, group, kp)
            sums.add((P.at(i, group) * kp).as_double())
        curvature.put(0, group, sums.value)


def _brackets(code, Y, V, start, weights, total, first, last):
    """Build t = ωᵢ(yᵢᵀV + start) for rows first … last − 1: (group, i, t); sums go to `total`."""
    for group in code.by_columns(V, BY_FOURS):
        begin, sums = start.at(0, group), code.sum(total.at(0, group))
        for i in code.over(first, last):
            t = Y.times(Y.row(i), V, group, begin)
            t = t if weights is None else weights.number(i) * t
            sums.add(t.as_double())
            yield group, i, t
        total.put(0, group, sums.value)


@_built
def cross(code, X, Y, V, start, weights, out, total, first, last):
    """Add Σ ωᵢxᵢ(yᵢᵀV + start) over rows first … last − 1 to `out`; brackets, weighed, to `total`.

    Weights are None where all are one. Columns come by fours.
    """
    for group, i, t in _brackets(code, Y, V, start, weights, total, first, last):
        X.spread(X.row(i), t, out, group)


@_built
def bracket(code, Y, V, start, weights, out, total, first, last):
    """Rows of `out`: ωᵢ(yᵢᵀV + start) from row first to last − 1; their sum is added to `total`.

    Weights are None where all are one. Columns come by fours.
    """
    for group, i, t in _brackets(code, Y, V, start, weights, total, first, last):
        out.put(code.minus(i, first), group, t)


@_built
def spread(code, X, begins, ends, U, out, first, last):
    """Add Σ xᵢuᵢ over rows first … last − 1 to `out`, with some entries of every row xᵢ.

    Those of row i are begins[i − first] … ends[i − first] − 1. Columns come by fours.
    """
    for group in code.by_columns(U, BY_FOURS):
        for i in code.over(first, last):
            row = code.minus(i, first)
            X.spread((begins.position(row), ends.position(row)), U.at(row, group), out, group)


@_built
def laid(code, V, into, out, first, last):
    """Rows first … last − 1: into = V and out = 0. Columns come by fours."""
    for group in code.by_columns(V, BY_FOURS):
        none = V.at(0, group).zeros()
        for i in code.over(first, last):
            into.put(i, group, V.at(i, group))
            out.put(i, group, none)


@_built
def summed(code, outs, apart, into, first, last):
    """Rows first … last − 1 of `into`: sums of rows of `outs` from there on that lie `apart`.

    Columns come by fours.
    """
    for group in code.by_columns(into, BY_FOURS):
        for i in code.over(first, last):
            total = code.sum(outs.at(i, group))
            for row in code.over(code.plus(i, apart), outs.rows, apart):
                total.add(outs.at(row, group))
            into.put(i, group, total.value)


@_built
def pair(code, X, Y, Px, Py, own, other, start, weights, out_x, out_y, total, first, last):
    """Add Σ ωᵢxᵢ(a·u + c·v) to `out_x` and Σ ωᵢyᵢ(b·v + c·u) to `out_y`; brackets to `total`.

    u = xᵢᵀPx and v = yᵢᵀPy, each with its row of `start`; (a, b) are the rows of `own`, c the row
    of `other`. Weights are None where all are one. Columns come by fours.
    """
    for group in code.by_columns(Px, BY_FOURS):
        (a, b), c = (own.at(row, group) for row in (0, 1)), other.at(0, group)
        begin = [start.at(row, group) for row in (0, 1)]
        sums = [code.sum(total.at(row, group)) for row in (0, 1)]
        for i in code.over(first, last):
            u, v = X.times(X.row(i), Px, group, begin[0]), Y.times(Y.row(i), Py, group, begin[1])
            mixed = [a * u + c * v, b * v + c * u]
            if weights is not None:
                mixed = [weights.number(i) * t for t in mixed]
            for Z, t, summed, out in zip((X, Y), mixed, sums, (out_x, out_y), strict=True):
                summed.add(t.as_double())
                Z.spread(Z.row(i), t, out, group)
        for row, summed in enumerate(sums):
            total.put(row, group, summed.value)


@_built
def finished(code, outs, apart, P, means, factors, total, ridge, curvature, first, last):
    """outs[i] = factor·(o − mean·total) + ridge·P[i] = kp from row first to last − 1, and Σ p·kp.

    o is the sum of the rows of `outs` from i on that lie `apart`. Columns come by fours.
    """
    for group in code.by_columns(P, BY_FOURS):
        t, shift, sums = total.at(0, group), ridge.at(0, group), code.sum(curvature.at(0, group))
        for i in code.over(first, last):
            p, o = P.at(i, group), code.sum(t.zeros())
            for row in code.over(i, outs.rows, apart):
                o.add(outs.at(row, group))
            kp = factors.number(i) * (o.value - means.number(i) * t) + shift * p
            outs.put(i, group, kp)
            sums.add((p * kp).as_double())
        curvature.put(0, group, sums.value)


@_built
def forward(code, L, order, scale, R, Z):
    """Z = L⁻¹PDR: rows of R by their order, each times its number of `scale` (None: one).

    Rows of L have their diagonals last. Columns come by fours.
    """
    for group in code.by_columns(Z, BY_FOURS):
        for i in code.over(0, Z.rows):
            R.ask(order.position(code.least(code.plus(i, SOON), code.plus(Z.rows, -1))), group)
            low, high = L.row(i)
            last, r = code.plus(high, -1), R.at(order.position(i), group)
            r = r if scale is None else scale.number(i) * r
            r -= L.times((low, last), Z, group, r.zeros())
            Z.put(i, group, r / L.number(last))


def _upwards(code, order, group, out):
    """Build a loop over rows from the last to the first; those of `out` are asked for ahead."""
    last = code.plus(out.rows, -1)
    for below in code.over(0, out.rows):
        soon = code.least(code.plus(below, SOON), last)
        out.ask(order.position(code.minus(last, soon)), group)
        yield code.minus(last, below)


@_built
def backward(code, L, order, Z, out):
    """Out = PᵀL⁻ᵀZ for the same L and order, with Z overwritten."""
    for group in code.by_columns(Z, BY_FOURS):
        for i in _upwards(code, order, group, out):
            low, high = L.row(i)
            last = code.plus(high, -1)
            z = Z.at(i, group) / L.number(last)
            out.put(order.position(i), group, z)
            L.spread((low, last), z.zeros() - z, Z, group)


@_built
def upward(code, columns, order, scale, R, Z, out):
    """Out = DPᵀL⁻ᵀR by the columns of L, which have their diagonals first; Z is room for L⁻ᵀR.

    Columns of blocks come by fours.
    """
    for group in code.by_columns(Z, BY_FOURS):
        for i in _upwards(code, order, group, out):
            low, high = columns.row(i)
            z = R.at(i, group)
            entries = code.plus(low, 1), high  # the next row is not in the cache yet: it comes last
            z -= columns.times(entries, Z, group, z.zeros(), last_first=True)
            z /= columns.number(low)
            Z.put(i, group, z)
            out.put(order.position(i), group, scale.number(i) * z)


@_built
def dotted(code, Q, W, C, first, last):
    """C += QᵀW over rows first … last − 1, for a Q of four columns."""
    for group in code.by_columns(W, ANY):
        sums = [code.sum(C.at(c, group)) for c in range(FOUR)]
        for i in code.over(first, last):
            w = W.at(i, group)
            for c, total in enumerate(sums):
                total.add(Q.number(i, c) * w)
        for c, total in enumerate(sums):
            C.put(c, group, total.value)


@_built
def added(code, Q, C, W, first, last):
    """W += QC in rows first … last − 1, for a Q of four columns."""
    for group in code.by_columns(W, ANY):
        rows = [C.at(c, group) for c in range(FOUR)]
        for i in code.over(first, last):
            w = W.at(i, group)
            for c, row in enumerate(rows):
                w += Q.number(i, c) * row
            W.put(i, group, w)


@_built
def fold(code, sums, total):
    """Total += sums, in double precision, and sums = 0."""
    for group in code.by_columns(sums, ANY):
        for row in code.over(0, sums.rows):
            part = sums.at(row, group)
            total.put(row, group, total.at(row, group) + part.as_double())
            sums.put(row, group, part.zeros())


@_built
def advance_rows(code, C, R, P, KP, step, Y, weights, S, i):
    """C += step·P and R −= step·KP in four rows from i on; S += Yᵀr, its last row Σ weights·r²."""
    rows, m = [code.plus(i, t) for t in range(ROWS)], Y.columns
    for group in code.by_columns(R, ANY):
        length, squares, new = step.at(0, group), S.at(m, group), []
        for row in rows:
            C.put(row, group, C.at(row, group) + length * P.at(row, group))
            r = R.at(row, group) - length * KP.at(row, group)
            R.put(row, group, r)
            squares += weights.number(row) * (r * r)
            new.append(r)
        S.put(m, group, squares)
        for j in code.over(0, m):
            total = S.at(j, group)
            for row, r in zip(rows, new, strict=True):
                total += Y.number(row, j) * r
            S.put(j, group, total)


@_built
def turn_rows(code, P, Z, conjugation, weights, Y, S, i):
    """P = weights·Z + conjugation·P + YS in four rows from i on."""
    rows = [code.plus(i, t) for t in range(ROWS)]
    for group in code.by_columns(P, ANY):
        factor, sums = conjugation.at(0, group), []
        for row in rows:
            p, z = P.at(row, group), Z.at(row, group)
            sums.append(code.sum(factor * p + weights.number(row) * z))
        for j in code.over(0, Y.columns):
            lanes = S.at(j, group)
            for row, total in zip(rows, sums, strict=True):
                total.add(Y.number(row, j) * lanes)
        for row, total in zip(rows, sums, strict=True):
            P.put(row, group, total.value)
