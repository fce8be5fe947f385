"""Levenberg-Marquardt steps for thousands of curves in one compiled program.

A curve is a lane. Lanes take a few steps together; then those that have ended leave, and the
others are packed together. Models and Jacobians are evaluated in groups of lanes that fit into the
cache, and only products of a Jacobian with itself and with the residual leave it: p x p numbers for
each lane. Their systems are solved by elimination, all lanes at once, since calls of LAPACK, one
for each lane, would take longer than everything else.
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
from ._lane_algebra import leverages, loss_of, products, solve
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

    def of(self, lanes: np.ndarray | slice) -> "Curves":
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
    lanes: int
    """Most lanes of one call: a multiple of those of a group."""


def lanes_of_a_call(lanes: int, numbers: int) -> int:
    """So many that all calls for these lanes, each of so many numbers, need one program."""
    groups = min(lanes, constants.MANY_LANES, constants.TOGETHER // numbers) // constants.CACHED
    return constants.CACHED * max(groups, 1)


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
        places, groups = _places(lanes, model.lanes)
        state = State(*(part[places] for part in final))
        state.ended[len(lanes) :] = True
        return state, curves.of(places), keep[places], scale[places], groups, steps, *shared

    for first in range(0, max_steps, constants.BLOCK):
        steps = np.int32(min(constants.BLOCK, max_steps - first))
        parts = _parted(active, model.lanes)
        ends = side_by_side(block, [arguments(lanes, steps) for lanes in parts])
        for lanes, end in zip(parts, ends, strict=True):
            for whole, part in zip(final, end, strict=True):
                whole[lanes] = part[: len(lanes)]
        active = active[~final.ended[active]]
        if not active.size:
            break
    return final


def residuals(model: Model, curves: Curves, x: np.ndarray, then: Callable) -> Any:
    """What a function makes of the residuals of some neighbouring lanes and of their slice, joined.

    Missing data have any residuals.
    """
    return _mapped(_program(model).residuals, model, x, curves, then=then)


def largest_leverages(
    model: Model, curves: Curves, x: np.ndarray, keep: np.ndarray, inverse: np.ndarray
) -> np.ndarray:
    """The largest of the leverages of the data that are kept, from inverses of Gram matrices."""
    return _mapped(_program(model).largest_leverage, model, x, curves, keep, inverse)


def _mapped(program: Program, model: Model, *arrays: Any, then: Callable | None = None) -> Any:
    """A program without steps, applied to all lanes, and what to do with parts of its result."""
    parts = _parted(np.arange(len(arrays[0])), model.lanes)
    calls = []
    for lanes in parts:
        places, groups = _places(lanes, model.lanes)
        own = jax.tree.map(lambda leaf, at=places: leaf[at], arrays)
        calls.append((groups, model.base, model.args, *own))

    def after(number: int, end: np.ndarray) -> Any:
        lanes = parts[number]
        end = end[: len(lanes)]
        return end if then is None else then(end, slice(lanes[0], lanes[-1] + 1))

    return jax.tree.map(lambda *ends: np.concatenate(ends), *side_by_side(program, calls, after))


def _parted(lanes: np.ndarray, most: int) -> list[np.ndarray]:
    return [lanes[k : k + most] for k in range(0, len(lanes), most)]


def _places(lanes: np.ndarray, size: int) -> tuple[np.ndarray | slice, np.int32]:
    """So many lanes, since a program has one size: the first fills up; and how many groups count.

    Neighbours are a slice, which copies nothing.
    """
    groups = np.int32(-(-len(lanes) // constants.CACHED))
    if lanes[-1] - lanes[0] == size - 1:
        return slice(lanes[0], lanes[-1] + 1), groups
    return np.concatenate([lanes, np.full(size - len(lanes), lanes[0])]), groups


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

    def kept_rows(x, curves, keep, base, args):
        rows = jax.vmap(lambda u, curve: rows_of(u, curve, base, args))(x, curves)
        # Data that are not kept may be anything, even infinite. Without the barrier the model
        # would be evaluated anew for each of the products.
        if x.shape[1] <= constants.FEW_COLUMNS:
            rows = [jnp.where(keep, row, 0.0) for row in rows]
        else:
            rows = jnp.where(keep[:, None, :], jnp.stack(rows, axis=1), 0.0)
        rows = jax.lax.optimization_barrier(rows)
        return rows, rows[-1] if isinstance(rows, list) else rows[:, -1]

    def evaluate(x, curves, keep, scale, shape, base, args):
        rows, residual = kept_rows(x, curves, keep, base, args)
        losses, bent = loss_of(shape, residual, scale[:, None])
        gram, slope = products(rows, jnp.where(keep, bent, 0.0))
        return losses @ np.ones(residual.shape[1]), gram, slope

    def step(state, value, gram, slope, blur_of, tol, low, high):
        blur = blur_of(state.value)
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
        after = proposed(moved, blur_of(moved.value), tol, low[None], high[None])
        return State(*map(lambda new, old: _where(state.ended, old, new), after, state))

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
        scaled = -solve(damped, slope)
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

    def block(state, curves, keep, scale, groups, steps, shape, tol, base, args, low, high):
        count = jnp.maximum(jnp.sum(keep, axis=1, dtype=float), 1)
        rounding = curves.rounding

        def blur_of(value):
            """The part of the residuals that is rounding errors."""
            return constants.EPS + rounding / jnp.maximum(jnp.sqrt(value / count), rounding)

        def of(ended, trial, curves, keep, scale):
            def nothing():
                lanes, p = trial.shape
                return jnp.zeros(lanes), jnp.zeros((lanes, p, p)), jnp.zeros((lanes, p))

            def everything():
                return evaluate(trial, curves, keep, scale, shape, base, args)

            return jax.lax.cond(jnp.all(ended), nothing, everything)

        def body(carry):
            done, state = carry
            value, gram, slope = _by_groups(
                of,
                groups,
                (state.value, state.gram, state.slope),
                (state.ended, state.trial, curves, keep, scale),
            )
            return done + 1, step(state, value, gram, slope, blur_of, tol, low, high)

        def going(carry):
            return (carry[0] < steps) & ~jnp.all(carry[1].ended)

        return jax.lax.while_loop(going, body, (jnp.zeros((), jnp.int32), state))[1]

    def all_residuals(_, base, args, x, curves):
        def one(u, curve):
            return residual_of(u, curve.y, curve.inverse, curve.each, base, args)

        return jax.vmap(one)(x, curves)

    def largest_leverage(groups, base, args, x, curves, keep, inverse):
        def of(x, curves, keep, inverse):
            rows, _ = kept_rows(x, curves, keep, base, args)
            return jnp.max(leverages(rows, inverse), axis=1)

        return _by_groups(of, groups, jnp.zeros(len(x)), (x, curves, keep, inverse))

    return _Programs(Program(block), Program(all_residuals), Program(largest_leverage))


def _by_groups(function: Callable, groups: Array, whole: Any, arrays: Any) -> Any:
    """Results of a function of the first groups of lanes, put into arrays of all lanes."""

    def grouped(leaf: Array) -> Array:
        return leaf.reshape(-1, constants.CACHED, *leaf.shape[1:])

    arrays, start = jax.tree.map(grouped, (arrays, whole))

    def body(k: Array, before: Any) -> Any:
        result = function(*jax.tree.map(lambda leaf: leaf[k], arrays))
        return jax.tree.map(lambda leaf, part: leaf.at[k].set(part), before, result)

    ends = jax.lax.fori_loop(0, groups, body, start)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), ends)


def _where(lanes: Array, new: Array, old: Array) -> Array:
    """The new values of some lanes."""
    return jnp.where(lanes.reshape(-1, *[1] * (new.ndim - 1)), new, old)
