"""Nonnegative components of tables."""

import warnings

import numpy as np
import pytest
from scipy import optimize
from sklearn.exceptions import ConvergenceWarning

from lemmax.estimators import CPDecomposition, RobustPCA


def test_nonnegative_components():
    rng = np.random.default_rng(0)
    truth = rng.random((100, 3)) @ rng.random((3, 20))
    wrong = rng.random(truth.shape) < 0.05
    table = truth.copy()
    table[wrong] += rng.uniform(3, 10, wrong.sum())
    model = RobustPCA(3, centre=False, nonnegative=True).fit(table)
    assert (model.status_, model.n_components_) == ("EXACT", 3)
    assert np.all(model.components_ >= 0)
    assert np.all(model.scores_ >= 0)
    np.testing.assert_allclose(model.reconstruction_, truth, atol=1e-9)
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
    model = RobustPCA(max_components=3, nonnegative=True, centre=False).fit(table)
    assert (model.status_, model.n_components_) == ("NOISE_LEVEL", 3)
    assert np.min(model.scores_) >= 0
    assert np.max(np.sqrt(np.mean((model.reconstruction_ - truth) ** 2, axis=1))) < 0.05


def test_signs_that_no_nonnegative_terms_have_are_refused():
    rng = np.random.default_rng(1)
    table = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 15))
    with pytest.warns(ConvergenceWarning, match="differ from the unconstrained ones"):
        model = RobustPCA(2, nonnegative=True, centre=False).fit(table)
    assert model.status_ == "NOT_CONVERGED"


def test_scores_are_the_nonnegative_least_squares_of_right_cells():
    rng = np.random.default_rng(7)
    truth = rng.random((60, 3)) @ rng.random((3, 12))
    table = truth + 0.02 * rng.standard_normal(truth.shape)
    wrong = rng.random(truth.shape) < 0.05
    table[wrong] += 5
    table[rng.random(truth.shape) < 0.1] = np.nan
    model = RobustPCA(3, nonnegative=True, centre=False).fit(table)
    assert model.status_ == "NOISE_LEVEL"
    right = ~np.isnan(table) & (model.outliers_.toarray() == 0)
    assert not np.any(right & wrong)
    least = [
        optimize.nnls(model.components_.T[cells], row[cells])[1] ** 2
        for row, cells in zip(table, right, strict=True)
    ]
    found = np.sum((model.reconstruction_ - table)[right] ** 2)
    np.testing.assert_allclose(found, np.sum(least), rtol=1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_table_in_units_of_its_own_is_fitted_and_refused():
    """The unconstrained fit fails if columns differ by orders of magnitude; terms stay finite."""
    rng = np.random.default_rng(3)
    table = rng.gamma(2.0, size=(80, 6)) * 10.0 ** np.arange(-2, 4)
    model = RobustPCA(2, nonnegative=True, centre=False).fit(table)
    assert model.status_ not in ("EXACT", "NOISE_LEVEL")
    assert np.all(np.isfinite(model.reconstruction_))
    assert np.min(model.reconstruction_) >= 0


def test_no_time_is_left():
    rng = np.random.default_rng(5)
    table = rng.random((100, 3)) @ rng.random((3, 10)) + 0.05 * rng.random((100, 10))
    with pytest.warns(ConvergenceWarning):
        model = RobustPCA(3, nonnegative=True, centre=False, max_seconds=1e-6).fit(table)
    assert model.status_ == "INTERRUPTED"
    assert np.min(model.reconstruction_) >= 0


@pytest.mark.parametrize("seconds", [1e-6, 0.2])
def test_no_time_is_left_for_a_tensor(seconds):
    rng = np.random.default_rng(8)
    factors = [rng.random((size, 3)) for size in (20, 15, 12)]
    tensor = np.einsum("ar,br,cr->abc", *factors) + 0.1 * rng.standard_normal((20, 15, 12))
    tensor[rng.random(tensor.shape) < 0.05] += 10
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # unless the machine is fast
        model = CPDecomposition(6, nonnegative=True, max_seconds=seconds).fit(tensor)
    assert model.status_ == "INTERRUPTED" or seconds > 0.1
    assert min(np.min(factor) for factor in model.factors_) >= 0
    assert np.all(np.isfinite(model.cleaned_))


def test_a_table_of_which_little_is_known():
    """Below a fifth, entries are a list."""
    rng = np.random.default_rng(11)
    truth = rng.random((150, 2)) @ rng.random((2, 60))
    table = truth + 0.02 * rng.standard_normal(truth.shape)
    table[rng.random(truth.shape) > 0.18] = np.nan
    model = RobustPCA(2, nonnegative=True, centre=False).fit(table)
    assert model.status_ == "NOISE_LEVEL"
    assert np.min(model.reconstruction_) >= 0
    assert np.sqrt(np.mean((model.reconstruction_ - truth) ** 2)) < 0.02


def test_nonnegative_terms_of_a_noisy_tensor():
    rng = np.random.default_rng(6)
    factors = [rng.random((size, 2)) * (rng.random((size, 2)) > 0.3) for size in (14, 11, 9)]
    truth = np.einsum("ar,br,cr->abc", *factors)
    tensor = truth + 0.02 * rng.standard_normal(truth.shape)
    model = CPDecomposition(2, nonnegative=True).fit(tensor)
    assert model.status_ == "NOISE_LEVEL"
    assert min(np.min(factor) for factor in model.factors_) >= 0
    own = model.factors_[0] * model.weights_
    found = np.einsum("ar,br,cr->abc", own, *model.factors_[1:])
    # Known zeros and signs would leave .02 * sqrt(2 * 32 / 1386) = .0043.
    assert np.sqrt(np.mean((found - truth) ** 2)) < 0.006
