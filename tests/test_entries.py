"""Observed entries: their products, sorted or not, few or many, and completion."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm
from lemmax.covectors import DenseCovector, SparseCovector
from lemmax.operators import Entries
from lemmax.points import DensePoint, KruskalPoint


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def scattered(seed, count, *dims):
    """Indices in no order; of a small array many recur."""
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(d, size=count) for d in dims)


def full_array(indices, values, dims):
    dense = np.zeros(dims)
    np.add.at(dense, indices, values)
    return dense


@pytest.mark.parametrize(
    ("count", "kind"), [(1, SparseCovector), (40, SparseCovector), (900, DenseCovector)]
)
def test_products_with_a_matrix(count, kind):
    dims = (20, 30)
    indices, s = scattered(0, count, *dims), normal(1, count)
    x, y = normal(2, 20, 3), normal(3, 30, 3)

    @jax.jit
    def everything(operator, s, x, y):
        covector = operator.adjoint(s)
        assert isinstance(covector, kind)
        products = [covector.contract((x, y), skip) for skip in (0, 1, None)]
        measured = operator.measure(KruskalPoint((x, y))), operator.measure(DensePoint(x @ y.T))
        return covector.dense(), *products, *measured

    v = full_array(indices, s, dims)
    seen = (x @ y.T)[indices]
    expected = v, v @ y, x.T @ v, x.T @ v @ y, seen, seen
    results = everything(Entries(indices, dims), *map(jnp.asarray, (s, x, y)))
    for result, formula in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, formula, atol=1e-12)


def test_products_with_a_tensor():
    dims = (9, 10, 11)
    indices, s = scattered(0, 40, *dims), normal(1, 40)
    factors = tuple(jnp.asarray(normal(k, d, 3)) for k, d in enumerate(dims))
    covector = Entries(indices, dims).adjoint(jnp.asarray(s))
    assert isinstance(covector, SparseCovector)
    v = full_array(indices, s, dims)
    x, y, z = factors
    for result, formula in [
        (covector.mttkrp(factors, 1), np.einsum("ijk,ir,kr->jr", v, x, z)),
        (covector.contract(factors, 1), np.einsum("ijk,ia,kc->ajc", v, x, z)),
        (covector.contract(factors), np.einsum("ijk,ia,jb,kc->abc", v, x, y, z)),
    ]:
        np.testing.assert_allclose(result, formula, atol=1e-12)


@pytest.mark.parametrize("rank", [1, 8, 9, 20])
def test_more_columns_than_one_pass_takes(rank):
    dims = (9, 10, 11)
    indices = scattered(0, 50, *dims)
    factors = tuple(jnp.asarray(normal(k, d, rank)) for k, d in enumerate(dims))
    seen = Entries(indices, dims).measure(KruskalPoint(factors))
    np.testing.assert_allclose(seen, np.einsum("ir,jr,kr->ijk", *factors)[indices], atol=1e-12)


@pytest.mark.parametrize("rank", [2, 8])
def test_a_point_of_which_all_is_observed(rank):
    """Its entries, gathered from its columns or from the matrix itself."""
    x, y = jnp.asarray(normal(0, 6, rank)), jnp.asarray(normal(1, 7, rank))
    operator = Entries.from_mask(np.ones((6, 7), bool))
    seen = operator.measure(KruskalPoint((x, y)))
    np.testing.assert_allclose(seen, np.ravel(x @ y.T), atol=1e-13)


def test_few_entries_of_a_large_matrix_are_all_there_is():
    dims = (50_000, 40_000)
    operator = Entries(scattered(0, 1000, *dims), dims)
    problem = lm.Composite(lm.losses.L1(), lm.maps.LowRank(dims, 3), jnp.ones(1000), operator)
    x = tuple(jnp.asarray(normal(k, d, 3)) for k, d in enumerate(dims))
    gradient = jax.jit(lambda problem, x: problem.evaluate(x).gradient)(problem, x)
    assert [part.shape for part in gradient] == [part.shape for part in x]
    row = int(operator.indices[0][0])
    (where,) = np.nonzero(np.asarray(operator.indices[0]) == row)
    columns = np.asarray(operator.indices[1])[where]
    signs = np.sign(np.asarray(x[0])[row] @ np.asarray(x[1])[columns].T - 1)
    np.testing.assert_allclose(gradient[0][row], signs @ np.asarray(x[1])[columns], atol=1e-12)


@pytest.mark.parametrize(
    ("map", "dims"),
    [
        (lm.maps.PSD(12, 2), (12, 12)),
        (lm.maps.LowRank((12, 15), 2), (12, 15)),
        (lm.maps.CP((9, 10, 11), 2), (9, 10, 11)),
        (lm.maps.SymmetricCP(9, 2), (9, 9, 9)),
    ],
    ids=lambda part: type(part).__name__,
)
@pytest.mark.parametrize("count", [20, 200])
def test_gradient_is_that_of_the_plain_formula(map, dims, count):
    indices, data = scattered(0, count, *dims), normal(1, count)
    problem = lm.Composite(lm.losses.SquaredL2(), map, data, Entries(indices, dims))
    shapes = map.parameter_shapes
    single = isinstance(shapes[0], int)
    x = (
        jnp.asarray(normal(2, *shapes))
        if single
        else tuple(jnp.asarray(normal(2, *s)) for s in shapes)
    )

    def plain(x):
        factors = (x,) * len(dims) if single else x
        letters = "ijk"[: len(dims)]
        terms = ",".join(letter + "r" for letter in letters)
        full = jnp.einsum(f"{terms}->{letters}", *factors)
        return 0.5 * jnp.sum((full[indices] - data) ** 2)

    ours, theirs = problem.evaluate(x).gradient, jax.grad(plain)(x)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("count", [40, 900])
def test_adjoint_is_that_of_automatic_differentiation(count):
    dims = (20, 30)
    operator, s = Entries(scattered(0, count, *dims), dims), jnp.asarray(normal(1, count))
    _, vjp = jax.vjp(lambda z: operator.measure(DensePoint(z)), jnp.zeros(dims))
    np.testing.assert_allclose(operator.adjoint(s).dense(), vjp(s)[0], atol=1e-14)


@pytest.mark.parametrize("count", [40, 900])
def test_batches_of_observations_and_points(count):
    dims = (20, 30)
    operator = Entries(scattered(0, count, *dims), dims)
    s, x, y = (
        jnp.asarray(normal(k, 3, *d)) for k, d in ((1, (count,)), (2, (20, 2)), (3, (30, 2)))
    )
    products = jax.vmap(lambda s: operator.adjoint(s).contract((x[0], y[0]), 0))(s)
    measured = jax.vmap(lambda x, y: operator.measure(KruskalPoint((x, y))))(x, y)
    for k in range(3):
        alone = operator.adjoint(s[k]).contract((x[0], y[0]), 0)
        np.testing.assert_allclose(products[k], alone, atol=1e-12)
        alone = operator.measure(KruskalPoint((x[k], y[k])))
        np.testing.assert_allclose(measured[k], alone, atol=1e-12)


def test_ways_to_say_which():
    mask = np.random.default_rng(0).random((6, 7)) < 0.5
    by_mask, indices = Entries.from_mask(mask), np.nonzero(mask)
    array = normal(1, 6, 7)
    for operator in (by_mask, Entries(indices, (6, 7)), Entries(np.argwhere(mask), [6, 7])):
        np.testing.assert_array_equal(operator.measure(DensePoint(jnp.asarray(array))), array[mask])
        assert all(index.dtype == jnp.int32 for index in operator.indices)
        assert operator.point_shape == (6, 7)


def test_completion_of_a_matrix():
    dims = (40, 30)
    x, y = normal(0, 40, 2), normal(1, 30, 2)
    mask = np.random.default_rng(2).random(dims) < 0.5
    problem = lm.Composite(
        lm.losses.SquaredL2(), lm.maps.LowRank(dims, 2), (x @ y.T)[mask], Entries.from_mask(mask)
    )
    x0 = x + 0.1 * normal(3, 40, 2), y + 0.1 * normal(4, 30, 2)
    result = lm.solve(problem, lm.methods.lmm(), x0, tol=1e-22, max_steps=2000)
    assert np.linalg.norm(result.point.dense() - x @ y.T) <= 1e-9 * np.linalg.norm(x @ y.T)


def test_completion_from_few_entries():
    dims = (200, 150)
    x, y = normal(0, 200, 1), normal(1, 150, 1)
    indices = scattered(2, 3000, *dims)
    operator = Entries(indices, dims)
    assert operator.tilings is not None
    data = (x @ y.T)[indices]
    problem = lm.Composite(lm.losses.SquaredL2(), lm.maps.LowRank(dims, 1), data, operator)
    x0 = x + 0.1 * normal(3, 200, 1), y + 0.1 * normal(4, 150, 1)
    result = lm.solve(problem, lm.methods.lmm(), x0, tol=1e-22, max_steps=2000)
    assert np.linalg.norm(result.point.dense() - x @ y.T) <= 1e-9 * np.linalg.norm(x @ y.T)


@pytest.mark.parametrize(
    ("indices", "shape", "error", "message"),
    [
        (([0], [1]), (3,), ValueError, "two or more modes"),
        (([0], [1]), 3, ValueError, "two or more modes"),
        (([0], [1]), (3, 0), ValueError, "dimension 1 must be a whole number"),
        (([0], [1]), (3, 2.5), ValueError, "dimension 1 must be a whole number"),
        (([0], [1], [1]), (3, 3), ValueError, "each of 2 modes; got 3"),
        (([0, 1], [1]), (3, 3), ValueError, "of equal length"),
        (([[0]], [[1]]), (3, 3), ValueError, "of equal length"),
        ((np.arange(0), np.arange(0)), (3, 3), ValueError, "at least one observed entry"),
        (([0.0], [1]), (3, 3), TypeError, "mode 0 are float64"),
        (([0], [True]), (3, 3), TypeError, "mode 1 are bool"),
        (([0, 3], [1, 1]), (3, 3), ValueError, "from 0 to 2; got indices from 0 to 3"),
        (([0, -1], [1, 1]), (3, 3), ValueError, "got indices from -1 to 0"),
        (np.zeros((2, 5), int), (3, 3), ValueError, r"shape \(m, 2\)"),
    ],
)
def test_what_cannot_be_right_gets_a_sentence(indices, shape, error, message):
    with pytest.raises(error, match=message):
        Entries(indices, shape)


def test_a_mask_that_cannot_be_right_gets_a_sentence():
    with pytest.raises(TypeError, match="must be boolean"):
        Entries.from_mask(np.ones((2, 2)))
    with pytest.raises(ValueError, match="at least one observed entry"):
        Entries.from_mask(np.zeros((2, 2), bool))
    with pytest.raises(TypeError, match="outside of jit"):
        jax.jit(lambda mask: Entries.from_mask(mask).indices)(np.ones((2, 2), bool))
    with pytest.raises(TypeError, match="outside of jit"):
        jax.jit(lambda index: Entries((index, index), (2, 2)).indices)(np.ones(2, int))


WITHOUT_X64 = """
import numpy as np, jax, jax.numpy as jnp
import lemmax as lm
rng = np.random.default_rng(0)
x, y = rng.standard_normal((30, 1)), rng.standard_normal((20, 1))
point = lm.points.KruskalPoint((x, y))
for count in (100, 400):
    indices = rng.integers(30, size=count), rng.integers(20, size=count)
    operator = lm.operators.Entries(indices, (30, 20))
    data = operator.measure(point)
    assert isinstance(data, np.ndarray) and data.dtype == np.float64
    np.testing.assert_allclose(data, (x @ y.T)[indices], rtol=1e-15)
    dense = np.zeros((30, 20))
    np.add.at(dense, indices, data)
    covector = operator.adjoint(data)
    np.testing.assert_allclose(covector.dense(), dense, rtol=1e-14)
    if count == 100:
        product = covector.contract((x, y), 0)
        assert isinstance(product, np.ndarray)
        np.testing.assert_allclose(product, dense @ y, rtol=1e-12, atol=1e-14)
problem = lm.Composite(lm.losses.SquaredL2(), lm.maps.LowRank((30, 20), 1), data, operator)
result = lm.solve(problem, lm.methods.lmm(), (x + 0.01, y - 0.01), max_steps=3)
assert result.x[0].dtype == np.float64
single = operator.measure(lm.points.KruskalPoint((jnp.asarray(x), jnp.asarray(y))))
assert single.dtype == jnp.float32
"""


@pytest.mark.slow
def test_float64_is_kept_without_x64():
    subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT_X64], check=True)
