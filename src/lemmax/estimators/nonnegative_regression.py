"""Regression with coefficients that must not be negative."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..regression import regress
from ._base import refuse_complex, require_room, shape_of
from ._recovering import loss_called
from ._saving import Saved

# Memory that a fit takes, in matrices of its size.
_MULTIPLE = 5


class NonnegativeRegression(MultiOutputMixin, RegressorMixin, Saved, BaseEstimator):
    """Linear regression with nonnegative coefficients, many right-hand sides at once.

    For one small problem `scipy.optimize.nnls` is faster; for many that share the matrix, as the
    pixels of an image share the spectra of its materials, this is.

    Parameters
    ----------
    loss : {'squared', 'robust'}
        Nonnegative least squares, or least absolute deviations, which bear gross errors.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
    settled_ : bool or array of bool
        Which are known to be minimisers; the others are approximations.
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "NonnegativeRegression":
        """Find the coefficients.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
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
        """Combinations of the columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return X @ self.coef_.T

    def __sklearn_tags__(self):
        """Without an intercept and with signs prescribed, it does not fit everything."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
