"""A matrix from some of its entries, such as ratings."""

from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._checks import check_positive, warn_user
from .._journal import journal
from ..factor import FactorFit, fit_entries
from ._base import require_room, sparse_at, unchanged_if_refused
from ._entries import (
    CURE,
    Entries,
    dense_with_gaps,
    entries_of,
    numbers_of,
    parts_of_list,
    places_of,
    unseen_sentences,
)
from ._factor import FactorEstimator, predicted_by_others, width_of
from ._frames import checked_frame, library_of
from ._report import report_of

# The largest number of components that is looked for, if none is given.
_MOST = 12
# Memory that a fit takes, in lists of entries.
_MULTIPLE = 9


class MatrixCompletion(OneToOneFeatureMixin, TransformerMixin, FactorEstimator):
    """Low-rank completion of a matrix from noisy entries with outliers, such as ratings.

    An entry is an offset, plus effects of its row and its column, plus the scores of the row times
    the loadings of the column, plus noise. The number of components and the shrinkage are
    estimated.

    Parameters
    ----------
    n_components : int, optional
        Number of components. If None, the number that predicts held-out entries best.
    max_components : int
        Largest number of components to try if ``n_components`` is None.
    loss : {'robust', 'squared'}
        ``'robust'`` tolerates outliers, ``'squared'`` assumes noise without outliers.
    effects : bool or 'auto'
        Whether rows have effects and all columns one unit, as for ratings by users of items.
        'auto': for lists of entries and sparse matrices. Without effects every column has its own
        unit and noise variance, as in `RobustPCA`.
    clip : bool
        Whether to clip predictions to the range of the observed values.
    columns : three names, optional
        Names of the columns with rows, columns and values, if X is a data frame with a list of
        entries; for an array of shape (entries, 3 or more), their positions. Not needed for a data
        frame with columns named user, item and rating, or similar (see ``fit``), or with three
        columns, the first two of which contain names or integers.
    shape : pair of int, optional
        Shape of the matrix, if it is given as a list with integers for rows and columns. Default:
        the rows and columns that occur.
    max_seconds : float, optional
        Time limit; the fit then ends with its latest state.
    random_state : int, RandomState instance or None
        Chooses the held-out entries. The default gives the same answer every time.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    n_components_ : int
    row_factors_ : array of shape (n_rows, n_components)
    column_factors_ : array of shape (n_columns, n_components)
    offset_, row_effects_, column_effects_ : float and arrays
    row_ids_, column_ids_ : arrays
        Names of the rows and columns.
    noise_variance_ : array of shape (n_columns,)
    outliers_ : sparse array, or data frame
        Errors of the outliers; for a data frame, one line per outlier.
    entry_columns_ : three names, or None
        Names of the columns with rows, columns and values, if a list of entries was fitted.
    range_ : pair of float
        Range of the observed values without outliers.
    report_ : TableReport
        How well held-out entries are predicted; ``summary()`` prints it.
    status_ : str
    n_iter_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from lemmax.estimators import MatrixCompletion
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 40))
    >>> table = np.where(rng.random(truth.shape) < 0.5, truth, np.nan)
    >>> model = MatrixCompletion().fit(table)
    >>> model.status_, bool(np.allclose(model.predict([[3, 7]])[0], truth[3, 7]))
    ('EXACT', True)

    Ratings, with names:

    >>> users = np.repeat([f"user {k}" for k in range(20)], 12)
    >>> films = np.tile([f"film {k:02}" for k in range(12)], 20)
    >>> stars = 3 + np.repeat(rng.standard_normal(20), 12) + np.tile(np.linspace(-1, 1, 12), 20)
    >>> model = MatrixCompletion().fit((users, films, stars))
    >>> best, values = model.recommend("user 3", 2, include_known=True)  # who has rated all
    >>> best.tolist()
    ['film 11', 'film 10']
    """

    _cure_of_text = CURE

    row_factors_: np.ndarray
    column_factors_: np.ndarray
    row_effects_: np.ndarray
    column_effects_: np.ndarray
    row_ids_: np.ndarray
    column_ids_: np.ndarray
    offset_: float
    range_: tuple[float, float]
    entry_columns_: Any
    # Columns of the known entries, row by row, and where the rows begin.
    known_columns_: np.ndarray
    known_starts_: np.ndarray

    def __init__(
        self,
        n_components: Any = None,
        *,
        max_components: Any = _MOST,
        loss: Any = "robust",
        effects: Any = "auto",
        clip: Any = True,
        columns: Any = None,
        shape: Any = None,
        max_seconds: Any = None,
        random_state: Any = 0,
        verbose: Any = False,
    ):
        self.n_components = n_components
        self.max_components = max_components
        self.loss = loss
        self.effects = effects
        self.clip = clip
        self.columns = columns
        self.shape = shape
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        """Sparse matrices are welcome: what is not stored is missing."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @unchanged_if_refused
    def fit(
        self, X: Any, y: Any = None, weights: Any = None, checkpoint: Any = None
    ) -> "MatrixCompletion":
        """Fit the matrix.

        Parameters
        ----------
        X : table, sparse matrix or list of entries
            An array or data frame in which NaN marks missing entries; a sparse matrix, whose
            entries that are not stored are missing, not zero; or a list: a tuple (rows, columns,
            values), or a data frame with such columns. Rows and columns of a list may have any
            names.

            A data frame is a list if ``columns`` is given; if it has exactly one column each named
            user, row or customer, item, movie, film, product, book or column, and rating, value,
            score or stars (also in the plural, in capitals, and with ``_id``), in any order and
            perhaps among others; or if it has three columns, the first two of which contain names
            or integers. All other data frames are tables, and so are arrays, unless ``columns`` is
            given.
        y : array-like, optional
            Values, if X contains pairs (row, column) as for `predict`.
        weights : array-like, optional
            Weights of the entries, in the shape of X, or one per entry of a list.
        checkpoint : str or Path, optional
            A folder to which the state is saved about every second. If the process is killed, the
            same call continues from there; see docs/devices.md.

        Returns
        -------
        self
        """
        if self.effects not in (True, False, "auto"):
            raise ValueError(f"effects must be True, False or 'auto'; got {self.effects!r}.")
        options = self._options()
        entries = entries_of(self, X, y, weights)
        # Of each entry: row, column, value.
        require_room("MatrixCompletion", entries.shape, _MULTIPLE, 3 * len(entries.values))
        effects = entries.listed if self.effects == "auto" else bool(self.effects)
        self._forget()
        given = (
            entries.rows,
            entries.columns,
            entries.values,
            entries.shape,
            entries.weights,
            options._replace(effects=effects, common=effects),
        )
        with journal(checkpoint, "MatrixCompletion", *given), self._limits() as limits:
            found, wrong = fit_entries(*given, **limits)
        self._take(entries, found, wrong, library_of(X))
        self._warn_of_report()
        return self

    def _take(
        self, entries: Entries, found: FactorFit, wrong: np.ndarray, library: str | None
    ) -> None:
        self.factor_model_, self.n_components_ = found.state(), found.rank
        self.row_ids_, self.column_ids_ = entries.row_ids, entries.column_ids
        self.row_factors_, self.column_factors_ = found.scores, found.loadings
        self.noise_variance_ = found.noise_variance
        # With one unit for all columns there is a level that they share.
        self.offset_ = float(found.columns.centre[0]) if found.model.effects else 0.0
        self.row_effects_, self.column_effects_ = found.row_effects, found.location - self.offset_
        order = np.argsort(entries.rows, kind="stable")
        self.known_columns_ = np.asarray(entries.columns, np.int32)[order]
        self.known_starts_ = np.searchsorted(entries.rows[order], np.arange(entries.shape[0] + 1))
        right = entries.values[~wrong] if not np.all(wrong) else entries.values
        self.range_ = (float(right.min()), float(right.max()))
        holes = entries.shape[0] * entries.shape[1] - len(entries.values)
        self._take_report(report_of(found, len(entries.values), int(wrong.sum()), holes))
        places = entries.rows[wrong], entries.columns[wrong]
        values, errors = found.predict(*places)
        self.outliers_ = sparse_at(places, entries.values[wrong] - values, entries.shape)
        if library is not None and entries.listed:
            listed = {
                "row": entries.row_ids[places[0]],
                "column": entries.column_ids[places[1]],
                "was": entries.values[wrong],
                "should be": values,
                "error": errors,
            }
            module = __import__(library)
            self.outliers_ = module.DataFrame(listed)

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if len(self.known_starts_) != len(self.row_ids_) + 1:
            raise ValueError("The numbers of rows differ.")

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict entries of the matrix.

        For a row or column that was not part of the fit, the effect of the other is predicted, with
        a larger error and a warning. Without effects, an unknown column has no prediction (NaN).

        Parameters
        ----------
        X : array-like of shape (k, 2), pair of arrays, or data frame
            Row and column of every entry, by name (by number, if they have no names). In a data
            frame: the columns used in the fit, or exactly two.
        return_std : bool
            Whether to return standard errors, too.

        Returns
        -------
        array of shape (k,), or pair of such arrays
            Predictions, with standard errors if ``return_std``.
        """
        check_is_fitted(self)
        rows, columns = places_of(X, getattr(self, "entry_columns_", None))
        numbers = numbers_of(rows, self.row_ids_), numbers_of(columns, self.column_ids_)
        self._tell_unseen(rows, columns, (numbers[0] < 0, numbers[1] < 0))
        values, errors = self._predicted(*numbers)
        return (values, errors) if return_std else values

    def _tell_unseen(
        self, rows: np.ndarray, columns: np.ndarray, unseen: tuple[np.ndarray, np.ndarray]
    ) -> None:
        """One warning about names that were not part of the fit."""
        told = unseen_sentences(rows, columns, unseen, self._model().model.effects)
        if told:
            warn_user(f"MatrixCompletion: {'; '.join(told)}.")

    def _predicted(self, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        model = self._model()
        values, errors = model.predict(rows, columns)
        if not model.model.effects:
            values = np.where(columns < 0, np.nan, values)
            errors = np.where(columns < 0, np.inf, errors)
        return np.clip(values, *self.range_) if self.clip else values, errors

    def predict_interval(self, X: Any, level: Any = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Intervals that contain entries with a given probability, calibrated on held-out entries.

        With ``clip`` they are clipped to the range of the observed values.

        Parameters
        ----------
        X : places, as for `predict`
        level : float

        Returns
        -------
        pair of arrays of shape (k,)
            Lower and upper bounds.
        """
        values, errors = self.predict(X, return_std=True)
        model = self._model()
        half = np.mean(width_of(level, model)) * errors + np.mean(model.rounding)
        limits = self.range_ if self.clip else (-np.inf, np.inf)
        return np.clip(values - half, *limits), np.clip(values + half, *limits)

    def recommend(
        self, row: Any, n: int = 10, exclude: Any = (), include_known: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """The columns with the largest predictions in a row, without those known in it.

        Parameters
        ----------
        row : object
            Name of the row (the user).
        n : int
            Number of columns to return; there may be fewer.
        exclude : sequence
            Names of columns to leave out.
        include_known : bool
            Whether to return columns, too, whose values in this row were part of the fit (items
            that the user has rated).

        Returns
        -------
        ids, values : arrays
            Names of columns in descending order of their predictions, and the predictions.
        """
        check_positive(n=n)
        if isinstance(exclude, str):
            raise ValueError(f"exclude must be a sequence of names; got {exclude!r}.")
        # A name may be a tuple, of which an array would make a row of names.
        name = np.empty(1, object)
        name[0] = row
        place = numbers_of(name, self.row_ids_.astype(object))
        self._tell_unseen(name, name, (place < 0, np.zeros(1, bool)))
        left_out = set(exclude)
        allowed = np.array([name not in left_out for name in self.column_ids_.tolist()])
        if not include_known and place[0] >= 0:
            begin, end = self.known_starts_[place[0] : place[0] + 2]
            allowed[self.known_columns_[begin:end]] = False
        columns = np.flatnonzero(allowed)
        rows = np.repeat(place, len(columns))
        # Sorted as they are, since many may be clipped to one value.
        order = np.argsort(-self._model().predict(rows, columns)[0], kind="stable")[:n]
        chosen = columns[order]
        return self.column_ids_[chosen], self._predicted(rows[order], chosen)[0]

    def complete(self) -> np.ndarray:
        """All entries of the fitted matrix."""
        return self._model().values()

    def transform(self, X: Any) -> np.ndarray:
        """Fill in the missing entries of rows, whether they were part of the fit or not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns), or sparse
            NaN (entries that are not stored, for a sparse matrix) is missing.

        Returns
        -------
        array of shape (n_samples, n_columns)
        """
        model = self._model()
        X = dense_with_gaps(self._validated(X, reset=False, accept_sparse="coo")[0])
        return np.where(np.isnan(X), model.new_rows(X).values, X)

    def score(self, X: Any, y: Any = None) -> float:
        """Negative mean absolute error of predictions.

        Of the entries of a list, which should be others than the fitted ones; of a table, of
        predicting an entry from the others of its row.

        Parameters
        ----------
        X, y : as for `fit`
        """
        model = self._model()
        X = X if library_of(X) is None else checked_frame(X)
        parts, _ = parts_of_list(X, y, getattr(self, "entry_columns_", None) or self.columns)
        if parts is not None:
            rows, columns, values = parts
            errors = self.predict((rows, columns)) - np.asarray(values, np.float64)
            return -float(np.nanmean(np.abs(errors)))
        X = dense_with_gaps(self._validated(X, reset=False, accept_sparse="coo")[0])
        predicted = predicted_by_others(X, lambda hidden: model.new_rows(hidden).values)
        return -float(np.nanmean(np.abs(predicted - X)))

    def summary(self) -> str:
        """The verdict and the result, in a few lines."""
        check_is_fitted(self)
        if not hasattr(self, "report_"):
            return super().summary()
        return self.report_.summary(
            lambda k: str(self.row_ids_[k]), lambda k: str(self.column_ids_[k])
        )
