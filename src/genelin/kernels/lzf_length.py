"""How long text packed by LZF is, without unpacking it."""

from __future__ import annotations

from genelin.kernels.compiled import exactly

__all__ = ["lzf_length"]


@exactly
def lzf_length(packed):
    """Bytes that LZF unpacks to; −1 where the packed bytes end in the middle of a piece."""
    at, end, length = 0, len(packed), 0
    while at < end:
        control = int(packed[at])
        at += 1
        if control < 32:  # so many letters follow, and one
            at += control + 1
            length += control + 1
            continue
        more = control >> 5
        if more == 7:
            if at >= end:
                return -1
            more += int(packed[at])
            at += 1
        at += 1  # how far back the letters are that are repeated
        length += more + 2
    return length if at == end else -1
