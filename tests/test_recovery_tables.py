"""Small tables with holes and wrong entries: what is found, and what is not claimed."""

import numpy as np
import pytest

import lemmax as lm
from lemmax._terms import Components
from lemmax.estimators import RobustPCA


def low_rank(rng, rows, columns, rank):
    return rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns))


@pytest.mark.parametrize("seed", [0, 2])
def test_a_table_with_a_location_spikes_and_holes(seed):
    rng = np.random.default_rng(seed)
    truth = 5 + low_rank(rng, 100, 30, 3)
    table = truth.copy()
    table[rng.random(table.shape) < 0.1] = 99.0
    table[rng.random(table.shape) < 0.1] = np.nan
    model = RobustPCA().fit(table)
    assert (model.status_, model.n_components_) == ("EXACT", 3)
    np.testing.assert_allclose(model.cleaned_, truth, atol=1e-10)


def test_wrong_entries_of_a_few_rows_are_no_components():
    """Two terms and six rows with wrong entries are a table of rank eight, as exactly."""
    rng = np.random.default_rng(6)
    truth = low_rank(rng, 20, 15, 2)
    table = np.where(rng.random(truth.shape) < 0.05, 99.0, truth)
    assert np.linalg.matrix_rank(table) == 8
    found = lm.recover(table, lm.maps.LowRank((20, 15), rank=8))
    assert (found.status, found.rank) == (lm.RecoveryStatus.EXACT, 2)
    np.testing.assert_allclose(found.point.dense(), truth, atol=1e-10)


def test_a_row_that_is_wrong_altogether_is_not_explained():
    rng = np.random.default_rng(0)
    table = low_rank(rng, 30, 20, 2)
    table[7] = 10 * rng.standard_normal(20)
    found = lm.recover(table, lm.maps.LowRank((30, 20), rank=3))
    assert not found.status.succeeded
    others = np.arange(30) != 7
    np.testing.assert_allclose(found.point.dense()[others], table[others], atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_two_wrong_entries_of_a_column_are_no_component(seed):
    rng = np.random.default_rng(seed)
    truth = low_rank(rng, 30, 30, 1)
    table = truth + 1e-4 * rng.standard_normal(truth.shape)
    wrong = rng.random(truth.shape) < 0.2
    wrong[[3, 16], 19] = True
    table[wrong] = 20 * rng.standard_normal(wrong.sum())
    found = lm.recover(table, lm.maps.LowRank(truth.shape, rank=6))
    assert (found.status.name, found.rank) == ("NOISE_LEVEL", 1)
    error = np.linalg.norm(found.point.dense() - truth) / np.linalg.norm(truth)
    assert error < 3 * found.expected_error


@pytest.mark.parametrize("sizes", [(5, 40, 7), (40, 5, 7), (6, 6, 2)])
def test_components_of_a_product_are_its_singular_values(sizes):
    """Also if there are more terms than rows: a tensor may have more than the side of a slice."""
    rng = np.random.default_rng(0)
    rows, columns, terms = sizes
    left, right = rng.standard_normal((rows, terms)), rng.standard_normal((columns, terms))
    found = Components.standing(left, right)
    wanted = np.linalg.svd(left @ right.T)[1][: min(sizes)]
    np.testing.assert_allclose(found.values, wanted)
    np.testing.assert_allclose(found.left * found.values @ found.right.T, left @ right.T)


def test_squared_losses_know_no_outliers():
    """A column of another scale than the others is a component like any other."""
    rng = np.random.default_rng(5)
    table = low_rank(rng, 100, 6, 2)
    table[:, 3] = 1000 * rng.standard_normal(100)
    table += 0.01 * rng.standard_normal(table.shape)
    problem = lm.maps.LowRank(table.shape, 3)
    found = lm.recover(table, problem, loss=lm.losses.SquaredL2())
    left, values, right = np.linalg.svd(table, full_matrices=False)
    best = (left[:, :3] * values[:3]) @ right[:3]
    np.testing.assert_allclose(found.point.dense(), best, atol=1e-3)


def test_dark_patches_are_no_noise():
    """Wrong entries of a few standard deviations that are neighbours."""
    rng = np.random.default_rng(6)
    truth = low_rank(rng, 80, 300, 4)
    table = truth + 0.7 * rng.standard_normal(truth.shape)
    hidden = np.zeros(truth.shape, bool)
    for row, begin in enumerate(rng.integers(0, 270, 80)):
        hidden[row, begin : begin + 30] = True
    table[hidden] = -6.0
    found = lm.recover(table, lm.maps.LowRank(truth.shape, 4))
    error = np.abs(found.point.dense() - truth)
    assert error[hidden].mean() < 1.5 * error[~hidden].mean()


def test_rows_of_wrong_numbers_are_named():
    """Nothing is known about them, whatever is there; without them, all is well."""
    rng = np.random.default_rng(0)
    truth = np.outer(rng.standard_normal(40), rng.standard_normal(12))
    table = truth + 0.05 * rng.standard_normal(truth.shape)
    table[[10, 24]] = 20 * rng.standard_normal((2, 12))
    found = lm.recover(table, lm.maps.LowRank((40, 12), rank=2))
    assert found.status is lm.RecoveryStatus.NOT_IDENTIFIABLE
    assert "too little of row 10 is explained" in found.summary()
    others = np.delete(np.arange(40), [10, 24])
    found = lm.recover(table[others], lm.maps.LowRank((38, 12), rank=2))
    assert (found.status, found.rank) == (lm.RecoveryStatus.NOISE_LEVEL, 1)
    error = np.linalg.norm(found.point.dense() - truth[others]) / np.linalg.norm(truth[others])
    assert error < 2 * found.expected_error


def test_a_column_with_a_term_for_itself_is_not_certified():
    """Whatever is in it is explained, so that nothing checks it: here it is rolled."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        truth = low_rank(rng, 30, 20, 2)
        table = truth + 1e-3 * rng.standard_normal(truth.shape)
        table[:, 7] = np.roll(table[:, 7], 5)
        found = lm.recover(table, lm.maps.LowRank(truth.shape, rank=4))
        error = np.linalg.norm(found.point.dense() - truth) / np.linalg.norm(truth)
        if error > 3 * found.expected_error:
            assert not found.status.succeeded
            assert found.doubtful[1] == [7]


def test_one_wrong_entry_of_a_small_table():
    """With terms to spare it gets one of its own: without the entry, the answer is clear."""
    rng = np.random.default_rng(0)
    truth = 5 + rng.standard_normal((60, 2)) @ rng.standard_normal((2, 10))
    table = truth + 0.02 * rng.standard_normal(truth.shape)
    table[3, 4] = 99.0
    found = lm.recover(table, lm.maps.LowRank((60, 10), rank=4))
    assert (found.status, found.rank) == (lm.RecoveryStatus.NOISE_LEVEL, 3)
    assert [int(index) for index in np.ravel(found.outliers)] == [3, 4]
    assert abs(float(found.point.dense()[3, 4]) - truth[3, 4]) < 0.1


def test_terms_to_spare_in_a_narrow_table():
    """Eight columns of sensors: a bound of half as many terms does not hide that there are two."""
    rng = np.random.default_rng(0)
    time = np.arange(120)
    course = np.c_[np.sin(2 * np.pi * time / 24), 0.3 * np.cumsum(rng.standard_normal(120))]
    course[:, 1] -= course[:, 1].mean()
    truth = course @ rng.standard_normal((2, 8))
    truth /= truth.std(axis=0)
    table = truth + 0.02 * rng.standard_normal(truth.shape)
    holes = rng.random(table.shape) < 0.05
    wrong = (rng.random(table.shape) < 0.03) & ~holes
    table = np.where(wrong, table + 10 * rng.choice([-1, 1], table.shape), table)
    table[holes] = np.nan
    model = RobustPCA().fit(table)
    assert model.status_ == "NOISE_LEVEL"
    assert np.all((model.outliers_.toarray() != 0)[wrong])
    assert np.sqrt(np.mean((model.reconstruction_ - truth) ** 2)) < 0.02


@pytest.mark.parametrize("seed", range(2))
def test_noisy_tables_have_the_answer_of_the_estimator(seed):
    """The same engine; but `recover` has one noise for all columns, so that fits differ."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((120, 3)) @ rng.standard_normal((3, 20))
    table = truth + 0.2 * rng.standard_normal(truth.shape)
    wrong = rng.random(truth.shape) < 0.05
    table[wrong] += 8.0
    table[rng.random(truth.shape) < 0.1] = np.nan
    found = lm.recover(table, lm.maps.LowRank(truth.shape, rank=8))
    model = RobustPCA(centre=False, max_components=8).fit(table)
    assert (found.status.name, found.rank) == ("NOISE_LEVEL", 3)
    away = (found.point.dense() - model.reconstruction_) / model.standard_error_
    assert np.sqrt(np.mean(away**2)) < 0.4
    flagged = np.zeros(truth.shape, bool)
    flagged[found.outliers] = True
    assert np.sum(flagged != (model.outliers_.toarray() != 0)) <= 3
