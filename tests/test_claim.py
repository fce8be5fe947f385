"""The claim itself: the number of steps depends neither on conditioning nor on rank."""

import numpy as np
import pytest

import lemmax as lm
from lemmax.experiments.instances import low_rank_sensing, psd_sensing

DIM = 60
SETTINGS = [(2, 1.0), (2, 100.0), (5, 1.0), (5, 100.0)]


def psd(rank, condition, loss):
    return psd_sensing(
        7, dim=DIM, rank=rank, measurements=2 * DIM * rank, condition=condition, loss=loss
    )


def asymmetric(rank, condition, loss):
    return low_rank_sensing(
        7, shape=(DIM, DIM), rank=rank, measurements=4 * DIM * rank, condition=condition, loss=loss
    )


def errors(instance, method, max_steps, tol=0.0):
    result = lm.solve(
        instance.problem,
        method,
        instance.x0,
        tol=tol,
        max_steps=max_steps,
        metrics={"error": instance.error},
    )
    return result.trace.metrics["error"]


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(lm.losses.L1(), id="l1"),
        pytest.param(lm.losses.SquaredL2(), id="square", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("make", [psd, pytest.param(asymmetric, marks=pytest.mark.slow)])
def test_steps_do_not_depend_on_conditioning_or_rank(make, loss):
    steps = {}
    for rank, condition in SETTINGS:
        instance = make(rank, condition, loss)
        # The value falls with the error, or with its square.
        tol = 1e-18 if loss.quadratic else 1e-9
        error = errors(instance, lm.methods.lmm(), 500, tol)
        assert error[0] == pytest.approx(1e-2, rel=1e-6)
        assert np.min(error) <= 1e-10, (rank, condition)
        steps[rank, condition] = int(np.argmax(error <= 1e-10))

        rival = errors(instance, lm.methods.polyak_subgradient(), steps[rank, condition])
        if (rank, condition) == (2, 1.0):
            assert np.min(rival) <= 1e-6  # nothing is wrong with the rival where it is at home
        else:
            assert np.min(rival) > 1e-6, (rank, condition)
    for rank in (2, 5):
        assert ratio(steps[rank, 1.0], steps[rank, 100.0]) < 2.5, steps
    for condition in (1.0, 100.0):
        assert ratio(steps[2, condition], steps[5, condition]) < 2.5, steps


def ratio(a, b):
    return max(a, b) / min(a, b)


def test_outliers_do_not_matter_with_configuration_2():
    instance = psd_sensing(
        11, dim=30, rank=5, measurements=1500, condition=100.0, outliers=0.2, start_error=1e-2
    )
    method = lm.methods.lmm(lm.steps.Geometric(1e-4, 0.97), lm.damping.Geometric(1e-5, 0.97))
    assert errors(instance, method, 900)[-1] < 1e-10


@pytest.mark.parametrize("map_name", ["symmetric", "general"])
@pytest.mark.parametrize(("rank", "condition"), SETTINGS)
def test_large_tensors_are_factorised_without_forming_them(map_name, rank, condition):
    """500^3 numbers would be a gigabyte; the steps do not depend on rank or conditioning."""
    from lemmax.experiments.instances import conditioned_factor, pad_columns, perturb

    rng = np.random.default_rng(5)
    if map_name == "symmetric":
        factor = conditioned_factor(rng, 500, 2, condition, order=3)
        factors, map_ = (factor,) * 3, lm.maps.SymmetricCP(500, rank)
        solution = pad_columns(factor, rank)
    else:
        factors = tuple(conditioned_factor(rng, 500, 2, condition, order=3) for _ in range(3))
        map_ = lm.maps.CP((500, 500, 500), rank)
        solution = tuple(pad_columns(factor, rank) for factor in factors)
    truth = lm.points.KruskalPoint(factors)
    problem = lm.Composite(lm.losses.L2(), map_, truth)
    assert problem.evaluate(solution).residual.size <= (2 + rank) ** 3
    x0 = perturb(rng, map_, solution, 1e-2)
    result = lm.solve(problem, lm.methods.lmm(lm.steps.Polyak(scale=0.5)), x0, max_steps=60)
    assert result.status == lm.Status.TARGET_REACHED
    assert result.steps <= 45
    assert result.point.distance(truth) <= 1e-9 * truth.norm()
