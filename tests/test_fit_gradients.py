"""Derivatives of fitted parameters against finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm

T = np.linspace(0.0, 3.0, 30)
RNG = np.random.default_rng(0)
DECAY = 2 * np.exp(-1.3 * T) + 0.05 * RNG.standard_normal(30)
START = {"height": 1.0, "rate": 1.0}


def decay(x, t):
    return x["height"] * jnp.exp(-x["rate"] * t)


def differences(function, at, step=1e-5):
    rows = []
    for k in range(at.size):
        change = np.zeros_like(at)
        change[k] = step
        rows.append((function(at + change) - function(at - change)) / (2 * step))
    return np.array(rows)


def rate_of(y, t=T, sigma=None):
    return lm.fit(decay, y, START, args=(t,), sigma=sigma).x["rate"]


def test_by_the_data():
    # Residuals are not small: the curvature of the model counts.
    found = jax.grad(rate_of)(DECAY)
    assert np.allclose(found, differences(rate_of, DECAY), rtol=1e-6, atol=1e-8)


def test_exact_data():
    # Of exact data a datum that is moved at all is wrong, unless all are taken for right.
    def rate_by_squares(y):
        return lm.fit(decay, y, START, args=(T,), loss=lm.losses.SquaredL2()).x["rate"]

    y = 2 * np.exp(-1.3 * T)
    wanted = differences(rate_by_squares, y)
    assert np.allclose(jax.grad(rate_by_squares)(y), wanted, rtol=1e-6, atol=1e-8)


def test_wrong_data_have_no_say():
    y = DECAY.copy()
    y[[3, 17]] += 5.0
    found = np.asarray(jax.grad(rate_of)(y))
    assert np.all(found[[3, 17]] == 0)
    assert np.allclose(found, differences(rate_of, y), rtol=1e-6, atol=1e-8)


def test_by_arguments_and_sigma():
    by_times = jax.grad(lambda t: rate_of(DECAY, t))(T)
    assert np.allclose(by_times, differences(lambda t: rate_of(DECAY, t), T), rtol=1e-6, atol=1e-8)
    sigma = 0.05 * (1 + np.arange(30) % 3)
    by_sigma = jax.grad(lambda s: rate_of(DECAY, T, s))(sigma)
    wanted = differences(lambda s: rate_of(DECAY, T, s), sigma, 1e-7)
    assert np.allclose(by_sigma, wanted, rtol=1e-5, atol=1e-7)


def test_forward_and_reverse_agree():
    def both(y):
        x = lm.fit(decay, y, START, args=(T,)).x
        return jnp.stack([x["height"], x["rate"]])

    jacobian = jax.jacrev(both)(DECAY)
    direction = RNG.standard_normal(30)
    _, along = jax.jvp(both, (DECAY,), (direction,))
    assert np.allclose(jacobian @ direction, along, rtol=1e-10)
    assert jacobian.shape == (2, 30)


def test_more_parameters_than_the_curve_has():
    def doubled(x):
        return (x[0] + x[1]) * jnp.exp(-x[2] * T)

    def curve(y):
        # What is determined: the sum, and the rate.
        x = lm.fit(doubled, y, np.array([1.0, 1.0, 1.0])).x
        return x[0] + x[1] + x[2]

    assert np.allclose(jax.grad(curve)(DECAY), differences(curve, DECAY), rtol=1e-5, atol=1e-7)
    # No move along what is not determined.
    jacobian = jax.jacrev(lambda y: lm.fit(doubled, y, np.array([1.0, 1.0, 1.0])).x)(DECAY)
    assert np.allclose(jacobian[0], jacobian[1], rtol=1e-8)


def test_bounds_and_fixed_parameters_do_not_move():
    bounds = (None, {"height": 1.9, "rate": None})

    def bounded(y):
        return lm.fit(decay, y, START, args=(T,), bounds=bounds).x

    jacobian = jax.jacrev(bounded)(DECAY)
    assert np.all(jacobian["height"] == 0)
    wanted = differences(lambda y: bounded(y)["rate"], DECAY)
    assert np.allclose(jacobian["rate"], wanted, rtol=1e-6, atol=1e-8)


def test_nothing_but_the_parameters_is_known():
    with pytest.raises(AttributeError, match="only its x is known, not noise"):
        jax.grad(lambda y: lm.fit(decay, y, START, args=(T,)).noise)(DECAY)


def test_where_there_is_no_derivative():
    with pytest.raises(ValueError, match="no derivative"):
        jax.grad(rate_of)(RNG.standard_normal(30))
    with pytest.raises(ValueError, match="inside jit"):
        jax.jit(jax.grad(rate_of))(DECAY)
    with pytest.raises(ValueError, match="do not depend on the start"):
        jax.grad(lambda s: lm.fit(decay, DECAY, {"height": s, "rate": 1.0}, args=(T,)).x["rate"])(
            1.0
        )
    with jax.enable_x64(False), pytest.raises(ValueError, match="64 bits"):
        jax.grad(rate_of)(DECAY)
