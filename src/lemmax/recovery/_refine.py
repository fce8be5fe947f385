"""Refine a start by a method of `lemmax.methods`, then by least squares on the bulk."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import cg
from jaxtyping import Array

from .._programs import compiled
from .._tree import tree_dot
from .._typing import Parameters, RealLike
from ..methods import AbstractMethod, lmm
from ..methods._measured import measured_jacobian
from ..methods._prox_linear import ProxLinear
from ..methods.steps import BulkPolyak
from ..points import DensePoint
from ..problem import Composite
from ..solve import Snapshot, solve
from ..status import Status
from . import _constants as constants
from ._facts import Facts, parameter_count
from ._select import Fitted, bulk_of, judged

_STEPS = BulkPolyak()
LMM = lmm(_STEPS)
"""Two passes a step; step lengths are estimated from the bulk of the residuals."""
PROX_LINEAR = ProxLinear(inner_steps=constants.INNER_STEPS)
"""Few but expensive steps, which succeed with more outliers than those of LMM."""


def approach(
    facts: Facts, method: AbstractMethod | None, x: Parameters, rank: int | None
) -> Parameters:
    """A point near a solution, from where least squares on the bulk converge."""
    if method is None:
        return x
    if method is not LMM:  # prox-linear steps converge quadratically themselves
        return _descend(facts, method, x, rank, 0.0)
    near = constants.NEAR if facts.has_small_jacobian(x) else constants.NEAR_WITHOUT_B
    return _descend(facts, method, x, rank, near)


def _descend(
    facts: Facts, method: AbstractMethod, x: Parameters, rank: int | None, near: float
) -> Parameters:
    """Run a method until the median residual is this part of the data, or progress ends."""
    every = constants.STEPS_OF_LMM if method is LMM else 1
    looks = _Looks(facts, rank, max(near * facts.scale, facts.rounding))
    result = solve(
        facts.problem,
        method,
        facts.on_device(x, rank),
        max_steps=constants.LOOKS * every,
        tol=0.0,
        callback=looks,
        every=every,
    )
    facts.steps += int(result.steps)
    facts.passes += int(np.sum(result.trace.passes))
    if result.status is Status.INTERRUPTED and not looks.ended:  # Ctrl-C during solve
        raise KeyboardInterrupt
    return result.x


class _Looks:
    """Callback that ends a descent near a solution, or without progress."""

    def __init__(self, facts: Facts, rank: int | None, near: float):
        self.facts, self.rank, self.near = facts, rank, near
        self.values: list[float] = []
        self.typical = np.inf
        self.ended = False

    def __call__(self, snapshot: Snapshot) -> bool:
        """Whether to stop here."""
        facts = self.facts
        self.values.append(snapshot.value)
        residual = facts.residual(snapshot.x)
        facts.latest = snapshot.x, self.rank, residual
        facts.look("descent", snapshot.step, snapshot.value)
        last, self.typical = self.typical, facts.typical(residual)
        # With many outliers the value hardly changes near the end, but the residuals do.
        stands = len(self.values) > 3 and self.typical > last / 2 and self._stands(residual)
        self.ended = self.typical <= self.near or stands
        return self.ended

    def _stands(self, residual: np.ndarray) -> bool:
        """Whether the value has stopped falling, relative to the loss of the bulk."""
        sizes = np.abs(residual)
        inside = np.where(sizes <= np.quantile(sizes, _STEPS.quantile), residual, 0.0)
        bulk = float(_value(self.facts.problem, np.asarray(inside, self.facts.problem.data.dtype)))
        gained = self.values[-4] - min(self.values[-3:])
        return gained <= constants.LEAST_DECREASE * bulk


def refit(facts: Facts, method: AbstractMethod | None, x: Parameters, rank: int | None) -> Fitted:
    """Least squares on the bulk of the residuals, until the bulk stays the same."""
    if method is not None and not facts.has_small_jacobian(x):
        x = _descend(facts, method, x, rank, 0.0)  # fewer passes than least squares without B
    x = facts.on_device(x, rank)
    residual, freedom = facts.residual(x), facts.freedom(x, rank)
    used, scale, moved = np.zeros_like(facts.known), np.inf, np.inf
    damping, last_scale = constants.LEAST_DAMPING, np.inf
    for step in range(constants.LOOKS):
        facts.latest = x, rank, residual
        before, (used, scale) = used, bulk_of(residual, facts.known, freedom, facts.robust)
        facts.look("least squares", step, scale)
        exact = facts.vanishes(residual)
        if exact:
            used = facts.nearly_explained(residual)
            if np.max(np.abs(residual[used])) <= facts.zero:
                break
        elif np.array_equal(before, used) and moved <= 1e-3 * scale:
            break
        if step >= constants.ROUNDS and scale > 0.9 * last_scale:
            break
        last_scale = scale
        last_x, last = x, residual
        x, residual, damping = _downhill(facts, x, rank, residual, used, damping)
        if exact and not facts.vanishes(residual):  # some of these were outliers
            x, residual = last_x, last
            break
        moved = float(np.max(np.abs(residual - last)[facts.known]))
    return judged(facts, x, rank, residual)


def _downhill(
    facts: Facts,
    x: Parameters,
    rank: int | None,
    residual: np.ndarray,
    used: np.ndarray,
    damping: float,
) -> tuple[Parameters, np.ndarray, float]:
    """A damped step that lowers the sum of squares (Levenberg), or none."""
    weights = np.where(used, facts.weights, 0)

    def squares(residual: np.ndarray) -> float:
        return float(np.sum(weights[used] * residual[used] ** 2))

    step = _least_squares(facts, x, residual, weights)
    while damping <= 1:  # beyond, steps are short and along the gradient
        after = facts.on_device(step(damping), rank)
        there = facts.residual(after)
        if squares(there) <= squares(residual):
            return after, there, max(damping / 100, constants.LEAST_DAMPING)
        damping = 100 * damping
    return x, residual, constants.LEAST_DAMPING


def _least_squares(
    facts: Facts, x: Parameters, residual: np.ndarray, weights: np.ndarray
) -> Callable[[float], Parameters]:
    """The step to the minimum of the linearised weighted squares, as a function of the damping."""
    problem, dtype = facts.problem, facts.problem.data.dtype
    at, counted = jax.device_put((np.asarray(residual, dtype), np.asarray(weights, dtype)))
    if facts.has_small_jacobian(x):
        facts.passes += 1
        parts = _normal_equations(problem, x, at, counted)
        return lambda damping: _solved(x, *parts, np.asarray(damping, dtype))

    def by_products(damping: float) -> Parameters:
        facts.passes += 2 * constants.LOOKS + 1
        return _step_by_products(problem, x, at, counted, np.asarray(damping, dtype))

    return by_products


@compiled
def _value(problem: Composite, residual: Array) -> Array:
    return problem.loss.value(residual)


@compiled
def _normal_equations(
    problem: Composite, x: Parameters, residual: Array, weights: Array
) -> tuple[Array, Array, Array]:
    """Eigenvalues and vectors of ``B'WB``, and the coordinates of ``B'W r`` along these.

    Normal equations are accurate enough: the next step corrects the error of this one.
    """
    matrix = measured_jacobian(problem, x)
    weighted = matrix * jnp.ravel(weights)[:, None]
    values, vectors = jnp.linalg.eigh(weighted.T @ matrix)
    return values, vectors, vectors.T @ (weighted.T @ jnp.ravel(residual))


@compiled
def _solved(
    x: Parameters, values: Array, vectors: Array, along: Array, damping: RealLike
) -> Parameters:
    """``x - (B'WB + damping * its mean eigenvalue)^-1 B'W r`` on the range of B'."""
    flat, unravel = ravel_pytree(x)
    seen = values > jnp.finfo(values.dtype).eps * values.size * values[-1]
    shifted = jnp.where(seen, values + damping * jnp.mean(values), 1)
    return unravel(flat - vectors @ jnp.where(seen, along / shifted, 0))


@compiled
def _step_by_products(
    problem: Composite, x: Parameters, residual: Array, weights: Array, damping: RealLike
) -> Parameters:
    """The same without B, by conjugate gradients preconditioned by J'J."""
    operator, map = problem.operator, problem.map
    # B'WB is about this gain of the operator times J'J, with a mean eigenvalue of |x|^2 / size.
    gain = jnp.sum(weights * (residual + problem.data) ** 2) / map(x).norm() ** 2
    shift = jnp.maximum(damping, constants.LEAST_DAMPING) * tree_dot(x, x) / parameter_count(x)

    def back(observations: Array) -> Parameters:
        return map.vjp(x, operator.adjoint(weights * observations))

    def normal(dx: Parameters) -> Parameters:
        seen = back(operator.measure(DensePoint(map.jvp(x, dx))))
        return jax.tree.map(lambda a, b: a + shift * gain * b, seen, dx)

    def preconditioner(g: Parameters) -> Parameters:
        return jax.tree.map(lambda a: a / gain, map.solve(x, shift, g))

    change, _ = cg(normal, back(residual), maxiter=constants.LOOKS, M=preconditioner)
    return jax.tree.map(jnp.subtract, x, change)
