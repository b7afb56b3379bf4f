"""The paper's measures of error: principal angles in the B-norm, TCC and PCC."""

from __future__ import annotations

from scipy.linalg import block_diag, svdvals

from genelin.linalg import orthonormalise, sin_theta
from genelin.linalg.column_products import Block
from genelin.problems import TwoView

__all__ = ["pcc", "sin_theta", "sin_theta_b", "sin_theta_x", "sin_theta_y", "tcc"]


def sin_theta_x(problem: TwoView, Wx: Block, Vx: Block) -> float:
    """Sine of θ_x, the largest angle between span(Wx) and span(Vx) in the S_x-norm.

    Examples
    --------
    >>> import numpy as np
    >>> problem = TwoView(np.eye(3), np.eye(3), center=False)
    >>> sin_theta_x(problem, np.eye(3, 1), np.eye(3, 1))
    0.0
    """
    return sin_theta(Wx, Vx, problem.S_x)


def sin_theta_y(problem: TwoView, Wy: Block, Vy: Block) -> float:
    """Sine of θ_y, the largest angle between span(Wy) and span(Vy) in the S_y-norm.

    Examples
    --------
    >>> import numpy as np
    >>> problem = TwoView(np.eye(3), np.eye(3), center=False)
    >>> sin_theta_y(problem, np.eye(3, 1), np.eye(3)[:, 1:2])
    1.0
    """
    return sin_theta(Wy, Vy, problem.S_y)


def sin_theta_b(problem: TwoView, W: Block, Vx: Block, Vy: Block) -> float:
    """Sine of θ_B, between the stacked (d₁ + d₂, 2k) basis W and diag(Vx, Vy).

    Examples
    --------
    >>> import numpy as np
    >>> problem = TwoView(np.eye(2), np.eye(2), center=False)
    >>> v = np.eye(2, 1)
    >>> round(sin_theta_b(problem, np.block([[v, -v], [v, v]]), v, v), 12)
    0.0
    """
    return sin_theta(W, block_diag(Vx, Vy), problem.pencil.B)


def tcc(problem: TwoView, Wx: Block, Wy: Block) -> float:
    """Total correlation captured: the sum of canonical correlations between XWx and YWy.

    The correlations are those of S + reg·I, so that nothing captures more than the exact answer.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> round(tcc(TwoView(X, X), np.eye(3), np.eye(3)), 6)
    3.0
    """
    Wx, _ = orthonormalise(Wx, problem.S_x)
    Wy, _ = orthonormalise(Wy, problem.S_y)
    return float(svdvals(Wx.T @ (problem.S_xy @ Wy)).sum())


def pcc(problem: TwoView, Wx: Block, Wy: Block, Vx: Block, Vy: Block) -> float:
    """Proportion of correlation captured: TCC of (Wx, Wy) over that of the true (Vx, Vy).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> round(pcc(TwoView(X, X), np.eye(3, 2), np.eye(3, 2), np.eye(3, 2), np.eye(3, 2)), 6)
    1.0
    """
    total = tcc(problem, Vx, Vy)
    return tcc(problem, Wx, Wy) / total if total > 0 else 1.0
