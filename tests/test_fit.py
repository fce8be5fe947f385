"""`lm.fit`: certified and independent answers, invariance, verdicts, input."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from benchmarks.mgh import cases
from benchmarks.nist import problems

import lemmax as lm


def decay(x, t):
    return x["height"] * jnp.exp(-x["rate"] * t)


T = np.linspace(0.0, 3.0, 40)
NOISE = np.random.default_rng(0).standard_normal(40)
DECAY = 2 * np.exp(-1.3 * T) + 0.01 * NOISE
START = {"height": 1.0, "rate": 1.0}


def close(found, wanted, digits):
    return np.all(np.abs(found - wanted) <= 10.0**-digits * np.abs(wanted))


@pytest.mark.parametrize("name", [name for name in problems() if name != "Lanczos1"])
def test_certified_values(name):
    problem = problems()[name]
    for start in problem.starts:
        fitted = lm.fit(problem.model, problem.y, start)
        assert fitted.status is lm.FitStatus.FITTED
        assert fitted.outlier_count == 0
        assert close(fitted.x, problem.parameters, 6)
        assert close(fitted.standard_errors, problem.deviations, 4)


def test_certified_values_at_the_level_of_rounding_errors():
    # Residuals of 1e-13 of data of 2.5 have three digits in float64, and so has their size.
    problem = problems()["Lanczos1"]
    for start in problem.starts:
        fitted = lm.fit(problem.model, problem.y, start)
        assert close(fitted.x, problem.parameters, 6)
        assert close(fitted.standard_errors, problem.deviations, 2.5)


def test_masked_data_are_missing():
    hidden = np.arange(40) % 5 == 2
    y = np.ma.array(np.where(hidden, 7.0, DECAY), mask=hidden)
    masked = lm.fit(decay, y, START, args=(T,))
    without = lm.fit(decay, np.where(hidden, np.nan, DECAY), START, args=(T,))
    assert masked.outlier_count == 0
    assert masked.freedom == 30
    assert masked.x == without.x
    assert np.ma.count_masked(y) == 8
    many = lm.fit_many(decay, np.ma.stack([y, y]), START, args=(T,))
    assert np.array_equal(many.freedom, [30, 30])


@pytest.mark.parametrize("level", [0.0, 1e7, 1e9])
def test_a_level_far_above_the_noise(level):
    rng = np.random.default_rng(1)
    t = np.linspace(0.0, 5.0, 60)
    y = 3 * np.exp(-t) + 0.05 * rng.standard_normal(60)
    y[::7] += 1.0
    fitted = lm.fit(
        lambda x: x[0] * jnp.exp(-x[1] * t) + x[2], y + level, np.array([1.0, 1.0, level])
    )
    assert fitted.status is lm.FitStatus.FITTED
    assert np.array_equal(fitted.outliers, np.arange(0, 60, 7))
    off = np.abs(fitted.x - np.array([3.0, 1.0, level])) / fitted.standard_errors
    assert np.all(off < 4)


@pytest.mark.parametrize("name", ["Misra1a", "Chwirut2", "Thurber", "Gauss1", "MGH10"])
def test_wrong_data_do_not_count(name):
    problem = problems()[name]
    rng = np.random.default_rng(7)
    wrong = rng.choice(len(problem.y), len(problem.y) // 10 + 1, replace=False)
    y = problem.y.copy()
    y[wrong] += 5 * np.std(y) * rng.choice([-1.0, 1.0], len(wrong))
    fitted = lm.fit(problem.model, y, problem.starts[1])
    # An independent solver on the right data alone.
    right = np.setdiff1d(np.arange(len(y)), wrong)
    jacobian = jax.jacfwd(problem.model)
    alone = scipy.optimize.least_squares(
        lambda b: np.asarray(problem.model(b))[right] - y[right],
        problem.parameters,
        jac=lambda b: np.asarray(jacobian(b))[right],
        x_scale="jac",
        xtol=1e-12,
        ftol=1e-12,
        gtol=1e-12,
    )
    assert fitted.status is lm.FitStatus.FITTED
    assert np.array_equal(fitted.outliers, np.sort(wrong))
    assert np.all(np.abs(fitted.x - alone.x) <= 1e-3 * fitted.standard_errors)


def test_errors_are_those_of_scipy():
    fitted = lm.fit(decay, DECAY, START, args=(T,))
    x, covariance = scipy.optimize.curve_fit(
        lambda t, a, b: a * np.exp(-b * t), T, DECAY, (1.0, 1.0), xtol=1e-14, ftol=1e-14
    )
    assert fitted.names == ("height", "rate")
    assert np.allclose([fitted.x["height"], fitted.x["rate"]], x, rtol=1e-7)
    assert np.allclose(fitted.covariance, covariance, rtol=1e-5)
    errors = np.sqrt(np.diag(covariance))
    low, high = fitted.interval(0.95)
    factor = 2.0243941639119  # of Student's distribution with 38 degrees of freedom
    assert np.isclose(high["rate"] - low["rate"], 2 * factor * errors[1], rtol=1e-5)


def test_sigma_weighs_and_judges():
    rng = np.random.default_rng(1)
    sigma = np.where(np.arange(40) % 2 == 0, 0.01, 0.5)
    y = 2 * np.exp(-1.3 * T) + sigma * rng.standard_normal(40)
    fitted = lm.fit(decay, y, START, args=(T,), sigma=sigma)
    x, covariance = scipy.optimize.curve_fit(
        lambda t, a, b: a * np.exp(-b * t), T, y, (1.0, 1.0), sigma=sigma, xtol=1e-14, ftol=1e-14
    )
    assert np.allclose([fitted.x["height"], fitted.x["rate"]], x, rtol=1e-6)
    assert np.allclose(fitted.covariance, covariance, rtol=1e-5)
    assert fitted.outlier_count == 0
    assert 0.7 < fitted.noise < 1.3
    # What is ordinary for one datum is gross for another.
    y[4] += 1.0
    assert np.array_equal(lm.fit(decay, y, START, args=(T,), sigma=sigma).outliers, [4])
    y[4] -= 1.0
    y[5] += 1.0
    assert lm.fit(decay, y, START, args=(T,), sigma=sigma).outlier_count == 0


@pytest.mark.parametrize("of_data", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("of_rate", [1e-8, 1e8])
def test_units_do_not_matter(of_data, of_rate):
    y = DECAY.copy()
    y[::7] += 3.0
    plain = lm.fit(decay, y, START, args=(T,))
    start = {"height": of_data, "rate": of_rate}
    scaled = lm.fit(decay, of_data * y, start, args=(T / of_rate,))
    assert scaled.status is plain.status is lm.FitStatus.FITTED
    assert np.array_equal(scaled.outliers, plain.outliers)
    for name, unit in (("height", of_data), ("rate", of_rate)):
        assert np.isclose(scaled.x[name], unit * plain.x[name], rtol=1e-9)
        error = unit * plain.standard_errors[name]
        assert np.isclose(scaled.standard_errors[name], error, rtol=1e-6)


def test_logistic_growth_in_people_and_days():
    t = np.linspace(0.0, 5000.0, 60)

    def logistic(x):
        return x[0] / (1 + jnp.exp(-x[1] * (t - x[2])))

    y = np.asarray(logistic(np.array([2e4, 2e-3, 2500.0])))
    for start in ([1e4, 1e-3, 1000.0], [1e5, 1e-2, 4000.0], [5e3, 5e-4, 100.0]):
        fitted = lm.fit(logistic, y, np.array(start))
        if fitted.status.succeeded:
            assert close(fitted.x, np.array([2e4, 2e-3, 2500.0]), 9)
        assert fitted.status is lm.FitStatus.EXACT


def test_missing_data_are_like_data_that_are_not_there():
    y = DECAY.copy()
    y[3::5] = np.nan
    there = np.isfinite(y)
    with_holes = lm.fit(decay, y, START, args=(T,))
    without = lm.fit(decay, y[there], START, args=(T[there],))
    assert np.isclose(with_holes.x["rate"], without.x["rate"], rtol=1e-9)
    assert np.array_equal(np.isnan(with_holes.residual), ~there)
    assert with_holes.observations == np.sum(there)


def test_pytrees_all_the_way():
    def model(x):
        line = x["line"][0] + x["line"][1] * T
        return {"line": line, "waves": (x["wave"] * jnp.sin(T), x["line"][1] * jnp.cos(T))}

    truth = {"line": np.array([1.0, -2.0]), "wave": 0.5}
    rng = np.random.default_rng(0)
    y = jax.tree.map(lambda u: np.asarray(u) + 0.01 * rng.standard_normal(40), model(truth))
    y["waves"][0][6] = 9.0
    fitted = lm.fit(model, y, {"line": np.zeros(2), "wave": 1.0})
    assert fitted.names == ("line[0]", "line[1]", "wave")
    assert jax.tree.structure(fitted.x) == jax.tree.structure(truth)
    assert np.allclose(fitted.x["line"], truth["line"], atol=0.02)
    assert jax.tree.map(list, fitted.outliers["waves"]) == ([6], [])
    assert len(fitted.outliers["line"]) == 0
    assert fitted.predict().value["waves"][1].shape == (40,)


def test_complex_data_through_their_parts():
    def model(x):
        angle = x["frequency"] * T
        return jax.lax.complex(x["size"] * jnp.cos(angle), x["size"] * jnp.sin(angle))

    rng = np.random.default_rng(0)
    noise = 0.01 * (rng.standard_normal(40) + 1j * rng.standard_normal(40))
    y = 2 * np.exp(1.7j * T) + noise
    y[5] += 3j
    fitted = lm.fit(model, y, {"size": 1.0, "frequency": 1.5})

    def parts(b):
        residual = b[0] * np.exp(1j * b[1] * T) - y
        # The real part of the wrong datum is right.
        return np.concatenate([residual.real, np.delete(residual.imag, 5)])

    alone = scipy.optimize.least_squares(parts, (2.0, 1.7), xtol=1e-14, ftol=1e-14, gtol=1e-14)
    assert np.isclose(fitted.x["frequency"], alone.x[1], rtol=1e-7)
    assert np.array_equal(fitted.outliers, [5])
    assert fitted.observations == 80
    assert fitted.outlier_count == 1
    assert np.iscomplexobj(fitted.predict().low)


def test_bounds_hold_and_are_optimal():
    bounds = (None, {"height": 1.9, "rate": None})
    fitted = lm.fit(decay, DECAY, START, args=(T,), bounds=bounds)
    alone = scipy.optimize.least_squares(
        lambda b: b[0] * np.exp(-b[1] * T) - DECAY,
        (1.0, 1.0),
        bounds=([-np.inf, -np.inf], [1.9, np.inf]),
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
    )
    assert fitted.x["height"] == 1.9
    assert np.isclose(fitted.x["rate"], alone.x[1], rtol=1e-6)
    assert np.isnan(fitted.standard_errors["height"])
    assert np.isfinite(fitted.standard_errors["rate"])
    assert "at a bound: height" in fitted.remarks
    loose = lm.fit(decay, DECAY, START, args=(T,), bounds=(0.0, 10.0))
    assert np.isclose(loose.x["rate"], lm.fit(decay, DECAY, START, args=(T,)).x["rate"], rtol=1e-9)


def test_fixed_parameters_stay():
    fixed = {"height": True, "rate": False}
    fitted = lm.fit(decay, DECAY, {"height": 2.1, "rate": 1.0}, args=(T,), fixed=fixed)
    alone = scipy.optimize.least_squares(
        lambda b: 2.1 * np.exp(-b[0] * T) - DECAY, (1.0,), xtol=1e-14, ftol=1e-14, gtol=1e-14
    )
    assert fitted.x["height"] == 2.1
    assert fitted.standard_errors["height"] == 0
    assert fitted.names == ("rate",)
    assert fitted.covariance.shape == (1, 1)
    assert np.isclose(fitted.x["rate"], alone.x[0], rtol=1e-7)


def test_arguments_by_partial_or_by_name():
    by_partial = lm.fit(functools.partial(decay, t=T), DECAY, START)
    by_args = lm.fit(decay, DECAY, START, args=(T,))
    assert np.isclose(by_partial.x["rate"], by_args.x["rate"], rtol=1e-12)


def test_band_of_the_curve():
    fitted = lm.fit(decay, DECAY, START, args=(T,))
    later = np.array([0.5, 4.0])
    curve = fitted.predict(0.9, args=(later,))
    h, r = (np.asarray(fitted.x[name]) for name in ("height", "rate"))
    slopes = np.stack([np.exp(-r * later), -h * later * np.exp(-r * later)], axis=1)
    error = np.sqrt(np.einsum("np,pq,nq->n", slopes, fitted.covariance, slopes))
    assert np.allclose(curve.standard_error, error, rtol=1e-10)
    assert np.all((curve.low < curve.value) & (curve.value < curve.high))


def test_float64_whatever_the_mode():
    with jax.enable_x64(False):
        fitted = lm.fit(decay, DECAY, START, args=(T,))
        assert all(leaf.dtype == np.float64 for leaf in jax.tree.leaves(fitted.x))
    assert np.isclose(
        fitted.x["rate"], lm.fit(decay, DECAY, START, args=(T,)).x["rate"], rtol=1e-12
    )


def test_the_arguments_are_not_changed():
    y, start = DECAY.copy(), {"height": np.array(1.0), "rate": np.array(1.0)}
    y[4] = 9.0
    before = y.copy()
    lm.fit(decay, y, start, args=(T,))
    assert np.array_equal(y, before)
    assert start["height"] == 1.0


def test_least_squares_if_asked_for():
    y = DECAY.copy()
    y[::8] += 3.0
    fitted = lm.fit(decay, y, START, args=(T,), loss=lm.losses.SquaredL2())
    x, _ = scipy.optimize.curve_fit(
        lambda t, a, b: a * np.exp(-b * t), T, y, (1.0, 1.0), xtol=1e-14, ftol=1e-14, gtol=1e-14
    )
    assert fitted.outlier_count == 0
    assert np.allclose([fitted.x["height"], fitted.x["rate"]], x, rtol=1e-6)


def test_other_starts_are_used():
    def wave(x):
        return jnp.sin(x * T)

    y = np.sin(31.0 * T) + 0.01 * NOISE
    fitted = lm.fit(wave, y, 3.0, starts=[30.9])
    assert fitted.status is lm.FitStatus.FITTED
    assert np.isclose(fitted.x, 31.0, atol=0.05)


QUICK = ("Brown badly scaled", "Jennrich and Sampson", "Box three-dimensional", "Osborne 2")


@pytest.mark.parametrize("case", [case for case in cases() if case.name in QUICK])
def test_known_minima(case):
    fitted = lm.fit(case.model, case.y, case.start, loss=lm.losses.SquaredL2())
    reached = np.sum(fitted.residual**2)
    # The published minima have six digits.
    assert any(np.isclose(reached, least, rtol=1e-5, atol=1e-18) for least in case.minima)
    assert fitted.status.succeeded is not case.singular


def test_models_that_know_reverse_mode_alone():
    @jax.custom_vjp
    def exponential(u):
        return jnp.exp(u)

    exponential.defvjp(lambda u: (jnp.exp(u),) * 2, lambda value, slope: (slope * value,))
    t = np.linspace(0, 3, 30)
    y = 2 * np.exp(-1.3 * t) + 0.01 * np.random.default_rng(0).standard_normal(30)
    fits = [
        lm.fit(lambda x, f=f: x[0] * f(-x[1] * t), y, np.ones(2)) for f in (exponential, jnp.exp)
    ]
    np.testing.assert_allclose(fits[0].x, fits[1].x, rtol=1e-8)
    np.testing.assert_allclose(fits[0].covariance, fits[1].covariance, rtol=1e-6)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (lambda x, t: x * t, "0 further arguments .* missing 1 required positional argument"),
        (lambda x: x["rate"] * jnp.ones(5), "failed with"),
    ],
)
def test_models_that_fail_are_named(model, sentence):
    with pytest.raises(TypeError, match=sentence):
        lm.fit(model, np.ones(5), 1.0)


def test_a_callback_sees_the_search_and_stops_it():
    t, seen = np.linspace(0, 3, 30), []

    def callback(*told):
        seen.append(told)
        return True

    y = np.random.default_rng(0).standard_normal(30)  # nothing to be found
    fitted = lm.fit(lambda x: x[0] * jnp.exp(-x[1] * t), y, np.ones(2), callback=callback)
    assert len(seen) == 1
    assert fitted.status is lm.FitStatus.INTERRUPTED


def test_the_title_of_a_fit_has_its_noise_in_units_of_sigma_if_that_is_given():
    t = np.linspace(0.0, 3.0, 12)
    y = 2 * t + 0.02 * np.cos(9 * t)
    plain = lm.fit(lambda x: x[0] * t, y, [1.0])
    told = lm.fit(lambda x: x[0] * t, y, [1.0], sigma=0.01)
    titles = [lm.plots.fit(each, t).axes[0].get_title() for each in (plain, told)]
    assert titles == [
        f"FITTED, noise {plain.noise:.3g}",
        f"FITTED, noise {100 * plain.noise:.3g} times sigma",
    ]
