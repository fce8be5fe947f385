"""Starts from data alone: how far from the truth they are, and whether LMM goes on from them."""

import numpy as np
import pytest

import lemmax as lm
from lemmax.experiments.instances import (
    cp_factorisation,
    cp_sensing,
    low_rank_sensing,
    nonnegative_least_squares,
    psd_factorisation,
    psd_sensing,
    symmetric_cp_factorisation,
    symmetric_cp_sensing,
)
from lemmax.init import spectral

SEEDS = range(3)


ROUNDS = 9


def dense_error(problem, x, truth):
    """By NumPy alone: sums of outer products of the columns."""
    factors = x if isinstance(x, tuple) else (x,) * len(problem.map.shape)
    letters = "abcd"[: len(factors)]
    formula = ",".join(letter + "z" for letter in letters) + "->" + letters
    made = np.einsum(formula, *factors)
    return np.linalg.norm(made - truth) / np.linalg.norm(truth)


def start_error(instance, seed=0):
    start = spectral(instance.problem, seed=seed)
    return dense_error(instance.problem, start.x0, np.asarray(instance.truth.dense()))


def intensities(seed, dim, rank, measurements, outliers=0.0, operator=lm.operators.RankOne):
    """Real phase retrieval: squares of inner products with a hidden vector."""
    rng = np.random.default_rng(seed)
    vectors, hidden = rng.standard_normal((measurements, dim)), rng.standard_normal(dim)
    data = (vectors @ hidden) ** 2
    wrong = rng.choice(measurements, int(outliers * measurements), replace=False)
    data[wrong] = 10 * np.sqrt(np.mean(data**2)) * rng.standard_normal(wrong.size)
    problem = lm.Composite(lm.losses.L1(), lm.maps.PSD(dim, rank), data, operator(vectors))
    return problem, np.outer(hidden, hidden)


def spoiled_matrix(seed, dim, true_rank, outliers):
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((dim, true_rank)) @ rng.standard_normal((true_rank, dim - 5))
    wrong = rng.uniform(size=truth.shape) < outliers
    spoiled = np.where(wrong, 10 * truth.std() * rng.uniform(-1, 1, truth.shape), truth)
    return truth, spoiled, rng.uniform(size=truth.shape) < 0.6


@pytest.mark.parametrize("law", ["noise", "signal"])
@pytest.mark.parametrize("outliers", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("rank", [2, 5])
def test_psd(rank, outliers, law):
    for seed in SEEDS:
        instance = psd_sensing(
            seed,
            dim=20,
            rank=rank,
            measurements=480,
            condition=10.0,
            outliers=outliers,
            outlier_law=law,
        )
        assert start_error(instance) < 0.1


@pytest.mark.parametrize("outliers", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("rank", [2, 4])
def test_low_rank(rank, outliers):
    for seed in SEEDS:
        instance = low_rank_sensing(
            seed, shape=(12, 17), rank=rank, measurements=580, condition=10.0, outliers=outliers
        )
        assert start_error(instance) < 0.15


@pytest.mark.parametrize(
    ("rank", "bound", "outliers"),
    [
        (2, 0.1, 0.3),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((2, 0.1, 0.0), (2, 0.1, 0.1), (4, 0.2, 0.0), (4, 0.2, 0.1), (4, 0.2, 0.3))
        ),
    ],
)
def test_cp(rank, bound, outliers):
    for seed in SEEDS:
        settings = {"rank": rank, "condition": 3.0, "outliers": outliers}
        instance = cp_sensing(seed, dims=(10, 12, 9), measurements=620, **settings)
        assert start_error(instance) < bound
        instance = symmetric_cp_sensing(seed, dim=12, measurements=300, **settings)
        assert start_error(instance) < bound


def test_a_generous_rank_of_a_tensor():
    instance = cp_sensing(
        0, dims=(12, 12, 12), true_rank=3, rank=6, measurements=1700, outliers=0.2
    )
    assert start_error(instance) < 0.1


@pytest.mark.parametrize("order", [3, 4])
def test_symmetric_orders(order):
    instance = symmetric_cp_sensing(0, dim=6, rank=2, measurements=400, order=order)
    assert start_error(instance) < 0.1


@pytest.mark.parametrize(("outliers", "bound"), [(0.0, 0.05), (0.1, 0.15), (0.3, 0.3)])
def test_phase_retrieval(outliers, bound):
    for seed in SEEDS:
        problem, truth = intensities(seed, 20, 1, 200, outliers)
        assert dense_error(problem, spectral(problem).x0, truth) < bound


def test_a_quadratic_operator_is_recognised_whatever_its_class():
    stacked = lambda a: lm.operators.SymmetricDense(a[:, :, None] * a[:, None, :])  # noqa: E731
    for operator in (lm.operators.RankOne, stacked):
        problem, truth = intensities(3, 12, 3, 200, operator=operator)
        start = spectral(problem)
        assert "quadratic" in start.note
        assert dense_error(problem, start.x0, truth) < 0.3
        assert start.passes == 1 + 2 + 2 * ROUNDS


@pytest.mark.parametrize(("outliers", "bound"), [(0.0, 0.2), (0.1, 0.4), (0.3, 0.7)])
def test_entries(outliers, bound):
    for seed in SEEDS:
        truth, spoiled, mask = spoiled_matrix(seed, 60, 2, outliers)
        everything = lm.Composite(lm.losses.L1(), lm.maps.LowRank(truth.shape, 3), spoiled)
        some = lm.Composite(
            lm.losses.L1(),
            lm.maps.LowRank(truth.shape, 3),
            spoiled[mask],
            lm.operators.Entries.from_mask(mask),
        )
        for problem in (everything, some):
            x, y = spectral(problem).x0
            assert np.linalg.norm(x @ y.T - truth) < bound * np.linalg.norm(truth)
            np.testing.assert_allclose(np.linalg.norm(x, axis=0), np.linalg.norm(y, axis=0))


def test_observations_of_weight_zero_are_missing():
    truth, spoiled, mask = spoiled_matrix(0, 40, 2, 0.1)
    low_rank, operator = lm.maps.LowRank(truth.shape, 2), lm.operators.Entries.from_mask(mask)
    left_out = lm.Composite(lm.losses.L1(), low_rank, spoiled[mask], operator)
    loss = lm.losses.L1(weights=mask.astype(float))
    ignored = lm.Composite(loss, low_rank, np.where(mask, spoiled, 1e9))
    for one, other in zip(spectral(left_out).x0, spectral(ignored).x0, strict=True):
        np.testing.assert_allclose(np.abs(one), np.abs(other), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("gross", [False, True])
def test_square_is_positive_everywhere(gross):
    instance = nonnegative_least_squares(0, dim=20, true_rank=6, measurements=100)
    problem, truth = instance.problem, np.asarray(instance.truth.dense())
    if gross:
        data = np.array(problem.data)
        data[:25] = 100.0
        problem = lm.Composite(lm.losses.L1(), problem.map, data, problem.operator)
    x0 = spectral(problem).x0
    assert np.all(x0 > 0)
    assert np.linalg.norm(x0**2 - truth) < 0.6 * np.linalg.norm(truth)


@pytest.mark.parametrize(
    "instance",
    [
        psd_factorisation(0, dim=30, rank=4, condition=100.0),
        cp_factorisation(0, dims=(30, 20, 25), rank=5, true_rank=3, condition=10.0),
        symmetric_cp_factorisation(0, dim=30, rank=5, true_rank=3, condition=10.0),
        symmetric_cp_factorisation(0, dim=10, rank=3, true_rank=2, order=4),
    ],
    ids=["psd", "cp", "symmetric", "order 4"],
)
def test_factored_data_are_decomposed(instance):
    start = spectral(instance.problem)
    assert start.passes == 1
    assert float(instance.problem.map(start.x0).distance(instance.truth)) < 1e-5


def test_a_tensor_of_zeros_is_made_of_zeros():
    """A search may end there; the data themselves are refused."""
    zeros = tuple(np.zeros((d, 2)) for d in (3, 4, 5))
    x = lm.maps.CP((3, 4, 5), 2).truncate(zeros, 1, np.random.default_rng(0))
    assert [factor.shape for factor in x] == [(3, 2), (4, 2), (5, 2)]
    assert not any(np.any(factor) for factor in x)


def test_factored_data_of_a_higher_rank_are_truncated():
    """The nearest matrix of a rank is the truncated SVD (Eckart and Young)."""
    rng = np.random.default_rng(0)
    factor = np.linalg.qr(rng.standard_normal((20, 5)))[0] * np.sqrt([5.0, 4, 3, 2, 1])
    data = lm.points.KruskalPoint((factor, factor))
    problem = lm.Composite(lm.losses.L2(), lm.maps.PSD(20, 2), data)
    x0 = spectral(problem).x0
    np.testing.assert_allclose(x0 @ x0.T, factor[:, :2] @ factor[:, :2].T, atol=1e-12)
    negative = lm.points.KruskalPoint((factor, -factor))
    with pytest.raises(ValueError, match="negative semidefinite"):
        spectral(lm.Composite(lm.losses.L2(), lm.maps.PSD(20, 2), negative))


def test_factored_data_are_never_formed():
    instance = cp_factorisation(0, dims=(3000, 2000, 2500), rank=3)
    start = spectral(instance.problem)
    assert float(instance.problem.map(start.x0).distance(instance.truth)) < 1e-5


CONVERGE = {
    "psd": lambda: psd_sensing(1, dim=15, rank=4, measurements=300, condition=10.0),
    "low rank": lambda: low_rank_sensing(1, shape=(10, 12), rank=4, measurements=360),
    "cp": lambda: cp_sensing(1, dims=(15, 15, 15), rank=3, measurements=900),
}


@pytest.mark.parametrize("kind", CONVERGE)
def test_lmm_takes_over_to_the_end(kind):
    instance = CONVERGE[kind]()
    x0 = spectral(instance.problem).x0
    result = lm.solve(instance.problem, lm.methods.lmm(), x0, max_steps=600, tol=1e-12)
    assert dense_error(instance.problem, result.x, np.asarray(instance.truth.dense())) < 1e-8


def test_lmm_retrieves_phases():
    problem, truth = intensities(0, 20, 1, 120)
    x0 = spectral(problem).x0
    result = lm.solve(problem, lm.methods.lmm(), x0, max_steps=600, tol=1e-12)
    assert dense_error(problem, result.x, truth) < 1e-8


def test_lmm_takes_over_with_outliers():
    instance = psd_sensing(0, dim=15, rank=2, measurements=300, outliers=0.3, condition=10.0)
    x0 = spectral(instance.problem).x0
    method = lm.methods.lmm(lm.steps.Geometric(1e-2, 0.95), lm.damping.Geometric(1e-5, 0.95))
    result = lm.solve(instance.problem, method, x0, max_steps=600, tol=0)
    assert dense_error(instance.problem, result.x, np.asarray(instance.truth.dense())) < 1e-8
