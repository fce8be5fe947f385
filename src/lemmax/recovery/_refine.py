"""Refine a start by a method of `lemmax.methods`, then by least squares on the bulk."""

import jax.numpy as jnp
import numpy as np

from .._typing import Parameters
from ..methods import AbstractMethod, lmm
from ..methods._least_squares import PASSES_BY_PRODUCTS, least_squares
from ..methods._prox_linear import ProxLinear
from ..methods.steps import BulkPolyak
from ..solve import Snapshot, solve
from ..status import Status
from . import _constants as constants
from ._facts import Facts
from ._select import Fitted, bulk_of, judged

_STEPS = BulkPolyak()
LMM = lmm(_STEPS)
"""Two passes a step; step lengths are estimated from the bulk of the residuals."""
PROX_LINEAR = ProxLinear(inner_steps=constants.INNER_STEPS)
"""Few but expensive steps, which succeed with more outliers than those of LMM."""


def approach(
    facts: Facts,
    method: AbstractMethod | None,
    x: Parameters,
    rank: int | None,
    near: float | None = None,
) -> Parameters:
    """Run a method until progress ends, or the median residual is this part of the data.

    By default LMM ends near enough for least squares on the bulk. Prox-linear steps converge
    quadratically themselves.
    """
    if method is None:
        return x
    if near is None and method is LMM:
        near = constants.NEAR if facts.has_small_jacobian(x) else constants.NEAR_WITHOUT_B
    every = constants.STEPS_OF_LMM if method is LMM else 1
    looks = _Looks(facts, rank, max((near or 0.0) * facts.scale, facts.rounding))
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
        problem = self.facts.problem
        bulk = float(problem.loss.value(jnp.asarray(inside, problem.data.dtype)))
        gained = self.values[-4] - min(self.values[-3:])
        return gained <= constants.LEAST_DECREASE * bulk


def refit(facts: Facts, method: AbstractMethod | None, x: Parameters, rank: int | None) -> Fitted:
    """Least squares on the bulk of the residuals, until the bulk stays the same."""
    if method is not None and not facts.has_small_jacobian(x):
        x = approach(facts, method, x, rank, 0.0)  # fewer passes than least squares without B
    x = facts.on_device(x, rank)
    residual, freedom = facts.residual(x), facts.freedom(x, rank)
    used, scale, moved = np.zeros_like(facts.known), np.inf, np.inf
    damping, last_scale = constants.LEAST_DAMPING, np.inf
    for step in range(constants.LOOKS):
        facts.latest = x, rank, residual
        before, (used, scale) = used, bulk_of(residual, facts.known, freedom, facts.robust)
        facts.look("least squares", step, scale)
        stands = np.array_equal(before, used) and moved <= 1e-3 * scale
        exact = facts.vanishes(residual)
        if exact:  # it may not have converged everywhere; outliers stay at the size of the data
            used = facts.known & (np.abs(residual) <= np.sqrt(facts.rounding * facts.scale))
            stands = np.max(np.abs(residual[used])) <= facts.zero
        if stands or (step >= constants.ROUNDS and scale > 0.9 * last_scale):
            break
        last, last_scale = (x, residual), scale
        x, residual, damping = _downhill(facts, x, rank, residual, used, damping)
        if exact and not facts.vanishes(residual):  # some of these were outliers
            x, residual = last
            break
        moved = float(np.max(np.abs(residual - last[1])[facts.known]))
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

    small = facts.has_small_jacobian(x)
    step = least_squares(facts.problem, x, residual, weights, by_matrix=small)
    facts.passes += small
    while damping <= 1:  # beyond, steps are short and along the gradient
        after = facts.on_device(step(damping), rank)
        facts.passes += 0 if small else PASSES_BY_PRODUCTS
        there = facts.residual(after)
        if squares(there) <= squares(residual):
            return after, there, max(damping / 100, constants.LEAST_DAMPING)
        damping = 100 * damping
    return x, residual, constants.LEAST_DAMPING
