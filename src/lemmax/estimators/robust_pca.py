"""Principal components of a table with holes and wrong entries."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..maps import LowRank
from ._base import Observed, RecoveringEstimator, checked_rank, checked_weights, sparse_at
from ._nonnegative import fit_nonnegative
from ._rows import geometric_median, predicted_rows, scores_of

# The bound on the rank if none is given: a quarter of the smaller side, and at most this.
_MOST = 20
# Singular values that are this small, relative to the largest, are rounding errors.
_ROUNDING = 1e-9


class RobustPCA(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    RecoveringEstimator,
):
    """Principal component analysis that bears missing and grossly wrong entries.

    A table is explained as a location, a part of low rank, wrong entries anywhere, and noise.
    Nothing is imputed: what is missing does not count.

    Parameters
    ----------
    rank : int, optional
        An upper bound on the number of components; how many there are is found. If not given, a
        quarter of the smaller side of the table, at most 20.
    loss : {'robust', 'squared'}
        Whether entries may be grossly wrong, or carry noise alone.
    centre : bool
        Whether a location is part of the model: the geometric median of the rows as they are
        without their errors. (The mean of the raw rows would carry the errors into every row.)
    nonnegative : bool
        Whether components and scores must not be negative (a robust nonnegative matrix
        factorisation); then ``centre`` must be False.
    random_state : int, RandomState instance or None
        Of what is random. The default gives the same answer every time.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    components_ : array of shape (rank_, n_features)
        Orthonormal rows (unless nonnegative), the strongest first.
    location_ : array of shape (n_features,)
    singular_values_ : array of shape (rank_,)
        Of the cleaned and centred table.
    rank_ : int
    low_rank_ : array of shape (n_samples, n_features)
        The table without holes and errors.
    outliers_ : sparse array of shape (n_samples, n_features)
        What was wrong: by how much, and where.
    noise_ : float
        Standard deviation of the noise on the other entries.
    status_ : str
        The verdict of `lemmax.recover`; ``recovery_.summary()`` tells more.
    n_iter_ : int
    n_features_in_ : int

    See Also
    --------
    MatrixCompletion : for tables of which little is known, such as ratings.

    Examples
    --------
    >>> import numpy as np
    >>> from lemmax.estimators import RobustPCA
    >>> rng = np.random.default_rng(0)
    >>> truth = 5 + rng.standard_normal((60, 2)) @ rng.standard_normal((2, 20))
    >>> table = truth.copy()
    >>> table[rng.random(table.shape) < 0.1] = 100.0
    >>> table[rng.random(table.shape) < 0.1] = np.nan
    >>> model = RobustPCA(rank=5).fit(table)
    >>> model.rank_, bool(np.allclose(model.low_rank_, truth))
    (2, True)
    """

    def __init__(
        self,
        rank: int | None = None,
        *,
        loss: str = "robust",
        centre: bool = True,
        nonnegative: bool = False,
        random_state: Any = 0,
        verbose: bool = False,
    ):
        self.rank = rank
        self.loss = loss
        self.centre = centre
        self.nonnegative = nonnegative
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, weights: Any = None) -> Self:
        """Find location, components and wrong entries.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN marks what is missing.
        y : ignored
        weights : array-like of the shape of X, optional
            How much each entry counts; those of weight 0 are missing.
        """
        X = validate_data(
            self, X, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2
        )
        weights = checked_weights(weights, X.shape)
        empty = np.flatnonzero(np.all(np.isnan(X), axis=0))
        if len(empty):
            raise ValueError(f"Column {empty[0]} holds no values: every entry of it is missing.")
        if self.nonnegative and self.centre:
            raise ValueError("Nonnegative components need centre=False: a location has a sign.")
        bound = checked_rank(self.rank, min(X.shape), min(_MOST, min(X.shape) // 4))
        shift = np.nanmedian(X, axis=0) if self.centre else np.zeros(X.shape[1])
        observed = Observed(X - shift, weights)
        if not np.any(observed.data):
            return self._constant(X, shift)
        # Of a centred table of some rank, the table itself has one more.
        room = min(bound + self.centre, *X.shape)
        found = self._recover(
            observed.operator, observed.data, LowRank(X.shape, room), observed.weights
        )
        places = observed.outliers(found)
        left, right = (np.asarray(factor, np.float64) for factor in found.point.factors)
        if self.nonnegative:
            left, right, places = fit_nonnegative(self, observed, (left, right), bound)
            self._take_nonnegative(left, right)
        else:
            self._take(left, right, shift, bound)
        self.outliers_ = sparse_at(places, (X - self.low_rank_)[places], X.shape)
        return self

    def _take(self, left: np.ndarray, right: np.ndarray, shift: np.ndarray, bound: int) -> None:
        """Turn factors of the shifted table into a location and components."""
        basis, triangle = np.linalg.qr(right)
        rows = left @ triangle.T
        middle = geometric_median(rows) if self.centre else np.zeros(rows.shape[1])
        u, values, rotation = np.linalg.svd(rows - middle, full_matrices=False)
        # One component may have been the location alone; then it is gone but for errors.
        sides = np.sqrt(len(left)) + np.sqrt(len(right))
        noise = self.noise_ if np.isfinite(self.noise_) else 0.0
        level = max(_ROUNDING * values[0], noise * sides if self.centre else 0.0)
        rank = min(bound, int(np.sum(values > level)))
        components = rotation[:rank] @ basis.T
        signs = np.sign(components[np.arange(rank), np.argmax(np.abs(components), axis=1)])
        self.components_ = components * signs[:, None]
        self.singular_values_ = values[:rank]
        self.location_ = shift + basis @ middle
        self.rank_ = rank
        self.low_rank_ = (u[:, :rank] * values[:rank] * signs) @ self.components_ + self.location_

    def _take_nonnegative(self, left: np.ndarray, right: np.ndarray) -> None:
        sizes = np.linalg.norm(right, axis=0)
        strength = sizes * np.linalg.norm(left, axis=0)
        kept = np.argsort(-strength)[: int(np.sum(strength > _ROUNDING * strength.max()))]
        self.components_ = (right[:, kept] / sizes[kept]).T
        self.singular_values_ = strength[kept]
        self.location_ = np.zeros(len(right))
        self.rank_ = len(kept)
        self.low_rank_ = (left[:, kept] * sizes[kept]) @ self.components_

    def _constant(self, X: np.ndarray, shift: np.ndarray) -> Self:
        """All rows are the same, up to holes: the location says it all."""
        self.components_ = np.zeros((0, X.shape[1]))
        self.singular_values_ = np.zeros(0)
        self.location_, self.rank_, self.noise_, self.n_iter_ = shift, 0, 0.0, 1
        self.low_rank_ = np.broadcast_to(shift, X.shape).copy()
        self.outliers_ = sparse_at((np.zeros(0, int),) * 2, np.zeros(0), X.shape)
        self.status_ = "EXACT"
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Scores of rows, by robust regression on the components; what is missing does not count.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        return scores_of(X - self.location_, self.components_, self._loss(), self.nonnegative)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Rows from their scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, rank_)
        """
        check_is_fitted(self)
        scores = np.asarray(X, np.float64)
        if scores.ndim != 2 or scores.shape[1] != self.rank_:
            raise ValueError(
                f"Scores have {self.rank_} columns, one for each component; got shape "
                f"{scores.shape}."
            )
        return scores @ self.components_ + self.location_

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean absolute error with which a row's other entries predict an entry.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        rows = X - self.location_
        guess = predicted_rows(rows, self.components_, self._loss(), self.nonnegative)
        return -float(np.nanmean(np.abs(guess - rows)))

    @property
    def _n_features_out(self) -> int:
        return self.rank_
