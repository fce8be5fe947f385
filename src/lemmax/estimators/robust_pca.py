"""Principal components of a table with holes and wrong entries."""

import dataclasses
import time
import warnings
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ._base import (
    Observed,
    RecoveringEstimator,
    checked_rank,
    checked_weights,
    refuse_complex,
    sparse_at,
)
from ._nonnegative import fit_nonnegative
from ._plane import Plane, PlaneFit, WeightedTable
from ._rows import judged_rows, predicted_rows, scores_of
from ._units import equalised, units_of

# The bound on the rank if none is given: a quarter of the smaller side, and at most this.
_MOST = 20
# Of a narrow table it is at least this, or half of the smaller side.
_LEAST = 3
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
        With a location, columns that are one number, but for a few wrong entries, have no part in
        the components.
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
    left_out_ : array of int
        Rows that are not part of the fit, and of which the verdict does not speak: those without
        entries, and a few of which too little is right, if without them the others can be
        recovered. They are as `transform` has them where most of their entries agree with that;
        else the location stands for them, and whatever they hold is wrong.
    noise_ : float
        Standard deviation of the noise on the other entries, in units of ``scale_``.
    status_ : str
        The verdict of `lemmax.recover`; ``summary()`` tells more.
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
        refuse_complex(X)
        X = validate_data(
            self, X, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2
        )
        weights = checked_weights(weights, X.shape)
        if weights is not None:
            X = np.where(weights > 0, X, np.nan)
        empty = np.flatnonzero(np.all(np.isnan(X), axis=0))
        if len(empty) == X.shape[1]:
            raise ValueError("There is nothing but missing entries: no value is observed.")
        if len(empty):
            raise ValueError(f"Column {empty[0]} holds no values: every entry of it is missing.")
        if self.nonnegative and self.centre:
            raise ValueError("Nonnegative components need centre=False: a location has a sign.")
        self._forget()
        began = time.perf_counter()
        # Of a row without entries nothing is known but the location.
        side = min(int(np.sum(~np.all(np.isnan(X), axis=1))), X.shape[1])
        default = min(_MOST, max(side // 4, min(_LEAST, side // 2)))
        fit = PlaneFit(self, bool(self.centre), checked_rank(self.rank, side, default))
        units = units_of(X, self.scale, self.centre)
        shift = fit.first_location(X / units)
        if not np.any(np.nan_to_num(X / units - shift)):
            return self._constant(X, shift * units)
        table = WeightedTable(X, weights)
        plane = fit.through(table.in_units(units))
        finer = equalised(units, plane.residual(table.in_units(units)), plane.recovery.noise)
        if finer is not None and not plane.interrupted:
            units = finer
            plane = fit.through(table.in_units(units))
        # Of all fits together; the last one alone knows its own.
        effort = {"passes": fit.passes, "steps": fit.steps, "seconds": time.perf_counter() - began}
        self._take_verdict(dataclasses.replace(plane.recovery, **effort))
        self.scale_ = units
        places = plane.places
        if self.nonnegative:
            observed = Observed(*table.in_units(units).part(plane.rows))
            (left, right), places = fit_nonnegative(
                self, observed, plane.factors, plane.places, fit.bound
            )
            self._take_nonnegative(left, right * units[:, None])
        else:
            self._take(plane, units)
        if self.centre:  # which the fit may have spent a component on
            shown = {"rank": self.rank_, "rank_bound": fit.bound, "sizes": self.singular_values_}
            self._take_verdict(dataclasses.replace(self.recovery_, **shown))
        self._take_rows(X, plane.rows, places)
        self._warn()
        self._warn_of_rows(X)
        return self

    def _take_rows(self, X: np.ndarray, rows: np.ndarray, places: Any) -> None:
        """The table as it should be, and what is wrong, from what was found for some rows."""
        self.left_out_ = np.setdiff1d(np.arange(len(X)), rows)
        scores = np.zeros((len(X), self.rank_))
        scores[rows] = self.scores_
        beside, parts = self._in_units(X[self.left_out_])
        scores[self.left_out_], wrong = judged_rows(
            beside, parts, self._loss(), self.noise_, self.nonnegative
        )
        self.scores_ = scores
        self.low_rank_ = scores @ self.components_ + self.location_
        places = (
            np.concatenate([rows[places[0]], self.left_out_[wrong[0]]]),
            np.concatenate([places[1], wrong[1]]),
        )
        self.outliers_ = sparse_at(places, (X - self.low_rank_)[places], X.shape)

    def _warn_of_rows(self, X: np.ndarray) -> None:
        doubtful = [int(k) for k in self.left_out_ if not np.all(np.isnan(X[k]))]
        if doubtful:
            warnings.warn(
                f"RobustPCA: too little of what is in the rows {doubtful} is right to be sure of "
                "them; the verdict speaks of the other rows.",
                UserWarning,
                stacklevel=3,
            )

    def _in_units(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows around the location and components, both in the units of the fit."""
        return (X - self.location_) / self.scale_, self.components_ / self.scale_

    def _take(self, plane: Plane, units: np.ndarray) -> None:
        rank = plane.rank(bool(self.centre))
        left, values, components = plane.centred(units)
        left, values, components = left[:, :rank], values[:rank], components[:rank]
        signs = np.sign(components[np.arange(rank), np.argmax(np.abs(components), axis=1)])
        self.components_ = components * signs[:, None]
        self.singular_values_ = values
        self.scores_ = left * values * signs
        self.location_, self.rank_ = plane.location * units, rank

    def _take_nonnegative(self, left: np.ndarray, right: np.ndarray) -> None:
        sizes = np.linalg.norm(right, axis=0)
        strength = sizes * np.linalg.norm(left, axis=0)
        kept = np.argsort(-strength)[: int(np.sum(strength > _ROUNDING * strength.max()))]
        self.components_ = (right[:, kept] / sizes[kept]).T
        self.singular_values_ = strength[kept]
        self.location_ = np.zeros(len(right))
        self.rank_ = len(kept)
        self.scores_ = left[:, kept] * sizes[kept]

    def _constant(self, X: np.ndarray, shift: np.ndarray) -> "RobustPCA":
        """All rows are the same, up to holes: the location says it all."""
        self.components_, self.scale_ = np.zeros((0, X.shape[1])), np.ones(X.shape[1])
        self.singular_values_ = np.zeros(0)
        self.location_, self.rank_, self.noise_, self.n_iter_ = shift, 0, 0.0, 1
        self.scores_ = np.zeros((len(X), 0))
        self.low_rank_ = np.broadcast_to(shift, X.shape).copy()
        self.outliers_ = sparse_at((np.zeros(0, int),) * 2, np.zeros(0), X.shape)
        self.status_, self.left_out_ = "EXACT", np.flatnonzero(np.all(np.isnan(X), axis=1))
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Scores of rows, by robust regression on the components; what is missing does not count.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        rows, components = self._in_units(X)
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
        rows, components = self._in_units(X)
        guess = predicted_rows(rows, components, self._loss(), self.nonnegative)
        return -float(np.nanmean(np.abs(guess - rows)))

    @property
    def _n_features_out(self) -> int:
        return self.rank_
