"""Runs that share their measurements, in one program."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import lemmax as lm

from .drawing import ERROR_RANGE
from .experiment import Watch
from .runs import ERROR


class Lane(NamedTuple):
    """A method on an instance, and the labels of its rows in the table."""

    labels: dict[str, Any]
    instance: Any
    """With ``problem``, ``x0`` and the metric ``error``."""
    method: lm.methods.AbstractMethod


def run_together(
    watch: Watch,
    lanes: Sequence[Lane],
    max_steps: int,
    *,
    every: int = 25,
    stop: Callable[[lm.BatchSnapshot], np.ndarray] | None = None,
) -> list[lm.Result]:
    """Solve all, until the error leaves the plotted range or ``stop`` ends a run.

    Parameters
    ----------
    watch : callable
        Progress function, in steps.
    lanes : sequence of Lane
        The runs; arrays that are the same object are shared.
    max_steps : int
        Maximum number of steps of a lane.
    every : int
        Steps between two checks for finished lanes.
    stop : callable, optional
        A further stopping test, one boolean per active lane.
    """

    def callback(snapshot: lm.BatchSnapshot) -> np.ndarray:
        rows = snapshot.trace.value.shape[1]
        watch(min(rows, max_steps), max_steps)
        latest = np.asarray(snapshot.trace.metrics[ERROR])[:, -1]
        done = ~((latest > ERROR_RANGE[0]) & (latest < ERROR_RANGE[1]))
        return done if stop is None else done | stop(snapshot)

    runs = [
        lm.Run(x.instance.problem, x.method, x.instance.x0, {ERROR: x.instance.error})
        for x in lanes
    ]
    return lm.solve_many(runs, max_steps=max_steps, tol=0.0, callback=callback, every=every)


def out_of_reach(
    accuracy: float, decay: Sequence[float]
) -> Callable[[lm.BatchSnapshot], np.ndarray]:
    """Stop a lane with geometric steps that has reached the accuracy, or no longer can.

    All its further steps together are at most ``latest / (1 - decay)`` long, relative to x, and a
    point moves by about twice as much relative to itself. The test uses ten times that.
    """
    slowness = 1.0 / (1.0 - np.asarray(decay))

    def stop(snapshot: lm.BatchSnapshot) -> np.ndarray:
        error = np.asarray(snapshot.trace.metrics[ERROR])[:, -1]
        reach = 20 * np.asarray(snapshot.trace.movement)[:, -1] * slowness[snapshot.running]
        return (error <= accuracy) | (reach < error - accuracy)

    return stop


def measured_array(instance: Any) -> np.ndarray:
    """The stored measurements of a dense operator, one row each, without a copy."""
    operator = instance.problem.operator
    symmetric = isinstance(operator, lm.operators.SymmetricDense)
    return np.asarray(operator.packed if symmetric else operator.matrix)
