"""The tests of the certificate, each against something that it was not copied from."""

import pickle

import jax
import numpy as np
import pytest
from scipy import stats

import lemmax as lm
from lemmax.recovery._certificate import Case, certified, log_chance
from lemmax.recovery._evidence import certify
from lemmax.recovery._facts import Facts
from lemmax.recovery._left_over import left_over
from lemmax.recovery._objections import Objection
from lemmax.recovery._refine import refit
from lemmax.recovery._rivals import contested
from lemmax.recovery._select import judged
from lemmax.recovery._tangent import Tangent


def never(*_):
    return False


def noisy_case(noise, data):
    """A fit with 51 degrees of freedom to 500 data."""
    known = np.ones(500, bool)
    return Case(
        exact=False,
        residual=noise,
        data=data,
        known=known,
        labels=np.arange(500),
        used=known,
        noise=1.0,
        level=3.0,
        norm=1e3,
        tangent=Tangent(freedom=51, error=1.0),
    )


@pytest.mark.parametrize(("large", "holds"), [(40, False), (400, True)])
def test_what_is_no_larger_than_the_noise_is_no_merit(large, holds):
    """All is explained; but how much of it would noise alone not explain?"""
    noise = np.random.default_rng(0).uniform(-1.5, 1.5, 500)
    data = noise + np.where(np.arange(500) < large, 100.0, 0.0)
    certificate = certified(noisy_case(noise, data))
    assert certificate.holds == holds
    assert holds or "40 different observations beyond their errors" in certificate.objections[0]


def test_what_is_a_little_above_the_noise_may_be_noise():
    """Twenty of 500 residuals are, twenty others are gross: the error allows for the former."""
    residual = np.clip(np.random.default_rng(0).standard_normal(500), -2.5, 2.5)
    residual[:40] = np.repeat([6.0, 50.0], 20)
    case = noisy_case(residual, residual + 100)._replace(used=np.abs(residual) <= 3)
    near = np.delete(residual, np.arange(20, 40))
    expected = np.sqrt(np.sum(near**2) / (480 - 51)) / 1e3
    assert expected > 1.5e-3
    np.testing.assert_allclose(certified(case).error, expected, rtol=0.01)


@pytest.mark.parametrize("spare", [5, 9, 40])
def test_the_expected_error_is_honest_where_the_noise_is_badly_known(spare):
    """The mean square of errors of least squares, under all noise that may have made the residuals.

    Noise of unknown size in all magnitudes alike; what is seen is the size of the residuals.
    """
    rng = np.random.default_rng(spare)
    true = 10 ** rng.uniform(-2, 2, 2_000_000)
    found = true * np.sqrt(rng.chisquare(spare, true.size) / spare)
    near = np.abs(np.log(found)) < 0.05  # those that look like noise of size 1
    residual = np.ones(51 + spare) * np.sqrt(spare / (51 + spare))
    case = noisy_case(residual, residual + 100)._replace(
        known=residual > 0, used=residual > 0, labels=None
    )
    expected = np.sqrt(np.mean(true[near] ** 2)) / 1e3
    np.testing.assert_allclose(certified(case).error, expected, rtol=0.05)


def fit_of_line(matrix, data, x, level):
    """A fit with two parameters as the certificate sees it."""
    residual = matrix @ x - data
    used = np.abs(residual) <= level
    return noisy_case(residual, data)._replace(
        known=np.ones(len(data), bool),
        labels=None,
        used=used,
        noise=level / 3,
        level=level,
        tangent=Tangent(freedom=2, error=1.0),
    )


def test_no_fit_to_unrelated_data_is_beyond_chance():
    """The best of all lines through two of 30 points, at the distance that flatters it most."""
    rng, holding = np.random.default_rng(6), 0
    pairs = np.array([(i, j) for i in range(30) for j in range(i)])
    for _ in range(100):
        matrix, data = rng.standard_normal((30, 2)), rng.standard_normal(30)
        lines = np.linalg.solve(matrix[pairs], data[pairs][..., None])[..., 0]
        sizes = np.sort(np.abs(lines @ matrix.T - data), axis=1)
        for share in (18, 21, 24, 27):
            best = int(np.argmin(sizes[:, share]))
            fit = fit_of_line(matrix, data, lines[best], sizes[best, share])
            holding += certified(fit).holds
    assert holding <= 4


def test_lines_through_most_of_few_points_are_no_chance():
    rng = np.random.default_rng(7)
    for _ in range(20):
        matrix, x = rng.standard_normal((30, 2)), rng.standard_normal(2) + 2
        data = matrix @ x + 0.02 * rng.standard_normal(30)
        data[:6] = 3 * rng.standard_normal(6)
        fit = fit_of_line(matrix, data, x, 0.06)
        assert certified(fit).holds
        # The same residuals of a fit that chose from so many directions prove nothing.
        assert not certified(fit._replace(tangent=Tangent(freedom=22, error=1.0))).holds


@pytest.mark.parametrize(("freedom", "left"), [(5, 0.01), (40, 0.05), (12, 0.1)])
def test_the_law_of_what_chance_leaves(freedom, left):
    """SciPy's law of the F test, where all is explained; twice the ways for each freedom."""
    hits = freedom + 30
    law = stats.f.sf((1 - left) / freedom * 30 / left, freedom, 30)
    found = log_chance(left, hits, hits, freedom)
    assert 0 <= found - np.log(law * 2.0**freedom) < 3
    twice = log_chance(left, hits, hits + 1, freedom)  # one of all is an outlier, any one
    np.testing.assert_allclose(twice - found, np.log(hits + 1))


@pytest.mark.parametrize("terms", [1, 2])
def test_terms_that_may_be_noise_count_as_errors(terms):
    """The best of many fits with two terms to few data of one term, or of two."""
    for seed in range(5):
        rng = np.random.default_rng((9, seed))
        rows, starts = rng.standard_normal((34, 6, 6)), rng.standard_normal((20, 2, 6, 2))
        truth = rng.standard_normal((6, terms)) @ rng.standard_normal((terms, 6))
        data = np.einsum("mij,ij->m", rows, truth) + 0.03 * rng.standard_normal(34)
        map = lm.maps.LowRank((6, 6), 2)
        problem = lm.Composite(lm.losses.SquaredL2(), map, data, lm.operators.Dense(rows))
        facts = Facts(problem, never)
        one, two = (
            min(
                (refit(facts, None, tuple(start), rank) for start in starts),
                key=lambda fitted: np.sum(fitted.residual**2),
            )
            for rank in (1, 2)
        )
        alone, beside = certify(facts, two).error, certify(facts, two, [one, two]).error
        found = np.asarray(two.map(tuple(jax.numpy.asarray(f) for f in two.x)).dense())
        error = np.linalg.norm(found - truth) / np.linalg.norm(truth)
        assert error < 3 * beside
        assert beside > alone if terms == 1 else beside == alone


def test_few_data_need_not_be_found_again_without_a_part_of_them():
    """Of 30 data three are wrong; a fit to four fifths, with 12 degrees of freedom, fails."""
    right = 0
    for seed in range(4):
        rng = np.random.default_rng((10, seed))
        x, rows = rng.standard_normal((12, 1)), rng.standard_normal((30, 12, 12))
        rows += rows.transpose(0, 2, 1)
        data = np.einsum("mij,ij->m", rows, x @ x.T)
        data += 0.01 * data.std() * rng.standard_normal(30)
        data[:3] = 20 * rng.standard_normal(3)
        found = lm.recover(data, lm.maps.PSD(12, 1), lm.operators.SymmetricDense(rows))
        error = np.linalg.norm(found.point.dense() - x @ x.T) / np.linalg.norm(x @ x.T)
        if found.status is lm.RecoveryStatus.NOISE_LEVEL:
            assert error < 3 * found.expected_error
            right += 1
    assert right >= 2


def test_observations_that_a_fit_goes_through_are_not_explained():
    case = noisy_case(np.zeros(500), np.full(500, 50.0))
    used = np.arange(500) < 280
    case = case._replace(used=used, residual=np.where(used, 0.1, 40.0))
    assert certified(case).holds
    alone = np.arange(280) < 40  # 240 others are explained, no more than half
    case = case._replace(tangent=case.tangent._replace(lone=alone))
    assert "240 of 500" in str(certified(case).objections[0])


def test_copies_of_observations_are_one():
    """Ten different data of which each is there fifty times, and nine degrees of freedom."""
    noise = 0.01 * np.random.default_rng(8).standard_normal(500)
    case = noisy_case(noise, 100 + noise)._replace(level=0.03, noise=0.01)
    assert certified(case).holds
    assert not certified(case._replace(labels=np.arange(500) % 50)).holds


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
    # Its true values are not known, not even their size, which may be that of the others.
    others = np.linalg.norm(left @ right.T, axis=1)
    assert others[5] < np.sqrt(np.mean(others**2))
    np.testing.assert_allclose(distance, np.sqrt(np.mean(others**2)))


def test_what_is_left_over_is_a_term_and_neither_noise_nor_a_row():
    rng = np.random.default_rng(5)
    noise = 0.1 * rng.standard_normal((30, 12, 10))
    map = lm.maps.CP((30, 12, 10), 1)

    def rest(residual, known=None):
        loss = lm.losses.L1(weights=None if known is None else known.astype(float))
        problem = lm.Composite(loss, map, residual)
        return left_over(Facts(problem, never), residual, level=3.0)

    assert rest(noise) == 0
    wild = noise.copy()
    wild[4] = 3 * rng.choice([-1, 1], (12, 10))
    assert rest(wild) == 0
    a, b, c = (rng.uniform(0.5, 1, d) for d in noise.shape)
    term = np.einsum("i,j,k->ijk", a, b, c)
    np.testing.assert_allclose(rest(noise + term), np.linalg.norm(term), rtol=0.05)
    half = rng.random(noise.shape) < 0.5
    np.testing.assert_allclose(rest(noise + term, half), np.linalg.norm(term), rtol=0.1)


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
    fitted = judged(facts, (free,), None, facts.residual((free,)))
    assert facts.vanishes(fitted.residual)
    certificate = certify(facts, fitted)
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


@pytest.mark.parametrize("kind", ["table", "measurements"])
def test_noise_of_two_sizes_is_noise(kind):
    """Half of the data are thirty times more accurate; the expected error holds."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 15))
    operator, exact = None, truth
    if kind == "measurements":
        operator = lm.operators.Dense(rng.standard_normal((500, 20, 15)))
        exact = np.asarray(operator.measure(lm.points.DensePoint(truth)))
    sizes = 0.05 * exact.std() * np.where(rng.random(exact.shape) < 0.5, 0.03, 1.0)
    data = exact + sizes * rng.standard_normal(exact.shape)
    found = lm.recover(data, lm.maps.LowRank((20, 15), rank=3), operator)
    assert (found.status, found.rank) == (lm.RecoveryStatus.NOISE_LEVEL, 2)
    error = np.linalg.norm(found.point.dense() - truth) / np.linalg.norm(truth)
    assert error < 2 * found.expected_error
