"""Random instances for the theorems, and runs that start at the edge of what they cover."""

import dataclasses
import functools
import itertools
import math

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

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
TENSORS = {
    "SymmetricCP": lm.maps.SymmetricCP(3, rank=2),
    "CP": lm.maps.CP((3, 3, 2), rank=2),
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

    if isinstance(map, (lm.maps.LowRank, lm.maps.CP)):
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
    if isinstance(map, lm.maps.CP):
        return np.einsum("il,jl,kl->ijk", *x)
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


# --- trajectories ---


def runs(map, loss, operator, truths, predictions, starts, steps):
    """One run per truth, all in one program, with errors and distances in x in the trace."""
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
        metrics = {
            "error": lm.metrics.RelativeError(map(truth)),
            "distance": lambda x, evaluation: jnp.linalg.norm(
                jax.flatten_util.ravel_pytree(jax.tree.map(jnp.subtract, x, truth))[0]
            ),
        }
        method = lm.methods.lmm(step, rule)
        return lm.solve(problem, method, x0, max_steps=steps, tol=0.0, metrics=metrics)

    results = solve(
        stacked(truths), stacked(starts), numbers("scale"), damping, numbers("contraction")
    )
    return [jax.tree.map(lambda u, k=k: u[k], results) for k in range(len(truths))]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Of 20 runs; ratios are of the error to its bound, after the start, which is on it."""

    theorem: str
    worst: float
    """The largest ratio."""
    final: float
    """The largest ratio at the end."""
    smallest_radius: float
    """Of all balls, relative to the norm of the truth."""


def over_trajectories(
    map,
    loss,
    configuration,
    steps,
    *,
    denominator=lm.steps.range_norm,
    align=theory.weak_alignment,
    constants=None,
    operator=None,
    redundant=2,
    lowest=0.1,
    adjust=lambda prediction: prediction,
):
    """Check 20 runs that start at the edge of the ball."""
    rng = np.random.default_rng(2)
    truths, problems, predictions, starts = [], [], [], []
    for k in range(20):
        truth = truth_of(rng, map, k % (redundant + 1), lowest)
        problem = problem_for(map, loss, jax.tree.map(jnp.asarray, truth), operator)
        if constants is None:
            constants = theory.outer_constants(problem, rigorous=operator is not None)
        prediction = adjust(
            theory.predict(
                problem,
                truth,
                configuration=configuration,
                denominator=denominator,
                alignment=align(map, truth),
                constants=constants,
            )
        )
        assert not prediction.estimated
        truths.append(truth)
        problems.append(problem)
        predictions.append(prediction)
        starts.append(at_error(map, truth, noise_like(rng, truth), 0.999 * prediction.radius))
    results = runs(map, loss, operator, truths, predictions, starts, steps)
    worst, final, radii = 0.0, 0.0, []
    for truth, problem, prediction, result in zip(
        truths, problems, predictions, results, strict=True
    ):
        verdict = theory.check(result, problem, truth, prediction)
        assert verdict, str(verdict)
        assert verdict.steps >= min(steps, 50)  # some fall to rounding level before the end
        # Local theorems: x starts within epsilon / 2 of x* and stays within epsilon.
        distances = np.asarray(result.trace.metrics["distance"])
        assert distances[0] <= prediction.parameter_radius
        assert np.all(distances < 2 * prediction.parameter_radius)
        size = float(np.linalg.norm(value_of(map, truth)))
        errors = np.asarray(result.trace.metrics["error"])[: verdict.steps] * size
        ratios = errors / prediction.bound(np.arange(verdict.steps), float(errors[0]))
        worst, final = max(worst, float(np.max(ratios[1:]))), max(final, float(ratios[-1]))
        radii.append(prediction.radius / size)
    return Outcome(predictions[0].theorem, worst, final, min(radii))


# --- strong alignment of tensors, whose constant C is proved to exist and has to be measured ---


def jacobian_rank(map, truth):
    """The index of the smallest singular value that is not zero: no formula of the library."""
    return int(np.linalg.matrix_rank(np.asarray(theory.dense_jacobian(map, truth)), tol=1e-9))


def points_around(rng, truth, radius, count):
    """Random points at most that far from the truth, stacked."""
    flat, unravel = jax.flatten_util.ravel_pytree(jax.tree.map(jnp.asarray, truth))
    noise = rng.standard_normal((count, flat.size))
    lengths = radius * rng.uniform(0.01, 1.0, (count, 1))
    noise *= lengths / np.linalg.norm(noise, axis=1, keepdims=True)
    return jax.vmap(unravel)(jnp.asarray(np.asarray(flat) + noise))


@functools.partial(jax.jit, static_argnums=(0, 3))
def curvatures(map, points, z_star, index):
    """What the leading singular space misses of the error, divided by the error's square."""

    def one(x):
        found = theory.measure_alignment(map, x, z_star)
        return found.tails[index - 1] / found.error**2

    return jax.vmap(one)(points)


def measured_strong_alignment(map, truth):
    """Theorem 5.16 or 5.17, with C twice the largest of a sample within their epsilon."""
    proved = theory.strong_alignment(map, truth)
    points = points_around(np.random.default_rng(4), truth, proved.epsilon, 50)
    z_star = jnp.asarray(value_of(map, truth))
    measured = curvatures(map, points, z_star, jacobian_rank(map, truth))
    curvature = 2 * float(jnp.max(measured))
    return theory.strong_alignment(map, truth, curvature=curvature, radius=proved.epsilon)


# --- operators whose constants are known exactly ---


def directions_of_the_24_cell():
    """The twelve lines through its vertices: an operator on 2 x 2 matrices that is nearly even."""
    rows = []
    for i, j in itertools.combinations(range(4), 2):
        for sign in (1.0, -1.0):
            row = np.zeros(4)
            row[i], row[j] = 1.0, sign
            rows.append(row)
    return np.array(rows)


def extreme_absolute_sums(array):
    """Smallest and largest ``|A z|_1`` over the unit sphere, exactly, by going through them all.

    On a cone where the signs of ``A z`` do not change the sum is linear: the largest is the norm
    of ``A' s`` for some signs s, and the smallest is on an edge of a cone, which is orthogonal to
    all but one dimension's worth of rows.
    """
    dim = array.shape[1]
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=len(array))))
    largest = np.max(np.linalg.norm(signs @ array, axis=1))
    smallest = math.inf
    for rows in itertools.combinations(array, dim - 1):
        _, values, right = np.linalg.svd(np.array(rows))
        if values[-1] > 1e-9:
            smallest = min(smallest, float(np.sum(np.abs(array @ right[-1]))))
    return smallest, float(largest)
