"""Regression with nonnegative coefficients."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..regression import regress
from ._base import refuse_complex, require_room, shape_of, unchanged_if_refused
from ._recovering import loss_called
from ._saving import Saved

# Memory of a fit, as a multiple of the matrix.
_MULTIPLE = 5


class NonnegativeRegression(MultiOutputMixin, RegressorMixin, Saved, BaseEstimator):
    """Linear regression with nonnegative coefficients and many right-hand sides.

    For one small problem `scipy.optimize.nnls` is faster. For many that share the matrix, as the
    pixels of an image share the spectra of its materials, this estimator is.

    Parameters
    ----------
    loss : {'squared', 'robust'}
        ``'squared'`` is nonnegative least squares, ``'robust'`` least absolute deviations, which
        tolerates outliers.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
    settled_ : bool or array of bool
        Which solutions are proved to be minimisers; the others are approximations.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from lemmax.estimators import NonnegativeRegression
    >>> X = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> NonnegativeRegression().fit(X, [1.0, 0.0, -1.0]).coef_
    array([0.5, 0. ])
    """

    n_features_in_: int
    feature_names_in_: np.ndarray
    coef_: np.ndarray
    settled_: bool | np.ndarray

    def __init__(self, loss: Any = "squared"):
        self.loss = loss

    @unchanged_if_refused
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "NonnegativeRegression":
        """Fit the coefficients.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        refuse_complex(X, y)
        require_room("NonnegativeRegression", shape_of(X), _MULTIPLE)
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        targets = np.asarray(y, np.float64).T
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
            weights = np.broadcast_to(weights, targets.shape)
        loss = loss_called(self.loss, weights)
        found = regress(X, targets, loss, nonnegative=True)
        self.coef_ = np.asarray(found.coefficients)
        settled = np.asarray(found.settled)
        self.settled_ = settled if settled.ndim else bool(settled)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict ``X @ coef_.T``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_targets)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return X @ self.coef_.T

    def __sklearn_tags__(self):
        """Without an intercept and with fixed signs, it cannot fit arbitrary data."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
