"""Steps without a target, a decay or a first length."""

import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm
from lemmax.experiments.instances import low_rank_sensing, psd_sensing

BULK = lm.methods.lmm(lm.steps.BulkPolyak())


def errors(instance, method, steps=300):
    result = lm.solve(
        instance.problem,
        method,
        instance.x0,
        max_steps=steps,
        tol=1e-12,
        metrics={"error": instance.error},
    )
    return np.asarray(result.trace.metrics["error"]), result


def test_gap_is_what_is_lost_to_the_minimum():
    """With the truth at hand: the loss of the right data alone, and the fraction of them."""
    instance = psd_sensing(0, dim=15, rank=3, measurements=600, outliers=0.2)
    evaluation = instance.problem.evaluate(instance.x0)
    at_truth = instance.problem.data - instance.problem.operator.measure(instance.truth)
    right = np.abs(np.asarray(at_truth)) < 1e-12
    gap = lm.steps.BulkPolyak().gap(evaluation, instance.problem.loss)
    lost = np.sum(np.abs(np.asarray(evaluation.residual))[right])
    assert float(gap.size) == pytest.approx(lost, rel=0.02)
    assert float(gap.bulk) == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.25, 0.35])
@pytest.mark.parametrize(("rank", "condition"), [(2, 1.0), (5, 100.0)])
def test_outliers_need_no_tuning(rank, condition, fraction):
    """From far away, in fewer steps than the paper's schedule needs from nearby (about 370)."""
    for seed in range(2):
        instance = psd_sensing(
            seed,
            dim=20,
            rank=rank,
            measurements=800,
            condition=condition,
            outliers=fraction,
            start_error=0.3,
        )
        error, result = errors(instance, BULK)
        assert np.min(error) < 1e-10
        assert np.flatnonzero(error <= 1e-8)[0] < 250
        assert result.status.succeeded


def test_asymmetric_matrices_and_another_unit():
    """The rule has no length of its own: data a million times larger are no other problem."""
    small = low_rank_sensing(
        0, shape=(12, 10), rank=3, measurements=600, outliers=0.2, start_error=0.2
    )
    error, _ = errors(small, BULK)
    assert np.min(error) < 1e-10
    large = lm.Composite(
        lm.losses.L1(), small.problem.map, 1e6 * small.problem.data, small.problem.operator
    )
    x0 = tuple(1e3 * factor for factor in small.x0)
    result = lm.solve(large, BULK, x0, max_steps=300, tol=1e-12)
    truth = 1e6 * np.asarray(small.truth.dense())
    found = np.asarray(result.point.dense())
    assert np.linalg.norm(found - truth) < 1e-9 * np.linalg.norm(truth)


def test_losses_of_the_norm_alone_have_the_target_0():
    instance = psd_sensing(0, dim=10, rank=2, measurements=120, loss=lm.losses.SquaredL2())
    bulk, _ = errors(instance, BULK, steps=20)
    plain, _ = errors(instance, lm.methods.lmm(), steps=20)
    np.testing.assert_allclose(bulk[:15], plain[:15], rtol=1e-9)


def test_more_wrong_data_make_shorter_steps():
    rule = lm.steps.BulkPolyak()
    projections = lm.maps.Projections(
        range=jnp.asarray(1.0), damped=jnp.asarray(2.0), projected=jnp.asarray(1.0)
    )

    def length(bulk):
        gap = lm.steps.Gap(jnp.asarray(6.0), jnp.asarray(bulk))
        return float(rule.length(gap, projections, jnp.asarray(0)))

    assert length(1.0) == pytest.approx(3.0)
    assert length(0.625) == pytest.approx(1.5)
    assert 0 < length(0.4) < length(0.6)


def test_dense_noise_ends_near_the_best_fit():
    """Not at the rounding level: with noise on all data the gap levels off, and the run ends."""
    instance = psd_sensing(0, dim=15, rank=2, measurements=900, outliers=0.1)
    rng = np.random.default_rng(1)
    data = np.asarray(instance.problem.data)
    noisy = data + 1e-4 * np.median(np.abs(data)) * rng.standard_normal(data.shape)
    problem = lm.Composite(lm.losses.L1(), instance.problem.map, noisy, instance.problem.operator)
    result = lm.solve(problem, BULK, instance.x0, max_steps=300, metrics={"error": instance.error})
    assert result.trace.metrics["error"][-1] < 3e-4


def test_wrong_numbers_get_a_sentence():
    with pytest.raises(ValueError, match="quantile"):
        lm.steps.BulkPolyak(quantile=1.5)
    with pytest.raises(ValueError, match="threshold"):
        lm.steps.BulkPolyak(threshold=0.0)
    with pytest.raises(ValueError, match="has no target"):
        lm.methods.lmm(lm.steps.Geometric(1.0, 0.9))
