"""The contract of an eigen method: frozen settings that solve a problem for k pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, overload

import numpy as np

from genelin.eigen.run.checkpointer import NO_CHECKPOINT, Checkpointer
from genelin.problems import Pencil, TwoView, Views
from genelin.results import Callback, CCASolution, EigenSolution, checked_solution
from genelin.validation import generator

__all__ = ["CustomMethod", "Method", "Request", "as_method"]

Problem = Pencil | TwoView
TOLERANCES = {Pencil: 1e-8, TwoView: 1e-6}  # of `top_k` and of `top_k_cca`
INSTEAD = {
    Pencil: "for two data sets leave method out, or use Davidson(), Dense() or CCALin()",
    TwoView: "for a pencil A v = λ B v leave method out, or use Davidson(), Dense() or GenELinK()",
}
HANDLED = {Pencil: "pencils A v = λ B v", TwoView: "two data sets"}


@dataclass(frozen=True)
class Request:
    """What a method is asked for: k pairs of a problem, how exactly, and who watches.

    Examples
    --------
    >>> request = Request(Pencil(np.eye(3)), k=1, tol=1e-8, rng=np.random.default_rng(0))
    >>> request.callback is None, request.checkpoint is NO_CHECKPOINT
    (True, True)
    """

    problem: Any
    k: int
    tol: float
    rng: np.random.Generator
    callback: Callback | None = None
    checkpoint: Checkpointer = NO_CHECKPOINT


class Method(ABC):
    """An eigen method; `solves` names the kinds of problem that it is for.

    Examples
    --------
    >>> from genelin import FewRows
    >>> FewRows().handles(Pencil(np.eye(2)), k=1)
    False
    >>> FewRows()(Pencil(np.eye(2)), k=1)
    Traceback (most recent call last):
        ...
    TypeError: method=FewRows() solves two data sets: for a pencil A v = λ B v ...
    """

    solves: ClassVar[tuple[type, ...]] = (Pencil, TwoView)
    certain: ClassVar[bool] = False  # whether its time can be told without knowing the spectrum

    @overload
    def __call__(
        self,
        problem: Pencil,
        k: int = ...,
        tol: float | None = ...,
        rng: np.random.Generator | int | None = ...,
        callback: Callback | None = ...,
        checkpoint: Checkpointer = ...,
    ) -> EigenSolution: ...
    @overload
    def __call__(
        self,
        problem: TwoView,
        k: int = ...,
        tol: float | None = ...,
        rng: np.random.Generator | int | None = ...,
        callback: Callback | None = ...,
        checkpoint: Checkpointer = ...,
    ) -> CCASolution: ...
    def __call__(
        self,
        problem: Problem,
        k: int = 1,
        tol: float | None = None,
        rng: np.random.Generator | int | None = 0,
        callback: Callback | None = None,
        checkpoint: Checkpointer = NO_CHECKPOINT,
    ) -> EigenSolution | CCASolution:
        """Solve `problem` for k pairs; `tol` is 1e-8 for a pencil and 1e-6 for views."""
        self.refuse_other_problems(problem)
        tol = TOLERANCES[type(problem)] if tol is None else tol
        request = Request(problem, k, tol, generator(rng), callback, checkpoint)
        solution: EigenSolution | CCASolution = self.solve(request)
        return solution

    @abstractmethod
    def solve(self, request: Request) -> Any:
        """Solve a problem of a kind that the method is for."""

    def handles(self, problem: Problem, k: int) -> bool:
        """Whether the method can find k pairs of this problem, and may be chosen for it."""
        return isinstance(problem, self.solves)

    def estimate(self, facts: Any) -> list[Any]:
        """Routes that the planner may take, each with its cost, to a problem that is handled.

        `facts` are `costs.facts.Facts`; routes are `costs.plan.Route`.
        """
        return []

    @property
    def iteration(self) -> Method:
        """The method that begins."""
        return self

    def piloted(self, route: Any, facts: Any, tol: float) -> Any:
        """The route of this method down to a tolerance, by what its first iterations show."""
        return route

    def followed(self, route: Any, others: list[Any], facts: Any) -> Any:
        """The route of this method, once the others are known: one may take over from it."""
        return route

    def with_settings(self, settings: Mapping[str, Any]) -> Method:
        """The method with those of the settings that it has."""
        own: Any = fields(self) if is_dataclass(self) else ()
        names = {field.name for field in own}
        known = {name: value for name, value in settings.items() if name in names}
        return replace(self, **known) if known else self  # type: ignore[type-var]

    def refuse_other_problems(self, problem: Problem) -> None:
        """Raise if the problem is of a kind that the method is not for."""
        if isinstance(problem, Views) and not isinstance(problem, TwoView):
            raise TypeError(
                f"method={type(self).__name__}() finds pairs of two views, got "
                f"{len(problem.views)} in Views: pass a TwoView"
            )
        if not isinstance(problem, self.solves):
            kind = self.solves[0]
            raise TypeError(
                f"method={type(self).__name__}() solves {HANDLED[kind]}: {INSTEAD[kind]}"
            )


@dataclass(frozen=True)
class CustomMethod(Method):
    """A user's function `f(problem, k, tol, rng, callback)`, whose answer is looked at.

    Examples
    --------
    >>> from genelin import Dense
    >>> as_method(lambda *given: Dense()(*given), "method")(Pencil(np.eye(2))).values.tolist()
    [1.0]
    """

    function: Callable[..., Any]
    name: str = "method"

    def solve(self, request: Request) -> Any:
        """Call the function."""
        given = (request.problem, request.k, request.tol, request.rng, request.callback)
        return checked_solution(self.function(*given), self.name)


def as_method(method: Any, name: str = "method") -> Method:
    """A method as it is; a user's function as a method."""
    return method if isinstance(method, Method) else CustomMethod(method, name)
