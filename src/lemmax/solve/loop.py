"""The only outer loop: pure, so that it can be compiled, cut into chunks, and mapped over."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from .._tree import tree_norm, tree_where
from .._typing import Parameters, RealScalar
from ..methods import PASSES_OF_AN_EVALUATION, AbstractMethod
from ..problem import Composite, Evaluation
from ..status import Status
from .stopping import Progress, Stopping, begin, judge_move, judge_value
from .trace import Trace, empty_trace, record

Metrics = Mapping[str, Callable[[Parameters, Evaluation], Any]]


class Plan(eqx.Module):
    """Everything about a run that does not change during it."""

    problem: Composite
    method: AbstractMethod
    stopping: Stopping
    metrics: Metrics
    tol: RealScalar
    max_steps: Int[Array, ""]


class Carry(eqx.Module):
    """Everything about a run that does."""

    x: Parameters
    """The newest iterate, not evaluated yet while the run goes on."""
    evaluated_x: Parameters
    """The one before, to which the last row of the trace belongs."""
    method_state: Any
    step: Int[Array, ""]
    """The number of steps taken, which is also the row of x in the trace."""
    status: Int[Array, ""]
    best_x: Parameters
    best_value: RealScalar
    progress: Progress
    trace: Trace


def start(plan: Plan, x0: Parameters, rows: int) -> Carry:
    """The state before the first evaluation."""
    scale, rounding = plan.problem.value_scales(x0)
    return Carry(
        x=x0,
        evaluated_x=x0,
        method_state=plan.method.init(plan.problem, x0),
        step=jnp.zeros((), jnp.int32),
        status=jnp.asarray(Status.RUNNING, jnp.int32),
        best_x=x0,
        best_value=jnp.full_like(rounding, jnp.inf),
        progress=begin(scale, rounding),
        trace=empty_trace(rows, rounding.dtype, plan.metrics),
    )


def advance(plan: Plan, carry: Carry, limit: Int[Array, ""]) -> Carry:
    """Evaluate and move until the run ends or iterate number ``limit`` is reached."""

    def running(carry: Carry) -> Array:
        return (carry.status == Status.RUNNING) & (carry.step < limit)

    return jax.lax.while_loop(running, lambda carry: visit(plan, carry), carry)


def visit(plan: Plan, carry: Carry) -> Carry:
    """Evaluate the newest iterate, record it, judge it, and move on if the run goes on."""
    return settle(plan, carry, plan.problem.evaluate(carry.x), carry.step)


def settle(plan: Plan, carry: Carry, evaluation: Evaluation, row: Int[Array, ""]) -> Carry:
    """All of a visit but the evaluation; ``row`` is the number of the newest iterate.

    It stands apart because runs that share their measurements are evaluated together.
    """
    method, target, value = plan.method, plan.method.target, evaluation.value
    gap = value if target is None else value - jnp.asarray(target, value.dtype)
    status, progress = judge_value(
        plan.stopping, carry.progress, gap, row, plan.tol, has_target=target is not None
    )
    status = jnp.where(
        (status == Status.RUNNING) & (row >= plan.max_steps), Status.STEP_LIMIT, status
    ).astype(jnp.int32)
    better = value < carry.best_value

    move, method_state = method.step(plan.problem, evaluation, carry.method_state)
    change = jax.tree.map(jnp.subtract, move.x, carry.x)
    size = tree_norm(carry.x)
    movement = tree_norm(change) / jnp.where(size > 0, size, 1)
    moves = status == Status.RUNNING
    after = judge_move(
        plan.stopping, progress, movement, move.failed, plan.tol, has_target=target is not None
    )

    trace = carry.trace
    blank = jnp.full_like(value, jnp.nan)
    trace = Trace(
        value=record(trace.value, row, value),
        step=record(trace.step, row, jnp.where(moves, move.length, blank)),
        damping=record(trace.damping, row, jnp.where(moves, move.damping, blank)),
        movement=record(trace.movement, row, jnp.where(moves, movement, blank)),
        iterations=record(trace.iterations, row, jnp.where(moves, move.iterations, -1)),
        passes=record(
            trace.passes,
            row,
            PASSES_OF_AN_EVALUATION + jnp.where(moves, move.extra_passes, 0),
        ),
        metrics={
            name: record(trace.metrics[name], row, _measured(name, metric, evaluation))
            for name, metric in plan.metrics.items()
        },
    )
    goes_on = moves & (after == Status.RUNNING)
    return Carry(
        x=tree_where(goes_on, move.x, carry.x),
        evaluated_x=carry.x,
        method_state=tree_where(goes_on, method_state, carry.method_state),
        step=jnp.where(goes_on, row + 1, row),
        status=jnp.where(moves, after, status),
        best_x=tree_where(better, carry.x, carry.best_x),
        best_value=jnp.where(better, value, carry.best_value),
        progress=progress,
        trace=trace,
    )


def _measured(name: str, metric: Callable, evaluation: Evaluation) -> Array:
    value = jnp.asarray(metric(evaluation.x, evaluation))
    if value.shape != ():
        raise ValueError(
            f"The metric {name!r} must return a number; it returned shape {value.shape}."
        )
    return value
