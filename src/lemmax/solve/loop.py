"""The only outer loop: a pure function that can be compiled, cut into chunks, and vmapped."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from .._tree import tree_norm, tree_where
from .._typing import Parameters, RealScalar
from ..methods import AbstractMethod
from ..methods._base import PASSES_OF_AN_EVALUATION
from ..problem import Composite, Evaluation
from ..status import Status
from .stopping import Progress, Stopping, begin, judge_move, judge_value
from .trace import Trace, empty_trace, record

Metrics = Mapping[str, Callable[[Parameters, Evaluation], Any]]


class Plan(eqx.Module):
    """The constant part of a run."""

    problem: Composite
    method: AbstractMethod
    stopping: Stopping
    metrics: Metrics
    tol: RealScalar
    max_steps: Int[Array, ""]


class State(eqx.Module):
    """The changing part of a run, except its trace."""

    x: Parameters
    """The newest iterate; not evaluated yet while the run goes on."""
    evaluated_x: Parameters
    """The previous iterate, which the last row of the trace describes."""
    method_state: Any
    step: Int[Array, ""]
    """The number of steps taken; also the row of x in the trace."""
    status: Int[Array, ""]
    best_x: Parameters
    best_value: RealScalar
    progress: Progress


class Carry(eqx.Module):
    """The loop's carry: state and trace."""

    state: State
    trace: Trace


def start(plan: Plan, x0: Parameters, rows: int) -> Carry:
    """The state before the first evaluation."""
    scale, rounding = plan.problem.value_scales(x0)
    state = State(
        x=x0,
        evaluated_x=x0,
        method_state=plan.method.init(plan.problem, x0),
        step=jnp.zeros((), jnp.int32),
        status=jnp.asarray(Status.RUNNING, jnp.int32),
        best_x=x0,
        best_value=jnp.full_like(rounding, jnp.inf),
        progress=begin(scale, rounding),
    )
    return Carry(state, empty_trace(rows, rounding.dtype, plan.metrics))


def advance(plan: Plan, carry: Carry, limit: Int[Array, ""]) -> Carry:
    """Evaluate and move until the run ends or iterate number ``limit`` is reached."""

    def running(carry: Carry) -> Array:
        return (carry.state.status == Status.RUNNING) & (carry.state.step < limit)

    return jax.lax.while_loop(running, lambda carry: visit(plan, carry), carry)


def advance_on_host(
    plan: Plan, carry: Carry, limit: Int[Array, ""], evaluate: Callable[..., Evaluation]
) -> Carry:
    """`advance` for a method that cannot be compiled: only evaluations are compiled."""
    while carry.state.status == Status.RUNNING and carry.state.step < limit:
        evaluation = evaluate(plan.problem, carry.state.x)
        state, entries = settle(plan, carry.state, evaluation, carry.state.step)
        carry = Carry(state, record(carry.trace, carry.state.step, entries))
    return carry


def visit(plan: Plan, carry: Carry) -> Carry:
    """Evaluate, record and test the newest iterate, and take a step if the run goes on."""
    row, evaluation = carry.state.step, plan.problem.evaluate(carry.state.x)
    state, entries = settle(plan, carry.state, evaluation, row)
    return Carry(state, record(carry.trace, row, entries))


def settle(
    plan: Plan, before: State, evaluation: Evaluation, row: Int[Array, ""]
) -> tuple[State, Trace]:
    """The part of a visit after the evaluation: the next state, and a row of the trace.

    It is a function of its own because lanes that share their measurements are evaluated together.
    """
    method, target, value = plan.method, plan.method.target, evaluation.value
    gap = value if target is None else value - jnp.asarray(target, value.dtype)
    status, progress = judge_value(
        plan.stopping,
        before.progress,
        gap,
        row,
        plan.tol,
        has_target=target is not None,
        tries=method.tries,
    )
    status = jnp.where(
        (status == Status.RUNNING) & (row >= plan.max_steps), Status.STEP_LIMIT, status
    ).astype(jnp.int32)
    better = value < before.best_value

    move, method_state = method.step(plan.problem, evaluation, before.method_state)
    change = jax.tree.map(jnp.subtract, move.x, before.x)
    size = tree_norm(before.x)
    movement = tree_norm(change) / jnp.where(size > 0, size, 1)
    moves = status == Status.RUNNING
    after = judge_move(
        plan.stopping,
        progress,
        movement,
        move.failed,
        move.offset,
        plan.tol,
        has_target=target is not None,
    )

    blank = jnp.full_like(value, jnp.nan)
    entries = Trace(
        value=value,
        step=jnp.where(moves, move.length, blank),
        damping=jnp.where(moves, move.damping, blank),
        movement=jnp.where(moves, movement, blank),
        iterations=jnp.where(moves, move.iterations, -1),
        passes=PASSES_OF_AN_EVALUATION + jnp.where(moves, move.extra_passes, 0),
        metrics={
            name: _measured(name, metric, evaluation) for name, metric in plan.metrics.items()
        },
    )
    goes_on = moves & (after == Status.RUNNING)
    after_step = State(
        x=tree_where(goes_on, move.x, before.x),
        evaluated_x=before.x,
        method_state=tree_where(goes_on, method_state, before.method_state),
        step=jnp.where(goes_on, row + 1, row),
        status=jnp.where(moves, after, status),
        best_x=tree_where(better, before.x, before.best_x),
        best_value=jnp.where(better, value, before.best_value),
        progress=progress,
    )
    return after_step, entries


def _measured(name: str, metric: Callable, evaluation: Evaluation) -> Array:
    value = jnp.asarray(metric(evaluation.x, evaluation))
    if value.shape != ():
        raise ValueError(
            f"The metric {name!r} must return a number; it returned shape {value.shape}."
        )
    return value
