"""Principal components of a table with noise, holes and wrong cells."""

from typing import Any

import numpy as np
from scipy import special
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._journal import journal
from ..factor import FactorFit, FactorModel, fit_table
from ._base import checked_weights, require_room, shape_of, sparse_at, unchanged_if_refused
from ._factor import FactorEstimator, predicted_by_others, width_of
from ._frames import FrameParts, library_of, new_frame
from ._report import report_of, warn_of_identifiers

# The largest number of components that is looked for, if none is given.
_MOST = 12
# Memory that a fit takes, in tables of its size.
_MULTIPLE = 24


class RobustPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FactorEstimator):
    """Robust principal component analysis of tables with missing cells and outliers.

    It fits a robust factor model: a cell is the mean of its column, plus the scores of its row
    times the components, plus noise with a variance for each column; a share of the cells are
    outliers of any size. There is nothing to tune, and columns may have any units. A table without
    noise is recovered exactly.

    Parameters
    ----------
    n_components : int, optional
        Number of components. If None, the number that predicts held-out cells best. A table of
        lower rank gets fewer.
    max_components : int
        Largest number of components to try if ``n_components`` is None.
    loss : {'robust', 'squared'}
        ``'robust'`` tolerates outliers, ``'squared'`` assumes noise without outliers.
    centre : bool
        Whether to model column means.
    nonnegative : bool
        Whether components and scores are constrained to be nonnegative (a robust nonnegative
        matrix factorisation); needs ``centre=False``.
    max_seconds : float, optional
        Time limit; the fit then ends with its latest state.
    random_state : int, RandomState instance or None
        Chooses the held-out cells. The default gives the same answer every time.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    n_components_ : int
    mean_ : array of shape (n_features,)
    components_ : array of shape (n_components, n_features)
        Orthonormal rows (unless nonnegative), in descending order of their variance.
    explained_variance_ : array of shape (n_components,)
        Variance of each component.
    explained_variance_ratio_ : array of shape (n_components,)
        Share of each component in the total variance, noise included.
    noise_variance_ : array of shape (n_features,)
        Noise variance of each column.
    reconstruction_ : array of shape (n_samples, n_features)
        Mean plus scores times components, for every cell. A data frame if one was fitted.
    cleaned_ : array of shape (n_samples, n_features)
        The table with missing cells and outliers replaced. A data frame if one was fitted, with
        its other columns unchanged.
    standard_error_ : array of shape (n_samples, n_features)
        Standard error with which the other cells predict each cell; for missing cells and
        outliers, that of the replacement. Infinite if too little is known.
    outliers_ : sparse array of shape (n_samples, n_features), or data frame
        Errors of the outliers. If a data frame was fitted: one line per outlier, with its row,
        its column, its value, what it should be, and the standard error of that.
    scores_ : array of shape (n_samples, n_components)
    report_ : TableReport
        How well held-out cells are predicted, the coverage of intervals, and doubtful rows and
        columns; ``summary()`` prints it.
    status_ : str
        ``"EXACT"`` or ``"NOISE_LEVEL"`` if the model predicts; otherwise the reason.
    n_iter_ : int
    n_features_in_ : int

    See Also
    --------
    MatrixCompletion : for sparsely observed matrices, such as ratings.

    Examples
    --------
    >>> import numpy as np
    >>> from lemmax.estimators import RobustPCA
    >>> rng = np.random.default_rng(0)
    >>> truth = 5 + rng.standard_normal((100, 2)) @ rng.standard_normal((2, 30))
    >>> table = truth.copy()
    >>> table[rng.random(table.shape) < 0.1] = 99.0
    >>> table[rng.random(table.shape) < 0.1] = np.nan
    >>> model = RobustPCA().fit(table)
    >>> model.status_, model.n_components_, bool(np.allclose(model.cleaned_, truth))
    ('EXACT', 2, True)
    """

    mean_: np.ndarray
    components_: np.ndarray
    explained_variance_: np.ndarray
    explained_variance_ratio_: np.ndarray
    scores_: np.ndarray
    # Data frames, if that was fitted.
    reconstruction_: Any
    cleaned_: Any
    standard_error_: Any

    def __init__(
        self,
        n_components: Any = None,
        *,
        max_components: Any = _MOST,
        loss: Any = "robust",
        centre: Any = True,
        nonnegative: Any = False,
        max_seconds: Any = None,
        random_state: Any = 0,
        verbose: Any = False,
    ):
        self.n_components = n_components
        self.max_components = max_components
        self.loss = loss
        self.centre = centre
        self.nonnegative = nonnegative
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose

    @unchanged_if_refused
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        weights: Any = None,
        checkpoint: Any = None,
    ) -> "RobustPCA":
        """Fit mean, components and outliers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or data frame of pandas or polars
            NaN (None, null) marks missing cells. Columns of a data frame that are not numeric are
            left out of the fit. In a column of text that is mostly numbers, the other cells are
            missing. A warning names them.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows: inverse relative noise variances. Rows with weight 0 are missing.
        weights : array-like of the shape of X, optional
            Weights of the cells.
        checkpoint : str or Path, optional
            A folder to which the state is saved about every second. If the process is killed, the
            same call continues from there; see docs/devices.md.
        """
        require_room("RobustPCA", shape_of(X), _MULTIPLE)
        X, frame = self._validated(X, reset=True, ensure_min_samples=2)
        weights = _cell_weights(X.shape, sample_weight, weights)
        if weights is not None:
            X = np.where(weights > 0, X, np.nan)
        self._check_table(X)
        options = self._options(centred=bool(self.centre))
        self._forget()
        if self.nonnegative and self.centre:
            raise ValueError("Nonnegative components need centre=False: a mean has a sign.")
        with (
            journal(checkpoint, "RobustPCA", X, weights, options, self.nonnegative),
            self._limits() as limits,
        ):
            if self.nonnegative:
                from ._nonnegative import nonnegative_parts

                self._take_parts(X, nonnegative_parts(self, X, weights, options))
            else:
                self._take(X, fit_table(X, weights, options, **limits))
        self._hand_over(X, frame)
        if self.nonnegative:
            self._warn()
        else:
            self._warn_of_report()
            if frame is not None:
                warn_of_identifiers(X, frame.numeric, self.report_.alone)
        return self

    def _check_table(self, X: np.ndarray) -> None:
        if np.all(np.isnan(X)):
            raise ValueError("There is nothing but missing entries: no value is observed.")
        empty = np.flatnonzero(np.all(np.isnan(X), axis=0))
        if len(empty):
            names = getattr(self, "feature_names_in_", np.arange(X.shape[1]))
            listed = ", ".join(str(names[k]) for k in empty[:5])
            raise ValueError(
                f"Column {listed} holds no values: every entry of it is missing."
                if len(empty) == 1
                else f"Columns {listed} hold no values: every entry of them is missing."
            )

    def _take(self, X: np.ndarray, found: FactorFit) -> None:
        """Attributes in the units of the table."""
        left, sizes, _ = np.linalg.svd(found.loadings, full_matrices=False)
        rank = np.arange(found.rank)
        self.components_ = (left * np.where(left[np.argmax(np.abs(left), 0), rank] < 0, -1, 1)).T
        self.explained_variance_ = sizes**2
        self.mean_, self.noise_variance_ = found.location, found.noise_variance
        total = float(np.sum(self.explained_variance_) + np.sum(self.noise_variance_))
        self.explained_variance_ratio_ = self.explained_variance_ / (total if total > 0 else 1.0)
        self.n_components_ = found.rank
        self.factor_model_ = found.state()
        self.scores_ = self._scores(found, found.scores)
        self.reconstruction_ = found.values()
        self.standard_error_ = found.standard_errors()
        holes = int(np.sum(np.isnan(X)))
        self._wrong = found.wrong
        self._take_report(report_of(found, X.size - holes, int(found.wrong.sum()), holes))

    def _take_parts(self, X: np.ndarray, found: Any) -> None:
        """Set the attributes of a nonnegative factorisation; errors are from the noise alone."""
        self.components_, self.scores_ = found.components, found.scores
        self.n_components_, width = len(found.components), X.shape[1]
        self.explained_variance_ = np.mean(found.scores**2, axis=0)
        self.mean_ = np.zeros(width)
        noise = self.noise_ if np.isfinite(self.noise_) else 0.0
        self.noise_variance_ = np.full(width, noise**2)
        total = float(np.sum(self.explained_variance_) + np.sum(self.noise_variance_))
        self.explained_variance_ratio_ = self.explained_variance_ / (total if total > 0 else 1.0)
        self.reconstruction_ = found.scores @ found.components
        self.standard_error_ = np.full(X.shape, noise)
        vars(self).pop("factor_model_", None)
        self._wrong = found.wrong

    def _scores(self, model: FactorModel, scores: np.ndarray) -> np.ndarray:
        """From the standardised scores of the model to those of the components."""
        return scores @ (model.loadings.T @ self.components_.T)

    def _hand_over(self, X: np.ndarray, frame: FrameParts | None) -> None:
        """The table without its errors, as an array or as a frame like the one that was given."""
        changed = np.isnan(X) | self._wrong
        cleaned = np.where(changed, self.reconstruction_, X)
        places = np.nonzero(self._wrong)
        if frame is None:
            self.cleaned_ = cleaned
            self.outliers_ = sparse_at(places, (X - self.reconstruction_)[places], X.shape)
            return
        self.cleaned_ = frame.like(cleaned, changed)
        numbers = {
            "was": X[places],
            "should be": self.reconstruction_[places],
            "error": self.standard_error_[places],
        }
        self.outliers_ = frame.tidy(places, numbers)
        self.reconstruction_ = frame.like(self.reconstruction_)
        self.standard_error_ = frame.like(self.standard_error_)

    def summary(self) -> str:
        """The verdict and the result, in a few lines."""
        check_is_fitted(self)
        if not hasattr(self, "report_"):
            return super().summary()
        names = getattr(self, "feature_names_in_", None)
        index = getattr(getattr(self, "reconstruction_", None), "index", None)
        return self.report_.summary(
            str if index is None else lambda k: str(index[k]),
            str if names is None else lambda k: str(names[k]),
        )

    def _new(self, X: Any) -> tuple[np.ndarray, FrameParts | None]:
        check_is_fitted(self)
        return self._validated(X, reset=False)

    def transform(self, X: Any) -> np.ndarray:
        """Scores of rows; missing cells and outliers are ignored.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or data frame
        """
        return self._transformed(self._new(X)[0])

    def _transformed(self, X: np.ndarray) -> np.ndarray:
        if self.nonnegative:
            from ._nonnegative import nonnegative_scores

            return nonnegative_scores(X, self.components_, self.loss)
        model = self._model()
        return self._scores(model, model.new_rows(X).scores)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Rows from their scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        scores = np.asarray(X, np.float64)
        if scores.ndim != 2 or scores.shape[1] != self.n_components_:
            raise ValueError(
                f"Scores have {self.n_components_} columns, one for each component; got shape "
                f"{scores.shape}."
            )
        return scores @ self.components_ + self.mean_

    def impute(self, X: Any, return_std: bool = False) -> Any:
        """Replace missing cells and outliers of rows, whether they were part of the fit or not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or data frame
        return_std : bool
            Whether to return standard errors, too: those with which the other cells of a row
            predict each cell.

        Returns
        -------
        array or data frame like X; with ``return_std`` a pair of these
        """
        X, frame = self._new(X)
        if self.nonnegative:
            values = self._transformed(X) @ self.components_
            errors = np.broadcast_to(np.sqrt(self.noise_variance_), X.shape)
            changed = np.isnan(X)
        else:
            rows = self._model().new_rows(X)
            values, errors, changed = rows.values, rows.standard_errors, np.isnan(X) | rows.wrong
        cleaned = np.where(changed, values, X)
        if frame is not None:
            # All columns of numbers are floats, whether or not a cell of them was replaced.
            cleaned = frame.like(cleaned, np.ones_like(changed))
            errors = frame.like(np.asarray(errors))
        return (cleaned, errors) if return_std else cleaned

    def predict_interval(self, level: Any = 0.9) -> tuple[Any, Any]:
        """Intervals that contain the true value of each fitted cell with a given probability.

        They are calibrated on held-out cells.

        Parameters
        ----------
        level : float
            The probability, between 0 and 1.

        Returns
        -------
        pair of arrays (or data frames) of the shape of the table
        """
        check_is_fitted(self)
        if not hasattr(self, "standard_error_"):
            raise ValueError(
                "The model was loaded, and data frames are not stored with it: fit it again, or "
                "use impute(X, return_std=True)."
            )
        frame: Any = self.reconstruction_
        error = np.asarray(self.standard_error_)
        if self.nonnegative:
            half = special.ndtri((1 + level) / 2) * error
        else:
            model = self._model()
            half = np.maximum(width_of(level, model) * error, model.rounding)
        bounds = np.asarray(frame) - half, np.asarray(frame) + half
        if library_of(frame) is None:
            return bounds
        lower, upper = (new_frame(frame, each, list(frame.columns)) for each in bounds)
        return lower, upper

    def score(self, X: Any, y: Any = None) -> float:
        """Negative mean absolute error of predicting a cell from the others of its row.

        Errors are in units of the columns (robust standard deviations).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or data frame
        y : ignored
        """
        X, _ = self._new(X)
        unit = np.nanstd(X, axis=0) if self.nonnegative else self._model().scale
        predicted = predicted_by_others(
            X, lambda hidden: self.inverse_transform(self._transformed(hidden))
        )
        return -float(np.nanmean(np.abs(predicted - X) / unit))

    @property
    def _n_features_out(self) -> int:
        return self.n_components_


def _cell_weights(shape: tuple[int, int], sample_weight: Any, weights: Any) -> np.ndarray | None:
    """Weights of rows and of cells as weights of cells."""
    weights = checked_weights(weights, shape)
    if sample_weight is None:
        return weights
    rows = checked_weights(sample_weight, shape[:1])
    assert rows is not None
    if not np.any(rows):
        raise ValueError("All sample weights are zero: nothing is left to fit.")
    return rows[:, None] * (np.ones(shape) if weights is None else weights)
