"""Nonnegative components of tables."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from lemmax.estimators import RobustPCA


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
