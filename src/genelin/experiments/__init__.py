"""Data set × method × measure → records, from which figures are drawn."""

from genelin.experiments.records import Point, RunRecord, read_records, record_run, write_records

__all__ = ["Point", "RunRecord", "read_records", "record_run", "write_records"]
