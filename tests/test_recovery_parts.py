"""The parts of a recovery, each against something it was not copied from."""

import jax
import jax.flatten_util
import numpy as np
import pytest

import lemmax as lm
from lemmax.methods._least_squares import least_squares
from lemmax.recovery._facts import Facts
from lemmax.recovery._refine import refit
from lemmax.recovery._select import lower_ranks, nested_ranks
from lemmax.recovery._tangent import tangent_of_entries, tangent_of_measurements

MAPS = [
    lm.maps.PSD(6, 3),
    lm.maps.LowRank((6, 5), 3),
    lm.maps.CP((5, 4, 6), 3),
    lm.maps.SymmetricCP(5, 3),
]


def random_parameters(map, seed=0):
    return lm.init.random_starts(map, 1, seed=seed)[0]


@pytest.mark.parametrize("map", MAPS, ids=lambda map: type(map).__name__)
def test_degrees_of_freedom_are_the_rank_of_the_jacobian(map):
    x = random_parameters(map)
    jacobian = jax.jit(jax.jacobian(lambda u: map(u).dense()))(jax.tree.map(jax.numpy.asarray, x))
    size = int(np.prod(map.shape))
    columns = [np.reshape(leaf, (size, -1)) for leaf in jax.tree.leaves(jacobian)]
    rank = np.linalg.matrix_rank(np.concatenate(columns, axis=1))
    assert map.degrees_of_freedom == rank


@pytest.mark.parametrize("map", MAPS, ids=lambda map: type(map).__name__)
def test_a_point_of_lower_rank_is_cut_without_loss(map):
    smaller = map.with_rank(2)
    x = random_parameters(smaller, seed=1)
    padded = jax.tree.map(lambda f: np.pad(f, ((0, 0), (0, 1))), x)
    rng = np.random.default_rng(0)
    cut = map.truncate(padded, 2, rng)
    assert float(map(cut).distance(map(padded))) < 1e-9 * float(map(padded).norm())
    _, kept = map.first_terms(cut, 2)
    assert float(smaller(kept).distance(smaller(x))) < 1e-9 * float(smaller(x).norm())


def test_sizes_of_a_matrix_are_its_singular_values():
    map = lm.maps.LowRank((6, 5), 3)
    x = random_parameters(map)
    expected = np.linalg.svd(np.asarray(map(x).dense()), compute_uv=False)[:3]
    assert map.term_sizes(x) == pytest.approx(expected)


def test_lower_ranks_are_all_the_small_ones_and_some_others():
    assert lower_ranks(1) == []
    assert lower_ranks(4) == [1, 2, 3]
    assert lower_ranks(20) == [1, 2, 3, 4, 6, 9, 14]
    assert nested_ranks(np.array([1.0, 0.9, 1e-3, 1e-4]), True) == [2, 4, 1, 3]
    assert nested_ranks(np.array([1.0, 0.9, 1e-3, 1e-4]), False) == [4, 1, 2, 3]
    assert nested_ranks(np.array([1.0, 0.9, 0.8]), True) == [3, 1, 2]
    assert nested_ranks(np.ones(1), True) == [1]
    assert nested_ranks(np.ones(20), True) == [20, 1, 2, 3, 4, 6, 9, 14]


def never(*_):
    return False


def jacobian_of(problem, x):
    def observed(u):
        return problem.operator.measure(problem.map(u))

    columns = jax.tree.leaves(jax.jit(jax.jacobian(observed))(jax.tree.map(jax.numpy.asarray, x)))
    return np.concatenate([np.reshape(leaf, (problem.data.size, -1)) for leaf in columns], axis=1)


@pytest.mark.parametrize("kind", ["normal equations", "products", "all entries"])
@pytest.mark.parametrize("map", MAPS, ids=lambda map: type(map).__name__)
def test_a_least_squares_step_is_that_of_a_dense_solver(map, kind):
    rng = np.random.default_rng(2)
    x = jax.tree.map(jax.numpy.asarray, random_parameters(map))
    operator, data = None, np.asarray(map(x).dense()) + 0.1 * rng.standard_normal(map.shape)
    if kind != "all entries":
        operator = lm.operators.Dense(rng.standard_normal((200, *map.shape)))
        data = np.asarray(operator.measure(map(x))) + 0.1 * rng.standard_normal(200)
    problem = lm.Composite(lm.losses.SquaredL2(), map, data, operator)
    residual = Facts(problem, never).residual(x)
    by_matrix = kind == "normal equations"
    step = least_squares(problem, x, residual, np.ones(data.shape), by_matrix=by_matrix)(1e-12)
    matrix = jacobian_of(problem, x)
    # Directions that nothing sees are left alone, or not: what is observed is the same.
    best = np.linalg.lstsq(matrix, residual.ravel(), rcond=1e-10)[0]
    moved = jax.flatten_util.ravel_pytree(jax.tree.map(np.subtract, x, step))[0]
    expected = matrix @ best
    assert matrix @ moved == pytest.approx(expected, abs=1e-4 * np.linalg.norm(expected))


def test_terms_beyond_the_rank_stay_zero():
    map, rng = lm.maps.LowRank((6, 5), 3), np.random.default_rng(2)
    operator = lm.operators.Dense(rng.standard_normal((80, 6, 5)))
    truth = random_parameters(map.with_rank(2), seed=1)
    data = np.asarray(operator.measure(map(truth))) + 0.1 * rng.standard_normal(80)
    problem = lm.Composite(lm.losses.SquaredL2(), map, data, operator)
    start = jax.tree.map(lambda factor: np.pad(factor, ((0, 0), (0, 1)), constant_values=1), truth)
    fitted = refit(Facts(problem, never), None, start, 2)
    assert fitted.rank == 2
    left, right = fitted.x
    assert np.shape(left) == (6, 2)
    expected = np.asarray(operator.measure(lm.points.DensePoint(left @ right.T))) - problem.data
    assert fitted.residual == pytest.approx(expected)
    # Nothing is left along what two terms can change.
    matrix = jacobian_of(
        lm.Composite(problem.loss, map.with_rank(2), problem.data, operator), fitted.x
    )
    assert np.linalg.norm(matrix.T @ fitted.residual) < 1e-3 * np.linalg.norm(fitted.residual)


def test_observations_that_determine_a_direction_alone_are_known():
    rng = np.random.default_rng(4)
    map = lm.maps.LowRank((5, 4), 1)
    x = jax.tree.map(jax.numpy.asarray, random_parameters(map))
    rows = rng.standard_normal((40, 5, 4))
    rows[:3] *= 1e3
    problem = lm.Composite(lm.losses.L1(), map, np.ones(40), lm.operators.Dense(rows))
    used = rng.random(40) < 0.8
    used[:3] = True
    found = tangent_of_measurements(problem, x, used, 8, np.ones(40))
    seen = jacobian_of(problem, x)[used]
    leverages = np.diag(seen @ np.linalg.pinv(seen, rcond=1e-10))
    assert np.array_equal(found.lone, leverages > 0.9)
    assert np.array_equal(np.flatnonzero(found.lone), [0, 1, 2])


def test_tangents_against_a_dense_computation():
    rng = np.random.default_rng(3)
    map = lm.maps.PSD(5, 2)
    x = jax.numpy.asarray(rng.standard_normal((5, 2)))
    operator = lm.operators.Dense(rng.standard_normal((40, 5, 5)))
    problem = lm.Composite(lm.losses.L1(), map, np.ones(40), operator)
    used = rng.random(40) < 0.7
    jacobian = np.reshape(jax.jit(jax.jacobian(lambda u: map(u).dense()))(x), (25, 10))
    left, s, _ = np.linalg.svd(jacobian, full_matrices=False)
    basis = left[:, s > 1e-9 * s[0]]
    seen = np.reshape(operator.matrix, (40, 25))[used] @ basis
    gains = np.linalg.svd(seen, compute_uv=False)
    tangent = tangent_of_measurements(problem, x, used, None)
    assert tangent.freedom == basis.shape[1] == 9
    assert tangent.error == pytest.approx(np.linalg.norm(1 / gains))


@pytest.mark.parametrize("uneven", [False, True])
def test_an_observation_that_the_others_mispredict_has_an_error_of_its_own(uneven):
    """The error of linear least squares; a tenth of the data are larger, and noisier."""
    rng, ratios, blind = np.random.default_rng(8), [], []
    map = lm.maps.LowRank((5, 4), 1)
    x = tuple(jax.numpy.asarray(rng.standard_normal((d, 1))) for d in (5, 4))
    rows = rng.standard_normal((80, 5, 4))
    own = np.where(np.arange(80) < 8, 300.0 if uneven else 1.0, 1.0)
    rows *= np.where(own > 1, 100.0, 1.0)[:, None, None]
    problem = lm.Composite(lm.losses.L1(), map, np.ones(80), lm.operators.Dense(rows))
    parts = jax.jacobian(lambda x: map(x).dense())(x)
    jacobian = np.hstack([np.reshape(part, (20, -1)) for part in parts])
    seen = rows.reshape(80, 20) @ jacobian
    for _ in range(40):
        noise = own * rng.standard_normal(80)
        moved = np.linalg.lstsq(seen, noise, rcond=1e-9)[0]
        left = noise - seen @ moved
        scale = float(np.sqrt(np.sum(left**2) / (80 - 8)))
        every = np.ones(80, bool)
        error = tangent_of_measurements(problem, x, every, 8, np.abs(left) / scale).error
        true = float(np.linalg.norm(jacobian @ moved))
        ratios.append(true / (scale * error))
        blind.append(true / (scale * tangent_of_measurements(problem, x, every, 8).error))
    assert np.max(ratios) < 3
    if uneven:
        assert np.max(blind) > 3
    else:
        np.testing.assert_allclose(ratios, blind, rtol=0.3)


def test_a_row_with_too_few_entries_is_not_determined():
    rng = np.random.default_rng(4)
    mask = rng.random((12, 10)) < 0.9
    x = tuple(rng.standard_normal((d, 2)) for d in (12, 10))
    map = lm.maps.LowRank((12, 10), 2)

    def tangent(mask):
        operator = lm.operators.Entries.from_mask(mask)
        count = int(mask.sum())
        problem = lm.Composite(lm.losses.L1(), map, np.ones(count), operator)
        return tangent_of_entries(problem, problem.map, x, np.ones(count, bool), 40)

    assert np.isfinite(tangent(mask).error)
    mask[3] = False
    mask[3, 0] = True
    assert tangent(mask).error == np.inf


def test_parts_that_nothing_connects_are_not_determined():
    """Two blocks, each of them complete: how they go together, no entry says."""
    rng = np.random.default_rng(5)
    for dims in ((8, 9), (5, 6, 7), (120, 130), (40, 50, 60)):
        map = lm.maps.LowRank(dims, 2) if len(dims) == 2 else lm.maps.CP(dims, 2)
        x = tuple(rng.standard_normal((d, 2)) for d in dims)
        problem = lm.Composite(lm.losses.L1(), map, np.ones(dims))
        first = np.ix_(*(np.arange(d) < d // 2 for d in dims))
        second = np.ix_(*(np.arange(d) >= d // 2 for d in dims))
        used = np.zeros(dims, bool)
        used[first] = used[second] = True
        freedom = map.with_rank(2).degrees_of_freedom
        assert tangent_of_entries(problem, map, x, used, freedom).error == np.inf
        assert np.isfinite(tangent_of_entries(problem, map, x, np.ones(dims, bool), freedom).error)
        listed = lm.operators.Entries(tuple(np.indices(dims).reshape(len(dims), -1)), dims)
        problem = lm.Composite(lm.losses.L1(), map, np.ones(used.size), listed)
        assert tangent_of_entries(problem, map, x, used.ravel(), freedom).error == np.inf
        assert np.isfinite(
            tangent_of_entries(problem, map, x, np.ones(used.size, bool), freedom).error
        )


def test_tangents_of_few_entries_agree_with_the_jacobian():
    rng = np.random.default_rng(6)
    for map in (lm.maps.CP((4, 3, 5), 2), lm.maps.SymmetricCP(4, 2), lm.maps.LowRank((6, 5), 2)):
        shapes = map.parameter_shapes
        one = isinstance(shapes[0], int)
        x = (
            rng.standard_normal(shapes)
            if one
            else tuple(rng.standard_normal(shape) for shape in shapes)
        )
        problem = lm.Composite(lm.losses.L1(), map, np.ones(map.shape))
        used = rng.random(map.shape) < 0.8
        freedom = {"CP": 20, "SymmetricCP": 8, "LowRank": 18}[type(map).__name__]
        exact = tangent_of_measurements(problem, x, used, freedom)
        found = tangent_of_entries(problem, map, x, used, freedom)
        assert found.error == pytest.approx(exact.error, rel=1e-6)


def test_another_damping_does_not_compile_again():
    rng = np.random.default_rng(7)
    operator = lm.operators.Dense(rng.standard_normal((30, 4, 4)))
    loss, map = lm.losses.SquaredL2(), lm.maps.PSD(4, 2)
    problem = lm.Composite(loss, map, rng.standard_normal(30), operator)
    x = jax.numpy.asarray(rng.standard_normal((4, 2)))
    residual = Facts(problem, never).residual(x)
    step = least_squares(problem, x, residual, np.ones(30), by_matrix=True)
    compilations = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, seconds, **_: compilations.append(name) if "backend_compile" in name else None
    )
    try:
        step(1e-3)
        assert compilations
        compilations.clear()
        step(1e-4)
        assert not compilations
    finally:
        jax.monitoring.clear_event_listeners()


def test_nothing_explained_determines_nothing():
    rng = np.random.default_rng(2)
    map, x = lm.maps.LowRank((5, 4), 2), (rng.standard_normal((5, 2)), rng.standard_normal((4, 2)))
    problem = lm.Composite(lm.losses.L1(), map, rng.standard_normal((5, 4)))
    tangent = tangent_of_entries(problem, map, x, np.zeros((5, 4), bool), 14)
    assert (tangent.freedom, tangent.error) == (14, np.inf)
