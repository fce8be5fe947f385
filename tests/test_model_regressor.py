"""The regressor around a model of one's own."""

import pickle

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import curve_fit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from lemmax.estimators import ModelRegressor


def decay(x, t):
    return x["height"] * jnp.exp(-x["rate"] * t)


def average(x, X):
    """Takes any number of features, as scikit-learn's checks have them."""
    return x[0] + x[1] * jnp.mean(X.reshape(len(X), -1), axis=1)


def plane(x, X):
    return X @ x["slopes"] + x["level"]


START = {"height": 1.0, "rate": 1.0}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [ModelRegressor(average, [0.0, 1.0], loss="squared")],
    expected_failed_checks=lambda _: {"check_fit1d": "arrays of one axis, such as times, are data"},
)
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    t = np.linspace(0.0, 3.0, 60)
    y = 2 * np.exp(-1.3 * t) + 0.02 * rng.standard_normal(60)
    wrong = rng.choice(60, 9, replace=False)
    y[wrong] += 2.0
    return t, y, np.sort(wrong)


@pytest.fixture(scope="module")
def fitted(data):
    return ModelRegressor(decay, START).fit(*data[:2])


def test_parameters_errors_and_wrong_samples(data, fitted):
    t, y, wrong = data
    np.testing.assert_array_equal(fitted.outliers_, wrong)
    right = np.delete(np.arange(60), wrong)
    best, covariance = curve_fit(lambda t, a, b: a * np.exp(-b * t), t[right], y[right], (1, 1))
    found = [fitted.parameters_["height"], fitted.parameters_["rate"]]
    np.testing.assert_allclose(found, best, rtol=1e-6)
    errors = [fitted.standard_errors_["height"], fitted.standard_errors_["rate"]]
    np.testing.assert_allclose(errors, np.sqrt(np.diag(covariance)), rtol=1e-4)
    residual = best[0] * np.exp(-best[1] * t[right]) - y[right]
    assert fitted.noise_ == pytest.approx(np.sqrt(np.sum(residual**2) / 49), rel=1e-6)
    assert fitted.status_ == fitted.fit_.status.name == "FITTED"
    assert "height" in fitted.summary()


def test_predictions_with_errors(data, fitted):
    """The error of the curve by a small change of the parameters."""
    t = np.array([0.5, 4.0])
    value, error = fitted.predict(t, return_std=True)
    a, b = fitted.parameters_["height"], fitted.parameters_["rate"]
    np.testing.assert_allclose(value, a * np.exp(-b * t), rtol=1e-12)
    slopes = np.stack([np.exp(-b * t), -a * t * np.exp(-b * t)])
    variance = np.einsum("pn,pq,qn->n", slopes, fitted.fit_.covariance, slopes)
    np.testing.assert_allclose(error, np.sqrt(variance), rtol=1e-9)
    np.testing.assert_allclose(fitted.predict(t), value, rtol=1e-14)


def test_a_design_of_several_columns_in_a_frame():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((50, 2)), columns=["u", "v"])
    y = X.to_numpy() @ [2.0, -1.0] + 3 + 0.1 * rng.standard_normal(50)
    weight = rng.uniform(0, 1, 50)
    weight[:10] = 0
    start = {"slopes": np.zeros(2), "level": 0.0}
    model = ModelRegressor(plane, start, loss="squared").fit(X, y, sample_weight=weight)
    linear = LinearRegression().fit(X, y, weight)
    np.testing.assert_allclose(model.parameters_["slopes"], linear.coef_, rtol=1e-8)
    np.testing.assert_allclose(model.predict(X), linear.predict(X), rtol=1e-8)
    assert model.score(X, y, weight) == pytest.approx(linear.score(X, y, weight), rel=1e-9)
    assert list(model.feature_names_in_) == ["u", "v"]
    assert model.n_features_in_ == 2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pipelines_and_searches(data):
    """Scaled times change the rate by a known factor; a search prefers the model that fits."""
    t, y, _ = data
    scaled = make_pipeline(
        StandardScaler(with_mean=False),
        ModelRegressor(lambda x, X: x["height"] * jnp.exp(-x["rate"] * X[:, 0]), START),
    ).fit(t[:, None], y)
    alone = ModelRegressor(decay, START).fit(t, y)
    rate = scaled[-1].parameters_["rate"] / np.std(t)
    assert rate == pytest.approx(alone.parameters_["rate"], rel=1e-8)
    y = 2 * np.exp(-1.3 * t)
    search = GridSearchCV(
        ModelRegressor(decay, START),
        {"fixed": [None, {"height": False, "rate": True}]},
        cv=2,
    ).fit(t, y)
    assert search.best_params_["fixed"] is None
    scores = cross_val_score(ModelRegressor(decay, START), t, y, cv=2)
    np.testing.assert_allclose(scores, 1, atol=1e-9)


def test_copies(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert copy.model is decay
    with pytest.raises(NotFittedError):
        copy.predict([1.0])
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict([1.0, 2.0]), fitted.predict([1.0, 2.0]))


def test_bounds_are_kept_and_bad_verdicts_are_told(data):
    t, y, _ = data
    model = ModelRegressor(decay, START, bounds=(None, {"height": 1.5, "rate": None}))
    with pytest.warns(ConvergenceWarning, match="a curve of their own"):
        model.fit(t, y)
    assert model.parameters_["height"] == 1.5
    assert np.isnan(model.standard_errors_["height"])
    with pytest.warns(ConvergenceWarning, match=r"ModelRegressor: .* In particular"):
        ModelRegressor(lambda x, t: (x[0] + x[1]) * jnp.exp(-t), [1.0, 1.0]).fit(t, y)


def test_sentences(data, fitted):
    t, y, _ = data
    with pytest.raises(ValueError, match="needs a model and a start"):
        ModelRegressor().fit(t, y)
    with pytest.raises(ValueError, match="'robust' or 'squared'"):
        ModelRegressor(decay, START, loss="huber").fit(t, y)
    with pytest.raises(ValueError, match="one-dimensional"):
        fitted.predict(t[:, None])
    with pytest.raises(ValueError, match="Negative values"):
        ModelRegressor(decay, START).fit(t, y, sample_weight=-np.ones(60))
    with pytest.raises(ValueError, match="they must be alike"):
        ModelRegressor(decay, START).fit(t[:, None], y)
