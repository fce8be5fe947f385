"""Robust principal components: answers that are known otherwise, and rows that do not belong."""

import dataclasses
import warnings

import numpy as np
import pytest
from scipy.optimize import least_squares
from sklearn.exceptions import ConvergenceWarning

import lemmax as lm
from lemmax.estimators import RobustPCA
from lemmax.estimators._location import located
from lemmax.estimators._rows import judged_rows
from lemmax.losses import L1
from tests.tables import spoiled_table


def test_robust_pca_finds_what_was_there(cleaned):
    truth, table, model = cleaned
    assert model.rank_ == 2
    np.testing.assert_allclose(model.low_rank_, truth, atol=1e-9)
    wrong = ~np.isnan(table) & (np.abs(table - truth) > 1e-6)
    np.testing.assert_array_equal(model.outliers_.toarray() != 0, wrong)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-12)
    # The location lies in the plane of the rows, the components span its directions.
    spread = truth - model.location_
    inside = spread @ model.components_.T @ model.components_
    np.testing.assert_allclose(inside, spread, atol=1e-9)


def test_new_rows_are_scored_in_spite_of_holes_and_errors(cleaned):
    _, _, model = cleaned
    rng = np.random.default_rng(1)
    scores = 3 * rng.standard_normal((40, 2))
    rows = model.inverse_transform(scores)
    rows[np.arange(40), rng.integers(25, size=40)] += 100.0
    rows[np.arange(40), rng.integers(25, size=40)] = np.nan
    np.testing.assert_allclose(model.transform(rows), scores, atol=1e-9)


def test_units_of_the_columns_do_not_matter(cleaned):
    """Of the same shape as the other table, so that nothing has to be compiled."""
    truth, table, _ = cleaned
    units = 10 ** np.random.default_rng(2).uniform(-3, 6, table.shape[1])
    model = RobustPCA(rank=5).fit(table * units)
    assert model.status_ == "EXACT"
    np.testing.assert_allclose(model.low_rank_ / units, truth, atol=1e-8)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-12)
    rows = (truth * units)[:10]
    back = model.inverse_transform(model.transform(np.where(np.eye(10, 25) > 0, np.nan, rows)))
    np.testing.assert_allclose(back / units, truth[:10], atol=1e-6)
    with pytest.raises(ValueError, match="scale must be 'auto', True or False, got 'robust'"):
        RobustPCA(scale="robust").fit(table)


def test_noise_is_judged_column_by_column(cleaned):
    """A noisy column is not full of outliers."""
    truth, table, _ = cleaned
    rng = np.random.default_rng(4)
    units = 10 ** rng.uniform(-3, 6, table.shape[1])
    level = np.where(np.arange(25) % 5 == 0, 0.1, 0.005)
    model = RobustPCA(rank=3).fit((table + level * rng.standard_normal(table.shape)) * units)
    wrong = ~np.isnan(table) & (np.abs(table - truth) > 1e-6)
    found = model.outliers_.toarray() != 0
    assert np.all(found[wrong])
    assert np.sum(found & ~wrong) <= 0.02 * np.sum(~wrong)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_bound_below_the_rank_is_kept():
    rng = np.random.default_rng(12)
    table = 2 + rng.standard_normal((60, 2)) @ rng.standard_normal((2, 15))
    model = RobustPCA(rank=1).fit(table)
    assert model.rank_ == 1
    assert np.linalg.matrix_rank(model.low_rank_ - model.location_) == 1
    # What is said about the fit is said about this one, not about a better one.
    residual = (table - model.low_rank_)[model.outliers_.toarray() == 0]
    assert model.status_ != "EXACT"
    assert np.std(residual) == pytest.approx(model.noise_, rel=0.5)


def test_weights_of_zero_are_holes():
    truth, table = spoiled_table(np.random.default_rng(3))
    weights = np.where(np.isnan(table), 0.0, 1.0)
    filled = np.where(np.isnan(table), 1e6, table)
    model = RobustPCA(rank=4).fit(filled, weights=weights)
    np.testing.assert_allclose(model.low_rank_, truth, atol=1e-9)


def test_a_constant_table_has_no_components():
    model = RobustPCA().fit(np.full((6, 4), 2.5))
    assert model.rank_ == 0
    np.testing.assert_array_equal(model.low_rank_, 2.5)
    assert model.transform(np.ones((3, 4))).shape == (3, 0)


def test_nonnegative_components():
    """From a poor start the squares end elsewhere: this table has a nonnegative factorisation."""
    rng = np.random.default_rng(0)
    truth = rng.random((100, 3)) @ rng.random((3, 20))
    wrong = rng.random(truth.shape) < 0.05
    table = truth.copy()
    table[wrong] += rng.uniform(3, 10, wrong.sum())
    model = RobustPCA(rank=3, centre=False, nonnegative=True).fit(table)
    assert (model.status_, model.rank_) == ("EXACT", 3)
    assert np.all(model.components_ >= 0)
    assert np.all(model.scores_ >= 0)
    np.testing.assert_allclose(model.low_rank_, truth, atol=1e-9)
    assert np.all(model.transform(truth) >= 0)
    with pytest.raises(ValueError, match="centre=False"):
        RobustPCA(nonnegative=True).fit(table)


def test_nonnegative_components_in_spite_of_noise():
    """A robust fit of squares loses rows with three spikes here, and nobody would tell."""
    rng = np.random.default_rng(103)
    truth = rng.random((200, 3)) @ rng.random((3, 10))
    table = np.abs(truth + 0.01 * rng.standard_normal(truth.shape))
    wrong = rng.random(truth.shape) < 0.05
    table[wrong] += 5 * rng.random(wrong.sum()) + 1
    table[rng.random(truth.shape) < 0.05] = np.nan
    model = RobustPCA(nonnegative=True, centre=False).fit(table)
    assert (model.status_, model.rank_) == ("NOISE_LEVEL", 3)
    assert np.min(model.scores_) >= 0
    assert np.min(model.components_) >= 0
    assert np.max(np.sqrt(np.mean((model.low_rank_ - truth) ** 2, axis=1))) < 0.05


def test_signs_that_no_nonnegative_terms_have_are_refused():
    rng = np.random.default_rng(1)
    table = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 15))
    with pytest.warns(ConvergenceWarning, match="farther from those without signs"):
        model = RobustPCA(rank=2, nonnegative=True, centre=False).fit(table)
    assert model.status_ == "NOT_CONVERGED"


def test_an_interrupted_fit_is_the_last(monkeypatch):
    """Of a table with a location: it is not tried without one after that."""
    calls = []

    def interrupted(*arguments, **options):
        calls.append(arguments)
        return lm.recover(*arguments, **options, callback=lambda *_: True)

    monkeypatch.setattr("lemmax.estimators._base.recover", interrupted)
    table = 10 + np.random.default_rng(3).standard_normal((20, 6)) * 10.0 ** np.arange(6)
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model = RobustPCA().fit(table)
    assert model.status_ == "INTERRUPTED"
    assert len(calls) == 1
    # Of what nobody has judged yet, nothing is said.
    assert not any(word in model.recovery_.summary() for word in ("nan", "inf", "Because"))


def test_what_rows_have_in_common_is_no_merit():
    """The location is known well, the differences between rows are noise."""
    rng = np.random.default_rng(5)
    table = 100 + rng.standard_normal((60, 12))
    with pytest.warns(ConvergenceWarning, match="RobustPCA: "):
        model = RobustPCA(rank=3).fit(table)
    assert model.status_ not in ("EXACT", "NOISE_LEVEL")


def test_a_location_alone_has_no_components():
    rng = np.random.default_rng(6)
    table = np.full((80, 12), 7.0)
    wrong = rng.random(table.shape) < 0.15
    table[wrong] = rng.integers(8, 20, wrong.sum())
    model = RobustPCA().fit(table)
    assert (model.status_, model.rank_) == ("EXACT", 0)
    np.testing.assert_allclose(model.low_rank_, 7.0)
    assert model.outliers_.nnz == wrong.sum()


def noisy_table(seed, noise=0.05, spikes=0.04):
    rng = np.random.default_rng(seed)
    truth = 5 + rng.standard_normal((120, 2)) @ rng.standard_normal((2, 8))
    table = truth + noise * rng.standard_normal(truth.shape)
    wrong = rng.random(truth.shape) < spikes
    table[wrong] += rng.choice([-1, 1], wrong.sum()) * rng.uniform(10, 20, wrong.sum())
    table[rng.random(table.shape) < 0.05] = np.nan
    return truth, table, wrong & ~np.isnan(table)


def test_medians_that_miss_the_plane_are_not_noise():
    """The plane around the medians of the columns has twice the noise here, and 30 errors more."""
    truth, table, wrong = noisy_table(203)
    model = RobustPCA().fit(table)
    assert model.status_ == "NOISE_LEVEL"
    assert model.noise_ == pytest.approx(0.05, rel=0.2)
    assert np.sqrt(np.mean((model.low_rank_ - truth) ** 2)) < 0.05
    found = model.outliers_.toarray() != 0
    assert np.all(found[wrong])
    assert np.sum(found & ~wrong) <= 3


def test_a_location_beside_the_medians_is_not_noise_either():
    """Exact data: around the medians of the columns a plane has noise of 0.06 here."""
    rng = np.random.default_rng(831)
    truth = 3 + rng.standard_normal((200, 2)) @ rng.standard_normal((2, 8))
    table = truth.copy()
    rng.standard_normal(truth.shape)
    wrong = rng.random(truth.shape) < 0.05
    sizes = 10 * (np.abs(rng.standard_normal(wrong.sum())) + 1)
    table[wrong] += sizes * np.sign(rng.standard_normal(wrong.sum()))
    holes = rng.random(truth.shape) < 0.05
    table[holes] = np.nan
    model = RobustPCA().fit(table)
    assert (model.status_, model.rank_) == ("EXACT", 2)
    sure = np.delete(np.arange(200), model.left_out_)
    np.testing.assert_allclose(model.low_rank_[sure], truth[sure], atol=1e-10)
    np.testing.assert_array_equal((model.outliers_.toarray() != 0)[sure], (wrong & ~holes)[sure])
    assert "rank            2 (bound 3)" in model.summary()


def test_what_is_interrupted_leaves_the_answer_that_there_was(monkeypatch):
    """The second fit, around a better location, does not come to its end: the first one counts."""
    recover, seen = RobustPCA._recover, []

    def interrupted_at_second(model, *data, **options):
        found = recover(model, *data, **options)
        seen.append(found.status)
        stopped = {"status": lm.RecoveryStatus.INTERRUPTED, "noise": float("nan")}
        return found if len(seen) == 1 else dataclasses.replace(found, **stopped)

    monkeypatch.setattr(RobustPCA, "_recover", interrupted_at_second)
    model = RobustPCA().fit(noisy_table(203)[1])
    assert (model.status_, len(seen)) == ("NOISE_LEVEL", 2)
    assert np.isfinite(model.noise_)


def test_a_location_and_components_of_the_entries_that_count():
    """Beside a general minimiser; and with a component to spare, the criterion objects."""
    rng = np.random.default_rng(0)
    truth = rng.uniform(2, 4, 7) + rng.standard_normal((40, 2)) @ rng.standard_normal((2, 7))
    table = truth + 0.1 * rng.standard_normal(truth.shape)
    right = rng.random(table.shape) < 0.9
    fits = {}
    for rank in (1, 2, 3):
        start = np.zeros(7), np.zeros((40, rank)), np.linalg.svd(truth)[2][:rank].T
        fits[rank] = located(np.where(right, table, np.nan), right, *start)
    found = fits[2]

    def residual(x):
        u, v = x[:80].reshape(40, 2), x[80:101].reshape(7, 3)
        return (table - v[:, 2] - u @ v[:, :2].T)[right]

    x0 = np.concatenate([rng.standard_normal(80), rng.standard_normal(21)])
    best = least_squares(residual, x0, ftol=1e-12, xtol=1e-12).cost * 2
    made = found.location + found.scores @ found.components.T
    assert np.sum((table - made)[right] ** 2) == pytest.approx(best, rel=1e-3)
    assert fits[2].criterion < min(fits[1].criterion, fits[3].criterion)
    inside = (found.centre - found.location) - found.components @ np.linalg.lstsq(
        found.components, found.centre - found.location, rcond=None
    )[0]
    np.testing.assert_allclose(inside, 0, atol=1e-12)


def test_a_row_without_entries_is_left_out(cleaned):
    """The location stands for it, and the verdict speaks of the others."""
    truth, table, _ = cleaned
    table = table.copy()
    table[7] = np.nan
    model = RobustPCA(rank=5).fit(table)
    assert (model.status_, model.rank_, list(model.left_out_)) == ("EXACT", 2, [7])
    others = np.arange(len(table)) != 7
    np.testing.assert_allclose(model.low_rank_[others], truth[others], atol=1e-9)
    np.testing.assert_allclose(model.low_rank_[7], model.location_)
    assert model.scores_.shape == (len(table), 2)
    assert not np.any(model.outliers_.toarray()[7])


def test_a_few_foreign_rows_are_left_out_and_named(cleaned):
    truth, table, _ = cleaned
    table = table.copy()
    foreign = [3, 20]
    table[foreign] = 30 * np.random.default_rng(1).standard_normal((2, table.shape[1]))
    with pytest.warns(UserWarning, match=r"in the rows \[3, 20\] is right to be sure"):
        model = RobustPCA(rank=5).fit(table)
    assert (model.status_, model.rank_, list(model.left_out_)) == ("EXACT", 2, foreign)
    others = np.delete(np.arange(len(table)), foreign)
    np.testing.assert_allclose(model.low_rank_[others], truth[others], atol=1e-9)
    assert np.all(model.outliers_.toarray()[foreign] != 0)
    np.testing.assert_array_equal(model.low_rank_[foreign], [model.location_] * 2)


def test_a_column_that_is_one_number_has_no_part_in_the_components(cleaned):
    """Nor is it evidence for whatever explains it; what differs in it is wrong."""
    truth, table, plain = cleaned
    wider = np.insert(table, 4, 7.0, axis=1)
    wider[[2, 9], 4] = 50.0, np.nan
    model = RobustPCA(rank=5).fit(wider)
    assert (model.status_, model.rank_, model.location_[4]) == ("EXACT", 2, 7.0)
    np.testing.assert_allclose(model.components_[:, 4], 0.0, atol=1e-15)
    np.testing.assert_allclose(model.low_rank_, np.insert(truth, 4, 7.0, axis=1), atol=1e-9)
    wrong = np.insert(plain.outliers_.toarray(), 4, 0.0, axis=1)
    wrong[2, 4] = 43.0
    np.testing.assert_allclose(model.outliers_.toarray(), wrong, atol=1e-9)


def test_beside_few_columns_one_number_is_no_help_and_no_harm():
    truth, table, wrong = noisy_table(77)
    truth[:, 5] = table[:, 5] = 4.0
    table[30, np.arange(8) != 5] = np.nan  # and of one row it is all there is
    wrong[:, 5] = wrong[30] = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of rows that are left out
        model = RobustPCA(rank=2).fit(table)
    assert (model.status_, model.rank_) == ("NOISE_LEVEL", 2)
    assert 30 in model.left_out_
    assert len(model.left_out_) <= 12
    sure = np.delete(np.arange(120), model.left_out_)
    assert np.sqrt(np.mean((model.low_rank_ - truth)[sure] ** 2)) < 0.05
    assert np.all((model.outliers_.toarray() != 0)[sure][wrong[sure]])


def test_a_row_that_is_left_out_is_wrong_only_where_it_is(cleaned):
    """Of its entries more than half agree with components that others have shown."""
    rng = np.random.default_rng(0)
    components = rng.standard_normal((2, 9))
    rows = rng.standard_normal((3, 2)) @ components
    rows[0, 4], rows[1], rows[2, 3:] = 30.0, 30 * rng.standard_normal(9), np.nan
    scores, wrong = judged_rows(rows, components, L1(), noise=0.0)
    np.testing.assert_allclose((scores @ components)[2, :3], rows[2, :3])
    assert np.allclose(np.delete((scores @ components)[0] - rows[0], 4), 0)
    assert not np.any(scores[1])
    assert list(zip(*wrong, strict=True)) == [(0, 4), *((1, k) for k in range(9))]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_many_foreign_rows_are_not_left_out(cleaned):
    _, table, _ = cleaned
    table = table.copy()
    table[:25] = 30 * np.random.default_rng(1).standard_normal((25, table.shape[1]))
    model = RobustPCA(rank=5).fit(table)
    assert model.status_ not in ("EXACT", "NOISE_LEVEL")
    assert len(model.left_out_) == 0
