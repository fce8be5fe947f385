"""Steps towards a low-rank matrix from its entries, at one rank, in one compiled loop."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._typing import Parameters, RealLike
from ..maps import PSD
from ..points import KruskalPoint
from ._components_of_entries import MatrixMap, Observed, huber_weights

# The scale of the bulk got better if it fell below this part of its best.
BETTER = 0.97
# The level falls to no less than this part of itself a step: the bulk takes time to follow.
_FALL = 0.6
# While the bulk shrinks, the level is so many times what it is at the end.
_LAG = 3.0
# Damping, in units of the norm of noise of the size of the level.
_DAMPING = 0.05
# No step is longer than this, in units of one over the observed share.
_LONGEST_STEP = 3.0


class State(NamedTuple):
    """A fit on its way at one rank."""

    x: Parameters
    level: RealLike
    scale: RealLike
    """Standard deviation of the bulk of the residuals, before the last step."""
    best: RealLike
    """The smallest scale so far, up to a few per cent; infinite before the first step."""
    since: RealLike
    """Steps since then."""
    moved: RealLike
    """By how much the last step moved the observed entries, root mean square."""
    steps: RealLike


class Terms(NamedTuple):
    """How to go, and when to stop: whatever comes first."""

    height: RealLike
    """The level, in units of the scale."""
    beyond: RealLike
    """Residuals above so many levels count for nothing."""
    scale: RealLike
    still: RealLike
    patience: RealLike
    steps: RealLike


@eqx.filter_jit
def settle(map: MatrixMap, observed: Observed, state: State, terms: Terms) -> State:
    """Steps at one rank until the bulk of the residuals stops shrinking."""

    def step(state: State) -> State:
        residual = observed.measure(map(state.x)) - observed.data
        scale = observed.scale(residual)
        better = scale < BETTER * state.best
        # While the bulk falls, the level stays well above it, for rows that are slower; and it
        # rises at the first step only, after which the scale is not what it was before.
        first = jnp.isinf(state.best)
        height = jnp.where(better & ~first, _LAG, 1) * terms.height
        level = jnp.maximum(height * scale, _FALL * state.level)
        level = jnp.where(first, level, jnp.minimum(level, state.level))
        weights = huber_weights(residual, level, terms.beyond)
        counted = weights * residual
        covector = observed.operator.adjoint(counted)
        direction = map.direction(state.x, _DAMPING * level * observed.roots, covector)
        # The longest step that the weighted squares justify: it knows how many entries count.
        change = observed.measure(_tangent_point(map, state.x, direction))
        curvature = jnp.sum(weights * change**2)
        slope = jnp.sum(counted * change)
        length = jnp.where(curvature > 0, slope / jnp.where(curvature > 0, curvature, 1), 0)
        length = jnp.clip(length, 0, _LONGEST_STEP / observed.share)
        return State(
            x=jax.tree.map(lambda factor, change: factor - length * change, state.x, direction),
            level=level,
            scale=scale,
            best=jnp.where(better, scale, state.best),
            since=jnp.where(better, 0, state.since + 1),
            moved=length * jnp.sqrt(jnp.sum(change**2) / observed.count),
            steps=state.steps + 1,
        )

    def goes_on(state: State) -> Array:
        stops = (
            state.scale <= terms.scale,
            state.moved <= terms.still,
            state.since >= terms.patience,
            state.steps >= terms.steps,
        )
        return ~jnp.any(jnp.stack(stops))

    return jax.lax.while_loop(goes_on, step, state)


@eqx.filter_jit
def sample_sizes(map: MatrixMap, observed: Observed, x: Parameters) -> Array:
    residual = observed.measure(map(x)) - observed.data
    return jnp.abs(residual.reshape(-1)[observed.sample])


def _tangent_point(map: MatrixMap, x: Parameters, direction: Parameters) -> KruskalPoint:
    """The first-order change of the point, factored."""
    (left, right), (dleft, dright) = (
        ((x, x), (direction, direction)) if isinstance(map, PSD) else (x, direction)
    )
    return KruskalPoint(
        (jnp.concatenate([dleft, left], axis=1), jnp.concatenate([right, dright], axis=1))
    )
