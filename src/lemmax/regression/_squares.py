"""Least squares with nonnegative coefficients, many right-hand sides at once.

All rows take steps of ADMM together, whose products of matrices they share. Then every row settles
which of its coefficients are positive by block principal pivoting (Kim and Park, 2011): solve for
those, exchange the ones that contradict the optimality conditions, and again.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._linalg import cholesky, cholesky_solve
from .._typing import RealScalar

_RELAXATION = 1.6
# Steps between two looks at whether all signs have settled, and the change that is called none.
_LOOK, _STILL = 20, 1e-10
# Exchanges of one row before it is given up, and how often a whole block of coefficients is
# exchanged without the number of contradictions falling.
_EXCHANGES, _PATIENCE = 200, 3
# Of the penalty: the range of curvatures that is taken into account.
_NARROW = 1e-4


def least_squares(
    design: Float[Array, "n p"],
    rows: Float[Array, "k n"],
    weights: Float[Array, "k n"],
    nonnegative: bool,
    max_steps: int,
) -> tuple[Float[Array, "k p"], Bool[Array, " k"]]:
    """Minimise the weighted sum of squares of every row; which of them are settled."""
    # Rows with the same weights everywhere share the normal equations.
    shared = bool(jnp.all(weights == 1))
    if not nonnegative:
        return _plain(design, rows, weights), jnp.ones(rows.shape[0], bool)
    if shared:
        gram = design.T @ design
        start = _together(gram, rows @ design, max_steps)
        return _exchange_all(gram, rows @ design, start)
    return _one_by_one(design, rows, weights, max_steps)


@eqx.filter_jit
def _plain(design: Array, rows: Array, weights: Array) -> Array:
    def solve(row_and_weights: tuple[Array, Array]) -> Array:
        row, weight = row_and_weights
        root = jnp.sqrt(weight)
        return jnp.linalg.lstsq(root[:, None] * design, root * row)[0]

    return jax.lax.map(solve, (rows, weights))


@eqx.filter_jit
def _one_by_one(
    design: Array, rows: Array, weights: Array, max_steps: int
) -> tuple[Array, Bool[Array, " k"]]:
    """Every row has normal equations of its own."""

    def solve(row_and_weights: tuple[Array, Array]) -> tuple[Array, Array]:
        row, weight = row_and_weights
        gram = (design * weight[:, None]).T @ design
        linear = (weight * row)[None, :] @ design
        return _exchange(gram, linear[0], _together(gram, linear, max_steps)[0])

    return jax.lax.map(solve, (rows, weights))


@eqx.filter_jit
def _together(gram: Array, linear: Array, max_steps: int) -> Array:
    """Steps of ADMM for ``t G t / 2 - linear t`` with t = u >= 0, in the eigenvectors of G."""
    values, vectors = jnp.linalg.eigh(gram)
    largest = jnp.maximum(values[-1], jnp.finfo(values.dtype).tiny)
    # The best penalty for a quadratic function is the geometric mean of its curvatures.
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
        still = (jnp.max(jnp.abs(new[0] - u)) <= _STILL * size) | jnp.array_equal(new[0] > 0, u > 0)
        return count + _LOOK, new, ~still

    nothing = jnp.zeros_like(linear)
    start = (0, (nothing, nothing), jnp.asarray(True))
    _, (u, _), _ = jax.lax.while_loop(lambda s: s[2] & (s[0] < max_steps), several, start)
    return u


@eqx.filter_jit
def _exchange_all(gram: Array, linear: Array, start: Array) -> tuple[Array, Bool[Array, " k"]]:
    return jax.lax.map(lambda pair: _exchange(gram, *pair), (linear, start))


def _exchange(gram: Array, linear: Array, start: Array) -> tuple[Array, Bool[Array, ""]]:
    """Block principal pivoting of one row, from the signs of a good guess."""
    eps = jnp.finfo(gram.dtype).eps
    order = jnp.arange(gram.shape[0])
    diagonal = jnp.diagonal(gram)
    # A gradient below this is a rounding error.
    level = 10 * eps * gram.shape[0] * jnp.maximum(jnp.max(jnp.abs(linear)), 0)

    def on(free: Array) -> tuple[Array, Array]:
        """The minimiser with all others 0, and the coefficients that contradict optimality."""
        both = free[:, None] & free[None, :]
        # A little of the diagonal keeps the factorisation alive where columns coincide; the
        # refinement after it takes the error out again.
        damped = jnp.where(both, gram, 0) + jnp.diag(jnp.where(free, 100 * eps * diagonal, 1))
        factor = cholesky(damped)
        t = jnp.zeros_like(linear)
        for _ in range(2):
            defect = jnp.where(free, linear - gram @ t, 0)
            t = t + jnp.where(free, cholesky_solve(factor, defect), 0)
        gradient = gram @ t - linear
        wrong = jnp.where(free, t < 0, gradient < -level)
        return t, wrong

    def exchange(state: Any) -> Any:
        count, free, _, wrong, fewest, patience = state
        contradictions = jnp.sum(wrong)
        better = contradictions < fewest
        patience = jnp.where(better, _PATIENCE, patience - 1)
        # All at once, as long as that helps; else the last one alone, which always ends.
        last = wrong & (order == jnp.max(jnp.where(wrong, order, -1)))
        free = free ^ jnp.where(patience >= 0, wrong, last)
        t, wrong = on(free)
        fewest = jnp.minimum(fewest, contradictions)
        return count + 1, free, t, wrong, fewest, patience

    free = start > 0
    t, wrong = on(free)
    most: RealScalar = jnp.asarray(gram.shape[0] + 1)
    begin = (0, free, t, wrong, most, jnp.asarray(_PATIENCE))
    _, _, t, wrong, *_ = jax.lax.while_loop(
        lambda s: jnp.any(s[3]) & (s[0] < _EXCHANGES), exchange, begin
    )
    settled = ~jnp.any(wrong) & jnp.all(jnp.isfinite(t))
    return jnp.where(settled, jnp.maximum(t, 0), start), settled
