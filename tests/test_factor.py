"""The factor model beside plain linear algebra, scikit-learn and refits."""

import numpy as np
import pytest

from lemmax.factor import fit_table
from lemmax.factor._cells import DenseCells, ListedCells
from lemmax.factor._columns import own_units
from lemmax.factor._exact import Exact, determined
from lemmax.factor._judge import predictions, uncertainty_factors
from lemmax.factor._packed import packed, unpacked
from lemmax.factor._sweeps import Setting, smallest_variances, start, sweep, turned, update_rows
from tests.tables import table_with_holes


def setting(width, robust=True, own_noise=True):
    return Setting(robust, own_noise, smallest_variances(np.zeros(width)), np.inf, True)


def model_of(cells, rank=2, effects=False, sweeps=4, **options):
    choices = setting(cells.shape[1], **options)
    model = start(cells, rank, effects, choices, 0)
    for _ in range(sweeps):
        model, _ = sweep(cells, model, choices)
    return model, choices


def listed(table):
    rows, columns = np.nonzero(~np.isnan(table))
    return ListedCells(rows, columns, table[rows, columns], table.shape)


@pytest.mark.parametrize("effects", [False, True])
def test_a_row_has_the_posterior_of_a_linear_model(effects):
    """Written out for one row, with the uncertain loadings integrated by their second moments."""
    table = table_with_holes()
    cells = DenseCells(table)
    model, _ = model_of(cells, effects=effects)
    rank, row = model.rank, 5
    new = update_rows(cells, model)
    precision = np.diag([1.0] * rank + [1 / model.effect_variances[0]] * effects)
    shift = np.zeros(rank + effects)
    for column in np.flatnonzero(~np.isnan(table[row])):
        weight = model.right[row, column] / model.variance[column]
        mean, spread = model.columns.mean[column], model.columns.covariance[column]
        design = np.append(mean[:rank], [1.0] * effects)
        second = np.outer(design, design)
        second[:rank, :rank] += spread[:rank, :rank]
        precision += weight * second
        shift += weight * (table[row, column] - mean[rank]) * design
        shift[:rank] -= weight * spread[:rank, rank]
    np.testing.assert_allclose(new.rows.mean[row], np.linalg.solve(precision, shift), rtol=1e-9)
    np.testing.assert_allclose(new.rows.covariance[row], np.linalg.inv(precision), rtol=1e-8)


@pytest.mark.parametrize("effects", [False, True])
def test_a_list_of_entries_and_a_table_are_fitted_alike(effects):
    table = table_with_holes(1)
    dense, entries = DenseCells(table), listed(table)
    one, _ = model_of(dense, effects=effects)
    # The same start: subspace iteration and a full decomposition differ in the last digits.
    other, choices = model_of(entries, effects=effects, sweeps=0)
    first, _ = model_of(dense, effects=effects, sweeps=0)
    other = other._replace(columns=first.columns)
    for _ in range(4):
        other, _ = sweep(entries, other, choices)
    np.testing.assert_allclose(other.left @ other.right_factor.T, one.left @ one.right_factor.T)
    np.testing.assert_allclose(other.variance, one.variance, rtol=1e-8)
    np.testing.assert_allclose(other.right, one.right[~np.isnan(table)], atol=1e-8)


def test_the_noise_is_the_expected_squared_residual():
    """Of rows and columns drawn from their posteriors, beside the closed form."""
    table = table_with_holes(2, shape=(200, 6))
    cells = DenseCells(table)
    model, choices = model_of(cells, robust=False, sweeps=60)
    rng = np.random.default_rng(0)
    known, total = ~np.isnan(table), 0.0
    draws = 400
    for _ in range(draws):
        scores = _drawn(rng, model.rows)
        columns = _drawn(rng, model.columns)
        made = np.hstack([scores, np.ones((200, 1))]) @ columns.T
        total = total + np.sum(np.where(known, table - made, 0.0) ** 2, axis=0)
    expected = (total / draws + 2 * 5e-4) / (known.sum(axis=0) + 2)
    again, _ = sweep(cells, model, choices)
    np.testing.assert_allclose(again.variance, expected, rtol=0.05)


def _drawn(rng, posterior):
    roots = np.linalg.cholesky(posterior.covariance)
    noise = rng.standard_normal(posterior.mean.shape)
    return posterior.mean + np.einsum("nij,nj->ni", roots, noise)


def test_turning_changes_neither_the_table_nor_its_uncertainty():
    model, choices = model_of(DenseCells(table_with_holes(3)), rank=3)
    other = turned(model, choices)
    np.testing.assert_allclose(other.left @ other.right_factor.T, model.left @ model.right_factor.T)
    pairs = zip(uncertainty_factors(model), uncertainty_factors(other), strict=True)
    before, after = (
        sum(left @ right.T for left, right in side) for side in zip(*pairs, strict=True)
    )
    np.testing.assert_allclose(after, before, rtol=1e-8)
    scores = other.rows.mean
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-10)
    second = scores.T @ scores / len(scores) + other.rows.covariance.mean(axis=0)
    np.testing.assert_allclose(second, np.eye(3), atol=1e-10)


def test_a_cell_is_predicted_by_the_others_as_if_it_were_missing():
    table = table_with_holes(4)
    cells = DenseCells(table)
    model, _ = model_of(cells, robust=False)
    model = update_rows(cells, model)
    residual = cells.values - model.left @ model.right_factor.T
    predicted = predictions(cells, model, residual)
    for row, column in list(zip(*np.nonzero(~np.isnan(table)), strict=True))[::17]:
        without = table.copy()
        without[row, column] = np.nan
        hidden = DenseCells(without)
        refit = update_rows(hidden, model._replace(right=hidden.known.astype(float)))
        value = (refit.left @ refit.right_factor.T)[row, column]
        # The loadings' own uncertainty takes part in the refit, and not in the formula.
        error = abs(table[row, column] - value - predicted.residual[row, column])
        assert error < 0.1 * np.sqrt(predicted.variance[row, column])


def test_packed_matrices_are_unpacked():
    rng = np.random.default_rng(0)
    matrices = rng.standard_normal((3, 4, 4))
    matrices = matrices + matrices.transpose(0, 2, 1)
    np.testing.assert_array_equal(unpacked(packed(matrices), 4), matrices)


def test_columns_have_robust_units_and_resolutions():
    rng = np.random.default_rng(0)
    normal = 3 + 2 * rng.standard_normal(4000)
    normal[:800] = 1e6  # a fifth is wrong
    rare = (np.arange(4000) % 10 == 0).astype(float)
    grades = rng.integers(1, 6, 4000).astype(float)
    units = own_units(DenseCells(np.column_stack([normal, rare, grades, np.full(4000, 7.0)])))
    assert units.centre[0] == pytest.approx(3, abs=1.5)
    assert units.scale[0] == pytest.approx(2, rel=0.5)
    assert units.scale[1] == pytest.approx(np.std(rare), rel=0.1)
    assert units.resolution[2] * units.scale[2] == 1
    np.testing.assert_array_equal(units.resolution[[0, 3]], 0)
    assert (units.centre[3], units.scale[3]) == (7.0, 1.0)


def test_new_rows_with_few_cells_have_large_errors_although_the_table_is_exact():
    rng = np.random.default_rng(12)
    table = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 15))
    found = fit_table(table)
    assert found.exact
    new = np.full((2, 15), np.nan)
    new[0, 4] = 1.0
    new[1] = table[5]
    errors = found.new_rows(new).standard_errors
    assert np.all(np.delete(errors[0], 4) > 0.01)
    np.testing.assert_array_equal(errors[1], 0.0)


def test_a_column_that_is_explained_by_chance_determines_nothing():
    """Whole numbers that have nothing to do with an exact table agree with it now and then."""
    rng = np.random.default_rng(16)
    explained = np.ones((60, 5), bool)
    explained[:, 4] = rng.random(60) < 0.15
    explained[0, 2:4], explained[0, 4] = False, True
    cells = DenseCells(rng.standard_normal(explained.shape))
    model, choices = model_of(cells, sweeps=0)
    found = Exact(model.left, model.right_factor, explained, 0)
    rows, columns = determined(cells, found, model, choices)
    np.testing.assert_array_equal(columns, [True, True, True, True, False])
    np.testing.assert_array_equal(rows, np.arange(60) > 0)


def test_components_that_were_shrunk_to_nothing_do_not_count():
    """With few cells kept aside all components stay in the fit; here two of them have any size."""
    rng = np.random.default_rng(17)
    table = rng.standard_normal((10, 2)) @ rng.standard_normal((2, 6))
    table += 0.1 * rng.standard_normal(table.shape)
    found = fit_table(table)
    assert found.held_out.count < 60
    assert 1 <= found.rank <= 2
    assert np.linalg.norm(found.loadings, axis=0).min() > 0.3


def test_what_rows_have_in_common_is_shared_with_locations_by_their_priors():
    """Beside least squares with the priors of scores, effects and locations written out."""
    cells = DenseCells(table_with_holes(3))
    model, choices = model_of(cells, rank=2, effects=True)
    model = update_rows(cells, model)._replace(effect_variances=(0.5, 0.02))
    other = turned(model, choices)
    np.testing.assert_allclose(other.left @ other.right_factor.T, model.left @ model.right_factor.T)
    # Unknown: what each score, and the effect, loses. A covariance counts by the rows of its root.
    scores, (mean, covariance) = model.rows.mean, model.columns
    prior = np.sqrt([1.0, 1.0, 1 / 0.5])
    own = (np.tile(np.diag(prior), (len(scores), 1)), np.ravel(scores * prior))
    roots = np.linalg.cholesky(covariance).transpose(0, 2, 1).reshape(-1, 3)
    moving = np.vstack(
        [
            np.column_stack([mean[:, :2], np.ones(len(mean))]),
            np.column_stack([roots[:, :2], np.zeros(len(roots))]),
        ]
    )
    still = np.concatenate([mean[:, 2], roots[:, 2]])
    unit = np.sqrt(0.02)
    lost = np.linalg.lstsq(
        np.vstack([own[0], moving / unit]), np.concatenate([own[1], -still / unit])
    )[0]
    expected = mean[:, 2] + mean[:, :2] @ lost[:2] + lost[2]
    np.testing.assert_allclose(other.location, expected, atol=1e-9)


def test_a_fit_that_is_stopped_has_no_more_components_than_help():
    rng = np.random.default_rng(12)
    truth = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 12))
    table = truth + 0.3 * rng.standard_normal(truth.shape)
    stopped = fit_table(table, callback=lambda stage, sweep, noise: sweep >= 8)
    assert stopped.interrupted
    assert stopped.rank <= 4  # of 11
    # Known components and noise have .3 * sqrt(2 / 12) = .12.
    assert np.sqrt(np.mean((stopped.values() - truth) ** 2)) < 0.17
