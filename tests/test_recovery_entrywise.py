"""Entries of a matrix, a part of them wrong or missing: `recover` finds it, and its rank."""

import jax
import numpy as np
import pytest

import lemmax as lm
from lemmax import RecoveryStatus

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

    def recovered(self, **options) -> lm.Recovery:
        """From a table with holes."""
        return lm.recover(np.where(self.known, self.data, np.nan), self.map, **options)

    def error(self, found: lm.Recovery) -> float:
        return np.linalg.norm(found.point.dense() - self.truth) / np.linalg.norm(self.truth)


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
        {"seen": 0.6, "condition": 100.0},
        {"symmetric": True, "shape": (40, 40)},
    ],
    ids=str,
)
def test_exact_data_give_the_truth_and_its_rank(options):
    instance = Instance(1, **options)
    found = instance.recovered()
    assert (found.status, found.rank) == (RecoveryStatus.EXACT, RANK)
    assert instance.error(found) < 1e-11


def test_a_list_of_entries_gives_the_same_answer():
    instance = Instance(3, shape=(300, 300), outliers=0.1, seen=0.19)
    operator = lm.operators.Entries.from_mask(instance.known)
    assert operator.tilings is not None
    found = lm.recover(instance.data[instance.known], instance.map, operator)
    assert (found.status, found.rank) == (RecoveryStatus.EXACT, RANK)
    assert instance.error(found) < 1e-11
    assert found.residual.shape == (np.count_nonzero(instance.known),)


def test_one_triangle_of_a_symmetric_matrix_is_enough():
    instance = Instance(2, shape=(40, 40), outliers=0.1, symmetric=True)
    operator = lm.operators.Entries.from_mask(np.triu(np.ones((40, 40), bool)))
    found = lm.recover(
        operator.measure(lm.points.DensePoint(instance.data)), instance.map, operator
    )
    assert (found.status, found.rank) == (RecoveryStatus.EXACT, RANK)
    assert instance.error(found) < 1e-10


def test_observations_of_weight_zero_are_missing():
    instance = Instance(4, seen=0.6)
    loss = lm.losses.L1(weights=instance.known.astype(float))
    found = lm.recover(instance.data, instance.map, loss=loss)
    assert instance.error(found) < 1e-11
    np.testing.assert_array_equal(np.isnan(found.residual), ~instance.known)


def test_an_entry_may_be_observed_twice():
    instance = Instance(5, seen=0.6)
    twice = [np.tile(index, 2) for index in np.nonzero(instance.known)]
    operator = lm.operators.Entries(twice, instance.data.shape)
    found = lm.recover(np.tile(instance.data[instance.known], 2), instance.map, operator)
    assert instance.error(found) < 1e-11


@pytest.mark.parametrize(
    "options", [{}, {"seen": 0.6}, {"symmetric": True, "shape": (40, 40)}], ids=str
)
def test_noise_costs_little_more_than_knowing_the_outliers(options):
    instance = Instance(6, condition=5.0, noise=0.02, **options)
    found = instance.recovered()
    assert (found.status, found.rank) == (RecoveryStatus.NOISE_LEVEL, RANK)
    right = (instance.known & ~instance.wrong).astype(float)
    if instance.map.symmetric:  # the lower triangle is a copy of the upper
        right = np.triu(right) + np.triu(right, 1).T
    oracle = least_squares_on(right, instance.data, instance.truth)
    best = np.linalg.norm(oracle - instance.truth) / np.linalg.norm(instance.truth)
    assert instance.error(found) < 1.2 * best


def test_float32_stays_and_is_fitted_to_its_precision():
    instance = Instance(7, condition=10.0)
    found = lm.recover(instance.data.astype(np.float32), instance.map)
    assert {leaf.dtype for leaf in jax.tree.leaves(found.x)} == {np.dtype("float32")}
    assert found.rank == RANK
    error = np.asarray(found.point.dense(), np.float64) - instance.truth
    assert np.linalg.norm(error) < 1e-5 * np.linalg.norm(instance.truth)


def test_units_do_not_matter():
    instance = Instance(1)
    instance.data = instance.data * 1e200
    found = instance.recovered()
    np.testing.assert_allclose(found.point.dense() / 1e200, instance.truth, atol=1e-11)


def test_a_row_and_a_column_of_outliers_spoil_themselves_alone():
    instance = Instance(8, outliers=0.1)
    instance.data[7] = np.random.default_rng(0).uniform(-30, 30, COLUMNS)
    instance.data[:, 9] = 50
    found = instance.recovered()
    assert found.status is RecoveryStatus.NOT_IDENTIFIABLE
    assert found.rank == RANK
    difference = np.delete(np.delete(found.point.dense() - instance.truth, 7, axis=0), 9, axis=1)
    assert np.max(np.abs(difference)) < 1e-11


def test_a_component_of_a_minority_of_rows_is_found():
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((ROWS, RANK)), rng.standard_normal((COLUMNS, RANK))
    left[ROWS // 3 :, -1] = 0  # the bulk of the residuals is zero without it
    truth = left @ right.T
    data = np.where(rng.random(truth.shape) < 0.1, rng.uniform(-10, 10, truth.shape), truth)
    found = lm.recover(data, lm.maps.LowRank(truth.shape, BOUND))
    assert found.rank == RANK
    np.testing.assert_allclose(found.point.dense(), truth, atol=1e-11)


def test_a_generous_bound_on_the_rank_does_no_harm():
    instance = Instance(1)
    instance.map = lm.maps.LowRank((ROWS, COLUMNS), COLUMNS + 5)
    found = instance.recovered()
    assert (found.status, found.rank) == (RecoveryStatus.EXACT, RANK)
    assert instance.error(found) < 1e-11


@pytest.mark.parametrize("options", [{"outliers": 0.6}, {"seen": 0.03}, {"noise": 100.0}], ids=str)
def test_hopeless_data_are_refused_with_a_finite_fit(options):
    found = Instance(9, **options).recovered()
    assert not found.status.succeeded
    assert np.all(np.isfinite(found.point.dense()))
    assert found.rank <= BOUND


@pytest.mark.parametrize(
    "data",
    [np.arange(1.0, 9.0)[None, :], np.arange(1.0, 9.0)[:, None], np.ones((1, 1))],
    ids=["one row", "one column", "one entry"],
)
def test_degenerate_data_are_fitted_and_prove_nothing(data):
    found = lm.recover(data, lm.maps.LowRank(data.shape, 2))
    assert not found.status.succeeded
    assert np.all(np.isfinite(found.point.dense()))


def test_nothing_positive_semidefinite_in_the_data():
    found = lm.recover(np.full((10, 10), -3.0), lm.maps.PSD(10, 2))
    assert not found.status.succeeded


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_callback_sees_the_steps_and_stops_them(symmetric):
    calls = []

    def callback(stage, step, value):
        calls.append((stage, step, value))
        return True

    shape = (40, 40) if symmetric else (ROWS, COLUMNS)
    found = Instance(1, shape=shape, symmetric=symmetric).recovered(callback=callback)
    assert len(calls) == 1
    assert found.status is RecoveryStatus.INTERRUPTED
    assert np.all(np.isfinite(found.point.dense()))


def test_the_same_seed_gives_the_same_answer():
    first, second = (Instance(1).recovered(seed=3) for _ in range(2))
    assert first.steps == second.steps
    np.testing.assert_array_equal(first.residual, second.residual)
