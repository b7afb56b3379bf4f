"""Wilks' lambda and its two approximations: whether anything correlates beyond chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from genelin.eigen.methods.dense import Dense
from genelin.linalg.column_products import Vector
from genelin.problems import SMALL, TwoView
from genelin.results import CCASolution

__all__ = ["Significance", "Spectrum", "wilks_tests"]

TESTED = 256  # features up to which all correlations are found for the tests


@dataclass(frozen=True, repr=False)
class Significance:
    """Tests that the correlations of component j and all after it are zero, one row per j.

    Attributes
    ----------
    wilks_lambda : Λⱼ = ∏ (1 − ρᵢ²) over i ≥ j.
    chi2, chi2_df, chi2_p : Bartlett's χ² approximation, its degrees of freedom and p-value.
    f, f_df1, f_df2, f_p : Rao's F approximation, its degrees of freedom and p-value.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from genelin import CCA
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> CCA(n_components=3).fit(X, Y).significance()
         Wilks' Λ        χ²   df       p         F   df1     df2       p
     1   0.350391    16.255    9  0.0617     2.048     9   34.22  0.0635
     2   0.954723     0.718    4  0.9491     0.176     4   30.00  0.9491
     3   0.994734     0.082    1  0.7748     0.085     1   16.00  0.7748
    """

    wilks_lambda: Vector
    chi2: Vector
    chi2_df: Vector
    chi2_p: Vector
    f: Vector
    f_df1: Vector
    f_df2: Vector
    f_p: Vector

    def __repr__(self) -> str:
        head = "     Wilks' Λ        χ²   df       p         F   df1     df2       p"
        columns = (self.wilks_lambda, self.chi2, self.chi2_df, self.chi2_p)
        rows = zip(*columns, self.f, self.f_df1, self.f_df2, self.f_p, strict=True)
        lines = [
            f"{j:2d} {wilks:10.6g} {chi2:9.3f} {df:4.0f} {p:7.4f} {f:9.3f} {df1:5.0f} {df2:7.2f} "
            f"{f_p:7.4f}"
            for j, (wilks, chi2, df, p, f, df1, df2, f_p) in enumerate(rows, start=1)
        ]
        return "\n".join([head, *lines])


@dataclass(frozen=True)
class Spectrum:
    """All correlations of two views and their ranks; or why they are not to be tested."""

    correlations: Vector
    ranks: tuple[int, int]
    n: int
    refusal: str = ""

    def tests(self) -> Significance:
        """The tests, or an error that says why there are none."""
        if self.refusal:
            raise ValueError(self.refusal)
        return wilks_tests(self.correlations, *self.ranks, self.n)

    @classmethod
    def refused(cls, need: str) -> Spectrum:
        """No tests, for want of what they need."""
        refusal = f"the tests need {need}: score held-out rows instead"
        return cls(np.zeros(0), (0, 0), 0, refusal)

    @classmethod
    def of(cls, problem: TwoView, solution: CCASolution, n: int) -> Spectrum:
        """From a fit without a ridge; what the solution leaves out is found where that is quick.

        `n` is the number of rows, or one more where they were not centred.
        """
        larger, smaller = max(problem.splits), min(problem.splits)
        if larger > TESTED and len(solution.correlations) < smaller:
            return cls.refused(f"all correlations, of a fit with n_components={smaller}")
        if larger > TESTED and (not problem.has_moments or larger > SMALL):
            return cls.refused(
                f"the ranks of both views, which are found for up to {TESTED} features, or "
                f"{SMALL} of dense data"
            )
        found = {deficiency.name: deficiency.rank for deficiency in problem.deficiencies}
        p, q = (found.get(name) or d for name, d in zip(problem.names, problem.splits, strict=True))
        correlations = solution.correlations
        if len(correlations) < min(p, q):
            correlations = Dense()(problem, min(p, q)).correlations
        return cls(correlations, (p, q), n)


def wilks_tests(correlations: Vector, p: int, q: int, n: int) -> Significance:
    """Both tests for every component, from all min(p, q) correlations of views of ranks p and q.

    `n` is the number of rows, or one more where they were not centred.

    Examples
    --------
    >>> import numpy as np
    >>> wilks_tests(np.array([0.5]), 1, 1, 20).f_df2.tolist()
    [18.0]
    """
    if len(correlations) != min(p, q):
        raise ValueError(f"{min(p, q)} correlations are needed, got {len(correlations)}")
    multiplier = n - 1 - (p + q + 1) / 2
    if n < p + q + 2:
        raise ValueError(
            f"{n} rows are too few to test views of rank {p} and {q}: at least {p + q + 2} are "
            "needed; score held-out rows instead"
        )
    with np.errstate(divide="ignore"):  # a correlation of 1: Λ = 0
        logs = np.log1p(-(correlations**2))
    log_wilks = np.cumsum(logs[::-1])[::-1]
    left = np.arange(len(correlations))
    ps, qs = p - left, q - left
    df1 = (ps * qs).astype(np.float64)
    squares = (ps**2 + qs**2 - 5).astype(np.float64)
    t = np.ones_like(df1)
    many = squares > 0
    t[many] = np.sqrt((df1[many] ** 2 - 4) / squares[many])
    df2 = multiplier * t - df1 / 2 + 1
    with np.errstate(over="ignore"):
        f = np.expm1(-log_wilks / t) * df2 / df1
    chi2 = -multiplier * log_wilks
    return Significance(
        wilks_lambda=np.exp(log_wilks),
        chi2=chi2,
        chi2_df=df1,
        chi2_p=stats.chi2.sf(chi2, df1),
        f=f,
        f_df1=df1,
        f_df2=df2,
        f_p=stats.f.sf(f, df1, df2),
    )
