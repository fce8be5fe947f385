"""Levenberg-Marquardt steps in a trust region, with trial points that may be rejected."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Int, PyTree

from .._checks import check_kind
from .._tree import tree_all_finite
from .._typing import Parameters, RealLike, RealScalar
from ..points import AbstractPoint, DensePoint
from ..problem import Composite, Evaluation
from ._base import AbstractMethod, Move
from ._measured import observed_residual
from ._numbers import check_sizes, check_target
from .jacobians import AbstractJacobian, Linearised, chosen_jacobian, usable
from .scope import SCOPES, Scope

# Moré's constants: a step is accepted if it achieves this share of the predicted decrease; below
# and above the other two, the trust region shrinks or grows.
_ACCEPTED, _POOR, _GOOD = 1e-4, 0.25, 0.75
# Stop after this many steps in a row that leave more than this share of both offset and value, if
# the offset is within this multiple of its rounding error.
_PATIENCE, _SLOW, _NEAR = 4, 0.95, 1e3


class Accepted(NamedTuple):
    """The last accepted point, and the predictions for the trial point."""

    x: Array
    value: RealScalar
    """Infinite before the first point is accepted."""
    gradient: Array
    vector: Array
    root: Array
    top: RealScalar
    """The largest weight; all weights are divided by it."""
    free: Array
    norms: Array
    """The largest norm of each Jacobian column so far."""
    kept: Any
    radius: RealScalar
    offset: RealScalar
    blur: RealScalar
    """Relative size of the rounding errors in the residual."""
    stale: Int[Array, ""]
    predicted: RealScalar
    length: RealScalar
    limited: Bool[Array, ""]


class TrustRegion(AbstractMethod):
    """The trust-region method; see `trust_region`."""

    jacobian: AbstractJacobian | None = None
    bounds: tuple[PyTree, PyTree] | None = None
    reach: RealLike = 1.0
    known_target: RealLike | None = None

    def __check_init__(self):
        if self.jacobian is not None:
            what = "one of lm.jacobians, or None for an automatic choice"
            check_kind("jacobian", self.jacobian, AbstractJacobian, what)
        if self.bounds is not None and (
            not isinstance(self.bounds, tuple) or len(self.bounds) != 2
        ):
            raise ValueError("bounds must be a pair (low, high) of pytrees like the parameters.")
        check_sizes(reach=self.reach)
        check_target(self.known_target)

    @property
    def target(self) -> RealLike | None:
        """The target, if given."""
        return self.known_target

    @property
    def scope(self) -> Scope:
        """Losses with reweighting weights."""
        return SCOPES["trust_region"]

    @property
    def tries(self) -> bool:
        """True: iterates are trial points."""
        return True

    @property
    def on_host(self) -> bool:
        """Whether the Jacobian's linear algebra runs in Python."""
        return self.jacobian is not None and self.jacobian.on_host

    def init(self, problem: Composite, x0: Parameters) -> Accepted:
        """No point is accepted yet."""
        flat, _ = ravel_pytree(x0)
        residual = jax.eval_shape(lambda x: observed_residual(problem, problem.evaluate(x)), x0)
        low, high = self._box(x0)
        if low.shape != flat.shape or high.shape != flat.shape:
            raise ValueError("bounds must have the shapes of the parameters.")
        jacobian = chosen_jacobian(self.jacobian, residual.size, flat.size, flat.dtype.itemsize)
        infinite = jnp.full((), jnp.inf, flat.dtype)
        return Accepted(
            x=flat,
            value=infinite,
            gradient=jnp.zeros_like(flat),
            vector=jnp.zeros(residual.size, flat.dtype),
            root=jnp.zeros(residual.size, flat.dtype),
            top=jnp.ones_like(infinite),
            free=jnp.ones_like(flat),
            norms=jnp.zeros_like(flat),
            kept=jacobian.begin(problem, x0, residual.size),
            radius=infinite,
            offset=infinite,
            blur=jnp.zeros_like(infinite),
            stale=jnp.zeros((), jnp.int32),
            predicted=infinite,
            length=jnp.zeros_like(infinite),
            limited=jnp.zeros((), bool),
        )

    def step(
        self, problem: Composite, evaluation: Evaluation, state: Accepted
    ) -> tuple[Move, Accepted]:
        """Accept or reject the trial point, and compute the next one."""
        before, first = state, jnp.isinf(state.value)
        finite = jnp.isfinite(evaluation.value) & tree_all_finite(evaluation.gradient)
        ratio, tiny = _gain_ratio(state, evaluation, finite)
        taken = first | (ratio > _ACCEPTED)
        radius = jnp.where(
            ratio < _POOR,
            jnp.where(finite, 0.25, 0.1) * state.length,
            jnp.where((ratio > _GOOD) & state.limited, 2 * state.length, state.radius),
        )
        state = self._at(problem, evaluation, state, taken)._replace(
            radius=jnp.where(first, state.radius, radius).astype(state.radius.dtype)
        )
        _, unravel = ravel_pytree(evaluation.x)
        at = Linearised(problem, unravel, state.x, state.vector, state.root, state.free)
        sizes = state.vector.size, state.x.size, state.x.dtype.itemsize
        jacobian = chosen_jacobian(self.jacobian, *sizes)
        kept, norms = jacobian.linearise(at, state.norms, state.kept, taken)
        size, whole = jnp.linalg.norm(norms * state.x), jnp.linalg.norm(state.vector)
        start = self.reach * jnp.where(size > 0, size, whole)
        radius = jnp.where(first, start, state.radius).astype(start.dtype)
        step = jacobian.step(at, norms, kept, radius)
        change, length, decrease = step.change, step.length, step.decrease
        trial = state.x + change
        if self.bounds is not None:
            trial = jnp.clip(trial, *self._box(evaluation.x))
            change = trial - state.x
            length = jnp.linalg.norm(norms * change)
            decrease = jacobian.decrease(at, norms, kept, change)
        offset = jnp.where(whole > 0, step.part / jnp.where(whole > 0, whole, 1), 0)
        offset = jnp.where(taken, offset, state.offset)
        # For exact data the offset stays constant while the value falls.
        level = (offset > _SLOW * before.offset) & (state.value > _SLOW * before.value)
        slow = jnp.where(taken, level, tiny)
        stale = jnp.where(slow, state.stale + 1, jnp.where(taken, 0, state.stale))
        hidden = 8 * state.blur
        vanished = (offset <= hidden) | ((stale >= _PATIENCE) & (offset <= _NEAR * hidden))
        eps = jnp.finfo(offset.dtype).eps
        # Every step this short leaves x unchanged. Not moving ends the run.
        stuck = ~taken & (radius <= eps * jnp.maximum(size, eps * whole))
        trial = jnp.where(stuck, ravel_pytree(evaluation.x)[0], trial)
        move = Move(
            x=unravel(trial),
            length=length,
            damping=step.damping,
            iterations=step.iterations,
            failed=~jnp.all(jnp.isfinite(change)),
            extra_passes=step.passes + jnp.where(taken, jacobian.passes, 0).astype(jnp.int32),
            offset=jnp.where(vanished, 0, offset),
        )
        return move, state._replace(
            norms=norms,
            kept=kept,
            radius=radius,
            offset=offset,
            stale=stale,
            predicted=state.top * decrease,
            length=length,
            limited=step.limited,
        )

    def _at(
        self,
        problem: Composite,
        evaluation: Evaluation,
        state: Accepted,
        taken: Bool[Array, ""],
    ) -> Accepted:
        """The state of the trial point if it is accepted, otherwise the previous state."""
        residual = jnp.ravel(observed_residual(problem, evaluation))
        flat, _ = ravel_pytree(evaluation.x)
        slope, _ = ravel_pytree(evaluation.gradient)
        shaped = observed_residual(problem, evaluation)
        weight = jnp.ravel(problem.loss.weight(shaped))
        top = jnp.max(weight)
        top = jnp.where(top > 0, top, 1)
        root = jnp.sqrt(weight / top)
        vector = root * residual
        low, high = self._box(evaluation.x)
        pressed = ((flat <= low) & (slope > 0)) | ((flat >= high) & (slope < 0))
        count = jnp.maximum(jnp.sum(root > 0, dtype=flat.dtype), 1)
        spread = jnp.linalg.norm(vector) / jnp.sqrt(count)
        eps = jnp.finfo(flat.dtype).eps
        rounding = eps * _typical(problem, residual.size).astype(flat.dtype)
        new = state._replace(
            x=flat,
            value=evaluation.value,
            gradient=slope,
            vector=vector,
            root=root,
            top=top,
            free=jnp.where(pressed, jnp.zeros_like(flat), 1),
            blur=eps + rounding / jnp.maximum(jnp.maximum(spread, rounding), _tiny(flat)),
        )
        return jax.tree.map(lambda u, v: jnp.where(taken, u, v), new, state)

    def _box(self, x: Parameters) -> tuple[Array, Array]:
        flat, _ = ravel_pytree(x)
        if self.bounds is None:
            return jnp.full_like(flat, -jnp.inf), jnp.full_like(flat, jnp.inf)
        low, high = (ravel_pytree(jax.tree.map(jnp.asarray, side))[0] for side in self.bounds)
        return low.astype(flat.dtype), high.astype(flat.dtype)


def _gain_ratio(
    state: Accepted, trial: Evaluation, finite: Bool[Array, ""]
) -> tuple[RealScalar, Bool[Array, ""]]:
    """Ratio of actual to predicted decrease, and whether both are below rounding errors."""
    gained = jnp.where(finite, state.value - jnp.where(finite, trial.value, 0), -jnp.inf)
    predicted, noise = state.predicted, 16 * state.blur * state.value
    # A decrease below rounding errors cannot be measured; use the gradient instead.
    tiny = finite & (predicted > 0) & (predicted <= noise) & (jnp.abs(gained) <= 4 * noise)
    scale = state.free / usable(state.norms)
    flatter = jnp.linalg.norm(scale * ravel_pytree(trial.gradient)[0]) < jnp.linalg.norm(
        scale * state.gradient
    )
    ratio = gained / jnp.where(predicted > 0, predicted, jnp.inf)
    return jnp.where(tiny, jnp.where(flatter, 1, 0), ratio), tiny


def _typical(problem: Composite, observations: int) -> RealScalar:
    data = problem.data if isinstance(problem.data, AbstractPoint) else DensePoint(problem.data)
    return data.norm() / math.sqrt(observations)


def _tiny(like: Array) -> float:
    return float(jnp.finfo(like.dtype).tiny)
