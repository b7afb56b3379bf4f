"""Pages and pictures of a fit, to keep and to show."""

from genelin.report.figures import write_figures
from genelin.report.page import write_report

__all__ = ["write_figures", "write_report"]
