"""A matrix from some of its entries."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._checks import check_positive
from ..maps import LowRank
from ..operators import Entries
from ..recovery import Recovery
from ..recovery._noise import bulk_of
from ._base import RecoveringEstimator, factors_of, sparse_at
from ._groups import groupwise_bulk_mean, groupwise_mean
from ._rows import predicted_rows, scores_of
from ._tables import Table, checked_indices, dense_with_gaps, pairs_of, table_of, validated

# Of the entries, what is kept aside to choose the rank; and how often in turn the next rank may
# predict it worse before the search ends.
_HELD_OUT, _PATIENCE = 0.1, 3
# Rounds of fitting row effects and column effects in turn.
_POLISH = 10


class _Effects(NamedTuple):
    """What does not depend on row and column together."""

    offset: float
    rows: np.ndarray
    columns: np.ndarray

    def at(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self.offset + self.rows[rows] + self.columns[columns]


def _are_pairs(X: Any, y: Any) -> bool:
    """Whether these are places of a matrix and their values, and no matrix and its targets."""
    if sparse.issparse(X) or isinstance(X, tuple):
        return False
    places = np.asarray(X)
    return places.dtype.kind in "iu" and places.shape == (np.size(y), 2)


class MatrixCompletion(OneToOneFeatureMixin, TransformerMixin, RecoveringEstimator):
    """A matrix of low rank from some of its entries, part of them wrong.

    Parameters
    ----------
    rank : int or 'auto'
        An upper bound on the rank, or 'auto': chosen by how well entries kept aside are
        predicted, which is to be preferred where entries are noisy and few, as ratings are.
    loss : {'robust', 'squared'}
        Whether entries may be grossly wrong, or carry noise alone.
    effects : bool
        Whether every row and column has an effect of its own beside the low rank, as users and
        items have in ratings.
    max_rank : int
        The largest rank that 'auto' tries.
    shape : pair of int, optional
        Of the matrix, if it is given as (row, column, value); as large as the indices if not
        given.
    random_state : int, RandomState instance or None
        Of what is random. The default gives the same answer every time.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    row_factors_ : array of shape (n_rows, n_components)
    column_factors_ : array of shape (n_columns, n_components)
    offset_, row_effects_, column_effects_ : float and arrays
        Zero without effects.
    rank_ : int
    outliers_ : sparse array
        By how much observed entries are wrong.
    noise_ : float
        Standard deviation of the noise on the others.
    held_out_errors_ : dict
        For 'auto': rank and mean absolute (for the squared loss: squared) error of prediction.
    status_ : str
    n_iter_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from lemmax.estimators import MatrixCompletion
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 40))
    >>> table = np.where(rng.random(truth.shape) < 0.5, truth, np.nan)
    >>> model = MatrixCompletion(rank=6).fit(table)
    >>> model.rank_, bool(np.allclose(model.complete(), truth))
    (2, True)
    >>> bool(np.isclose(model.predict([[3, 7]])[0], truth[3, 7]))
    True
    """

    def __init__(
        self,
        rank: Any = "auto",
        *,
        loss: Any = "robust",
        effects: Any = False,
        max_rank: Any = 10,
        shape: Any = None,
        random_state: Any = 0,
        verbose: Any = False,
    ):
        self.rank = rank
        self.loss = loss
        self.effects = effects
        self.max_rank = max_rank
        self.shape = shape
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        """Sparse matrices are welcome: what is not stored is missing."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any = None, weights: Any = None) -> "MatrixCompletion":
        """Find the matrix.

        Parameters
        ----------
        X : array-like with NaN, scipy sparse matrix, or tuple (row, column, value)
            What is not stored in a sparse matrix is missing, not zero. Also pairs of whole
            numbers (row, column), as `predict` takes them, if their values are given as y.
        y : array-like, optional
            Values of the pairs; ignored if X is something else.
        weights : array-like, optional
            How much each entry counts: of the shape of X, or one for each stored value.
        """
        if y is not None and _are_pairs(X, y):
            X = (*np.asarray(X).T, np.asarray(y))
        table = table_of(self, X, weights, self.shape)
        self.held_out_errors_ = {}
        if isinstance(self.rank, str):
            if self.rank != "auto":
                raise ValueError(f"rank must be a number or 'auto'; got {self.rank!r}.")
            check_positive(max_rank=self.max_rank)
            rank = self._chosen_rank(table)
        else:
            check_positive(rank=self.rank)
            rank = min(self.rank, *table.shape)
        self._fit(table, rank)
        self._warn()
        return self

    def _fit(self, table: Table, rank: int) -> None:
        self._forget()
        effects = self._effects(table)
        self.offset_, self.row_effects_, self.column_effects_ = effects
        rest = table.values - effects.at(table.rows, table.columns)
        if rank > 0 and np.any(rest):
            found = self._found(table._replace(values=rest), rank)
            self.row_factors_, self.column_factors_ = factors_of(found)
            self.rank_, wrong = found.rank or 0, found.outliers
        else:
            self.rank_, wrong = 0, self._take_rest(rest)
        if self.rank_ == 0:
            self.row_factors_, self.column_factors_ = (np.zeros((n, 0)) for n in table.shape)
        places = table.rows[wrong], table.columns[wrong]
        self.outliers_ = sparse_at(places, table.values[wrong] - self._at(*places), table.shape)

    def _take_rest(self, rest: np.ndarray) -> np.ndarray:
        """Without a low-rank part: what is left is noise, and perhaps some gross errors."""
        everything = np.ones(rest.shape, bool)
        used, self.noise_ = bulk_of(rest, everything, 0, self.loss == "robust")
        self.status_ = "EXACT" if self.noise_ == 0 else "NOISE_LEVEL"
        self.n_iter_ = 1
        return np.flatnonzero(~used)

    def _found(self, table: Table, rank: int) -> Recovery:
        operator = Entries((table.rows, table.columns), table.shape)
        return self._recover(operator, table.values, LowRank(table.shape, rank), table.weights)

    def _effects(self, table: Table) -> _Effects:
        """Means of rows and columns, in turn; without outliers, unless the loss is squared."""
        none = _Effects(0.0, np.zeros(table.shape[0]), np.zeros(table.shape[1]))
        if not self.effects:
            return none
        weights = np.ones(len(table.values)) if table.weights is None else table.weights
        middle = groupwise_mean if self.loss == "squared" else groupwise_bulk_mean
        all_one = np.zeros(len(table.values), int)
        offset = float(middle(table.values, weights, all_one, 1)[0])
        by_row, by_column = none.rows, none.columns
        for _ in range(_POLISH):
            rest = table.values - offset - by_column[table.columns]
            by_row = middle(rest, weights, table.rows, table.shape[0])
            rest = table.values - offset - by_row[table.rows]
            by_column = middle(rest, weights, table.columns, table.shape[1])
        return _Effects(offset, by_row, by_column)

    def _chosen_rank(self, table: Table) -> int:
        rng = np.random.default_rng(self._seed())
        hidden = rng.random(len(table.values)) < _HELD_OUT
        if not np.any(hidden) or np.all(hidden):
            return 1
        shown, kept_aside = table.part(~hidden), table.part(hidden)
        errors: dict[int, float] = {}
        for rank in range(min(self.max_rank, *table.shape) + 1):
            self._fit(shown, rank)
            if self.status_ == "INTERRUPTED":
                raise KeyboardInterrupt
            guess = self._at(kept_aside.rows, kept_aside.columns)
            error = np.abs(guess - kept_aside.values)
            errors[rank] = float(
                np.average(
                    error**2 if self.loss == "squared" else error, weights=kept_aside.weights
                )
            )
            best = min(errors, key=lambda each: errors[each])
            if rank - best >= _PATIENCE or self.rank_ < rank:
                break
        self.held_out_errors_ = errors
        return min(errors, key=lambda each: errors[each])

    def _at(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        effects = _Effects(self.offset_, self.row_effects_, self.column_effects_)
        together = np.sum(self.row_factors_[rows] * self.column_factors_[columns], axis=1)
        return effects.at(rows, columns) + together

    def predict(self, X: Any) -> np.ndarray:
        """Entries of the matrix at given positions.

        Parameters
        ----------
        X : array-like of integers of shape (k, 2), or pair of index arrays
            Row and column of every entry.
        """
        check_is_fitted(self)
        rows, columns = pairs_of(X)
        rows = checked_indices(rows, len(self.row_factors_), "row")
        columns = checked_indices(columns, len(self.column_factors_), "column")
        return self._at(rows, columns)

    def complete(self) -> np.ndarray:
        """The whole matrix."""
        check_is_fitted(self)
        together = self.row_factors_ @ self.column_factors_.T
        return self.offset_ + self.row_effects_[:, None] + self.column_effects_ + together

    def transform(self, X: Any) -> np.ndarray:
        """Fill the holes of rows, seen before or not; what is there stays.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns), or sparse
            NaN (of a sparse matrix: what is not stored) is missing.
        """
        check_is_fitted(self)
        X, rows, components = self._new_rows(X)
        shift = self.offset_ + self.column_effects_
        filled = scores_of(rows, components, self._loss()) @ components + shift
        return np.where(np.isnan(X), filled, X)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean absolute error with which a row's other entries predict an entry.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns), or sparse
        y : ignored
        """
        check_is_fitted(self)
        _, rows, components = self._new_rows(X)
        guess = predicted_rows(rows, components, self._loss())
        return -float(np.nanmean(np.abs(guess - rows)))

    def _new_rows(self, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows as they are, without what columns explain, and what may explain the rest."""
        X = dense_with_gaps(validated(self, X, reset=False))
        components = self.column_factors_.T
        if self.effects:
            components = np.vstack([components, np.ones(X.shape[1])])
        return X, X - self.offset_ - self.column_effects_, components
