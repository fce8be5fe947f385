"""The parts of a recovery, each against something it was not copied from."""

import pickle

import jax
import jax.flatten_util
import numpy as np
import pytest

import lemmax as lm
from lemmax.recovery import _constants as constants
from lemmax.recovery._certificate import Fit, certify_noise
from lemmax.recovery._evidence import certify
from lemmax.recovery._facts import Facts, typical_size
from lemmax.recovery._kept_aside import Predictions
from lemmax.recovery._left_over import left_over
from lemmax.recovery._objections import Objection
from lemmax.recovery._refine import _least_squares, refit
from lemmax.recovery._rivals import contested
from lemmax.recovery._select import judged, lower_ranks, nested_ranks
from lemmax.recovery._tangent import (
    Tangent,
    spread_of_entries,
    tangent_of_entries,
    tangent_of_matrix,
)

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
    jacobian = jax.jacobian(lambda u: map(u).dense())(jax.tree.map(jax.numpy.asarray, x))
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

    columns = jax.tree.leaves(jax.jacobian(observed)(jax.tree.map(jax.numpy.asarray, x)))
    return np.concatenate([np.reshape(leaf, (problem.data.size, -1)) for leaf in columns], axis=1)


@pytest.mark.parametrize("kind", ["normal equations", "products", "all entries"])
@pytest.mark.parametrize("map", MAPS, ids=lambda map: type(map).__name__)
def test_a_least_squares_step_is_that_of_a_dense_solver(map, kind, monkeypatch):
    rng = np.random.default_rng(2)
    x = jax.tree.map(jax.numpy.asarray, random_parameters(map))
    operator, data = None, np.asarray(map(x).dense()) + 0.1 * rng.standard_normal(map.shape)
    if kind != "all entries":
        operator = lm.operators.Dense(rng.standard_normal((200, *map.shape)))
        data = np.asarray(operator.measure(map(x))) + 0.1 * rng.standard_normal(200)
    monkeypatch.setattr(constants, "LARGEST_B", 0 if kind == "products" else 1e9)
    problem = lm.Composite(lm.losses.SquaredL2(), map, data, operator)
    facts = Facts(problem, never)
    residual = facts.residual(x)
    step = _least_squares(facts, x, residual, np.ones(data.shape))(1e-12)
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
    fitted = refit(Facts(problem, never), start, 2)
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


def test_tangents_against_a_dense_computation():
    rng = np.random.default_rng(3)
    map = lm.maps.PSD(5, 2)
    x = jax.numpy.asarray(rng.standard_normal((5, 2)))
    operator = lm.operators.Dense(rng.standard_normal((40, 5, 5)))
    problem = lm.Composite(lm.losses.L1(), map, np.ones(40), operator)
    used = rng.random(40) < 0.7
    jacobian = np.reshape(jax.jacobian(lambda u: map(u).dense())(x), (25, 10))
    left, s, _ = np.linalg.svd(jacobian, full_matrices=False)
    basis = left[:, s > 1e-9 * s[0]]
    seen = np.reshape(operator.matrix, (40, 25))[used] @ basis
    gains = np.linalg.svd(seen, compute_uv=False)
    tangent = tangent_of_matrix(map, x, jax.numpy.asarray(jacobian_of(problem, x)), used, None)
    assert tangent.freedom == basis.shape[1] == 9
    assert tangent.weakest == pytest.approx(gains[-1] / gains[0])
    assert tangent.error == pytest.approx(np.linalg.norm(1 / gains))


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

    assert tangent(mask).weakest > 1e-3
    mask[3] = False
    mask[3, 0] = True
    assert tangent(mask).weakest == 0
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
        assert tangent_of_entries(problem, map, x, used, freedom).weakest < 1e-6
        assert tangent_of_entries(problem, map, x, np.ones(dims, bool), freedom).weakest > 0.01
        listed = lm.operators.Entries(tuple(np.indices(dims).reshape(len(dims), -1)), dims)
        problem = lm.Composite(lm.losses.L1(), map, np.ones(used.size), listed)
        assert tangent_of_entries(problem, map, x, used.ravel(), freedom).weakest < 1e-6
        assert tangent_of_entries(problem, map, x, np.ones(used.size, bool), freedom).weakest > 0.01


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
        matrix = jax.numpy.asarray(jacobian_of(problem, x))
        exact = tangent_of_matrix(map, x, matrix, used, freedom)
        found = tangent_of_entries(problem, map, x, used, freedom)
        assert found.weakest == pytest.approx(exact.weakest, rel=1e-6)
        assert found.error == pytest.approx(exact.error, rel=1e-6)


def test_another_damping_does_not_compile_again():
    rng = np.random.default_rng(7)
    operator = lm.operators.Dense(rng.standard_normal((30, 4, 4)))
    loss, map = lm.losses.SquaredL2(), lm.maps.PSD(4, 2)
    facts = Facts(lm.Composite(loss, map, rng.standard_normal(30), operator), never)
    x = jax.numpy.asarray(rng.standard_normal((4, 2)))
    step = _least_squares(facts, x, facts.residual(x), np.ones(30))
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


@pytest.mark.parametrize(("large", "holds"), [(40, False), (400, True)])
def test_what_is_no_larger_than_the_noise_is_no_merit(large, holds):
    """All is explained and predicted; but how much of it would noise alone not explain?"""
    noise = np.random.default_rng(0).uniform(-1.5, 1.5, 500)
    data = noise + np.where(np.arange(500) < large, 100.0, 0.0)
    known = np.ones(500, bool)
    tangent = Tangent(freedom=51, weakest=1.0, error=1.0)
    fit = Fit(noise, data, known, np.arange(500), 1e3, lambda used: tangent)
    predicted = Predictions(noise, known, np.ones(500))
    certificate = certify_noise(fit, known, 1.0, lambda: predicted)
    assert certificate.holds == holds
    assert holds or "40 different observations beyond their errors" in certificate.objections[0]


def test_a_row_of_wrong_numbers_has_rivals():
    """All its numbers are wrong, and the fit goes through one of them. Two right ones convince."""
    rng = np.random.default_rng(1)
    left, right = rng.uniform(1, 2, (8, 1)), rng.uniform(1, 2, (6, 1))
    table = left @ right.T
    table[0] = rng.uniform(50, 100, 6)
    table[1, 2:] = rng.uniform(50, 100, 4)
    through_one = table[0, 3] / right[3]
    left[0] = through_one
    explained = np.abs(left @ right.T - table) < 1e-9
    assert (explained[0].sum(), explained[1].sum()) == (1, 2)
    places = tuple(np.indices(table.shape).reshape(2, -1))
    distance, which = contested([left, right], places, table.ravel(), explained.ravel(), 1e-9, 0)
    assert which == ([0], [])
    others = [np.linalg.norm((table[0, j] / right[j] - through_one) * right) for j in range(6)]
    np.testing.assert_allclose(distance, max(others))


def test_a_slice_of_wrong_numbers_has_rivals():
    rng = np.random.default_rng(2)
    factors = [rng.uniform(1, 2, (d, 1)) for d in (5, 4, 3)]
    tensor = np.einsum("ir,jr,kr->ijk", *factors)
    tensor[:, 1] = rng.uniform(50, 100, (5, 3))
    products = np.outer(factors[0], factors[2])
    through = tensor[:, 1] / products  # what each of its entries would make of the slice
    factors[1][1] = through[2, 1]
    explained = np.abs(np.einsum("ir,jr,kr->ijk", *factors) - tensor) < 1e-9
    assert explained[:, 1].sum() == 1
    places = tuple(np.indices(tensor.shape).reshape(3, -1))
    distance, which = contested(factors, places, tensor.ravel(), explained.ravel(), 1e-9, 0)
    assert which == ([], [1], [])
    farthest = np.max(np.abs(through - through[2, 1])) * np.linalg.norm(products)
    np.testing.assert_allclose(distance, farthest)


def test_the_best_of_all_fits_to_a_long_row_of_noise_proves_nothing():
    """It explains twice as many entries as any that goes through as many as there are terms."""
    rng = np.random.default_rng(3)
    left, right = rng.standard_normal((30, 3)), rng.standard_normal((200, 3))
    table = left @ right.T + 0.1 * rng.standard_normal((30, 200))
    table[5] = 10 * rng.standard_normal(200)
    for _ in range(200):  # the fit that explains most, of many
        trial = np.linalg.lstsq(right, table[5] + rng.standard_normal(200), rcond=None)[0]
        for _ in range(20):
            close = np.abs(right @ trial - table[5]) < 0.6
            trial = np.linalg.lstsq(right[close], table[5, close], rcond=None)[0]
        if np.sum(np.abs(right @ trial - table[5]) < 0.3) > np.sum(
            np.abs(right @ left[5] - table[5]) < 0.3
        ):
            left[5] = trial
    explained = np.abs(left @ right.T - table) < 0.3
    places = tuple(np.indices(table.shape).reshape(2, -1))
    distance, which = contested([left, right], places, table.ravel(), explained.ravel(), 0.3, 1)
    assert which[0] == [5]
    np.testing.assert_allclose(distance, np.linalg.norm(right @ left[5]))


def test_the_spread_of_predictions_is_that_of_the_linearised_fit():
    """Rows and columns apart are nearly the whole, of which the Jacobian gives the covariance."""
    rng = np.random.default_rng(4)
    map = lm.maps.LowRank((40, 9), 2)
    x = (rng.standard_normal((40, 2)), rng.standard_normal((9, 2)))
    problem = lm.Composite(lm.losses.L1(), map, np.asarray(map(x).dense()))
    shown = rng.random((40, 9)) < 0.75
    flat, unravel = jax.flatten_util.ravel_pytree(x)
    jacobian = np.asarray(jax.jacobian(lambda u: map(unravel(u)).dense().ravel())(flat))
    seen = jacobian[shown.ravel()]
    covariance = np.linalg.pinv(seen.T @ seen, rcond=1e-10)
    expected = np.sqrt(1 + np.einsum("ei,ij,ej->e", jacobian, covariance, jacobian))
    found = spread_of_entries(problem, map, x, shown, ~shown)[~shown]
    ratio = found / expected.reshape(shown.shape)[~shown]
    assert np.all(np.abs(ratio - 1) < 0.15)
    assert np.ptp(found) > 0.3  # rows with few entries are told less well
    blind = shown & (np.arange(40) > 0)[:, None]
    hidden = spread_of_entries(problem, map, x, blind, ~blind)
    assert np.all(np.isinf(hidden[0]))


def test_what_is_left_over_is_a_term_and_neither_noise_nor_a_row():
    rng = np.random.default_rng(5)
    noise = 0.1 * rng.standard_normal((30, 12, 10))
    map = lm.maps.CP((30, 12, 10), 1)
    everywhere = np.ones(noise.shape, bool)

    def rest(residual, known=everywhere):
        problem = lm.Composite(lm.losses.L1(), map, residual)
        return left_over(problem, residual, known, level=3.0)

    assert rest(noise) == 0
    wild = noise.copy()
    wild[4] = 3 * rng.choice([-1, 1], (12, 10))
    assert rest(wild) == 0
    a, b, c = (rng.uniform(0.5, 1, d) for d in noise.shape)
    term = np.einsum("i,j,k->ijk", a, b, c)
    np.testing.assert_allclose(rest(noise + term), np.linalg.norm(term), rtol=0.05)
    half = rng.random(noise.shape) < 0.5
    np.testing.assert_allclose(rest(noise + term, half), np.linalg.norm(term), rtol=0.1)


def test_nothing_explained_determines_nothing():
    rng = np.random.default_rng(2)
    map, x = lm.maps.LowRank((5, 4), 2), (rng.standard_normal((5, 2)), rng.standard_normal((4, 2)))
    problem = lm.Composite(lm.losses.L1(), map, rng.standard_normal((5, 4)))
    tangent = tangent_of_entries(problem, map, x, np.zeros((5, 4), bool), 14)
    assert (tangent.weakest, tangent.error) == (0.0, np.inf)


@pytest.mark.parametrize("right", [True, False])
def test_a_wrong_row_beside_known_factors_is_no_exact_answer(right):
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((side, 2)) for side in (8, 7, 6)]
    data = np.einsum("ia,ja,ka->ijk", *factors)
    map = lm.maps.Composed(lm.maps.CP((8, 7, 6), 2), lm.maps.WithFixed((None, *factors[1:])))
    free = factors[0].copy()
    # The last slice is anything; a wrong row goes through two of its entries.
    data[-1] = rng.standard_normal((7, 6))
    design = np.einsum("ja,ka->jka", *factors[1:]).reshape(-1, 2)
    free[-1] = np.linalg.solve(design[:2], data[-1].ravel()[:2])
    if right:
        data[-1] = np.einsum("a,ja,ka->jk", free[-1], *factors[1:])
    facts = Facts(lm.Composite(lm.losses.L1(), map, data), never)
    fitted = judged(facts, map, (free,), facts.residual((free,)), free.size)
    assert facts.vanishes(fitted.residual)
    certificate = certify(facts, fitted, lambda: pytest.fail("exact data predict nothing"))
    assert certificate.holds == right
    assert right or certificate.doubtful[0] == [7]


def test_an_objection_speaks_of_rows_by_number_or_name():
    said = Objection("in {} too little is known", ([0, 2], [1]))
    assert said == "in rows 0, 2 and column 1 too little is known"
    again = pickle.loads(pickle.dumps(said))
    assert again.named(("day {}".format, "col {}".format)) == (
        "in day 0, day 2 and col 1 too little is known"
    )
    many = Objection("{}", (list(range(9)), []))
    assert many == "rows 0, 1, 2, 3, 4..."
    assert Objection("{}", ([], [3], [])) == "slice 3 of mode 1"
    assert Objection("nothing at all") == "nothing at all"


def test_the_typical_size_of_many_data_is_that_of_a_sample():
    rng = np.random.default_rng(0)
    data, known = rng.standard_normal(300_000), rng.random(300_000) < 0.5
    data[known] *= 7
    exact = np.median(np.abs(data[known]))
    assert typical_size(data, known) == pytest.approx(exact, rel=0.02)
    # Where hardly anything is known, all of it is looked at.
    alone = np.zeros(300_000, bool)
    alone[17] = True
    assert typical_size(data, alone) == abs(data[17])


@pytest.mark.parametrize(("spread", "holds"), [(1.0, True), (0.02, False)])
def test_a_fit_that_explains_a_part_far_better_is_no_answer(spread, holds):
    """Noise of one size, and two sizes: half of the data belong to something else."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(500) * np.where(np.arange(500) < 250, spread, 1.0)
    noise = np.clip(noise, -2.5, 2.5)
    known = np.ones(500, bool)
    tangent = Tangent(freedom=51, weakest=1.0, error=1.0)
    fit = Fit(noise, noise + 100.0, known, np.arange(500), 1e3, lambda used: tangent)
    predicted = Predictions(noise, known, np.ones(500))
    assert certify_noise(fit, known, 1.0, lambda: predicted).holds == holds
