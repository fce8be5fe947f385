"""Checks and preparation of a run's arguments, and assembly of its result."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._checks import check_kind, check_positive, check_real, check_whole, describe
from .._dtype import as_hyperparameters, cast_floats, common_dtype, require_finite, to_device
from .._memory import require_memory
from .._tree import is_traced
from .._typing import Parameters
from ..methods import AbstractMethod
from ..problem import IMPURE, Composite
from .loop import Carry, Plan
from .result import Result
from .stopping import Stopping
from .trace import columns_of_trace


@contextlib.contextmanager
def explaining() -> Iterator[None]:
    """Explain errors of JAX: an impure function, too little memory, another process that ended."""
    try:
        yield
    except jax.errors.UnexpectedTracerError as error:
        raise TypeError(IMPURE) from error
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" in str(error):
            raise MemoryError(
                "The compiled program needs more memory than there is. Use a smaller problem, "
                f"or float32. ({str(error).splitlines()[0]})"
            ) from error
        if jax.process_count() == 1:
            raise
        raise RuntimeError(
            "Another process of this run has ended or does not answer. Restart all of them; "
            "with a checkpoint they continue from there."
        ) from error


def as_limit(step: int) -> Array:
    """An iterate's number as an argument of the compiled loop."""
    # By a transfer, not by an operation, which would be one more program to compile.
    return jax.device_put(np.asarray(step, np.int32))


def require_compiled(method: AbstractMethod) -> None:
    """Raise an error for a method whose steps are computed in Python."""
    if method.on_host:
        raise ValueError(
            "This method computes its steps in Python: use it with solve, outside of jit and vmap."
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
    """Check the arguments of a run, and move them to the device in one precision."""
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
    trace = 1 << max_steps.bit_length(), columns_of_trace(metrics)
    require_memory(trace, dtype.itemsize, "The trace", "Use a smaller max_steps.")
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
    """The result of a finished run."""
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
    """Whether all leaves are NumPy arrays."""
    return all(isinstance(leaf, (np.ndarray, np.generic)) for leaf in jax.tree.leaves(x0))


def check_arguments(problem: Any, method: Any, max_steps: Any, tol: Any, every: Any) -> None:
    """Raise an error for arguments of the wrong type."""
    check_kind("The first argument of solve", problem, Composite, "a Composite problem")
    what = "a method such as lm.methods.lmm()"
    check_kind("The second argument of solve", method, AbstractMethod, what)
    check_whole(0, max_steps=max_steps)
    check_positive(every=every)
    check_real(0, tol=tol)
