"""What verdicts and predictions say: whom they accuse, what they tested, and what they refuse."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm
from lemmax import theory
from lemmax.experiments.instances import (
    cp_factorisation,
    low_rank_sensing,
    psd_sensing,
    symmetric_cp_factorisation,
)

TRUTH = np.array([2.0, 1.0, 0.0])
START = np.array([2.05, 0.95, 0.2])
SQUARE = lm.maps.Square(3)
PROBLEM = lm.Composite(lm.losses.L2(), SQUARE, TRUTH**2)
ERROR = {"error": lm.metrics.RelativeError(TRUTH**2)}


@pytest.fixture(scope="module")
def prediction():
    return theory.predict(PROBLEM, TRUTH)


def solved(method, steps=30, problem=PROBLEM):
    return lm.solve(problem, method, START, max_steps=steps, tol=0.0, metrics=ERROR)


def followed(method, steps=30, start=START, problem=PROBLEM):
    return theory.follow(problem, method, start, max_steps=steps)


def polyak(prediction, factor=1.0, denominator=lm.steps.range_norm):
    step = lm.steps.Polyak(scale=factor * prediction.scale, denominator=denominator)
    return lm.methods.lmm(step, theory.ProportionalToError(prediction.damping_factor))


# --- whom a verdict accuses ---


def test_a_result_outside_of_the_hypotheses_is_not_accused(prediction):
    method = lm.methods.lmm(damping=lm.damping.Fixed(1e-3))
    verdict = theory.check(solved(method), PROBLEM, TRUTH, prediction)
    assert verdict.kinds == {"damping"}
    assert (verdict.tested, verdict.unmet) == (0, verdict.steps)
    assert np.isnan(verdict.worst_ratio)
    assert theory.check(followed(method), PROBLEM, TRUTH, prediction).kinds == {"damping", "length"}


def test_a_result_shows_only_a_gamma_far_above_its_cap(prediction):
    verdicts = {
        factor: theory.check(solved(polyak(prediction, factor)), PROBLEM, TRUTH, prediction)
        for factor in (1.0, 1.2, 10.0)
    }
    assert [verdict.kinds for verdict in verdicts.values()] == [set(), set(), {"length"}]
    assert "gamma is at least" in str(verdicts[10.0])
    assert "does not contain gamma" in str(verdicts[1.0])
    run = followed(polyak(prediction, 1.2))
    verdict = theory.check(run, PROBLEM, TRUTH, prediction)
    assert verdict.kinds == {"length"}
    assert str(verdict).startswith("1 violation, at step 0")


def test_conclusions_are_compared_only_while_hypotheses_hold(prediction):
    geometric = theory.predict(PROBLEM, TRUTH, configuration="geometric")
    run = followed(geometric.method(), start=np.array([4.0, 0.1, 2.0]))
    assert theory.check(run, PROBLEM, TRUTH, geometric).kinds == {"start"}
    # Ten right steps, then one with another damping: from there on, nothing is promised.
    run = followed(prediction.method())
    dampings = np.where(np.arange(30) == 10, 2.0, 1.0) * run.dampings
    iterates = np.where(np.arange(31)[:, None] > 10, 3.0, run.iterates)
    verdict = theory.check(
        dataclasses.replace(run, dampings=dampings, iterates=iterates), PROBLEM, TRUTH, prediction
    )
    assert "damping" in verdict.kinds
    assert not verdict.kinds & {"rate", "distance"}
    strayed = dataclasses.replace(run, iterates=iterates)
    found = theory.check(strayed, PROBLEM, TRUTH, prediction)
    assert {"rate", "progress"} <= found.kinds


def test_a_run_with_another_denominator_or_target_is_told_so(prediction):
    other = polyak(prediction, 1e-2, lm.steps.damped_norm)
    verdict = theory.check(followed(other), PROBLEM, TRUTH, prediction)
    assert verdict.kinds == {"length"}
    assert "divides by damped_norm, the prediction uses range_norm" in str(verdict)
    step = lm.steps.Polyak(-7.0, prediction.scale, lm.steps.range_norm)
    run = followed(lm.methods.lmm(step, lm.damping.Fixed(1e-3)))
    messages = [v.message for v in theory.check(run, PROBLEM, TRUTH, prediction).violations]
    assert any("the target is -7" in message for message in messages)


# --- what was tested ---


class Backwards(lm.methods.AbstractMethod):
    """Up the gradient, and no LMM at all."""

    @property
    def target(self):
        return None

    @property
    def scope(self):
        return lm.methods.scope.Scope()

    def init(self, problem, x0):
        return jnp.zeros(())

    def step(self, problem, evaluation, state):
        zero = jnp.zeros((), jnp.int32)
        move = lm.methods.Move(
            x=evaluation.x + 1e-3 * evaluation.gradient,
            length=jnp.asarray(1e-3, evaluation.x.dtype),
            damping=jnp.zeros((), evaluation.x.dtype),
            iterations=zero,
            failed=zero > 0,
            extra_passes=zero,
        )
        return move, state


@pytest.mark.parametrize(
    "method",
    [
        lm.methods.polyak_subgradient(),
        lm.methods.gauss_newton(),
        lm.methods.lmm(lm.steps.Constant(1e-2), lm.damping.Fixed(1e-3)),
        Backwards(),
    ],
    ids=["subgradient", "gauss_newton", "constant", "backwards"],
)
def test_where_no_theorem_speaks_nothing_was_checked(method):
    verdict = theory.check(followed(method, 10), PROBLEM, TRUTH)
    assert not verdict
    assert not verdict.violations
    assert verdict.tested == 0
    assert str(verdict).startswith("Nothing could be checked")


def test_steps_towards_a_wrong_target_are_not_said_to_be_right():
    """With an outlier the minimum is 7, and a Polyak step to 0 is far too long near it."""
    problem = lm.Composite(lm.losses.L1(), SQUARE, TRUTH**2 + np.array([0.0, 0.0, 7.0]))
    wrong, right = (
        theory.check(
            followed(
                lm.methods.lmm(
                    lm.steps.Polyak(target, 1e-3, lm.steps.range_norm), lm.damping.Fixed(2e-3)
                ),
                problem=problem,
            ),
            problem,
            TRUTH,
        )
        for target in (0.0, 7.0)
    )
    assert not wrong
    assert wrong.tested < right.tested
    assert not wrong.violations


def test_a_result_alone_and_a_partly_tested_run_say_so(prediction):
    verdict = theory.check(solved(prediction.method(), 5), PROBLEM, TRUTH)
    assert not verdict
    assert "pass one, or use theory.follow" in str(verdict)
    run = followed(lm.methods.lmm(damping=lm.damping.Fixed(1e-3)), 50)
    verdict = theory.check(run, PROBLEM, TRUTH)
    assert 0 < verdict.tested < verdict.steps == verdict.tested + verdict.unmet
    assert f"{verdict.tested} of {verdict.steps} steps could be checked" in str(verdict)
    run = followed(prediction.method(), 5)
    assert str(theory.check(run, PROBLEM, TRUTH)) == "All 5 steps agree with the theory."


# --- truths ---


def test_a_truth_that_does_not_fit_the_data_is_refused(prediction):
    run = followed(prediction.method(), 3)
    with pytest.raises(ValueError, match="does not fit the data"):
        theory.check(run, PROBLEM, [1, 1, 0], prediction)
    with pytest.raises(ValueError, match="does not fit the data"):
        theory.one_step(PROBLEM, START, damping=1e-3, scale=1e-3, truth=[1, 1, 0])
    other = lm.Composite(lm.losses.L1(), SQUARE, TRUTH**2 + np.array([0.0, 0.0, 7.0]))
    with pytest.raises(ValueError, match="another problem or truth"):
        theory.check(followed(prediction.method(), 3, problem=other), other, TRUTH, prediction)
    # Inside jit the truth may be traced, and the check is left out.
    found = jax.jit(
        lambda truth: theory.one_step(PROBLEM, START, damping=1e-3, scale=1e-3, truth=truth).error
    )(jnp.array([1.0, 1.0, 0.0]))
    assert np.isfinite(found)
    closed = jax.jit(
        lambda x: theory.one_step(PROBLEM, x, damping=1e-3, scale=1e-3, truth=TRUTH).error
    )(jnp.asarray(START))
    assert float(closed) == pytest.approx(np.linalg.norm(START**2 - TRUTH**2), rel=1e-6)


def test_truths_may_be_lists_and_are_called_truths(prediction):
    assert str(theory.predict(PROBLEM, [2, 1, 0])) == str(prediction)
    assert str(theory.predict(PROBLEM, np.array([2, 1, 0]))) == str(prediction)
    low_rank = lm.maps.LowRank((3, 2), 1)
    problem = lm.Composite(lm.losses.L2(), low_rank, np.outer([1.0, 0.0, 0.0], [1.0, 0.0]))
    found = theory.predict(problem, [[[1.0], [0.0], [0.0]], [[1.0], [0.0]]])
    assert found.theorem == "Theorem 4.7"
    with pytest.raises(ValueError, match=r"but the truth has \(4,\)"):
        theory.predict(PROBLEM, np.ones(4))
    with pytest.raises(ValueError, match="truth must be finite; 3 entries are NaN"):
        theory.predict(PROBLEM, TRUTH * np.nan)
    with pytest.raises(ValueError, match="got 'foo'"):
        theory.predict(PROBLEM, TRUTH, configuration="foo")


def test_the_truth_of_an_instance_is_a_truth():
    squared = lm.losses.SquaredL2()
    psd = psd_sensing(0, dim=4, rank=2, true_rank=1, measurements=300, loss=squared)
    assert theory.predict(psd.problem, psd.truth).theorem.endswith("Corollary 5.9")
    general = low_rank_sensing(0, shape=(4, 3), rank=2, true_rank=1, measurements=300)
    found = theory.weak_alignment(general.problem.map, general.truth)
    assert found.theorem == "Theorem 5.6"
    tensors = {
        "Theorem 5.16": symmetric_cp_factorisation(0, dim=3, rank=2),
        "Theorem 5.17": cp_factorisation(0, dims=(3, 3, 2), rank=2),
    }
    for theorem, instance in tensors.items():
        assert theory.strong_alignment(instance.problem.map, instance.truth).theorem == theorem
    x, y = np.ones((4, 1)), np.arange(4.0)[:, None]
    with pytest.raises(ValueError, match="equal factors"):
        theory.weak_alignment(lm.maps.PSD(4, 1), lm.points.KruskalPoint((x, y)))
    wide = np.eye(4)[:, :2]
    with pytest.raises(ValueError, match="has 2 columns"):
        theory.weak_alignment(lm.maps.PSD(4, 1), lm.points.KruskalPoint((wide, wide)))
    with pytest.raises(ValueError, match="Square takes parameters, but the truth is a DensePoint"):
        theory.predict(PROBLEM, lm.points.DensePoint(TRUTH))


# --- constants ---


@pytest.mark.parametrize("map", [lm.maps.PSD(4, 2), lm.maps.SymmetricCP(3, 1)], ids=["PSD", "CP"])
def test_rigorous_constants_of_symmetric_maps_are_about_symmetric_directions(map):
    """Symmetric measurement arrays see no others; on symmetric ones the extremes are attained."""
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((60, *map.shape))
    modes = itertools.permutations(range(1, len(map.shape) + 1))
    arrays = np.mean([np.transpose(arrays, (0, *order)) for order in modes], axis=0)
    values = np.linalg.svd(arrays.reshape(60, -1), compute_uv=False)
    seen = values[values > 1e-9 * values[0]]
    assert len(seen) < len(values)
    truth = rng.standard_normal(map.parameter_shapes)
    for operator in (lm.operators.Dense(arrays), lm.operators.SymmetricDense(arrays)):
        problem = lm.Composite(lm.losses.SquaredL2(), map, operator.measure(map(truth)), operator)
        found = theory.outer_constants(problem, rigorous=True)
        np.testing.assert_allclose(
            [found.lower, found.upper], [seen[-1] ** 2, seen[0] ** 2], rtol=1e-9
        )
        assert not found.estimated


def test_jacobians_in_float64_without_x64_mode():
    with jax.enable_x64(False):
        x = np.random.default_rng(0).standard_normal((4, 2))
        for map in (lm.maps.PSD(4, 2), lm.maps.SymmetricCP(4, 2)):
            jacobian = theory.dense_jacobian(map, x)
            assert jacobian.dtype == np.float64
            nudge = 1e-6 * np.ones_like(x)
            change = np.ravel(map(x + nudge).dense() - map(x - nudge).dense()) / 2e-6
            np.testing.assert_allclose(jacobian @ np.ones(8), change, rtol=1e-6, atol=1e-8)


# --- sentences ---


SENSING = lm.operators.Dense(np.random.default_rng(0).standard_normal((120, 5, 5)))
PSD = lm.maps.PSD(5, 1)


def robust():
    truth = np.ones((5, 1))
    return lm.Composite(lm.losses.L1(), PSD, SENSING.measure(PSD(truth)), SENSING), truth


@pytest.mark.parametrize("corrupted", [[125], [0.5], [-1], [True, False]])
def test_corrupted_are_positions(corrupted):
    problem, truth = robust()
    with pytest.raises(ValueError, match="integers from 0 to 119"):
        theory.predict(problem, truth, corrupted=corrupted)
    with pytest.raises(ValueError, match="integers from 0 to 119"):
        theory.estimate_isometry(SENSING, PSD, corrupted=corrupted, samples=2, refinements=0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"rank": 0}, "rank must be a whole number of at least 1"),
        ({"samples": 0}, "samples must be a whole number of at least 1"),
        ({"refinements": -1}, "refinements must be a whole number of at least 0"),
        ({"rank": 100}, "rank at most 5; got 100"),
        ({"map": lm.maps.PSD(4, 1)}, r"points of shape \(5, 5\), but the map's"),
    ],
)
def test_estimates_refuse_what_cannot_be(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        theory.estimate_isometry(SENSING, **{"map": PSD, **arguments})


def test_points_of_another_shape_are_refused():
    for map, x, z_star in [
        (SQUARE, START, np.ones(4)),
        (lm.maps.LowRank((3, 2), 1), (np.ones((3, 1)), np.ones((2, 1))), np.ones((2, 3))),
    ]:
        with pytest.raises(ValueError, match="but z_star has"):
            theory.measure_alignment(map, x, z_star)


def test_constants_that_cannot_be_are_refused():
    for lower, upper in [(2.0, 1.0), (-2.0, 1.0), (0.0, 1.0), (1.0, np.inf)]:
        with pytest.raises(ValueError, match="must be positive and finite"):
            theory.OuterConstants(False, lower, upper)
    with pytest.raises(ValueError, match="constants are quadratic, but the loss L2 is sharp"):
        theory.predict(PROBLEM, TRUTH, constants=theory.OuterConstants(True, 1.0, 1.0))
    for wrong in ({"curvature": -1.0, "radius": 1.0}, {"curvature": 1.0, "radius": 0.0}):
        with pytest.raises(ValueError, match="must be above 0"):
            theory.strong_alignment(lm.maps.SymmetricCP(3, 1), np.ones((3, 1)), **wrong)
    with pytest.raises(ValueError, match="scale must be above 0"):
        theory.one_step(PROBLEM, START, damping=2e-3, scale=-1e-3, truth=TRUTH)
    found = theory.one_step(PROBLEM, START, damping=2e-3, scale=np.asarray(-1e-3), truth=TRUTH)
    assert not found.hypotheses_held


def test_predictions_promise_what_is_proved():
    outlier = lm.Composite(lm.losses.L1(), SQUARE, TRUTH**2 + np.array([0.0, 0.0, 7.0]))
    with pytest.raises(ValueError, match="not known for Square; predict takes your own"):
        theory.predict(outlier, TRUTH, corrupted=[2])
    with pytest.raises(ValueError, match="need the loss L1; this loss is L2"):
        theory.predict(PROBLEM, TRUTH, corrupted=[2])
    geometric = theory.predict(PROBLEM, TRUTH, configuration="geometric")
    assert f"at most 0.5 * {geometric.contraction:.9g}^k." in str(geometric)
    polyak = theory.predict(PROBLEM, TRUTH)
    assert "no useful rate" in str(dataclasses.replace(polyak, contraction=1.0))
    assert "1 - 1e-12 per step" in str(dataclasses.replace(polyak, contraction=1 - 1e-12))
