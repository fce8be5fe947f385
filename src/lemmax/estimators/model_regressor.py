"""Regression with a user's own model."""

from typing import Any

import jax
import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .._checks import warn_user
from .._dtype import x64_context
from ..fit import fit
from ._base import refuse_complex, shape_of, unchanged_if_refused
from ._recovering import loss_called


class ModelRegressor(RegressorMixin, BaseEstimator):
    """Robust nonlinear regression: `lemmax.fit` in pipelines and cross-validation.

    Parameters
    ----------
    model : callable
        ``model(x, X)``, written in JAX: takes parameters and data, returns a prediction for each
        sample. X is the argument of `fit`: an array of shape (n_samples, n_features), or of shape
        (n_samples,), such as times.
    start : pytree of numbers or arrays
        Initial parameters.
    bounds : pair of pytrees, optional
        ``(low, high)``; each is structured like the start, a number for all parameters, or None.
    fixed : pytree of bool, optional
        True for parameters that keep their initial value; structured like the start.
    loss : {'robust', 'squared'}
        ``'robust'`` detects outliers and leaves them out, ``'squared'`` is least squares.
    max_seconds : float, optional
        Time limit; the search then ends with its best fit so far.

    Attributes
    ----------
    parameters_ : pytree
        Fitted parameters, structured like the start.
    standard_errors_ : pytree
        Structured like the start; infinite if the data do not determine a parameter, NaN at a
        bound, 0 if it was fixed.
    outliers_ : array of int
        Indices of the samples that are outliers.
    noise_ : float
        Standard deviation of the noise for inliers of weight 1.
    status_ : str
        The verdict, a `lemmax.FitStatus`; a ConvergenceWarning explains a bad one.
    fit_ : Fit
        The complete result: intervals, bands, objections, other minima.
    n_features_in_ : int
        1 if X had one axis.
    feature_names_in_ : array of str
        Names of the columns, if X was a data frame.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from lemmax.estimators import ModelRegressor
    >>> def decay(x, t):
    ...     return x["height"] * jnp.exp(-x["rate"] * t)
    >>> t = np.linspace(0.0, 3.0, 40)
    >>> y = 2 * np.exp(-1.3 * t) + 0.01 * np.random.default_rng(0).standard_normal(40)
    >>> y[::8] += 3.0  # wrong
    >>> model = ModelRegressor(decay, {"height": 1.0, "rate": 1.0}).fit(t, y)
    >>> model.status_, model.outliers_
    ('FITTED', array([ 0,  8, 16, 24, 32]))
    >>> value, error = model.predict(np.array([1.0, 2.0]), return_std=True)
    >>> print(value.round(3), error.round(3))
    [0.543 0.147] [0.002 0.001]
    """

    def __init__(
        self,
        model: Any = None,
        start: Any = None,
        *,
        bounds: Any = None,
        fixed: Any = None,
        loss: Any = "robust",
        max_seconds: Any = None,
    ):
        self.model = model
        self.start = start
        self.bounds = bounds
        self.fixed = fixed
        self.loss = loss
        self.max_seconds = max_seconds

    @unchanged_if_refused
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "ModelRegressor":
        """Fit the parameters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples,)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Inverse variance of each sample, up to a common factor; 0 leaves a sample out.

        Returns
        -------
        self
        """
        if self.model is None or self.start is None:
            raise ValueError("ModelRegressor needs a model and a start: ModelRegressor(model, x0).")
        refuse_complex(X, y)
        self._axes = len(shape_of(X))
        design, y = validate_data(
            self, _as_table(X), y, dtype=np.float64, y_numeric=True, ensure_min_samples=2
        )
        y, sigma = np.asarray(y, np.float64), None
        if sample_weight is not None:
            weight = _check_sample_weight(
                sample_weight, design, dtype=np.float64, ensure_non_negative=True
            )
            y = np.where(weight > 0, y, np.nan)
            sigma = 1 / np.sqrt(np.where(weight > 0, weight, 1.0))
        found = fit(
            self.model,
            y,
            self.start,
            args=(self._given(design),),
            loss=None if self.loss == "robust" else loss_called(self.loss),
            sigma=sigma,
            bounds=self.bounds,
            fixed=self.fixed,
            max_seconds=self.max_seconds,
        )
        self.fit_ = found
        self.parameters_, self.standard_errors_ = found.x, found.standard_errors
        self.outliers_, self.noise_, self.status_ = found.outliers, found.noise, found.status.name
        if not found.status.succeeded:
            reasons = "; ".join(found.objections)
            warn_user(
                f"ModelRegressor: {found.status.message}"
                + (f" In particular: {reasons}." if reasons else ""),
                ConvergenceWarning,
            )
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictions of the model, optionally with standard errors.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples,)
            With the same number of axes as in the fit.
        return_std : bool
            Whether to return standard errors, too. They are those of the curve; data scatter
            around it by ``noise_``.

        Returns
        -------
        array, or pair of arrays, of shape (n_samples,)
        """
        check_is_fitted(self)
        if self._axes == 1 and len(shape_of(X)) > 1:
            raise ValueError("The model was fitted to a one-dimensional array; pass one here, too.")
        table = _as_table(X) if self._axes == 1 else X
        design: Any = validate_data(self, table, dtype=np.float64, reset=False)
        given = self._given(design)
        if return_std:
            value, error, _, _ = self.fit_.predict(args=(given,))
            return value, error
        with x64_context():
            return np.asarray(jax.jit(self.model)(self.parameters_, given))

    def summary(self) -> str:
        """The verdict and the parameters with their standard errors, in a few lines."""
        check_is_fitted(self)
        return self.fit_.summary()

    def __sklearn_tags__(self):
        """A user's model cannot fit arbitrary data."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def _given(self, design: Any) -> np.ndarray:
        """The array for the model, with as many axes as the user's."""
        return design[:, 0] if self._axes == 1 else design


def _as_table(X: Any) -> Any:
    return np.asarray(X)[:, None] if len(shape_of(X)) == 1 else X
