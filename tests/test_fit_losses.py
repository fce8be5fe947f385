"""`lm.fit` under a loss of the user's: its own minimum, errors and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import lemmax as lm

T = np.linspace(0.0, 3.0, 30)
RNG = np.random.default_rng(0)
DECAY = 2 * np.exp(-1.3 * T) + 0.05 * RNG.standard_normal(30)
DECAY[[4, 20]] += 1.0
START = np.array([1.0, 1.0])
HUBER = 0.04


def decay(x):
    return x[0] * jnp.exp(-x[1] * T)


def line(x):
    return x[0] + x[1] * T


def differences(function, at, directions, step=1e-6):
    return np.array([(function(at + step * d) - function(at - step * d)) for d in directions]) / (
        2 * step
    )


@pytest.mark.parametrize("level", [0.5, 0.3])
def test_a_linear_model_is_a_linear_program(level):
    loss = lm.losses.L1() if level == 0.5 else lm.losses.Quantile(level)
    fitted = lm.fit(line, DECAY, START, loss=loss)
    n = len(T)
    design = np.stack([np.ones(n), T], axis=1)
    above, below = (1.0, 1.0) if level == 0.5 else (1 - level, level)
    program = scipy.optimize.linprog(
        np.concatenate([np.zeros(2), np.full(n, above), np.full(n, below)]),
        A_eq=np.hstack([design, -np.eye(n), np.eye(n)]),
        b_eq=DECAY,
        bounds=[(None, None)] * 2 + [(0, None)] * 2 * n,
    )
    assert np.allclose(fitted.x, program.x[:2], rtol=1e-9)
    assert np.isclose(float(loss.value(jnp.asarray(fitted.residual))), program.fun, rtol=1e-6)
    assert np.sum(fitted.interpolated) == 2
    assert fitted.outlier_count == 0


def test_least_absolute_deviations_go_through_data_that_balance_the_others():
    fitted = lm.fit(decay, DECAY, START, loss=lm.losses.L1())
    assert fitted.status is lm.FitStatus.FITTED
    through = fitted.interpolated
    assert np.sum(through) == 2
    assert np.max(np.abs(fitted.residual[through])) < 1e-14
    jacobian = np.asarray(jax.jacfwd(decay)(fitted.x))
    others = jacobian[~through].T @ np.sign(fitted.residual[~through])
    multipliers = np.linalg.solve(jacobian[through].T, -others)
    assert np.all(np.abs(multipliers) < 1)
    # Gross errors may grow without any effect.
    worse = DECAY + 1e3 * np.isin(np.arange(30), [4, 20])
    assert np.allclose(lm.fit(decay, worse, START, loss=lm.losses.L1()).x, fitted.x, rtol=1e-12)


def test_huber_beside_scipy():
    sigma = 1.0 + T
    fitted = lm.fit(decay, DECAY, START, loss=lm.losses.Huber(HUBER), sigma=sigma)
    assert fitted.status is lm.FitStatus.FITTED
    theirs = scipy.optimize.least_squares(
        lambda x: (x[0] * np.exp(-x[1] * T) - DECAY) / sigma,
        START,
        loss="huber",
        f_scale=HUBER,
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-15,
    )
    assert np.allclose(fitted.x, theirs.x, rtol=1e-6)


def test_a_bound_that_holds():
    for loss in (lm.losses.L1(), lm.losses.Huber(HUBER)):
        fitted = lm.fit(decay, DECAY, START, loss=loss, bounds=(None, np.array([1.8, 9.0])))
        assert fitted.status is lm.FitStatus.FITTED
        assert fitted.x[0] == 1.8
        assert np.isnan(fitted.standard_errors[0])
        alone = scipy.optimize.minimize_scalar(
            lambda rate, h=loss: float(h.value(1.8 * jnp.exp(-rate * T) - DECAY)),
            bounds=(0.5, 2.0),
            method="bounded",
            options={"xatol": 1e-10},
        )
        assert np.isclose(fitted.x[1], alone.x, rtol=1e-3)


def test_errors_of_normal_data():
    # Asymptotic efficiencies: 2 / pi for absolute values, and a formula for Huber's loss.
    n = 4000
    t = np.linspace(0.0, 3.0, n)
    y = 2 * np.exp(-1.3 * t) + 0.1 * np.random.default_rng(1).standard_normal(n)

    def errors(loss):
        fitted = lm.fit(lambda x: x[0] * jnp.exp(-x[1] * t), y, START, loss=loss)
        assert fitted.status is lm.FitStatus.FITTED
        return fitted.standard_errors

    squares = errors(lm.losses.SquaredL2())
    assert np.allclose(errors(lm.losses.L1()) / squares, np.sqrt(np.pi / 2), rtol=0.12)
    inside = scipy.stats.norm.cdf(1.0) - scipy.stats.norm.cdf(-1.0)
    second = inside - 2 * scipy.stats.norm.pdf(1.0) + (1 - inside)
    wanted = np.sqrt(second) / inside
    assert np.allclose(errors(lm.losses.Huber(0.1)) / squares, wanted, rtol=0.05)


@pytest.mark.parametrize("loss", [lm.losses.L1(), lm.losses.Huber(HUBER)], ids=["l1", "huber"])
def test_derivatives(loss):
    def rate(y):
        return lm.fit(decay, y, START, loss=loss).x[1]

    found = np.asarray(jax.grad(rate)(DECAY))
    directions = RNG.standard_normal((4, 30))
    wanted = differences(rate, DECAY, directions)
    assert np.allclose(directions @ found, wanted, rtol=1e-6, atol=1e-7)
    assert np.all(found[[4, 20]] == 0)

    def doubled(y):
        return lm.fit(lambda x: (x[0] + x[1]) * jnp.exp(-x[2] * T), y, np.ones(3), loss=loss).x

    jacobian = np.asarray(jax.jacrev(doubled)(DECAY))
    assert np.allclose(jacobian[2], found, rtol=1e-6, atol=1e-7)
    assert np.allclose(jacobian[0], jacobian[1], rtol=1e-6, atol=1e-7)


def test_exact_data_and_derivatives():
    exact = 2 * np.exp(-1.3 * T)
    assert lm.fit(decay, exact, START, loss=lm.losses.L1()).status is lm.FitStatus.EXACT

    def rate(y, loss):
        return lm.fit(decay, y, START, loss=loss).x[1]

    with pytest.raises(ValueError, match="goes through 30 of the data"):
        jax.grad(rate)(exact, lm.losses.L1())
    # Far below the threshold Huber's loss is that of squares.
    found, wanted = (
        jax.grad(rate)(exact, loss) for loss in (lm.losses.Huber(HUBER), lm.losses.SquaredL2())
    )
    assert np.allclose(found, wanted, rtol=1e-6, atol=1e-9)
