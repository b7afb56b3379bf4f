"""How all figures look: marks and dashes that tell methods apart without colour, one writer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from genelin.io import write_atomically

__all__ = ["Look", "every_so_many", "figure_with", "log_axis", "markdown", "save"]

FORMATS = ("png", "svg")


@dataclass(frozen=True)
class Look:
    """Colour, dash and mark of a curve; no two of a figure share dash and mark."""

    color: str
    linestyle: Any
    marker: str

    def line(self, **more: Any) -> dict[str, Any]:
        """Arguments for a line with hollow marks."""
        look = {"color": self.color, "linestyle": self.linestyle, "marker": self.marker}
        return look | {"fillstyle": "none", "markersize": 6, "linewidth": 1.4} | more

    def mark(self, **more: Any) -> dict[str, Any]:
        """Arguments for a mark alone."""
        return self.line(**{"linestyle": "", "markersize": 9, "markeredgewidth": 1.6} | more)


LOOKS = (
    Look("#000000", "-", "*"),  # the default, always the first
    Look("#0b5394", "-", "o"),
    Look("#b45f06", "--", "s"),
    Look("#38761d", "-.", "^"),
    Look("#741b47", ":", "D"),
    Look("#666666", (0, (5, 1, 1, 1, 1, 1)), "v"),
    Look("#cc0000", (0, (1, 1)), "X"),
    Look("#134f5c", (0, (8, 2)), "P"),
    Look("#7f6000", (0, (3, 3)), "h"),
    Look("#351c75", (0, (6, 1, 1, 1)), "<"),
)


def require_matplotlib() -> None:
    """Refuse to begin where figures could not be drawn at the end."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            'figures are drawn with matplotlib: pip install "genelin[plot]"'
        ) from error


def figure_with(panels: int, title: str, note: str, width: float = 5.2) -> tuple[Any, list[Any]]:
    """A figure of panels, three in a row at most; `note` below says on which data it was made."""
    from matplotlib.figure import Figure

    rows = 1 + (panels > 3)
    columns = -(-panels // rows)
    height = 4.6 if rows == 1 else 3.0 * rows + 1.0
    figure = Figure(figsize=(max(width * columns, 7.0), height), layout="constrained")
    axes = [figure.add_subplot(rows, columns, j + 1) for j in range(panels)]
    for axis in axes:
        axis.grid(alpha=0.25)
    figure.suptitle(title, fontsize=12)
    figure.supxlabel(fill(note, int(17 * figure.get_figwidth())), fontsize=8, color="#444444")
    return figure, axes


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """Write a figure in all formats, each whole or not at all."""
    paths = []
    for form in FORMATS:
        content = BytesIO()
        bare = {"png": {"Software": None}, "svg": {"Date": None}}[form]
        figure.savefig(content, format=form, dpi=130, metadata=bare)
        paths.append(folder / f"{name}.{form}")
        write_atomically(paths[-1], content.getvalue())
    return paths


def log_axis(axis: Any) -> None:
    """A logarithmic axis whose labels do not run into each other, over one decade or ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = np.log10(axis.get_view_interval())
    if high - low < 2:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_minor_formatter(NullFormatter())


def short(value: float) -> str:
    """A power of ten as people write it, 1e-6."""
    return f"{value:.0e}".replace("e-0", "e-")


def every_so_many(length: int, marks: int = 12) -> list[int]:
    """Which points of a curve carry a mark: so many at most, the last among them."""
    chosen: list[int] = np.linspace(0, length - 1, min(length, marks)).astype(int).tolist()
    return sorted(set(chosen))


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
