"""Least squares with nonnegative coefficients, many right-hand sides.

All rows run ADMM together and share its matrix products. Then block principal pivoting (Kim and
Park, 2011) finds the positive coefficients of each row: solve for those assumed positive, exchange
the ones that violate the optimality conditions, and repeat.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._linalg import cholesky, cholesky_solve
from .._programs import compiled

_RELAXATION = 1.6
# Steps between two convergence tests; the relative change at which to stop, and that at which to
# stop if no sign has changed.
_LOOK, _STILL, _NEARLY_STILL = 20, 1e-10, 1e-3
# Number of block exchanges without fewer violations, before exchanging one coefficient at a time.
_PATIENCE = 3
# For the penalty: lower bound of the smallest relative curvature.
_NARROW = 1e-4
_REFINEMENTS = 10
# Usually about half of the coefficients are positive. Beyond this many unknowns, a system for this
# share of them is tried first, which is several times cheaper than one for all.
_WORTHWHILE, _ROOM = 48, 0.625


def least_squares(
    design: Float[Array, "n p"],
    rows: Float[Array, "k n"],
    weights: Float[Array, "k n"],
    nonnegative: bool,
    max_steps: int,
) -> tuple[Float[Array, "k p"], Bool[Array, " k"]]:
    """Minimise the weighted sum of squares of every row; also, which are solved."""
    shared = bool(jnp.all(weights == weights[:1]))
    if shared:
        # Rows with equal weights share all factorisations.
        root = jnp.sqrt(weights[0])
        design, rows = root[:, None] * design, root[None, :] * rows
    if not nonnegative:
        solve = _plain if shared else _plain_one_by_one
        return solve(design, rows, weights), jnp.ones(rows.shape[0], bool)
    if shared:
        return _nonnegative(design, rows, max_steps)
    return _nonnegative_one_by_one(design, rows, weights, max_steps)


@compiled
def _plain(design: Array, rows: Array, weights: Array) -> Array:
    del weights
    return jnp.linalg.lstsq(design, rows.T)[0].T


@compiled
def _plain_one_by_one(design: Array, rows: Array, weights: Array) -> Array:
    def solve(row_and_weights: tuple[Array, Array]) -> Array:
        row, weight = row_and_weights
        root = jnp.sqrt(weight)
        return jnp.linalg.lstsq(root[:, None] * design, root * row)[0]

    return jax.lax.map(solve, (rows, weights))


@compiled
def _nonnegative(design: Array, rows: Array, max_steps: int) -> tuple[Array, Bool[Array, " k"]]:
    lengths = _lengths(design)
    unit = design / lengths[None, :]
    gram, linear = unit.T @ unit, rows @ unit
    start = _together(gram, linear, max_steps)
    t, settled = jax.lax.map(lambda pair: _exchange(gram, *pair), (linear, start))
    return t / lengths[None, :], settled


@compiled
def _nonnegative_one_by_one(
    design: Array, rows: Array, weights: Array, max_steps: int
) -> tuple[Array, Bool[Array, " k"]]:
    """Rows with different weights: separate normal equations."""

    def solve(row_and_weights: tuple[Array, Array]) -> tuple[Array, Array]:
        row, weight = row_and_weights
        root = jnp.sqrt(weight)
        weighted = root[:, None] * design
        lengths = _lengths(weighted)
        unit = weighted / lengths[None, :]
        gram, linear = unit.T @ unit, (root * row)[None, :] @ unit
        t, settled = _exchange(gram, linear[0], _together(gram, linear, max_steps)[0])
        return t / lengths, settled

    return jax.lax.map(solve, (rows, weights))


def _lengths(design: Array) -> Array:
    """Column norms, for scaling; 1 for a zero column."""
    lengths = jnp.sqrt(jnp.sum(design**2, axis=0))
    return jnp.where(lengths > 0, lengths, 1)


def _together(gram: Array, linear: Array, max_steps: int) -> Array:
    """ADMM for ``t G t / 2 - linear t`` with t = u >= 0, in the eigenvectors of G."""
    values, vectors = jnp.linalg.eigh(gram)
    largest = jnp.maximum(values[-1], jnp.finfo(values.dtype).tiny)
    # The optimal penalty for a quadratic function is the geometric mean of its curvatures.
    penalty = jnp.sqrt(jnp.maximum(values[0], _NARROW * largest) * largest)
    inverse = (vectors / (jnp.maximum(values, 0) + penalty)[None, :]) @ vectors.T
    size = jnp.max(jnp.abs(linear)) / largest

    def step(state: Any, _: None) -> tuple[Any, None]:
        u, dual = state
        t = (linear + penalty * (u - dual)) @ inverse
        relaxed = _RELAXATION * t + (1 - _RELAXATION) * u
        new = jnp.maximum(relaxed + dual, 0)
        return (new, dual + relaxed - new), None

    def several(state: Any) -> Any:
        count, (u, dual), _ = state
        new, _ = jax.lax.scan(step, (u, dual), None, length=_LOOK)
        change = jnp.max(jnp.abs(new[0] - u))
        same = jnp.array_equal(new[0] > 0, u > 0)
        still = (change <= _STILL * size) | (same & (change <= _NEARLY_STILL * size))
        return count + _LOOK, new, ~still

    nothing = jnp.zeros_like(linear)
    start = (0, (nothing, nothing), jnp.asarray(True))
    _, (u, _), _ = jax.lax.while_loop(lambda s: s[2] & (s[0] < max_steps), several, start)
    return u


def _exchange(gram: Array, linear: Array, start: Array) -> tuple[Array, Bool[Array, ""]]:
    """Block principal pivoting for one row, started from the signs of an approximate solution.

    The columns have length 1, or are zero.
    """
    count = gram.shape[0]
    room = count if count < _WORTHWHILE else 8 * -(-int(_ROOM * count) // 8)
    answer = _exchange_within(room, gram, linear, start)
    if room < count:
        answer = jax.lax.cond(
            answer[2], lambda: _exchange_within(count, gram, linear, start), lambda: answer
        )
    return answer[:2]


def _exchange_within(
    room: int, gram: Array, linear: Array, start: Array
) -> tuple[Array, Bool[Array, ""], Bool[Array, ""]]:
    """With a bound on the number of positive coefficients; also, whether it was exceeded."""
    eps = jnp.finfo(gram.dtype).eps
    count = gram.shape[0]
    order = jnp.arange(count)
    there = jnp.diagonal(gram) > 0

    def rounding(t: Array, rows: Array, right: Array) -> Array:
        """Rounding error of the gradient at t."""
        return 10 * eps * count**0.5 * (jnp.abs(rows) @ jnp.abs(t) + jnp.abs(right))

    def on(free: Array) -> tuple[Array, Array]:
        """The minimiser on the free coefficients, and which violate the optimality conditions."""
        chosen = jnp.argsort(~free, stable=True)[:room]
        free_here, right = free[chosen], jnp.where(free, linear, 0)[chosen]
        part = jnp.where(free_here[:, None] & free_here[None, :], gram[chosen][:, chosen], 0)
        # A small ridge makes the factorisation work if columns coincide; iterative refinement
        # removes its effect.
        factor = cholesky(part + jnp.diag(jnp.where(free_here, 100 * eps, 1)))

        def goes_on(state: Any) -> Array:
            times, t, defect = state
            return (times < _REFINEMENTS) & jnp.any(jnp.abs(defect) > rounding(t, part, right))

        def refine(state: Any) -> Any:
            times, t, defect = state
            t = t + cholesky_solve(factor, defect)
            return times + 1, t, right - part @ t

        _, some, _ = jax.lax.while_loop(goes_on, refine, (0, jnp.zeros_like(right), right))
        t = jnp.zeros_like(linear).at[chosen].set(some)
        against = gram @ t - linear < -rounding(t, gram, linear)
        return t, jnp.where(free, t < 0, there & against)

    def exchange(state: Any) -> Any:
        times, free, _, wrong, fewest, patience = state
        contradictions = jnp.sum(wrong)
        better = contradictions < fewest
        patience = jnp.where(better, _PATIENCE, patience - 1)
        # All at once while that helps; otherwise only the last, which always terminates.
        last = wrong & (order == jnp.max(jnp.where(wrong, order, -1)))
        free = free ^ jnp.where(patience >= 0, wrong, last)
        t, wrong = on(free)
        fewest = jnp.minimum(fewest, contradictions)
        return times + 1, free, t, wrong, fewest, patience

    def goes_on(state: Any) -> Array:
        times, free, _, wrong, *_ = state
        return jnp.any(wrong) & (times < 50 + 5 * count) & (jnp.sum(free) <= room)

    free = (start > 0) & there
    t, wrong = on(free)
    begin = (0, free, t, wrong, jnp.asarray(count + 1), jnp.asarray(_PATIENCE))
    _, free, t, wrong, *_ = jax.lax.while_loop(goes_on, exchange, begin)
    gradient = gram @ t - linear
    flat = jnp.abs(gradient) <= rounding(t, gram, linear)
    optimal = ~jnp.any(wrong) & jnp.all(jnp.where(free, flat, True))
    settled = optimal & jnp.all(jnp.isfinite(t))

    def value(t: Array) -> Array:
        return jnp.sum(t * (gram @ t / 2 - linear))

    clipped = jnp.maximum(t, 0)
    better = settled | (value(clipped) <= value(start))
    return jnp.where(better, clipped, start), settled, jnp.sum(free) > room
