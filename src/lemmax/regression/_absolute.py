"""Least absolute deviations, optionally with nonnegative coefficients, many right-hand sides.

All rows run ADMM together. Then each row is made exact: if most of its residuals can vanish, by
solving for those that nearly do; otherwise by moving from vertex to vertex.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._linalg import cholesky, cholesky_solve, thin_svd
from .._programs import compiled
from ._vertex import Terms, best_vertex

_RELAXATION = 1.6
_LOOK = 20
# Relative accuracy of ADMM; the vertex step does the rest.
_CLOSE = 1e-7
# Residuals up to this size, relative to the median target of the row, count as zero.
_NEARLY = (1e-9, 1e-7, 1e-5, 1e-3)
# Relative duality gap at which a row is solved.
_GAP = 1e-9
# Maximum number of exchanges per coefficient.
_EXCHANGES = 20
_DOUBLE, _LOPSIDED = 2.0, 10.0


class _State(NamedTuple):
    count: Any
    t: Array
    w: Array
    u: Array
    dual_w: Array
    dual_u: Array
    penalty: Array
    moving: Array


@compiled
def least_absolute(
    design: Float[Array, "n p"],
    rows: Float[Array, "k n"],
    weights: Float[Array, "k n"],
    nonnegative: bool,
    max_steps: int,
) -> tuple[Float[Array, "k p"], Bool[Array, " k"]]:
    """Minimise the weighted sum of absolute residuals of every row; also, which are solved."""
    gain = jnp.sqrt(jnp.mean(jnp.sum(design**2, axis=0)))
    gain = jnp.where(gain > 0, gain, 1)
    typical = _typical(rows, weights)
    t, dual = _steps(design / gain, rows, weights, typical, nonnegative, max_steps)

    def finish(lane: tuple[Array, ...]) -> tuple[Array, Array]:
        return _finished(design, *lane, nonnegative=nonnegative, max_steps=max_steps)

    return jax.lax.map(finish, (rows, weights, typical, t / gain, dual))


def _typical(rows: Array, weights: Array) -> Array:
    """The median absolute value of a row's nonzero known targets; 1 if there are none.

    Not the mean or the norm, which outliers would inflate.
    """
    sizes = jnp.where((weights > 0) & (rows != 0), jnp.abs(rows), jnp.nan)
    median = jnp.nanmedian(sizes, axis=1)
    return jnp.where(jnp.isnan(median), 1, median)


def _steps(
    design: Array,
    rows: Array,
    weights: Array,
    typical: Array,
    nonnegative: bool,
    max_steps: int,
) -> tuple[Array, Array]:
    """ADMM with the splitting ``w = t A' - b``, and ``u = t >= 0`` for nonnegative coefficients.

    Returns the coefficients, and the dual variables of the first splitting, bounded by the
    weights.
    """
    _, s, right = thin_svd(design)
    curvature = s**2 + (1 if nonnegative else 0)
    inverse = jnp.where(curvature > 0, 1 / jnp.where(curvature > 0, curvature, 1), 0)

    def ridge(z: Array) -> Array:
        """``z (A'A + 1)^-1``, or the pseudo-inverse of A'A."""
        inside = z @ right.T
        across = (inside * inverse[None, :]) @ right
        return across + (z - inside @ right if nonnegative else 0)

    def step(state: _State, _: None) -> tuple[_State, tuple[Array, Array]]:
        z = (rows + state.w - state.dual_w) @ design
        t = ridge(z + (state.u - state.dual_u if nonnegative else 0))
        image = t @ design.T - rows
        relaxed = _RELAXATION * image + (1 - _RELAXATION) * state.w
        shifted = relaxed + state.dual_w
        w = jnp.sign(shifted) * jnp.maximum(jnp.abs(shifted) - weights / state.penalty[:, None], 0)
        relaxed_t = _RELAXATION * t + (1 - _RELAXATION) * state.u
        u = jnp.maximum(relaxed_t + state.dual_u, 0) if nonnegative else t
        primal = _norm(image - w) + (_norm(t - u) if nonnegative else 0)
        drift = _norm((w - state.w) @ design) + (_norm(u - state.u) if nonnegative else 0)
        new = state._replace(
            t=t,
            w=w,
            u=u,
            dual_w=shifted - w,
            dual_u=relaxed_t + state.dual_u - u if nonnegative else state.dual_u,
        )
        return new, (primal, state.penalty * drift)

    close = max(_CLOSE, 50 * float(jnp.finfo(rows.dtype).eps))
    known = jnp.sum(weights > 0, axis=1).astype(rows.dtype)
    # Scales of the primal and the dual residual before anything is fitted.
    size, pull = typical * jnp.sqrt(jnp.maximum(known, 1)), jnp.maximum(_norm(weights), 1e-30)

    def several(state: _State) -> _State:
        new, (primal, dual) = jax.lax.scan(step, state, None, length=_LOOK)
        primal, dual = primal[-1] / size, dual[-1] / pull
        settled = (primal <= close) & (dual <= close)
        # Adapt each row's penalty to balance both residuals, in the first half of the iterations.
        adapt = state.count < max_steps // 2
        up, down = primal > _LOPSIDED * dual, dual > _LOPSIDED * primal
        factor = jnp.where(up & adapt, _DOUBLE, jnp.where(down & adapt, 1 / _DOUBLE, 1.0))
        factor = factor.astype(rows.dtype)
        new = new._replace(
            dual_w=new.dual_w / factor[:, None],
            dual_u=new.dual_u / factor[:, None],
            penalty=new.penalty * factor,
        )

        def keep(after: Array, before: Array) -> Array:
            """Freeze finished rows: their result must not depend on the others."""
            chosen = state.moving[:, None] if after.ndim == 2 else state.moving
            return jnp.where(chosen, after, before)

        kept = jax.tree.map(keep, new._replace(count=None), state._replace(count=None))
        return kept._replace(count=state.count + _LOOK, moving=state.moving & ~settled)

    nothing = jnp.zeros((rows.shape[0], design.shape[1]), rows.dtype)
    start = _State(
        0,
        nothing,
        -rows,
        nothing,
        jnp.zeros_like(rows),
        nothing,
        jnp.maximum(jnp.max(weights, axis=1), 1e-30) / typical,
        known > 0,
    )
    end = jax.lax.while_loop(lambda s: jnp.any(s.moving) & (s.count < max_steps), several, start)
    return (end.u if nonnegative else end.t), end.penalty[:, None] * end.dual_w


def _finished(
    design: Array,
    row: Array,
    weight: Array,
    typical: Array,
    t: Array,
    dual: Array,
    *,
    nonnegative: bool,
    max_steps: int,
) -> tuple[Array, Bool[Array, ""]]:
    """Set residuals and coefficients that are nearly zero to zero, solve, and keep the best."""
    eps = jnp.finfo(row.dtype).eps

    def value(t: Array) -> Array:
        return jnp.sum(weight * jnp.abs(design @ t - row))

    def at(level: Array) -> Array:
        residual = design @ t - row
        used = (weight > 0) & (jnp.abs(residual) <= level * typical)
        free = t > 0 if nonnegative else jnp.ones_like(t, bool)
        chosen = jnp.where(used[:, None] & free[None, :], design, 0)
        gram = chosen.T @ chosen
        smallest = 100 * eps * jnp.trace(gram) / t.size + jnp.finfo(row.dtype).tiny
        factor = cholesky(gram + jnp.diag(jnp.where(free, smallest, 1)))

        def refine(_: Any, solved: Array) -> Array:
            defect = chosen.T @ jnp.where(used, row - design @ solved, 0)
            return solved + jnp.where(free, cholesky_solve(factor, defect), 0)

        solved = jax.lax.fori_loop(0, 3, refine, jnp.where(free, t, 0))
        allowed = jnp.all(jnp.isfinite(solved)) & (jnp.all(solved >= 0) | (not nonnegative))
        return jnp.where(allowed, solved, t)

    levels = jnp.maximum(jnp.asarray(_NEARLY, row.dtype), 100 * eps)
    candidates = jnp.concatenate([t[None, :], jax.lax.map(at, levels)])
    values = jax.vmap(value)(candidates)
    # Of equal values, take the last: it has the most zero residuals.
    best = len(levels) - jnp.argmin(values[::-1])
    # Lower bound by duality; the dual variables are feasible up to A'y.
    slope = design.T @ dual
    excess = jnp.minimum(slope, 0) if nonnegative else slope
    bound = -jnp.sum(dual * row) - jnp.linalg.norm(excess) * jnp.linalg.norm(t)
    rounding = 100 * eps * jnp.sum(weight) * typical
    enough = values[best] <= bound + _GAP * jnp.abs(bound) + rounding
    lowest, optimal = jax.lax.cond(
        enough,
        lambda: (candidates[best], jnp.asarray(True)),
        lambda: _lowest(design, row, weight, candidates[best], nonnegative, max_steps),
    )
    better = value(lowest) <= values[best] + rounding
    return jnp.where(better, lowest, candidates[best]), optimal & better


def _lowest(
    design: Array, row: Array, weight: Array, t: Array, nonnegative: bool, max_steps: int
) -> tuple[Array, Bool[Array, ""]]:
    """Move from vertex to vertex; sign constraints are terms of the objective."""
    terms = Terms(design, row, weight, weight)
    if nonnegative:
        nothing, walls = jnp.zeros_like(t), jnp.full_like(t, jnp.inf)
        terms = Terms(
            jnp.concatenate([design, jnp.eye(t.size, dtype=t.dtype)]),
            jnp.concatenate([row, nothing]),
            jnp.concatenate([weight, nothing]),
            jnp.concatenate([weight, walls]),
        )
    lowest, optimal = best_vertex(terms, t, min(max_steps, _EXCHANGES * t.size))
    return (jnp.maximum(lowest, 0) if nonnegative else lowest), optimal


def _norm(rows: Array) -> Array:
    return jnp.sqrt(jnp.sum(rows**2, axis=1))
