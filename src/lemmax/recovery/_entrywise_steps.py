"""Steps towards a matrix or tensor of low rank from its entries, in one compiled loop."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._typing import Parameters, RealLike
from ..maps import Composed
from ..points import KruskalPoint
from ..problem import Composite
from ._components_of_entries import BEYOND, MEDIAN, MatrixMap, Observed, huber_weights
from ._lost_rows import refit_lost_rows

# The Huber loss is quadratic up to so many standard deviations of the bulk.
LEVEL = 3.0
# The scale stagnates if for so many steps it has not got better.
PATIENCE = 6
# Rounding errors, in units of the data's typical size times the precision.
ROUNDING = 32
# A row is not lost if its residuals are below so many of them.
NEARLY = 100
# How often rows that were lost are looked for.
_ROUNDS = 3

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
    robust: np.ndarray
    """Whether the level matters; of a squared loss all residuals count."""


@eqx.filter_jit
def settle(map: Any, observed: Observed, state: State, terms: Terms) -> State:
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
        weights = jnp.where(terms.robust, weights, jnp.ones_like(weights))
        counted = weights * residual
        covector = observed.adjoint(counted)
        # J'J is of the size of the point to the power 2 - 2 / N, N the degree of the map.
        damping = _DAMPING * (level * observed.roots) ** (2 - 2 / map.degree)
        direction = map.direction(state.x, damping, covector)
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


def _tangent_point(map: Any, x: Parameters, direction: Parameters) -> KruskalPoint:
    """The first-order change of the point, factored: one factor changed at a time."""
    if isinstance(map, Composed):
        return _tangent_point(map.outer, *map.inner_jvp(x, direction))
    factors, changes = map(x).factors, direction
    if map.symmetric:
        changes = (direction,) * len(factors)
    return KruskalPoint(
        tuple(
            jnp.concatenate([change if n == k else factor for k in range(len(factors))], axis=1)
            for n, (factor, change) in enumerate(zip(factors, changes, strict=True))
        )
    )


class Graduated:
    """Steps of this kind towards any factored point, a number at a time."""

    def __init__(self, problem: Composite, seed: int = 0):
        self.observed = Observed.of(problem, np.random.default_rng(seed))
        self.map: Any = problem.map  # made of factors, and of a known degree
        dtype = self.observed.data.dtype
        rounding = ROUNDING * float(jnp.finfo(dtype).eps) * self.observed.typical() / MEDIAN
        self.terms = Terms(
            *(np.asarray(number, dtype) for number in (LEVEL, BEYOND, rounding, 0.0)),
            *(np.asarray(number, np.int32) for number in (PATIENCE, 0)),
            robust=np.asarray(problem.loss.robust),
        )

    def __call__(self, x: Parameters, steps: int) -> tuple[Parameters, int]:
        """So many steps at most; how many it were."""
        dtype = self.observed.data.dtype
        root = self.observed.unit ** (1 / self.map.degree)
        x, taken = jax.tree.map(lambda factor: jnp.asarray(factor, dtype) / root, x), 0
        for _ in range(_ROUNDS):
            end = self._settle(x, steps - taken)
            x, taken = end.x, taken + int(end.steps)
            if taken >= steps or isinstance(self.map, Composed):
                break
            level = max(float(end.level), NEARLY * float(self.terms.scale))
            refitted, _ = refit_lost_rows(self.map, self.observed, x, level)
            if refitted is None:
                break
            x = refitted
        return jax.tree.map(lambda factor: factor * root, x), taken

    def _settle(self, x: Parameters, steps: int) -> State:
        dtype = self.observed.data.dtype
        endless, none = np.asarray(np.inf, dtype), np.asarray(0, np.int32)
        start = State(x, np.asarray(0, dtype), endless, endless, none, endless, none)
        terms = self.terms._replace(steps=np.asarray(steps, np.int32))
        return settle(self.map, self.observed, start, terms)
