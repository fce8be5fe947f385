"""The factor model of tensors beside sums written out, oracles and other scales."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from lemmax.estimators import CPDecomposition
from lemmax.factor import Options, fit_tensor, interval_width
from lemmax.factor._packed import unpacked
from lemmax.factor._sweeps import Posterior, Setting, smallest_variances
from lemmax.factor._tensor_sweeps import (
    TensorCells,
    TensorModel,
    at_entries,
    balanced,
    mode_sums,
    second_moments,
    sweep,
)


def spoiled(seed, shape=(20, 15, 10), rank=2, noise=0.1, wrong=0.05, holes=0.1):
    """A tensor of low rank with noise, wrong entries and holes; the truth; what is wrong."""
    rng = np.random.default_rng(seed)
    truth = at_entries([rng.standard_normal((side, rank)) for side in shape])
    size = truth.std()
    tensor = truth + noise * size * rng.standard_normal(shape)
    bad = rng.random(shape) < wrong
    tensor[bad] += 10 * size * rng.choice([-1.0, 1.0], bad.sum())
    tensor[rng.random(shape) < holes] = np.nan
    return tensor, truth, bad & ~np.isnan(tensor)


@pytest.mark.parametrize("shape", [(4, 3, 5), (3, 4, 2, 3)])
def test_sums_over_slices_are_those_written_out(shape):
    rng = np.random.default_rng(0)
    weights = rng.random(shape)
    features = [rng.standard_normal((side, 3)) for side in shape]
    letters = "abcd"[: len(shape)]
    for mode in range(len(shape)):
        others = [k for k in range(len(shape)) if k != mode]
        spec = ",".join([letters, *(letters[k] + "f" for k in others)])
        wanted = np.einsum(f"{spec}->{letters[mode]}f", weights, *(features[k] for k in others))
        np.testing.assert_allclose(mode_sums(weights, features, mode), wanted, atol=1e-12)


def random_model(shape, rank, seed=1):
    rng = np.random.default_rng(seed)
    modes = []
    for side in shape:
        root = 0.3 * rng.standard_normal((side, rank, rank))
        modes.append(Posterior(rng.standard_normal((side, rank)), root @ root.transpose(0, 2, 1)))
    return TensorModel(tuple(modes), np.ones(rank), 0.3, 0.05, 5.0, np.ones(shape))


def test_uncertainty_is_that_of_draws():
    model = random_model((3, 2, 4), 2)
    rng = np.random.default_rng(2)
    draws = [
        np.stack([rng.multivariate_normal(m, c, 200_000) for m, c in zip(*mode, strict=True)], 1)
        for mode in model.modes
    ]
    values = np.einsum("nar,nbr,ncr->nabc", *draws)
    variance = model.uncertainty(model.values())
    np.testing.assert_allclose(model.values(), values.mean(axis=0), atol=0.03)
    np.testing.assert_allclose(variance, values.var(axis=0), rtol=0.05)


def test_a_row_has_the_posterior_of_a_linear_model():
    """The first row of the first mode, with second moments of the others written out."""
    rng = np.random.default_rng(3)
    shape, rank = (3, 4, 5), 2
    tensor, weights = rng.standard_normal(shape), rng.random(shape)
    model = balanced(random_model(shape, rank))._replace(right=rng.random(shape))
    cells = TensorCells(tensor, weights)
    setting = Setting(False, False, smallest_variances(np.zeros(1)), np.inf, False)
    second = [unpacked(second_moments(mode), rank) for mode in model.modes]
    precision, shift = np.eye(rank), np.zeros(rank)
    for j, k in np.ndindex(4, 5):
        weight = weights[0, j, k] * model.right[0, j, k] / model.variance
        precision = precision + weight * second[1][j] * second[2][k]
        shift = shift + weight * tensor[0, j, k] * model.factors[1][j] * model.factors[2][k]
    mean = np.linalg.solve(precision, shift)
    after, residual = sweep(cells, model, setting)
    # Terms are balanced after a sweep, in each mode by one factor for each term.
    ratio = after.factors[0][0] / mean
    others = after.modes[0].covariance[0] / np.linalg.inv(precision)
    np.testing.assert_allclose(others, np.outer(ratio, ratio), rtol=1e-10)
    np.testing.assert_allclose(residual, tensor - after.values(), atol=1e-12)


def test_balancing_changes_no_value():
    model = random_model((4, 3, 5), 2)
    after = balanced(model)
    np.testing.assert_allclose(after.values(), model.values(), atol=1e-12)
    np.testing.assert_allclose(
        after.uncertainty(after.values()), model.uncertainty(model.values()), atol=1e-10
    )
    for mode in after.modes[:-1]:
        squares = mode.mean**2 + np.einsum("nii->ni", mode.covariance)
        np.testing.assert_allclose(squares.mean(axis=0), 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_terms_wrong_entries_and_errors_of_a_noisy_tensor(seed):
    """The error is near that of least squares with all outliers known, the intervals cover."""
    tensor, truth, wrong = spoiled(seed)
    found = fit_tensor(tensor, options=Options(most=5, seed=seed))
    assert found.rank == 2
    assert found.converged
    freedom = 2 * (20 + 15 + 10 - 2)
    right = int(np.sum(~np.isnan(tensor) & ~wrong))
    oracle = 0.1 * truth.std() * np.sqrt(freedom / right)
    assert np.sqrt(np.mean((found.values() - truth) ** 2)) < 1.4 * oracle
    assert np.mean(found.wrong[wrong]) > 0.99
    assert np.mean(found.wrong[~wrong]) < 0.01
    assert found.noise == pytest.approx(0.1 * truth.std(), rel=0.1)
    holes = np.isnan(tensor)
    fresh = truth + 0.1 * truth.std() * np.random.default_rng(9).standard_normal(truth.shape)
    away = np.abs(found.values() - fresh)[holes]
    width = interval_width(found.interval_widths, 0.9)
    assert 0.84 < np.mean(away <= width * found.standard_errors()[holes]) < 0.96


def test_wrong_entries_that_are_all_alike_are_no_term():
    tensor, truth, _ = spoiled(5, wrong=0.0, rank=3, shape=(25, 18, 12))
    rng = np.random.default_rng(6)
    bad = rng.random(truth.shape) < 0.2
    found = fit_tensor(np.where(bad, 10 * truth.std(), tensor), options=Options(most=6))
    assert found.rank == 3
    assert np.linalg.norm(found.values() - truth) < 0.05 * np.linalg.norm(truth)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_units_do_not_matter(scale):
    tensor, _, _ = spoiled(7)
    given = Options(most=4)
    one, other = fit_tensor(tensor, options=given), fit_tensor(tensor * scale, options=given)
    assert one.rank == other.rank == 2
    np.testing.assert_array_equal(one.wrong, other.wrong)
    errors = one.standard_errors()
    np.testing.assert_allclose(other.standard_errors(), scale * errors, rtol=0.01)
    assert np.all(np.abs(other.values() / scale - one.values()) < 0.02 * errors)


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_modes_and_slices_does_not_matter(seed):
    """Nor a unit, where two numbers of terms are nearly as good: bad data, more terms than rows."""
    rng = np.random.default_rng(seed)
    tensor, _, _ = spoiled(seed, wrong=0.25, rank=4, shape=(9, 6, 8))
    orders = [rng.permutation(side) for side in tensor.shape]
    one = fit_tensor(tensor, options=Options(most=6))
    views = {
        "transposed": (np.transpose(tensor, (2, 0, 1)), lambda v: np.transpose(v, (1, 2, 0))),
        "permuted": (tensor[np.ix_(*orders)], lambda v: v[np.ix_(*map(np.argsort, orders))]),
        "times 1e3": (1e3 * tensor, lambda v: v / 1e3),
    }
    for name, (view, back) in views.items():
        other = fit_tensor(view, options=Options(most=6))
        assert other.rank == one.rank, name
        away = np.linalg.norm(back(other.values()) - one.values())
        assert away < 1e-4 * np.linalg.norm(one.values()), name


def test_slices_of_which_nothing_is_known_are_named():
    tensor, _, _ = spoiled(8)
    tensor[:, 3] = np.nan
    tensor[5] = 100 * np.random.default_rng(0).standard_normal(tensor[5].shape)
    found = fit_tensor(tensor, options=Options(most=4))
    assert [each.tolist() for each in found.doubtful()] == [[5], [3], []]
    errors = found.standard_errors()
    assert np.median(errors[:, 3]) > 3 * np.median(errors[:, 4])


def test_the_estimator_says_how_well_a_noisy_tensor_is_predicted(tmp_path):
    tensor, _, wrong = spoiled(9)
    model = CPDecomposition(rank=4, n_init=2).fit(tensor)
    assert (model.status_, model.rank_) == ("NOISE_LEVEL", 2)
    assert model.report_.explained > 0.9
    assert "slices" not in model.summary()
    assert "tensor scales" in model.summary()
    assert model.stability_.min() > 0.99
    found = np.zeros(tensor.shape, bool)
    found[model.outliers_.coords] = True
    same = ~(np.isnan(tensor) | found)
    np.testing.assert_array_equal(model.cleaned_[same], tensor[same])
    np.testing.assert_allclose(model.cleaned_[~same], model.reconstruct()[~same], atol=1e-12)
    lower, upper = model.predict_interval(0.9)
    assert np.mean((lower <= tensor) & (tensor <= upper), where=~np.isnan(tensor) & ~wrong) > 0.85
    model.save(tmp_path / "cp.safetensors")
    loaded = CPDecomposition.load(tmp_path / "cp.safetensors")
    np.testing.assert_array_equal(loaded.predict_interval(0.5)[0], model.predict_interval(0.5)[0])
    assert loaded.summary() == model.summary()
    with pytest.raises(ValueError, match="between 0 and 1"):
        model.predict_interval(90)


def test_a_fit_ends_when_time_is_up_and_keeps_what_it_has():
    tensor, _, _ = spoiled(10)
    found = fit_tensor(tensor, callback=lambda stage, sweep, noise: sweep >= 3)
    assert found.interrupted
    assert found.sweeps == 3
    assert np.isfinite(found.values()).all()


def test_a_stopped_fit_has_no_more_terms_than_allowed():
    tensor, _, _ = spoiled(0, shape=(9, 8, 7), rank=2)
    whole = fit_tensor(tensor, options=Options(most=1))
    for last in range(5, whole.sweeps, 5):
        found = fit_tensor(
            tensor, options=Options(most=1), callback=lambda _, sweep, noise, n=last: sweep >= n
        )
        assert found.interrupted
        assert found.rank == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2))])
@pytest.mark.parametrize("spoiled", [False, True])
def test_zeros_in_factors_do_not_make_a_part_of_the_terms_exact(seed, spoiled):
    rng = np.random.default_rng(seed)
    sides = [(side, 2) for side in (9, 8, 7)]
    truth = at_entries([rng.standard_normal(s) * (rng.random(s) < 0.75) for s in sides])
    tensor = truth.copy()
    if spoiled:
        tensor[0, 0, 0], tensor[1, 1, 1] = 30.0, np.nan
    model = CPDecomposition(rank=3).fit(tensor)
    right = np.linalg.norm(model.reconstruct() - truth) < 1e-8 * np.linalg.norm(truth)
    assert right == (model.status_ == "EXACT")
    assert right or spoiled


def test_a_bound_that_is_too_low_is_said():
    tensor, _, _ = spoiled(11, rank=3)
    with pytest.warns(ConvergenceWarning, match="the bound on the rank is too low"):
        model = CPDecomposition(rank=2).fit(tensor)
    assert model.report_.bound_is_low
    assert not CPDecomposition(rank=3).fit(tensor).report_.bound_is_low


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_exact_tensors_of_any_unit(scale):
    tensor, truth, wrong = spoiled(12, noise=0.0)
    model = CPDecomposition().fit(scale * tensor)
    assert model.status_ == "EXACT"
    np.testing.assert_allclose(model.reconstruct() / scale, truth, atol=1e-9)
    assert model.outliers_.nnz == wrong.sum()
    lower, upper = model.predict_interval(0.9)
    assert np.all((lower <= scale * truth) & (scale * truth <= upper))


@pytest.mark.parametrize("seed", [0, 1])
def test_noise_as_large_as_the_signal_is_no_failure(seed):
    """Half of the variance cannot be predicted; what can be is, with intervals that cover."""
    rng = np.random.default_rng(seed)
    factors = [rng.standard_normal((size, 3)) for size in (20, 15, 10)]
    truth = np.einsum("ir,jr,kr->ijk", *factors)
    truth /= np.std(truth)
    data = truth + rng.standard_normal(truth.shape)
    hidden, wrong = rng.random(truth.shape) < 0.1, rng.random(truth.shape) < 0.05
    model = CPDecomposition().fit(np.where(hidden, np.nan, data + 10.0 * wrong))
    assert model.status_ == "NOISE_LEVEL"
    assert np.std((model.cleaned_ - truth)[hidden]) < 0.5
    lower, upper = model.predict_interval(0.9)
    assert 0.85 < np.mean((lower <= data)[hidden] & (data <= upper)[hidden]) < 0.95
