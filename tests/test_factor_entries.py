"""Lists of entries and ratings by the factor model: oracles, unseen rows, noise of users."""

import numpy as np
import pytest

from lemmax.factor import FactorModel, Options, fit_entries, fit_table
from tests.tables import table_with_holes


@pytest.mark.parametrize("seen", [1.0, 0.3])
def test_entries_of_an_exact_matrix_are_recovered(seen):
    rng = np.random.default_rng(7)
    truth = rng.standard_normal((80, 3)) @ rng.standard_normal((3, 60))
    rows, columns = np.nonzero(rng.random(truth.shape) < seen)
    values = truth[rows, columns]
    wrong = rng.random(len(values)) < 0.05
    values = np.where(wrong, 20.0, values)
    found, flagged = fit_entries(rows, columns, values, truth.shape)
    assert found.exact
    np.testing.assert_array_equal(flagged, wrong)
    np.testing.assert_allclose(found.values(), truth, atol=1e-9)


def test_noisy_entries_are_predicted_as_well_as_by_an_oracle():
    """Least squares on the right entries, of the true rank, by alternating regressions."""
    rng = np.random.default_rng(8)
    left, right = rng.standard_normal((300, 2)), rng.standard_normal((200, 2))
    truth = left @ right.T
    seen = rng.random(truth.shape) < 0.2
    rows, columns = np.nonzero(seen)
    values = truth[seen] + 0.3 * rng.standard_normal(len(rows))
    wrong = rng.random(len(values)) < 0.05
    found, flagged = fit_entries(rows, columns, np.where(wrong, values + 15.0, values), truth.shape)
    assert np.mean(flagged[wrong]) > 0.99
    assert np.mean(flagged[~wrong]) < 0.01
    u, v = left.copy(), right.copy()
    data, weights = np.zeros(truth.shape), np.zeros(truth.shape)
    data[rows, columns], weights[rows, columns] = values, ~wrong
    for _ in range(20):
        u = np.stack(
            [np.linalg.lstsq(v[w > 0], y[w > 0])[0] for y, w in zip(data, weights, strict=True)]
        )
        v = np.stack(
            [np.linalg.lstsq(u[w > 0], y[w > 0])[0] for y, w in zip(data.T, weights.T, strict=True)]
        )
    oracle = np.linalg.norm(u @ v.T - truth)
    assert np.linalg.norm(found.values() - truth) < 1.1 * oracle


@pytest.mark.parametrize("spreads", [(0.0, 0.0), (0.5, 0.0), (0.3, 0.8)])
def test_effects_are_as_large_as_they_are(spreads):
    """Where there are none, predictions are those of least squares without them."""
    rng = np.random.default_rng(11)
    left, right = rng.standard_normal((1000, 2)), rng.standard_normal((500, 2))
    effects = [
        spread * rng.standard_normal(size)
        for spread, size in zip(spreads, (1000, 500), strict=True)
    ]
    truth = left @ right.T + effects[0][:, None] + effects[1]
    places = np.flatnonzero(rng.random(truth.size) < 0.06)
    rows, columns = np.unravel_index(places, truth.shape)
    values = truth[rows, columns] + 0.3 * rng.standard_normal(len(rows))
    found, _ = fit_entries(rows, columns, values, truth.shape)
    learned = np.sqrt(found.model.effect_variances) * found.scale[0]
    true = [np.std(each) for each in effects]
    np.testing.assert_allclose(learned, true, rtol=0.05, atol=0.01)
    if not any(spreads):
        u, v = left, right
        weights = np.zeros(truth.shape)
        weights[rows, columns] = 1.0
        data = np.zeros(truth.shape)
        data[rows, columns] = values
        for _ in range(10):
            grams = np.einsum("ij,jk,jl->ikl", weights, v, v)
            u = np.linalg.solve(grams, (data @ v)[..., None])[..., 0]
            grams = np.einsum("ij,ik,il->jkl", weights, u, u)
            v = np.linalg.solve(grams, (data.T @ u)[..., None])[..., 0]
        oracle = np.linalg.norm(u @ v.T - truth)
        assert np.linalg.norm(found.values() - truth) < 1.02 * oracle


def test_unseen_rows_and_columns_have_effects_and_say_how_little_is_known():
    rng = np.random.default_rng(9)
    effects = 3 + rng.standard_normal((60, 1)) + rng.standard_normal(40)
    rows, columns = np.nonzero(rng.random(effects.shape) < 0.5)
    values = effects[rows, columns] + 0.1 * rng.standard_normal(len(rows))
    found, _ = fit_entries(rows, columns, values, effects.shape)
    value, error = found.predict(np.array([-1, 4, -1, 4]), np.array([5, -1, -1, 5]))
    assert value[0] == pytest.approx(effects[:, 5].mean(), abs=0.3)
    assert value[1] == pytest.approx(effects[4].mean(), abs=0.3)
    assert error[3] < 0.3 < min(error[:3])
    assert error[2] == max(error)


def test_rows_may_have_levels_where_columns_have_none():
    rng = np.random.default_rng(10)
    truth = rng.standard_normal((60, 1)) + 0.5 * rng.standard_normal((60, 1)) * rng.standard_normal(
        40
    )
    rows, columns = np.nonzero(rng.random(truth.shape) < 0.5)
    values = truth[rows, columns] + 0.1 * rng.standard_normal(len(rows))
    options = Options(effects=True, centred=False)
    found, _ = fit_entries(rows, columns, values, truth.shape, options=options)
    np.testing.assert_array_equal(found.location, 0.0)
    assert np.sqrt(np.mean((found.values() - truth) ** 2)) < 0.1


def test_the_seed_gives_the_same_answer():
    table = table_with_holes(5, shape=(60, 8))
    one, same, other = (fit_table(table, options=Options(seed=seed)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.values(), same.values())
    assert not np.array_equal(one.held_out.error, other.held_out.error)
    table_before = table.copy()
    fit_table(table)
    np.testing.assert_array_equal(table, table_before)


def test_an_exact_list_says_which_rows_are_not_determined():
    """Rows with as many entries as unknowns are explained whatever they should be."""
    rng = np.random.default_rng(11)
    truth = rng.standard_normal((90, 2)) @ rng.standard_normal((2, 60))
    seen = rng.random(truth.shape) < 0.4
    seen[:5] = False
    seen[0, 3] = seen[1, 2] = seen[1, 7] = seen[2, 4] = seen[2, 5] = seen[2, 6] = True
    rows, columns = np.nonzero(seen)
    found, _ = fit_entries(rows, columns, truth[rows, columns], truth.shape)
    assert found.exact
    np.testing.assert_array_equal(found.doubtful()[0], np.arange(5))
    every = np.indices(truth.shape).reshape(2, -1)
    values, errors = found.predict(*every)
    sure = np.isfinite(errors)
    np.testing.assert_array_equal(sure, every[0] >= 5)
    np.testing.assert_allclose(values[sure], truth.ravel()[sure], atol=1e-9)
    _, errors = found.predict(np.array([-1]), np.array([3]))
    assert errors[0] > 0.1
    loaded = FactorModel.from_state(found.state())
    np.testing.assert_array_equal(loaded.predict(*every)[1], found.predict(*every)[1])


def grades(seed, spread):
    """Entries by users with noise of their own; also what is right, and the noise."""
    rng = np.random.default_rng(seed)
    shape = (300, 120)
    noise = 0.4 * np.exp(spread * rng.choice([-1.0, 1.0], shape[0]))
    truth = 3 + 0.8 * (rng.standard_normal((shape[0], 1)) + rng.standard_normal(shape[1]))
    rows, columns = np.nonzero(rng.random(shape) < 0.3)
    values = truth[rows, columns] + noise[rows] * rng.standard_normal(len(rows))
    return rows, columns, values, truth, noise


def test_noise_of_rows_is_found_and_said():
    rows, columns, values, truth, noise = grades(13, 0.3)
    found, _ = fit_entries(
        rows, columns, values, truth.shape, options=Options(effects=True, common=True)
    )
    erratic = noise > 0.4
    ratio = found.relative.rows[erratic].mean() / found.relative.rows[~erratic].mean()
    # Of 36 entries each, so that it is shrunk; in truth it is e^1.2.
    assert 1.8 < ratio < np.exp(1.2)
    errors = found.predict(np.arange(300), np.full(300, 7))[1]
    assert errors[erratic].mean() > 1.3 * errors[~erratic].mean()
    # Weights as an oracle knows them, beside those that were found.
    oracle, _ = fit_entries(rows, columns, values, truth.shape, 1 / noise[rows] ** 2)
    away = [np.linalg.norm(each.values() - truth) for each in (found, oracle)]
    assert away[0] < 1.05 * away[1]
    loaded = FactorModel.from_state(found.state())
    np.testing.assert_array_equal(loaded.predict(rows, columns)[1], found.predict(rows, columns)[1])


def test_equal_noise_of_rows_stays_equal():
    rows, columns, values, truth, _ = grades(14, 0.0)
    found, _ = fit_entries(
        rows, columns, values, truth.shape, options=Options(effects=True, common=True)
    )
    assert np.std(found.relative.rows) < 0.1
    assert np.std(found.relative.columns) < 0.1


def test_random_grades_within_the_scale_count_less():
    """A wrong grade is no further out than a right one, and yet least squares do worse."""
    rows, columns, values, truth, _ = grades(15, 0.0)
    rng = np.random.default_rng(0)
    wrong = rng.random(len(values)) < 0.1
    given = np.where(wrong, rng.integers(1, 6, len(values)), np.clip(np.round(values), 1, 5))
    errors = []
    for robust in (True, False):
        options = Options(effects=True, robust=robust)
        found, _ = fit_entries(rows, columns, given, truth.shape, options=options)
        errors.append(np.linalg.norm(np.clip(found.values(), 1, 5) - np.clip(truth, 1, 5)))
    assert errors[0] < 0.85 * errors[1]
