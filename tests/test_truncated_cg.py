"""LMM with the paper's inexact solver: a number of conjugate-gradient iterations in each step."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import lemmax as lm
from lemmax.experiments.instances import psd_sensing
from lemmax.methods.preconditioners import TruncatedCG

from .cases.maps import MAPS

# Tucker covectors and core solvers make no difference here: each map, point and formula once.
CASES = [case for case in MAPS if not {"tucker", "symmetric", "cg"} & set(case.name.split("-"))]
FIRST = {type(case.map): case.name for case in reversed(CASES)}.values()
DAMPING = 0.5


@functools.lru_cache
def system(name):
    """The problem, and J'J + damping and the gradient from the map written out, in NumPy."""
    (case,) = [case for case in CASES if case.name == name]
    rng = np.random.default_rng(3)
    made = case.formula(case.x)
    data = jax.tree.map(lambda leaf: leaf + rng.standard_normal(leaf.shape), made)
    flat, unravel = ravel_pytree(case.x)
    jacobian = np.asarray(
        jax.jit(jax.jacfwd(lambda u: ravel_pytree(case.formula(unravel(u)))[0]))(flat)
    )
    residual = np.asarray(ravel_pytree(made)[0]) - np.asarray(ravel_pytree(data)[0])
    matrix = jacobian.T @ jacobian + DAMPING * np.eye(flat.size)
    return (
        lm.Composite(lm.losses.SquaredL2(), case.map, data),
        case.x,
        matrix,
        jacobian.T @ residual,
    )


@eqx.filter_jit
def applied(problem, x, iterations):
    found = TruncatedCG(iterations).apply(problem, problem.evaluate(x), jnp.asarray(DAMPING))
    # Without the norm that is the map's own, which takes the longest to compile.
    projections = found.projections._replace(range=None)
    return found._replace(direction=ravel_pytree(found.direction)[0], projections=projections)


def krylov_minimiser(matrix, g, dimension):
    """Of ``d'Ad/2 - g'd`` over the span of g, Ag, ..., by a basis that is orthogonalised twice."""
    basis = (g / np.linalg.norm(g))[:, None]
    for _ in range(dimension - 1):
        new = matrix @ basis[:, -1]
        for _ in range(2):
            new = new - basis @ (basis.T @ new)
        basis = np.column_stack([basis, new / np.linalg.norm(new)])
    return basis @ np.linalg.solve(basis.T @ matrix @ basis, basis.T @ g)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(case.name, marks=() if case.name in FIRST else pytest.mark.slow)
        for case in CASES
    ],
)
def test_iterations_give_the_best_of_the_krylov_space(name):
    problem, x, matrix, g = system(name)
    exact = np.linalg.solve(matrix, g)
    many = applied(problem, x, jnp.asarray(500))
    assert not many.failed
    np.testing.assert_allclose(many.direction, exact, atol=1e-9 * np.linalg.norm(exact))
    np.testing.assert_allclose(many.projections.damped, g @ exact, rtol=1e-9)
    projected = exact @ (matrix @ exact - DAMPING * exact)
    np.testing.assert_allclose(many.projections.projected, projected, rtol=1e-8)
    errors = []
    for k in (1, 2, 3):
        found = applied(problem, x, jnp.asarray(k))
        wanted = krylov_minimiser(matrix, g, k)
        np.testing.assert_allclose(found.direction, wanted, atol=1e-9 * np.linalg.norm(exact))
        assert (int(found.iterations), bool(found.failed)) == (k, False)
        errors.append(np.sqrt((wanted - exact) @ matrix @ (wanted - exact)))
    # Otherwise the comparisons above would say nothing about the number of iterations.
    assert errors[0] > 1.1 * errors[1] > 1.2 * errors[2]


@pytest.fixture(scope="module")
def instance():
    return psd_sensing(0, dim=8, rank=3, true_rank=2, condition=10.0, measurements=120)


def test_one_iteration_is_the_subgradient_method(instance):
    one = lm.methods.lmm(preconditioner=TruncatedCG(1))
    found, wanted = (
        lm.solve(instance.problem, method, instance.x0, max_steps=20, tol=0.0)
        for method in (one, lm.methods.polyak_subgradient())
    )
    np.testing.assert_allclose(found.trace.value, wanted.trace.value, rtol=1e-8)


def test_many_iterations_are_the_closed_form_and_numbers_of_them_share_a_program(instance):
    methods = [lm.methods.lmm(preconditioner=TruncatedCG(k)) for k in (1, 4, 60)]
    runs = [lm.Run(instance.problem, m, instance.x0) for m in (*methods, lm.methods.lmm())]
    one, four, many, closed = lm.solve_many(runs, max_steps=30, tol=0.0)
    np.testing.assert_allclose(many.trace.value, closed.trace.value, rtol=1e-6)
    values = [float(result.trace.value[-1]) for result in (one, four, many)]
    assert values[0] > 1.2 * values[1] > 1.4 * values[2]
    assert np.all(four.trace.iterations[:-1] == 4)


def test_no_iterations_get_a_sentence():
    with pytest.raises(ValueError, match="iterations must be a whole number of at least 1; got 0"):
        TruncatedCG(0)
