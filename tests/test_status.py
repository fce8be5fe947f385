"""Every status is reached by a run that deserves it, and says what to do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm
from lemmax.experiments.instances import psd_sensing


def sensing(**options):
    return psd_sensing(0, dim=10, rank=3, measurements=120, **options)


def solve(instance, method=None, **options):
    method = lm.methods.lmm() if method is None else method
    return lm.solve(instance.problem, method, instance.x0, **options)


def square(data, loss=None):
    loss = lm.losses.SquaredL2() if loss is None else loss
    return lm.Composite(loss, lm.maps.Square(len(data)), data=jnp.asarray(data))


def reach_target():
    return solve(sensing(), tol=1e-9)


def reach_converged():
    method = lm.methods.lmm(lm.steps.Geometric(3e-4, 0.9), lm.damping.Geometric(1e-5, 0.9))
    return solve(sensing(outliers=0.1), method, tol=1e-12)


def reach_step_limit():
    return solve(sensing(), max_steps=3)


def reach_stagnation_at_a_stationary_point():
    return lm.solve(square([1.0, 2.0]), lm.methods.lmm(), jnp.zeros(2))


def reach_stagnation_by_a_target_too_low():
    return solve(sensing(outliers=0.2))


def reach_precision_floor():
    instance = sensing()
    problem = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), instance.problem)
    return lm.solve(problem, lm.methods.lmm(), jnp.asarray(instance.x0, jnp.float32), tol=1e-12)


def reach_divergence():
    method = lm.methods.subgradient(lm.steps.Constant(0.4))
    return lm.solve(square([1.0, 2.0]), method, jnp.array([2.0, 2.0]))


def reach_non_finite_values():
    problem = lm.Composite(
        lm.losses.SquaredL2(), lm.maps.FromFunction(jnp.exp), data=jnp.array([1.0])
    )
    method = lm.methods.subgradient(lm.steps.Constant(-1e5))
    return lm.solve(problem, method, jnp.array([1.0]))


def reach_failed_linear_solve():
    scales = jnp.logspace(0, -6, 20)
    mixing = jnp.asarray(np.random.default_rng(0).standard_normal((20, 20)))
    map_ = lm.maps.FromFunction(lambda x: mixing @ (scales * x), dense_limit=0, max_steps=2)
    problem = lm.Composite(lm.losses.L2(), map_, data=jnp.ones(20))
    method = lm.methods.lmm(damping=lm.damping.ProportionalToGap(1e-12))
    return lm.solve(problem, method, jnp.zeros(20))


def reach_stationary_point():
    problem = square([1.0, 2.0])
    return lm.solve(problem, lm.methods.trust_region(), jnp.array([0.5, 2.0]))


def reach_interruption():
    return solve(sensing(), callback=lambda snapshot: True, every=4)


CASES = {
    reach_target: lm.Status.TARGET_REACHED,
    reach_converged: lm.Status.CONVERGED,
    reach_step_limit: lm.Status.STEP_LIMIT,
    reach_stagnation_at_a_stationary_point: lm.Status.STAGNATED,
    reach_stagnation_by_a_target_too_low: lm.Status.STAGNATED,
    reach_precision_floor: lm.Status.PRECISION_FLOOR,
    reach_divergence: lm.Status.DIVERGED,
    reach_non_finite_values: lm.Status.NON_FINITE,
    reach_failed_linear_solve: lm.Status.LINEAR_SOLVE_FAILED,
    reach_stationary_point: lm.Status.STATIONARY,
    reach_interruption: lm.Status.INTERRUPTED,
}


@pytest.mark.parametrize("reach", CASES, ids=lambda reach: reach.__name__)
def test_status_is_reached(reach):
    result = reach()
    assert result.status == CASES[reach]
    # Whatever happened: the best point seen, and it is a finite one.
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(result.x))
    assert result.value == np.nanmin(result.trace.value)
    assert np.isfinite(result.value)
    assert len(result.trace.value) == result.steps + 1
    assert result.status.name in str(result)


def test_no_status_is_unreachable():
    assert set(CASES.values()) | {lm.Status.RUNNING} == set(lm.Status)


@pytest.mark.parametrize("status", lm.Status)
def test_every_status_has_a_text(status):
    assert status.message.endswith(".")


def test_throw_raises_with_the_text():
    with pytest.raises(lm.SolveError, match=r"STEP_LIMIT: max_steps was reached.*") as caught:
        solve(sensing(), max_steps=3, throw=True)
    assert caught.value.status == lm.Status.STEP_LIMIT
    assert caught.value.result.steps == 3
    assert solve(sensing(), throw=True).status.succeeded


def test_tol_zero_runs_all_steps():
    for reach in (sensing(), sensing(outliers=0.2)):
        result = solve(reach, tol=0, max_steps=300)
        assert result.status == lm.Status.STEP_LIMIT
        assert result.steps == 300


def test_zero_steps_and_exact_start():
    instance = sensing()
    none = solve(instance, max_steps=0)
    assert none.status == lm.Status.STEP_LIMIT
    np.testing.assert_array_equal(none.x, instance.x0)
    assert none.value == none.trace.value[0] > 0
    exact = lm.solve(square([1.0, 4.0]), lm.methods.lmm(), jnp.array([1.0, 2.0]))
    assert exact.status == lm.Status.TARGET_REACHED
    assert exact.value == 0
    assert exact.steps == 0


def test_standing_still_is_no_success():
    """Neither at a saddle point nor with steps too short to move anything."""
    method = lm.methods.lmm(lm.steps.Geometric(0.1, 0.9), lm.damping.Geometric(0.1, 0.9))
    problem = lm.Composite(lm.losses.L1(), lm.maps.LowRank((3, 3), 2), data=np.ones((3, 3)))
    saddle = lm.solve(problem, method, (np.zeros((3, 2)), np.zeros((3, 2))))
    assert saddle.status == lm.Status.STAGNATED
    tiny = lm.methods.subgradient(lm.steps.Geometric(1e-300, 0.9))
    assert solve(sensing(), tiny).status == lm.Status.STAGNATED


def test_a_start_at_the_solution_does_not_diverge():
    instance = sensing()
    solved = solve(instance, tol=1e-14).x
    method = lm.methods.lmm(lm.steps.Geometric(1e-3, 0.9), lm.damping.Geometric(1e-5, 0.9))
    again = lm.solve(instance.problem, method, solved, tol=1e-10)
    assert again.status != lm.Status.DIVERGED


def test_window_and_step_tolerance_are_honoured():
    instance = sensing(outliers=0.2)
    short = solve(instance, stopping=lm.Stopping(window=20))
    long = solve(instance, stopping=lm.Stopping(window=300), max_steps=2000)
    assert short.status == long.status == lm.Status.STAGNATED
    assert short.steps % 20 == 0
    assert long.steps % 300 == 0
    early = solve(instance, stopping=lm.Stopping(step_tol=10.0))
    assert early.status == lm.Status.STAGNATED
    assert early.steps == 0


def test_converged_means_that_the_value_has_settled():
    result = reach_converged()
    start = result.trace.value[0]
    last_window = result.trace.value[-51:]
    assert np.max(last_window) - np.min(last_window) <= 1e-12 * start
