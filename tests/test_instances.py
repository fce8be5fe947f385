"""Instances are what their arguments say: checked with NumPy on the dense arrays."""

import functools
import math

import jax
import numpy as np
import pytest

import lemmax as lm
from lemmax.experiments import instances

CONDITION, OUTLIERS, START_ERROR = 25.0, 0.25, 3e-3

SENSING = {
    "psd": functools.partial(instances.psd_sensing, dim=5, rank=3, measurements=60),
    "low-rank": functools.partial(
        instances.low_rank_sensing, shape=(5, 4), rank=3, measurements=60
    ),
    "cp": functools.partial(instances.cp_sensing, dims=(5, 4, 3), rank=3, measurements=60),
    "symmetric-cp": functools.partial(
        instances.symmetric_cp_sensing, dim=4, rank=3, measurements=60
    ),
}
FACTORISATION = {
    "psd": functools.partial(instances.psd_factorisation, dim=5, rank=3),
    "cp": functools.partial(instances.cp_factorisation, dims=(5, 4, 3), rank=3),
    "symmetric-cp": functools.partial(instances.symmetric_cp_factorisation, dim=4, rank=3),
}
NONNEGATIVE = functools.partial(
    instances.nonnegative_least_squares, dim=6, true_rank=2, measurements=9
)
ALL = {
    **{f"{name}-sensing": make for name, make in SENSING.items()},
    **{f"{name}-factorisation": make for name, make in FACTORISATION.items()},
    "nonnegative": NONNEGATIVE,
}


@functools.cache
def instance_of(name, seed=0):
    return ALL[name](seed, condition=CONDITION, start_error=START_ERROR)


def arrays(instance):
    leaves = jax.tree.leaves((instance.problem, instance.x0, instance.truth))
    return [np.asarray(leaf) for leaf in leaves]


def dense_array(point):
    """By outer products; the library multiplies matrices instead."""
    if isinstance(point, lm.points.DensePoint):
        return np.asarray(point.value)
    columns = zip(*(np.asarray(factor).T for factor in point.factors), strict=True)
    return sum(functools.reduce(np.multiply.outer, term) for term in columns)


def changed(instance):
    """Which observations are not those of the truth."""
    clean = np.asarray(instance.problem.operator.measure(instance.truth))
    return np.abs(np.asarray(instance.problem.data) - clean) > 1e-12


@pytest.mark.parametrize("name", ALL)
def test_the_seed_decides(name):
    first, other = instance_of(name), instance_of(name, seed=1)
    again = ALL[name](0, condition=CONDITION, start_error=START_ERROR)
    for mine, same in zip(arrays(first), arrays(again), strict=True):
        np.testing.assert_array_equal(mine, same)
    for mine, theirs in zip(jax.tree.leaves(first.x0), jax.tree.leaves(other.x0), strict=True):
        assert not np.any(mine == theirs)


@pytest.mark.parametrize("name", ALL)
def test_the_start_has_the_relative_error_asked_for(name):
    instance = instance_of(name)
    truth = dense_array(instance.truth)
    start = dense_array(instance.problem.map(instance.x0))
    error = np.linalg.norm(start - truth) / np.linalg.norm(truth)
    assert error == pytest.approx(START_ERROR, rel=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_the_truth_has_the_spectrum_asked_for(name):
    truth = dense_array(instance_of(name).truth)
    for mode in range(truth.ndim):
        unfolded = np.moveaxis(truth, mode, 0).reshape(truth.shape[mode], -1)
        values = np.sort(truth)[::-1] if truth.ndim == 1 else np.linalg.svd(unfolded)[1]
        np.testing.assert_allclose(values[:2], [1.0, 1.0 / CONDITION], rtol=1e-12)
        np.testing.assert_allclose(values[2:], 0, atol=1e-14)


@pytest.mark.parametrize("name", ALL)
def test_the_data_are_those_of_the_truth(name):
    problem, _, truth = instance_of(name)
    expected = dense_array(truth)
    if isinstance(problem.data, lm.points.KruskalPoint):
        np.testing.assert_allclose(dense_array(problem.data), expected, atol=1e-15)
        return
    if isinstance(problem.operator, lm.operators.SymmetricDense):
        positions = np.indices(expected.shape).reshape(expected.ndim, -1).T
        distinct = sorted({tuple(sorted(p.tolist())) for p in positions})
        column = {index: k for k, index in enumerate(distinct)}
        every = [column[tuple(sorted(p.tolist()))] for p in positions]
        matrix = np.asarray(problem.operator.packed)[:, every]
    else:
        matrix = np.asarray(problem.operator.matrix)
    np.testing.assert_allclose(problem.data, matrix @ expected.ravel(), atol=1e-14)


@pytest.mark.parametrize("name", SENSING)
def test_another_operator_leaves_everything_else(name):
    make = functools.partial(SENSING[name], outliers=OUTLIERS)
    own, borrowed = make(0), make(1).problem.operator
    other = make(0, operator=borrowed)
    assert other.problem.operator is borrowed
    for mine, theirs in zip(arrays(own)[-2:], arrays(other)[-2:], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for mine, theirs in zip(jax.tree.leaves(own.x0), jax.tree.leaves(other.x0), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(changed(own), changed(other))
    # And what is no argument of the operator does not change it.
    harder = SENSING[name](0, condition=CONDITION)
    mine, theirs = (jax.tree.leaves(i.problem.operator)[0] for i in (own, harder))
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.49])
def test_the_fraction_asked_for_is_corrupted(fraction):
    instance = SENSING["psd"](0, outliers=fraction)
    assert np.count_nonzero(changed(instance)) == math.floor(fraction * 60)


def test_noise_is_ten_times_the_size_of_the_data():
    data = np.random.default_rng(0).standard_normal(40_000)
    corrupted = instances.corrupt(np.random.default_rng(1), data, 0.5)
    wrong = corrupted[corrupted != data]
    assert np.std(wrong) == pytest.approx(10, rel=0.03)


def test_a_wrong_signal_is_measured_by_the_same_operator():
    instance = SENSING["psd"](0, outliers=0.5, outlier_law="signal")
    wrong = changed(instance)
    assert np.count_nonzero(wrong) == 30
    rows, columns = np.triu_indices(5)
    matrix = np.asarray(instance.problem.operator.packed) * np.where(rows == columns, 1, 2)
    data = np.asarray(instance.problem.data)
    signal, residual, *_ = np.linalg.lstsq(matrix[wrong], data[wrong])
    assert residual[0] < 1e-25
    assert np.all((signal > 0) & (signal < 1))


@pytest.mark.parametrize("order", [2, 3])
def test_packed_entries_have_the_law_of_symmetrised_gaussian_arrays(order):
    dim, count = 3, 40_000
    make = {2: instances.psd_sensing, 3: instances.symmetric_cp_sensing}[order]
    packed = np.asarray(make(0, dim=dim, rank=2, measurements=count).problem.operator.packed)
    full = np.random.default_rng(1).standard_normal((count, *(dim,) * order)) / math.sqrt(count)
    symmetrised = np.asarray(lm.operators.SymmetricDense(full).packed)
    mine, theirs = (a.T @ a for a in (packed, symmetrised))  # the sum over 40 000 of variance 1/m
    spread = np.sqrt(np.outer(np.diag(theirs), np.diag(theirs)) * 2 / count)
    np.testing.assert_array_less(np.abs(mine - theirs), 6 * spread)
    # Observations of a fixed symmetric point vary as those by the full arrays: |point|^2 / m.
    factor = np.random.default_rng(2).standard_normal((dim, 2))
    point = lm.points.KruskalPoint((factor,) * order)
    operator = lm.operators.SymmetricDense.from_packed(packed, dim, order)
    energy = np.sum(np.asarray(operator.measure(point)) ** 2)
    assert energy == pytest.approx(np.sum(dense_array(point) ** 2), rel=6 * math.sqrt(2 / count))


def test_gaussian_entries_have_variance_one_over_the_measurements():
    matrix = np.asarray(SENSING["cp"](0).problem.operator.matrix)
    assert np.sum(matrix**2) == pytest.approx(60, rel=6 * math.sqrt(2 / matrix.size))


@pytest.mark.parametrize("measurements", [9, 4])
def test_nonnegative_least_squares_is_the_papers(measurements):
    instance = NONNEGATIVE(0, condition=CONDITION, measurements=measurements)
    values = np.linalg.svd(np.asarray(instance.problem.operator.matrix))[1]
    np.testing.assert_allclose(values, np.linspace(1, 0.1, min(measurements, 6)), rtol=1e-12)
    assert np.all(instance.x0**2 > instance.truth.dense())
    assert isinstance(instance.problem.loss, lm.losses.SquaredL2)


@pytest.mark.parametrize("symmetric", [True, False])
def test_matrix_sensing_takes_the_papers_number_of_measurements(symmetric):
    settings = {"rank": 3, "condition": 4.0, "outliers": 0.1, "start_error": 1e-3}
    chosen = instances.matrix_sensing(symmetric, 2, dim=4, **settings)
    if symmetric:
        expected = instances.psd_sensing(2, dim=4, measurements=24, **settings)
    else:
        expected = instances.low_rank_sensing(2, shape=(4, 4), measurements=48, **settings)
    for mine, theirs in zip(arrays(chosen), arrays(expected), strict=True):
        np.testing.assert_array_equal(mine, theirs)


BAD = [
    ("psd-sensing", {"seed": -1}, "seed must be a whole number of at least 0"),
    ("psd-sensing", {"dim": 0}, "dim must be a whole number of at least 1"),
    ("psd-sensing", {"rank": 0}, "rank must be a whole number of at least 1"),
    ("psd-sensing", {"rank": 1}, "true rank must be at most the fitted rank"),
    ("psd-sensing", {"true_rank": 4}, "true rank must be at most the fitted rank"),
    ("psd-sensing", {"measurements": 0}, "measurements must be a whole number of at least 1"),
    ("psd-sensing", {"condition": 0.5}, "condition must be at least 1"),
    ("psd-sensing", {"condition": math.inf}, "condition must be at least 1 and at most 1e[+]16"),
    ("psd-sensing", {"outliers": -0.1}, "outliers must be at least 0"),
    ("psd-sensing", {"outliers": 1.0}, "outliers must be below 1"),
    ("psd-sensing", {"outliers": math.nan}, "outliers must be at least 0"),
    ("psd-sensing", {"start_error": 0.0}, "start_error must be above 0"),
    ("low-rank-sensing", {"shape": (5, 2), "true_rank": 3}, "every dimension"),
    ("low-rank-sensing", {"shape": (5, -2)}, "dimension 1 must be a whole number"),
    ("cp-sensing", {"dims": (5,)}, "two or more dimensions"),
    ("cp-sensing", {"measurements": 0}, "measurements must be"),
    ("symmetric-cp-sensing", {"order": 1}, "order must be a whole number of at least 2"),
    ("symmetric-cp-factorisation", {"order": 1}, "order must be a whole number of at least 2"),
    ("symmetric-cp-factorisation", {"condition": 0.0}, "condition must be"),
    ("cp-factorisation", {"rank": 1}, "true rank must be at most the fitted rank"),
    ("psd-factorisation", {"redundant_scale": -1.0}, "redundant_scale must be at least 0"),
    ("nonnegative", {"true_rank": 7}, "true rank must be at most the dimension"),
    ("nonnegative", {"measurements": 0}, "measurements must be"),
]


@pytest.mark.parametrize(("name", "wrong", "sentence"), BAD)
def test_arguments_that_cannot_be_get_a_sentence(name, wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        ALL[name](**{"seed": 0, **wrong})


def test_an_operator_that_does_not_fit_gets_a_sentence():
    borrowed = instance_of("psd-sensing").problem.operator
    with pytest.raises(ValueError, match=r"points of shape \(5, 5\); 60 observations of \(4, 4\)"):
        SENSING["psd"](0, dim=4, operator=borrowed)
    with pytest.raises(ValueError, match="59 observations"):
        SENSING["psd"](0, measurements=59, operator=borrowed)
