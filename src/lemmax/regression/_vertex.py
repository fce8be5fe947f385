"""Minimise a sum of absolute values by moving from vertex to vertex (Barrodale and Roberts, 1973).

At a vertex as many terms are zero as there are coefficients. It is a minimum if multipliers of the
zero terms, each within its bounds, balance the slopes of the others. If a multiplier violates its
bound, releasing its term decreases the objective, up to the weighted median of the points where
other terms vanish.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

# A row counts as linearly independent if this share remains after projecting out the others.
_INDEPENDENT = 1e-6
# Relative perturbation of the targets.
_LITTLE = 1e-7


class Terms(NamedTuple):
    """``sum_i up_i * max(r_i, 0) + down_i * max(-r_i, 0)`` with ``r = rows @ t - targets``."""

    rows: Float[Array, "n p"]
    targets: Float[Array, " n"]
    up: Float[Array, " n"]
    down: Float[Array, " n"]
    """May be infinite, which makes the residual nonnegative."""


class _State(NamedTuple):
    count: Any
    basis: Array
    inverse: Array
    optimal: Array
    stuck: Array


def best_vertex(
    terms: Terms, t: Float[Array, " p"], max_steps: int
) -> tuple[Float[Array, " p"], Bool[Array, ""]]:
    """A minimiser, starting from the vertex nearest to t; and whether optimality is proved.

    At a degenerate vertex, where more terms vanish than there are coefficients (as with exact
    data), the multipliers of one basis may prove nothing, and no edge leads down. With perturbed
    targets every vertex has a single basis, and the multipliers that prove its optimality also
    prove that of the original problem.
    """
    still = jnp.zeros_like(terms.targets)
    found, optimal = _best_vertex(terms, t, still, max_steps)
    size = _LITTLE * jnp.maximum(jnp.max(jnp.abs(terms.targets)), jnp.max(jnp.abs(t)))
    shift = np.random.default_rng(0).uniform(0.5, 1.0, len(terms.targets))
    # Sign constraints are not perturbed: zero coefficients start at their bounds.
    shift = jnp.where(jnp.isfinite(terms.down), size * shift, 0)
    return jax.lax.cond(
        optimal,
        lambda: (found, optimal),
        lambda: _best_vertex(terms, t, shift.astype(terms.targets.dtype), max_steps),
    )


def _best_vertex(
    terms: Terms, t: Array, shift: Array, max_steps: int
) -> tuple[Array, Bool[Array, ""]]:
    """The best vertex for perturbed targets."""
    moved = terms._replace(targets=terms.targets + shift)
    basis, complete = _next_vertex(moved, t)
    inverse = jnp.linalg.inv(terms.rows[basis])
    begin = _State(0, basis, inverse, jnp.asarray(False), ~complete)
    end = jax.lax.while_loop(
        lambda s: ~s.optimal & ~s.stuck & (s.count < max_steps),
        lambda s: _exchange(moved, s),
        begin,
    )
    # Solve again, to remove the rounding errors that many exchanges left in the inverse.
    solved, nearby = (
        jnp.linalg.solve(terms.rows[end.basis], some.targets[end.basis]) for some in (terms, moved)
    )
    residual = terms.rows @ solved - terms.targets
    eps, largest = jnp.finfo(solved.dtype).eps, jnp.max(jnp.abs(solved))
    # The first vertex may violate a constraint, which the multipliers do not show.
    allowed = jnp.isfinite(terms.down) | (residual >= -100 * eps * largest)
    # The multipliers are a proof if the residuals have the same signs, or vanish.
    sums = jnp.sum(jnp.abs(terms.rows), axis=1) * largest + jnp.abs(terms.targets)
    vanishes = jnp.abs(residual) <= 100 * eps * sums
    same = vanishes | (residual * (terms.rows @ nearby - moved.targets) > 0)
    inside = jnp.zeros(len(residual), bool).at[end.basis].set(True)
    proved = jnp.all(jnp.isfinite(solved)) & jnp.all(allowed) & jnp.all(same | inside)
    return solved, end.optimal & proved


def _next_vertex(terms: Terms, t: Array) -> tuple[Array, Array]:
    """The linearly independent rows with the smallest residuals, and whether there are enough."""
    count, size = terms.rows.shape
    sizes = jnp.abs(terms.rows @ t - terms.targets)
    lengths = jnp.linalg.norm(terms.rows, axis=1)
    useful = (lengths > 0) & (terms.up + terms.down > 0)

    def choose(k: Any, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        basis, left, complete = state
        remaining = jnp.linalg.norm(left, axis=1)
        independent = useful & (remaining > _INDEPENDENT * lengths)
        chosen = jnp.argmin(jnp.where(independent, sizes, jnp.inf))
        unit = left[chosen] / jnp.maximum(remaining[chosen], jnp.finfo(left.dtype).tiny)
        left = left - (left @ unit)[:, None] * unit[None, :]
        return basis.at[k].set(chosen), left, complete & independent[chosen]

    begin = jnp.zeros(size, int), terms.rows, jnp.asarray(count >= size)
    basis, _, complete = jax.lax.fori_loop(0, size, choose, begin)
    return basis, complete


def _exchange(terms: Terms, state: _State) -> _State:
    """Move along the steepest edge to its lowest vertex; stay if no edge leads down."""
    rows, targets, up, down = terms
    eps = jnp.finfo(rows.dtype).eps
    basis, inverse = state.basis, state.inverse
    t = inverse @ targets[basis]
    residual = rows @ t - targets
    inside = jnp.zeros(len(targets), bool).at[basis].set(True)
    slope = jnp.where(inside, 0, jnp.where(residual < 0, -jnp.where(jnp.isinf(down), 0, down), up))
    balance = -(slope @ rows) @ inverse
    # Rounding errors of the multipliers.
    tolerance = 100 * eps * ((jnp.abs(slope) @ jnp.abs(rows)) @ jnp.abs(inverse))
    above, below = balance - up[basis], -down[basis] - balance
    violation = jnp.maximum(above, below) - tolerance
    leaving = jnp.argmax(violation)
    direction = jnp.where(above[leaving] > below[leaving], 1.0, -1.0) * inverse[:, leaving]
    rates = rows @ direction
    # Where along the edge the other terms vanish, and the increase of the slope there.
    meets = ~inside & (rates * residual < 0)
    places = jnp.where(meets, -residual / jnp.where(meets, rates, 1), jnp.inf)
    rises = jnp.where(meets, jnp.abs(rates) * (up + down), 0)
    order = jnp.argsort(places)
    slopes = jnp.cumsum(rises[order]) - jnp.maximum(above, below)[leaving]
    entering = order[jnp.argmax(slopes >= 0)]
    found = jnp.isfinite(places[entering])
    # Update the inverse for the exchanged row (Sherman-Morrison).
    new_row = rows[entering] @ inverse
    pivot = jnp.where(found, new_row[leaving], 1)
    change = new_row.at[leaving].add(-1)
    exchanged = inverse - (inverse[:, leaving] / pivot)[:, None] * change[None, :]
    optimal = jnp.all(violation <= 0)
    moves = ~optimal & found & jnp.all(jnp.isfinite(exchanged))
    return _State(
        state.count + 1,
        jnp.where(moves, basis.at[leaving].set(entering), basis),
        jnp.where(moves, exchanged, inverse),
        optimal,
        ~moves,
    )
