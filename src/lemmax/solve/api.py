"""`solve` and `iterate`: the user's interface to the loop."""

import pathlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .._checks import as_whole, check_kind
from .._dtype import needs_local_x64, precision_context, to_numpy
from .._programs import compiled
from .._tree import is_traced
from .._typing import Parameters
from ..gradients import AbstractGradient, Implicit
from ..methods import AbstractMethod
from ..problem import Composite
from ..status import SolveError, Status
from ._compiled import advance_compiled, start_compiled, visit_compiled
from ._implicit import differentiable, opened
from ._plan import (
    as_limit,
    check_arguments,
    explaining,
    is_numpy,
    make_plan,
    make_result,
    require_compiled,
)
from .checkpoint import Checkpoint, Part
from .loop import Carry, Metrics, Plan, advance, start
from .progress import no_progress_bar, progress_bar
from .result import Result
from .stopping import Stopping
from .trace import cut_trace

# Duration of a chunk of steps without a callback, so that Ctrl-C is answered soon.
_CHUNK_SECONDS = 0.25


@compiled
def _whole(plan: Plan, x0: Parameters, max_steps: int) -> Carry:
    """A run without callbacks; compiled once, also if it is differentiated eagerly."""
    return advance(plan, start(plan, x0, max_steps + 1), as_limit(max_steps + 1))


class Snapshot(NamedTuple):
    """An iterate of a running solve, as passed to callbacks.

    ``step`` is its number (0 for the start), ``x`` its parameters, ``value`` its objective, and
    ``best_value`` the smallest objective so far.
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
    checkpoint: str | pathlib.Path | None = None,
) -> Result:
    """Minimise a composite objective from a starting point.

    Parameters
    ----------
    problem : Composite
        The problem to minimise.
    method : AbstractMethod
        The method; ``lm.methods.lmm()`` if in doubt.
    x0 : array or pytree of arrays
        The starting point. NumPy arrays in give NumPy arrays out, JAX arrays give JAX arrays.
        Float64 data are computed in float64 even if JAX's x64 mode is off; the results then are
        NumPy arrays.
    max_steps : int
        Maximum number of steps.
    tol : float
        Relative tolerance. If the step rule has a target value, stop when ``value - target`` is
        at most ``tol`` times its initial value. Otherwise, stop when the value varies by less
        than ``tol`` times its initial value over a window. 0 runs all steps.
    metrics : dict of callables, optional
        Each ``metric(x, evaluation) -> scalar`` becomes a column of the trace.
    callback : callable, optional
        Called with a `Snapshot` every ``every`` steps; the run stops if it returns True.
        Callbacks and the progress bar do not change the numbers.
    every : int
        Steps between two calls.
    progress : bool
        Show a progress bar (needs rich).
    stopping : Stopping, optional
        Window, step and divergence tests.
    throw : bool
        Raise `SolveError` if the run fails, instead of only returning its status.
    gradient : lemmax.gradients.AbstractGradient, optional
        The derivative for `jax.grad`, `jax.jacrev` and `jax.jvp`: that of the solution
        (`lemmax.gradients.Implicit`, default), or none (`lemmax.gradients.NoGradient`).
    checkpoint : str or Path, optional
        A folder to which the state is saved every ``every`` steps. If the process is killed, the
        same call continues from there, with bitwise the same results. A checkpoint of another
        problem or method is refused.

    Returns
    -------
    Result
        The outcome, with the best point seen. Ctrl-C ends the run early and returns the result so
        far, also from within a callback.

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
        raise TypeError('metrics must be a dict of functions, such as {"error": ...}.')
    metrics, max_steps = dict(metrics or {}), as_whole(max_steps)
    if gradient is not None:
        check_kind("gradient", gradient, AbstractGradient, "one of lm.gradients")
    problem = opened(problem, x0)
    if is_traced((problem, method, x0, metrics, tol, stopping)):
        if callback is not None or progress or throw or checkpoint is not None:
            raise ValueError(
                "Inside jit or vmap there are no callbacks, progress bars, exceptions or "
                "checkpoints: call solve outside of it to use them."
            )
        if needs_local_x64(problem, x0):
            raise ValueError(
                "Inside jit or vmap float64 arrays would be truncated to float32: enable x64 mode, "
                "jax.config.update('jax_enable_x64', True), or pass float32 arrays."
            )
        require_compiled(method)
        plan, x0 = make_plan(problem, method, x0, metrics, stopping, tol, max_steps)
        return _traced(plan, x0, max_steps, Implicit() if gradient is None else gradient)

    gives_numpy = needs_local_x64(problem, x0) or is_numpy(x0)
    with precision_context(problem, x0), explaining():
        plan, x0 = make_plan(problem, method, x0, metrics, stopping, tol, max_steps)
        bar = progress_bar(type(problem.map).__name__, max_steps) if progress else no_progress_bar()
        with bar as report:
            # A power of two, so that another max_steps rarely needs another compilation.
            rows = 1 << max_steps.bit_length()
            began = time.perf_counter()
            carry = advance_compiled(plan, start_compiled(plan, x0, rows), as_limit(0))
            kept = Part() if checkpoint is None else Checkpoint(checkpoint, plan, x0)
            compiled = time.perf_counter()
            carry, before = kept.resumed(carry, max_steps)
            looks = _Looks(
                watch=None if callback is None else _watcher(callback, gives_numpy),
                report=report,
                kept=kept,
                began=compiled - before,
            )
            stops = callback is not None or progress or checkpoint is not None
            carry = _run(plan, carry, max_steps, looks, every if stops else None)
            seconds = before + time.perf_counter() - compiled
        result = make_result(plan, carry, seconds, compiled - began)
        trace = cut_trace(result.trace, int(result.steps) + 1)
        result = eqx.tree_at(lambda r: r.trace, result, trace)
        if gives_numpy:
            result = to_numpy(result)
    if throw and not result.status.succeeded:
        raise SolveError(result.status, result)
    return result


def _traced(plan: Plan, x0: Parameters, max_steps: int, gradient: AbstractGradient) -> Result:
    """A run inside ``jit``, ``vmap`` or ``grad``."""

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
    """Step through a run from Python.

    Parameters
    ----------
    problem, method, x0
        As for `solve`.
    max_steps : int
        Maximum number of steps.

    Yields
    ------
    Snapshot
        The start, then the iterate after each step. Ends early only if a value is not finite.

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
            "iterate steps from Python: call it outside of jit, vmap and grad, or use lm.solve "
            "inside of them."
        )
    gives_numpy = needs_local_x64(problem, x0) or is_numpy(x0)
    with precision_context(problem, x0):
        plan, x0 = make_plan(problem, method, x0, {}, None, 0.0, max_steps)
        carry = start_compiled(plan, x0, 1)
    while int(carry.state.status) == Status.RUNNING:
        with precision_context(problem, x0):
            # Only the newest row of the trace is stored.
            carry = visit_compiled(plan, carry)
            snapshot = _snapshot(carry, 0, gives_numpy)
            if not np.isfinite(snapshot.value):
                return
        yield snapshot


def _snapshot(carry: Carry, row: int, gives_numpy: bool) -> Snapshot:
    """The iterate evaluated last; during a run, one step behind the newest."""
    step = int(carry.state.step) - int(int(carry.state.status) == Status.RUNNING)
    x = to_numpy(carry.state.evaluated_x) if gives_numpy else carry.state.evaluated_x
    return Snapshot(
        step, x, float(np.asarray(carry.trace.value)[row]), float(carry.state.best_value)
    )


def _watcher(callback: Callable[[Snapshot], Any], gives_numpy: bool) -> Callable[[Carry], bool]:
    """Pass a snapshot to the callback; return whether it asks to stop."""

    def watch(carry: Carry) -> bool:
        answer = callback(_snapshot(carry, int(carry.state.step) - 1, gives_numpy))
        return answer is not None and bool(answer)

    return watch


class _Looks(NamedTuple):
    """Callback, progress bar and checkpoint, called between chunks of steps."""

    watch: Callable[[Carry], bool] | None
    report: Callable[[int, float], None]
    kept: Checkpoint | Part
    began: float

    def stop(self, carry: Carry) -> bool:
        """Call all of them; return whether the run should stop."""
        rows = int(carry.state.step)
        self.report(rows, float(np.asarray(carry.trace.value)[max(rows - 1, 0)]))
        self.keep(carry)
        if int(carry.state.status) != Status.RUNNING:
            return False
        return self.watch is not None and self.watch(carry)

    def keep(self, carry: Carry) -> None:
        """Save the state of the run and the time it took."""
        self.kept.keep(carry, time.perf_counter() - self.began)


def _run(plan: Plan, carry: Carry, max_steps: int, looks: _Looks, every: int | None) -> Carry:
    """Advance in chunks; callbacks and interrupts are handled between them."""
    chunk = every or 16
    # The limit counts evaluations, of which the first is that of the start.
    limit = 1 if every is None else (int(carry.state.step) or 1) + every
    try:
        while int(carry.state.status) == Status.RUNNING:
            began = time.perf_counter()
            until = as_limit(min(limit, max_steps + 1))
            carry = jax.block_until_ready(advance_compiled(plan, carry, until))
            if every is None:
                chunk *= 2 if time.perf_counter() - began < _CHUNK_SECONDS / 2 else 1
                looks.keep(carry)
            elif looks.stop(carry):
                return _interrupted(carry)
            limit += chunk
    except KeyboardInterrupt:
        return _interrupted(carry)
    return carry


def _interrupted(carry: Carry) -> Carry:
    """End at the iterate evaluated last: the newest has no row in the trace."""
    ended = int(carry.state.status) != Status.RUNNING or int(carry.state.step) == 0
    step = carry.state.step if ended else carry.state.step - 1
    status = jnp.asarray(Status.INTERRUPTED, jnp.int32)
    return eqx.tree_at(lambda c: (c.state.status, c.state.step), carry, (status, step))
