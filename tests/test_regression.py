"""Regressions against SciPy's active sets and linear programs."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog, nnls

import lemmax as lm


def least_absolute_value(design, target, weights, nonnegative):
    """The minimum of a weighted l1 regression, by a linear program."""
    n, p = design.shape
    cost = np.concatenate([np.zeros(p), weights])
    above = np.hstack([design, -np.eye(n)])
    below = np.hstack([-design, -np.eye(n)])
    bounds = [(0 if nonnegative else None, None)] * p + [(0, None)] * n
    limits = np.concatenate([target, -target])
    return linprog(cost, np.vstack([above, below]), limits, bounds=bounds).fun


@pytest.mark.parametrize("shape", [(30, 8), (8, 12), (40, 40)])
def test_nonnegative_least_squares_agree_with_scipy(shape):
    rng = np.random.default_rng(0)
    design = rng.standard_normal(shape)
    targets = rng.standard_normal((25, shape[0]))
    found = lm.regress(design, targets, nonnegative=True)
    assert np.all(found.settled)
    assert np.all(found.coefficients >= 0)
    for row, target in zip(found.coefficients, targets, strict=True):
        _, best = nnls(design, target)
        assert np.linalg.norm(design @ row - target) <= best * (1 + 1e-10) + 1e-10


def test_more_positive_coefficients_than_expected():
    """Of many unknowns half are expected to be positive: here all, none, and anything between."""
    rng = np.random.default_rng(5)
    design = rng.standard_normal((80, 56))
    truth = rng.random((20, 56)) - np.linspace(0, 1, 20)[:, None]
    targets = truth @ design.T
    found = lm.regress(design, targets, nonnegative=True)
    assert np.all(found.settled)
    wanted = np.stack([nnls(design, target)[0] for target in targets])
    counts = np.sum(wanted > 0, axis=1)
    assert counts.max() == 56
    assert counts.min() < 20
    np.testing.assert_allclose(found.coefficients, wanted, atol=1e-12)


def test_columns_that_coincide_do_not_stop_it():
    rng = np.random.default_rng(1)
    design = rng.standard_normal((20, 3))[:, [0, 1, 2, 1, 0]]
    targets = rng.standard_normal((6, 20))
    found = lm.regress(design, targets, nonnegative=True)
    for row, target in zip(found.coefficients, targets, strict=True):
        assert np.linalg.norm(design @ row - target) <= nnls(design, target)[1] * (1 + 1e-8)


def test_badly_scaled_columns_do_not_stop_it():
    rng = np.random.default_rng(2)
    design = rng.standard_normal((30, 10)) * np.logspace(-3, 3, 10)
    targets = rng.standard_normal((10, 30))
    found = lm.regress(design, targets, nonnegative=True)
    for row, target in zip(found.coefficients, targets, strict=True):
        assert np.linalg.norm(design @ row - target) <= nnls(design, target)[1] * (1 + 1e-8)


@pytest.mark.parametrize("nonnegative", [False, True])
def test_least_absolute_deviations_agree_with_a_linear_program(nonnegative):
    rng = np.random.default_rng(3)
    design = np.abs(rng.standard_normal((60, 10)))
    truth = np.maximum(rng.standard_normal((10, 12)), 0)
    targets = design @ truth + 0.1 * rng.standard_normal((60, 12))
    targets[rng.random(targets.shape) < 0.1] += 10
    weights = rng.uniform(0.5, 2.0, (12, 60))
    loss = lm.losses.L1(weights=weights)
    found = lm.regress(design, targets.T, loss, nonnegative=nonnegative)
    assert np.all(found.settled)
    for row, target, weight in zip(found.coefficients, targets.T, weights, strict=True):
        best = least_absolute_value(design, target, weight, nonnegative)
        assert np.sum(weight * np.abs(design @ row - target)) <= best * (1 + 1e-9)
        assert not nonnegative or np.all(row >= 0)


def test_exact_data_with_gross_errors_are_explained_exactly():
    rng = np.random.default_rng(4)
    design, truth = rng.standard_normal((60, 4)), rng.standard_normal((50, 4))
    targets = truth @ design.T
    targets[rng.random(targets.shape) < 0.2] += 100.0
    found = lm.regress(design, targets, lm.losses.L1())
    np.testing.assert_allclose(found.coefficients, truth, atol=1e-11)
    assert np.all(found.settled)
    shares = np.maximum(truth, 0)
    targets = targets + (shares - truth) @ design.T
    found = lm.regress(design, targets, lm.losses.L1(), nonnegative=True)
    np.testing.assert_allclose(found.coefficients, shares, atol=1e-11)
    assert np.all(found.settled)


@pytest.mark.parametrize("loss", [lm.losses.L1(), lm.losses.SquaredL2()], ids=["l1", "square"])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_missing_targets_do_not_count(loss, nonnegative):
    rng = np.random.default_rng(5)
    design, target = rng.standard_normal((20, 3)), rng.standard_normal(20)
    hidden = np.arange(20) < 8
    found = lm.regress(design, np.where(hidden, np.nan, target), loss, nonnegative=nonnegative)
    assert np.all(found.residual[hidden] == 0)
    seen, wanted = design[~hidden], target[~hidden]
    left = seen @ found.coefficients - wanted
    if not loss.quadratic:
        best = least_absolute_value(seen, wanted, np.ones(12), nonnegative)
        assert np.sum(np.abs(left)) <= best * (1 + 1e-9)
    else:
        exact = nnls(seen, wanted)[0] if nonnegative else np.linalg.lstsq(seen, wanted)[0]
        np.testing.assert_allclose(found.coefficients, exact, atol=1e-8)


def test_a_row_of_which_nothing_is_known_gives_zeros():
    design = np.random.default_rng(6).standard_normal((10, 2))
    targets = np.full((2, 10), np.nan)
    targets[1] = design @ [1.0, 2.0]
    for loss in (lm.losses.L1(), lm.losses.SquaredL2()):
        coefficients = lm.regress(design, targets, loss).coefficients
        np.testing.assert_allclose(coefficients, [[0, 0], [1, 2]], atol=1e-8)


@pytest.mark.parametrize("error", [1e3, 1e6])
def test_one_gross_error_does_not_say_what_is_small(error):
    rng = np.random.default_rng(7)
    design, truth = rng.standard_normal((40, 3)), rng.standard_normal((5, 3))
    targets = truth @ design.T
    targets[:, 4] = error
    found = lm.regress(design, targets, lm.losses.L1())
    assert np.all(found.settled)
    np.testing.assert_allclose(found.coefficients, truth, atol=1e-10)


def test_what_is_not_finished_is_not_called_settled():
    rng = np.random.default_rng(8)
    design, targets = rng.standard_normal((60, 10)), rng.standard_normal((4, 60))
    assert not np.any(lm.regress(design, targets, lm.losses.L1(), max_steps=1).settled)
    exact = lm.regress(design, np.zeros((2, 60)), lm.losses.L1())
    assert np.all(exact.settled)
    assert np.all(exact.coefficients == 0)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_extreme_sizes(size):
    rng = np.random.default_rng(9)
    design, truth = rng.standard_normal((30, 3)), np.array([1.0, 0.0, 2.0])
    for loss in (lm.losses.L1(), lm.losses.SquaredL2()):
        found = lm.regress(design * size, design @ truth, loss, nonnegative=True)
        np.testing.assert_allclose(found.coefficients * size, truth, atol=1e-9)


def test_single_precision():
    rng = np.random.default_rng(10)
    design = (rng.standard_normal((50, 6)) * np.logspace(0, 2, 6)).astype(np.float32)
    target = (design @ np.array([1, 0, 2, 0, 3, 0]) + rng.standard_normal(50)).astype(np.float32)
    single = lm.regress(design, target, nonnegative=True)
    double = lm.regress(design.astype(float), target.astype(float), nonnegative=True)
    np.testing.assert_allclose(single.coefficients, double.coefficients, rtol=1e-3, atol=1e-3)


def test_jax_arrays_give_jax_arrays():
    design = jnp.asarray(np.eye(3, dtype=np.float32))
    found = lm.regress(design, jnp.asarray(np.array([1.0, -1.0, 2.0], np.float32)))
    assert isinstance(found.coefficients, jnp.ndarray)
    assert found.coefficients.dtype == np.float32


@pytest.mark.parametrize(
    ("design", "targets", "loss", "sentence"),
    [
        (np.ones(3), np.ones(3), None, "must be a nonempty matrix"),
        (np.ones((3, 2)), np.ones(4), None, "needs targets with 3 entries"),
        (np.full((3, 2), np.nan), np.ones(3), None, "The design must be finite; 6 entries are NaN"),
        (np.ones((3, 2)), np.full(3, np.inf), None, "The targets must be finite; 3 entries"),
        (np.ones((3, 2)), np.ones(3), lm.losses.L1(weights=np.ones(5)), "do not match targets"),
    ],
)
def test_bad_input_gets_a_sentence(design, targets, loss, sentence):
    with pytest.raises(ValueError, match=sentence):
        lm.regress(design, targets, loss)


def test_other_losses_are_refused():
    with pytest.raises(TypeError, match="loss must be L1 or SquaredL2"):
        lm.regress(np.eye(2), np.ones(2), lm.losses.L2())
