"""Principal components of a table with holes and wrong entries."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..maps import LowRank
from ._base import (
    Observed,
    RecoveringEstimator,
    checked_rank,
    checked_weights,
    factors_of,
    sparse_at,
)
from ._nonnegative import fit_nonnegative
from ._rows import geometric_median, predicted_rows, scores_of
from ._units import equalised, units_of

# The bound on the rank if none is given: a quarter of the smaller side, and at most this.
_MOST = 20
# Of a narrow table it is at least this, or half of the smaller side.
_LEAST = 3
# Up to so many entries a second fit costs little.
_SMALL = 100_000
# The relative error up to which `recover` calls an answer right; here of what differs between rows.
_LARGEST_ERROR = 0.1
# Singular values that are this small, relative to the largest, are rounding errors.
_ROUNDING = 1e-9


class _Plane(NamedTuple):
    """A fit to a table: where it is wrong, and what it should be."""

    places: Any
    factors: tuple[np.ndarray, ...]
    """Of the table around the shift."""
    shift: np.ndarray
    location: np.ndarray

    def residual(self, table: np.ndarray) -> np.ndarray:
        """NaN where nothing is known."""
        return table - self.shift - self.factors[0] @ self.factors[1].T


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
        quarter of the smaller side of the table, at least 3 (or half of that side), at most 20.
    loss : {'robust', 'squared'}
        Whether entries may be grossly wrong, or carry noise alone.
    centre : bool
        Whether a location is part of the model: the geometric median of the rows as they are
        without their errors. (The mean of the raw rows would carry the errors into every row.)
    scale : {'auto', True, False}
        Whether columns are measured by their own spread, and where there is noise by their own
        noise, so that what counts as wrong does not depend on the units. 'auto': if the spreads
        differ by more than a factor of 100, as those of columns in different units do.
    nonnegative : bool
        Whether components and scores must not be negative (a robust nonnegative matrix
        factorisation); then ``centre`` must be False.
    random_state : int, RandomState instance or None
        Of what is random. The default gives the same answer every time.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Orthonormal rows (unless nonnegative), the strongest first; in the units of the table, so
        that of columns in different units those with large numbers prevail in them.
    location_ : array of shape (n_features,)
    scale_ : array of shape (n_features,)
        The unit of each column in the fit; ones if nothing was scaled.
    singular_values_ : array of shape (n_components,)
        Of the cleaned and centred table.
    rank_ : int
    scores_ : array of shape (n_samples, n_components)
        Of the rows that were fitted.
    low_rank_ : array of shape (n_samples, n_features)
        The table without holes and errors.
    outliers_ : sparse array of shape (n_samples, n_features)
        What was wrong: by how much, and where.
    noise_ : float
        Standard deviation of the noise on the other entries, in units of ``scale_``.
    status_ : str
        The verdict of `lemmax.recover`; ``recovery_.summary()`` tells more. It speaks of the
        table as it was fitted, of which a location may be one more component.
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
    >>> truth = 5 + rng.standard_normal((100, 2)) @ rng.standard_normal((2, 30))
    >>> table = truth.copy()
    >>> table[rng.random(table.shape) < 0.1] = 99.0
    >>> table[rng.random(table.shape) < 0.1] = np.nan
    >>> model = RobustPCA(rank=5).fit(table)
    >>> model.rank_, bool(np.allclose(model.low_rank_, truth))
    (2, True)
    """

    def __init__(
        self,
        rank: Any = None,
        *,
        loss: Any = "robust",
        centre: Any = True,
        scale: Any = "auto",
        nonnegative: Any = False,
        random_state: Any = 0,
        verbose: Any = False,
    ):
        self.rank = rank
        self.loss = loss
        self.centre = centre
        self.scale = scale
        self.nonnegative = nonnegative
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, weights: Any = None) -> "RobustPCA":
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
        if weights is not None:
            X = np.where(weights > 0, X, np.nan)
        empty = np.flatnonzero(np.all(np.isnan(X), axis=0))
        if len(empty):
            raise ValueError(f"Column {empty[0]} holds no values: every entry of it is missing.")
        if self.nonnegative and self.centre:
            raise ValueError("Nonnegative components need centre=False: a location has a sign.")
        side = min(X.shape)
        default = min(_MOST, max(side // 4, min(_LEAST, side // 2)))
        bound = checked_rank(self.rank, side, default)
        self._forget()
        units = units_of(X, self.scale, self.centre)
        shift, table = self._shifted(X / units)
        if not np.any(np.nan_to_num(table)):
            return self._constant(X, shift * units)
        plane = self._plane(X / units, weights, bound)
        finer = equalised(units, plane.residual(X / units), self.noise_)
        if finer is not None and self.status_ != "INTERRUPTED":
            units = finer
            plane = self._plane(X / units, weights, bound)
        self.scale_ = units
        places = plane.places
        if self.nonnegative:
            observed = Observed(X / units, weights)
            left, right, places = fit_nonnegative(self, observed, plane.factors, bound)
            self._take_nonnegative(left, right * units[:, None])
        else:
            self._take(plane, units)
        self.outliers_ = sparse_at(places, (X - self.low_rank_)[places], X.shape)
        self._warn()
        return self

    def _shifted(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A first location, and the table around it."""
        shift = np.nanmedian(table, axis=0) if self.centre else np.zeros(table.shape[1])
        return shift, table - shift

    def _plane(self, X: np.ndarray, weights: np.ndarray | None, bound: int) -> _Plane:
        """The fit, and its location."""
        shift, table = self._shifted(X)
        # Of a centred table of some rank, the table itself has one more.
        places, factors = self._fitted(table, weights, min(bound + self.centre, *X.shape))
        constant = np.any(np.nanmax(X, axis=0) == np.nanmin(X, axis=0))
        hopeful = np.any(shift) and not constant and X.size <= _SMALL
        if hopeful and self.status_ in ("NOT_IDENTIFIABLE", "NOT_CONVERGED"):
            # Medians may hide what sets a column's location apart from its components. (Beside
            # zero a constant column would be evidence for whatever explains it.)
            before = self.recovery_
            other = self._fitted(X, weights, min(bound + 1, *X.shape))
            if self.recovery_.status.succeeded and self._tells_rows_apart(other[1]):
                (places, factors), shift = other, np.zeros_like(shift)
            else:
                self._take_verdict(before)
        location = self._location(factors, shift)
        ended = self.status_ != "INTERRUPTED"
        if ended and len(self._strengths(factors, location - shift)) > bound:
            # More directions than allowed: the fit around the location that is now known.
            places, factors = self._fitted(X - location, weights, bound)
            shift = location
        return _Plane(places, factors, shift, location)

    def _tells_rows_apart(self, factors: tuple[np.ndarray, ...]) -> bool:
        """Whether the error is small beside what differs between rows, not only beside them."""
        cleaned = factors[0] @ factors[1].T
        around = cleaned - self._location(factors, np.zeros(cleaned.shape[1]))
        whole = np.linalg.norm(cleaned)
        allowed = max(_LARGEST_ERROR * np.linalg.norm(around), _ROUNDING * whole)
        return bool(self.recovery_.expected_error * whole <= allowed)

    def _fitted(self, table: np.ndarray, weights: np.ndarray | None, rank: int) -> tuple[Any, Any]:
        """Where the table is wrong, and the factors of what it should be."""
        observed = Observed(table, weights)
        map = LowRank(table.shape, rank)
        found = self._recover(observed.operator, observed.data, map, observed.weights)
        return observed.outliers(found), factors_of(found)

    def _location(self, factors: tuple[np.ndarray, ...], shift: np.ndarray) -> np.ndarray:
        """In the plane of the cleaned rows, so that it takes away one dimension if it can."""
        if not self.centre:
            return shift
        basis, triangle = np.linalg.qr(factors[1])
        return shift + basis @ geometric_median(factors[0] @ triangle.T)

    def _centred(self, factors: tuple[np.ndarray, ...], middle: np.ndarray) -> tuple[Any, ...]:
        """Singular value decomposition of the cleaned table around a point of its plane."""
        basis, triangle = np.linalg.qr(factors[1])
        left, values, rotation = np.linalg.svd(
            factors[0] @ triangle.T - middle @ basis, full_matrices=False
        )
        return left, values, rotation @ basis.T

    def _strengths(self, factors: tuple[np.ndarray, ...], middle: np.ndarray) -> np.ndarray:
        """The singular values that are more than errors: one may have been the location alone."""
        values = self._centred(factors, middle)[1]
        sides = sum(np.sqrt(len(factor)) for factor in factors)
        noise = self.noise_ if self.centre and np.isfinite(self.noise_) else 0.0
        # What differs between rows may itself be a rounding error of what they have in common.
        common = np.finfo(float).eps * np.linalg.norm(middle) * len(factors[0])
        return values[values > max(_ROUNDING * values[0], noise * sides, common)]

    def _take(self, plane: _Plane, units: np.ndarray) -> None:
        rank = len(self._strengths(plane.factors, plane.location - plane.shift))
        location = plane.location * units
        factors = plane.factors[0], plane.factors[1] * units[:, None]
        left, values, components = (
            part[..., :rank] if k < 2 else part[:rank]
            for k, part in enumerate(self._centred(factors, location - plane.shift * units))
        )
        signs = np.sign(components[np.arange(rank), np.argmax(np.abs(components), axis=1)])
        self.components_ = components * signs[:, None]
        self.singular_values_ = values
        self.scores_ = left * values * signs
        self.location_, self.rank_ = location, rank
        self.low_rank_ = self.scores_ @ self.components_ + location

    def _take_nonnegative(self, left: np.ndarray, right: np.ndarray) -> None:
        sizes = np.linalg.norm(right, axis=0)
        strength = sizes * np.linalg.norm(left, axis=0)
        kept = np.argsort(-strength)[: int(np.sum(strength > _ROUNDING * strength.max()))]
        self.components_ = (right[:, kept] / sizes[kept]).T
        self.singular_values_ = strength[kept]
        self.location_ = np.zeros(len(right))
        self.rank_ = len(kept)
        self.scores_ = left[:, kept] * sizes[kept]
        self.low_rank_ = self.scores_ @ self.components_

    def _constant(self, X: np.ndarray, shift: np.ndarray) -> "RobustPCA":
        """All rows are the same, up to holes: the location says it all."""
        self.components_, self.scale_ = np.zeros((0, X.shape[1])), np.ones(X.shape[1])
        self.singular_values_ = np.zeros(0)
        self.location_, self.rank_, self.noise_, self.n_iter_ = shift, 0, 0.0, 1
        self.scores_ = np.zeros((len(X), 0))
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
        rows, components = (X - self.location_) / self.scale_, self.components_ / self.scale_
        return scores_of(rows, components, self._loss(), self.nonnegative)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Rows from their scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
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

        Errors are in units of ``scale_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        rows, components = (X - self.location_) / self.scale_, self.components_ / self.scale_
        guess = predicted_rows(rows, components, self._loss(), self.nonnegative)
        return -float(np.nanmean(np.abs(guess - rows)))

    @property
    def _n_features_out(self) -> int:
        return self.rank_
