import jax
import numpy as np
import pytest

import lemmax as lm
from lemmax.recovery._entrywise import EntrywiseFit, fit_entries

ROWS, COLUMNS, RANK, BOUND = 100, 80, 3, 6


class Instance:
    """A low-rank matrix of entries of variance 1, with outliers, gaps and noise."""

    def __init__(
        self,
        seed=0,
        *,
        shape=(ROWS, COLUMNS),
        condition=1.0,
        outliers=0.2,
        seen=1.0,
        noise=0.0,
        size=10.0,
        one_sign=False,
        symmetric=False,
    ):
        rng = np.random.default_rng(seed)
        left = np.linalg.qr(rng.standard_normal((shape[0], RANK)))[0]
        right = left if symmetric else np.linalg.qr(rng.standard_normal((shape[1], RANK)))[0]
        self.truth = left * np.geomspace(1, 1 / condition, RANK) @ right.T
        self.truth /= np.std(self.truth)
        self.wrong = rng.random(shape) < outliers
        errors = rng.uniform(0 if one_sign else -size, size, shape)
        self.known = rng.random(shape) < seen
        self.data = (
            self.truth + noise * rng.standard_normal(shape) + np.where(self.wrong, errors, 0)
        )
        if symmetric:
            self.data = np.triu(self.data) + np.triu(self.data, 1).T
        self.map = lm.maps.PSD(shape[0], BOUND) if symmetric else lm.maps.LowRank(shape, BOUND)

    def problem(self):
        operator, data = None, self.data
        if not np.all(self.known):
            operator, data = lm.operators.Entries.from_mask(self.known), data[self.known]
        return lm.Composite(lm.losses.L1(), self.map, data, operator)

    def error(self, fit: EntrywiseFit) -> float:
        return np.linalg.norm(matrix(fit) - self.truth) / np.linalg.norm(self.truth)


def matrix(fit: EntrywiseFit) -> np.ndarray:
    left, right = fit.x if isinstance(fit.x, tuple) else (fit.x, fit.x)
    return np.asarray(left) @ np.asarray(right).T


def is_finite(fit: EntrywiseFit) -> bool:
    return all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves((fit.x, fit.residual)))


def least_squares_on(inliers: np.ndarray, data: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Alternating least squares that knows the inliers, the rank, and where to begin."""
    right = np.linalg.svd(start)[2][:RANK].T

    def solve_rows(values, weights, other):
        grams = np.einsum("ij,jk,jl->ikl", weights, other, other)
        return np.linalg.solve(grams, (weights * values @ other)[..., None])[..., 0]

    for _ in range(50):
        left = np.linalg.qr(solve_rows(data, inliers, right))[0]
        right = solve_rows(data.T, inliers.T, left)
    return left @ right.T


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"condition": 100.0},
        {"outliers": 0.4},
        {"one_sign": True},
        {"size": 1.0, "condition": 10.0, "one_sign": True},
        {"outliers": 0.0},
        {"symmetric": True, "shape": (80, 80)},
    ],
    ids=str,
)
def test_exact_data_give_the_truth_and_its_rank(options):
    instance = Instance(1, **options)
    fit = fit_entries(instance.problem())
    assert fit.map.rank == RANK
    assert fit.converged
    assert instance.error(fit) < 1e-11


@pytest.mark.parametrize("condition", [1.0, 100.0])
def test_missing_entries(condition):
    instance = Instance(2, condition=condition, seen=0.6)
    fit = fit_entries(instance.problem())
    assert fit.map.rank == RANK
    assert instance.error(fit) < 1e-11
    assert fit.residual.shape == (np.count_nonzero(instance.known),)
    np.testing.assert_allclose(
        fit.residual, (matrix(fit) - instance.data)[instance.known], atol=1e-12
    )


def test_few_entries_are_kept_sparse_and_give_the_same_answer():
    instance = Instance(3, shape=(300, 300), outliers=0.1, seen=0.19)
    assert instance.problem().operator.tilings is not None
    fit = fit_entries(instance.problem())
    assert fit.map.rank == RANK
    assert instance.error(fit) < 1e-11


def test_observations_of_weight_zero_are_missing():
    instance = Instance(4, seen=0.6)
    weights = instance.known.astype(float)
    problem = lm.Composite(lm.losses.L1(weights=weights), instance.map, instance.data)
    fit = fit_entries(problem)
    assert instance.error(fit) < 1e-11
    assert fit.residual.shape == instance.data.shape


def test_an_entry_may_be_observed_twice():
    instance = Instance(5, seen=0.6)
    twice = [np.tile(index, 2) for index in np.nonzero(instance.known)]
    operator = lm.operators.Entries(twice, instance.data.shape)
    data = np.tile(instance.data[instance.known], 2)
    fit = fit_entries(lm.Composite(lm.losses.L1(), instance.map, data, operator))
    assert instance.error(fit) < 1e-11


@pytest.mark.parametrize("seen", [1.0, 0.6])
def test_noise_costs_little_more_than_knowing_the_outliers(seen):
    instance = Instance(6, condition=5.0, seen=seen, noise=0.02)
    fit = fit_entries(instance.problem())
    assert fit.map.rank == RANK
    assert fit.converged
    inliers = (instance.known & ~instance.wrong).astype(float)
    oracle = least_squares_on(inliers, instance.data, instance.truth)
    best = np.linalg.norm(oracle - instance.truth) / np.linalg.norm(instance.truth)
    assert instance.error(fit) < 1.2 * best


def test_float32_stays_and_is_fitted_to_its_precision():
    instance = Instance(7, condition=10.0)
    instance.data = instance.data.astype(np.float32)
    fit = fit_entries(instance.problem())
    assert {leaf.dtype for leaf in jax.tree.leaves((fit.x, fit.residual))} == {np.dtype("float32")}
    assert fit.map.rank == RANK
    assert instance.error(fit) < 1e-5


def test_units_do_not_matter():
    instance = Instance(1)
    instance.data = instance.data * 1e200
    fit = fit_entries(instance.problem())
    np.testing.assert_allclose(matrix(fit) / 1e200, instance.truth, atol=1e-11)


def test_a_row_and_a_column_of_outliers_spoil_themselves_alone():
    instance = Instance(8, outliers=0.1)
    instance.data[7] = np.random.default_rng(0).uniform(-30, 30, COLUMNS)
    instance.data[:, 9] = 50
    fit = fit_entries(instance.problem())
    assert fit.map.rank == RANK
    difference = np.delete(np.delete(matrix(fit) - instance.truth, 7, axis=0), 9, axis=1)
    assert np.max(np.abs(difference)) < 1e-11


def test_a_component_of_a_minority_of_rows_is_found():
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((ROWS, RANK)), rng.standard_normal((COLUMNS, RANK))
    left[ROWS // 3 :, -1] = 0  # the bulk of the residuals is zero without it
    truth = left @ right.T
    data = np.where(rng.random(truth.shape) < 0.1, rng.uniform(-10, 10, truth.shape), truth)
    problem = lm.Composite(lm.losses.L1(), lm.maps.LowRank(truth.shape, BOUND), data)
    fit = fit_entries(problem)
    assert fit.map.rank == RANK
    np.testing.assert_allclose(matrix(fit), truth, atol=1e-11)


def test_a_generous_bound_on_the_rank_does_no_harm():
    instance = Instance(1)
    instance.map = lm.maps.LowRank((ROWS, COLUMNS), COLUMNS + 5)
    fit = fit_entries(instance.problem())
    assert fit.map.rank == RANK
    assert instance.error(fit) < 1e-11


@pytest.mark.parametrize("options", [{"outliers": 0.6}, {"seen": 0.03}, {"noise": 100.0}], ids=str)
def test_hopeless_data_give_a_finite_fit(options):
    fit = fit_entries(Instance(9, **options).problem())
    assert is_finite(fit)
    assert fit.map.rank <= BOUND


@pytest.mark.parametrize(
    "data",
    [
        np.zeros((10, 8)),
        np.arange(1.0, 9.0)[None, :],
        np.arange(1.0, 9.0)[:, None],
        np.ones((1, 1)),
    ],
    ids=["zeros", "one row", "one column", "one entry"],
)
def test_degenerate_data_are_fitted_exactly(data):
    problem = lm.Composite(lm.losses.L1(), lm.maps.LowRank(data.shape, 2), data)
    fit = fit_entries(problem)
    assert fit.map.rank == 1
    np.testing.assert_allclose(fit.residual, 0, atol=1e-12)


def test_nothing_positive_semidefinite_in_the_data():
    problem = lm.Composite(lm.losses.L1(), lm.maps.PSD(10, 2), np.full((10, 10), -3.0))
    fit = fit_entries(problem)
    assert not fit.converged
    assert not np.any(fit.x)


def test_watch_sees_the_steps_and_stops_them():
    calls = []

    def watch(step, rank, scale):
        calls.append((step, rank, scale))
        return True

    fit = fit_entries(Instance(1, condition=100.0).problem(), watch=watch)
    assert len(calls) == 1
    assert calls[0][0] == fit.steps
    assert fit.interrupted
    assert not fit.converged
    assert is_finite(fit)


def test_steps_are_limited():
    fit = fit_entries(Instance(1).problem(), max_steps=5)
    assert fit.steps == 5
    assert not fit.interrupted
    assert not fit.converged
    assert is_finite(fit)


def test_the_same_seed_gives_the_same_fit():
    problem = Instance(1).problem()
    first, second = (fit_entries(problem, seed=3) for _ in range(2))
    assert first.steps == second.steps
    np.testing.assert_array_equal(first.residual, second.residual)


def test_other_problems_are_refused():
    sensed = lm.Composite(lm.losses.L1(), lm.maps.Square(3), np.ones(3))
    with pytest.raises(TypeError, match="LowRank or PSD"):
        fit_entries(sensed)
    operator = lm.operators.Dense(np.ones((4, 2, 2)))
    with pytest.raises(TypeError, match="Identity or Entries"):
        fit_entries(lm.Composite(lm.losses.L1(), lm.maps.PSD(2, 1), np.ones(4), operator))
