"""Derivatives of solutions against finite differences, or against what is known of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import lemmax as lm

RNG = np.random.default_rng(0)
T = np.linspace(0.0, 3.0, 8)
NOISY = jnp.asarray(2 * np.exp(-1.3 * T) + 0.2 * RNG.standard_normal(8))
NEWTON = lm.methods.gauss_newton(lm.steps.Constant(1.0))


def decay(speed, x):
    return x[0] * jnp.exp(-x[1] * speed * T)


def fitted(data, speed=1.0, weights=None):
    """Least squares with residuals that are not small: the curvature of the map counts."""
    curve = lm.maps.FromFunction(jax.tree_util.Partial(decay, speed))
    problem = lm.Composite(lm.losses.SquaredL2(weights=weights), curve, data=data)
    return lm.solve(problem, NEWTON, jnp.array([1.5, 1.0]), max_steps=300, tol=1e-15)


def last(data, speed=1.0, weights=None):
    """The last iterate, which has more digits than the one with the smallest value."""
    return fitted(data, speed, weights).last_x


def differences(function, at, step=1e-5):
    columns = []
    for k in range(at.size):
        change = step * jnp.zeros(at.size).at[k].set(1.0).reshape(at.shape)
        columns.append((function(at + change) - function(at - change)) / (2 * step))
    return np.stack(columns, axis=-1)


def test_least_squares_by_the_data():
    wanted = differences(last, NOISY)
    jacobian = jax.jacrev(lambda data: fitted(data).x)(NOISY)
    assert np.allclose(jacobian, wanted, rtol=1e-6, atol=1e-8)
    inside = jax.jit(jax.jacrev(lambda data: fitted(data).x))(NOISY)
    assert np.allclose(inside, wanted, rtol=1e-6, atol=1e-8)
    direction = jnp.asarray(RNG.standard_normal(8))
    _, along = jax.jvp(lambda data: fitted(data).x, (NOISY,), (direction,))
    assert np.allclose(along, wanted @ direction, rtol=1e-6, atol=1e-8)


def test_a_run_that_ends_where_the_slope_vanishes():
    rows, direction = RNG.standard_normal((9, 2)), RNG.standard_normal(9)

    def solution(data):
        linear = lm.maps.FromFunction(lambda x: rows @ x)
        problem = lm.Composite(lm.losses.SquaredL2(), linear, data)
        result = lm.solve(problem, lm.methods.trust_region(), jnp.zeros(2))
        return result.x, result.status

    data = jnp.asarray(RNG.standard_normal(9))
    assert solution(data)[1] is lm.Status.STATIONARY
    _, along = jax.jvp(lambda b: solution(b)[0], (data,), (jnp.asarray(direction),))
    np.testing.assert_allclose(along, np.linalg.pinv(rows) @ direction, rtol=1e-8)


def test_value_and_point():
    def both(data):
        result = fitted(data)
        return jnp.append(result.point.dense(), result.value)

    found = jax.jacrev(both)(NOISY)
    curves = differences(lambda data: decay(1.0, last(data)), NOISY)
    assert np.allclose(found[:-1], curves, rtol=1e-6, atol=1e-8)
    values = differences(lambda data: fitted(data).value, NOISY)
    assert np.allclose(found[-1], values, rtol=1e-6, atol=1e-8)


def test_by_weights_and_by_what_the_map_holds():
    weights = jnp.asarray(0.8 + 0.1 * (np.arange(8) % 3))

    at = jnp.append(1.1, weights)
    found = jax.grad(lambda both: fitted(NOISY, both[0], both[1:]).x[1])(at)
    wanted = differences(lambda both: last(NOISY, both[0], both[1:])[1], at)
    assert np.allclose(found, wanted, rtol=1e-6, atol=1e-8)


def test_by_what_a_function_closes_over():
    def rate(speed):
        curve = lm.maps.FromFunction(lambda x: decay(speed, x))
        problem = lm.Composite(lm.losses.SquaredL2(), curve, data=NOISY)
        return lm.solve(problem, NEWTON, jnp.array([1.5, 1.0]), tol=1e-13).x[1]

    # Only the product of rate and speed is seen.
    wanted = -fitted(NOISY).x[1]
    assert np.isclose(jax.grad(rate)(1.0), wanted, rtol=1e-6)
    assert np.isclose(jax.jit(jax.grad(rate))(1.0), wanted, rtol=1e-6)


X = RNG.standard_normal((5, 2))
TANGENT = RNG.standard_normal((5, 2))
MATRICES = RNG.standard_normal((50, 5, 5))
SPIKES = np.where(np.arange(50) < 5, 5.0, 0.0)


def recovered(s, loss, rank):
    """A matrix of rank 2 that moves with s, from exact measurements, a tenth of them wrong."""
    moved = X + s * TANGENT
    data = jnp.einsum("kij,il,jl->k", MATRICES, moved, moved)
    spikes = SPIKES if loss.robust else 0 * SPIKES
    problem = lm.Composite(
        loss, lm.maps.PSD(5, rank), data=data + spikes, operator=lm.operators.Dense(MATRICES)
    )
    target = loss.value(jnp.asarray(spikes))
    start = np.pad(X, ((0, 0), (0, rank - 2))) + 0.02
    method = lm.methods.lmm(lm.steps.Polyak(target))
    return lm.solve(problem, method, start, max_steps=1000, tol=1e-12)


@pytest.mark.parametrize(
    ("loss", "rank"),
    [
        (lm.losses.L1(), 3),
        (lm.losses.L2(), 2),
        pytest.param(lm.losses.SquaredL2(), 3, marks=pytest.mark.slow),
        pytest.param(lm.losses.L1(), 2, marks=pytest.mark.slow),
        pytest.param(lm.losses.L2(), 3, marks=pytest.mark.slow),
        pytest.param(lm.losses.SquaredL2(), 2, marks=pytest.mark.slow),
    ],
)
def test_exact_data_also_with_surplus_rank(loss, rank):
    wanted = X @ TANGENT.T + TANGENT @ X.T
    found = jax.jacrev(lambda s: recovered(s, loss, rank).point.dense())(0.0)
    assert np.allclose(found, wanted, atol=1e-6 * np.max(np.abs(wanted)))


def test_minimum_norm_where_the_map_has_a_gauge():
    x = recovered(0.0, lm.losses.L2(), 2).x
    dx = jax.jacrev(lambda s: recovered(s, lm.losses.L2(), 2).x)(0.0)
    # Rotations X -> X Q change no point: none of them is in the derivative.
    turned = np.asarray(x) @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    assert abs(np.sum(turned * np.asarray(dx))) < 1e-7 * np.linalg.norm(turned)


def least_deviations(rows, data):
    """By linear programming: the solution, and the sum of absolute values there."""
    (n, p), eye = rows.shape, np.eye(len(data))
    costs = np.append(np.zeros(p), np.ones(2 * n))
    found = scipy.optimize.linprog(
        costs,
        A_eq=np.hstack([rows, -eye, eye]),
        b_eq=data,
        bounds=[(None, None)] * p + [(0, None)] * 2 * n,
    )
    return found.x[:p], found.fun


def test_absolute_deviations_at_a_vertex():
    # Two parameters: two residuals vanish, and the others have no say in the solution.
    rows, data = RNG.standard_normal((9, 2)), RNG.standard_normal(9)
    _, least = least_deviations(rows, data)
    method = lm.methods.lmm(lm.steps.Polyak(least), lm.damping.Fixed(1e-8))

    def solution(data):
        problem = lm.Composite(lm.losses.L1(), lm.maps.FromFunction(lambda x: rows @ x), data)
        return lm.solve(problem, method, jnp.zeros(2), max_steps=3000, tol=1e-12).x

    found = jax.jacrev(solution)(jnp.asarray(data))
    wanted = differences(lambda b: least_deviations(rows, np.asarray(b))[0], jnp.asarray(data))
    assert np.sum(np.any(wanted != 0, axis=0)) == 2
    assert np.allclose(found, wanted, rtol=1e-6, atol=1e-8)


def test_a_change_that_exact_data_cannot_follow():
    def solution(data):
        operator = lm.operators.Dense(MATRICES)
        problem = lm.Composite(lm.losses.L1(), lm.maps.PSD(5, 2), data=data, operator=operator)
        return lm.solve(problem, lm.methods.lmm(), X + 0.02, max_steps=1000, tol=1e-12).x

    data = jnp.einsum("kij,il,jl->k", MATRICES, X, X)
    with pytest.raises(ValueError, match="no derivative along this change"):
        jax.jvp(solution, (data,), (jnp.ones(50),))


def square(data, **options):
    problem = lm.Composite(lm.losses.SquaredL2(), lm.maps.Square(2), data=data)
    method = lm.methods.lmm(lm.steps.Polyak(scale=0.5))
    return lm.solve(problem, method, jnp.array([1.2, 1.5]), **options)


def test_where_there_is_no_derivative():
    data = jnp.array([1.0, 4.0])
    with pytest.raises(ValueError, match="no derivative: the run did not succeed, STEP_LIMIT"):
        jax.grad(lambda b: square(b, max_steps=2).x[0])(data)
    inside = jax.jit(jax.grad(lambda b: square(b, max_steps=2).x[0]))(data)
    assert np.all(np.isnan(inside))

    def half_seen(b):
        # The second parameter changes nothing that is observed.
        operator = lm.operators.Entries(([0], [0]), shape=(2, 2))
        problem = lm.Composite(lm.losses.SquaredL2(), lm.maps.PSD(2, 1), b, operator)
        return lm.solve(problem, lm.methods.lmm(), jnp.array([[1.2], [1.5]])).x[0, 0]

    with pytest.raises(ValueError, match="do not determine the point"):
        jax.grad(half_seen)(jnp.array([1.0]))


def test_start_and_method_have_no_part_in_the_solution():
    data = jnp.array([1.0, 4.0])

    def root(start, scale):
        problem = lm.Composite(lm.losses.SquaredL2(), lm.maps.Square(2), data=data)
        return lm.solve(problem, lm.methods.lmm(lm.steps.Polyak(scale=scale)), start).x[0]

    by_start, by_scale = jax.grad(root, argnums=(0, 1))(jnp.array([1.2, 1.5]), 0.5)
    assert np.all(by_start == 0)
    assert by_scale == 0
    constant = jax.grad(lambda b: square(b, gradient=lm.gradients.NoGradient()).x[0])(data)
    assert np.all(constant == 0)


def test_many_at_once():
    data = jnp.array([[1.0, 4.0], [9.0, 2.0]])
    found = jax.vmap(jax.grad(lambda b: square(b, tol=1e-14).x[0]))(data)
    assert np.allclose(found[:, 0], 1 / (2 * np.sqrt(data[:, 0])), rtol=1e-6)


def test_memory_does_not_grow_with_the_steps():
    data = jnp.array([1.0, 4.0])

    def memory(steps):
        gradient = jax.jit(jax.grad(lambda b: square(b, max_steps=steps).x[0]))
        return gradient.lower(data).compile().memory_analysis().temp_size_in_bytes

    # The trace has seven columns of a row for each step; an unrolled run keeps every iterate.
    assert memory(4000) - memory(2000) <= 2 * 2000 * 7 * 8


def test_what_steps_from_python_cannot_be_differentiated():
    def stepped(b):
        problem = lm.Composite(lm.losses.SquaredL2(), lm.maps.Square(2), data=b)
        return next(lm.iterate(problem, lm.methods.lmm(), jnp.ones(2))).x[0]

    def many(b):
        problem = lm.Composite(lm.losses.SquaredL2(), lm.maps.Square(2), data=b)
        return lm.solve_many([lm.Run(problem, lm.methods.lmm(), jnp.ones(2))])[0].x[0]

    for function in (stepped, many):
        with pytest.raises(ValueError, match=r"outside of jit, vmap and grad"):
            jax.grad(function)(jnp.array([1.0, 4.0]))
