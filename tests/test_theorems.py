"""Every theorem with computable constants, on random instances: none is violated.

Sizes are tiny and instances are mapped over, so that thousands of cases take seconds.
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm
from lemmax import theory

DENOMINATORS = {
    "range": lm.steps.range_norm,
    "damped": lm.steps.damped_norm,
    "projected": lm.steps.projected_norm,
}
SHARP, QUADRATIC = lm.losses.L2(), lm.losses.SquaredL2()
MAPS = {
    "Square": lm.maps.Square(5),
    "PSD": lm.maps.PSD(4, 3),
    "LowRank": lm.maps.LowRank((4, 3), 3),
}


# --- random truths and points near them ---


def truth_of(rng, map, redundant=1, lowest=0.1):
    """Parameters of a truth with that many redundant columns or zeros, largest value 1."""
    if isinstance(map, lm.maps.Square):
        z = rng.uniform(lowest, 1.0, map.dim)
        z[map.dim - redundant :] = 0.0
        return np.sqrt(z)
    kept = map.rank - redundant
    sizes = np.zeros(map.rank)
    sizes[:kept] = np.sort(rng.uniform(lowest, 1.0, kept))[::-1]
    basis = np.linalg.qr(rng.standard_normal((map.rank, map.rank)))[0]

    def factor(rows):
        columns = np.linalg.qr(rng.standard_normal((rows, rows)))[0][:, : map.rank]
        return columns * np.sqrt(sizes) @ basis  # X and Y balanced: the same right vectors

    if isinstance(map, lm.maps.LowRank):
        return tuple(factor(rows) for rows in map.dims)
    return factor(map.dim)


def noise_like(rng, truth):
    """A direction; every other time mostly where the truth is zero, which is the hard part."""
    leaves, tree = jax.tree.flatten(truth)
    noise = [rng.standard_normal(leaf.shape) for leaf in leaves]
    if rng.uniform() < 0.5:
        if leaves[0].ndim == 1:
            noise = [np.where(leaves[0] == 0, noise[0], 0.1 * noise[0])]
        else:
            gone = np.linalg.svd(leaves[0])[2][-1]
            noise = [np.outer(e @ gone, gone) + 0.1 * e for e in noise]
    return jax.tree.unflatten(tree, noise)


def value_of(map, x):
    if isinstance(map, lm.maps.Square):
        return x**2
    if isinstance(map, lm.maps.SymmetricCP):
        return np.einsum("il,jl,kl->ijk", x, x, x)
    return x @ x.T if isinstance(map, lm.maps.PSD) else x[0] @ x[1].T


def moved_by(truth, noise, length):
    return jax.tree.map(lambda u, e: u + length * e, truth, noise)


def at_error(map, truth, noise, error):
    """The point along the noise whose error is the given one, or a little less."""
    target = value_of(map, truth)

    def reached(t):
        return np.linalg.norm(value_of(map, moved_by(truth, noise, t)) - target) >= error

    low, high = 0.0, error / 10
    while not reached(high):
        low, high = high, 2 * high
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return moved_by(truth, noise, low)


def stacked(trees):
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *trees)


def problem_for(map, loss, truth, operator=None):
    operator = lm.operators.Identity() if operator is None else operator
    return lm.Composite(loss, map, operator.measure(map(truth)), operator)


# --- Lemma 3.1 ---


@pytest.mark.parametrize("name", MAPS)
def test_lemma_3_1_damped_projector(name):
    """P and I - P do not expand, |Pv| <= |Pi v|, and I - P is small on top singular spaces."""
    map, rng, worst = MAPS[name], np.random.default_rng(0), 0.0
    jacobian = jax.jit(functools.partial(theory.dense_jacobian, map))
    for _ in range(40):
        truth = truth_of(rng, map)
        x = at_error(map, truth, noise_like(rng, truth), 10 ** rng.uniform(-4, 0))
        left, s, _ = np.linalg.svd(np.asarray(jacobian(jax.tree.map(jnp.asarray, x))))
        damping = 10 ** rng.uniform(-6, 1)
        squares = np.zeros(left.shape[0])
        squares[: len(s)] = s**2
        projector = left * (squares / (squares + damping)) @ left.T
        assert np.linalg.norm(projector, 2) <= 1 + 1e-12
        assert np.linalg.norm(np.eye(len(left)) - projector, 2) <= 1 + 1e-12
        for j in range(1, len(s) + 1):
            u = left[:, :j] @ rng.standard_normal(j)
            kept = np.linalg.norm(u - projector @ u) / np.linalg.norm(u)
            worst = max(worst, kept * (s[j - 1] ** 2 + damping) / damping)
        v = rng.standard_normal(map.shape)
        found = map.precondition(
            jax.tree.map(jnp.asarray, x), damping, lm.covectors.DenseCovector(jnp.asarray(v))
        ).projections
        assert found.projected <= found.damped <= found.range * (1 + 1e-12)
        np.testing.assert_allclose(
            found.projected, np.sum((projector @ v.ravel()) ** 2), rtol=1e-8, atol=1e-12
        )
    assert worst <= 1 + 1e-9


# --- Lemma 3.1(3), Proposition 4.2, Lemma B.10 ---


CASES = 1600
LOSSES = [SHARP, QUADRATIC, lm.losses.L1()]


@functools.cache
def random_cases(name):
    """Truths, points, dampings relative to the error, and fractions of the cap."""
    map, rng = MAPS[name], np.random.default_rng(0)
    truths = [truth_of(rng, map, redundant=int(k)) for k in rng.integers(0, 3, CASES)]
    points = [moved_by(t, noise_like(rng, t), 10 ** rng.uniform(-3, -0.7)) for t in truths]
    ratios = jnp.asarray(10 ** rng.uniform(-4, -0.5, CASES))
    shares = jnp.asarray(rng.choice([1.0, 0.9, 0.3], CASES))
    return stacked(truths), stacked(points), ratios, shares


@functools.cache
def one_steps(name, denominator):
    """One step for each case; over the denominators, every map meets every loss."""
    map = MAPS[name]
    number = list(MAPS).index(name) + list(DENOMINATORS).index(denominator)
    loss = LOSSES[number % len(LOSSES)]

    @jax.jit
    @jax.vmap
    def step(truth, x, ratio, scale):
        problem = problem_for(map, loss, truth)
        damping = ratio * map(x).distance(map(truth))
        chosen = DENOMINATORS[denominator]
        return theory.one_step(
            problem, x, damping=damping, scale=scale, truth=truth, denominator=chosen
        )

    truths, points, ratios, shares = random_cases(name)
    caps = step(truths, points, ratios, jnp.zeros(CASES)).cap
    return step(truths, points, ratios, shares * caps)


@pytest.mark.parametrize("denominator", DENOMINATORS)
@pytest.mark.parametrize("name", MAPS)
def test_proposition_4_2(name, denominator):
    """No step that fulfils its hypotheses breaks it, nor does any break the two lemmas."""
    steps = one_steps(name, denominator)
    assert int(np.sum(steps.hypotheses_held)) >= 1000
    assert not np.any(steps.violated)
    assert np.all(steps.linearisation_held)
    # The comparisons mean something: the allowance for rounding is far below what is compared.
    held = np.asarray(steps.hypotheses_held)
    assert np.max(np.asarray(steps.rounding / (steps.error - steps.progress_bound))[held]) < 1e-2


# --- weak alignment ---


@pytest.mark.parametrize("name", MAPS)
def test_weak_alignment(name):
    """Theorems 5.1, 5.5 and 5.6 at random points of the ball."""
    map, rng = MAPS[name], np.random.default_rng(1)
    truths, points, rhos, bounds = [], [], [], []
    for _ in range(450):
        truth = truth_of(rng, map, redundant=int(rng.integers(0, 3)))
        alignment = theory.weak_alignment(map, truth)
        rho = float(rng.choice([1 / 8, 1 / 16, 0.5]))
        noise = noise_like(rng, truth)
        x = at_error(map, truth, noise, rng.uniform(0.01, 1.0) * alignment.delta(rho))
        leaves = zip(jax.tree.leaves(x), jax.tree.leaves(truth), strict=True)
        moved = math.sqrt(sum(np.sum((u - t) ** 2) for u, t in leaves))
        shrink = min(1.0, alignment.epsilon / moved)
        x = jax.tree.map(lambda u, t, c=shrink: t + c * (u - t), x, truth)
        truths.append(truth)
        points.append(x)
        rhos.append(rho)
        bounds.append(alignment.s(rho))

    @jax.jit
    @jax.vmap
    def aligned(x, truth, rho, s):
        return jnp.any(theory.measure_alignment(map, x, map(truth)).aligned(rho, s))

    given = stacked(points), stacked(truths), jnp.asarray(rhos)
    assert np.all(aligned(*given, jnp.asarray(bounds)))
    # The test can fail: with much larger constants it is no theorem. Those of LowRank are slack.
    assert not np.all(aligned(*given, 1e5 * jnp.asarray(bounds)))


# --- trajectories ---


def runs(map, loss, operator, truths, predictions, starts, steps):
    """One run per truth, all in one program, with the errors in the trace."""
    kind = predictions[0].configuration
    denominator = predictions[0].denominator

    def numbers(name):
        return jnp.asarray([getattr(p, name) for p in predictions])

    damping = numbers("damping_factor" if kind == "polyak" else "initial_damping")

    @jax.jit
    @jax.vmap
    def solve(truth, x0, scale, damping, decay):
        problem = problem_for(map, loss, truth, operator)
        rule = lm.damping.Geometric(damping, decay)
        if kind == "polyak":
            step = lm.steps.Polyak(scale=scale, denominator=denominator)
            rule = theory.ProportionalToError(damping)
        elif kind == "geometric":
            step = lm.steps.Geometric(scale, decay)
        else:
            step = lm.steps.Constant(scale)
        error = {"error": lm.metrics.RelativeError(map(truth))}
        method = lm.methods.lmm(step, rule)
        return lm.solve(problem, method, x0, max_steps=steps, tol=0.0, metrics=error)

    results = solve(
        stacked(truths), stacked(starts), numbers("scale"), damping, numbers("contraction")
    )
    return [jax.tree.map(lambda u, k=k: u[k], results) for k in range(len(truths))]


def worst_over_trajectories(
    map,
    loss,
    configuration,
    steps,
    *,
    denominator=lm.steps.range_norm,
    align=theory.weak_alignment,
    operator=None,
    redundant=2,
    lowest=0.1,
):
    """Check 20 runs that start at the edge of the ball.

    Returns the theorem, the largest ratio of error to bound after the start (which is on the
    bound itself), and the largest at the end.
    """
    rng = np.random.default_rng(2)
    truths, problems, predictions, starts = [], [], [], []
    for k in range(20):
        truth = truth_of(rng, map, k % (redundant + 1), lowest)
        problem = problem_for(map, loss, jax.tree.map(jnp.asarray, truth), operator)
        prediction = theory.predict(
            problem,
            truth,
            configuration=configuration,
            denominator=denominator,
            alignment=align(map, truth),
            constants=theory.outer_constants(problem, rigorous=operator is not None),
        )
        assert not prediction.estimated
        truths.append(truth)
        problems.append(problem)
        predictions.append(prediction)
        starts.append(at_error(map, truth, noise_like(rng, truth), 0.999 * prediction.radius))
    results = runs(map, loss, operator, truths, predictions, starts, steps)
    worst, final = 0.0, 0.0
    for truth, problem, prediction, result in zip(
        truths, problems, predictions, results, strict=True
    ):
        verdict = theory.check(result, problem, truth, prediction)
        assert verdict, str(verdict)
        assert verdict.steps >= min(steps, 50)  # some fall to rounding level before the end
        size = float(np.linalg.norm(value_of(map, truth)))
        errors = np.asarray(result.trace.metrics["error"])[: verdict.steps] * size
        ratios = errors / prediction.bound(np.arange(verdict.steps), float(errors[0]))
        worst, final = max(worst, float(np.max(ratios[1:]))), max(final, float(ratios[-1]))
    return predictions[0].theorem, worst, final


@pytest.mark.parametrize(
    ("name", "loss", "denominator"),
    [
        ("Square", SHARP, "range"),
        ("Square", QUADRATIC, "range"),
        ("PSD", SHARP, "range"),
        ("PSD", QUADRATIC, "range"),
        ("PSD", SHARP, "damped"),
        ("PSD", QUADRATIC, "projected"),
    ],
)
def test_polyak_under_weak_alignment(name, loss, denominator):
    theorem, worst, _ = worst_over_trajectories(
        MAPS[name], loss, "polyak", 150, denominator=DENOMINATORS[denominator]
    )
    assert theorem == ("Theorem 4.5(1)" if loss.quadratic else "Theorem 4.1(1)")
    assert worst < 1


@pytest.mark.parametrize(
    ("loss", "configuration", "expected"),
    [(SHARP, "geometric", "Theorem 4.1(2)"), (QUADRATIC, "constant", "Theorem 4.5(2)")],
)
@pytest.mark.parametrize("name", ["Square", "PSD"])
def test_schedules_under_weak_alignment(name, loss, configuration, expected):
    theorem, worst, _ = worst_over_trajectories(MAPS[name], loss, configuration, 2000)
    assert theorem == expected
    assert worst <= 1


@pytest.mark.parametrize(
    ("name", "loss", "expected"),
    [
        ("Square", QUADRATIC, "Theorem 4.5(1), Corollary 5.3"),
        ("Square", SHARP, "Theorem 4.1(1), Corollary 5.4"),
        ("PSD", QUADRATIC, "Theorem 4.5(1), Corollary 5.9"),
        ("PSD", lm.losses.L1(), "Theorem 4.1(1), Corollary 5.14"),
    ],
)
def test_corollaries_for_measurements(name, loss, expected):
    """With an operator, the constants below and above differ, and so do C_lb and C_ub."""
    map, rng = MAPS[name], np.random.default_rng(5)
    entries = math.prod(map.shape)
    basis = np.linalg.qr(rng.standard_normal((entries + 4, entries)))[0]
    array = basis * np.linspace(1.0, 0.8, entries)
    operator = lm.operators.Dense(array.reshape(-1, *map.shape))
    theorem, worst, _ = worst_over_trajectories(map, loss, "polyak", 150, operator=operator)
    assert theorem == expected
    assert worst < 1


@pytest.mark.parametrize(
    ("loss", "configuration", "expected"),
    [
        (SHARP, "polyak", "Theorem 4.4(1)"),
        (SHARP, "geometric", "Theorem 4.4(2)"),
        (QUADRATIC, "polyak", "Theorem 4.6(1)"),
        (QUADRATIC, "constant", "Theorem 4.6(2)"),
    ],
)
def test_strong_alignment(loss, configuration, expected):
    """Squares without zeros, whose Jacobian is invertible."""
    steps = 150 if configuration == "polyak" else 2000
    theorem, worst, _ = worst_over_trajectories(
        MAPS["Square"], loss, configuration, steps, align=theory.strong_alignment, redundant=0
    )
    assert theorem == expected
    assert worst <= 1


@pytest.mark.parametrize("loss", [SHARP, QUADRATIC], ids=["sharp", "quadratic"])
def test_local_weak_alignment(loss):
    """Theorems 4.7 and B.13, for asymmetric factorisation.

    Their balls are so small that the quadratic case leaves the level of rounding only for a
    matrix of rank 1 without redundant columns; even there, errors have five digits.
    """
    map = lm.maps.LowRank((4, 3), 1) if loss.quadratic else MAPS["LowRank"]
    theorem, worst, final = worst_over_trajectories(
        map, loss, "polyak", 150, redundant=0 if loss.quadratic else 1, lowest=0.7
    )
    assert theorem == ("Theorem B.13" if loss.quadratic else "Theorem 4.7")
    assert worst <= 1 + 1e-5
    assert final < 1


def test_local_strong_alignment():
    """Theorem B.12 (Corollary 5.18) for tensors, its constant C measured."""
    map = lm.maps.SymmetricCP(3, rank=2)
    rng = np.random.default_rng(4)

    @jax.jit
    @jax.vmap
    def curvature(x, truth):
        found = theory.measure_alignment(map, x, map(truth))
        return found.tails[-1] / found.error**2

    def align(map, truth):
        proved = theory.strong_alignment(map, truth)
        noise = rng.standard_normal((50, *truth.shape))
        noise *= proved.epsilon / np.sqrt(np.sum(noise**2, axis=(1, 2), keepdims=True))
        points = truth + noise * rng.uniform(0.01, 1, (50, 1, 1))
        measured = curvature(jnp.asarray(points), jnp.asarray(np.broadcast_to(truth, noise.shape)))
        largest = 2 * float(jnp.max(measured))
        return dataclasses.replace(proved, radius=lambda rho: rho / largest, unknown="")

    theorem, worst, _ = worst_over_trajectories(
        map, SHARP, "polyak", 150, align=align, redundant=0, lowest=0.5
    )
    assert theorem == "Theorem B.12, Corollary 5.18"
    assert worst < 1
