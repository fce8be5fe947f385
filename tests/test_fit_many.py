"""`lm.fit_many`: the same answers as one fit after the other."""

import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm
from lemmax.fit import _parallel
from lemmax.fit._glance import glance_at
from lemmax.fit._inverses import inverses

T = np.linspace(0.0, 3.0, 60)
START = {"height": 1.0, "rate": 1.0}


def decay(x, t):
    return x["height"] * jnp.exp(-x["rate"] * t)


@pytest.fixture(scope="module")
def curves():
    rng = np.random.default_rng(0)
    heights, rates = rng.uniform(1, 3, 50), rng.uniform(0.5, 2, 50)
    y = heights[:, None] * np.exp(-rates[:, None] * T) + 0.02 * rng.standard_normal((50, 60))
    wrong = rng.random(y.shape) < 0.1 * (np.arange(50) % 2)[:, None]
    y = np.where(wrong, y + rng.choice([-4.0, 4.0], y.shape), y)
    y[:, 11] = np.nan
    wrong[:, 11] = False
    return y, wrong, rates


def test_the_answers_are_those_of_single_fits(curves):
    y, wrong, _ = curves
    many = lm.fit_many(decay, y, START, args=(T,))
    assert np.all(many.succeeded)
    assert np.array_equal(many.wrong, wrong)
    for k in range(0, 50, 7):
        alone = lm.fit(decay, y[k], START, args=(T,))
        assert many.status(k) is alone.status
        assert np.isclose(many.x["rate"][k], alone.x["rate"], rtol=1e-7)
        assert np.isclose(many.standard_errors["rate"][k], alone.standard_errors["rate"], rtol=1e-5)
        assert np.isclose(many.noise[k], alone.noise, rtol=1e-6)
        assert many.freedom[k] == alone.freedom


def test_least_squares_if_asked_for(curves):
    y, _, _ = curves
    many = lm.fit_many(decay, y, START, args=(T,), loss=lm.losses.SquaredL2())
    assert not np.any(many.wrong)
    alone = lm.fit(decay, y[1], START, args=(T,), loss=lm.losses.SquaredL2())
    assert np.isclose(many.x["rate"][1], alone.x["rate"], rtol=1e-5)


def test_times_and_starts_of_their_own(curves):
    _, _, rates = curves
    rng = np.random.default_rng(1)
    times = np.sort(rng.uniform(0, 3, (50, 60)), axis=1)
    y = np.exp(-rates[:, None] * times) + 0.01 * rng.standard_normal((50, 60))
    start = {"height": np.full(50, 0.5), "rate": rates * 1.5}
    many = lm.fit_many(decay, y, start, each=(times,))
    assert np.all(many.succeeded)
    assert np.mean(np.abs(many.x["rate"] - rates) < 3 * many.standard_errors["rate"]) > 0.9


def test_bounds_fixed_and_sigma(curves):
    y, _, _ = curves
    fixed = {"height": True, "rate": False}
    many = lm.fit_many(decay, y, {"height": 2.0, "rate": 1.0}, args=(T,), fixed=fixed)
    assert np.all(many.x["height"] == 2.0)
    assert np.all(many.standard_errors["height"] == 0)
    bounded = lm.fit_many(decay, y, START, args=(T,), bounds=(0.0, {"height": 1.5, "rate": None}))
    assert np.max(bounded.x["height"]) == 1.5
    k = int(np.argmax(bounded.x["height"] == 1.5))
    assert np.isnan(bounded.standard_errors["height"][k])
    sigma = np.where(np.arange(60) % 2 == 0, 1.0, 10.0) * np.ones((50, 1))
    weighted = lm.fit_many(decay, y, START, args=(T,), sigma=sigma)
    alone = lm.fit(decay, y[0], START, args=(T,), sigma=sigma[0])
    assert np.isclose(weighted.x["rate"][0], alone.x["rate"], rtol=1e-6)


def test_verdicts_curve_by_curve():
    rng = np.random.default_rng(0)
    y = np.stack([2 * np.exp(-T), rng.standard_normal(60), np.exp(-T) + 0.01 * rng.random(60)])
    many = lm.fit_many(decay, y, START, args=(T,))
    assert many.status(0) is lm.FitStatus.EXACT
    assert not many.succeeded[1]
    assert many.status(2) is lm.FitStatus.FITTED
    assert "EXACT" in str(many)
    assert repr(many) == "<ManyFits of 3 curves, 2 succeeded>"


def test_what_nothing_sees():
    y = np.exp(-T) + 0.01 * np.random.default_rng(0).standard_normal((4, 60))
    many = lm.fit_many(lambda x: x[0] * x[1] * jnp.exp(-x[2] * T), y, np.array([1.0, 0.5, 0.7]))
    assert np.all(many.codes == lm.FitStatus.NOT_IDENTIFIED)
    assert np.array_equal(np.isinf(many.standard_errors[0]), [True, True, False])


def test_a_parameter_that_rests_on_one_datum():
    # Only the last datum sees the second parameter: nothing would show if it were wrong.
    y = 1 + 0.01 * np.random.default_rng(0).standard_normal((3, 20))
    last = np.where(np.arange(20) == 19, 1.0, 0.0)
    half = np.where(np.arange(20) > 9, 1.0, 0.0)

    def steps(x, where):
        return x[0] + x[1] * where

    start = np.array([0.5, 0.5])
    many = lm.fit_many(steps, y + 5 * last, start, args=(last,))
    assert np.all(many.codes == lm.FitStatus.DOUBTFUL)
    assert np.all(lm.fit_many(steps, y + 5 * half, start, args=(half,)).succeeded)


def test_residuals_that_follow_a_curve():
    t = np.linspace(0, 10, 60)
    noise = 0.01 * np.random.default_rng(0).standard_normal((3, 60))
    y = 0.2 * t + np.sin(t) + noise
    many = lm.fit_many(
        lambda x: x[0] + x[1] * t, y, np.array([0.1, 0.1]), loss=lm.losses.SquaredL2()
    )
    assert np.all(many.codes == lm.FitStatus.DOUBTFUL)


def test_curves_that_did_not_succeed_are_fitted_anew():
    t = np.linspace(0, 10, 50)
    noise = 0.01 * np.random.default_rng(0).standard_normal((2, 50))
    y = np.sin(np.array([[1.0], [1.6]]) * t) + noise
    y[1, 5] = 3.0
    fits = lm.fit_many(lambda x, t: jnp.sin(x["rate"] * t), y, {"rate": 1.05}, args=(t,))
    assert np.array_equal(fits.succeeded, [True, False])
    again = fits.retry()
    assert np.all(again.succeeded)
    assert np.allclose(again.x["rate"], [1.0, 1.6], atol=0.01)
    assert np.array_equal(np.flatnonzero(again.wrong[1]), [5])
    assert again.freedom[1] == 48
    assert not np.any(fits.succeeded[1:]), "the former is as it was"
    alone = again.one(0)
    assert np.isclose(alone.x["rate"], fits.x["rate"][0], rtol=1e-7)
    assert np.isclose(alone.standard_errors["rate"], fits.standard_errors["rate"][0], rtol=1e-5)
    with pytest.raises(ValueError, match="There are 2 curves"):
        fits.one(2)


@pytest.mark.parametrize(
    ("y", "options", "sentence"),
    [
        (np.float64(3.0), {}, "axis of curves"),
        (np.zeros((4, 7)), {"args": (T,)}, "must be alike"),
        (np.full((4, 60), np.inf), {"args": (T,)}, "infinite"),
        (np.zeros((4, 60)), {"each": (np.zeros((3, 60)),)}, "axis of 4 curves"),
        (np.zeros((4, 60)), {"args": (T,), "sigma": np.ones((4, 7))}, "does not fit"),
        (np.zeros((4, 60)), {"args": (T,), "loss": lm.losses.L1()}, "SquaredL2"),
    ],
)
def test_sentences(y, options, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        lm.fit_many(decay, y, START, **options)


def test_the_number_of_cores_does_not_change_a_bit(monkeypatch):
    """Parts of the curves run in threads; with one core, one after the other."""
    t = np.linspace(0.0, 3.0, 20)
    rng = np.random.default_rng(3)
    rates = rng.uniform(0.5, 2.0, (2500, 1))
    y = np.exp(-rates * t) + 0.02 * rng.standard_normal((2500, 20))
    answers = []
    for cores in (1, 3):
        monkeypatch.setattr(_parallel, "_cores", lambda cores=cores: cores)
        fits = lm.fit_many(lambda x, t: x[0] * jnp.exp(-x[1] * t), y, np.ones(2), args=(t,))
        answers.append(fits)
    np.testing.assert_array_equal(answers[0].x, answers[1].x)
    np.testing.assert_array_equal(answers[0].codes, answers[1].codes)
    errors = np.abs(answers[1].x[:, 1] - rates[:, 0]) / answers[1].standard_errors[:, 1]
    assert np.mean(errors < 3) > 0.98


def test_a_curve_without_data_does_not_end_a_retry():
    t = np.linspace(0.0, 3.0, 30)
    y = np.sin(np.array([[1.0], [1.6], [1.0]]) * t) + 0.01 * np.cos(99 * t)
    y[2] = np.nan
    fits = lm.fit_many(lambda x: jnp.sin(x[0] * t), y, np.array([1.05])).retry()
    assert fits.succeeded.tolist() == [True, True, False]


def test_what_a_constant_curve_does_not_determine():
    t = np.linspace(0.0, 3.0, 30)

    def model(x):
        return x[0] * jnp.exp(-x[1] * t) + x[2]

    fits = lm.fit_many(model, np.ones((3, 30)), np.array([1.0, 2.0, 0.0]))
    assert all(fits.status(k) is lm.FitStatus.NOT_IDENTIFIED for k in range(3))
    assert np.all(np.isinf(fits.standard_errors[:, 1]))


def test_as_many_parameters_as_curves():
    t = np.linspace(0.0, 3.0, 20)
    truth = np.array([[2.0, 1.3], [1.0, 0.6]])
    y = truth[:, :1] * np.exp(-truth[:, 1:] * t)
    for start in (np.array([1.5, 1.0]), np.array([[1.5, 1.0], [1.2, 0.5]])):
        fits = lm.fit_many(lambda x: x[0] * jnp.exp(-x[1] * t), y, start)
        np.testing.assert_allclose(fits.x, truth, rtol=1e-9)
    with pytest.raises(TypeError, match="failed with"):
        lm.fit_many(lambda x: x["height"] * jnp.exp(-x[1] * t), y, np.ones(2))


@pytest.mark.parametrize(("size", "share", "needed"), [(10, 0.1, 0.9), (40, 0.25, 0.9)])
def test_outliers_to_one_side_are_found_or_doubted(size, share, needed):
    rng = np.random.default_rng(11)
    t = np.linspace(0.0, 3.0, 80)
    truth = rng.uniform([1.0, 0.5, 0.0], [3.0, 2.0, 1.0], (100, 3))
    y = truth[:, :1] * np.exp(-truth[:, 1:2] * t) + truth[:, 2:]
    y += 0.01 * rng.standard_normal(y.shape)
    wrong = rng.random(y.shape) < share
    spoiled = y + 0.01 * size * rng.uniform(0.8, 1.5, y.shape) * wrong

    def model(x):
        return x[0] * jnp.exp(-x[1] * t) + x[2]

    best = lm.fit_many(model, np.where(wrong, np.nan, y), truth, loss=lm.losses.SquaredL2())
    fits = lm.fit_many(model, spoiled, np.array([1.5, 1.0, 0.5]))
    off = np.max(np.abs(fits.x - best.x) / best.standard_errors, axis=1)
    assert np.mean(fits.succeeded & (off < 1)) >= needed
    assert np.sum(fits.succeeded & (off > 5)) <= 2


def test_a_glance_sees_what_a_robust_scale_shows():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 40)) * 10.0 ** rng.uniform(-3, 3, (400, 1))
    rows[100:200] *= np.where(np.arange(40) % 20 == 3, 4.0, 1.0)  # too large
    rows[200:250, ::3] += 4 * np.std(rows[200:250], axis=1, keepdims=True)  # two clusters
    keep = np.ones_like(rows, bool)
    keep[50:250:3] = rng.random((67, 40)) < 0.8
    width = 30 * np.std(rows, axis=1)
    width[::7] /= 10
    seen = glance_at(rows, keep, 3, width, np.zeros(400))
    far = 0
    for k in range(400):
        some = rows[k, keep[k]]
        assert np.isclose(seen.neighbours[k], some[1:] @ some[:-1])
        spread = np.sqrt(np.mean(some**2))
        # Of the sizes, 3 may be 0 because there are 3 parameters.
        scale = 1.4826 * np.median(np.sort(np.abs(some))[3:])
        least = 1.4826 * np.sort(np.abs(some))[(len(some) + 2) // 2]
        if 4 * min(scale, least) < np.max(np.abs(some)) <= 4 * max(scale, least):
            continue  # between two residuals a count does not tell
        skewed = len(some) / 6 * (np.mean(some**3) / spread**3) ** 2
        kurtosis = np.mean(some**4) / spread**4
        tails = len(some) / 24 * (kurtosis - 3) ** 2
        plain = (
            np.max(np.abs(some)) <= 4 * scale
            and spread <= 0.1 * width[k]
            and skewed + tails <= 20
            and skewed + (tails if kurtosis < 3 else 0) <= 6
        )
        assert seen.plain[k] == plain
        far += not plain
    assert 100 < far < 350


@pytest.mark.parametrize("p", [1, 3, 7])
def test_inverses_of_many_gram_matrices(p):
    jacobians = np.random.default_rng(p).standard_normal((20, 3 * p, p)) * 10.0 ** np.arange(p)
    jacobians[5, :, -1] = 0  # seen by nothing
    gram = np.einsum("bnp,bnq->bpq", jacobians, jacobians)
    held = np.zeros((20, p), bool)
    held[7, 0] = True
    inverse, unseen = inverses(gram, held)
    for k in range(20):
        free = ~held[k] & ~unseen[k]
        expected = np.zeros((p, p))
        expected[np.ix_(free, free)] = np.linalg.inv(gram[k][np.ix_(free, free)])
        assert np.allclose(inverse[k], expected, rtol=1e-9, atol=0)
    assert np.array_equal(np.argwhere(unseen), [[5, p - 1]])


@pytest.mark.parametrize("count", [3, 70])
def test_many_parameters_and_sizes_of_programs(count):
    # More parameters than products by columns, and more lanes than a group.
    t = np.linspace(-1, 1, 40)
    powers = t ** np.arange(7)[:, None]
    rng = np.random.default_rng(count)
    truth = rng.standard_normal((count, 7))
    y = truth @ powers + 1e-3 * rng.standard_normal((count, 40))
    wrong = rng.integers(0, 40, count)
    y[np.arange(count), wrong] += 3.0
    many = lm.fit_many(lambda x: x @ powers, y, np.zeros(7))
    assert np.all(many.succeeded)
    assert np.array_equal(np.argmax(many.wrong, axis=1), wrong)
    right = ~many.wrong[0]
    best, *_ = np.linalg.lstsq(powers.T[right], y[0][right], rcond=None)
    # Lanes end within a millionth of the residual of their minima.
    assert np.max(np.abs(many.x[0] - best) / many.standard_errors[0]) < 1e-5


def test_a_datum_with_leverage_among_many_parameters():
    t = np.linspace(-1, 1, 40)
    columns = np.concatenate([t ** np.arange(6)[:, None], (np.arange(40) == 17)[None]])
    y = 1 + 0.01 * np.random.default_rng(0).standard_normal((3, 40)) + t
    many = lm.fit_many(lambda x: x @ columns, y, np.zeros(7))
    assert np.all(many.codes == lm.FitStatus.DOUBTFUL)
    assert np.all(lm.fit_many(lambda x: x @ columns[:6], y, np.zeros(6)).succeeded)


def test_many_fits_are_drawn_one_by_one():
    t = np.linspace(0.0, 3.0, 12)
    y = np.array([[2.0], [3.0]]) * t + 0.02 * np.cos(9 * t)
    fits = lm.fit_many(lambda x: x[0] * t, y, np.ones(1))
    with pytest.raises(TypeError, match=r"fits\.one|ManyFits"):
        lm.plots.fit(fits, t)  # pyright: ignore[reportArgumentType]
    assert len(lm.plots.fit(fits.one(1), t).axes) == 2
