"""AppGrad (Ma, Lu & Foster 2015): gradient steps on two coupled least-squares problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from genelin.baselines.common import Baseline, Covariances, Pairs, Run, check_ending
from genelin.eigen.run.method import Request
from genelin.linalg.column_products import EPS, Block
from genelin.operators import Operator
from genelin.results import CCASolution, Status
from genelin.solvers.spectral_bounds import spectral_bounds
from genelin.validation import check_count, check_number, settle, shown

__all__ = ["AppGrad", "StochasticAppGrad"]

Rng = np.random.Generator | int | None
MOST_EPOCHS = 1e9


@dataclass(frozen=True)
class AppGrad(Baseline):
    """Φ̃ ← Φ̃ − η(S_xΦ̃ − S_xyΨ), then Φ = Φ̃(Φ̃ᵀS_xΦ̃)^{-½}; and Ψ alike (Ma, Lu & Foster 2015).

    Φ̃ begins at zero and is never normalised: it approaches the least-squares solution S_x⁻¹S_xyΨ.
    As in the authors' code, Ψ̃ is updated with the new Φ; with the old one, both could change sign
    for ever. The canonical pairs of the two spans are returned.

    Parameters
    ----------
    step : η of both views or a pair; None takes 1/λ_max of each.
    iterations : run exactly so many; None stops on `tol`.
    max_iter : most iterations when stopping on `tol`.

    Examples
    --------
    >>> from genelin import top_k_cca
    >>> from genelin.baselines import AppGrad
    >>> from genelin.datasets import two_view_gaussian
    >>> X, Y = two_view_gaussian(2000, d=8, correlations=[0.9, 0.7], kappa=4.0)
    >>> top_k_cca(X, Y, k=2, method=AppGrad()).converged
    True
    """

    step: float | tuple[float, float] | None = None
    iterations: int | None = None
    max_iter: int = 20_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", _checked_step(self.step))
        check_ending(self)

    def solve(self, request: Request) -> CCASolution:
        """By gradient steps."""
        k, rng = request.k, request.rng
        covariances = Covariances(request)
        etas = _steps(covariances, self.step, 0.0)
        run = Run(covariances, self.iterations, self.max_iter)
        x, y = _sides(covariances, (covariances.S_x, covariances.S_y), k, rng)
        if left := run.load():
            x.set(left["x"])
            y.set(left["y"])
        to_y = covariances.S_xy.T @ x.W
        while True:
            to_x = covariances.S_xy @ y.W
            blocks = ((x.W, y.W), (to_x, to_y), (x.SW, y.SW))
            pairs = covariances.rotated(*(np.vstack(block) for block in blocks))
            covariances.count_dense(_step_flops(covariances.d, k))
            reason = run.verdict(pairs)
            if reason is not None:
                return covariances.solution(pairs, reason, run.records, run.verified)
            x.step(to_x, etas[0])
            to_y = covariances.S_xy.T @ x.W
            y.step(to_y, etas[1])
            run.save(x=x.P, y=y.P)


@dataclass(frozen=True)
class StochasticAppGrad(Baseline):
    """S-AppGrad: the steps of `AppGrad` with S_x, S_y and S_xy of a few rows, drawn anew each time.

    What the trace holds is measured on the rows of a step, and so is noisy; the solution itself is
    verified with all rows. It ends after `epochs`: the paper shows convergence up to the noise of
    the steps only, which shrinks with η.

    Parameters
    ----------
    batch : rows a step; None takes 20·k.
    epochs : end when so many times n rows are drawn; every step reads its rows three times.
    step : η of both views or a pair at the beginning; None takes 1/(λ_max + tr(S)/batch), of each.
    decay : after p epochs the step is η/(1 + decay·p).
    records : of the trace, an epoch.

    Examples
    --------
    >>> import warnings
    >>> from genelin import top_k_cca
    >>> from genelin.baselines import StochasticAppGrad
    >>> from genelin.datasets import two_view_gaussian
    >>> views = two_view_gaussian(20_000, d=8, correlations=[0.9, 0.7], kappa=4.0)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # its accuracy is that of its noise
    ...     pairs = top_k_cca(*views, k=2, method=StochasticAppGrad(epochs=3))
    >>> bool(pairs.correlations.sum() > 0.99 * 1.6)
    True
    """

    batch: int | None = None
    epochs: float = 10.0
    step: float | tuple[float, float] | None = None
    decay: float = 1.0
    records: int = 10

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", _checked_step(self.step))
        settle(self, check_number, "epochs", above=0, most=MOST_EPOCHS)
        settle(self, check_count, "records")
        settle(self, check_number, "decay", least=0)
        settle(self, check_count, "batch", optional=True)

    def solve(self, request: Request) -> CCASolution:
        """By stochastic gradient steps."""
        problem, k, rng = request.problem, request.k, request.rng
        covariances = Covariances(request)
        n, batch = problem.X.n, 20 * k if self.batch is None else self.batch
        if batch < k:
            raise ValueError(
                f"batch={batch} must be at least k={k}: k columns are normalised by it"
            )
        batch = min(batch, n)
        etas = _steps(covariances, self.step, 1.0 / batch)
        steps = max(1, round(self.epochs * n / batch))
        every = max(1, round(n / (batch * self.records)))
        views, reason = (covariances.S_x, covariances.S_y), Status.FIXED_ITERATIONS
        x, y = _sides(covariances, views, k, rng)
        run = Run(covariances, steps, steps)
        if left := run.load():
            x.P, y.P, x.W, y.W = (left[name] for name in ("x", "y", "x_unit", "y_unit"))
        for t in range(1 + every * len(run.records), steps + 1):
            rows, slower = rng.integers(0, n, batch), 1.0 + self.decay * t * batch / n
            S_xy, x.S, y.S = (S.on_rows(rows) for S in (covariances.S_xy, *views))
            x.step(S_xy @ y.W, etas[0] / slower, fresh=True)
            to_y = S_xy.T @ x.W
            y.step(to_y, etas[1] / slower, fresh=True)
            covariances.count_dense(_step_flops(covariances.d, k))
            if t % every:
                continue
            if run.verdict(_seen(covariances, rows, x, y, to_y)) is Status.STOPPED:
                reason = Status.STOPPED
                break
            run.save(x=x.P, y=y.P, x_unit=x.W, y_unit=y.W)
        return covariances.solution(covariances.pairs(x.W, y.W, k), reason, run.records)


class _Side:
    """Φ̃ and Φ of one view, with their products with S."""

    def __init__(self, S: Operator, start: Block) -> None:
        self.S = S
        self.P = self.SP = np.zeros_like(start)
        self.W, self.SW = _normalised(start, S @ start)

    def set(self, P: Block) -> None:
        """Go on from Φ̃ of an earlier run."""
        self.P, self.SP = P, self.S @ P
        self.W, self.SW = _normalised(P, self.SP)

    def step(self, to: Block, eta: float, fresh: bool = False) -> None:
        """Φ̃ ← Φ̃ − η(SΦ̃ − to), and normalise; `fresh` if S is another one than in the last step."""
        SP = self.S @ self.P if fresh else self.SP
        with np.errstate(over="ignore", invalid="ignore"):
            self.P = self.P - eta * (SP - to)
            self.SP = self.S @ self.P
            self.W, self.SW = _normalised(self.P, self.SP)


def _sides(
    covariances: Covariances, views: tuple[Operator, Operator], k: int, rng: np.random.Generator
) -> tuple[_Side, _Side]:
    start_x, start_y = covariances.halves(covariances.start(k))
    return _Side(views[0], start_x), _Side(views[1], start_y)


def _seen(
    covariances: Covariances, rows: NDArray[np.int64], x: _Side, y: _Side, to_y: Block
) -> Pairs:
    """The pairs as the rows of a step see them; to look costs the method nothing."""
    to_x = covariances.problem.S_xy.on_rows(rows) @ y.W
    blocks = ((x.W, y.W), (to_x, to_y), (x.SW, y.SW))
    return covariances.rotated(*(np.vstack(block) for block in blocks))


def _checked_step(step: Any) -> float | tuple[float, float] | None:
    if step is None:
        return None
    if not isinstance(step, tuple):
        return check_number("step", step, above=0, otherwise=", a pair of them, or None")
    if len(step) != 2:
        raise ValueError(f"step={shown(step)} must be one number or a pair (for X, for Y)")
    x, y = (check_number("step", eta, above=0) for eta in step)
    return x, y


def _steps(
    covariances: Covariances, step: float | tuple[float, float] | None, noise: float
) -> tuple[float, float]:
    """η of each view; by default 1/(λ_max + noise·trace)."""
    if step is not None:
        return step if isinstance(step, tuple) else (step, step)
    x, y = (
        1.0 / (spectral_bounds(metered).upper + noise * float(S.diagonal().sum()))
        for metered, S in (
            (covariances.S_x, covariances.problem.S_x),
            (covariances.S_y, covariances.problem.S_y),
        )
    )
    return x, y


def _step_flops(d: int, k: int) -> float:
    """Dense work of a step: the Gram matrix, two products with its root, and the update."""
    return 6.0 * d * k**2 + 4.0 * d * k


def _normalised(P: Block, SP: Block) -> tuple[Block, Block]:
    """P(PᵀSP)^{-½}, and its product with S; directions below rounding stay as short as they are."""
    M = P.T @ SP
    if not np.all(np.isfinite(M)):
        raise ValueError("step is too long and the iteration diverges: use step=None, 1/λ_max")
    weights, U = eigh((M + M.T) / 2)
    floor = 10 * len(M) * EPS * max(float(weights[-1]), 1e-290)
    root = (U / np.sqrt(np.maximum(weights, floor))) @ U.T
    return P @ root, SP @ root
