"""The svmlight format, byte by byte: `label index:value index:value … # comment`."""

from __future__ import annotations

import numpy as np

from genelin.kernels.compiled import exactly

__all__ = ["PROBLEMS", "parse_svmlight"]

PROBLEMS = {  # what `parse_svmlight` found wrong
    1: "the label is not a number",
    2: "an index is not a whole number",
    3: "an index is not followed by ':' and a value (is the line truncated?)",
    4: "a value is missing or not a number (is the line truncated?)",
    5: "indices are not in ascending order",
    6: "an index does not fit 31 bits",
}

POWERS = 10.0 ** np.arange(23)  # exact in float64
SPACE, TAB, RETURN, NEWLINE, HASH, COLON = 32, 9, 13, 10, 35, 58
PLUS, MINUS, DOT, ZERO, NINE, BIG_E, SMALL_E, LETTER_Q = 43, 45, 46, 48, 57, 69, 101, 113


@exactly
def _number(text, at, end):
    """A decimal number: its value, where it ends (at: there is none), and whether it is exact.

    One rounding is exact for mantissas up to 2⁵³ and powers up to 10²² (Clinger 1990).
    """
    first = at
    negative = at < end and text[at] == MINUS
    if negative or (at < end and text[at] == PLUS):
        at += 1
    mantissa, digits, scale, point = np.int64(0), 0, 0, False
    exact = True
    while at < end:
        letter = text[at]
        if letter >= ZERO and letter <= NINE:
            digits += 1
            if mantissa < 900_000_000_000_000_000:
                mantissa = mantissa * 10 + (letter - ZERO)
                scale -= point
            else:
                exact = False
        elif letter == DOT and not point:
            point = True
        else:
            break
        at += 1
    if digits == 0:
        return 0.0, first, True
    if at < end and (text[at] == SMALL_E or text[at] == BIG_E):
        mark, power, down = at, 0, False
        at += 1
        if at < end and (text[at] == PLUS or text[at] == MINUS):
            down = text[at] == MINUS
            at += 1
        if at >= end or text[at] < ZERO or text[at] > NINE:
            return 0.0, mark, True  # what follows the number is not a space: refused by the caller
        while at < end and text[at] >= ZERO and text[at] <= NINE:
            power = min(power * 10 + (text[at] - ZERO), 100_000)
            at += 1
        scale += -power if down else power
    exact = bool(exact and mantissa <= 9_007_199_254_740_992 and -22 <= scale <= 22)
    value = float(mantissa)
    if exact:
        value = value / POWERS[-scale] if scale < 0 else value * POWERS[scale]
    return (-value if negative else value), at, exact


@exactly
def parse_svmlight(text, labels, indptr, indices, values, slow):
    """Parse whole lines of bytes into the arrays given.

    Returns rows, nonzeros, slow numbers (label or value, start and end of those that take more than
    one rounding), the lowest and highest index with their lines, a code of `PROBLEMS` or 0, and
    the line at which it stopped, all counted from 0.
    """
    at, end, line = 0, len(text), 0
    rows, count, hard = 0, 0, 0
    lowest, lowest_line, highest, highest_line = np.int64(2**62), -1, np.int64(-1), -1
    indptr[0] = 0
    code = 0
    while at < end:
        while at < end and (text[at] == SPACE or text[at] == TAB or text[at] == RETURN):
            at += 1
        if at < end and text[at] != NEWLINE and text[at] != HASH:
            value, stop, exact = _number(text, at, end)
            if stop == at or not _ends(text, stop, end):
                code = 1
                break
            if not exact:
                slow[hard] = (0, rows, at, stop)
                hard += 1
            labels[rows] = value
            at, last = stop, np.int64(-1)
            while True:
                while at < end and (text[at] == SPACE or text[at] == TAB or text[at] == RETURN):
                    at += 1
                if at >= end or text[at] == NEWLINE or text[at] == HASH:
                    break
                if text[at] == LETTER_Q:  # qid:… is no feature
                    while at < end and not _ends(text, at, end):
                        at += 1
                    continue
                index, first = np.int64(0), at
                while at < end and text[at] >= ZERO and text[at] <= NINE:
                    index = min(index * 10 + (text[at] - ZERO), np.int64(2**40))
                    at += 1
                if at == first:
                    code = 2
                    break
                if at >= end or text[at] != COLON:
                    code = 3 if _ends(text, at, end) else 2
                    break
                value, stop, exact = _number(text, at + 1, end)
                if stop == at + 1 or not _ends(text, stop, end):
                    code = 4
                    break
                if index <= last:
                    code = 5
                    break
                if index >= 2**31 - 1:
                    code = 6
                    break
                if not exact:
                    slow[hard] = (1, count, at + 1, stop)
                    hard += 1
                indices[count], values[count] = index, value
                count += 1
                last, at = index, stop
                if index < lowest:
                    lowest, lowest_line = index, line
                if index > highest:
                    highest, highest_line = index, line
            if code:
                break
            rows += 1
            indptr[rows] = count
        while at < end and text[at] != NEWLINE:
            at += 1
        at += 1
        line += 1
    return rows, count, hard, lowest, lowest_line, highest, highest_line, code, line


@exactly
def _ends(text, at, end):
    """Whether a word ends here."""
    if at >= end:
        return True
    letter = text[at]
    blank = letter in (SPACE, TAB, RETURN)
    return blank or letter in (NEWLINE, HASH)
