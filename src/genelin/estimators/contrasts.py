"""What data make of max wᵀS₁w / wᵀS₂w: two data sets, or the classes of one."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genelin.eigen.api import top_k
from genelin.eigen.run.canonical_pairs import fix_signs
from genelin.errors import NotPositiveDefiniteError, RankDeficiencyWarning
from genelin.io import Checkpoint
from genelin.linalg import Which, range_basis
from genelin.linalg.column_products import EPS, Block
from genelin.operators import Gram, Rows, Sum
from genelin.problems import SMALL, estimated_entries
from genelin.results import Cost, EigenSolution, Record, Status, Trace

__all__ = [
    "Contrast",
    "Ridge",
    "against_background",
    "between_classes",
    "class_pairs",
    "joined",
    "spatial_patterns",
]

Parts = Sequence[tuple[Rows, float]]  # data sets and the weights of their covariances


@dataclass(frozen=True)
class Ridge:
    """What is added to S₂: reg·I, or a shrinkage s that makes it (1 − s)·S₂ + s·tr(S₂)/d·I."""

    reg: float = 0.0
    shrinkage: float | None = None

    def added(self, parts: Parts, center: bool) -> Sum:
        """Σ wᵢSᵢ with the ridge."""
        keep, reg = 1.0, self.reg
        if self.shrinkage is not None:
            keep = 1.0 - self.shrinkage
            reg = self.shrinkage * float(_scatter(parts, center).diagonal().mean())
        first, *others = ((rows, keep * weight) for rows, weight in parts)
        ridged = Gram(first[0], reg, center, weight=first[1])
        return Sum([ridged, *(Gram(rows, 0.0, center, weight=weight) for rows, weight in others)])


def _scatter(parts: Parts, center: bool) -> Sum:
    return Sum([Gram(rows, 0.0, center, weight=weight) for rows, weight in parts])


@dataclass(frozen=True)
class Contrast:
    """max wᵀS₁w / wᵀS₂w, S₁ of at most the given rank; where it is about two classes, with both."""

    signal: Sum
    noise: Sum
    names: tuple[str, str]
    rank: int
    classes: tuple[Any, Any] | None = None

    @property
    def d(self) -> int:
        """Number of features."""
        return self.noise.shape[0]

    def check(self, which: Which) -> None:
        """Raise, before any long work starts, if the row counts rule an answer out."""
        if which == "SA" and self.rank < self.d:
            raise ValueError(
                f"which='SA' or 'BE': {self.names[0]} has rank {self.rank} at most, so that all "
                f"other ratios of {self.d} features are zero, and none the smallest. Use 'LA', or "
                "exchange X and background."
            )
        if self.noise.lambda_min_bound == 0 and self.noise.data_rows < self.d > SMALL:
            raise self._singular()

    def solve(
        self,
        k: int,
        which: Which,
        method: Any,
        tol: float,
        rng: np.random.Generator,
        checkpoint: Checkpoint | None = None,
        resume: bool = False,
    ) -> EigenSolution:
        """The k directions at the end of the spectrum that `which` names.

        Directions without variance in both S₁ and S₂ are left out; those without variance in S₂
        alone make the ratio unbounded, which is an error.
        """
        A, B = _formed(self.signal), _formed(self.noise)
        settings = {"which": which, "method": method, "tol": tol, "rng": rng}
        try:
            return top_k(A, B, k, **settings, **_kept(checkpoint, resume))
        except NotPositiveDefiniteError as error:
            if self.d > SMALL:
                raise self._singular() from error
        Q = _common_range(A, B)
        if Q.shape[1] < k:
            raise ValueError(
                f"n_components={k} is more than the numerical rank {Q.shape[1]} of the data: ask "
                "for fewer components"
            )
        try:
            part = None if checkpoint is None else checkpoint.part("range")
            settings |= _kept(part, resume)
            solution = top_k(Q.T @ (A @ Q), Q.T @ (B @ Q), k, **settings)
        except NotPositiveDefiniteError as error:
            raise self._unbounded() from error
        self._warn_of_rank(Q.shape[1])
        return replace(solution, vectors=fix_signs(Q @ solution.vectors))

    def _warn_of_rank(self, rank: int) -> None:
        warnings.warn(
            f"the {self.d} features have numerical rank {rank}: constant or dependent ones add no "
            f"direction. Solved on their range; to regularise instead, try "
            f"reg={self.suggested_reg:.1g}.",
            RankDeficiencyWarning,
            stacklevel=5,
        )

    @property
    def suggested_reg(self) -> float:
        """A hundredth of the mean variance in S₂, or in S₁ where S₂ is zero."""
        means = (float(side.diagonal().mean()) for side in (self.noise, self.signal))
        return 0.01 * next((mean for mean in means if mean > 0), 1.0)

    def _singular(self) -> NotPositiveDefiniteError:
        """S₂ is singular, and there are too many features to look for a common range."""
        return self._error("is singular")

    def _unbounded(self) -> NotPositiveDefiniteError:
        return self._error(
            f"is singular where {self.names[0]} is not, so that their ratio has no maximum"
        )

    def _error(self, what: str) -> NotPositiveDefiniteError:
        return NotPositiveDefiniteError(
            f"{self.names[1]}, from {self.noise.data_rows} rows of {self.d} features, {what}. Add "
            f"a ridge, for example reg={self.suggested_reg:.1g} or shrinkage=0.01, or drop "
            "features that are constant or dependent."
        )


def _kept(checkpoint: Checkpoint | None, resume: bool) -> dict[str, Any]:
    """Settings of `top_k`: one of several runs resumes if it had begun."""
    begun = checkpoint is not None and checkpoint.exists
    return {"checkpoint": checkpoint, "resume": resume and begun}


def _common_range(A: Sum, B: Sum) -> Block:
    """A basis of the range of S₁ + S₂, whatever the scales of the two."""
    total = np.zeros(A.shape)
    for side in (A, B):
        trace = float(side.diagonal().sum())
        total += (side @ np.eye(len(total))) / (trace or 1.0)
    return range_basis((total + total.T) / 2)[0]


def _formed(total: Sum) -> Sum:
    """The same sum, with those terms formed whose matrices are cheaper than their rows."""
    return Sum([gram.formed() if _worth_forming(gram.rows) else gram for gram in total.terms])


def _worth_forming(rows: Rows) -> bool:
    if rows.is_sparse:
        return estimated_entries(rows, rows) <= rows.stored
    return rows.d <= min(rows.n, 2 * SMALL)


# --- Contrasts -----------------------------------------------------------------------------------


def against_background(X: Rows, background: Rows, ridge: Ridge, center: bool) -> Contrast:
    """The covariance of one data set against that of another, of any row count."""
    return Contrast(
        _scatter([(X, 1.0)], center),
        ridge.added([(background, 1.0)], center),
        ("the covariance of X", "the covariance of the background"),
        X.counted - center,
    )


def between_classes(groups: list[Rows], ridge: Ridge) -> Contrast:
    """Linear discriminant analysis: scatter of the class means against that within classes."""
    counts = np.array([rows.counted for rows in groups])
    shares = counts / counts.sum()
    means = np.array([rows.mean for rows in groups])
    deviations = means - shares @ means  # (classes, d)
    deviations[:, shares @ deviations**2 <= 100 * EPS**2 * (shares @ means**2)] = 0.0  # rounding
    weighted = Rows(np.sqrt(shares)[:, None] * deviations)
    return Contrast(
        _scatter([(weighted, float(len(groups)))], center=False),
        ridge.added(list(zip(groups, shares.tolist(), strict=True)), center=True),
        ("the between-class scatter", "the within-class scatter"),
        len(groups) - 1,
    )


def spatial_patterns(groups: list[Rows], ridge: Ridge, center: bool) -> Contrast:
    """Common spatial patterns: the covariance of the first class against the sum of both."""
    first, second = groups
    return Contrast(
        _scatter([(first, 1.0)], center),
        ridge.added([(first, 1.0), (second, 1.0)], center),
        ("the covariance of the first class", "the sum of the covariances of both classes"),
        first.counted - center,
    )


def class_pairs(
    groups: list[Rows], classes: Sequence[Any], ridge: Ridge, center: bool
) -> list[Contrast]:
    """The moment of class i against that of class j, for all ordered pairs."""
    signals = [_formed(_scatter([(rows, 1.0)], center)) for rows in groups]
    noises = [_formed(ridge.added([(rows, 1.0)], center)) for rows in groups]
    names = [f"the moment of class {name}" for name in classes]
    return [
        Contrast(
            signals[i],
            noises[j],
            (names[i], names[j]),
            groups[i].counted - center,
            (classes[i], classes[j]),
        )
        for i in range(len(groups))
        for j in range(len(groups))
        if i != j
    ]


# --- Several solutions as one --------------------------------------------------------------------


def joined(solutions: Sequence[EigenSolution]) -> EigenSolution:
    """Solutions side by side: all pairs, the largest bound, the first failure, the whole cost."""
    if len(solutions) == 1:
        return solutions[0]
    failures = (s.status for s in solutions if not s.converged)
    return EigenSolution(
        residuals=np.concatenate([s.residuals for s in solutions]),
        sin_theta_bound=max(s.sin_theta_bound for s in solutions),
        status=next(failures, Status.CONVERGED),
        cost=sum((s.cost for s in solutions), Cost()),
        trace=_one_after_the_other(solutions),
        values=np.concatenate([s.values for s in solutions]),
        vectors=np.hstack([s.vectors for s in solutions]),
    )


def _one_after_the_other(solutions: Sequence[EigenSolution]) -> Trace:
    """All records in order, counted on."""
    records: list[Record] = []
    before = Cost()
    for solution in solutions:
        done = len(records)
        records += [
            replace(
                record,
                iteration=done + record.iteration,
                seconds=before.seconds + record.seconds,
                passes=before.passes + record.passes,
                flops=before.flops + record.flops,
                applications=before.applications + record.applications,
            )
            for record in solution.trace
        ]
        before = before + solution.cost
    return Trace(records)
