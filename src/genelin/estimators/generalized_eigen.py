"""`GeneralizedEigen`: directions along which one covariance is large against another."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from genelin.data.as_rows import is_dask
from genelin.data.checked_arrays import LARGEST, refuse_extreme
from genelin.errors import CheckpointWarning, RankDeficiencyWarning
from genelin.estimators.canonical_scores import projected
from genelin.estimators.contrasts import (
    Contrast,
    Ridge,
    against_background,
    between_classes,
    class_pairs,
    joined,
    spatial_patterns,
)
from genelin.estimators.out_of_core_data import feature_rows, lazy_scores
from genelin.estimators.random_state import drawn_seed
from genelin.io import Checkpoint
from genelin.linalg import Which
from genelin.linalg.column_products import Block
from genelin.operators import Rows, is_row_container
from genelin.results import EigenSolution
from genelin.validation import check_count, check_flag, check_number

__all__ = ["GeneralizedEigen"]

ENDS = ("LM", "LA", "SA", "BE")
CRITERIA = ("lda", "csp", "class-pairs")


class GeneralizedEigen(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Directions w that maximise wᵀS₁w / wᵀS₂w, from two data sets or from classes.

    With a `background`, S₁ and S₂ are the covariances of X and of the background, which may have
    any number of rows: what varies in X but not there. With class labels y, `criterion` says what
    they are. Sparse data are never made dense; covariances are divided by their numbers of rows.

    Parameters
    ----------
    n_components : int, default=2
        Number of directions; for `criterion="class-pairs"` from every ordered pair of classes.
    which : {"LM", "LA", "SA", "BE"}, default="LM"
        End of the spectrum: the largest ratios ("LM" and "LA" agree, as no ratio is negative),
        the smallest ("SA", for an S₁ of full rank), or both ends ("BE": the larger half of the
        components from the top, then the others from the bottom), as is usual for common spatial
        patterns.
    criterion : {"lda", "csp", "class-pairs"}, default="lda"
        What class labels mean; not used with a background.

        - "lda": linear discriminant analysis, scatter of the class means against scatter within
          classes, at most n_classes − 1 directions;
        - "csp": common spatial patterns of two classes, the covariance of the first against the
          sum of both, so that ratios lie in [0, 1];
        - "class-pairs": second moments E[xxᵀ | i] against E[xxᵀ | j] for all classes i ≠ j
          (Karampatziakis & Mineiro 2014), which need a ridge where a feature is constant in a
          class. Their regulariser γ·tr(S₂)/d·I is `shrinkage=γ/(1 + γ)`, up to a factor 1 − s in
          S₂. Follow it by a nonlinearity, as they do.
    reg : float, default=0.0
        Ridge on S₂: S₂ + reg·I.
    shrinkage : float in [0, 1], default=None
        Instead of reg: (1 − s)·S₂ + s·tr(S₂)/d·I.
    center : bool, default=None
        Whether moments are taken about the mean of each data set or class. None: yes, except for
        "class-pairs". "lda" is always centred.
    method : eigen method, default=None
        As in `top_k`: None chooses, or for example `Davidson()` or `GenELinK(solver)`.
    tol : float, default=1e-8
        As in `top_k`: bound on the residual of every pair.
    random_state : int, RandomState or None, default=None
        Of the random start of iterative methods.
    checkpoint : folder or `genelin.io.Checkpoint`, default=None
        Where `fit` keeps the state of its runs, as `top_k` does; several problems (both ends,
        class pairs) have a folder each within.
    resume : bool, default=False
        Let `fit` continue what is in `checkpoint`: the same data and settings.

    Attributes
    ----------
    components_ : (n_components, n_features) directions w, with wᵀS₂w = 1 (ridge included); the
        entry of largest magnitude is positive.
    rotations_ : (n_features, n_components), the same as columns: `transform` is
        (X − mean_) @ rotations_.
    eigenvalues_ : (n_components,) ratios wᵀS₁w / wᵀS₂w.
    mean_ : (n_features,) what `transform` subtracts: the mean of X, zero where not centred.
    classes_ : class labels, where y was used.
    class_pairs_ : (n_components, 2) classes i and j of every direction, for "class-pairs".
    solution_ : `EigenSolution` with residuals, status, cost and trace; of several problems (both
        ends, class pairs) one after the other.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn.

    Warns
    -----
    RankDeficiencyWarning
        If features are constant or dependent (the answer is on their range), or if there are
        fewer than `n_components` discriminants.
    ConvergenceWarning
        If the tolerance was not reached.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import GeneralizedEigen
    >>> rng = np.random.default_rng(0)
    >>> background = rng.standard_normal((500, 3)) * [9.0, 1.0, 1.0]
    >>> X = rng.standard_normal((300, 3)) * [9.0, 1.0, 4.0]
    >>> contrast = GeneralizedEigen(n_components=1).fit(X, background=background)
    >>> int(np.abs(contrast.components_[0]).argmax())
    2

    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris()
    >>> lda = GeneralizedEigen(criterion="lda").fit(iris.data, iris.target)
    >>> lda.eigenvalues_.round(4).tolist()
    [32.1919, 0.2854]
    >>> lda.transform(iris.data).shape
    (150, 2)
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        which: str = "LM",
        criterion: str = "lda",
        reg: float = 0.0,
        shrinkage: float | None = None,
        center: bool | None = None,
        method: Any = None,
        tol: float = 1e-8,
        random_state: Any = None,
        checkpoint: Any = None,
        resume: bool = False,
    ) -> None:
        self.n_components = n_components
        self.which = which
        self.criterion = criterion
        self.reg = reg
        self.shrinkage = shrinkage
        self.center = center
        self.method = method
        self.tol = tol
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.resume = resume

    def fit(self, X: Any, y: Any = None, *, background: Any = None) -> GeneralizedEigen:
        """Find the directions.

        Parameters
        ----------
        X : (n_samples, n_features) array, data frame or scipy.sparse matrix.
        y : (n_samples,) class labels; ignored when a background is given.
        background : (any number of rows, n_features), of the same kinds as X.

        Returns
        -------
        self
        """
        self._check_parameters()
        if background is None:
            contrasts = self._of_classes(X, y)
        else:
            contrasts = [self._of_two_sets(X, background)]
        k = self._wanted(contrasts[0].d)
        rng = np.random.default_rng(drawn_seed(self.random_state, 2**31))
        tasks = [(contrast, *end) for contrast in contrasts for end in _ends(self.which, k)]
        for contrast, end, _ in tasks:
            contrast.check(end)
        numbered = [(number, *task) for number, task in enumerate(tasks)]
        self.solution_ = joined(list(starmap(partial(self._solved, rng), numbered)))
        self.eigenvalues_ = self.solution_.values
        self.components_ = np.ascontiguousarray(self.solution_.vectors.T)
        pairs = [contrast.classes for contrast in contrasts if contrast.classes is not None]
        if pairs:
            self.class_pairs_ = np.repeat(np.array(pairs), k, axis=0)
        return self

    def transform(self, X: Any) -> Any:
        """Scores (X − mean_) @ rotations_, of shape (n_samples, n_components), dense.

        Parameters
        ----------
        X : (n_samples, n_features) array, data frame or scipy.sparse matrix.
        """
        check_is_fitted(self)
        if is_dask(X):
            ones = np.ones(len(self.mean_))
            return lazy_scores(self, X, self.mean_, ones, self.rotations_)
        X = self._validated(X, reset=False)
        if isinstance(X, Rows):
            scores: NDArray[Any] = projected(X, self.mean_, np.ones(X.d), self.rotations_)
            return scores
        R = self.rotations_.astype(X.dtype, copy=False)
        moved: NDArray[Any] = np.asarray(X @ R) - (self.mean_ @ self.rotations_).astype(X.dtype)
        return moved

    @property
    def rotations_(self) -> Block:
        """The directions as columns."""
        return self.components_.T

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True  # or a background
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # --- From data to contrasts ------------------------------------------------------------------

    def _validated(self, X: Any, y: Any = "no_validation", reset: bool = True) -> Any:
        if is_row_container(X):
            rows = feature_rows(self, X, reset=reset)
            return rows if isinstance(y, str) else (rows, column_or_1d(np.asarray(y)))
        least = 2 if reset else 1
        kinds = [np.float64, np.float32]
        try:
            return validate_data(
                self, X, y, reset=reset, accept_sparse="csr", dtype=kinds, ensure_min_samples=least
            )
        except OverflowError as error:
            raise ValueError(f"X has a whole number that no float can hold: {error}") from error

    def _of_two_sets(self, X: Any, background: Any) -> Contrast:
        data = _rows(self._validated(X), "X")
        self._forget_classes()
        try:
            validated = self._validated(background, reset=False)
        except ValueError as error:
            raise ValueError(f"background does not fit X: {error}") from error
        other = _rows(validated, "background")
        center = self.center is not False
        self.mean_ = data.mean if center else np.zeros(data.d)
        return against_background(data, other, Ridge(self.reg, self.shrinkage), center)

    def _of_classes(self, X: Any, y: Any) -> list[Contrast]:
        if y is None:
            raise ValueError(
                "GeneralizedEigen requires y to be passed, but the target y is None: give class "
                "labels y, or a second data set as background="
            )
        X, y = self._validated(X, y)
        check_classification_targets(y)
        self._forget_classes()
        self.classes_, labels = np.unique(y, return_inverse=True)
        self._check_classes()
        center = self.criterion != "class-pairs" if self.center is None else bool(self.center)
        rows = _rows(X, "X")
        self.mean_ = rows.mean if center else np.zeros(rows.d)
        groups = [rows.selected(labels == c) for c in range(len(self.classes_))]
        ridge = Ridge(self.reg, self.shrinkage)
        if self.criterion == "lda":
            return [between_classes(groups, ridge)]
        if self.criterion == "csp":
            return [spatial_patterns(groups, ridge, center)]
        return class_pairs(groups, self.classes_.tolist(), ridge, center)

    def _solved(
        self, rng: np.random.Generator, number: int, contrast: Contrast, end: Which, count: int
    ) -> EigenSolution:
        part = None
        if self.checkpoint is not None:
            part = Checkpoint.of(self.checkpoint).part(f"problem-{number}")
        return contrast.solve(count, end, self.method, self.tol, rng, part, self.resume)

    def _forget_classes(self) -> None:
        for name in ("classes_", "class_pairs_"):
            self.__dict__.pop(name, None)

    def _wanted(self, d: int) -> int:
        """Directions per problem."""
        k = self.n_components
        if k > d:
            raise ValueError(f"n_components={k} must be at most n_features={d}")
        discriminants = len(getattr(self, "classes_", ())) - 1
        of_classes = discriminants > 0 and self.criterion == "lda"
        if not of_classes or k <= discriminants:
            return k
        warnings.warn(
            f"n_components={k}, but {discriminants + 1} classes have only {discriminants} linear "
            "discriminants: those are returned. Ask for fewer, or use criterion='class-pairs'.",
            RankDeficiencyWarning,
            stacklevel=3,
        )
        return discriminants

    # --- Checks ----------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_count("n_components", self.n_components)
        for name, known in (("which", ENDS), ("criterion", CRITERIA)):
            value = getattr(self, name)
            if not isinstance(value, str) or value not in known:
                raise ValueError(f"{name}={value!r} is not known: use one of {', '.join(known)}")
        if self.center is not None:
            check_flag("center", self.center)
        self._check_checkpoint()
        check_number("reg", self.reg, 0, LARGEST)
        if self.shrinkage is not None:
            check_number("shrinkage", self.shrinkage, 0, 1)
            if self.reg != 0:
                raise ValueError("reg and shrinkage exclude each other: give one of them")

    def _check_checkpoint(self) -> None:
        check_flag("resume", self.resume)
        if self.checkpoint is None:
            if self.resume:
                raise ValueError("resume=True needs checkpoint=, the folder to resume from")
            return
        folder = Path(Checkpoint.of(self.checkpoint).folder)
        if self.resume and not any(folder.glob("problem-*")):
            warnings.warn(
                f"resume=True, but there is no checkpoint in {str(folder)!r}: starting anew",
                CheckpointWarning,
                stacklevel=4,
            )

    def _check_classes(self) -> None:
        count = len(self.classes_)
        if count < 2:
            raise ValueError(
                f"y has one class, {self.classes_.tolist()}: discriminating needs at least two"
            )
        if self.criterion == "csp" and count != 2:
            raise ValueError(
                f"criterion='csp' needs two classes, y has {count}: use criterion='class-pairs', "
                "or fit one class against the others"
            )
        if self.criterion == "lda" and self.center is not None and not self.center:
            raise ValueError("criterion='lda' is about class means: center=False has no meaning")


def _rows(X: Any, name: str) -> Rows:
    rows = X if isinstance(X, Rows) else Rows(X)
    refuse_extreme(rows.largest, name)
    return rows


def _ends(which: Any, k: int) -> Iterator[tuple[Which, int]]:
    """Ends of the spectrum and how many components of each."""
    if which != "BE":
        yield which, k
        return
    yield "LA", (k + 1) // 2
    if k > 1:
        yield "SA", k // 2
