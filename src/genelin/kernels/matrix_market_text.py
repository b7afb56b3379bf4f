"""The body of a Matrix Market file, byte by byte: lines of `row column value`, or of one value."""

from __future__ import annotations

import numpy as np

from genelin.kernels.compiled import exactly
from genelin.kernels.svmlight_text import _number

__all__ = ["PROBLEMS", "parse_entries"]

PROBLEMS = {  # what `parse_entries` found wrong
    1: "a row or column is not a whole number (is the line truncated?)",
    2: "there is no such row: rows count from 1",
    3: "there is no such column: columns count from 1",
    4: "a value is missing or not a number (is the line truncated?)",
    5: "there is more on the line than an entry",
    6: "there are more entries than the header promises",
}

SPACE, TAB, RETURN, NEWLINE, PERCENT, ZERO, NINE = 32, 9, 13, 10, 37, 48, 57


@exactly
def parse_entries(text, at_first, shape, places, values, slow):
    """Parse whole lines of bytes, as entries from `at_first` on, into the arrays given.

    `places` is (0, 2) where the lines hold values alone, `values` empty where they hold none.
    Returns the entries so far, slow numbers (entry, start and end of those that take more than one
    rounding), a code of `PROBLEMS` or 0, and the line at which it stopped, all counted from 0.
    """
    at, end, line, count, hard = 0, len(text), 0, at_first, 0
    placed, valued = len(places) > 0, len(values) > 0
    most = max(len(places), len(values))
    code = 0
    while at < end:
        at = _after_blanks(text, at, end)
        if at < end and text[at] != NEWLINE and text[at] != PERCENT:
            if count == most:
                code = 6
                break
            for side in range(2 if placed else 0):
                index, first = np.int64(0), at
                while at < end and text[at] >= ZERO and text[at] <= NINE:
                    index = min(index * 10 + (text[at] - ZERO), np.int64(2**60))
                    at += 1
                if at == first or not _stops(text, at, end):
                    code = 1
                    break
                if index < 1 or index > shape[side]:
                    code = 2 + side
                    break
                places[count, side] = index - 1
                at = _after_blanks(text, at, end)
            if code:
                break
            if valued:
                value, stop, exact = _number(text, at, end)
                if stop == at or not _stops(text, stop, end):
                    code = 4
                    break
                if not exact:
                    slow[hard] = (count, at, stop)
                    hard += 1
                values[count] = value
                at = _after_blanks(text, stop, end)
            if not (at >= end or text[at] == NEWLINE):
                code = 5
                break
            count += 1
        while at < end and text[at] != NEWLINE:
            at += 1
        at += 1
        line += 1
    return count, hard, code, line


@exactly
def _after_blanks(text, at, end):
    """Where the next word begins."""
    while at < end and (text[at] == SPACE or text[at] == TAB or text[at] == RETURN):
        at += 1
    return at


@exactly
def _stops(text, at, end):
    """Whether a word ends here."""
    return at >= end or text[at] in (SPACE, TAB, RETURN, NEWLINE)
