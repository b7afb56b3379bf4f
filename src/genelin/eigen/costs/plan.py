"""What could be done and at what cost: routes, and a plan as it is printed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genelin.eigen.costs.facts import Facts
    from genelin.eigen.costs.pilot_run import PilotRun


SPARE = 0.8  # part of the memory that a route may take, beside the data

__all__ = ["Plan", "Route", "duration", "in_bytes"]


@dataclass(frozen=True)
class Route:
    """One way to solve a problem, and what it would cost.

    Attributes
    ----------
    name : what is done.
    seconds, passes, memory : time, reads of all rows of the data, bytes beyond the input (on a
        cluster, of a worker, its share of the input included).
    reason : what the figures rest on.
    prediction : how many iterations are predicted, or what the first ones have shown.
    problem, method : run `method(problem, k, …)`.
    traffic, client_memory : on a cluster, bytes on all links, and bytes that the client needs.
    trial : reads of the data that were needed to choose it.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import plan_top_k
    >>> route = plan_top_k(np.diag(np.arange(1.0, 101.0)), k=3).chosen
    >>> route.name, route.method
    ('dense', Dense())
    """

    name: str
    seconds: float
    passes: float
    memory: float
    reason: str
    problem: Any
    method: Any
    traffic: float = 0.0
    client_memory: float = 0.0
    trial: float = 0.0
    prediction: str = ""

    def after(self, tried: PilotRun) -> Route:
        """The route as predicted by a pilot run."""
        return replace(self, seconds=tried.seconds, passes=tried.passes, prediction=tried.reason)

    @property
    def why(self) -> str:
        """Reason and prediction."""
        return "; ".join(filter(None, (self.reason, self.prediction)))

    def fits(self, facts: Facts) -> bool:
        """Whether the machine has the memory for it, beside the data."""
        return self.memory + facts.held <= SPARE * facts.machine.memory


@dataclass(frozen=True)
class Plan:
    """Routes to a solution with their predicted cost, the one to be taken first.

    Iterations are predicted as typical, or by the first few of them: the time of an iterative route
    grows when eigenvalues next to the k-th are close.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import plan_top_k
    >>> plan = plan_top_k(np.diag(np.arange(1.0, 101.0)), k=3)
    >>> plan.chosen.name, len(plan.routes)
    ('dense', 2)
    """

    task: str
    routes: tuple[Route, ...]
    cluster: Any = None  # a ClusterSpec

    @property
    def chosen(self) -> Route:
        """The route that `method=None` takes."""
        return self.routes[0]

    def __str__(self) -> str:
        names = ["seconds", "passes", "memory"]
        if self.cluster is not None:
            names = ["seconds", "passes", "worker memory", "client memory", "traffic"]
        rows: list[tuple[str, ...]] = [("", "route", *names, "why")]
        for route in self.routes:
            mark = "→" if route is self.chosen else " "
            rows.append((mark, route.name, *self._figures(route)))
        widths = [max(len(row[column]) for row in rows) for column in range(2 + len(names))]
        lines = [f"plan for {self.task}" + (f" on {self.cluster}" if self.cluster else "")]
        for mark, name, *numbers, why in rows:
            cells = [f"{cell:>{w}}" for cell, w in zip(numbers, widths[2:], strict=True)]
            lines.append(f"{mark:{widths[0]}} {name:{widths[1]}}  {'  '.join(cells)}  {why}")
        return "\n".join(lines)

    def _figures(self, route: Route) -> tuple[str, ...]:
        """The cells of a route, its reason last."""
        sizes, reason = [route.memory], route.why
        if self.cluster is not None:
            sizes += [route.client_memory, route.traffic]
            short = [
                name
                for name, size in zip(("workers", "client"), sizes, strict=False)
                if size > self.cluster.memory
            ]
            reason = f"too little memory: {', '.join(short)}; {reason}" if short else reason
        return f"{route.seconds:.2g}", f"{route.passes:.3g}", *map(in_bytes, sizes), reason


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them.

    Examples
    --------
    >>> duration(0.25), duration(90), duration(9000), duration(1e6)
    ('0.25 s', '90 s', '2.5 h', '12 d')
    """
    for length, unit in ((86400.0, "d"), (3600.0, "h")):
        if seconds >= 2 * length:
            return f"{seconds / length:.{0 if seconds >= 10 * length else 1}f} {unit}"
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:.0f} s"


def in_bytes(count: float) -> str:
    """A number of bytes in the unit that suits it."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
