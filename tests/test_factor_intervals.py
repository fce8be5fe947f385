"""Intervals of the factor model: widths of right cells, and what does not set them."""

import numpy as np
import pytest

from lemmax.factor import fit_table
from lemmax.factor._calibration import calibrated
from lemmax.factor._cells import DenseCells
from lemmax.factor._judge import Prediction, judged


def test_intervals_of_normal_errors_have_normal_widths():
    rng = np.random.default_rng(0)
    cells = DenseCells(rng.standard_normal((4000, 3)))
    scores = np.abs(rng.standard_normal((4000, 3)))
    everything = np.ones((4000, 3), bool)
    made = calibrated(cells, scores, np.full((4000, 3), np.nan), everything, own=True)
    np.testing.assert_allclose(made.width(0.5), 0.674, rtol=0.05)
    np.testing.assert_allclose(np.mean(made.width(0.9)), 1.645, rtol=0.03)
    assert np.all(
        np.diff([made.width(level)[0] for level in np.linspace(0.01, 0.999, 50)]) >= -1e-12
    )


def test_intervals_of_a_column_of_two_values_cover_one_of_them():
    """A width between the column's quantile and the table's would cover less than both say."""
    rng = np.random.default_rng(1)
    scores = np.abs(rng.standard_normal((200, 4)))
    scores[:, 0] = np.where(rng.random(200) < 0.4, 2.5, 0.5)
    nothing = np.full(scores.shape, np.nan)
    made = calibrated(DenseCells(scores), scores, nothing, np.ones(scores.shape, bool), own=True)
    for column in range(4):
        assert np.mean(scores[:, column] <= made.width(0.9)[column]) >= 0.87


def test_errors_at_held_out_cells_set_the_widths():
    """A cell that a fit has not seen tells more than one that it has."""
    rng = np.random.default_rng(2)
    scores = np.abs(rng.standard_normal((1000, 5)))
    everything, nothing = np.ones(scores.shape), np.full(scores.shape, np.nan)
    alone, small, large = (
        calibrated(DenseCells(scores), scores, aside, everything, own=True).width(0.9)
        for aside in (nothing, scores / 2, scores * 2)
    )
    np.testing.assert_allclose(small, alone / 2, rtol=0.03)
    np.testing.assert_allclose(large, alone * 2, rtol=0.03)


def test_cells_that_are_unexplained_but_usual_count_for_intervals():
    """A sixth of the right cells is not explained; wrong ones are far outside of the columns."""
    rng = np.random.default_rng(8)
    shape = (400, 6)
    values, errors = rng.standard_normal(shape), 0.05 * rng.standard_normal(shape)
    odd, spikes = rng.random(shape) < 1 / 6, rng.random(shape) < 0.05
    errors = np.where(odd, values, errors) + 8.0 * spikes
    found = judged(DenseCells(values + 8.0 * spikes), Prediction(errors, np.full(shape, 0.05**2)))
    usual = np.abs(values) < 1.6  # nine of ten are
    assert np.mean(found.wrong[odd & usual & ~spikes]) > 0.5
    assert np.all(found.counts[odd & usual & ~spikes] == 1)
    assert np.mean(found.counts[spikes]) < 0.25


@pytest.mark.parametrize("axis", [0, 1])
def test_what_looks_wrong_in_some_rows_or_columns_counts_for_intervals(axis):
    """A quarter of two lines is far out, and 3 % of the cells of the others."""
    rng = np.random.default_rng(9)
    shape = (300, 12) if axis else (12, 300)
    tails = np.zeros(shape, bool)
    np.moveaxis(tails, axis, 0)[:2] = True
    tails &= rng.random(shape) < 1 / 4
    spikes = ~tails & (rng.random(shape) < 0.03)
    away = rng.choice([-8.0, 8.0], shape) * (tails | spikes) + rng.standard_normal(shape)
    found = judged(DenseCells(away), Prediction(away, np.ones(shape)))
    assert np.mean(found.wrong[tails | spikes]) > 0.95
    # In the two lines an eighth of what looks wrong are spikes, as many as elsewhere.
    assert np.mean(found.counts[tails]) > 0.75
    elsewhere = np.array(spikes)
    np.moveaxis(elsewhere, axis, 0)[:2] = False
    assert np.mean(found.counts[elsewhere]) < 0.15
    assert np.mean(found.counts[~(tails | spikes)]) > 0.99


@pytest.mark.parametrize("codes", ["a column", "rows"])
def test_codes_of_missing_values_are_no_tails(codes):
    """A quarter of a column is -999, or all cells of a fifth of the rows."""
    rng = np.random.default_rng(14)
    truth = 10 + rng.standard_normal((200, 2)) @ rng.standard_normal((2, 6))
    truth += 0.4 * rng.standard_normal(truth.shape)
    wrong = np.zeros(truth.shape, bool)
    if codes == "rows":
        wrong[rng.random(200) < 0.2] = True
    else:
        wrong[:, 0] = rng.random(200) < 0.25
    found = fit_table(np.where(wrong, -999.0, truth))
    np.testing.assert_array_equal(found.wrong, wrong)
    assert np.all(found.standard_errors()[~wrong] < 5)


def test_heavy_tails_of_a_column_are_not_wrong_cells():
    """Predictions with errors of known laws: Cauchy's in one column, normal in the others."""
    rng = np.random.default_rng(3)
    shape = (2000, 6)
    errors = rng.standard_normal(shape)
    errors[:, 0] = rng.standard_cauchy(shape[0])
    spikes = rng.random(shape) < 0.05
    spikes[:, 0] = False
    errors += spikes * rng.choice([-8.0, 8.0], shape)
    predicted = Prediction(errors, np.ones(shape))
    wrong = judged(DenseCells(np.zeros(shape)), predicted).wrong
    # A sixth of that column is beyond 4, from where on a cell of the others is wrong.
    assert np.mean(wrong[:, 0]) < 0.11
    assert np.mean(wrong[spikes]) > 0.99
    assert np.mean(wrong[:, 1:][~spikes[:, 1:]]) < 0.002


@pytest.mark.parametrize("shape", [(40, 4), (30, 10)])
def test_pure_noise_is_not_called_predicted(shape):
    for seed in range(4):
        found = fit_table(np.random.default_rng([seed, *shape]).standard_normal(shape))
        assert not found.held_out.helps


def test_small_tables_keep_every_cell_aside_in_turn():
    rng = np.random.default_rng(11)
    table = rng.standard_normal((30, 1)) @ rng.standard_normal((1, 8))
    table += 0.3 * rng.standard_normal(table.shape)
    small = fit_table(table)
    large = fit_table(np.tile(table, (20, 1)) + 0.3 * rng.standard_normal((600, 8)))
    assert 0.75 * table.size < small.held_out.count <= table.size
    assert large.held_out.count < 0.2 * 600 * 8
