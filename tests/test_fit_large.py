"""Fits by products and by sparse Jacobians, against the dense ones on small models."""

import importlib

import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm

CURVES, T = 6, np.linspace(0.0, 3.0, 20)
KINDS = {"products": lm.jacobians.Products(), "sparse": lm.jacobians.Sparse()}
# Quick in one test; what the others show does not depend on the kind of Jacobian.
ONE_QUICK = ["products", pytest.param("sparse", marks=pytest.mark.slow)]


def curves(x, t):
    own = x["height"][:, None] * jnp.exp(-x["rate"][:, None] * t[None, :])
    return own + x["base"][0] + x["base"][1] * t[None, :]


def instance(seed=0, wrong=True):
    rng = np.random.default_rng(seed)
    height, rate = rng.uniform(1, 2, (CURVES, 1)), rng.uniform(0.5, 2, (CURVES, 1))
    y = height * np.exp(-rate * T) + 0.3 + 0.1 * T + 0.02 * rng.standard_normal((CURVES, T.size))
    if wrong:
        y[rng.random(y.shape) < 0.1] += 3.0
    start = {"base": np.zeros(2), "height": np.ones(CURVES), "rate": np.ones(CURVES)}
    return y, start


def assert_same(found, dense):
    assert found.status is dense.status
    for outliers, wanted in zip(found.outliers, dense.outliers, strict=True):
        assert np.array_equal(outliers, wanted)
    for key, errors in dense.standard_errors.items():
        assert np.max(np.abs(found.x[key] - dense.x[key]) / errors) < 1e-4
        np.testing.assert_allclose(found.standard_errors[key], errors, rtol=1e-4)
    np.testing.assert_allclose(found.covariance, dense.covariance, rtol=1e-3, atol=1e-12)
    assert np.isclose(found.noise, dense.noise, rtol=1e-6)
    assert found.freedom == dense.freedom


@pytest.mark.parametrize("name", KINDS)
def test_the_fit_is_that_of_a_dense_jacobian(name):
    y, start = instance()
    y[2, 3] = np.nan
    sigma = np.broadcast_to(1 + T, y.shape)
    given = {"args": (T,), "sigma": sigma}
    dense = lm.fit(curves, y, start, **given, jacobian=lm.jacobians.Dense())
    found = lm.fit(curves, y, start, **given, jacobian=KINDS[name])
    assert dense.status is lm.FitStatus.FITTED
    assert found.outlier_count > 5
    assert_same(found, dense)
    assert found.offset < 1e-6
    np.testing.assert_allclose(found.predict().value, dense.predict().value, rtol=1e-5)


@pytest.mark.parametrize("name", ONE_QUICK)
def test_exact_data_bounds_and_fixed_parameters(name):
    y, start = instance(wrong=False)
    model = np.asarray(curves({k: v + 0.5 for k, v in start.items()}, T))
    exact = lm.fit(curves, model, start, args=(T,), jacobian=KINDS[name])
    assert exact.status is lm.FitStatus.EXACT
    np.testing.assert_allclose(exact.x["rate"], 1.5, rtol=1e-9)
    given = {
        "args": (T,),
        "fixed": {"base": False, "height": np.arange(CURVES) == 1, "rate": False},
        "bounds": (None, {"base": None, "height": None, "rate": 1.5}),
        "loss": lm.losses.SquaredL2(),  # the bound makes some data look wrong
    }
    dense = lm.fit(curves, y, start, **given, jacobian=lm.jacobians.Dense())
    found = lm.fit(curves, y, start, **given, jacobian=KINDS[name])
    assert np.any(dense.x["rate"] == 1.5)
    for key in start:
        np.testing.assert_allclose(found.x[key], dense.x[key], rtol=1e-4)
        np.testing.assert_allclose(
            found.standard_errors[key], dense.standard_errors[key], rtol=1e-3, equal_nan=True
        )


@pytest.mark.parametrize("name", ONE_QUICK)
def test_parameters_that_the_data_do_not_determine_are_named(name):
    y, start = instance(wrong=False)

    def doubled(x, t):
        return curves({**x, "base": jnp.stack([x["base"][0] + x["base"][2], x["base"][1]])}, t)

    start = {**start, "base": np.zeros(4)}
    found = lm.fit(doubled, y, start, args=(T,), jacobian=KINDS[name])
    assert found.status is lm.FitStatus.NOT_IDENTIFIED
    assert np.array_equal(np.isinf(found.standard_errors["base"]), [True, False, True, True])
    assert np.all(np.isfinite(found.standard_errors["rate"]))


@pytest.mark.parametrize("name", ONE_QUICK)
def test_errors_of_combinations_without_the_matrix_of_all(name, monkeypatch):
    y, start = instance()
    dense = lm.fit(curves, y, start, args=(T,), jacobian=lm.jacobians.Dense())
    monkeypatch.setattr(importlib.import_module("lemmax.fit._constants"), "MOST", 3)
    found = lm.fit(curves, y, start, args=(T,), jacobian=KINDS[name])
    assert found.status is lm.FitStatus.FITTED
    assert found.covariance.shape == (0, 0)
    assert np.all(np.isnan(found.standard_errors["rate"]))
    assert any("standard_error_of" in remark for remark in found.remarks)

    def interesting(x):
        return jnp.stack([x["rate"][2], jnp.sum(x["height"]), x["base"][0] * x["base"][1]])

    names = list(dense.names)
    unit = np.zeros((3, len(names)))
    unit[0, names.index("rate[2]")] = 1
    unit[1, [names.index(f"height[{k}]") for k in range(CURVES)]] = 1
    unit[2, [names.index("base[0]"), names.index("base[1]")]] = dense.x["base"][::-1]
    wanted = np.sqrt(np.einsum("kp,pq,kq->k", unit, dense.covariance, unit))
    np.testing.assert_allclose(dense.standard_error_of(interesting), wanted, rtol=1e-9)
    np.testing.assert_allclose(found.standard_error_of(interesting), wanted, rtol=1e-3)
    with pytest.raises(ValueError, match="use standard_error_of"):
        found.predict()


def test_many_parameters_never_make_a_dense_jacobian():
    """The default takes products where the matrix would have 64 MB."""
    rng = np.random.default_rng(0)
    n, p = 40_000, 200
    place = rng.integers(p, size=n).astype(np.int32)
    truth = rng.uniform(0.5, 1.5, p)
    y = np.exp(truth)[place] + 0.1 * rng.standard_normal(n)
    wrong = rng.choice(n, 100, replace=False)
    y[wrong] += 20.0
    fitted = lm.fit(lambda x, i: jnp.exp(x)[i], y, np.ones(p), args=(place,), starts=0)
    assert fitted.status is lm.FitStatus.FITTED
    assert np.array_equal(fitted.outliers, np.sort(wrong))
    # Each parameter is known from its own data alone.
    right = np.ones(n)
    right[wrong] = 0
    counts = np.bincount(place, right, minlength=p)
    means = np.bincount(place, right * y, minlength=p) / counts
    np.testing.assert_allclose(fitted.x, np.log(means), rtol=1e-6)
    wanted = fitted.noise / np.sqrt(counts) / means
    np.testing.assert_allclose(fitted.standard_errors, wanted, rtol=1e-6)


def test_time_and_what_is_asked_for_are_heeded():
    y, start = instance()
    early = lm.fit(curves, y, start, args=(T,), jacobian=KINDS["products"], max_seconds=0.0)
    assert early.status is lm.FitStatus.INTERRUPTED
    with pytest.raises(ValueError, match="not finite at the start"):
        lm.fit(lambda x, t: curves(x, t) / 0.0, y, start, args=(T,), jacobian=KINDS["products"])
