"""Levenberg-Marquardt steps for thousands of curves in one compiled program.

A curve is a lane. Lanes take a few steps in groups that fit into the cache; then those that have
ended leave, and the others are packed together. Of a Jacobian only products with itself and with
the residual leave a step: p x p numbers for each lane. Their systems are solved by elimination,
all lanes at once, since calls of LAPACK, one for each lane, would take longer than everything else.
"""

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._programs import forget_programs_if_many
from . import _constants as constants
from ._losses import ABSOLUTE, REDESCENDING, SQUARES
from ._parallel import Program, side_by_side
from ._program import Layout, flat_model

_SHAPES = (SQUARES, ABSOLUTE, REDESCENDING)
_programs: collections.OrderedDict[Any, Any] = collections.OrderedDict()


class Curves(NamedTuple):
    """Data of all lanes; every array has an axis of lanes first."""

    y: np.ndarray
    """0 where missing."""
    inverse: np.ndarray | None
    """One divided by sigma, if that is given; 0 where missing."""
    each: tuple
    """Arguments of the model that differ between lanes."""
    rounding: np.ndarray
    """Rounding errors of a residual of each lane."""

    def of(self, lanes: np.ndarray) -> "Curves":
        """Those of some lanes."""
        return jax.tree.map(lambda leaf: leaf[lanes], self)


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
    """Twice the loss; infinite before the start is evaluated."""
    gram: Any
    slope: Any
    """Of half the value."""
    norms: Any
    """Largest norms of the columns of the Jacobian so far."""
    damping: Any
    growth: Any
    """The factor by which the damping grows at the next rejected step."""
    trial: Any
    """Parameters to be evaluated next."""
    predicted: Any
    """Decrease of the value that the linearised model has there."""
    offset: Any
    ended: Any
    settled: Any


def descend(
    model: Model,
    curves: Curves,
    x: np.ndarray,
    keep: np.ndarray,
    shape: float,
    scale: np.ndarray,
    *,
    tol: float,
    max_steps: int,
) -> State:
    """Minimise the loss of the data that are kept, in every lane."""
    block = _program(model).block
    shared = (
        np.int32(_SHAPES.index(shape)),
        np.float64(tol),
        model.base,
        model.args,
        model.low,
        model.high,
    )
    final = _begun(x)
    active = np.arange(len(x))

    def arguments(lanes: np.ndarray, steps: np.int32) -> tuple:
        places = _padded(lanes)
        state = State(*(part[places] for part in final))
        state.ended[len(lanes) :] = True
        return state, curves.of(places), keep[places], scale[places], steps, *shared

    for first in range(0, max_steps, constants.BLOCK):
        steps = np.int32(min(constants.BLOCK, max_steps - first))
        parts = _parted(active)
        ends = side_by_side(block, [arguments(lanes, steps) for lanes in parts])
        for lanes, end in zip(parts, ends, strict=True):
            for whole, part in zip(final, end, strict=True):
                whole[lanes] = part[: len(lanes)]
        active = active[~final.ended[active]]
        if not active.size:
            break
    return final


def residuals(model: Model, curves: Curves, x: np.ndarray) -> np.ndarray:
    """Those of all data, of missing ones included."""
    return _mapped(_program(model).residuals, model, x, curves)


def largest_leverages(
    model: Model, curves: Curves, x: np.ndarray, keep: np.ndarray, inverse: np.ndarray
) -> np.ndarray:
    """The largest of the leverages of the data that are kept, from inverses of Gram matrices."""
    return _mapped(_program(model).largest_leverage, model, x, curves, keep, inverse)


def _mapped(program: Program, model: Model, *arrays: Any) -> np.ndarray:
    """A program without steps, applied to all lanes."""
    parts = _parted(np.arange(len(arrays[0])))
    calls = [
        (model.base, model.args, *jax.tree.map(lambda leaf, at=places: leaf[at], arrays))
        for places in map(_padded, parts)
    ]
    ends = side_by_side(program, calls)
    return np.concatenate([end[: len(lanes)] for lanes, end in zip(parts, ends, strict=True)])


def _parted(lanes: np.ndarray) -> list[np.ndarray]:
    return [lanes[k : k + constants.MANY_LANES] for k in range(0, len(lanes), constants.MANY_LANES)]


def _padded(lanes: np.ndarray) -> np.ndarray:
    """So many lanes that few programs serve all numbers of them: the first one fills up."""
    size = constants.CACHED if len(lanes) <= constants.CACHED else constants.MANY_LANES
    return np.concatenate([lanes, np.full(size - len(lanes), lanes[0])])


def _begun(x: np.ndarray) -> State:
    """Lanes that have not moved yet."""
    lanes, p = x.shape
    one = np.ones(lanes)
    return State(
        x=x.copy(),
        value=np.inf * one,
        gram=np.zeros((lanes, p, p)),
        slope=np.zeros((lanes, p)),
        norms=np.zeros((lanes, p)),
        damping=constants.FIRST_DAMPING * one,
        growth=2 * one,
        trial=x.copy(),
        predicted=0 * one,
        offset=np.inf * one,
        ended=np.zeros(lanes, bool),
        settled=np.zeros(lanes, bool),
    )


class _Programs(NamedTuple):
    block: Program
    residuals: Program
    largest_leverage: Program


def _program(model: Model) -> _Programs:
    key = (model.function, model.layout)
    try:
        known = _programs.get(key)
    except TypeError:
        return _compiled(model)
    if known is None:
        known = _programs[key] = _compiled(model)
        while len(_programs) > constants.KEPT_PROGRAMS:
            _programs.popitem(last=False)
    return known


def _compiled(model: Model) -> _Programs:
    forget_programs_if_many()
    function = flat_model(model.function, model.layout)

    def residual_of(u, y, inverse, each, base, args):
        made = function(u, base, (*args, *each)) - y
        if inverse is None:
            return made
        return jnp.where(inverse > 0, made * inverse, jnp.zeros_like(made))

    def rows_of(u, curve, base, args):
        """The columns of the Jacobian, then the residual."""
        residual, push = jax.linearize(
            lambda v: residual_of(v, curve.y, curve.inverse, curve.each, base, args), u
        )
        return [*(push(direction) for direction in np.eye(u.size)), residual]

    def evaluate(x, curves, keep, scale, shape, base, args):
        rows = jax.vmap(lambda u, curve: rows_of(u, curve, base, args))(x, curves)
        p = x.shape[1]
        # Data that are not kept may be anything, even infinite. Without the barrier the model
        # would be evaluated anew for each of the products.
        if p <= constants.FEW_COLUMNS:
            rows = [jnp.where(keep, row, 0.0) for row in rows]
        else:
            rows = jnp.where(keep[:, None, :], jnp.stack(rows, axis=1), 0.0)
        rows = jax.lax.optimization_barrier(rows)
        residual = rows[p] if p <= constants.FEW_COLUMNS else rows[:, p]
        losses, bent = _loss(shape, residual, scale[:, None])
        gram, slope = _products(rows, jnp.where(keep, bent, 0.0))
        return losses @ np.ones(residual.shape[1]), gram, slope

    def step(state, curves, keep, scale, shape, tol, base, args, low, high):
        value, gram, slope = evaluate(state.trial, curves, keep, scale, shape, base, args)
        blur = blur_of(state.value, curves, keep)
        fine = jnp.isfinite(value) & jnp.all(jnp.isfinite(gram), axis=(1, 2))
        gained = jnp.where(fine, state.value - value, -jnp.inf)
        tiny = fine & (state.predicted <= 16 * blur * state.value)
        tiny &= jnp.abs(gained) <= 64 * blur * state.value
        predicted = jnp.where(state.predicted > 0, state.predicted, jnp.inf)
        ratio = jnp.where(tiny, 1.0, gained / predicted)
        # The first trial is the start.
        first = jnp.isinf(state.value)
        taken = jnp.where(first, fine, ratio > constants.ACCEPTED)
        factor = jnp.where(ratio > constants.GOOD, 0.1, jnp.where(ratio < constants.POOR, 2.0, 0.5))
        factor = jnp.where(first, 1.0, jnp.where(taken, factor, state.growth))
        moved = state._replace(
            x=_where(taken, state.trial, state.x),
            value=_where(taken, value, state.value),
            gram=_where(taken, gram, state.gram),
            slope=_where(taken, slope, state.slope),
            damping=state.damping * factor,
            growth=jnp.where(taken, 2.0, 2 * state.growth),
            ended=first & ~fine,
        )
        after = proposed(moved, blur_of(moved.value, curves, keep), tol, low[None], high[None])
        return State(*map(lambda new, old: _where(state.ended, old, new), after, state))

    def blur_of(value, curves, keep):
        """The part of the residuals that is rounding errors."""
        count = jnp.maximum(jnp.sum(keep, axis=1, dtype=float), 1)
        rounding = curves.rounding
        return constants.EPS + rounding / jnp.maximum(jnp.sqrt(value / count), rounding)

    def proposed(state, blur, tol, low, high):
        """The next trial, unless the lane has ended."""
        diagonal = jnp.diagonal(state.gram, axis1=1, axis2=2)
        norms = jnp.maximum(state.norms, jnp.sqrt(diagonal))
        size = jnp.where(norms > 0, norms, 1.0)
        pressed = ((state.x <= low) & (state.slope > 0)) | ((state.x >= high) & (state.slope < 0))
        scaling = jnp.where(pressed, 0.0, 1 / size)
        gram = state.gram * (scaling[:, :, None] * scaling[:, None, :])
        slope = state.slope * scaling
        damped = gram + state.damping[:, None, None] * np.eye(size.shape[1])[None]
        scaled = -_solve(damped, slope)
        full = -jnp.sum(slope * scaled, axis=1)
        offset = jnp.sqrt(jnp.maximum(full, 0) / jnp.maximum(state.value, jnp.finfo(float).tiny))
        done = (offset <= jnp.maximum(tol, constants.BLUR * blur)) & (state.damping <= 1)
        trial = jnp.clip(state.x + scaled / size, low, high)
        moved = (trial - state.x) * size
        along = jnp.sum(gram * moved[:, None, :], axis=2)
        return state._replace(
            norms=norms,
            trial=trial,
            predicted=-jnp.sum(moved * (2 * slope + along), axis=1),
            offset=offset,
            ended=state.ended | done | (state.damping > constants.LAST_DAMPING),
            settled=done & ~state.ended,
        )

    def group(state, curves, keep, scale, steps, *shared):
        def body(carry):
            count, state = carry
            return count + 1, step(state, curves, keep, scale, *shared)

        def going(carry):
            return (carry[0] < steps) & ~jnp.all(carry[1].ended)

        return jax.lax.while_loop(going, body, (jnp.zeros((), jnp.int32), state))[1]

    def block(state, curves, keep, scale, steps, *shared):
        data = jax.tree.map(_grouped, (state, curves, keep, scale))
        ended = jax.lax.map(lambda some: group(*some, steps, *shared), data)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), ended)

    def all_residuals(base, args, x, curves):
        def one(u, curve):
            return residual_of(u, curve.y, curve.inverse, curve.each, base, args)

        return jax.vmap(one)(x, curves)

    def largest_leverage(base, args, x, curves, keep, inverse):
        def one(u, curve, keep, inverse):
            columns = jnp.where(keep[None], jnp.stack(rows_of(u, curve, base, args)[:-1]), 0.0)
            return jnp.max(jnp.sum(columns * (inverse @ columns), axis=0))

        some = jax.tree.map(_grouped, (x, curves, keep, inverse))
        return jax.lax.map(lambda group: jax.vmap(one)(*group), some).reshape(-1)

    return _Programs(Program(block), Program(all_residuals), Program(largest_leverage))


def _grouped(leaf: Array) -> Array:
    return leaf.reshape(-1, constants.CACHED, *leaf.shape[1:])


def _where(lanes: Array, new: Array, old: Array) -> Array:
    """The new values of some lanes."""
    return jnp.where(lanes.reshape(-1, *[1] * (new.ndim - 1)), new, old)


def _loss(shape: Array, residual: Array, scale: Array) -> tuple[Array, Array]:
    """Twice the loss, and the weights of squares with its slope; as `_losses.Loss`.

    The shape is known only when the program runs: one program serves for all three.
    """

    def plain():
        return residual**2, jnp.ones_like(residual)

    def absolute():
        root = jnp.sqrt((residual / scale) ** 2 + 1)
        return 2 * scale**2 * (root - 1), 1 / root

    def redescending():
        fall = 1 / ((residual / scale) ** 2 / 4 + 1)
        return 4 * scale**2 * (1 - fall), fall**2

    return jax.lax.switch(shape, (plain, absolute, redescending))


def _products(rows: Any, weights: Array) -> tuple[Array, Array]:
    """Weighted products of the columns of the Jacobian with each other and with the residual.

    Either one array of them all, or a list of arrays, one for each.
    """
    p = len(rows) - 1 if isinstance(rows, list) else rows.shape[1] - 1
    if not isinstance(rows, list):
        products = [
            jnp.einsum("ln,lkn->lk", rows[:, k] * weights, rows, precision="highest")
            for k in range(p)
        ]
        gram = jnp.stack([product[:, :p] for product in products], axis=1)
        return gram, jnp.stack([product[:, p] for product in products], axis=1)
    weighted, one = [row * weights for row in rows[:p]], np.ones(weights.shape[1])
    upper = {(j, k): (weighted[j] * rows[k]) @ one for j in range(p) for k in range(j, p + 1)}
    gram = [[upper[min(j, k), max(j, k)] for k in range(p)] for j in range(p)]
    slope = jnp.stack([upper[j, p] for j in range(p)], axis=1)
    return jnp.stack([jnp.stack(row, axis=1) for row in gram], axis=1), slope


def _solve(matrix: Array, vector: Array) -> Array:
    """Solve positive definite systems by elimination, all lanes at once."""
    p = vector.shape[1]
    rows = jnp.concatenate([matrix, vector[:, :, None]], axis=2)
    for k in range(p):
        pivot = rows[:, k : k + 1] / rows[:, k : k + 1, k : k + 1]
        rest = rows - rows[:, :, k : k + 1] * pivot
        rows = jnp.where((np.arange(p) == k)[None, :, None], pivot, rest)
    return rows[:, :, p]
