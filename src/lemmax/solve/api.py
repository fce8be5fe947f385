"""`solve` and `iterate`: the loop as a user calls it."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .._checks import as_whole, check_kind, check_positive, check_real, check_whole, describe
from .._dtype import (
    as_hyperparameters,
    cast_floats,
    common_dtype,
    needs_local_x64,
    precision_context,
    require_finite,
    to_device,
    to_numpy,
)
from .._tree import is_traced
from .._typing import Parameters
from ..gradients import AbstractGradient, Implicit
from ..methods import AbstractMethod
from ..problem import Composite
from ..status import SolveError, Status
from ._compiled import advance_compiled, start_compiled, visit_compiled
from ._implicit import differentiable, opened
from .loop import Carry, Metrics, Plan, advance, start
from .progress import no_progress_bar, progress_bar
from .result import Result
from .stopping import Stopping
from .trace import cut_trace

# Without a callback a chunk of steps takes about this long, so that Ctrl-C is answered soon.
_CHUNK_SECONDS = 0.25


@eqx.filter_jit
def _whole(plan: Plan, x0: Parameters, max_steps: int) -> Carry:
    """A run without a look from outside; compiled once, also if it is differentiated eagerly."""
    return advance(plan, start(plan, x0, max_steps + 1), as_limit(max_steps + 1))


class Snapshot(NamedTuple):
    """An iterate of a run that goes on.

    ``step`` is its number (0 for the start), ``x`` its parameters, ``value`` the objective there,
    and ``best_value`` the smallest objective so far.
    """

    step: int
    x: Parameters
    value: float
    best_value: float


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
    gradient: AbstractGradient | None = None,
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
    gradient : lemmax.gradients.AbstractGradient, optional
        What `jax.grad`, `jax.jacrev` and `jax.jvp` find: the derivative of the solution
        (`lemmax.gradients.Implicit`, if not given), or none (`lemmax.gradients.NoGradient`).

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
    check_arguments(problem, method, max_steps, tol, every)
    if metrics is not None and not isinstance(metrics, Mapping):
        raise TypeError('metrics is a dict of functions, such as {"error": ...}.')
    metrics, max_steps = dict(metrics or {}), as_whole(max_steps)
    if gradient is not None:
        check_kind("gradient", gradient, AbstractGradient, "one of lm.gradients")
    problem = opened(problem, x0)
    if is_traced((problem, method, x0, metrics, tol, stopping)):
        if callback is not None or progress or throw:
            raise ValueError(
                "Inside jit or vmap there is no callback, progress bar or exception: call solve "
                "outside of it for those."
            )
        if needs_local_x64(problem, x0):
            raise ValueError(
                "Inside jit or vmap float64 arrays would be cut to float32: turn on x64 mode, "
                "jax.config.update('jax_enable_x64', True), or give float32 arrays."
            )
        require_compiled(method)
        plan, x0 = make_plan(problem, method, x0, metrics, stopping, tol, max_steps)
        return _traced(plan, x0, max_steps, Implicit() if gradient is None else gradient)

    gives_numpy = needs_local_x64(problem, x0) or is_numpy(x0)
    with precision_context(problem, x0):
        plan, x0 = make_plan(problem, method, x0, metrics, stopping, tol, max_steps)
        bar = progress_bar(type(problem.map).__name__, max_steps) if progress else no_progress_bar()
        with bar as report:
            # A power of two, so that a different max_steps seldom needs another compilation.
            rows = 1 << max_steps.bit_length()
            began = time.perf_counter()
            carry = advance_compiled(plan, start_compiled(plan, x0, rows), as_limit(0))
            compiled = time.perf_counter()
            stops = callback is not None or progress
            watch = None if callback is None else _watcher(callback, gives_numpy)
            carry = _run(plan, carry, max_steps, watch, every if stops else None, report)
            seconds = time.perf_counter() - compiled
        result = make_result(plan, carry, seconds, compiled - began)
        trace = cut_trace(result.trace, int(result.steps) + 1)
        result = eqx.tree_at(lambda r: r.trace, result, trace)
        if gives_numpy:
            result = to_numpy(result)
    if throw and not result.status.succeeded:
        raise SolveError(result.status, result)
    return result


def _traced(plan: Plan, x0: Parameters, max_steps: int, gradient: AbstractGradient) -> Result:
    """A run inside of ``jit``, ``vmap`` or ``grad``."""

    def run(problem: Composite, rest: PyTree) -> tuple:
        plan, x0 = rest
        plan = eqx.tree_at(lambda p: p.problem, plan, problem, is_leaf=lambda leaf: leaf is None)
        carry = _whole(plan, x0, max_steps)
        ended = carry.state
        others = ended.step, ended.evaluated_x, carry.trace
        return ended.best_x, ended.best_value, ended.status, others

    rest = eqx.tree_at(lambda p: p.problem, plan, None), x0
    if isinstance(gradient, Implicit):
        x, value, code, others = differentiable(run, plan.problem, rest, gradient)
        point = plan.problem.map(x)
    else:
        constant = jax.lax.stop_gradient(eqx.filter((plan.problem, rest), eqx.is_array))
        x, value, code, others = run(
            *eqx.combine(constant, eqx.filter((plan.problem, rest), eqx.is_array, inverse=True))
        )
        point = jax.tree.map(jax.lax.stop_gradient, plan.problem.map(x))
    steps, last_x, trace = others
    return Result(
        x=x,
        point=point,
        value=value,
        steps=steps,
        last_x=last_x,
        trace=trace,
        code=code,
        seconds=float("nan"),
        compile_seconds=float("nan"),
    )


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
        Of the start, then after every step. It ends early only if a value is not finite.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> problem = lm.Composite(lm.losses.L2(), lm.maps.Square(1), data=jnp.array([4.0]))
    >>> for snapshot in lm.iterate(problem, lm.methods.lmm(), jnp.array([1.0]), max_steps=3):
    ...     print(snapshot.step, snapshot.x, f"{snapshot.value:.4f}")
    0 [1.] 3.0000
    1 [2.5] 2.2500
    2 [2.05] 0.2025
    3 [2.00060976] 0.0024
    """
    check_arguments(problem, method, max_steps, 0.0, 1)
    if is_traced((problem, method, x0)):
        raise ValueError(
            "iterate steps from Python: call it outside of jit, vmap and grad, or lm.solve inside "
            "of them."
        )
    gives_numpy = needs_local_x64(problem, x0) or is_numpy(x0)
    with precision_context(problem, x0):
        plan, x0 = make_plan(problem, method, x0, {}, None, 0.0, max_steps)
        carry = start_compiled(plan, x0, 1)
    while int(carry.state.status) == Status.RUNNING:
        with precision_context(problem, x0):
            # Only the newest row of the trace is kept.
            carry = visit_compiled(plan, carry)
            snapshot = _snapshot(carry, 0, gives_numpy)
            if not np.isfinite(snapshot.value):
                return
        yield snapshot


def _snapshot(carry: Carry, row: int, gives_numpy: bool) -> Snapshot:
    """The iterate evaluated last; while a run goes on, its step is one behind."""
    step = int(carry.state.step) - int(int(carry.state.status) == Status.RUNNING)
    x = to_numpy(carry.state.evaluated_x) if gives_numpy else carry.state.evaluated_x
    return Snapshot(
        step, x, float(np.asarray(carry.trace.value)[row]), float(carry.state.best_value)
    )


def _watcher(callback: Callable[[Snapshot], Any], gives_numpy: bool) -> Callable[[Carry], bool]:
    """Show a snapshot to the callback; whether it asks to stop, in whatever kind of truth."""

    def watch(carry: Carry) -> bool:
        answer = callback(_snapshot(carry, int(carry.state.step) - 1, gives_numpy))
        return answer is not None and bool(answer)

    return watch


def _run(
    plan: Plan,
    carry: Carry,
    max_steps: int,
    watch: Callable[[Carry], bool] | None,
    every: int | None,
    report: Callable[[int, float], None],
) -> Carry:
    """Advance in chunks; between chunks the outside world may look, and interrupt."""
    chunk = every or 16
    # The limit counts evaluations, the start's included: iterate 0, then every k-th.
    limit = 1 if every is None else every + 1
    try:
        while int(carry.state.status) == Status.RUNNING:
            began = time.perf_counter()
            until = as_limit(min(limit, max_steps + 1))
            carry = jax.block_until_ready(advance_compiled(plan, carry, until))
            if every is None:
                if time.perf_counter() - began < _CHUNK_SECONDS / 2:
                    chunk *= 2
            else:
                rows = int(carry.state.step)
                report(rows, float(np.asarray(carry.trace.value)[max(rows - 1, 0)]))
                running = int(carry.state.status) == Status.RUNNING
                if watch is not None and running and watch(carry):
                    return _interrupted(carry)
            limit += chunk
    except KeyboardInterrupt:
        return _interrupted(carry)
    return carry


def as_limit(step: int) -> Array:
    """The number of an iterate, for the compiled loop."""
    # Put there without an operation: that would be one more program to compile.
    return jax.device_put(np.asarray(step, np.int32))


def _interrupted(carry: Carry) -> Carry:
    """End at the iterate evaluated last: the newest has no row in the trace."""
    ended = int(carry.state.status) != Status.RUNNING or int(carry.state.step) == 0
    step = carry.state.step if ended else carry.state.step - 1
    status = jnp.asarray(Status.INTERRUPTED, jnp.int32)
    return eqx.tree_at(lambda c: (c.state.status, c.state.step), carry, (status, step))


def require_compiled(method: AbstractMethod) -> None:
    """Raise a sentence for a method whose steps are computed by Python."""
    if method.on_host:
        raise ValueError(
            "This method computes its steps in Python: give it to solve, outside of jit and vmap."
        )


def make_plan(
    problem: Composite,
    method: AbstractMethod,
    x0: Parameters,
    metrics: dict,
    stopping: Stopping | None,
    tol: float,
    max_steps: int,
) -> tuple[Plan, Parameters]:
    """Check a run's parts, and bring them to one precision on the device."""
    method.scope.check(problem)
    for name, metric in metrics.items():
        if not callable(metric):
            raise TypeError(f"The metric {name!r} must be a function; got {describe(metric)}.")
    flat = problem.map.parameter_shapes is not None and not isinstance(
        problem.map.parameter_shapes[0], tuple
    )
    if isinstance(x0, list):
        x0 = np.asarray(x0) if flat else tuple(x0)
    x0 = to_device(x0) if flat and not is_traced(x0) else jax.tree.map(to_device, x0)
    problem.check_start(x0)
    require_finite(x0, "The parameters x0")
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


def make_result(plan: Plan, carry: Carry, seconds: float, compile_seconds: float) -> Result:
    """What a run that ended hands over."""
    return Result(
        x=carry.state.best_x,
        point=plan.problem.map(carry.state.best_x),
        value=carry.state.best_value,
        steps=carry.state.step,
        last_x=carry.state.evaluated_x,
        trace=carry.trace,
        code=carry.state.status,
        seconds=seconds,
        compile_seconds=compile_seconds,
    )


def is_numpy(x0: Parameters) -> bool:
    """Whether all leaves are NumPy's."""
    return all(isinstance(leaf, (np.ndarray, np.generic)) for leaf in jax.tree.leaves(x0))


def check_arguments(problem: Any, method: Any, max_steps: Any, tol: Any, every: Any) -> None:
    """Raise a sentence for what is not of the right kind."""
    check_kind("The first argument of solve", problem, Composite, "a Composite problem")
    what = "a method such as lm.methods.lmm()"
    check_kind("The second argument of solve", method, AbstractMethod, what)
    check_whole(0, max_steps=max_steps)
    check_positive(every=every)
    check_real(0, tol=tol)
