"""The theory's own parts: constants, alignment, predictions, and that its checks can fail."""

import dataclasses
import math
import pathlib
import re
import subprocess
import sys

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm
from lemmax import theory
from lemmax.experiments.instances import low_rank_sensing, psd_sensing
from lemmax.methods import PreconditionedSubgradient
from lemmax.methods.preconditioners import AbstractPreconditioner, Damped

THEORY_PAGE = pathlib.Path(__file__).parent.parent / "docs" / "theory.md"
SQUARE_TRUTH = jnp.array([2.0, 1.0, 0.0, 0.0])


def square_problem(loss=None):
    loss = lm.losses.L2() if loss is None else loss
    return lm.Composite(loss, lm.maps.Square(4), SQUARE_TRUTH**2)


def start_at(distance, seed=0):
    """A point whose error is the given one."""
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(4)
    direction[2:] = np.abs(direction[2:])
    z = np.asarray(SQUARE_TRUTH) ** 2 + distance * direction / np.linalg.norm(direction)
    return jnp.asarray(np.sqrt(z))


# --- constants ---


@pytest.mark.parametrize(
    ("map", "tight"),
    [
        (lm.maps.Square(4), 1.0),
        (lm.maps.PSD(4, 2), 1.0),
        (lm.maps.LowRank((4, 3), 2), 1.0),
        (lm.maps.SymmetricCP(3, 2), 1.0),
        (lm.maps.CP((3, 2, 4), 2), 1.0),
    ],
    ids=lambda p: type(p).__name__ if isinstance(p, eqx.Module) else "",
)
def test_lipschitz_constants_of_the_jacobian(map, tight):
    """Between random points of the ball they hold, and along a single entry they are reached."""
    shapes = map.parameter_shapes
    zeros = (
        tuple(jnp.zeros(s) for s in shapes) if isinstance(shapes[0], tuple) else jnp.zeros(shapes)
    )
    flat, unravel = jax.flatten_util.ravel_pytree(zeros)
    jacobian = jax.jit(lambda u: theory.dense_jacobian(map, unravel(u)))
    rng = np.random.default_rng(0)

    def ratio(truth, first, second):
        change = np.asarray(jacobian(first)) - np.asarray(jacobian(second))
        constant = theory.jacobian_lipschitz(map, unravel(jnp.asarray(truth)))
        return np.linalg.norm(change, 2) / np.linalg.norm(first - second) / constant

    for _ in range(30):
        truth, one, other = rng.standard_normal((3, flat.size))
        one, other = (u * np.linalg.norm(truth) / np.linalg.norm(u) for u in (one, other))
        assert ratio(truth, truth + one, truth + other) <= 1 + 1e-9
    single = jax.tree.map(lambda u: np.asarray(u.at[(0,) * u.ndim].set(1.0)), zeros)
    single = np.asarray(jax.flatten_util.ravel_pytree(single)[0])
    assert ratio(single, 2 * single, (2 - 1e-6) * single) == pytest.approx(tight, rel=1e-6)


def test_outer_constants():
    identity = theory.outer_constants(square_problem())
    assert (identity.lower, identity.upper, identity.quadratic) == (1.0, 1.0, False)
    l1 = theory.outer_constants(square_problem(lm.losses.L1()))
    assert (l1.lower, l1.upper) == (1.0, 2.0)

    rng = np.random.default_rng(1)
    array = rng.standard_normal((6, 4))
    values = np.linalg.svd(array, compute_uv=False)
    data = array @ np.asarray(SQUARE_TRUTH) ** 2
    nnls = lm.Composite(lm.losses.SquaredL2(), lm.maps.Square(4), data, lm.operators.Dense(array))
    found = theory.outer_constants(nnls)
    np.testing.assert_allclose([found.lower, found.upper], [values[-1] ** 2, values[0] ** 2])
    assert not found.estimated
    with pytest.raises(ValueError, match="neither linear nor quadratic growth"):
        theory.outer_constants(square_problem(lm.losses.Huber(1.0)))
    wide = lm.Composite(lm.losses.L2(), lm.maps.Square(4), data[:3], lm.operators.Dense(array[:3]))
    with pytest.raises(ValueError, match="does not grow in all directions"):
        theory.outer_constants(wide)


# --- alignment ---


def test_alignment_of_a_map_of_ones_own():
    own = lm.maps.FromFunction(lambda x: x * x)
    x, z_star = jnp.array([1.4, 1.1, 0.1, 0.2]), jnp.array([2.0, 1.0, 0.0, 0.0])
    mine = theory.measure_alignment(own, x, z_star)
    theirs = theory.measure_alignment(lm.maps.Square(4), x, z_star)
    np.testing.assert_allclose(mine.tails, theirs.tails, atol=1e-12)
    assert mine.aligned_index(1e-12, 0.0) == 4
    assert mine.aligned_index(0.0, 1e9) is None


def test_alignment_sentences():
    rng = np.random.default_rng(0)
    unbalanced = rng.standard_normal((4, 2)), rng.standard_normal((3, 2))
    with pytest.raises(ValueError, match="same right singular vectors"):
        theory.weak_alignment(lm.maps.LowRank((4, 3), 2), unbalanced)
    with pytest.raises(ValueError, match="measure_alignment"):
        theory.weak_alignment(lm.maps.SymmetricCP(3, 2), np.ones((3, 2)))
    with pytest.raises(ValueError, match="smaller instance"):
        theory.dense_jacobian(lm.maps.PSD(100, 10), jnp.ones((100, 10)))
    tensor = theory.strong_alignment(lm.maps.SymmetricCP(3, 1), np.ones((3, 1)))
    with pytest.raises(ValueError, match="exist but does not give them"):
        tensor.delta(0.1)
    known = theory.strong_alignment(
        lm.maps.SymmetricCP(3, 1), np.ones((3, 1)), curvature=2.0, radius=1e-3
    )
    assert (known.delta(0.1), known.epsilon, known.unknown) == (0.05, 1e-3, "")


@pytest.mark.parametrize(
    "map",
    [lm.maps.SymmetricCP(4, rank=2), lm.maps.CP((4, 3, 3), rank=2)],
    ids=lambda map: type(map).__name__,
)
def test_the_printed_constant_of_the_tensor_maps_is_wrong_and_its_square_right(map):
    """Theorems 5.16 and 5.17 are about squares: sigma/2 fails and sigma^2/4 holds."""
    rng = np.random.default_rng(0)
    dims = (map.dim,) if isinstance(map, lm.maps.SymmetricCP) else map.dims
    factors = tuple(
        jnp.asarray(np.linalg.qr(rng.standard_normal((d, 2)))[0] * [1.0, 0.3]) for d in dims
    )
    truth = factors if isinstance(map, lm.maps.CP) else factors[0]
    flat, unravel = jax.flatten_util.ravel_pytree(truth)
    alignment = theory.strong_alignment(map, truth)
    jacobian = np.asarray(theory.dense_jacobian(map, truth))
    index = np.linalg.matrix_rank(jacobian, tol=1e-9)
    _, values, right = np.linalg.svd(jacobian)
    sigma = values[index - 1]
    assert alignment.s(0.125) == pytest.approx(sigma**2 / 4)
    measure = jax.jit(lambda x: theory.measure_alignment(map, x, map(truth)))
    for k in range(50):
        # First along the direction in which the Jacobian is weakest: only the last nonzero
        # singular value sees that error.
        noise = right[index - 1] if k == 0 else rng.standard_normal(flat.size)
        length = rng.uniform(1e-4, 1.0) * 0.05 * alignment.epsilon / np.linalg.norm(noise)
        found = measure(unravel(flat + length * jnp.asarray(noise)))
        assert found.aligned_index(0.125, alignment.s(0.125), strong=True) is not None
        if k == 0:
            assert found.aligned_index(0.125, sigma / 2, strong=True) is None


# --- predictions ---


def test_predictions_name_their_theorem():
    def name(*args, **kwargs):
        return theory.predict(*args, **kwargs).theorem

    sharp, quadratic = square_problem(), square_problem(lm.losses.SquaredL2())
    assert name(sharp, SQUARE_TRUTH) == "Theorem 4.1(1)"
    assert name(sharp, SQUARE_TRUTH, configuration="geometric") == "Theorem 4.1(2)"
    assert name(quadratic, SQUARE_TRUTH) == "Theorem 4.5(1)"
    assert name(quadratic, SQUARE_TRUTH, configuration="constant") == "Theorem 4.5(2)"
    with pytest.raises(ValueError, match="sharp loss"):
        theory.predict(quadratic, SQUARE_TRUTH, configuration="geometric")
    with pytest.raises(ValueError, match="quadratic loss"):
        theory.predict(sharp, SQUARE_TRUTH, configuration="constant")
    with pytest.raises(ValueError, match="does not fit the data"):
        theory.predict(sharp, SQUARE_TRUTH + 1)


def test_a_robust_sensing_prediction_is_kept_though_estimated():
    instance = psd_sensing(1, dim=4, rank=2, true_rank=1, measurements=400, outliers=0.05)
    problem, truth = instance.problem, np.pad(instance.truth.factors[0], ((0, 0), (0, 1)))
    residual = np.asarray(problem.evaluate(truth).residual)
    corrupted = np.flatnonzero(np.abs(residual) > 1e-9)
    prediction = theory.predict(problem, truth, corrupted=corrupted)
    assert prediction.estimated
    assert "estimated" in str(prediction)
    assert prediction.theorem == "Theorem 4.1(1), Corollary 5.14"
    run = theory.follow(problem, prediction.method(), instance.x0, max_steps=30)
    verdict = theory.check(run, problem, truth, prediction)
    assert verdict, str(verdict)
    assert verdict.worst_ratio <= 1


def test_an_asymmetric_sensing_prediction():
    instance = low_rank_sensing(
        1, shape=(4, 3), rank=2, measurements=500, loss=lm.losses.SquaredL2(), start_error=1e-11
    )
    prediction = theory.predict(instance.problem, instance.truth.factors)
    assert prediction.theorem == "Theorem B.13, Corollary 5.10"
    assert math.isfinite(prediction.parameter_radius)
    with pytest.raises(ValueError, match="only proved for Polyak steps"):
        theory.predict(instance.problem, instance.truth.factors, configuration="constant")


def test_a_local_prediction_is_checked_about_the_parameters_too():
    instance = low_rank_sensing(2, shape=(4, 3), rank=2, measurements=60, true_rank=2)
    truth = instance.truth.factors
    problem = lm.Composite(lm.losses.L2(), instance.problem.map, instance.truth)
    prediction = theory.predict(problem, truth)
    assert prediction.theorem == "Theorem 4.7"
    rng = np.random.default_rng(0)
    nudge = [rng.standard_normal(factor.shape) for factor in truth]
    near, far = (
        tuple(factor + size * e for factor, e in zip(truth, nudge, strict=True))
        for size in (0.1 * prediction.radius, 1.0)
    )
    run = theory.follow(problem, prediction.method(), near, max_steps=20)
    verdict = theory.check(run, problem, truth, prediction)
    assert verdict, str(verdict)
    run = theory.follow(problem, prediction.method(), far, max_steps=20)
    assert theory.check(run, problem, truth, prediction).kinds == {"start"}
    run = theory.follow(problem, prediction.method(), near, max_steps=20)
    strayed = tuple(np.concatenate([u[:-1], u[-1:] + 1]) for u in run.iterates)
    run = dataclasses.replace(run, iterates=strayed)
    assert {"distance", "rate"} <= theory.check(run, problem, truth, prediction).kinds


# --- the checks can fail ---


class Tampered(AbstractPreconditioner):
    """The right direction times a wrong factor."""

    factor: float

    def apply(self, problem, evaluation, damping):
        found = Damped().apply(problem, evaluation, damping)
        return found._replace(direction=self.factor * found.direction)


def verdict_of(method, prediction, problem, steps=10):
    run = theory.follow(problem, method, start_at(0.9 * prediction.radius), max_steps=steps)
    return theory.check(run, problem, SQUARE_TRUTH, prediction)


@pytest.mark.parametrize(
    ("loss", "denominator"),
    [
        (lm.losses.L2(), lm.steps.range_norm),
        (lm.losses.SquaredL2(), lm.steps.damped_norm),
        (lm.losses.L2(), lm.steps.projected_norm),
    ],
)
def test_the_right_method_passes(loss, denominator):
    problem = square_problem(loss)
    prediction = theory.predict(problem, SQUARE_TRUTH, denominator=denominator)
    verdict = verdict_of(prediction.method(), prediction, problem)
    assert verdict, str(verdict)
    assert verdict.steps == 10


@pytest.mark.parametrize(
    ("factor", "kind"), [(-1.0, "progress"), (0.5, "linearisation"), (2.0, "linearisation")]
)
@pytest.mark.parametrize("loss", [lm.losses.L2(), lm.losses.SquaredL2()], ids=["L2", "SquaredL2"])
def test_a_wrong_direction_is_caught(factor, kind, loss):
    problem = square_problem(loss)
    prediction = theory.predict(problem, SQUARE_TRUTH)
    right = prediction.method()
    wrong = PreconditionedSubgradient(Tampered(factor), right.damping_rule, right.step_rule)
    verdict = verdict_of(wrong, prediction, problem)
    assert kind in verdict.kinds
    assert "exceeds" in str(verdict)
    if factor == -1.0:
        assert "rate" in verdict.kinds


@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_damping_out_of_range_is_caught(factor):
    problem = square_problem()
    prediction = theory.predict(problem, SQUARE_TRUTH)
    right = prediction.method()
    damping = theory.ProportionalToError(factor * prediction.damping_factor)
    wrong = PreconditionedSubgradient(right.preconditioner, damping, right.step_rule)
    assert "damping" in verdict_of(wrong, prediction, problem).kinds
    geometric = theory.predict(problem, SQUARE_TRUTH, configuration="geometric")
    wrong = lm.methods.lmm(
        lm.steps.Geometric(geometric.scale, geometric.contraction),
        lm.damping.Geometric(factor * geometric.initial_damping, geometric.contraction),
    )
    assert "damping" in verdict_of(wrong, geometric, problem).kinds


def test_too_long_steps_and_too_far_starts_are_caught():
    problem = square_problem()
    prediction = theory.predict(problem, SQUARE_TRUTH)
    longer = dataclasses.replace(prediction, scale=3 * prediction.scale)
    assert "length" in verdict_of(longer.method(), prediction, problem).kinds
    run = theory.follow(problem, prediction.method(), start_at(0.9), max_steps=3)
    assert "start" in theory.check(run, problem, SQUARE_TRUTH, prediction).kinds
    slower = dataclasses.replace(prediction, contraction=0.9)
    assert "rate" in verdict_of(prediction.method(), slower, problem).kinds


def test_a_result_with_the_error_in_its_trace_is_checked():
    problem = square_problem()
    prediction = theory.predict(problem, SQUARE_TRUTH)
    x0 = start_at(0.9 * prediction.radius)
    errors = {"error": lm.metrics.RelativeError(SQUARE_TRUTH**2)}
    result = lm.solve(problem, prediction.method(), x0, max_steps=50, tol=0, metrics=errors)
    verdict = theory.check(result, problem, SQUARE_TRUTH, prediction)
    assert verdict, str(verdict)
    right = prediction.method()
    wrong = PreconditionedSubgradient(Tampered(-1.0), right.damping_rule, right.step_rule)
    result = lm.solve(problem, wrong, x0, max_steps=50, tol=0, metrics=errors)
    verdict = theory.check(result, problem, SQUARE_TRUTH, prediction)
    assert {"progress", "rate"} <= verdict.kinds
    bare = lm.solve(problem, right, x0, max_steps=5, tol=0)
    with pytest.raises(ValueError, match="needs the errors"):
        theory.check(bare, problem, SQUARE_TRUTH, prediction)


def test_following_a_run_keeps_every_iterate():
    problem, method, start = square_problem(), lm.methods.lmm(), [2.1, 0.9, 0.3, 0.2]
    run = theory.follow(problem, method, start, max_steps=6)
    stepped = list(lm.iterate(problem, method, start, max_steps=6))
    np.testing.assert_allclose(run.iterates, [snapshot.x for snapshot in stepped], rtol=1e-12)
    np.testing.assert_allclose(run.values, [snapshot.value for snapshot in stepped], rtol=1e-9)
    assert run.dampings.shape == run.lengths.shape == (6,)
    none = theory.follow(problem, method, start, max_steps=0)
    np.testing.assert_array_equal(none.iterates, [start])


def test_float64_without_x64_mode():
    with jax.enable_x64(False):
        truth = np.array([2.0, 1.0, 0.0, 0.0])
        problem = lm.Composite(lm.losses.L2(), lm.maps.Square(4), truth**2)
        prediction = theory.predict(problem, truth)
        step = theory.one_step(
            problem, np.array([2.1, 1.0, 0.1, 0.1]), damping=1e-3, scale=1e-4, truth=truth
        )
        assert step.error.dtype == np.float64
        assert not step.violated
        run = theory.follow(
            problem, prediction.method(), np.array([2.02, 1.0, 0.1, 0.1]), max_steps=5
        )
        verdict = theory.check(run, problem, truth, prediction)
        assert verdict, str(verdict)


# --- docs/theory.md ---


def test_the_page_on_theory_prints_what_it_says():
    """One process without x64 mode, as a newcomer has it."""
    blocks = {
        kind: re.findall(rf"```{kind}\n(.*?)```", THEORY_PAGE.read_text(), re.DOTALL)
        for kind in ("python", "text")
    }
    assert len(blocks["python"]) == len(blocks["text"]) == 6
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(blocks["python"])],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(blocks["text"])


def test_the_table_of_results_names_functions_and_tests_that_exist():
    """And has a row for every theorem that `predict` or an alignment can name."""
    text = THEORY_PAGE.read_text()
    rows = re.findall(r"^\| (.*?) \| (`.*?`) \| (`test.*?`) \|$", text, re.MULTILINE)
    assert len(rows) >= 30
    sources = "".join(path.read_text() for path in pathlib.Path(__file__).parent.glob("test_*.py"))
    for _, functions, tests in rows:
        assert all(hasattr(theory, name) for name in re.findall(r"`(\w+)`", functions))
        assert all(f"def {name}(" in sources for name in re.findall(r"`(\w+)`", tests))
    modules = pathlib.Path(theory.__file__).parent.glob("[!_]*.py")
    written = "".join(path.read_text() for path in modules)
    named = set(re.findall(r'"((?:Theorem|Corollary) [B\d.]+)"', written))
    named |= {f"Theorem 4.{number}({part})" for number in (1, 4, 5, 6) for part in (1, 2)}
    assert len(named) >= 24
    assert named <= {result for result, _, _ in rows}
