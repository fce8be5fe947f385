"""Levenberg-Marquardt in a trust region, against dense solves, SciPy and certified values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from benchmarks.nist import problems
from jax.flatten_util import ravel_pytree

import lemmax as lm
from lemmax.experiments.instances import psd_sensing

from .cases.maps import MAPS

T = np.linspace(0.0, 3.0, 30)
JACOBIANS = {
    "dense": lm.jacobians.Dense(),
    "products": lm.jacobians.Products(tol=1e-6),
    "sparse": lm.jacobians.Sparse(),
}


def curve(x):
    return x["height"] * jnp.exp(-x["rate"] * T) + x["base"]


START = {"base": np.array(0.0), "height": np.array(1.0), "rate": np.array(1.0)}


def observations(seed=0):
    rng = np.random.default_rng(seed)
    return 2 * np.exp(-1.3 * T) + 0.4 + 0.05 * rng.standard_normal(T.size)


def problem(loss=None, function=curve, y=None):
    loss = lm.losses.SquaredL2() if loss is None else loss
    return lm.Composite(loss, lm.maps.FromFunction(function), observations() if y is None else y)


def flat(x):
    return np.asarray(ravel_pytree(x)[0], float)


@pytest.mark.parametrize(
    ("name", "loss"),
    [("dense", lm.losses.SquaredL2(weights=1 + T)), ("sparse", lm.losses.Huber(0.3))],
)
def test_a_step_solves_the_damped_normal_equations(name, loss):
    """``(B'WB + μ D²) step = -B'W r`` with the Jacobian of jax.jacfwd, at the radius asked for."""
    method = lm.methods.trust_region(JACOBIANS[name], reach=0.1)
    result = lm.solve(problem(loss), method, START, tol=0, max_steps=1)
    x0, unravel = ravel_pytree(START)
    with jax.enable_x64(True):
        b = np.asarray(jax.jit(jax.jacfwd(lambda u: curve(unravel(u))))(jnp.asarray(x0)))
        r = np.asarray(curve(START)) - observations()
        w = np.asarray(jax.grad(loss.value)(jnp.asarray(r))) / r
    d = np.linalg.norm(np.sqrt(w / np.max(w))[:, None] * b, axis=0)
    step, mu = flat(result.last_x) - flat(START), float(result.trace.damping[0]) * np.max(w)
    left = b.T @ (w[:, None] * b) @ step + mu * d**2 * step
    np.testing.assert_allclose(left, -b.T @ (w * r), rtol=1e-8)
    assert mu > 0
    radius = 0.1 * np.linalg.norm(d * flat(START))
    assert 0.9 * radius <= np.linalg.norm(d * step) <= 1.1 * radius


@pytest.mark.parametrize("name", ["dense", "products"])
def test_the_answer_is_the_same_in_any_units(name):
    scales = {"base": 1e-8, "height": 1e8, "rate": 1e3}

    def scaled(x):
        return curve({key: x[key] * scales[key] for key in x})

    start = {key: START[key] / scales[key] for key in START}
    method = lm.methods.trust_region(JACOBIANS[name])
    plain = lm.solve(problem(), method, START)
    other = lm.solve(problem(function=scaled), method, start)
    assert plain.status is other.status is lm.Status.STATIONARY
    assert plain.steps == other.steps
    np.testing.assert_allclose(other.trace.value, plain.trace.value, rtol=1e-9)
    back = flat({key: other.x[key] * scales[key] for key in START})
    np.testing.assert_allclose(back, flat(plain.x), rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("dense", lm.losses.L2()),
        ("dense", lm.losses.Huber(0.05)),
        ("products", lm.losses.Huber(0.05)),
        ("sparse", lm.losses.SquaredL2()),
    ],
)
def test_minimisers_are_those_of_scipy(name, loss):
    y = observations()
    y[::7] += 2.0
    found = lm.solve(problem(loss, y=y), lm.methods.trust_region(JACOBIANS[name]), START)
    assert found.status is lm.Status.STATIONARY
    huber = isinstance(loss, lm.losses.Huber)

    def residual(u):
        return u[1] * np.exp(-u[2] * T) + u[0] - y

    wanted = scipy.optimize.least_squares(
        residual,
        flat(START),
        loss="huber" if huber else "linear",
        f_scale=0.05,
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-15,
    )
    np.testing.assert_allclose(flat(found.x), wanted.x, rtol=2e-6)


@pytest.mark.parametrize("name", JACOBIANS)
def test_bounds_hold_and_the_minimum_within_them_is_found(name):
    low = {"base": -np.inf, "height": 0.0, "rate": 0.0}
    high = {"base": np.inf, "height": 1.5, "rate": np.inf}
    method = lm.methods.trust_region(JACOBIANS[name], bounds=(low, high))
    found = lm.solve(problem(), method, START)
    wanted = scipy.optimize.least_squares(
        lambda u: u[1] * np.exp(-u[2] * T) + u[0] - observations(),
        flat(START),
        bounds=(flat(low), flat(high)),
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-15,
    )
    assert found.status is lm.Status.STATIONARY
    assert float(found.x["height"]) == 1.5
    np.testing.assert_allclose(flat(found.x), wanted.x, rtol=1e-5)


def test_a_trial_that_is_not_finite_is_rejected_at_the_cost_of_its_evaluation():
    function = lm.maps.FromFunction(lambda x: jnp.log(x) * jnp.ones(3))
    y = np.log(0.01) + np.array([-0.1, 0.0, 0.1])
    steep = lm.Composite(lm.losses.SquaredL2(), function, y)
    result = lm.solve(steep, lm.methods.trust_region(), np.array([2.0]))
    assert result.status is lm.Status.STATIONARY
    np.testing.assert_allclose(result.x, 0.01, rtol=1e-10)
    rejected = ~np.isfinite(result.trace.value)
    assert np.any(rejected)
    # An evaluation is two passes; a step from an accepted point takes one more.
    assert np.all(result.trace.passes[rejected] == 2)
    assert result.trace.passes[0] == 2 + 1


def test_a_start_that_is_not_finite_ends_the_run():
    outside = problem(function=lambda x: jnp.sqrt(x["rate"] - 2) * T + x["base"] + x["height"])
    result = lm.solve(outside, lm.methods.trust_region(), START)
    assert result.status is lm.Status.NON_FINITE
    assert result.steps == 0


@pytest.mark.parametrize("name", ["dense", "products"])
def test_over_parameterised_maps_are_recovered(name):
    instance = psd_sensing(0, dim=8, rank=4, true_rank=2, measurements=100)
    smooth = lm.Composite(
        lm.losses.SquaredL2(),
        instance.problem.map,
        instance.problem.data,
        instance.problem.operator,
    )
    result = lm.solve(smooth, lm.methods.trust_region(JACOBIANS[name]), instance.x0, max_steps=200)
    assert float(instance.error(result.x, smooth.evaluate(result.x))) < 1e-6


def test_batches_are_single_runs():
    starts = jnp.asarray([[0.0, 1.0, 1.0], [0.5, 0.5, 2.0], [0.2, 3.0, 0.4]])
    fitted = problem(function=lambda u: u[1] * jnp.exp(-u[2] * T) + u[0])
    method = lm.methods.trust_region()
    single = [lm.solve(fitted, method, start) for start in starts]
    with jax.enable_x64(True):
        mapped = jax.vmap(lambda u: lm.solve(fitted, method, u))(jnp.asarray(starts, float))
    many = lm.solve_many([lm.Run(fitted, method, np.asarray(start)) for start in starts])
    for k, one in enumerate(single):
        assert one.status is many[k].status is lm.Status.STATIONARY
        np.testing.assert_allclose(many[k].x, one.x, rtol=1e-7)
        np.testing.assert_allclose(mapped.x[k], one.x, rtol=1e-7)


def test_single_precision_gets_as_far_as_it_goes():
    t = jnp.asarray(T, jnp.float32)
    function = lm.maps.FromFunction(lambda x: x["height"] * jnp.exp(-x["rate"] * t) + x["base"])
    data = jnp.asarray(observations(), jnp.float32)
    single = lm.Composite(lm.losses.SquaredL2(), function, data)
    start = jax.tree.map(lambda u: jnp.asarray(u, jnp.float32), START)
    result = lm.solve(single, lm.methods.trust_region(), start, tol=1e-12)
    assert result.status is lm.Status.STATIONARY
    assert result.x["rate"].dtype == jnp.float32
    double = lm.solve(problem(), lm.methods.trust_region(), START)
    np.testing.assert_allclose(flat(result.x), flat(double.x), rtol=2e-4)


@pytest.mark.parametrize(("name", "start"), [("MGH10", 0), ("BoxBOD", 0), ("Thurber", 0)])
def test_certified_parameters_from_far_starts(name, start):
    case = problems()[name]
    fitted = lm.Composite(lm.losses.SquaredL2(), lm.maps.FromFunction(case.model), case.y)
    result = lm.solve(fitted, lm.methods.trust_region(), case.starts[start])
    assert result.status is lm.Status.STATIONARY
    np.testing.assert_allclose(result.x, case.parameters, rtol=1e-6)


def test_what_it_is_not_for_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match="loss such as SquaredL2, but this problem's loss is L1"):
        lm.solve(problem(lm.losses.L1()), lm.methods.trust_region(), START)
    sparse = lm.methods.trust_region(lm.jacobians.Sparse())
    with pytest.raises(ValueError, match="computes its steps in Python"):
        lm.solve_many([lm.Run(problem(), sparse, START)])
    with pytest.raises(ValueError, match="shapes of the parameters"):
        lm.solve(problem(), lm.methods.trust_region(bounds=(0.0, 1.0)), START)


@pytest.mark.parametrize(
    "case", {type(case.map): case for case in MAPS}.values(), ids=lambda case: case.name
)
def test_products_and_the_matrix_are_the_same_linearisation_of_every_map(case):
    """With exact inner iterations both find the minimum of the linearised problem."""
    x = jax.tree.map(jnp.asarray, case.x)
    flat_x, unravel = ravel_pytree(x)
    rng = np.random.default_rng(0)
    data = jax.tree.map(
        lambda leaf: leaf + jnp.asarray(rng.standard_normal(leaf.shape)), case.map(x).dense()
    )
    fitted = lm.Composite(lm.losses.SquaredL2(), case.map, data)
    vector = jnp.ravel(fitted.evaluate(x).residual)
    ones = jnp.ones_like(vector), jnp.ones_like(flat_x)
    at = lm.jacobians.Linearised(fitted, unravel, flat_x, vector, *ones)
    norms, taken = jnp.zeros_like(flat_x), jnp.asarray(True)
    found = []
    for kind in (lm.jacobians.Dense(), lm.jacobians.Products(tol=1e-9)):
        kept, scale = kind.linearise(at, norms, kind.begin(fitted, x, vector.size), taken)
        step = kind.step(at, scale, kept, jnp.asarray(1e12))
        np.testing.assert_allclose(
            kind.decrease(at, scale, kept, step.change), step.decrease, rtol=1e-9
        )
        found.append(step)
    np.testing.assert_allclose(found[1].decrease, found[0].decrease, rtol=1e-9)
    np.testing.assert_allclose(found[1].part, found[0].part, rtol=1e-9)
