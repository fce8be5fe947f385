"""Least absolute deviations, with nonnegative coefficients if need be, many right-hand sides.

All rows take steps of ADMM together. The minimum of such a function is at a vertex: as many
residuals (and coefficients, if these must not be negative) are zero as there are coefficients. When
the steps tell which, solving for them makes the answer exact.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._linalg import cholesky, cholesky_solve, thin_svd

_RELAXATION = 1.6
_LOOK = 20
# Relative accuracy of the steps; more comes from the vertex.
_CLOSE = 1e-7
# Residuals that are that small, relative to the row's targets, are taken for zero.
_NEARLY = (1e-9, 1e-7, 1e-5, 1e-3)
# A row is settled if the vertex is no worse than the steps by more than this.
_AS_GOOD = 1e-9
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


@eqx.filter_jit
def least_absolute(
    design: Float[Array, "n p"],
    rows: Float[Array, "k n"],
    weights: Float[Array, "k n"],
    nonnegative: bool,
    max_steps: int,
) -> tuple[Float[Array, "k p"], Bool[Array, " k"]]:
    """Minimise the weighted sum of absolute residuals of every row; which of them are settled."""
    gain = jnp.sqrt(jnp.mean(jnp.sum(design**2, axis=0)))
    gain = jnp.where(gain > 0, gain, 1)
    t = _steps(design / gain, rows, weights, nonnegative, max_steps) / gain
    return jax.lax.map(
        lambda lane: _vertex(design, *lane, nonnegative=nonnegative), (rows, weights, t)
    )


def _steps(design: Array, rows: Array, weights: Array, nonnegative: bool, max_steps: int) -> Array:
    """ADMM with the splits ``w = t A' - b``, and ``u = t >= 0`` if coefficients must be that."""
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
        return new, (primal, drift)

    size = _norm(jnp.where(weights > 0, rows, 0)) + jnp.finfo(rows.dtype).tiny

    def several(state: _State) -> _State:
        new, (primal, drift) = jax.lax.scan(step, state, None, length=_LOOK)
        primal, drift = primal[-1], drift[-1]
        settled = (primal <= _CLOSE * size) & (drift <= _CLOSE * size)
        # Both should fall together; the penalty of every row follows, in the first half.
        adapt = state.count < max_steps // 2
        up, down = primal > _LOPSIDED * drift, drift > _LOPSIDED * primal
        factor = jnp.where(up & adapt, _DOUBLE, jnp.where(down & adapt, 1 / _DOUBLE, 1.0))
        factor = factor.astype(rows.dtype)
        new = new._replace(
            dual_w=new.dual_w / factor[:, None],
            dual_u=new.dual_u / factor[:, None],
            penalty=new.penalty * factor,
        )

        def keep(after: Array, before: Array) -> Array:
            """What a row had when it settled: it must not depend on the others."""
            chosen = state.moving[:, None] if after.ndim == 2 else state.moving
            return jnp.where(chosen, after, before)

        kept = jax.tree.map(keep, new._replace(count=None), state._replace(count=None))
        return kept._replace(count=state.count + _LOOK, moving=state.moving & ~settled)

    typical = jnp.median(jnp.where(weights > 0, jnp.abs(rows), 0), axis=1)
    typical = jnp.where(typical > 0, typical, jnp.maximum(jnp.max(jnp.abs(rows), axis=1), 1e-30))
    nothing = jnp.zeros((rows.shape[0], design.shape[1]), rows.dtype)
    start = _State(
        0,
        nothing,
        -rows,
        nothing,
        jnp.zeros_like(rows),
        nothing,
        jnp.max(weights, axis=1) / typical + jnp.finfo(rows.dtype).tiny,
        jnp.ones(rows.shape[0], bool),
    )
    end = jax.lax.while_loop(lambda s: jnp.any(s.moving) & (s.count < max_steps), several, start)
    return end.u if nonnegative else end.t


def _vertex(
    design: Array, row: Array, weight: Array, t: Array, *, nonnegative: bool
) -> tuple[Array, Bool[Array, ""]]:
    """Solve for the residuals and coefficients that are nearly zero to be so; keep the best."""
    eps = jnp.finfo(row.dtype).eps

    def value(t: Array) -> Array:
        return jnp.sum(weight * jnp.abs(design @ t - row))

    def at(level: Array) -> Array:
        residual = design @ t - row
        used = (weight > 0) & (jnp.abs(residual) <= level * jnp.max(jnp.abs(row)))
        free = t > 0 if nonnegative else jnp.ones_like(t, bool)
        chosen = jnp.where(used[:, None] & free[None, :], design, 0)
        gram = chosen.T @ chosen
        damped = gram + jnp.diag(jnp.where(free, 100 * eps * jnp.trace(gram) / t.size, 1))
        factor = cholesky(damped + jnp.finfo(row.dtype).tiny * jnp.eye(t.size, dtype=row.dtype))

        def refine(_: Any, solved: Array) -> Array:
            defect = chosen.T @ jnp.where(used, row - design @ solved, 0)
            return solved + jnp.where(free, cholesky_solve(factor, defect), 0)

        solved = jax.lax.fori_loop(0, 3, refine, jnp.where(free, t, 0))
        allowed = jnp.all(jnp.isfinite(solved)) & (jnp.all(solved >= 0) | (not nonnegative))
        return jnp.where(allowed, solved, t)

    vertices = jax.lax.map(at, jnp.asarray(_NEARLY, row.dtype))
    candidates = jnp.concatenate([t[None, :], vertices])
    values = jax.vmap(value)(candidates)
    # Of equally good ones a vertex, not the approximation, which comes first.
    best = jnp.argmin(jnp.where(jnp.arange(len(candidates)) == 0, values * (1 + _AS_GOOD), values))
    return candidates[best], best > 0


def _norm(rows: Array) -> Array:
    return jnp.sqrt(jnp.sum(rows**2, axis=1))
