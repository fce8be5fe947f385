"""Runs of a method on an instance with a known solution, as rows of a table."""

from typing import Any

import numpy as np

import lemmax as lm

from .experiment import Watch
from .table import Cell, Table

ERROR = "relative error"
"""The name of the metric in the trace."""


def run(
    watch: Watch,
    instance: Any,
    method: lm.methods.AbstractMethod,
    max_steps: int,
    *,
    tol: float = 0.0,
    stopping: lm.Stopping | None = None,
) -> lm.Result:
    """Solve an instance, report progress, and record the relative error at every step.

    Parameters
    ----------
    watch : callable
        Progress function, called with ``(step, max_steps)``.
    instance : Instance
        Anything with ``problem``, ``x0`` and the metric ``error``.
    method : AbstractMethod
        The method.
    max_steps : int
        All steps are taken, unless ``tol`` or ``stopping`` end the run.
    tol, stopping
        As for `lemmax.solve`.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C. `lemmax.solve` would return its result so far, but half a curve is useless.
    """
    result = lm.solve(
        instance.problem,
        method,
        instance.x0,
        max_steps=max_steps,
        tol=tol,
        metrics={ERROR: instance.error},
        callback=lambda snapshot: watch(snapshot.step, max_steps),
        every=max(max_steps // 20, 1),
        stopping=stopping,
    )
    if result.status is lm.Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def part_of(watch: Watch, k: int, parts: int) -> Watch:
    """The progress function of the k-th of several equal parts of a job."""
    return lambda done, total: watch(k + done / max(total, 1), parts)


def error_of(result: lm.Result) -> np.ndarray:
    """The relative error at every iterate of a `run`, including the start."""
    return np.asarray(result.trace.metrics[ERROR])


def curve(error: np.ndarray, **labels: Cell) -> Table:
    """One row per iterate: the labels, ``step`` and ``error``.

    Examples
    --------
    >>> import numpy as np
    >>> from lemmax.experiments.harness import curve
    >>> curve(np.array([1.0, 0.25]), method="LMM").rows()
    [{'method': 'LMM', 'step': 0, 'error': 1.0}, {'method': 'LMM', 'step': 1, 'error': 0.25}]
    """
    repeated = {name: np.full(len(error), label) for name, label in labels.items()}
    return Table({**repeated, "step": np.arange(len(error)), "error": error})


def seconds_per_step(result: lm.Result) -> float:
    """Mean time per step of a run, without compilation."""
    return result.seconds / max(int(result.steps), 1)


def steps_to(error: np.ndarray, accuracy: float) -> int | None:
    """The first step at which the error is at most ``accuracy``; None if there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from lemmax.experiments.harness import steps_to
    >>> steps_to(np.array([1.0, 0.1, 0.01]), 0.1)
    1
    """
    reached = np.flatnonzero(error <= accuracy)
    return int(reached[0]) if reached.size else None
