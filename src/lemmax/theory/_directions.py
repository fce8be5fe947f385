"""Low-rank directions of norm 1: random samples, and gradient ascent to extreme ones."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._tree import tree_norm, tree_where
from ..maps import AbstractRankedMap
from ..operators import AbstractOperator
from ..points import DensePoint, KruskalPoint

# Initial step of the ascent, relative to the parameters; it grows and shrinks with success.
_FIRST_STEP = 0.1


class Directions(NamedTuple):
    """Weighted sums of outer products, stacked; symmetric ones have a single factor."""

    weights: Any
    factors: tuple[Any, ...]


def random_directions(
    rng: np.random.Generator, map: AbstractRankedMap, rank: int, samples: int
) -> Directions:
    """Random directions of rank 1 up to the given rank.

    For symmetric maps every other term is subtracted, as in a difference of two points.
    """
    symmetric, shape = bool(map.symmetric), map.shape or ()
    ranks = rng.integers(1, rank + 1, size=samples)
    weights = np.where(np.arange(rank) < ranks[:, None], 1.0, 0.0)
    if symmetric:
        weights = weights * np.where(np.arange(rank) % 2 == 0, 1.0, -1.0)
    sizes = shape[:1] if symmetric else shape
    return Directions(weights, tuple(rng.standard_normal((samples, size, rank)) for size in sizes))


def _measure(operator: AbstractOperator, order: int, direction: Directions) -> Array:
    """Absolute values of the measurements of one direction, scaled to norm 1."""
    first, *others = direction.factors
    weighted = first * jnp.expand_dims(direction.weights, 0)
    rest = others if others else [first] * (order - 1)
    z = KruskalPoint((weighted, *rest)).dense()
    return jnp.abs(jnp.ravel(operator.measure(DensePoint(z / jnp.linalg.norm(z)))))


@eqx.filter_jit
def measure_all(operator: AbstractOperator, order: int, directions: Directions) -> Array:
    """Absolute values of the measurements, one row per direction."""
    return jax.vmap(lambda direction: _measure(operator, order, direction))(directions)


@eqx.filter_jit
def climb_all(
    operator: AbstractOperator,
    order: int,
    starts: Directions,
    height: Callable[[Array, Any], Array],
    rows: Any,
    steps: int,
) -> Array:
    """The largest ``height(|A Z|, row)`` found by ascent from each start, one row per start."""

    def climb(start: Directions, row: Any) -> Array:
        slope_at = jax.value_and_grad(lambda d: height(_measure(operator, order, d), row))

        def step(carry, _):
            place, value, slope, length = carry
            size = tree_norm(slope)
            stride = length * tree_norm(place) / jnp.where(size > 0, size, 1)
            tried = jax.tree.map(lambda u, g: u + stride * g, place, slope)
            reached, steepest = slope_at(tried)
            better = reached > value
            found = tree_where(better, (tried, reached, steepest), (place, value, slope))
            return (*found, jnp.where(better, 1.5 * length, 0.5 * length)), None

        value, slope = slope_at(start)
        first = (start, value, slope, jnp.full_like(value, _FIRST_STEP))
        (_, best, _, _), _ = jax.lax.scan(step, first, length=steps)
        return best

    return jax.vmap(climb)(starts, rows)
