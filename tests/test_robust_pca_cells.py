"""Wrong cells, holes, weights and intervals of robust principal components."""

import dataclasses

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from lemmax.estimators import RobustPCA
from lemmax.recovery import RecoveryStatus
from tests.tables import noisy_table, spoiled_table


@pytest.mark.parametrize("size", [6.0, 30.0, 1000.0])
def test_wrong_cells_of_new_rows_are_found_as_those_of_the_table(size):
    rng = np.random.default_rng(1)
    loadings = rng.standard_normal((3, 9))
    rows = rng.standard_normal((600, 3)) @ loadings + 0.3 * rng.standard_normal((600, 9))
    wrong = rng.random(rows.shape) < 0.05
    table = rows + size * wrong
    model = RobustPCA().fit(table[:400])
    for some in (slice(0, 400), slice(400, 600)):
        changed = model.impute(table[some]) != table[some]
        assert np.mean(changed[wrong[some]]) > 0.95
        assert np.mean(changed[~wrong[some]]) < 0.01


@pytest.mark.parametrize("seed", [203, 1, 2])
def test_only_holes_and_wrong_cells_change(seed):
    truth, table, wrong = noisy_table(seed)
    model = RobustPCA().fit(table)
    assert model.status_ == "NOISE_LEVEL"
    found = model.outliers_.toarray() != 0
    assert np.all(found[wrong])
    assert np.sum(found & ~wrong) <= 3
    kept = ~np.isnan(table) & ~found
    np.testing.assert_array_equal(model.cleaned_[kept], table[kept])
    replaced = ~kept
    np.testing.assert_array_equal(model.cleaned_[replaced], model.reconstruction_[replaced])
    assert np.sqrt(np.mean((model.reconstruction_ - truth) ** 2)) < 0.06
    assert model.report_.explained > 0.9


def test_intervals_cover_what_they_say():
    """Hidden cells of ten tables: the truth is known, and so is the number that must be inside."""
    inside = {0.5: 0, 0.9: 0, 0.99: 0}
    total = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        full = rng.standard_normal((150, 3)) @ rng.standard_normal((3, 12))
        full += rng.uniform(0.2, 1, 12) * rng.standard_normal(full.shape)
        hidden = rng.random(full.shape) < 0.1
        table = np.where(hidden, np.nan, full)
        table[rng.random(full.shape) < 0.05] += 30.0
        model = RobustPCA().fit(table)
        total += hidden.sum()
        for level in inside:
            lower, upper = model.predict_interval(level)
            inside[level] += np.sum(((lower <= full) & (full <= upper))[hidden])
    # 1800 cells: a standard error of 1.2 % at most.
    for level, count in inside.items():
        assert count / total == pytest.approx(level, abs=0.05)


@pytest.mark.parametrize("value", [20.0, 1e3, 1e6, 1e9, -1e12])
def test_a_typing_error_is_found_however_large_it_is(value):
    _, table, _ = noisy_table(7, spikes=0.0)
    right = table[5, 0]
    table[5, 0] = value
    model = RobustPCA().fit(table)
    np.testing.assert_array_equal(np.transpose(model.outliers_.nonzero()), [[5, 0]])
    assert model.cleaned_[5, 0] == pytest.approx(right, abs=0.5)


def test_the_unit_of_the_weights_does_not_matter():
    _, table, _ = noisy_table(9)
    weights = np.random.default_rng(0).uniform(0.5, 2, len(table))
    one, other = (RobustPCA().fit(table, sample_weight=c * weights) for c in (1.0, 2.0**20))
    np.testing.assert_array_equal(other.cleaned_, one.cleaned_)
    np.testing.assert_array_equal(other.standard_error_, one.standard_error_)


def test_weights_of_zero_are_holes():
    truth, table = spoiled_table(np.random.default_rng(3))
    weights = np.where(np.isnan(table), 0.0, 1.0)
    filled = np.where(np.isnan(table), 1e6, table)
    model = RobustPCA().fit(filled, weights=weights)
    np.testing.assert_allclose(model.reconstruction_, truth, atol=1e-9)
    rows = np.ones(60)
    rows[:3] = 0
    plain = RobustPCA().fit(np.where(rows[:, None] > 0, table, np.nan))
    weighted = RobustPCA().fit(table, sample_weight=rows)
    np.testing.assert_array_equal(plain.cleaned_, weighted.cleaned_)


def test_cells_of_large_weight_count_more():
    """Half of the rows have ten times the noise, and the weights say so."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 10))
    sizes = np.where(np.arange(200) % 2, 1.0, 0.1)
    table = truth + sizes[:, None] * rng.standard_normal(truth.shape)
    table[rng.random(truth.shape) < 0.1] = np.nan
    plain = RobustPCA(2, loss="squared").fit(table)
    weighted = RobustPCA(2, loss="squared").fit(table, sample_weight=sizes**-2)
    error = [np.sqrt(np.mean((m.reconstruction_ - truth)[::2] ** 2)) for m in (plain, weighted)]
    assert error[1] < 0.8 * error[0]


def test_five_bad_rows_do_not_condemn_the_others():
    truth, table, _ = noisy_table(5, shape=(400, 8))
    bad = np.arange(0, 400, 80)
    table[bad] = 100 * np.random.default_rng(2).standard_normal((5, 8))
    model = RobustPCA().fit(table)
    assert model.status_ == "NOISE_LEVEL"
    assert set(model.report_.doubtful_rows) <= set(bad.tolist())
    others = np.delete(np.arange(400), bad)
    assert np.sqrt(np.mean((model.reconstruction_ - truth)[others] ** 2)) < 0.06


def test_the_summary_says_why_its_two_measures_differ():
    rng = np.random.default_rng(0)
    there = rng.random(300) < 0.3
    # Mostly zeros: the median is right at most cells.
    table = there[:, None] * (rng.uniform(5, 9, 6) + rng.standard_normal((300, 6)))
    report = RobustPCA().fit(table).report_
    told = "medians are accurate for most cells, and far off for the others"
    assert report.explained > 0.5
    assert report.error > report.median_error
    assert told in report.sentence()
    same = dataclasses.replace(report, error=report.median_error / 2)
    assert told not in same.sentence()
    worse = dataclasses.replace(
        report, explained=-0.1, median_error=1.0, status=RecoveryStatus.NOT_IDENTIFIABLE
    )
    assert "some cells are predicted far worse" in worse.sentence()


@pytest.mark.parametrize("value", [1e14, 9.96921e36, 1e140])
def test_a_fill_value_is_one_wrong_cell(value):
    rng = np.random.default_rng(20)
    table = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 6))
    table += 0.1 * rng.standard_normal((60, 6))
    right = table[5].copy()
    table[5, 3] = value
    model = RobustPCA().fit(table)
    assert np.argwhere(model.outliers_.toarray() != 0).tolist() == [[5, 3]]
    assert np.abs(model.impute(table[5:6])[0] - right).max() < 1


def test_a_gross_error_in_a_copy_of_a_column_is_found():
    for seed in range(4):
        rng = np.random.default_rng(seed)
        table = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 5))
        table += 0.3 * rng.standard_normal((60, 5))
        table = np.column_stack([table, table[:, 0]])
        table[3, 5] += 30
        assert RobustPCA().fit(table).outliers_.toarray()[3, 5] != 0


def test_independent_booleans_are_not_predicted():
    table = np.random.default_rng(21).random((100, 6)) < 0.4
    with pytest.warns(ConvergenceWarning, match="one number for each column"):
        RobustPCA().fit(table)


def test_what_is_within_its_interval_is_not_called_wrong():
    rng = np.random.default_rng(22)
    table = rng.standard_t(2, (80, 3)) @ rng.standard_normal((3, 6))
    table += 0.3 * rng.standard_t(2, (80, 6))
    model = RobustPCA().fit(table)
    lower, upper = model.predict_interval(0.9)
    wrong = model.outliers_.toarray() != 0
    assert not np.any(wrong & (lower < table) & (table < upper))


@pytest.mark.parametrize(("rows", "columns"), [(100, 8), (400, 4)])
def test_columns_in_two_units_are_right_and_holes_in_both_unknown(rows, columns):
    rng = np.random.default_rng(0)
    table = rng.standard_normal((rows, columns))
    table = np.hstack([table, 2.54 * table])
    model = RobustPCA().fit(table)
    assert (model.status_, model.report_.wrong) == ("EXACT", 0)
    np.testing.assert_array_equal(model.cleaned_, table)
    holes = table.copy()
    holes[:20, [0, columns]] = np.nan
    model = RobustPCA().fit(holes)
    assert model.report_.wrong == 0
    assert np.all(np.isinf(model.standard_error_[:20, [0, columns]]))
    assert np.all(np.isfinite(model.standard_error_[20:]))


def test_both_copies_of_a_noisy_column_missing_have_the_error_of_no_copy():
    covered = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        table = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 8))
        table += 0.5 * rng.standard_normal(table.shape)
        table = np.column_stack([table, 1.8 * table[:, 0] + 32])
        holes = table.copy()
        holes[:25, [0, 8]] = np.nan
        lower, upper = RobustPCA().fit(holes).predict_interval(0.9)
        covered.append(((lower <= table) & (table <= upper))[np.isnan(holes)])
    assert 0.8 < np.mean(covered) < 0.97
