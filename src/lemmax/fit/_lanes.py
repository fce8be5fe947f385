"""Levenberg-Marquardt steps for thousands of curves in one compiled program.

A curve is a lane. Of its Jacobian only products with itself and with the residual leave the
program: p x p numbers for each lane. All linear algebra is unrolled over these, since calls of
LAPACK, one for each lane, would take longer than everything else.
"""

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._losses import SQUARES
from ._program import Layout, flat_model

# A step is taken if it brings this much of the predicted decrease.
_ACCEPTED = 1e-4
# The damping falls above and grows below these parts of it.
_POOR, _GOOD = 0.25, 0.75
# Damping at the start and where a lane gives up, relative to the diagonal.
_FIRST, _LAST = 1e-3, 1e12
# Steps between two looks at which lanes have ended.
_BLOCK = 16
# So many lanes take their steps together: what they need stays in the cache. (Of 10,000 curves of
# 100 points, 32 to 128 are equally fast; all at once takes more than twice as long.)
_CACHED = 64
# Numbers of lanes that there are programs for; beyond, multiples of the last.
_SIZES = (64, 512, 4096)
_KEPT = 32
_programs: collections.OrderedDict[Any, Any] = collections.OrderedDict()


class Curves(NamedTuple):
    """Data of all lanes; every array has an axis of lanes first."""

    y: np.ndarray
    """0 where missing."""
    inverse: np.ndarray
    """One divided by sigma; 0 where missing."""
    each: tuple
    """Arguments of the model that differ between lanes."""
    rounding: np.ndarray
    """Rounding errors of a residual of each lane."""

    def of(self, lanes: np.ndarray) -> "Curves":
        """Those of some lanes."""
        each = jax.tree.map(lambda leaf: leaf[lanes], self.each)
        return Curves(self.y[lanes], self.inverse[lanes], each, self.rounding[lanes])


class Model(NamedTuple):
    """What all lanes share."""

    function: Callable
    layout: Layout
    base: np.ndarray
    args: tuple
    low: np.ndarray
    high: np.ndarray


class State(NamedTuple):
    """Where a lane is."""

    x: Any
    value: Any
    """Twice the loss."""
    gram: Any
    slope: Any
    """Of half the value."""
    norms: Any
    """Largest norms of the columns of the Jacobian so far."""
    damping: Any
    growth: Any
    """The factor by which the damping grows at the next rejected step."""
    offset: Any
    ended: Any
    settled: Any


def descend(
    model: Model,
    curves: Curves,
    x: np.ndarray,
    weight: np.ndarray,
    shape: float,
    scale: np.ndarray,
    *,
    tol: float,
    max_steps: int,
) -> tuple[State, np.ndarray]:
    """Minimise the weighted loss in every lane; where the lanes ended, and their residuals."""
    block = _program(model, shape)
    shared = model.base, model.args, model.low, model.high
    lanes = len(x)
    final, residual = None, np.zeros_like(curves.y)
    active = np.arange(lanes)
    state = _begun(x[_padded(active)])
    for _ in range(-(-max_steps // _BLOCK)):
        places = _padded(active)
        data = (*curves.of(places), weight[places], scale[places])
        state, at_end = block(state, *data, *shared, tol)
        state = State(*(np.asarray(part) for part in state))
        count = len(active)
        if final is None:
            final = State(*(np.empty((lanes, *part.shape[1:]), part.dtype) for part in state))
        for whole, part in zip(final, state, strict=True):
            whole[active] = part[:count]
        residual[active] = np.asarray(at_end)[:count]
        going = np.flatnonzero(~state.ended[:count])
        if not going.size:
            break
        active = active[going]
        again = going[np.arange(len(_padded(active))) % len(going)]
        state = State(*(part[again] for part in state))
    assert final is not None
    return final, residual


def _padded(lanes: np.ndarray) -> np.ndarray:
    """So many lanes that few programs serve all numbers of them: the first ones fill up."""
    size = next((size for size in _SIZES if size >= len(lanes)), 0)
    size = size or -(-len(lanes) // _SIZES[-1]) * _SIZES[-1]
    return lanes[np.arange(size) % len(lanes)]


def _begun(x: np.ndarray) -> State:
    """Lanes that have not moved yet."""
    lanes, p = x.shape
    one, no = np.ones(lanes), np.zeros(lanes, bool)
    return State(
        x=x,
        value=np.inf * one,
        gram=np.zeros((lanes, p, p)),
        slope=np.zeros((lanes, p)),
        norms=np.zeros((lanes, p)),
        damping=_FIRST * one,
        growth=2 * one,
        offset=np.inf * one,
        ended=no,
        settled=no,
    )


def _program(model: Model, shape: float) -> Callable:
    key = (model.function, model.layout, shape)
    try:
        known = _programs.get(key)
    except TypeError:
        return _compiled(model, shape)
    if known is None:
        known = _programs[key] = _compiled(model, shape)
        while len(_programs) > _KEPT:
            _programs.popitem(last=False)
    return known


def _compiled(model: Model, shape: float) -> Callable:
    function = flat_model(model.function, model.layout)

    def evaluate(u, y, inverse, each, weight, scale, base, args):
        def residual_of(v):
            made = (function(v, base, (*args, *each)) - y) * inverse
            return jnp.where(inverse > 0, made, jnp.zeros_like(made))

        residual, push = jax.linearize(residual_of, u)
        columns = [push(direction) for direction in np.eye(u.size)]
        value, bent = _loss(shape, residual, weight, scale)
        return residual, value, *_products(columns, bent, residual)

    def step(state, data, base, args, low, high, tol):
        y, inverse, each, rounding, weight, scale = data
        norms = jnp.maximum(state.norms, jnp.sqrt(jnp.diagonal(state.gram)))
        size = jnp.where(norms > 0, norms, jnp.ones_like(norms))
        pressed = ((state.x <= low) & (state.slope > 0)) | ((state.x >= high) & (state.slope < 0))
        free = jnp.where(pressed, 0.0, 1.0)
        gram = state.gram / (size[:, None] * size[None, :]) * (free[:, None] * free[None, :])
        slope = state.slope / size * free
        scaled = -_solve(gram + state.damping * jnp.eye(size.size), slope)
        full = -jnp.dot(slope, scaled)
        offset = jnp.sqrt(jnp.maximum(full, 0) / jnp.maximum(state.value, jnp.finfo(float).tiny))
        trial = jnp.clip(state.x + scaled / size, low, high)
        moved = (trial - state.x) * size
        predicted = -(2 * jnp.dot(slope, moved) + jnp.dot(moved, gram @ moved))
        _, value, new_gram, new_slope = evaluate(trial, y, inverse, each, weight, scale, base, args)
        count = jnp.maximum(jnp.sum(weight > 0, dtype=float), 1)
        spread = jnp.sqrt(state.value / count)
        blur = jnp.finfo(float).eps + rounding / jnp.maximum(spread, rounding)
        done = (offset <= jnp.maximum(tol, 8 * blur)) & (state.damping <= 1)
        fine = jnp.isfinite(value) & jnp.all(jnp.isfinite(new_gram))
        gained = jnp.where(fine, state.value - value, -jnp.inf)
        tiny = fine & (predicted <= 16 * blur * state.value)
        tiny &= jnp.abs(gained) <= 64 * blur * state.value
        ratio = jnp.where(tiny, 1.0, gained / jnp.where(predicted > 0, predicted, jnp.inf))
        taken = (ratio > _ACCEPTED) & ~done
        smaller = state.damping * jnp.where(ratio > _GOOD, 0.1, jnp.where(ratio < _POOR, 2.0, 0.5))
        stuck = state.damping > _LAST
        return State(
            x=jnp.where(taken, trial, state.x),
            value=jnp.where(taken, value, state.value),
            gram=jnp.where(taken, new_gram, state.gram),
            slope=jnp.where(taken, new_slope, state.slope),
            norms=norms,
            damping=jnp.where(taken, smaller, state.damping * state.growth),
            growth=jnp.where(taken, 2.0, 2 * state.growth),
            offset=offset,
            ended=done | stuck,
            settled=done,
        )

    def block(state, y, inverse, each, rounding, weight, scale, base, args, low, high, tol):
        data = y, inverse, each, rounding, weight, scale

        def body(carry):
            count, state = carry
            return count + 1, step(state, data, base, args, low, high, tol)

        def going(carry):
            return (carry[0] < _BLOCK) & ~carry[1].ended

        # Evaluated once more rather than by a program of its own, which takes long to compile.
        _, value, gram, slope = evaluate(state.x, y, inverse, each, weight, scale, base, args)
        fine = jnp.isfinite(value) & jnp.all(jnp.isfinite(gram))
        state = state._replace(value=value, gram=gram, slope=slope, ended=state.ended | ~fine)
        _, state = jax.lax.while_loop(going, body, (jnp.zeros((), jnp.int32), state))
        residual = evaluate(state.x, y, inverse, each, weight, scale, base, args)[0]
        return state, residual

    def lanes(state, y, inverse, each, rounding, weight, scale, *shared):
        data = state, y, inverse, each, rounding, weight, scale
        return jax.lax.map(lambda one: block(*one, *shared), data, batch_size=_CACHED)

    return jax.jit(lanes)


def _loss(shape: float, residual: Array, weight: Array, scale: Array) -> tuple[Array, Array]:
    """Twice the loss, and the weights of squares with its slope; as `_losses.Loss`."""
    squares = residual**2
    if shape == SQUARES:
        return jnp.sum(weight * squares), weight
    knee = abs(shape - 2) * scale**2
    inside = squares / knee + 1
    # Whole and half powers only: a general one takes ten times as long.
    power = {1.0: jnp.sqrt, -2.0: lambda u: 1 / u}[shape](inside)
    value = 2 * knee / shape * (power - 1)
    return jnp.sum(weight * value), weight * power / inside


def _products(columns: list[Array], weight: Array, residual: Array) -> tuple[Array, Array]:
    """The weighted Gram matrix of the columns, and their products with the residual.

    Sums rather than products of matrices: of thousands of small ones each would be a call.
    """
    p = len(columns)
    rows = [weight * column for column in columns]
    half = {(i, j): jnp.sum(rows[i] * columns[j]) for i in range(p) for j in range(i + 1)}
    gram = jnp.stack([half[max(i, j), min(i, j)] for i in range(p) for j in range(p)])
    return gram.reshape(p, p), jnp.stack([jnp.sum(row * residual) for row in rows])


def _solve(matrix: Array, vector: Array) -> Array:
    """Solve a positive definite system by elimination, unrolled over its few rows."""
    p = vector.size
    rows = jnp.concatenate([matrix, vector[:, None]], axis=1)
    for k in range(p):
        pivot = rows[k] / rows[k, k]
        rows = rows - rows[:, k : k + 1] * pivot[None, :]
        rows = rows.at[k].set(pivot)
    return rows[:, p]
