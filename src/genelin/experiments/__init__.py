"""Data set × method × measure → records, from which the figures of the paper are drawn."""

from genelin.experiments.figure2 import Line, line_of
from genelin.experiments.figure3 import flops_to
from genelin.experiments.records import (
    Point,
    RunRecord,
    read_records,
    record_pencil,
    record_run,
    write_records,
)
from genelin.experiments.reproduction import reproduce

__all__ = [
    "Line",
    "Point",
    "RunRecord",
    "flops_to",
    "line_of",
    "read_records",
    "record_pencil",
    "record_run",
    "reproduce",
    "write_records",
]
