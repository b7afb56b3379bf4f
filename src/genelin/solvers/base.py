"""The black box: given B, b, u₀ and δ, return u₁ with ‖u₁ − B⁻¹b‖²_B ≤ δ ‖u₀ − B⁻¹b‖²_B."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from genelin.linalg import column_dots
from genelin.linalg.column_products import Block, Vector
from genelin.linalg.tall_skinny import stacked
from genelin.operators import Operator, as_operator
from genelin.results import LinearSolution
from genelin.validation import check_count, check_number, check_numbers, settle

__all__ = ["Energy", "IterativeSolver", "LinearSolver", "Step"]

TENTH = 0.1  # δ of a solve that bounds a norm within 5 %
ROUGH = 0.75  # of a bound that need not be a good one


@dataclass(frozen=True)
class BlockState:
    """One state per diagonal block of B, and where the rows are cut."""

    states: tuple[Any, ...]
    splits: tuple[int, ...]


@dataclass(frozen=True)
class Energy:
    """Bounds on rᵀB⁻¹r, whether they can be trusted, and E ≈ B⁻¹R with BE behind them."""

    bounds: Vector
    met: NDArray[np.bool_]
    solution: Block
    product: Block


class LinearSolver(ABC):
    """Frozen settings; `init(B)` does the once-only work, `solve(state, …)` reuses it.

    All solvers work on the correction c = u₁ − u₀, which solves Bc = b − Bu₀ from zero: a warm
    start then costs no digits, however close u₀ is. A block-diagonal B is solved block by block.
    A solver that is `trusted` measures its error so well that residuals are verified with it;
    those of other solvers are verified with `CG`.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import solvers
    >>> B, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([3.0, 4.0])
    >>> solver = solvers.AGD()
    >>> sol = solver.solve(solver.init(B), b, np.zeros(2), reduction=1e-16)
    >>> np.round(sol.value, 6).tolist()
    [1.0, 1.0]
    """

    trusted: ClassVar[bool] = False
    exact: ClassVar[bool] = False  # solves by factors of B, to rounding

    @abstractmethod
    def _prepare(self, operator: Operator) -> Any:
        """The state for one operator: bounds, factors, preconditioner."""

    @abstractmethod
    def _advance(
        self, state: Any, rhs: Block, x0: Block, reduction: float, residual: Block | None
    ) -> LinearSolution:
        """Solve one block; `residual` is rhs − B x0 where it is known."""

    def init(self, operator: Any) -> Any:
        """Prepare for B, given as anything that `as_operator` takes."""
        operator = as_operator(operator, name="B")
        if not operator.diagonal_blocks:
            return self._prepare(operator)
        sizes = [block.shape[0] for block in operator.diagonal_blocks]
        states = tuple(self.init(block) for block in operator.diagonal_blocks)
        return BlockState(states, tuple(np.cumsum(sizes)[:-1].tolist()))

    def approximate_inverse(self, state: Any) -> Callable[[Block], Block] | None:
        """M⁻¹ ≈ B⁻¹, cheap to apply, linear and positive definite; None where there is none.

        Eigen methods precondition their own iterations with it.
        """
        if not isinstance(state, BlockState):
            return self._approximate_inverse(state)
        parts = [self.approximate_inverse(inner) for inner in state.states]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None

        def apply(R: Block) -> Block:
            pieces = np.split(R, state.splits)
            return stacked(*(part(piece) for part, piece in zip(known, pieces, strict=True)))

        return apply

    def inverse_diagonal(self, state: Any) -> Vector | None:
        """The diagonal of M⁻¹ where the M of `approximate_inverse` is diagonal, else None."""
        if not isinstance(state, BlockState):
            return self._inverse_diagonal(state)
        parts = [self.inverse_diagonal(inner) for inner in state.states]
        known = [part for part in parts if part is not None]
        return np.concatenate(known) if len(known) == len(parts) else None

    def lowest(self, state: Any) -> float:
        """About how small λ_min(M⁻¹B) may be, for the M of `approximate_inverse`; 0: unknown."""
        if isinstance(state, BlockState):
            return min(self.lowest(inner) for inner in state.states)
        return self._lowest(state)

    def _lowest(self, state: Any) -> float:
        """The same for one block."""
        return 0.0

    def _inverse_diagonal(self, state: Any) -> Vector | None:
        """The same for one block."""
        return None

    def _approximate_inverse(self, state: Any) -> Callable[[Block], Block] | None:
        """The same for one block."""
        return None

    def solve(
        self, state: Any, rhs: Any, x0: Any, reduction: float, residual: Block | None = None
    ) -> LinearSolution:
        """Reduce ‖u − B⁻¹rhs‖²_B by the factor `reduction`, starting from x0, column by column.

        `residual` may hold rhs − B x0 if the caller has it; that saves one product.
        """
        reduction = check_number("reduction", reduction, 0, below=1)
        rhs, x0 = check_numbers("rhs", rhs), check_numbers("x0", x0)
        if rhs.shape != x0.shape:
            raise ValueError(f"rhs has shape {rhs.shape} but x0 has shape {x0.shape}")
        if rhs.ndim == 1:
            solution = self.solve(state, rhs[:, None], x0[:, None], reduction)
            return replace(solution, value=solution.value[:, 0])
        if not isinstance(state, BlockState):
            return self._advance(state, rhs, x0, reduction, residual)
        return self._solve_blocks(state, rhs, x0, reduction, residual)

    def energy(self, state: Any, R: Block, enough: float | Vector = 0.0) -> Energy:
        """Upper bounds on rᵀB⁻¹r for every column, within a tenth, or 4 times below `enough`."""
        if not isinstance(state, BlockState):
            return self._energy(state, R, enough)
        pieces = np.split(R, state.splits)
        parts = [
            self.energy(inner, piece, enough / len(pieces))
            for inner, piece in zip(state.states, pieces, strict=True)
        ]
        return Energy(
            bounds=np.sum([part.bounds for part in parts], axis=0),
            met=np.all([part.met for part in parts], axis=0),
            solution=stacked(*(part.solution for part in parts)),
            product=stacked(*(part.product for part in parts)),
        )

    def _energy(self, state: Any, R: Block, enough: float | Vector) -> Energy:
        """The same for one block: by one solve, from zero."""
        solution = self.solve(state, R, np.zeros_like(R), TENTH, residual=R)
        E = solution.value
        left = R - state.operator @ E if solution.residual is None else solution.residual
        decrease = np.maximum(column_dots(E, R + left), 0.0)
        return Energy(decrease / (1.0 - TENTH), solution.met, E, R - left)

    def _solve_blocks(
        self, state: BlockState, rhs: Block, x0: Block, reduction: float, residual: Block | None
    ) -> LinearSolution:
        rows = np.split(np.arange(len(rhs)), state.splits)
        parts = [
            self.solve(inner, rhs[r], x0[r], reduction, None if residual is None else residual[r])
            for inner, r in zip(state.states, rows, strict=True)
        ]
        left = [part.residual for part in parts if part.residual is not None]
        return LinearSolution(
            value=np.vstack([part.value for part in parts]),
            iterations=sum(part.iterations for part in parts),
            met=np.all([part.met for part in parts], axis=0),
            residual=np.vstack(left) if len(left) == len(parts) else None,
        )


@dataclass
class Step:
    """An iterate c of Bc = r₀, and how to measure it.

    `measure()` gives two vectors: ‖e₀‖²_B − ‖e‖²_B, which is known exactly, and an upper bound on
    ‖e‖²_B. `residual` is r₀ − Bc where the method keeps it.
    """

    correction: Block
    measure: Callable[[], tuple[Vector, Vector]]
    residual: Block | None = None
    as_expected: bool = True  # False once the run has contradicted the bounds it began with

    def meets(self, reduction: float) -> NDArray[np.bool_]:
        """Columns whose error surely is reduced: ‖e‖² ≤ δ‖e₀‖², with ‖e₀‖² = decrease + ‖e‖²."""
        decrease, bound = self.measure()
        met: NDArray[np.bool_] = (1.0 - reduction) * bound <= reduction * decrease
        return met


@dataclass(frozen=True)
class IterativeSolver(LinearSolver):
    """A solver that yields one iterate after the other; `solve` stops it as soon as δ is met."""

    max_iter: int = 10_000

    def __post_init__(self) -> None:
        settle(self, check_count, "max_iter")

    @abstractmethod
    def corrections(self, state: Any, r0: Block) -> Iterator[Step]:
        """Iterates of B c = r0 from c = 0, without end or until they cannot move."""

    def enough(self, state: Any, reduction: float) -> float:
        """Steps after which theory grants the reduction (inf where the bounds are guesses)."""
        return np.inf

    def _advance(
        self, state: Any, rhs: Block, x0: Block, reduction: float, residual: Block | None
    ) -> LinearSolution:
        r0 = rhs - state.operator @ x0 if residual is None else residual
        if not r0.any():
            return LinearSolution(x0.copy(), 0, np.ones(rhs.shape[1], dtype=bool), r0)
        enough, check = self.enough(state, reduction), 1
        for t, step in enumerate(self.corrections(state, r0), start=1):
            if t < min(check, self.max_iter, enough):
                continue
            if not step.as_expected:
                enough = np.inf
            if t >= self.max_iter or np.all(step.meets(reduction) | (t >= enough)):
                break
            check = t + max(1, t // 8)  # measuring costs: do it in every eighth step at most
        met = step.meets(reduction) | (t >= enough)
        return LinearSolution(x0 + step.correction, t, met, step.residual)

    def _energy(self, state: Any, R: Block, enough: float | Vector) -> Energy:
        """Iterate until what is missing of every column is small, or does not matter."""
        if not R.any():
            none = np.zeros(R.shape[1])
            return Energy(none, none == 0, np.zeros_like(R), np.zeros_like(R))
        check = 1
        for t, step in enumerate(self.corrections(state, R), start=1):
            if t < min(check, self.max_iter):
                continue
            decrease, missing = step.measure()
            total = decrease + missing
            met = (missing <= TENTH * total) | ((total <= enough) & (missing <= ROUGH * total))
            if t >= self.max_iter or met.all():
                break
            check = t + max(1, t // 8)
        E, left = step.correction, step.residual
        return Energy(decrease + missing, met, E, state.operator @ E if left is None else R - left)
