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

from .._programs import forget_programs_if_many
from ._losses import ABSOLUTE, SQUARES
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
# Numbers of lanes that there are programs for; more are fitted in parts.
_SIZES = (64, 1024)
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
    residual: Any
    value: Any
    """Twice the loss; infinite before the start is evaluated."""
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
) -> State:
    """Minimise the weighted loss in every lane."""
    if len(x) > _SIZES[-1]:
        parts = [
            descend(
                model,
                curves.of(some),
                x[some],
                weight[some],
                shape,
                scale[some],
                tol=tol,
                max_steps=max_steps,
            )
            for some in np.array_split(np.arange(len(x)), -(-len(x) // _SIZES[-1]))
        ]
        return State(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    block = _program(model)
    shared = np.float64(shape), model.base, model.args, model.low, model.high, np.float64(tol)
    lanes = len(x)
    final = None
    active = np.arange(lanes)
    state = _begun(x[_padded(active)], curves.y.shape[1])
    for _ in range(-(-max_steps // _BLOCK)):
        places = _padded(active)
        data = (*curves.of(places), weight[places], scale[places])
        state = block(state, *data, *shared)
        state = State(*(np.asarray(part) for part in state))
        count = len(active)
        if final is None:
            final = State(*(np.empty((lanes, *part.shape[1:]), part.dtype) for part in state))
        for whole, part in zip(final, state, strict=True):
            whole[active] = part[:count]
        going = np.flatnonzero(~state.ended[:count])
        if not going.size:
            break
        active = active[going]
        again = going[np.arange(len(_padded(active))) % len(going)]
        state = State(*(part[again] for part in state))
    assert final is not None
    return final


def _padded(lanes: np.ndarray) -> np.ndarray:
    """So many lanes that few programs serve all numbers of them: the first ones fill up."""
    size = next(size for size in _SIZES if size >= len(lanes))
    return lanes[np.arange(size) % len(lanes)]


def _begun(x: np.ndarray, n: int) -> State:
    """Lanes that have not moved yet."""
    lanes, p = x.shape
    one, no = np.ones(lanes), np.zeros(lanes, bool)
    return State(
        x=x,
        residual=np.full((lanes, n), np.nan),
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


def _program(model: Model) -> Callable:
    key = (model.function, model.layout)
    try:
        known = _programs.get(key)
    except TypeError:
        return _compiled(model)
    if known is None:
        known = _programs[key] = _compiled(model)
        while len(_programs) > _KEPT:
            _programs.popitem(last=False)
    return known


def _compiled(model: Model) -> Callable:
    forget_programs_if_many()
    function = flat_model(model.function, model.layout)

    def evaluate(u, y, inverse, each, weight, scale, shape, base, args):
        def residual_of(v):
            made = (function(v, base, (*args, *each)) - y) * inverse
            return jnp.where(inverse > 0, made, jnp.zeros_like(made))

        residual, push = jax.linearize(residual_of, u)
        columns = [push(direction) for direction in np.eye(u.size)]
        value, bent = _loss(shape, residual, weight, scale)
        return residual, value, *_products(columns, bent, residual)

    def step(state, data, shape, base, args, low, high, tol):
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
        residual, value, new_gram, new_slope = evaluate(
            trial, y, inverse, each, weight, scale, shape, base, args
        )
        count = jnp.maximum(jnp.sum(weight > 0, dtype=float), 1)
        spread = jnp.sqrt(state.value / count)
        blur = jnp.finfo(float).eps + rounding / jnp.maximum(spread, rounding)
        done = (offset <= jnp.maximum(tol, 8 * blur)) & (state.damping <= 1)
        fine = jnp.isfinite(value) & jnp.all(jnp.isfinite(new_gram))
        gained = jnp.where(fine, state.value - value, -jnp.inf)
        tiny = fine & (predicted <= 16 * blur * state.value)
        tiny &= jnp.abs(gained) <= 64 * blur * state.value
        ratio = jnp.where(tiny, 1.0, gained / jnp.where(predicted > 0, predicted, jnp.inf))
        # The first step goes nowhere: it evaluates the start.
        first = jnp.isinf(state.value)
        done &= ~first
        taken = jnp.where(first, fine, (ratio > _ACCEPTED) & ~done)
        smaller = state.damping * jnp.where(ratio > _GOOD, 0.1, jnp.where(ratio < _POOR, 2.0, 0.5))
        stuck = (state.damping > _LAST) | (first & ~fine)
        return State(
            x=jnp.where(taken, trial, state.x),
            value=jnp.where(taken, value, state.value),
            gram=jnp.where(taken, new_gram, state.gram),
            slope=jnp.where(taken, new_slope, state.slope),
            norms=norms,
            damping=jnp.where(
                first, state.damping, jnp.where(taken, smaller, state.damping * state.growth)
            ),
            residual=jnp.where(taken, residual, state.residual),
            growth=jnp.where(taken, 2.0, 2 * state.growth),
            offset=offset,
            ended=done | stuck,
            settled=done,
        )

    def block(state, y, inverse, each, rounding, weight, scale, *shared):
        data = y, inverse, each, rounding, weight, scale

        def body(carry):
            count, state = carry
            return count + 1, step(state, data, *shared)

        def going(carry):
            return (carry[0] < _BLOCK) & ~carry[1].ended

        _, state = jax.lax.while_loop(going, body, (jnp.zeros((), jnp.int32), state))
        return state

    def lanes(state, y, inverse, each, rounding, weight, scale, *shared):
        data = state, y, inverse, each, rounding, weight, scale
        return jax.lax.map(lambda one: block(*one, *shared), data, batch_size=_CACHED)

    return jax.jit(lanes)


def _loss(shape: Array, residual: Array, weight: Array, scale: Array) -> tuple[Array, Array]:
    """Twice the loss, and the weights of squares with its slope; as `_losses.Loss`.

    The shape is one of the three that fits use, known only when the program runs: one program
    serves for all, and takes no general powers, which would be ten times as slow.
    """
    squares, plain = residual**2, shape == SQUARES
    knee = jnp.where(plain, 1.0, jnp.abs(shape - 2) * scale**2)
    inside = squares / knee + 1
    power = jnp.where(shape == ABSOLUTE, jnp.sqrt(inside), 1 / inside)
    value = jnp.where(plain, squares, 2 * knee / shape * (power - 1))
    bent = jnp.where(plain, jnp.ones_like(inside), power / inside)
    return jnp.sum(weight * value), weight * bent


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
