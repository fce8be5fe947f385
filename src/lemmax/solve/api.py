"""`solve` and `iterate`: the loop as a user calls it."""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._dtype import (
    as_hyperparameters,
    cast_floats,
    common_dtype,
    needs_local_x64,
    precision_context,
    to_device,
    to_numpy,
)
from .._tree import is_traced
from .._typing import Parameters
from ..methods import AbstractMethod
from ..problem import Composite, describe
from ..status import SolveError, Status
from .loop import Carry, Metrics, Plan, advance, start, visit
from .progress import no_progress_bar, progress_bar
from .result import Result
from .stopping import Stopping
from .trace import cut_trace

# Without a callback a chunk of steps takes about this long, so that Ctrl-C is answered soon.
_CHUNK_SECONDS = 0.25

_start = eqx.filter_jit(start)
_advance = eqx.filter_jit(advance)
_visit = eqx.filter_jit(visit)


class Snapshot(NamedTuple):
    """The state of a run between two steps."""

    step: int
    """Steps taken so far."""
    x: Parameters
    """The current iterate."""
    value: float
    """Objective at the iterate before (at the start before the first step)."""
    best_value: float
    """Smallest objective so far."""


def solve(
    problem: Composite,
    method: AbstractMethod,
    x0: Parameters,
    *,
    max_steps: int = 1000,
    tol: float = 1e-8,
    metrics: Metrics | None = None,
    callback: Callable[[Snapshot], Any] | None = None,
    every: int = 50,
    progress: bool = False,
    stopping: Stopping | None = None,
    throw: bool = False,
) -> Result:
    """Minimise a composite objective from a starting point.

    Parameters
    ----------
    problem : Composite
        What to minimise.
    method : AbstractMethod
        How to move; ``lm.methods.lmm()`` if in doubt.
    x0 : array or pytree of arrays
        Where to start. NumPy arrays in give NumPy arrays out, JAX arrays give JAX arrays;
        float64 data are computed in float64 even while JAX's x64 mode is off, and then NumPy
        arrays come out.
    max_steps : int
        Most steps to take.
    tol : float
        Relative tolerance. Where the step rule knows a target value: stop when ``value -
        target`` is ``tol`` times what it was at the start. Otherwise: stop when the value
        varies by less than ``tol`` times its start over a window. 0 runs all steps.
    metrics : dict of callables, optional
        Each ``metric(x, evaluation) -> scalar`` becomes a column of the trace.
    callback : callable, optional
        Called with a `Snapshot` every ``every`` steps; the run stops if it returns True.
        Neither it nor the progress bar changes the numbers.
    every : int
        Steps between two calls.
    progress : bool
        Show a progress bar (needs rich).
    stopping : Stopping, optional
        Window, step and divergence tests.
    throw : bool
        Raise `SolveError` unless the run succeeded, instead of returning its status.

    Returns
    -------
    Result
        With the best point seen, whatever happened. Ctrl-C ends the run early and returns what
        it had; so it does for a callback.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> problem = lm.Composite(
    ...     loss=lm.losses.L2(), map=lm.maps.Square(3), data=jnp.array([1.0, 4.0, 0.0]))
    >>> result = lm.solve(problem, lm.methods.lmm(), jnp.array([1.5, 1.5, 0.5]))
    >>> result.status.name
    'TARGET_REACHED'
    >>> print(jnp.round(result.point.dense(), 4))
    [1. 4. 0.]
    """
    _check_arguments(problem, method, max_steps, tol, every)
    metrics = dict(metrics or {})
    if is_traced((problem, method, x0, metrics)):
        if callback is not None or progress or throw:
            raise ValueError(
                "Inside jit or vmap there is no callback, progress bar or exception: call solve "
                "outside of it for those."
            )
        plan, x0 = _plan(problem, method, x0, metrics, stopping, tol, max_steps)
        carry = advance(plan, start(plan, x0, max_steps + 1), _limit(max_steps + 1))
        return _result(plan, carry, float("nan"), float("nan"))

    gives_numpy = needs_local_x64(problem, x0) or _is_numpy(x0)
    with precision_context(problem, x0):
        plan, x0 = _plan(problem, method, x0, metrics, stopping, tol, max_steps)
        bar = progress_bar(type(problem.map).__name__, max_steps) if progress else no_progress_bar()
        with bar as report:
            # A power of two, so that a different max_steps seldom needs another compilation.
            rows = 1 << max_steps.bit_length()
            began = time.perf_counter()
            carry = _advance(plan, _start(plan, x0, rows), _limit(0))
            compiled = time.perf_counter()
            stops = callback is not None or progress
            carry = _run(plan, carry, max_steps, callback, every if stops else None, report)
            seconds = time.perf_counter() - compiled
        result = _result(plan, carry, seconds, compiled - began)
        trace = cut_trace(result.trace, int(result.steps) + 1)
        result = eqx.tree_at(lambda r: r.trace, result, trace)
        if gives_numpy:
            result = to_numpy(result)
    if throw and not result.status.succeeded:
        raise SolveError(result.status)
    return result


def iterate(
    problem: Composite, method: AbstractMethod, x0: Parameters, *, max_steps: int = 1000
) -> Iterator[Snapshot]:
    """Step through a run from Python, as slowly as one likes.

    Parameters
    ----------
    problem, method, x0
        As for `solve`.
    max_steps : int
        Most steps to take.

    Yields
    ------
    Snapshot
        After every step. It ends early only if a value is not finite.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> problem = lm.Composite(lm.losses.L2(), lm.maps.Square(1), data=jnp.array([4.0]))
    >>> for snapshot in lm.iterate(problem, lm.methods.lmm(), jnp.array([1.0]), max_steps=3):
    ...     print(snapshot.step, snapshot.x)
    1 [2.5]
    2 [2.05]
    3 [2.00060976]
    """
    _check_arguments(problem, method, max_steps, 0.0, 1)
    gives_numpy = needs_local_x64(problem, x0) or _is_numpy(x0)
    with precision_context(problem, x0):
        plan, x0 = _plan(problem, method, x0, {}, None, 0.0, max_steps)
        carry = _start(plan, x0, 1)
    for _ in range(max_steps):
        with precision_context(problem, x0):
            # Only the newest row of the trace is kept.
            carry = _visit(plan, carry)
            value = float(np.asarray(carry.trace.value)[0])
            if int(carry.status) != Status.RUNNING:
                return
            x = to_numpy(carry.x) if gives_numpy else carry.x
            snapshot = Snapshot(int(carry.step), x, value, float(carry.best_value))
        yield snapshot


def _run(
    plan: Plan,
    carry: Carry,
    max_steps: int,
    callback: Callable[[Snapshot], Any] | None,
    every: int | None,
    report: Callable[[int, float], None],
) -> Carry:
    """Advance in chunks; between chunks the outside world may look, and interrupt."""
    chunk = every or 16
    try:
        while int(carry.status) == Status.RUNNING:
            step = int(carry.step)
            began = time.perf_counter()
            carry = jax.block_until_ready(
                _advance(plan, carry, _limit(min(step + chunk, max_steps + 1)))
            )
            if every is None:
                if time.perf_counter() - began < _CHUNK_SECONDS / 2:
                    chunk *= 2
                continue
            step = int(carry.step)
            value = float(np.asarray(carry.trace.value)[max(step - 1, 0)])
            report(step, value)
            if callback is not None and int(carry.status) == Status.RUNNING:
                snapshot = Snapshot(step, carry.x, value, float(carry.best_value))
                if callback(snapshot) is True:
                    return _interrupted(carry)
    except KeyboardInterrupt:
        return _interrupted(carry)
    return carry


def _limit(step: int) -> Array:
    # Put there without an operation: that would be one more program to compile.
    return jax.device_put(np.asarray(step, np.int32))


def _interrupted(carry: Carry) -> Carry:
    """The newest iterate has not been evaluated: the last row is that of the one before."""
    step = jnp.maximum(carry.step - 1, 0)
    status = jnp.asarray(Status.INTERRUPTED, jnp.int32)
    return eqx.tree_at(lambda c: (c.status, c.step), carry, (status, step))


def _plan(
    problem: Composite,
    method: AbstractMethod,
    x0: Parameters,
    metrics: dict,
    stopping: Stopping | None,
    tol: float,
    max_steps: int,
) -> tuple[Plan, Parameters]:
    method.scope.check(problem)
    x0 = jax.tree.map(to_device, tuple(x0) if isinstance(x0, list) else x0)
    problem.check_start(x0)
    if not is_traced(x0) and not all(np.all(np.isfinite(u)) for u in jax.tree.leaves(x0)):
        raise ValueError("x0 holds entries that are NaN or infinite.")
    dtype = common_dtype(problem, x0)
    problem, x0, metrics = cast_floats((problem, x0, metrics), dtype)
    plan = Plan(
        problem=problem,
        method=method,
        stopping=Stopping() if stopping is None else stopping,
        metrics=metrics,
        tol=jnp.asarray(tol, dtype),
        max_steps=jnp.asarray(max_steps, jnp.int32),
    )
    return as_hyperparameters(plan), x0


def _result(plan: Plan, carry: Carry, seconds: float, compile_seconds: float) -> Result:
    return Result(
        x=carry.best_x,
        point=plan.problem.map(carry.best_x),
        value=carry.best_value,
        steps=carry.step,
        last_x=carry.x,
        trace=carry.trace,
        code=carry.status,
        seconds=seconds,
        compile_seconds=compile_seconds,
    )


def _is_numpy(x0: Parameters) -> bool:
    return all(isinstance(leaf, (np.ndarray, np.generic)) for leaf in jax.tree.leaves(x0))


def _check_arguments(problem: Any, method: Any, max_steps: int, tol: float, every: int) -> None:
    if not isinstance(problem, Composite):
        raise TypeError(
            f"The first argument of solve is a Composite problem; got {describe(problem)}"
        )
    if not isinstance(method, AbstractMethod):
        raise TypeError(
            f"The second argument of solve is a method such as lm.methods.lmm(); got "
            f"{describe(method)}"
        )
    if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 0:
        raise ValueError(f"max_steps must be a whole number of at least 0; got {max_steps!r}.")
    if not isinstance(every, int) or every < 1:
        raise ValueError(f"every must be a whole number of at least 1; got {every!r}.")
    if isinstance(tol, (int, float)) and not tol >= 0:
        raise ValueError(f"tol must not be negative; got {tol!r}.")
