"""Quadratic and bilinear measurements: their products, their cost, and what is recovered."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm
from lemmax.operators import RankOne
from lemmax.points import DensePoint, KruskalPoint


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("bilinear", [False, True])
def test_measurements_and_covector_are_the_plain_sums(bilinear):
    left, s = normal(0, 9, 5), normal(1, 9)
    right = normal(2, 9, 5) if bilinear else left
    x, y = normal(3, 5, 2), normal(4, 5, 2)
    operator = RankOne(left, right if bilinear else None)

    @jax.jit
    def everything(operator, x, y, s):
        covector = operator.adjoint(s)
        return {
            "factored": operator.measure(KruskalPoint((x, y))),
            "dense": operator.measure(DensePoint(x @ y.T)),
            "V": covector.dense(),
            "VY": covector.contract((x, y), 0),
            "X'V": covector.contract((x, y), 1),
            "X'VY": covector.contract((x, y)),
            "VX + V'X": covector.contract_all_but_one(x),
        }

    v = np.einsum("m,mi,mj->ij", s, left, right)
    seen = [a @ x @ y.T @ b for a, b in zip(left, right, strict=True)]
    expected = {"factored": seen, "dense": seen, "V": v, "VY": v @ y, "X'V": x.T @ v}
    expected |= {"X'VY": x.T @ v @ y, "VX + V'X": (v + v.T) @ x}
    results = everything(operator, *map(jnp.asarray, (x, y, s)))
    for name, result in results.items():
        np.testing.assert_allclose(result, expected[name], atol=1e-12, err_msg=name)


@pytest.mark.parametrize("map", [lm.maps.PSD(6, 2), lm.maps.LowRank((6, 6), 2)], ids=["psd", "lr"])
@pytest.mark.parametrize("bilinear", [False, True])
def test_gradient_is_that_of_the_plain_formula(map, bilinear):
    left, data = normal(0, 20, 6), normal(1, 20)
    right = normal(2, 20, 6) if bilinear else None
    problem = lm.Composite(lm.losses.SquaredL2(), map, data, RankOne(left, right))
    shapes = ((6, 2),) if isinstance(map, lm.maps.PSD) else map.parameter_shapes
    factors = tuple(jnp.asarray(normal(3 + k, *shape)) for k, shape in enumerate(shapes))
    x = factors[0] if isinstance(map, lm.maps.PSD) else factors

    def plain(x):
        matrix = x[0] @ x[1].T if isinstance(x, tuple) else x @ x.T
        seen = jnp.einsum("mi,ij,mj->m", left, matrix, left if right is None else right)
        return 0.5 * jnp.sum((seen - data) ** 2)

    ours, theirs = problem.evaluate(x).gradient, jax.grad(plain)(x)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-10)


def test_batches_of_observations_and_points():
    operator = RankOne(normal(0, 9, 5), normal(1, 9, 4))
    s, x, y = (
        jnp.asarray(normal(k, 3, *shape)) for k, shape in ((2, (9,)), (3, (5, 2)), (4, (4, 2)))
    )
    products = jax.vmap(lambda s: operator.adjoint(s).contract((x[0], y[0]), 0))(s)
    measured = jax.vmap(lambda x, y: operator.measure(KruskalPoint((x, y))))(x, y)
    for k in range(3):
        alone = operator.adjoint(s[k]).contract((x[0], y[0]), 0)
        np.testing.assert_allclose(products[k], alone, atol=1e-12)
        alone = operator.measure(KruskalPoint((x[k], y[k])))
        np.testing.assert_allclose(measured[k], alone, atol=1e-12)


def sizes(jaxpr):
    """Number of entries of every intermediate result, those of inner programs included."""
    for equation in jaxpr.eqns:
        yield from (out.aval.size for out in equation.outvars)
        for inner in jax.tree.leaves(list(equation.params.values())):
            if hasattr(inner, "eqns"):
                yield from sizes(inner)


@pytest.mark.parametrize("bilinear", [False, True])
def test_neither_point_nor_covector_is_formed(bilinear):
    dims, rank, count = (300, 300), 2, 40
    operator = RankOne(normal(0, count, 300), normal(1, count, 300) if bilinear else None)
    problem = lm.Composite(lm.losses.L1(), lm.maps.LowRank(dims, rank), jnp.ones(count), operator)
    x = tuple(jnp.ones((d, rank)) for d in dims)

    def step(x):
        evaluation = problem.evaluate(x)
        direction = problem.map.precondition(x, jnp.asarray(1e-3), evaluation.covector)
        return evaluation.value, evaluation.gradient, direction

    largest = max(sizes(jax.make_jaxpr(step)(x).jaxpr))
    assert largest <= max(operator.left.size, 300 * rank**2) < 300 * 300


@pytest.mark.parametrize("rank", [1, 2])
def test_phase_retrieval_from_nearby(rank):
    dim, count = 20, 8 * 20 * rank
    truth, vectors = normal(0, dim, rank), normal(1, count, dim)
    intensities = np.sum((vectors @ truth) ** 2, axis=1)
    problem = lm.Composite(lm.losses.L1(), lm.maps.PSD(dim, rank), intensities, RankOne(vectors))
    x0 = truth + 0.05 * normal(2, dim, rank)
    result = lm.solve(problem, lm.methods.lmm(), x0, tol=1e-11, max_steps=500)
    matrix = truth @ truth.T
    assert np.linalg.norm(result.point.dense() - matrix) <= 1e-10 * np.linalg.norm(matrix)


def test_bilinear_sensing_with_a_rank_too_large():
    dims, count = (15, 12), 400
    x, y = normal(0, 15, 2), normal(1, 12, 2)
    left, right = normal(2, count, 15), normal(3, count, 12)
    data = np.sum((left @ x) * (right @ y), axis=1)
    problem = lm.Composite(lm.losses.L1(), lm.maps.LowRank(dims, 3), data, RankOne(left, right))
    x0 = tuple(
        np.hstack([factor, np.zeros((len(factor), 1))]) + 0.05 * normal(5, len(factor), 3)
        for factor in (x, y)
    )
    result = lm.solve(problem, lm.methods.lmm(), x0, tol=1e-11, max_steps=1000)
    assert np.linalg.norm(result.point.dense() - x @ y.T) <= 1e-10 * np.linalg.norm(x @ y.T)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.ones(3),), ValueError, "one vector per row, on the left; got shape"),
        ((np.ones((0, 3)),), ValueError, "non-empty"),
        ((np.ones((2, 3)), np.ones(2)), ValueError, "on the right; got shape"),
        ((np.ones((2, 3)), np.ones((3, 3))), ValueError, "same number of vectors on the right"),
        (
            (np.full((2, 3), np.nan),),
            ValueError,
            "The vectors on the left must be finite; 6 entries",
        ),
        (
            (np.ones((2, 3)), np.full((2, 3), np.inf)),
            ValueError,
            "The vectors on the right must be finite; 6",
        ),
        ((np.ones((2, 3)), np.ones((2, 3), np.float32)), ValueError, "one precision"),
        ((np.ones((2, 3), complex),), TypeError, "Complex"),
        (([["a"]],), TypeError, "numbers"),
    ],
)
def test_what_cannot_be_right_gets_a_sentence(arguments, error, message):
    with pytest.raises(error, match=message):
        RankOne(*arguments)


def test_shapes_are_compared_with_the_map():
    with pytest.raises(ValueError, match=r"points of shape \(3, 3\)"):
        lm.Composite(lm.losses.L1(), lm.maps.PSD(4, 1), np.ones(2), RankOne(np.ones((2, 3))))


WITHOUT_X64 = """
import numpy as np, jax, jax.numpy as jnp
import lemmax as lm
rng = np.random.default_rng(0)
truth, vectors = rng.standard_normal((6, 1)), rng.standard_normal((60, 6))
operator = lm.operators.RankOne(vectors)
point = lm.points.KruskalPoint((truth, truth))
data = operator.measure(point)
assert isinstance(data, np.ndarray) and data.dtype == np.float64
np.testing.assert_allclose(data, (vectors @ truth)[:, 0] ** 2, rtol=1e-13)
product = operator.adjoint(data).contract((truth, truth), 0)
assert isinstance(product, np.ndarray)
np.testing.assert_allclose(product, (vectors.T * data) @ vectors @ truth, rtol=1e-12)
problem = lm.Composite(lm.losses.L1(), lm.maps.PSD(6, 1), data, operator)
result = lm.solve(problem, lm.methods.lmm(), truth + 0.01, tol=1e-12)
assert result.x.dtype == np.float64 and result.point.distance(point) < 1e-11
single = lm.operators.RankOne(jnp.asarray(vectors))
assert single.measure(lm.points.KruskalPoint((jnp.asarray(truth),) * 2)).dtype == jnp.float32
"""


@pytest.mark.slow
def test_float64_is_kept_without_x64():
    subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT_X64], check=True)
