"""`CCA`: canonical correlations for users of scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from genelin.data.as_rows import is_dask
from genelin.data.checked_arrays import as_numbers, refuse_extreme
from genelin.data.out_of_core import paired
from genelin.eigen.api import solve_cca
from genelin.estimators import persistence
from genelin.estimators.canonical_scores import Scores, mean_correlation, projected
from genelin.estimators.out_of_core_data import feature_rows, lazy_scores
from genelin.estimators.partial_fit import MOST_FEATURES, Moments, Reservoir
from genelin.estimators.progress import showing
from genelin.estimators.random_state import drawn_seed
from genelin.estimators.structure_coefficients import view_statistics
from genelin.inference.classical_tests import Significance, Spectrum
from genelin.linalg.column_products import Block, Vector
from genelin.operators import Rows, as_rows, is_row_container
from genelin.problems import TwoView
from genelin.results import CCASolution
from genelin.validation import check_flag, check_index, check_numbers, check_path

__all__ = ["CCA"]

FLOATS = (np.float64, np.float32)


class _Task(NamedTuple):
    """Rows to be solved, and how they came from the user's: (X − mean) / spread.

    `moved` is None for the user's own rows: what is taken off them is known once they are solved.
    """

    x: Rows
    y: Rows
    center: bool
    scale: bool
    counted: int  # rows behind it
    weighted: bool  # whether some of them count more than others
    moved: list[tuple[Vector, Vector]] | None = None  # mean and spread of each view


class CCA(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    RegressorMixin,  # type: ignore[misc]
    MultiOutputMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Canonical correlation analysis of dense, sparse, streamed or memory-mapped data.

    Finds weights for which the scores of X and y correlate most, S_xy ψ = ρ (S_x + reg·I) φ and
    likewise for y, in descending order of ρ. A replacement for
    `sklearn.cross_decomposition.CCA`, except that features are not scaled unless `scale=True`
    (which changes nothing but the units of weights and loadings as long as `reg` is 0).

    Parameters
    ----------
    n_components : int, default=2
        Number of canonical pairs, at most the smaller number of features.
    reg : float or pair of floats, default=0.0
        Ridge added to the covariances (which are divided by n), one for both views or one each.
    shrinkage : float or pair of floats, default=None
        Instead of `reg`: (1 − s)·S + s·tr(S)/d·I, with s in [0, 1].
    center : bool, default=True
        Subtract column means. Sparse data stay sparse.
    scale : bool, default=False
        Divide columns by their standard deviations. Sparse data stay sparse.
    method : eigen method, default=None
        None lets genelin choose; or `Dense()`, `Davidson()`, `CCALin()` with their settings.
    tol : float, default=1e-6
        Largest residual of a pair relative to the first correlation.
    max_iter : int, default=None
        Most outer iterations of an iterative method; None leaves it to the method.
    copy : bool, default=True
        For compatibility: X and y are never changed.
    warm_start : bool, default=False
        Let `fit` begin at the previous solution: for new rows, another `reg`, more components.
        It saves time where an iteration runs, not where the dense method does.
    random_state : int, RandomState instance or None, default=None
        Seed of the random start of an iteration.
    verbose : int, default=0
        1 shows progress, as a bar where rich is installed and output is a terminal, else a line a
        second; 2 a line for every iteration.
    checkpoint : folder or `genelin.io.Checkpoint`, default=None
        Where `fit` keeps the state of its run, as `top_k_cca` does: one folder for one fit at a
        time. `partial_fit` keeps nothing there, and `save` does not store this setting.
    resume : bool, default=False
        Let `fit` continue the run whose state is in `checkpoint`: the same data and settings.

    Attributes
    ----------
    canonical_correlations_ : ndarray of shape (n_components,)
        Generalized eigenvalues, descending: the correlations that the regularised problem has.
    score_correlations_ : ndarray of shape (n_components,)
        Plain correlations of the training scores; the same without regularisation.
    x_weights_, y_weights_ : ndarray of shape (n_features, n_components)
        Weights of the centred and scaled features, orthonormal in S + reg·I: without a ridge the
        scores have the identity as covariance (divided by n).
    x_rotations_, y_rotations_ : ndarray of shape (n_features, n_components)
        The same as the weights: (X − x_mean_) / x_scale_ @ x_rotations_ are the scores.
    x_loadings_, y_loadings_ : ndarray of shape (n_features, n_components)
        Least-squares coefficients of the features on their view's scores. With `scale=True` and
        no ridge these are the correlations of features with scores.
    x_explained_variance_ratio_, y_explained_variance_ratio_ : ndarray of shape (n_components,)
        Share of a view's variance that each of its own scores explains alone.
    x_redundancy_, y_redundancy_ : ndarray of shape (n_components,)
        Share of a view's variance that each score of the other view explains alone.
    coef_ : ndarray of shape (n_targets, n_features)
        Prediction is (X − x_mean_) @ coef_.T + intercept_. Made when asked for.
    intercept_ : ndarray of shape (n_targets,)
        The mean of y, zero if `center=False`.
    x_mean_, y_mean_, x_scale_, y_scale_ : ndarray of shape (n_features,)
        What was subtracted and divided by: zeros and ones where nothing was.
    n_iter_ : ndarray of shape (n_components,)
        Outer iterations, which all pairs share; 1 for a direct method.
    n_samples_seen_ : int
        Rows with a weight, in `fit` or in all calls of `partial_fit`.
    n_features_in_, feature_names_in_ : as in scikit-learn.
    solution_ : CCASolution
        The full result: residuals, bound on the angle, status, cost, trace.

    Notes
    -----
    Other programs scale the weights differently. With n = `n_samples_seen_`, divisor n − 1 and
    weights for raw features, MATLAB's `canoncorr` has A = x_rotations_ / x_scale_[:, None] ·
    √((n − 1)/n), and R's `cancor` has xcoef = x_rotations_ / x_scale_[:, None] / √n. In every
    column of `x_weights_` the entry of largest magnitude is positive, and correlations are never
    negative.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from genelin import CCA
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> cca = CCA(n_components=2).fit(X, Y)
    >>> cca.canonical_correlations_.round(4).tolist()
    [0.7956, 0.2006]
    >>> U, V = cca.transform(X, Y)
    >>> U.shape, round(cca.score(X, Y), 4)
    ((20, 2), 0.4981)
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        reg: Any = 0.0,
        shrinkage: Any = None,
        center: bool = True,
        scale: bool = False,
        method: Any = None,
        tol: float = 1e-6,
        max_iter: int | None = None,
        copy: bool = True,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: Any = None,
        resume: bool = False,
    ) -> None:
        self.n_components = n_components
        self.reg = reg
        self.shrinkage = shrinkage
        self.center = center
        self.scale = scale
        self.method = method
        self.tol = tol
        self.max_iter = max_iter
        self.copy = copy
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.resume = resume

    # --- Learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the canonical pairs of X and y.

        Parameters
        ----------
        X : (n, n_features) array, memmap, scipy.sparse matrix or array, data frame, or a Dask array
            or data frame, whose rows stay with its workers.
        y : (n, n_targets) of the same kinds, or (n,): the other view.
        sample_weight : (n,) weights of the rows, of which only the ratios matter.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.random.default_rng(0).standard_normal((30, 3))
        >>> float(CCA(1).fit(X, X[:, :2]).canonical_correlations_[0].round(6))
        1.0
        """
        self._check_parameters()
        x, other = self._training_rows(X, y, sample_weight, fewest=2)
        previous = self.solution_ if self.warm_start and self.__sklearn_is_fitted__() else None
        self.__dict__.pop("_stream", None)
        keeping = {"checkpoint": self.checkpoint, "resume": self.resume}
        return self._learn(self._task(x, other, x.counted), previous, **keeping)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Count another batch of rows, and find the canonical pairs of all rows so far.

        Views of up to 2048 features keep their means and covariances, so that the result is that
        of `fit` on all rows. Larger views keep a sample of the rows seen (all of them up to 16
        million stored numbers, then each with the same chance), and every call continues the
        iteration on that sample from where it was: beyond that size the answer is that of the
        sample, not of all rows.

        Every call solves: batches should have a few times as many rows as there are features.
        Until there are more rows than components nothing can be found, and the estimator stays
        unfitted. After `fit`, which keeps no rows, a stream begins anew, with a warning.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`; the ratios of weights count across batches.

        Examples
        --------
        >>> from sklearn.datasets import load_linnerud
        >>> X, Y = load_linnerud(return_X_y=True)
        >>> cca = CCA(1).partial_fit(X[:10], Y[:10]).partial_fit(X[10:], Y[10:])
        >>> cca.canonical_correlations_.round(6).tolist()
        [0.795608]
        """
        self._check_parameters()
        if is_row_container(X) or is_row_container(y):
            raise TypeError(
                "partial_fit takes batches that are in memory: give data on disk or with Dask to "
                "fit, which reads them in parts"
            )
        fresh = not hasattr(self, "_stream")
        if fresh and self.__sklearn_is_fitted__():
            warnings.warn(
                "partial_fit after fit begins anew, since fit keeps none of its rows: to add to "
                "them, give them to partial_fit too",
                UserWarning,
                stacklevel=2,
            )
            del self.solution_
        x, other = self._training_rows(X, y, sample_weight, fewest=1, reset=fresh)
        if fresh:
            self._stream = self._new_stream(x.d, other.d)
        for rows, name in ((x, "X"), (other, "y")):
            refuse_extreme(rows.largest, name)
        weights = _weights(sample_weight)
        task = self._streamed(x, other, float(x.n if weights is None else weights.sum()))
        if task.counted - self.center < self.n_components:
            return self
        return self._learn(task, self.solution_ if self.__sklearn_is_fitted__() else None)

    def _new_stream(self, *features: int) -> Moments | Reservoir:
        if max(features) <= MOST_FEATURES:
            return Moments()
        return Reservoir(self._seed())

    def _streamed(self, x: Rows, y: Rows, total: float) -> _Task:
        """The rows so far, with a batch whose weights sum to `total`."""
        stream = self._stream
        if isinstance(stream, Reservoir):
            weights = np.ones(x.n) if x.weights is None else x.weights
            stream.add(x.matrix, y.matrix, weights * (total / x.n))
            return self._task(*stream.rows(), stream.seen)
        stream.add(x, y, total)
        spread = stream.spread if self.scale else np.ones(len(stream.mean))
        parts = (np.split(part, [x.d]) for part in (stream.mean * self.center, spread))
        rows, counts = stream.rows(spread, self.center), (stream.counted, stream.weighted)
        return _Task(*rows, False, False, *counts, list(zip(*parts, strict=True)))

    def _task(self, x: Rows, y: Rows, counted: int) -> _Task:
        """To solve for these rows as they are."""
        return _Task(x, y, self.center, self.scale, counted, x.weights is not None)

    def _moved(self, rows: Rows) -> tuple[Vector, Vector]:
        """What was taken off the columns of rows, and what they were divided by."""
        mean = rows.mean if self.center else np.zeros(rows.d)
        if not self.scale:
            return mean, np.ones(rows.d)
        return mean, np.sqrt(np.where(rows.constant, 1.0, rows.variance))

    def _learn(self, task: _Task, previous: CCASolution | None, **keeping: Any) -> Self:
        """Solve, and copy what was found to attributes."""
        x, y, center, scale, counted, _, moved = task
        with showing(self.verbose, self.tol) as progress, _in_our_words():
            problem = TwoView(x, y, self.reg, center, scale, self.shrinkage)
            solution = solve_cca(
                problem,
                self.n_components,
                method=self.method,
                tol=self.tol,
                rng=self._seed(),
                callback=progress,
                settings=self._settings_for(task, previous),
                **keeping,
            )
            if progress is not None:
                progress.finish(solution)
        Wx, Wy = (
            np.where(rows.constant[:, None], 0.0, W) if center and rows.constant.any() else W
            for rows, W in ((x, solution.x_weights), (y, solution.y_weights))
        )
        of_x, of_y = view_statistics(problem, Wx, Wy)
        self.solution_ = solution
        self.canonical_correlations_ = solution.correlations
        self.score_correlations_ = solution.score_correlations
        self.x_weights_, self.y_weights_ = self.x_rotations_, self.y_rotations_ = Wx, Wy
        self.x_loadings_, self.y_loadings_ = of_x.loadings, of_y.loadings
        self.x_explained_variance_ratio_ = of_x.explained
        self.y_explained_variance_ratio_ = of_y.explained
        self.x_redundancy_, self.y_redundancy_ = of_x.redundancy, of_y.redundancy
        moved = [self._moved(rows) for rows in (x, y)] if moved is None else moved
        (self.x_mean_, self.x_scale_), (self.y_mean_, self.y_scale_) = moved
        self.n_iter_ = np.full(self.n_components, max(1, len(solution.trace)))
        self.n_samples_seen_ = counted
        self._y_from_x = of_y.from_other
        self._spectrum = self._tested(task, problem, solution)
        return self

    def _tested(self, task: _Task, problem: TwoView, solution: CCASolution) -> Spectrum:
        """What `significance` needs."""
        if self.shrinkage is not None or np.any(np.asarray(self.reg) > 0):
            return Spectrum.refused("reg=0 and no shrinkage")
        if task.weighted:
            return Spectrum.refused("rows of equal weight")
        n = task.counted if self.center else task.counted + 1
        return Spectrum.of(problem, solution, n)

    def _settings_for(self, task: _Task, previous: CCASolution | None) -> dict[str, Any]:
        """Settings of the method that the estimator has: where to start, how long to go on."""
        settings = dict[str, Any]()
        if previous is not None:
            known = len(previous.x_weights), len(previous.y_weights)
            settings = {"start": previous} if known == (task.x.d, task.y.d) else {}
        return settings if self.max_iter is None else settings | {"max_iter": self.max_iter}

    def _seed(self) -> int:
        return drawn_seed(self.random_state, 2**31 - 1)

    # --- Using what was learned ----------------------------------------------------------------

    def transform(self, X: Any, y: Any = None, copy: bool = True) -> Any:
        """Scores of X, or a pair with the scores of y.

        Parameters
        ----------
        X : (n, n_features) data.
        y : (n, n_targets) data of the other view, if its scores are wanted too.
        copy : for compatibility: X and y are never changed.

        Returns
        -------
        (n, n_components) array, or a pair of them; float32 for float32 data. For a Dask array or
        data frame it is a Dask array, which is not computed yet.

        Examples
        --------
        >>> from sklearn.datasets import load_linnerud
        >>> X, Y = load_linnerud(return_X_y=True)
        >>> CCA(2).fit(X, Y).transform(X).shape
        (20, 2)
        """
        check_is_fitted(self)
        check_flag("copy", copy)
        return self._x_scores(X) if y is None else Scores(self._x_scores(X), self._y_scores(y))

    def _x_scores(self, X: Any) -> Any:
        learned = self.x_mean_, self.x_scale_, self.x_rotations_
        return (
            lazy_scores(self, X, *learned) if is_dask(X) else projected(self._x_rows(X), *learned)
        )

    def _y_scores(self, y: Any) -> Any:
        learned = self.y_mean_, self.y_scale_, self.y_rotations_
        if is_dask(y):
            return lazy_scores(self, y, *learned, name="y")
        return projected(self._y_rows(y), *learned)

    def fit_transform(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit, and return the scores of X and y.

        Returns
        -------
        Scores
            A pair (x_scores, y_scores) that passes for the x-scores where an array is wanted, as
            in a pipeline.

        Examples
        --------
        >>> from sklearn.datasets import load_linnerud
        >>> X, Y = load_linnerud(return_X_y=True)
        >>> U, V = CCA(2).fit_transform(X, Y)
        >>> U.shape, V.shape
        ((20, 2), (20, 2))
        """
        return self.fit(X, y, sample_weight).transform(X, y)

    def inverse_transform(self, X: Any, y: Any = None) -> Any:
        """Features reconstructed from scores, by least squares.

        Parameters
        ----------
        X : (n, n_components) scores of X.
        y : (n, n_components) scores of y, if that view is wanted too.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_linnerud
        >>> X, Y = load_linnerud(return_X_y=True)
        >>> cca = CCA(3).fit(X, Y)
        >>> np.allclose(cca.inverse_transform(cca.transform(X)), X)
        True
        """
        check_is_fitted(self)
        scores = _scores(X, "X", self.x_loadings_)
        x = scores @ self.x_loadings_.T * self.x_scale_ + self.x_mean_
        if y is None:
            return x
        scores = _scores(y, "y", self.y_loadings_)
        return x, scores @ self.y_loadings_.T * self.y_scale_ + self.y_mean_

    def predict(self, X: Any, copy: bool = True) -> Any:
        """Predict y from X: the least-squares fit of y to the x-scores.

        Parameters
        ----------
        X : (n, n_features) data.
        copy : for compatibility: X is never changed.

        Examples
        --------
        >>> from sklearn.datasets import load_linnerud
        >>> X, Y = load_linnerud(return_X_y=True)
        >>> CCA(2).fit(X, Y).predict(X[:2]).round().tolist()
        [[177.0, 35.0, 56.0], [189.0, 38.0, 54.0]]
        """
        check_is_fitted(self)
        check_flag("copy", copy)
        y = self._x_scores(X) @ self._y_from_x.T * self.y_scale_ + self.intercept_
        return y.ravel() if self._flat else y

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean over components of the correlation between the scores of X and of y.

        On rows that were not in the fit it measures what generalises. A component whose scores do
        not vary counts as 0.

        Parameters
        ----------
        X, y : data of both views, of two rows at least.
        sample_weight : weights of the rows.

        Examples
        --------
        >>> from sklearn.datasets import load_linnerud
        >>> X, Y = load_linnerud(return_X_y=True)
        >>> round(CCA(1).fit(X[:15], Y[:15]).score(X[15:], Y[15:]), 3)
        0.576
        """
        check_is_fitted(self)
        _check_lengths(X, y)
        x, other = self._x_rows(X, sample_weight), self._y_rows(y)
        if x.counted < 2:
            raise ValueError("score needs two rows at least: a single one has no correlation")
        U = projected(x, self.x_mean_, self.x_scale_, self.x_rotations_)
        V = projected(other, self.y_mean_, self.y_scale_, self.y_rotations_)
        return mean_correlation(U, V, x.weights)

    def significance(self) -> Significance:
        """Wilks' lambda with Bartlett's χ² and Rao's F, per component.

        Row j tests that the correlations of component j and of all after it are zero. The tests
        need all min(n_features, n_targets) correlations: with fewer components they are found
        beside the fit for views of up to 256 features.

        Examples
        --------
        >>> from sklearn.datasets import load_linnerud
        >>> X, Y = load_linnerud(return_X_y=True)
        >>> CCA(1).fit(X, Y).significance().wilks_lambda.round(4).tolist()
        [0.3504, 0.9547, 0.9947]
        """
        check_is_fitted(self)
        return self._spectrum.tests()

    @property
    def coef_(self) -> Block:
        """(n_targets, n_features): prediction is (X − x_mean_) @ coef_.T + intercept_."""
        self._require("coef_")
        weights = self.x_rotations_ / self.x_scale_[:, None]
        coef: Block = self.y_scale_[:, None] * (self._y_from_x @ weights.T)
        return coef

    @property
    def intercept_(self) -> Vector:
        """(n_targets,) the mean of y, zero without centring."""
        self._require("intercept_")
        intercept: Vector = self.y_mean_
        return intercept

    def _require(self, name: str) -> None:
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"CCA has no attribute {name!r} before it is fitted")

    # --- Saving --------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to one file: safetensors, with its settings as JSON.

        Such a file holds numbers and text only; to load it runs none of its content. Needs
        safetensors (`pip install "genelin[io]"`).

        Parameters
        ----------
        path : where to; an existing file is replaced only once the new one is complete.

        Examples
        --------
        >>> import tempfile
        >>> from sklearn.datasets import load_linnerud
        >>> X, Y = load_linnerud(return_X_y=True)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     CCA(2).fit(X, Y).save(f"{folder}/model.safetensors")
        ...     CCA.load(f"{folder}/model.safetensors").canonical_correlations_.round(4).tolist()
        [0.7956, 0.2006]
        """
        check_is_fitted(self)
        persistence.save(self, check_path("path", path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an estimator that `save` has written; a damaged file is refused.

        Parameters
        ----------
        path : the file.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "model").write_bytes(b"something else")
        ...     CCA.load(f"{folder}/model")
        Traceback (most recent call last):
            ...
        ValueError: ...model is not a file of genelin, or is damaged: ...
        """
        cca: Self = persistence.load(cls, check_path("path", path))
        return cca

    # --- Input ---------------------------------------------------------------------------------

    def _training_rows(
        self, X: Any, y: Any, sample_weight: Any, fewest: int, reset: bool = True
    ) -> tuple[Rows, Rows]:
        if y is None:
            raise ValueError(
                "CCA requires y to be passed, but the target y is None: give the other view"
            )
        _check_lengths(X, y)
        x = self._x_rows(X, sample_weight, reset=reset, ensure_min_samples=fewest)
        other = self._y_rows(y, sample_weight, reset=reset)
        most = min(x.d, other.d)
        if self.n_components > most:
            raise ValueError(
                f"`n_components` upper bound is {most}, the smaller number of features. Got "
                f"{self.n_components} instead. Reduce `n_components`."
            )
        x, other = paired(x, other)
        return x, other

    def _x_rows(
        self, X: Any, sample_weight: Any = None, reset: bool = False, **options: Any
    ) -> Rows:
        if is_row_container(X):
            return feature_rows(self, X, _weights(sample_weight), reset)
        with _within_floats("X"):
            X = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=FLOATS,
                ensure_all_finite=False,  # `as_rows` says where
                **options,
            )
        return as_rows(X, "X", _weights(sample_weight))

    def _y_rows(self, y: Any, sample_weight: Any = None, reset: bool = False) -> Rows:
        if not is_row_container(y):
            with _within_floats("y"):
                y = check_array(
                    y,
                    input_name="y",
                    accept_sparse="csr",
                    dtype=FLOATS,
                    ensure_2d=False,
                    ensure_all_finite=False,
                )
        flat = len(y.shape) == 1
        column = y[:, None] if flat and not is_dask(y) else y
        rows = as_rows(column, "y", _weights(sample_weight))
        if reset:
            self._flat, self._n_targets = flat, rows.d
        if rows.d != self._n_targets:
            raise ValueError(f"y has {rows.d} columns, but CCA was fitted with {self._n_targets}")
        return rows

    def _check_parameters(self) -> None:
        """What `top_k_cca` does not look at."""
        for name, least in (("n_components", 1), ("max_iter", 1), ("verbose", 0)):
            value = getattr(self, name)
            if value is None and name == "max_iter":
                continue
            if isinstance(value, bool) and name == "verbose":
                continue
            check_index(name, value, least)
        for name in ("center", "scale", "copy", "warm_start"):
            check_flag(name, getattr(self, name))

    # --- scikit-learn --------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return int(self.x_rotations_.shape[1])

    def __sklearn_is_fitted__(self) -> bool:
        return "solution_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.regressor_tags.poor_score = True  # `score` is a correlation, and y may be anything
        return tags


@contextmanager
def _in_our_words() -> Iterator[None]:
    """What `top_k_cca` calls k is n_components here."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("k="):
            raise
        raise ValueError(f"n_components{str(error)[1:]}") from error


@contextmanager
def _within_floats(name: str) -> Iterator[None]:
    """Integers of any length are numbers for Python only."""
    try:
        yield
    except OverflowError as error:
        raise ValueError(f"{name} has an integer beyond the range of floating point") from error


def _check_lengths(X: Any, y: Any) -> None:
    """As far as lengths are known: Dask may have to compute them, and they are compared later."""
    if not (is_dask(X) or is_dask(y)):
        check_consistent_length(X, y)


def _scores(given: Any, name: str, loadings: Block) -> Any:
    """Scores to be turned into features again, a column for each component."""
    k = loadings.shape[1]
    scores = as_numbers(given, name)
    if scores.shape[1] != k or sparse.issparse(scores):
        raise ValueError(
            f"{name} must be dense scores with {k} columns, one for each component, got shape "
            f"{scores.shape}"
        )
    return scores


def _weights(sample_weight: Any) -> Any:
    """An array, or None where all rows count alike."""
    weights = None if sample_weight is None else check_numbers("sample_weight", sample_weight)
    return None if weights is None or weights.ndim == 0 else weights
