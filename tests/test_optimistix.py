"""Least squares between lemmax and optimistix; SciPy knows the answers."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest
from scipy.optimize import least_squares, minimize

import lemmax as lm
from lemmax.optimistix import LeastSquares, solve

NEWTON = lm.methods.gauss_newton(lm.steps.Constant(1.0))
T = np.linspace(0.0, 3.0, 30)
Y = 2 * np.exp(-1.3 * T) + 0.05 * np.cos(7 * T)


def residuals(x, args):
    t, y = args
    return {"all": x["height"] * jnp.exp(-x["rate"] * t) - y}


START = {"height": 1.5, "rate": 1.0}


@pytest.fixture(scope="module")
def best():
    return least_squares(lambda u: u[0] * np.exp(-u[1] * T) - Y, [1.5, 1.0], xtol=1e-15).x


def test_our_method_on_their_problem(best):
    with jax.enable_x64(True):
        solved = optx.least_squares(residuals, LeastSquares(NEWTON), START, (T, Y))
        found = [float(solved.value["height"]), float(solved.value["rate"])]
        assert lm.Status(int(solved.stats["lemmax_status"])) is lm.Status.CONVERGED
        assert 0 < int(solved.stats["lemmax_steps"]) < 200
    np.testing.assert_allclose(found, best, rtol=1e-7)


def test_auxiliary_values_are_those_of_the_answer(best):
    def with_aux(x, args):
        return residuals(x, args), 2 * x["rate"]

    with jax.enable_x64(True):
        solver = LeastSquares(NEWTON)
        solved = optx.least_squares(with_aux, solver, START, (T, Y), has_aux=True)
        assert float(solved.aux) == pytest.approx(2 * best[1], rel=1e-7)


def test_derivatives_and_batches_of_their_problem():
    """A linear problem, whose answer is a mean: every datum moves it by 1/3."""

    def answer(y):
        solver = LeastSquares(NEWTON, max_steps=100)
        return optx.least_squares(lambda x, y: x - y, solver, jnp.zeros(()), y).value

    with jax.enable_x64(True):
        y = jnp.array([1.0, 2.0, 6.0])
        np.testing.assert_allclose(jax.grad(answer)(y), np.full(3, 1 / 3), rtol=1e-9)
        many = jax.vmap(answer)(jnp.stack([y, 2 * y]))
        np.testing.assert_allclose(many, [3.0, 6.0], rtol=1e-9)


def test_a_bad_end_is_told_to_optimistix():
    solver = LeastSquares(NEWTON, max_steps=1)
    solved = optx.least_squares(residuals, solver, START, (T, Y), throw=False)
    assert solved.result == optx.RESULTS.nonlinear_max_steps_reached

    def infinite(x, args):
        return jnp.log(x) * jnp.ones(3)

    solver = LeastSquares(lm.methods.subgradient(lm.steps.Constant(5.0)))
    solved = optx.least_squares(infinite, solver, jnp.array(2.0), throw=False)
    assert solved.result == optx.RESULTS.nonfinite


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 30)])
def test_their_solver_on_our_problem(weights):
    """In float64 although JAX is not, with a pytree of parameters."""
    curve = lm.maps.FromFunction(lambda x: x["height"] * jnp.exp(-x["rate"] * jnp.asarray(T)))
    problem = lm.Composite(lm.losses.SquaredL2(weights=weights), curve, data=Y)
    start = {name: np.asarray(value) for name, value in START.items()}
    solved = solve(problem, optx.LevenbergMarquardt(rtol=1e-10, atol=1e-10), start)
    root = np.ones(30) if weights is None else np.sqrt(weights)
    expected = least_squares(
        lambda u: root * (u[0] * np.exp(-u[1] * T) - Y), [1.5, 1.0], xtol=1e-15
    )
    assert solved.status is lm.Status.CONVERGED
    assert isinstance(solved.x["rate"], np.ndarray)
    found = [solved.x["height"], solved.x["rate"]]
    np.testing.assert_allclose(found, expected.x, rtol=1e-7)
    assert float(solved.value) == pytest.approx(expected.cost, rel=1e-10)
    assert solved.point.dense().shape == (30,)


def test_a_minimiser_takes_other_losses():
    data = np.array([1.0, 1.2, 0.9, 1.1, 8.0])
    level = lm.maps.FromFunction(lambda x: x[0] * jnp.ones(5))
    problem = lm.Composite(lm.losses.Huber(0.5), level, data=data)
    solved = solve(problem, optx.BFGS(rtol=1e-9, atol=1e-9), np.array([2.0]))

    def huber(x):
        size = np.abs(x - data)
        return np.sum(np.where(size <= 0.5, size**2 / 2, 0.5 * (size - 0.25)))

    expected = minimize(huber, 2.0, tol=1e-12).x
    np.testing.assert_allclose(solved.x, expected, rtol=1e-6)


def test_sentences():
    problem = lm.Composite(lm.losses.L1(), lm.maps.Square(1), data=np.ones(1))
    solver = optx.LevenbergMarquardt(rtol=1e-8, atol=1e-8)
    with pytest.raises(ValueError, match="LevenbergMarquardt is for least squares"):
        solve(problem, solver, np.ones(1))
    with pytest.raises(TypeError, match="solver must be a least-squares solver"):
        solve(problem, NEWTON, np.ones(1))
    with pytest.raises(TypeError, match="method"):
        LeastSquares(solver)
    squares = lm.Composite(lm.losses.SquaredL2(), lm.maps.Square(1), data=np.full(1, 4.0))
    stopped = solve(squares, solver, np.ones(1), max_steps=1)
    assert stopped.status is lm.Status.STEP_LIMIT


def test_without_optimistix_there_is_a_sentence():
    code = """
import sys
sys.modules["optimistix"] = None
try:
    import lemmax.optimistix
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'lemmax[optimistix]'" in done.stdout
