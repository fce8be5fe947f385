"""`lm.recover`: the answer against the truth, the verdict against what can be known."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import least_squares

import lemmax as lm
from lemmax.experiments.instances import cp_sensing, low_rank_sensing, psd_sensing
from lemmax.points import DensePoint, KruskalPoint
from lemmax.recovery import _constants as constants

DIM, MEASUREMENTS = 10, 300


def relative_error(found, truth):
    return float(found.point.distance(truth) / truth.norm())


def sensing(seed, *, rank=4, **law):
    return psd_sensing(seed, dim=DIM, rank=rank, true_rank=2, measurements=MEASUREMENTS, **law)


def recovered(problem, data=None, **options):
    """Whatever is found, its residuals are those of its point, and the rank is that of the map."""
    data = problem.data if data is None else data
    found = lm.recover(data, problem.map, problem.operator, **options)
    residual = np.asarray(problem.operator.measure(found.point)) - np.asarray(data)
    rounding = 1e-9 * np.max(np.abs(np.asarray(data)))
    assert np.allclose(found.residual, residual, rtol=1e-6, atol=rounding)
    assert found.map.rank == found.rank
    return found


def test_a_bound_beyond_the_sides_of_a_matrix_is_lowered():
    instance = sensing(2, outliers=0.1)
    problem = instance.problem
    found = lm.recover(problem.data, lm.maps.PSD(DIM, rank=6 * DIM), problem.operator)
    assert (found.status.name, found.rank, found.rank_bound) == ("EXACT", 2, DIM)
    assert relative_error(found, instance.truth) < 1e-10


@pytest.mark.parametrize("condition", [1.0, 100.0])
@pytest.mark.parametrize("outliers", [0.0, 0.3])
def test_a_matrix_its_rank_and_the_wrong_data_are_found(condition, outliers):
    instance = sensing(3, condition=condition, outliers=outliers)
    found = recovered(instance.problem)
    assert found.status is lm.RecoveryStatus.EXACT
    assert relative_error(found, instance.truth) < 1e-10
    assert found.rank == 2
    assert found.x.shape == (DIM, 2)
    exact = instance.problem.operator.measure(instance.truth)
    wrong = np.flatnonzero(np.abs(np.asarray(exact - instance.problem.data)) > 1e-9)
    assert np.array_equal(found.outliers, wrong)
    assert len(wrong) == round(outliers * MEASUREMENTS)
    assert found.passes <= 150  # the paper takes 200 iterations of two passes, from a given start


def test_a_rank_that_the_data_cannot_bear_is_lowered():
    """At the bound there are points that fit better than the truth; below it there are none."""
    instance = psd_sensing(
        5, dim=DIM, rank=8, true_rank=1, measurements=80, outliers=0.15, condition=1.0
    )
    found = recovered(instance.problem)
    assert (found.status, found.rank) == (lm.RecoveryStatus.EXACT, 1)
    assert relative_error(found, instance.truth) < 1e-10


def test_asymmetric_matrices_and_squared_losses():
    instance = low_rank_sensing(
        2, shape=(9, 7), rank=4, true_rank=2, condition=10.0, measurements=250, outliers=0.2
    )
    found = recovered(instance.problem)
    assert (found.status, found.rank) == (lm.RecoveryStatus.EXACT, 2)
    assert relative_error(found, instance.truth) < 1e-10
    clean = instance.problem.operator.measure(instance.truth)
    squared = recovered(instance.problem, clean, loss=lm.losses.SquaredL2())
    assert (squared.status, squared.rank) == (lm.RecoveryStatus.EXACT, 2)
    assert relative_error(squared, instance.truth) < 1e-10
    assert len(squared.outliers) == 0


def test_tensors():
    instance = cp_sensing(
        1, dims=(7, 7, 7), rank=4, true_rank=2, measurements=500, outliers=0.1, condition=3.0
    )
    found = recovered(instance.problem)
    assert (found.status, found.rank) == (lm.RecoveryStatus.EXACT, 2)
    assert relative_error(found, instance.truth) < 1e-10


def test_weak_terms_do_not_pass_for_noise_beside_many_outliers():
    """At the bound the descent ends beside the truth; from fewer terms it gets there."""
    instance = psd_sensing(
        0, dim=20, rank=5, true_rank=2, condition=100.0, measurements=320, outliers=0.4
    )
    problem = instance.problem
    found = lm.recover(problem.data, problem.map, problem.operator)
    assert (found.status, found.rank) == (lm.RecoveryStatus.EXACT, 2)
    assert relative_error(found, instance.truth) < 1e-10


@pytest.mark.parametrize("kind", ["quadratic", "bilinear"])
def test_rank_one_measurements(kind):
    rng = np.random.default_rng(4)
    dim, count = 12, 240
    a, b = rng.standard_normal((2, count, dim))
    x, y = rng.standard_normal((2, dim, 1))
    if kind == "quadratic":
        operator, map, truth = lm.operators.RankOne(a), lm.maps.PSD(dim, 2), KruskalPoint((x, x))
    else:
        operator, map = lm.operators.RankOne(a, b), lm.maps.LowRank((dim, dim), 2)
        truth = KruskalPoint((x, y))
    data = np.array(operator.measure(truth))
    data[: count // 8] *= rng.exponential(3.0, count // 8)
    found = lm.recover(data, map, operator)
    assert (found.status, found.rank) == (lm.RecoveryStatus.EXACT, 1)
    assert relative_error(found, truth) < 1e-10


def test_nonnegative_regression_finds_the_support():
    rng = np.random.default_rng(0)
    matrix, truth = rng.standard_normal((90, 20)), np.maximum(rng.standard_normal(20), 0)
    data = matrix @ truth
    data[:15] += 5 * rng.standard_normal(15)
    found = lm.recover(data, lm.maps.Square(20), lm.operators.Dense(matrix))
    assert found.status is lm.RecoveryStatus.EXACT
    assert found.rank == np.count_nonzero(truth)
    assert relative_error(found, DensePoint(truth)) < 1e-10


def test_a_function_from_a_start_and_from_others():
    t = np.linspace(0, 4, 60)

    def decays(x):
        return x[0] * jnp.exp(-x[1] * t) + x[2] * jnp.exp(-x[3] * t)

    truth = np.array([2.0, 0.5, 1.0, 3.0])
    data = np.array(decays(truth))
    data[::7] += 1.0
    map = lm.maps.FromFunction(decays)
    found = lm.recover(data, map, x0=np.array([1.0, 1.0, 1.0, 2.0]))
    assert found.status is lm.RecoveryStatus.EXACT
    assert found.rank is None
    assert sorted(found.x) == pytest.approx(sorted(truth), rel=1e-8)
    assert np.array_equal(found.outliers, np.arange(0, 60, 7))
    # From two equal decays nothing tells them apart; other starts do.
    found = lm.recover(data, map, x0=np.array([1.0, 1.0, 1.0, 1.0]))
    assert found.status is lm.RecoveryStatus.EXACT
    assert sorted(found.x) == pytest.approx(sorted(truth), rel=1e-8)


def test_noise_costs_little_more_than_for_one_who_knows_everything():
    """Against least squares on the right data at the right rank, from the truth, by SciPy."""
    ratios = []
    for seed in range(4):
        instance = sensing(seed, outliers=0.1, condition=3.0)
        problem, truth = instance.problem, instance.truth
        exact = np.asarray(problem.operator.measure(truth))
        right = np.abs(exact - np.asarray(problem.data)) < 1e-9
        sigma = 1e-3 * np.median(np.abs(exact))
        noise = sigma * np.random.default_rng(seed).standard_normal(exact.shape)
        found = recovered(problem, np.asarray(problem.data) + np.where(right, noise, 0))
        assert (found.status, found.rank) == (lm.RecoveryStatus.NOISE_LEVEL, 2)
        assert found.noise == pytest.approx(sigma, rel=0.15)
        error = relative_error(found, truth)
        assert error < 3 * found.expected_error
        assert found.expected_error < 3 * error

        def residual(flat, right=right, data=exact + noise, operator=problem.operator):
            point = KruskalPoint((flat.reshape(DIM, 2),) * 2)
            return (np.asarray(operator.measure(point)) - data)[right]

        oracle = least_squares(residual, np.ravel(truth.factors[0])).x.reshape(DIM, 2)
        ratios.append(error / float(KruskalPoint((oracle, oracle)).distance(truth) / truth.norm()))
    assert np.median(ratios) < 1.2


def test_hopeless_data_are_not_called_recovered():
    for seed in range(2):
        mostly_wrong = recovered(sensing(seed, outliers=0.6).problem)
        assert mostly_wrong.status is lm.RecoveryStatus.NOT_CONVERGED
        assert mostly_wrong.objections
        few = psd_sensing(seed, dim=DIM, rank=4, true_rank=2, measurements=18).problem
        found = recovered(few)
        assert found.status is lm.RecoveryStatus.NOT_IDENTIFIABLE
        assert found.needed > found.observations == 18
        assert "theory asks for" in found.summary()


def test_no_freedom_hides_in_terms_that_were_cut():
    """Fewer data than parameters at the bound: a cut term that came back would fit them all."""
    for seed in range(4):
        instance = psd_sensing(
            seed, dim=12, rank=3, true_rank=1, measurements=30, outliers=0.45, condition=1.0
        )
        found = recovered(instance.problem)
        assert not found.status.succeeded or relative_error(found, instance.truth) < 1e-3


def test_weights_that_broadcast():
    instance = sensing(3, outliers=0.1)
    found = recovered(instance.problem, loss=lm.losses.L1(weights=np.ones(1)))
    assert found.status is lm.RecoveryStatus.EXACT


def test_the_same_observation_many_times_proves_nothing():
    rng = np.random.default_rng(1)
    measurements, x = rng.standard_normal((19, DIM, DIM)), rng.standard_normal((DIM, 2))
    often = np.repeat(measurements, 20, axis=0)
    operator = lm.operators.Dense(often)
    found = lm.recover(operator.measure(KruskalPoint((x, x))), lm.maps.PSD(DIM, 2), operator)
    assert not found.status.succeeded


def test_directions_that_no_observation_sees():
    rng = np.random.default_rng(0)
    measurements = rng.standard_normal((200, 6, 6))
    measurements[:, 5, :] = measurements[:, :, 5] = 0
    x = rng.standard_normal((6, 1))
    operator = lm.operators.Dense(measurements)
    data = operator.measure(KruskalPoint((x, x)))
    found = lm.recover(data, lm.maps.PSD(6, rank=1), operator)
    assert found.status is lm.RecoveryStatus.NOT_IDENTIFIABLE


@pytest.mark.parametrize("condition", [1.0, pytest.param(30.0, marks=pytest.mark.slow)])
def test_a_bound_that_is_too_low_for_measurements_is_noticed(condition):
    """What has no room is no noise: it counts as an error."""
    instance = psd_sensing(7, dim=10, rank=2, measurements=150, condition=condition)
    problem = instance.problem
    found = lm.recover(problem.data, lm.maps.PSD(10, rank=1), problem.operator)
    error = float(found.point.distance(instance.truth) / instance.truth.norm())
    assert error < 2 * found.expected_error
    assert found.status.succeeded == (condition > 1)
    if not found.status.succeeded:
        assert "the bound on the rank may be too low" in found.summary()


def test_many_parameters_take_steps_without_a_jacobian(monkeypatch):
    monkeypatch.setattr(constants, "LARGEST_B", 0)
    instance = sensing(3, condition=10.0, outliers=0.1)
    found = recovered(instance.problem)
    assert (found.status, found.rank) == (lm.RecoveryStatus.EXACT, 2)
    assert relative_error(found, instance.truth) < 1e-9
    clean = instance.problem.operator.measure(instance.truth)
    noise = 1e-3 * float(np.std(clean)) * np.random.default_rng(0).standard_normal(clean.shape)
    noisy = np.asarray(clean) + noise
    found = recovered(instance.problem, noisy, loss=lm.losses.SquaredL2())
    assert (found.status, found.rank) == (lm.RecoveryStatus.NOISE_LEVEL, 2)


def test_arrays_come_out_as_they_went_in():
    problem = sensing(3, outliers=0.1).problem
    assert isinstance(recovered(problem).x, jax.Array)
    dense = np.asarray(problem.data)
    measurements = lm.operators.Dense(np.random.default_rng(0).standard_normal((60, 5, 5)))
    point = KruskalPoint((np.ones((5, 1)), np.ones((5, 1))))
    with jax.enable_x64(False):
        found = lm.recover(np.asarray(measurements.measure(point)), lm.maps.PSD(5, 1), measurements)
    assert isinstance(found.x, np.ndarray)
    assert found.x.dtype == np.float64
    assert found.status is lm.RecoveryStatus.EXACT
    assert dense.dtype == np.float64


def test_the_same_seed_gives_the_same_answer():
    problem = sensing(6, outliers=0.2).problem
    first, second = recovered(problem, seed=1), recovered(problem, seed=1)
    assert np.array_equal(first.x, second.x)
    assert first.passes == second.passes


def test_a_search_can_be_stopped_and_keeps_what_it_had():
    problem = sensing(6, outliers=0.2).problem
    seen = []

    def stop(stage, step, value):
        seen.append((stage, step, value))
        return step == 1

    found = recovered(problem, callback=stop)
    assert found.status is lm.RecoveryStatus.INTERRUPTED
    assert np.all(np.isfinite(found.x))
    assert [step for _, step, _ in seen].count(1) == 1


def test_the_summary_and_the_picture_tell_the_same():
    found = recovered(sensing(3, condition=100.0, outliers=0.3).problem)
    text, facts = found.summary(), found.as_dict()
    assert text.startswith("EXACT")
    assert str(found) == text
    assert "rank            2 (bound 4)" in text
    assert "90 of 300 (30.0%)" in text
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert facts["rank"] == 2
    assert facts["outlier_fraction"] == pytest.approx(0.3)
    assert found.rank_gap > 2
    assert found.residual_gap > 1e6
    left, right = lm.plots.recovery(found).axes
    assert left.get_title() == "rank 2 of at most 4"
    assert right.get_title() == "90 of 300 observations are outliers"


def small_table(seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((20, 2)) @ rng.standard_normal((2, 15)), rng


@pytest.mark.parametrize("kind", ["plain", "with rows of zeros", "with rows of all sizes"])
def test_clean_tables(kind):
    """What a singular value decomposition does, no robust fit may spoil."""
    for seed in range(4):
        table, rng = small_table(seed)
        if kind == "with rows of zeros":
            table[:3] = 0
        elif kind == "with rows of all sizes":
            table *= np.exp(rng.standard_normal((20, 1)))
        found = lm.recover(table, lm.maps.LowRank((20, 15), rank=3))
        assert (found.status, found.rank) == (lm.RecoveryStatus.EXACT, 2)
        assert np.allclose(found.point.dense(), table)


def test_a_small_noisy_table():
    """No term is taken for noise, and no noise for a term: as good as singular vectors."""
    table, rng = small_table(1027)
    noisy = table + 0.05 * rng.standard_normal(table.shape)
    found = lm.recover(noisy, lm.maps.LowRank((20, 15), rank=4))
    assert (found.status, found.rank) == (lm.RecoveryStatus.NOISE_LEVEL, 2)
    left, values, right = np.linalg.svd(noisy, full_matrices=False)
    best = np.linalg.norm((left[:, :2] * values[:2]) @ right[:2] - table)
    assert np.linalg.norm(found.point.dense() - table) < 1.3 * best


def test_missing_numbers_in_a_table():
    table, rng = small_table(5)
    holes = table.copy()
    holes[rng.random(table.shape) < 0.2] = np.nan
    holes[0, 0] = 50.0
    found = lm.recover(holes, lm.maps.LowRank((20, 15), rank=3))
    assert found.status is lm.RecoveryStatus.EXACT
    assert np.allclose(found.point.dense(), table)
    assert [index.tolist() for index in found.outliers] == [[0], [0]]
    assert found.observations == np.count_nonzero(~np.isnan(holes))


def test_a_superfluous_term_must_not_explain_outliers_of_a_tensor():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth = KruskalPoint([rng.standard_normal((6, 2)) for _ in range(3)])
        data = np.array(truth.dense())
        wrong = rng.random(data.shape) < 0.15
        data[wrong] = 5 * rng.standard_normal(wrong.sum())
        found = lm.recover(data, lm.maps.CP((6, 6, 6), rank=3))
        assert (found.status, found.rank) == (lm.RecoveryStatus.EXACT, 2)
        assert relative_error(found, truth) < 1e-10


def test_noisy_nonnegative_regression():
    matrix = np.random.default_rng(9).standard_normal((60, 10))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth = np.maximum(rng.standard_normal(10), 0)
        data = matrix @ truth + 0.01 * rng.standard_normal(60)
        found = lm.recover(data, lm.maps.Square(10), lm.operators.Dense(matrix))
        assert found.status is lm.RecoveryStatus.NOISE_LEVEL
        assert relative_error(found, DensePoint(truth)) < 3 * found.expected_error


def test_large_numbers_are_as_good_as_small_ones():
    table, _ = small_table(2)
    found = lm.recover(1e16 * table, lm.maps.LowRank((20, 15), rank=3))
    assert (found.status, found.rank) == (lm.RecoveryStatus.EXACT, 2)
    single = lm.recover(table.astype(np.float32), lm.maps.LowRank((20, 15), rank=3))
    assert (single.status, single.rank) == (lm.RecoveryStatus.EXACT, 2)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"data": np.zeros(MEASUREMENTS)}, "All data are zero"),
        ({"data": np.ones(3)}, "gives observations of shape"),
        ({"map": lm.maps.FromFunction(lambda x: jnp.outer(x, x))}, "give x0"),
        ({"map": lm.maps.PSD(DIM + 1, 2)}, "The map returns points of shape"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"x0": np.ones((3, 3))}, "takes parameters of shape"),
        ({"data": np.full(MEASUREMENTS, np.nan)}, "NaN or infinite"),
    ],
)
def test_sentences_for_what_cannot_be(arguments, sentence):
    problem = sensing(0).problem
    given = {"operator": problem.operator, "data": problem.data, "map": problem.map} | arguments
    with pytest.raises(ValueError, match=sentence):
        lm.recover(given.pop("data"), given.pop("map"), given.pop("operator"), **given)
