"""Tables without noise in the factor model, beside dense least squares."""

import numpy as np
import pytest

from lemmax.estimators import RobustPCA
from lemmax.factor import Options, _constants, fit_entries, fit_table
from lemmax.factor import _refinement as refinement
from lemmax.factor._cells import DenseCells
from lemmax.factor._sweeps import Setting, smallest_variances, start


@pytest.mark.parametrize(("effects", "centred"), [(False, True), (False, False), (True, True)])
def test_a_step_of_rows_and_columns_is_that_of_dense_gauss_newton(effects, centred, monkeypatch):
    """On a table with holes, compared by how it changes the table: factors have a gauge."""
    monkeypatch.setattr(_constants, "SMALL_GRADIENT", 1e-9)
    rng = np.random.default_rng(0)
    table = rng.standard_normal((14, 9))
    table[rng.random(table.shape) < 0.2] = np.nan
    cells = DenseCells(table)
    setting = Setting(True, False, smallest_variances(np.zeros(9)), np.inf, centred)
    model = start(cells, 2, effects, setting, 0)
    left = np.hstack([rng.standard_normal((14, 2)), np.ones((14, 1 + effects))])
    right = np.hstack([rng.standard_normal((9, 3)), np.ones((9, int(effects)))])
    fit = refinement.Refinement(cells, model, setting, (left, right))
    residual = cells.values - left @ right.T
    own, other = [0, 1, 3][: 2 + effects], [0, 1, 2][: 2 + centred]
    rows, columns = fit.common_step(residual, 1.0 * cells.known)
    change = rows @ right[:, own].T + left[:, other] @ columns.T

    def effect(place):
        """What one parameter changes in the table."""
        flat = np.zeros(rows.size + columns.size)
        flat[place] = 1.0
        one, two = flat[: rows.size].reshape(rows.shape), flat[rows.size :].reshape(columns.shape)
        return (one @ right[:, own].T + left[:, other] @ two.T)[cells.known]

    jacobian = np.stack([effect(k) for k in range(rows.size + columns.size)], axis=1)
    step = np.linalg.lstsq(jacobian, residual[cells.known], rcond=1e-10)[0]
    np.testing.assert_allclose(change[cells.known], jacobian @ step, atol=1e-6)


def test_a_table_without_locations_is_exact_without_them():
    rng = np.random.default_rng(1)
    truth = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 12))
    table = np.where(rng.random(truth.shape) < 0.1, 20.0, truth)
    table[rng.random(truth.shape) < 0.3] = np.nan
    found = fit_table(table, options=Options(centred=False, common=True))
    assert found.exact
    np.testing.assert_array_equal(found.location, 0.0)
    np.testing.assert_allclose(found.scores @ found.loadings.T, truth, atol=1e-9)


def test_a_row_with_a_component_of_its_own_is_not_believed():
    """Whatever is in it is explained, and no other row confirms it."""
    rng = np.random.default_rng(2)
    truth = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20))
    table = truth.copy()
    table[7] = 20 * rng.standard_normal(20)
    found = fit_table(table, options=Options(components=3, centred=False))
    assert found.exact
    errors = found.standard_errors()
    assert 7 in found.doubtful()[0]
    assert np.all(np.isinf(errors[7]))
    sure = np.isfinite(errors)
    assert sure[np.arange(30) != 7].all()
    np.testing.assert_allclose(found.values()[sure], truth[sure], atol=1e-9)


def test_weights_decide_which_entries_tell_the_rank():
    """Every entry is there twice, as one of two matrices has it; one of them hardly counts."""
    rng = np.random.default_rng(3)
    truth, other = (np.outer(rng.standard_normal(30), rng.standard_normal(25)) for _ in range(2))
    rows, columns = np.tile(np.indices(truth.shape).reshape(2, -1), 2)
    values = np.concatenate([truth.ravel(), other.ravel()])
    weights = np.repeat([1.0, 1e-4], truth.size)
    options = Options(most=1, centred=False, common=True)
    found, _ = fit_entries(rows, columns, values, truth.shape, weights, options)
    assert found.rank == 1
    assert np.linalg.norm(found.values() - truth) < 0.02 * np.linalg.norm(truth)


@pytest.mark.parametrize("seed", range(3))
def test_a_duplicate_column_hides_no_wrong_cell(seed):
    rng = np.random.default_rng(seed)
    table = 100 + 20 * rng.standard_normal((200, 2)) @ rng.standard_normal((2, 6))
    table += 2 * rng.standard_normal(table.shape)
    wrong = rng.random(table.shape) < 0.02
    wrong[:, 0] = False
    table[wrong] += 30.0
    model = RobustPCA().fit(np.c_[table, table[:, 0]])
    found = model.outliers_.toarray()[:, :6] != 0
    assert np.mean(found[wrong]) > 0.85
    assert np.sum(found & ~wrong) <= 3
    with pytest.raises(ValueError, match="level must be a probability"):
        model.predict_interval(table)
