"""Robust principal components: answers that are known otherwise, noise, holes and wrong cells."""

import warnings

import numpy as np
import pytest
from sklearn.decomposition import FactorAnalysis
from sklearn.exceptions import ConvergenceWarning

from lemmax.estimators import RobustPCA
from tests.tables import noisy_table, spoiled_table


def test_an_exact_table_is_recovered_exactly(cleaned):
    truth, table, model = cleaned
    assert (model.status_, model.n_components_) == ("EXACT", 2)
    np.testing.assert_allclose(model.reconstruction_, truth, atol=1e-12)
    np.testing.assert_allclose(model.cleaned_, truth, atol=1e-12)
    wrong = ~np.isnan(table) & (np.abs(table - truth) > 1e-6)
    np.testing.assert_array_equal(model.outliers_.toarray() != 0, wrong)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-12)
    np.testing.assert_array_equal(model.standard_error_, 0.0)
    # No prediction is right to the last bit; intervals cover what is right nevertheless.
    lower, upper = model.predict_interval(0.9)
    assert np.all((lower <= truth) & (truth <= upper))
    np.testing.assert_allclose(upper, lower, atol=1e-6)
    np.testing.assert_allclose(model.explained_variance_ratio_.sum(), 1.0)
    # The mean lies in the plane of the rows, the components span its directions.
    spread = truth - model.mean_
    inside = spread @ model.components_.T @ model.components_
    np.testing.assert_allclose(inside, spread, atol=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_small_and_ill_conditioned_tables_are_exact(seed):
    """Condition number 10, a fifth of the cells wrong, a tenth missing."""
    rng = np.random.default_rng(1000 + seed)
    left = np.linalg.qr(rng.standard_normal((60, 3)))[0] * [1.0, 0.3, 0.1]
    truth = left @ np.linalg.qr(rng.standard_normal((40, 3)))[0].T
    truth /= truth.std()
    wrong = rng.random(truth.shape) < 0.2
    table = truth + wrong * rng.uniform(-10, 10, truth.shape)
    table[rng.random(truth.shape) < 0.1] = np.nan
    model = RobustPCA().fit(table)
    assert (model.status_, model.n_components_) == ("EXACT", 3)
    np.testing.assert_allclose(model.reconstruction_, truth, atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_columns_that_converge_last_are_exact_too(seed):
    """One wrong cell alone: no other may be left over when the bulk of the residuals vanishes."""
    rng = np.random.default_rng(seed)
    truth = 5 + rng.standard_normal((60, 2)) @ rng.standard_normal((2, 25))
    table = truth.copy()
    table[3, 4], table[10, 2] = 99.0, np.nan
    model = RobustPCA(random_state=seed).fit(table)
    assert model.status_ == "EXACT"
    np.testing.assert_array_equal(np.transpose(model.outliers_.nonzero()), [[3, 4]])
    np.testing.assert_allclose(model.cleaned_, truth, atol=1e-11)


def test_new_rows_are_scored_in_spite_of_holes_and_errors(cleaned):
    _, _, model = cleaned
    rng = np.random.default_rng(1)
    scores = 3 * rng.standard_normal((40, 2))
    rows = model.inverse_transform(scores)
    clean = rows.copy()
    rows[np.arange(40), rng.integers(25, size=40)] += 100.0
    rows[np.arange(40), rng.integers(25, size=40)] = np.nan
    np.testing.assert_allclose(model.transform(rows), scores, atol=1e-8)
    imputed, errors = model.impute(rows, return_std=True)
    np.testing.assert_allclose(imputed, clean, atol=1e-8)
    np.testing.assert_array_equal(errors, 0.0)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_units_of_the_columns_do_not_matter(noise):
    _, table = spoiled_table(np.random.default_rng(0))
    table = table + noise * np.random.default_rng(1).standard_normal(table.shape)
    units = 10 ** np.random.default_rng(2).uniform(-3, 6, table.shape[1])
    plain, scaled = RobustPCA().fit(table), RobustPCA().fit(table * units)
    assert scaled.status_ == plain.status_ == ("NOISE_LEVEL" if noise else "EXACT")
    assert scaled.n_components_ == plain.n_components_
    np.testing.assert_allclose(scaled.cleaned_ / units, plain.cleaned_, rtol=1e-6)
    np.testing.assert_allclose(scaled.standard_error_ / units, plain.standard_error_, rtol=1e-6)
    np.testing.assert_array_equal(scaled.outliers_.toarray() != 0, plain.outliers_.toarray() != 0)


def test_order_of_rows_and_columns_does_not_matter_to_an_exact_table(cleaned):
    _, table, model = cleaned
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(60), rng.permutation(25)
    other = RobustPCA().fit(table[rows][:, columns])
    assert (other.status_, other.n_components_) == ("EXACT", 2)
    np.testing.assert_allclose(other.cleaned_, model.cleaned_[rows][:, columns], atol=1e-11)


def test_clean_data_are_as_likely_as_factor_analysis_makes_them():
    """Beside scikit-learn's maximum likelihood, which knows no holes and no wrong cells."""
    rng = np.random.default_rng(0)
    noise = np.linspace(0.2, 1.0, 10)
    table = rng.standard_normal((2000, 3)) @ rng.standard_normal((3, 10))
    table += noise * rng.standard_normal(table.shape)
    model, peer = RobustPCA(3, loss="squared").fit(table), FactorAnalysis(3).fit(table)
    np.testing.assert_allclose(model.mean_, peer.mean_, atol=0.01)
    own = (model.components_.T * model.explained_variance_) @ model.components_
    own += np.diag(model.noise_variance_)
    # Mean log likelihood of the data: a hundredth of a nat below the maximum at most.
    centred = table - model.mean_
    squares = np.einsum("ij,jk,ik->i", centred, np.linalg.inv(own), centred)
    likelihood = -0.5 * np.mean(squares + np.linalg.slogdet(2 * np.pi * own)[1])
    assert peer.score(table) - 0.01 < likelihood <= peer.score(table) + 1e-6


def test_noise_is_judged_column_by_column(cleaned):
    """A noisy column is not full of outliers."""
    truth, table, _ = cleaned
    rng = np.random.default_rng(4)
    level = np.where(np.arange(25) % 5 == 0, 0.1, 0.005)
    model = RobustPCA().fit(table + level * rng.standard_normal(table.shape))
    wrong = ~np.isnan(table) & (np.abs(table - truth) > 1e-6)
    found = model.outliers_.toarray() != 0
    assert np.all(found[wrong])
    assert np.sum(found & ~wrong) <= 0.02 * np.sum(~wrong)
    assert np.all(np.sqrt(model.noise_variance_)[level < 0.1] < 0.03)
    np.testing.assert_allclose(np.sqrt(model.noise_variance_)[level == 0.1], 0.1, rtol=0.5)


def test_the_number_of_components_is_kept():
    rng = np.random.default_rng(12)
    table = 2 + rng.standard_normal((60, 2)) @ rng.standard_normal((2, 15))
    table += 0.1 * rng.standard_normal(table.shape)
    for count in (1, 3):
        model = RobustPCA(count).fit(table)
        assert model.n_components_ == count
        assert model.components_.shape == (count, 15)
        spread = np.linalg.svd(model.reconstruction_ - model.mean_, compute_uv=False)
        assert spread[count] < 1e-8 * spread[0]
    assert RobustPCA(max_components=1).fit(table).n_components_ <= 1
    assert RobustPCA().fit(table).n_components_ >= 2


def test_a_bound_on_the_components_that_is_too_low_is_said():
    rng = np.random.default_rng(8)
    table = rng.standard_normal((150, 4)) @ rng.standard_normal((4, 12))
    table += 0.1 * rng.standard_normal(table.shape)
    low, enough = (RobustPCA(max_components=most).fit(table) for most in (2, 8))
    assert (low.n_components_, enough.n_components_) == (2, 4)
    assert "a larger max_components" in low.summary()
    assert low.report_.bound_is_low
    assert not enough.report_.bound_is_low
    assert not RobustPCA(2).fit(table).report_.bound_is_low  # this is what was asked for


def test_a_constant_table_has_no_components():
    model = RobustPCA().fit(np.full((6, 4), 2.5))
    assert (model.status_, model.n_components_) == ("EXACT", 0)
    np.testing.assert_array_equal(model.cleaned_, 2.5)
    assert model.transform(np.ones((3, 4))).shape == (3, 0)


def test_a_table_of_zeros_and_a_few_numbers_is_not_called_exact():
    """Most cells are 0, which explains nothing."""
    rng = np.random.default_rng(6)
    table = np.where(rng.random((80, 12)) < 0.2, rng.integers(1, 9, (80, 12)), 0).astype(float)
    with pytest.warns(ConvergenceWarning, match="column medians"):
        model = RobustPCA().fit(table)
    assert model.status_ == "NOT_IDENTIFIABLE"


def test_what_rows_have_in_common_is_no_merit():
    """The mean is known well, the differences between rows are noise."""
    table = 100 + np.random.default_rng(5).standard_normal((60, 12))
    with pytest.warns(ConvergenceWarning, match="better than one number"):
        model = RobustPCA().fit(table)
    assert model.status_ == "NOT_IDENTIFIABLE"
    assert model.report_.explained < 0.05


def test_rows_of_which_nothing_is_known_are_named(cleaned):
    """The mean stands for an empty row; of a foreign one most is wrong; the others are exact."""
    truth, table, _ = cleaned
    table = table.copy()
    table[7] = np.nan
    table[[3, 20]] = 30 * np.random.default_rng(1).standard_normal((2, table.shape[1]))
    model = RobustPCA().fit(table)
    assert (model.status_, model.n_components_) == ("EXACT", 2)
    assert model.report_.doubtful_rows == (3, 7, 20)
    others = np.delete(np.arange(60), [3, 7, 20])
    np.testing.assert_allclose(model.cleaned_[others], truth[others], atol=1e-10)
    assert np.all(np.isinf(model.standard_error_[[3, 7, 20]]))
    assert "3, 7, 20" in model.summary()


def test_a_column_that_is_one_number_has_no_part_in_the_components(cleaned):
    truth, table, plain = cleaned
    wider = np.insert(table, 4, 7.0, axis=1)
    wider[[2, 9], 4] = 50.0, np.nan
    model = RobustPCA().fit(wider)
    assert (model.status_, model.n_components_) == ("EXACT", 2)
    np.testing.assert_allclose(model.mean_[4], 7.0, atol=1e-12)
    np.testing.assert_allclose(model.components_[:, 4], 0.0, atol=1e-12)
    np.testing.assert_allclose(model.cleaned_, np.insert(truth, 4, 7.0, axis=1), atol=1e-9)
    wrong = np.insert(plain.outliers_.toarray(), 4, 0.0, axis=1)
    wrong[2, 4] = 43.0
    np.testing.assert_allclose(model.outliers_.toarray(), wrong, atol=1e-9)


def test_a_tall_table_is_fitted_from_some_of_its_rows():
    truth, table, wrong = noisy_table(3, shape=(15_000, 8))
    model = RobustPCA().fit(table)
    assert model.status_ == "NOISE_LEVEL"
    found = model.outliers_.toarray() != 0
    assert np.mean(found[wrong]) > 0.99
    assert np.mean(found[~wrong]) < 0.01
    # Of 8 cells in a row, two or three wrong ones may look like the right ones.
    sure = np.delete(np.arange(15_000), model.report_.doubtful_rows)
    assert len(sure) > 14_950
    assert np.sqrt(np.mean((model.reconstruction_ - truth)[sure] ** 2)) < 0.06
    exact = RobustPCA().fit(np.where(np.isnan(table) | wrong, table, truth))
    assert exact.status_ == "EXACT"


def test_time_runs_out_and_there_is_an_answer(monkeypatch):
    truth, table, _ = noisy_table(1)
    with pytest.warns(ConvergenceWarning, match="INTERRUPTED"):
        model = RobustPCA(max_seconds=0).fit(table)
    assert model.status_ == "INTERRUPTED"
    assert np.all(np.isfinite(model.cleaned_))
    assert np.std(model.reconstruction_ - truth) < np.std(truth)

    def ctrl_c(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("lemmax.factor._fit.exact", ctrl_c)
    with pytest.warns(ConvergenceWarning, match="INTERRUPTED"):
        assert RobustPCA().fit(table).status_ == "INTERRUPTED"


def test_no_warning_where_there_is_nothing_to_warn_of():
    _, table, _ = noisy_table(8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = RobustPCA().fit(table)
    assert model.status_ == "NOISE_LEVEL"
