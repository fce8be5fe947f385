"""Verdicts of `lm.fit`, and sentences for what cannot be right."""

import json
import types

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.fit import spoiled
from benchmarks.nist import problems

import lemmax as lm
from lemmax.fit import api

T = np.linspace(0.0, 3.0, 40)
NOISE = np.random.default_rng(0).standard_normal(40)
DECAY = 2 * np.exp(-1.3 * T)
START = np.array([1.0, 1.0])


def decay(x):
    return x[0] * jnp.exp(-x[1] * T)


def test_exact_data():
    y = DECAY.copy()
    y[::6] += 5.0
    fitted = lm.fit(decay, y, START)
    assert fitted.status is lm.FitStatus.EXACT
    assert np.allclose(fitted.x, [2.0, 1.3], rtol=1e-12)
    assert np.array_equal(fitted.outliers, np.arange(0, 40, 6))
    assert "none" in fitted.summary()


def test_parameters_that_only_their_sum_counts_of():
    for y in (DECAY, DECAY + 0.01 * NOISE):
        fitted = lm.fit(lambda x: (x[0] + x[2]) * jnp.exp(-x[1] * T), y, np.ones(3))
        assert fitted.status is lm.FitStatus.NOT_IDENTIFIED
        assert np.array_equal(np.isinf(fitted.standard_errors), [True, False, True])
        assert "x[0], x[2]" in fitted.objections[0]
        assert np.isclose(fitted.x[0] + fitted.x[2], 2.0, rtol=0.01)
        assert "not determined" in fitted.summary()
        # The curve is known in spite of it, but not its band by these parameters alone.
        assert np.allclose(fitted.predict().value, DECAY, atol=0.05)


def test_a_parameter_that_nothing_sees():
    fitted = lm.fit(
        lambda x: x["a"] * jnp.exp(-x["b"] * T) + 0 * x["c"],
        DECAY + 0.01 * NOISE,
        {"a": 1.0, "b": 1.0, "c": 1.0},
    )
    assert fitted.status is lm.FitStatus.NOT_IDENTIFIED
    assert fitted.objections == ("the data do not determine c",)
    assert np.isfinite(fitted.standard_errors["a"])
    with_it_fixed = lm.fit(
        lambda x: x["a"] * jnp.exp(-x["b"] * T) + 0 * x["c"],
        DECAY + 0.01 * NOISE,
        {"a": 1.0, "b": 1.0, "c": 1.0},
        fixed={"a": False, "b": False, "c": True},
    )
    assert with_it_fixed.status is lm.FitStatus.FITTED
    assert np.isclose(with_it_fixed.x["b"], fitted.x["b"], rtol=1e-6)


def test_data_of_noise_alone_support_nothing():
    fitted = lm.fit(decay, NOISE, START)
    assert fitted.status in (lm.FitStatus.DOUBTFUL, lm.FitStatus.NOT_CONVERGED)
    assert fitted.objections


def test_as_many_data_as_parameters():
    fitted = lm.fit(lambda x: x[0] * jnp.exp(-x[1] * T[:2]), DECAY[:2], START)
    assert not fitted.status.succeeded
    assert fitted.freedom == 0

    assert fitted.status is lm.FitStatus.DOUBTFUL
    assert "as many parameters" in fitted.objections[0]
    assert np.all(np.isinf(fitted.standard_errors))
    assert np.allclose(fitted.x, [2.0, 1.3], rtol=1e-9)


@pytest.mark.parametrize("share", [0.55, 0.65])
def test_more_than_half_of_the_data_wrong(share):
    rng = np.random.default_rng(5)
    t = np.linspace(0.0, 3.0, 120)
    y = 2 * np.exp(-1.3 * t) + 0.01 * rng.standard_normal(120)
    wrong = np.sort(rng.choice(120, round(share * 120), replace=False))
    y[wrong] += rng.uniform(0.5, 10.0, len(wrong)) * rng.choice([-1.0, 1.0], len(wrong))
    fitted = lm.fit(lambda x: x[0] * jnp.exp(-x[1] * t), y, START)
    assert fitted.status is lm.FitStatus.FITTED
    assert np.array_equal(fitted.outliers, wrong)


def test_two_structures_are_told_apart_by_nobody():
    t = np.linspace(0.0, 1.0, 60)
    y = np.where(np.arange(60) % 2 == 0, 1 + t, 3 - t) + 0.01 * NOISE[np.arange(60) % 40]
    fitted = lm.fit(lambda x: x[0] + x[1] * t, y, np.array([0.5, 0.5]))
    assert not fitted.status.succeeded
    assert any("another fit" in objection for objection in fitted.objections)
    lines = np.array([fitted.x, *fitted.minima])
    for line in ([1.0, 1.0], [3.0, -1.0]):
        assert np.min(np.linalg.norm(lines - line, axis=1)) < 0.02


def test_wrong_data_on_a_curve_of_their_own():
    # At the left end the data leave the model, by little but all to one side.
    t = np.linspace(0.0, 3.0, 100)
    noise = 1e-4 * np.random.default_rng(3).standard_normal(100)
    y = 2 * np.exp(-1.3 * t) + noise + 0.03 * np.maximum(0.5 - t, 0)
    fitted = lm.fit(lambda x: x[0] * jnp.exp(-x[1] * t), y, START)
    assert not fitted.status.succeeded or fitted.outlier_count == 0


def test_outliers_on_one_side_among_inliers_are_no_curve():
    """They are where the model is right as well; those of a whole part of the curve are not."""
    t = np.linspace(0.0, 3.0, 60)
    y = 2 * np.exp(-1.3 * t) + 0.01 * np.random.default_rng(3).standard_normal(60)
    among, together = np.random.default_rng(4).random(60) < 0.25, np.arange(60) >= 45

    def model(x):
        return x[0] * jnp.exp(-x[1] * t)

    for wrong, status in ((among, lm.FitStatus.FITTED), (together, lm.FitStatus.DOUBTFUL)):
        fitted = lm.fit(model, y + 0.3 * wrong, START)
        assert np.array_equal(fitted.outliers, np.flatnonzero(wrong))
        assert fitted.status is status
        many = lm.fit_many(model, y + 0.3 * wrong[None], START)
        assert np.array_equal(many.wrong[0], wrong)
        assert many.status(0) is status


def test_data_that_a_detector_has_cut_off_are_doubted():
    rng = np.random.default_rng(0)
    t = np.linspace(0.0, 10.0, 60)

    def peak(x):
        return x[0] * jnp.exp(-(((t - x[1]) / x[2]) ** 2)) + x[3]

    y = 3 * np.exp(-(((t - 4) / 0.7) ** 2)) + 1 + 0.05 * rng.standard_normal(60)
    cut, start = np.minimum(y, np.quantile(y, 0.85)), np.array([2.0, 4.5, 1.0, 0.5])
    fitted = lm.fit(peak, cut, start)
    assert fitted.status is lm.FitStatus.DOUBTFUL
    assert any("9 data have the same value" in objection for objection in fitted.objections)
    many = lm.fit_many(peak, np.stack([cut, y, np.round(y, 1)]), start)
    assert many.succeeded.tolist() == [False, True, True]
    told = lm.fit(peak, np.where(cut < cut.max(), cut, np.nan), start)
    assert told.status is lm.FitStatus.FITTED


def test_data_that_are_all_zero():
    # Equations to be solved, with more of them than unknowns.
    fitted = lm.fit(
        lambda x: jnp.stack([x[0] - 3, x[0] * x[1] - 6, x[1] - 2]), np.zeros(3), np.ones(2)
    )
    assert fitted.status is lm.FitStatus.EXACT
    assert np.allclose(fitted.x, [3.0, 2.0], rtol=1e-12)


def test_a_parameter_that_is_zero():
    y = DECAY + 0.01 * NOISE
    fitted = lm.fit(
        lambda x: x[0] * jnp.exp(-x[1] * (T - x[2] ** 3)) + 0.1 * jnp.sin(9 * (T - x[2])),
        y + 0.1 * np.sin(9 * T),
        np.array([1.0, 1.0, 0.0]),
    )
    assert fitted.status is lm.FitStatus.FITTED
    assert abs(fitted.x[2]) < 0.1


def test_a_datum_that_alone_determines_a_parameter():
    pulse = np.zeros(40)
    pulse[17] = 1.0
    fitted = lm.fit(
        lambda x: x[0] * jnp.exp(-x[1] * T) + x[2] * pulse, DECAY + 0.01 * NOISE, np.ones(3)
    )
    assert fitted.status is lm.FitStatus.DOUBTFUL
    assert "single datum" in fitted.objections[0]


def test_a_time_limit_interrupts():
    fitted = lm.fit(decay, DECAY + 0.01 * NOISE, START, max_seconds=0.0)
    assert fitted.status is lm.FitStatus.INTERRUPTED
    assert fitted.x.shape == (2,)


def test_a_time_limit_that_ends_with_the_search_still_gives_a_verdict(monkeypatch):
    """The hold-out test takes steps, too, for which no time is left."""
    now, run = [0.0], api._run

    def late(search, report):
        interrupted = run(search, report)
        now[0] = 1e6
        return interrupted

    monkeypatch.setattr(api, "_run", late)
    monkeypatch.setattr(api, "time", types.SimpleNamespace(perf_counter=lambda: now[0]))
    y = DECAY + 0.01 * NOISE + 3.0 * (np.arange(40) % 8 == 0)
    fitted = lm.fit(decay, y, START, max_seconds=1.0)
    assert fitted.status is lm.FitStatus.FITTED
    assert fitted.seconds == 1e6


def test_a_fit_that_does_not_end():
    # The best exponent is infinite: the data are a step.
    y = (np.arange(40) >= 20) + 1e-3 * NOISE
    fitted = lm.fit(lambda x: 1 / (1 + jnp.exp(-x[0] * (T - x[1]))), y, np.array([1.0, 1.0]))
    assert not fitted.status.succeeded


def test_every_status_says_something():
    assert len({status.message for status in lm.FitStatus}) == len(lm.FitStatus)


def test_correlated_residuals_are_remarked_on():
    t = np.linspace(0.0, 3.0, 200)
    y = 2 * np.exp(-1.3 * t) + 0.02 * np.sin(9 * t)
    fitted = lm.fit(lambda x: x[0] * jnp.exp(-x[1] * t), y, START)
    assert "correlated" in fitted.remarks[0]


def test_a_summary_and_numbers_for_a_file():
    fitted = lm.fit(decay, DECAY + 0.01 * NOISE, START)
    assert str(fitted) == fitted.summary()
    assert "±" in fitted.summary()
    stored = json.loads(json.dumps(fitted.as_dict()))
    assert stored["status"] == "FITTED"
    assert stored["parameters"]["x[1]"]["value"] == fitted.x[1]
    assert repr(fitted) == "<Fit FITTED, 2 parameters>"


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        ((lambda x: x[0] * np.exp(-x[1] * T), DECAY, START), {}, "written with jax.numpy"),
        ((lambda x: x[0] * T if x[1] > 0 else T, DECAY, START), {}, "written with jax.numpy"),
        ((decay, DECAY[:30], START), {}, "returns an array of shape \\(40,\\)"),
        ((lambda x: (decay(x), T), DECAY, START), {}, "they must be alike"),
        ((decay, DECAY + 1j, START), {}, "complex"),
        ((decay, np.full(40, np.nan), START), {}, "nothing but missing"),
        ((decay, np.where(T > 0, DECAY, np.inf), START), {}, "infinite"),
        ((decay, np.where(T > 0.05, np.nan, DECAY), START), {}, "too few"),
        ((decay, DECAY, {}), {}, "no parameters"),
        ((decay, DECAY, np.array([1.0, np.nan])), {}, "x\\[1\\] is not"),
        ((decay, DECAY, "ab"), {}, "made of numbers"),
        ((decay, DECAY, START * 1j), {}, "Complex parameters"),
        ((decay, ["a"] * 40, START), {}, "made of numbers"),
        ((decay, DECAY, START), {"fixed": [True]}, "fixed must"),
        ((decay, DECAY, START), {"fixed": np.array([True, True])}, "nothing to fit"),
        ((decay, DECAY, START), {"fixed": np.array([1.0, 0.0])}, "True and False"),
        ((decay, DECAY, START), {"bounds": 3}, "pair"),
        ((decay, DECAY, START), {"bounds": (np.zeros(3), None)}, "bounds must have the shapes"),
        (
            (lambda x: decay(list(x.values())), DECAY, {"a": 1.0, "b": 1.0}),
            {"bounds": ({"a": 0, "c": 0}, None)},
            "unknown: c; missing: b",
        ),
        ((decay, DECAY, START), {"bounds": (5.0, 6.0)}, "out of bounds: x\\[0\\], x\\[1\\]"),
        ((decay, DECAY, START), {"bounds": (2.0, 0.0)}, "above the upper one"),
        ((decay, DECAY, START), {"bounds": (1.0, 1.0)}, "leave no room"),
        ((decay, DECAY, START), {"sigma": np.zeros(40)}, "positive"),
        ((decay, DECAY, START), {"sigma": np.ones(7)}, "does not fit"),
        ((decay, DECAY, START), {"args": ("linear",)}, "functools.partial"),
        ((decay, DECAY, START), {"loss": lm.losses.L2()}, "no sum over the data"),
        ((decay, DECAY, START), {"loss": lm.losses.L1(weights=np.ones(40))}, "given by sigma"),
        (
            (decay, DECAY, START),
            {"loss": lm.losses.L1(), "jacobian": lm.jacobians.Products()},
            "need jacobian=lm.jacobians.Dense",
        ),
        ((decay, DECAY, START), {"starts": -1}, "starts"),
        ((decay, DECAY, START), {"starts": [np.ones(3)]}, "shapes of the start"),
        ((decay, DECAY, START), {"max_seconds": -1.0}, "max_seconds"),
        ((lambda x: jnp.log(-(x[0] ** 2)) * T + x[1], DECAY, START), {}, "not finite at the start"),
    ],
)
def test_sentences(arguments, options, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        lm.fit(*arguments, **options)


def test_a_model_that_is_not_finite_somewhere():
    # Logarithms of what becomes negative: such steps are rejected.
    y = np.log(1 + 2 * T) + 0.01 * NOISE
    fitted = lm.fit(lambda x: jnp.log(x[0] + x[1] * T), y, np.array([5.0, 0.1]))
    assert fitted.status is lm.FitStatus.FITTED
    assert np.allclose(fitted.x, [1.0, 2.0], atol=0.1)


def test_a_model_that_raises():
    # Steps to where it raises are rejected; the start may be such a place, but not all around it.
    def checked(limit):
        def model(x):
            x = eqx.error_if(x, x[1] > limit, "the rate is too large")
            return decay(x)

        return model

    y = DECAY + 0.01 * NOISE
    fitted = lm.fit(checked(1.5), y, np.array([10.0, 0.1]))
    assert fitted.status is lm.FitStatus.FITTED
    assert np.allclose(fitted.x, lm.fit(decay, y, START).x, rtol=1e-8)
    with pytest.raises(ValueError, match=r"fails at the start with .*: the rate is too large"):
        lm.fit(checked(-9.0), y, START)
    with pytest.raises(ValueError, match="all steps are one program"):
        lm.fit_many(checked(-9.0), y[None], START)


def test_a_model_that_is_not_a_function():
    calls = []

    def shorter(x):
        calls.append(None)
        return decay(x)[: len(T) + 1 - len(calls)]

    def kept(x):
        calls.append(x)
        return decay(calls[0])

    for model in (shorter, kept):
        calls.clear()
        with pytest.raises(TypeError, match="function of its arguments alone"):
            lm.fit(model, DECAY, START)
    with pytest.raises(ValueError, match="returns nothing"):
        lm.fit(lambda x: None, DECAY, START)


def test_a_picture():
    y = DECAY + 0.01 * NOISE
    y[::8] += 3.0
    y[3] = np.nan
    fitted = lm.fit(decay, y, START)
    figure = lm.plots.fit(fitted, T)
    above, below = figure.axes
    drawn = {line.get_label(): len(line.get_xdata()) for line in above.lines}
    assert sum(count for label, count in drawn.items() if label.startswith("outliers")) == 5
    assert drawn["fit"] == 40
    assert below.get_ylabel() == "residual"
    with pytest.raises(ValueError, match="t has shape"):
        lm.plots.fit(fitted, T[:3])


def test_a_picture_of_several_curves():
    def model(x, t):
        return {"fall": x[0] * jnp.exp(-x[1] * t), "rise": x[0] * (1 - jnp.exp(-x[1] * t))}

    y = {"fall": DECAY + 0.01 * NOISE, "rise": 2 - DECAY + 0.01 * NOISE[::-1]}
    y["rise"][4] = 9.0
    fitted = lm.fit(model, y, START, args=(T,))
    assert [int(np.sum(fitted.wrong[name])) for name in ("fall", "rise")] == [0, 1]
    figure = lm.plots.fit(fitted, T)
    assert [ax.get_ylabel() for ax in figure.axes] == ["fall", "rise", "residual", "residual"]
    crosses = [
        [line.get_xdata() for line in ax.lines if line.get_label().startswith("outliers")]
        for ax in figure.axes[:2]
    ]
    assert crosses[0] == []
    assert np.array_equal(crosses[1], [[T[4]]])
    # As columns of a matrix.
    pair = np.stack(list(y.values()), axis=1)
    fitted = lm.fit(lambda x, t: jnp.stack(list(model(x, t).values()), 1), pair, START, args=(T,))
    axes = lm.plots.fit(fitted, T).axes
    assert [ax.get_ylabel() for ax in axes[:2]] == ["y[:, 0]", "y[:, 1]"]
    with pytest.raises(ValueError, match="at most 6 real curves"):
        lm.plots.fit(lm.fit(lambda x: x * jnp.ones((2, 2, 2)), np.ones((2, 2, 2)), 1.0))


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_wrong_data_within_the_range_of_the_others_are_found(noise):
    """No residual of least squares is far out, but they are not those of noise."""
    t = np.linspace(0, 4, 60)
    y = 2 * np.exp(-0.5 * t) + np.exp(-3 * t)
    y += noise * np.random.default_rng(0).standard_normal(60)
    y[::7] += 1.0
    fitted = lm.fit(
        lambda x: x[0] * jnp.exp(-x[1] * t) + x[2] * jnp.exp(-x[3] * t), y, np.array([1, 1, 1, 2.0])
    )
    assert fitted.status.succeeded
    np.testing.assert_array_equal(fitted.outliers, np.arange(0, 60, 7))


def test_gross_errors_that_pass_for_noise_are_doubted():
    """Noise of half the curve's range: 17 gross errors may pass for the tails of the noise."""
    problem = problems()["ENSO"]
    y, right = spoiled(problem, 0.1, 20)
    alone = np.where(right, y, np.nan)
    best = lm.fit(problem.model, alone, problem.parameters, loss=lm.losses.SquaredL2(), starts=0)
    fitted = lm.fit(problem.model, y, problem.starts[1])
    near = np.max(np.abs(fitted.x - best.x) / best.standard_errors) < 5
    assert near or not fitted.status.succeeded
