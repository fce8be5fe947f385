"""The loop as a user meets it: traces, callbacks, interruption, batches, compilations."""

import threading
import time
from _thread import interrupt_main

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm
from lemmax.experiments.instances import low_rank_sensing, psd_factorisation, psd_sensing


@pytest.fixture(scope="module")
def instance():
    return psd_sensing(0, dim=12, rank=3, measurements=150, condition=10.0)


def run(instance, **options):
    return lm.solve(instance.problem, lm.methods.lmm(), instance.x0, **{"tol": 1e-10, **options})


def test_trace_agrees_with_a_plain_loop(instance):
    """The method written out with dense linear algebra and no lemmax formula."""
    packed = np.asarray(instance.problem.operator.packed)
    dim = 12
    arrays = np.zeros((len(packed), dim, dim))
    rows, columns = np.triu_indices(dim)
    arrays[:, rows, columns] = packed
    arrays[:, columns, rows] = packed
    data, x = np.asarray(instance.problem.data), instance.x0
    values, lengths, dampings = [], [], []
    for _ in range(6):
        residual = np.einsum("mij,ij->m", arrays, x @ x.T) - data
        v = np.einsum("m,mij->ij", np.sign(residual), arrays)
        basis = np.eye(x.size).reshape(-1, *x.shape)
        jacobian = np.stack([(e @ x.T + x @ e.T).ravel() for e in basis], axis=1)
        gradient = jacobian.T @ v.ravel()
        value = np.abs(residual).sum()
        damping = 1e-3 * value
        step = np.linalg.solve(jacobian.T @ jacobian + damping * np.eye(x.size), gradient)
        length = value / (gradient @ step)
        values.append(value), lengths.append(length), dampings.append(damping)
        x = x - length * step.reshape(x.shape)
    trace = run(instance, max_steps=6, tol=0).trace
    np.testing.assert_allclose(trace.value[:6], values, rtol=1e-9)
    np.testing.assert_allclose(trace.step[:6], lengths, rtol=1e-9)
    np.testing.assert_allclose(trace.damping[:6], dampings, rtol=1e-9)


def test_result_is_consistent(instance):
    result = run(instance, metrics={"error": instance.error})
    assert result.status == lm.Status.TARGET_REACHED
    assert result.value <= 1e-10 * result.trace.value[0]
    assert len(result.trace.value) == result.steps + 1
    assert result.value == np.min(result.trace.value)
    assert np.isnan(result.trace.step[-1])
    assert np.all(np.isfinite(result.trace.step[:-1]))
    np.testing.assert_allclose(instance.problem.evaluate(result.x).value, result.value)
    np.testing.assert_allclose(result.point.dense(), result.x @ result.x.T, atol=1e-15)
    assert result.trace.metrics["error"][-1] < 1e-9
    assert "TARGET_REACHED" in str(result)


def test_best_point_is_returned_even_if_the_last_is_worse(instance):
    method = lm.methods.subgradient(lm.steps.Constant(0.3))
    result = lm.solve(instance.problem, method, instance.x0, tol=0, max_steps=40)
    assert result.value == np.min(result.trace.value)
    assert result.value < result.trace.value[-1]
    assert instance.problem.evaluate(result.last_x).value == pytest.approx(result.trace.value[-1])


@pytest.mark.parametrize("options", [{"callback": lambda s: None}, {"progress": True}, {}])
@pytest.mark.parametrize("every", [1, 7])
def test_watching_does_not_change_the_numbers(instance, options, every):
    plain = run(instance, max_steps=40, tol=0)
    watched = run(instance, max_steps=40, tol=0, every=every, **options)
    np.testing.assert_array_equal(plain.trace.value, watched.trace.value)
    np.testing.assert_array_equal(plain.x, watched.x)


def test_callback_sees_every_kth_step(instance):
    seen = []
    run(instance, callback=seen.append, every=10, max_steps=35, tol=0)
    assert [snapshot.step for snapshot in seen] == [10, 20, 30]
    values = run(instance, max_steps=35, tol=0).trace.value
    assert [snapshot.value for snapshot in seen] == [values[10], values[20], values[30]]
    for snapshot in seen:
        assert isinstance(snapshot.x, np.ndarray)
        assert instance.problem.evaluate(snapshot.x).value == pytest.approx(snapshot.value)


def test_callback_can_stop_the_run(instance):
    result = run(instance, callback=lambda s: np.bool_(s.step >= 20), every=5)
    assert result.status == lm.Status.INTERRUPTED
    assert len(result.trace.value) == result.steps + 1 == 21
    assert instance.problem.evaluate(result.last_x).value == pytest.approx(result.trace.value[-1])
    assert result.value == np.min(result.trace.value)


def test_keyboard_interruption_returns_what_it_has(instance):
    def press_control_c(snapshot):
        raise KeyboardInterrupt

    result = run(instance, callback=press_control_c, every=9)
    assert result.status == lm.Status.INTERRUPTED
    assert len(result.trace.value) == 10
    assert np.all(np.isfinite(result.x))


def test_interruption_is_answered_soon_without_any_callback(instance):
    many = 2_000_000
    run(instance, max_steps=many, tol=1e-3)  # compile
    began = time.process_time()  # not the clock: other processes may use the cores

    def interrupt():
        while time.process_time() < began + 2:
            time.sleep(0.05)
        interrupt_main()

    threading.Thread(target=interrupt).start()
    result = run(instance, max_steps=many, tol=0)
    assert result.status == lm.Status.INTERRUPTED
    assert time.process_time() - began < 10  # to the end it would be minutes
    assert 0 < result.steps < many


def test_iterate_takes_the_same_steps(instance):
    whole = run(instance, max_steps=12, tol=0)
    snapshots = list(lm.iterate(instance.problem, lm.methods.lmm(), instance.x0, max_steps=12))
    assert [snapshot.step for snapshot in snapshots] == list(range(13))
    np.testing.assert_allclose([s.value for s in snapshots], whole.trace.value, rtol=1e-8)
    np.testing.assert_allclose(snapshots[-1].x, whole.last_x, rtol=1e-6)


def test_vmap_over_hyperparameters(instance):
    def solve(scale):
        method = lm.methods.lmm(lm.steps.Polyak(scale=scale))
        return lm.solve(instance.problem, method, jnp.asarray(instance.x0), max_steps=30, tol=0.1)

    scales = jnp.array([0.5, 1.0, 1.2])
    batch = jax.vmap(solve)(scales)
    for k, scale in enumerate(scales):
        alone = solve(float(scale))
        assert batch.status[k] == alone.status
        assert batch.steps[k] == alone.steps
        np.testing.assert_allclose(batch.value[k], alone.value, rtol=1e-6)
        np.testing.assert_allclose(
            batch.trace.value[k, : alone.steps + 1], alone.trace.value, rtol=1e-6
        )
    assert len(set(batch.steps.tolist())) > 1


def test_vmap_over_problems():
    instances = [
        low_rank_sensing(s, shape=(6, 5), rank=2, measurements=80, true_rank=1) for s in range(3)
    ]
    problems = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[i.problem for i in instances])
    starts = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[i.x0 for i in instances])
    method = lm.methods.lmm()
    batch = eqx.filter_vmap(lambda p, x: lm.solve(p, method, x, tol=1e-9))(problems, starts)
    assert np.all(batch.status == lm.Status.TARGET_REACHED)
    for k, instance in enumerate(instances):
        error = np.linalg.norm(batch.x[0][k] @ batch.x[1][k].T - instance.truth.dense())
        assert error <= 1e-7 * instance.truth.norm()


def test_solve_inside_jit(instance):
    @jax.jit
    def solve(data):
        problem = lm.Composite(
            instance.problem.loss, instance.problem.map, data, instance.problem.operator
        )
        return lm.solve(problem, lm.methods.lmm(), jnp.asarray(instance.x0), tol=1e-10)

    result = solve(instance.problem.data)
    assert result.status == lm.Status.TARGET_REACHED
    with pytest.raises(ValueError, match="Inside jit or vmap"):
        jax.jit(lambda x: lm.solve(instance.problem, lm.methods.lmm(), x, callback=print).x)(
            jnp.asarray(instance.x0)
        )


def test_other_data_of_the_same_shape_do_not_compile_again():
    compilations = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, seconds, **_: compilations.append(name) if "backend_compile" in name else None
    )

    def solve(seed, scale):
        instance = psd_sensing(seed, dim=9, rank=2, measurements=60, condition=float(1 + seed))
        method = lm.methods.lmm(lm.steps.Polyak(scale=scale), lm.damping.ProportionalToGap(scale))
        compilations.clear()
        lm.solve(
            instance.problem,
            method,
            instance.x0,
            tol=1e-9 * scale,
            max_steps=200 + seed,
            metrics={"error": instance.error},
        )
        return len(compilations)

    assert solve(0, 1.0) > 0
    assert solve(1, 0.5) == 0
    jax.monitoring.clear_event_listeners()


def test_exact_reduction_to_the_span():
    """A factorisation in 40 dimensions takes the very steps of its image in r + r* dimensions."""
    big = psd_factorisation(3, dim=40, rank=3, condition=10.0)
    basis, _ = np.linalg.qr(np.hstack([big.x0, big.truth.factors[0]]))
    small_factor = basis.T @ big.truth.factors[0]
    small_truth = lm.points.KruskalPoint((small_factor, small_factor))
    small = lm.Composite(lm.losses.L2(), lm.maps.PSD(5, 3), small_truth)
    a = lm.solve(big.problem, lm.methods.lmm(), big.x0, max_steps=12, tol=0)
    b = lm.solve(small, lm.methods.lmm(), basis.T @ big.x0, max_steps=12, tol=0)
    np.testing.assert_allclose(a.trace.value[:10], b.trace.value[:10], rtol=1e-6)
    np.testing.assert_allclose(a.last_x[:, :], basis @ b.last_x, atol=1e-9)


def test_denominators_are_ordered_and_all_converge(instance):
    lengths = []
    for norm in (lm.steps.range_norm, lm.steps.damped_norm, lm.steps.projected_norm):
        method = lm.methods.lmm(lm.steps.Polyak(denominator=norm))
        result = lm.solve(instance.problem, method, instance.x0, tol=1e-10)
        assert result.status == lm.Status.TARGET_REACHED
        lengths.append(result.trace.step[0])
    assert lengths[0] < lengths[1] < lengths[2]


def test_configuration_3_on_least_squares():
    instance = psd_sensing(
        4, dim=12, rank=3, measurements=150, condition=10.0, loss=lm.losses.SquaredL2()
    )
    method = lm.methods.lmm(lm.steps.Constant(0.5), lm.damping.Geometric(1e-3, 0.9))
    result = lm.solve(instance.problem, method, instance.x0, tol=0, metrics={"e": instance.error})
    assert result.trace.metrics["e"][-1] < 1e-12


def test_gauss_newton_fails_next_to_rank_loss_where_lmm_does_not():
    instance = psd_factorisation(1, dim=50, rank=3, redundant_scale=1e-8)
    metrics = {"error": instance.error}
    options = {"max_steps": 50, "tol": 0, "metrics": metrics}
    lmm = lm.solve(instance.problem, lm.methods.lmm(), instance.x0, **options)
    newton = lm.solve(instance.problem, lm.methods.gauss_newton(), instance.x0, **options)
    assert np.min(lmm.trace.metrics["error"]) < 1e-12
    assert np.max(lmm.trace.metrics["error"]) < 2e-2
    assert np.max(newton.trace.metrics["error"]) > 1e6


def test_a_model_of_ones_own_on_a_pytree():
    """Robust exponential fit: a fifth of the observations is grossly wrong."""
    times = jnp.linspace(0.0, 3.0, 60)

    def decay(x):
        return {"near": x["height"] * jnp.exp(-x["rate"] * times), "base": x["base"] * times}

    truth = {"height": jnp.array(2.0), "rate": jnp.array(1.3), "base": jnp.array([0.5])}
    data = decay(truth)
    data["near"] = data["near"].at[::5].add(3.0)
    problem = lm.Composite(lm.losses.L1(), lm.maps.FromFunction(decay), data)
    x0 = {"height": jnp.array(1.0), "rate": jnp.array(1.0), "base": jnp.array([0.0])}
    method = lm.methods.lmm(lm.steps.Geometric(0.1, 0.95), lm.damping.Geometric(1e-3, 0.95))
    result = lm.solve(problem, method, x0, max_steps=2000, tol=1e-13)
    assert result.status == lm.Status.CONVERGED
    for name in truth:
        np.testing.assert_allclose(result.x[name], truth[name], rtol=1e-8)


@pytest.mark.parametrize(
    "method", [lm.methods.lmm(), lm.methods.gauss_newton(), lm.methods.polyak_subgradient()]
)
def test_measurements_are_read_exactly_twice_per_iteration(method):
    """By the compiler's own count of the bytes one step touches."""
    instance = low_rank_sensing(0, shape=(40, 30), rank=3, measurements=2000)
    stored = instance.problem.operator.matrix.nbytes

    def move(problem, x):
        evaluation = problem.evaluate(x)
        return evaluation.value, method.step(problem, evaluation, jnp.asarray(0))[0].x

    x0 = jax.tree.map(jnp.asarray, instance.x0)
    program = jax.jit(move).lower(instance.problem, x0).compile()
    assert 1.9 * stored < program.cost_analysis()["bytes accessed"] < 2.2 * stored
