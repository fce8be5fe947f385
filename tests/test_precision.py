"""float32 is honest, float64 is never lost, and the configuration of JAX is left alone."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm
from lemmax.experiments.instances import low_rank_sensing, psd_sensing


def as_float32(tree):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)


@pytest.mark.parametrize("loss", [lm.losses.L1(), lm.losses.L2(), lm.losses.SquaredL2()])
def test_float32_stops_at_its_floor_and_says_so(loss):
    instance = psd_sensing(1, dim=15, rank=4, measurements=300, condition=10.0, loss=loss)
    problem, x0 = as_float32((instance.problem, instance.x0))
    result = lm.solve(problem, lm.methods.lmm(), x0, tol=1e-20, max_steps=2000)
    assert result.x.dtype == result.trace.value.dtype == jnp.float32
    assert result.status == lm.Status.PRECISION_FLOOR
    assert "float64" in result.status.message
    error = np.linalg.norm(np.asarray(result.x @ result.x.T) - np.asarray(instance.truth.dense()))
    assert error < 1e-5 * instance.truth.norm()


def test_same_code_in_float64_goes_on():
    instance = psd_sensing(1, dim=15, rank=4, measurements=300, condition=10.0)
    result = lm.solve(instance.problem, lm.methods.lmm(), jnp.asarray(instance.x0), tol=1e-12)
    assert result.status == lm.Status.TARGET_REACHED
    assert result.x.dtype == jnp.float64


def test_mixed_precision_takes_the_wider():
    instance = low_rank_sensing(0, shape=(8, 6), rank=3, measurements=200)
    x0 = as_float32(instance.x0)
    result = lm.solve(instance.problem, lm.methods.lmm(), x0, tol=1e-10)
    assert result.x[0].dtype == jnp.float64
    assert result.status == lm.Status.TARGET_REACHED


def test_numpy_in_numpy_out_and_jax_in_jax_out():
    instance = low_rank_sensing(0, shape=(8, 6), rank=3, measurements=200)
    numpy_result = lm.solve(instance.problem, lm.methods.lmm(), instance.x0, max_steps=2)
    assert isinstance(numpy_result.x[0], np.ndarray)
    assert isinstance(numpy_result.trace.value, np.ndarray)
    x0 = jax.tree.map(jnp.asarray, instance.x0)
    jax_result = lm.solve(instance.problem, lm.methods.lmm(), x0, max_steps=2)
    assert isinstance(jax_result.x[0], jax.Array)
    assert isinstance(jax_result.trace.value, jax.Array)


WITHOUT_X64 = """
import jax, numpy as np, jax.numpy as jnp
import lemmax as lm
from lemmax.experiments.instances import psd_sensing
instance = psd_sensing(1, dim=15, rank=4, measurements=300, condition=10.0)
result = lm.solve(instance.problem, lm.methods.lmm(), instance.x0, tol=1e-12,
                  metrics={"error": instance.error})
assert result.status == lm.Status.TARGET_REACHED, result
assert isinstance(result.x, np.ndarray) and result.x.dtype == np.float64
assert result.trace.metrics["error"][-1] < 1e-12
dense = result.point.dense()
assert isinstance(dense, np.ndarray) and dense.dtype == np.float64
np.testing.assert_allclose(dense, result.x @ result.x.T, atol=1e-15)
assert result.point.distance(instance.truth) < 1e-12
assert instance.problem.evaluate(result.x).value.dtype == np.float64
steps = list(lm.iterate(instance.problem, lm.methods.lmm(), instance.x0, max_steps=3))
assert steps[-1].x.dtype == np.float64
# A float32 start in JAX does not drag float64 data down.
mixed = lm.solve(instance.problem, lm.methods.lmm(), jnp.asarray(instance.x0), tol=1e-12)
assert mixed.x.dtype == np.float64 and mixed.status == lm.Status.TARGET_REACHED
# And JAX users who are content with float32 stay there.
single = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), instance.problem)
plain = lm.solve(single, lm.methods.lmm(), jnp.asarray(instance.x0), max_steps=3)
assert isinstance(plain.x, jax.Array) and plain.x.dtype == jnp.float32
# NumPy's integers are sizes like any other.
assert lm.maps.PSD(np.int64(3), np.int32(2)) == lm.maps.PSD(3, 2)
assert lm.maps.LowRank(np.array([3, 4]), 2).shape == (3, 4)
# Integers, lists and objects are NumPy's float64, weights and metrics too.
large = lm.Composite(lm.losses.L2(), lm.maps.Square(2), np.array([16777217, 4]))
assert float(large.data[0]) == 16777217
assert lm.losses.L1(weights=[0.1, 0.2]).weights.dtype == np.float64
assert lm.metrics.RelativeError([0.1, 0.2]).truth.value.dtype == np.float64
assert lm.operators.Dense([[0.1, 0.2]]).matrix.dtype == np.float64
observed = instance.problem.operator.measure(instance.problem.map(instance.x0))
assert observed.dtype == np.float64
assert lm.points.KruskalPoint([[[0.1]], [[0.3]]]).dense().dtype == np.float64
try:
    jax.vmap(lambda x: lm.solve(instance.problem, lm.methods.lmm(), x))(instance.x0[None])
except ValueError as error:
    assert "jax_enable_x64" in str(error)
else:
    raise AssertionError("float64 was cut silently")
assert not jax.config.jax_enable_x64
assert (jnp.ones(2) + 1.0).dtype == jnp.float32
print("kept")
"""


def test_float64_survives_while_x64_is_off():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_X64], capture_output=True, text=True
    )
    assert done.stdout.strip() == "kept", done.stderr
