"""Several methods on the same problem, from the same start, in the same loop."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import numpy as np

from .._checks import check_kind, describe
from .._typing import Parameters
from ..methods import AbstractMethod
from ..problem import Composite
from ..status import SolveError, Status
from .api import Snapshot, solve
from .result import Result


class Comparison(eqx.Module):
    """Results of several methods on one problem; printed as a table."""

    results: dict[str, Result]
    refused: dict[str, str] = eqx.field(static=True)
    """Methods that refused the problem (scope or memory), with their messages."""
    problem: str = eqx.field(static=True, default="")
    """Map and loss of the problem, for display."""
    interrupted: bool = eqx.field(static=True, default=False)
    """Whether Ctrl-C ended the comparison."""
    not_run: tuple[str, ...] = eqx.field(static=True, default=())
    """Methods that had not run when Ctrl-C was pressed."""

    def table(self, metric: str | None = None, accuracy: float = 1e-10) -> list[dict[str, Any]]:
        """One row per method: final values and costs, as plain numbers.

        Parameters
        ----------
        metric : str, optional
            A metric of the trace. Default: the objective value.
        accuracy : float
            Steps, passes over the measurements and seconds are counted until this accuracy is
            reached; None if it is not. ``seconds_to_accuracy`` is the mean time per step, without
            compilation, times the number of steps.

        Returns
        -------
        list of dict
            One dict per method.
        """
        return [_row(name, result, metric, accuracy) for name, result in self.results.items()]

    def __str__(self) -> str:
        lines = [
            f"{'method':24} {'status':16} {'steps':>6} {'passes':>7} {'seconds':>8}  best value"
        ]
        for row in self.table():
            lines.append(
                f"{row['method']:24} {row['status']:16} {row['steps']:6d} {row['passes']:7d} "
                f"{row['seconds']:8.3f}  {row['best']:.3e}"
            )
        lines += [f"{name:24} refused: {why}" for name, why in self.refused.items()]
        lines += [f"{name:24} not run: interrupted" for name in self.not_run]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


class ComparisonError(SolveError):
    """Raised by ``compare(..., throw=True)`` if a run fails.

    ``method`` is the name of the method, ``result`` its result, and ``comparison`` contains it
    and the runs before it.
    """

    def __init__(self, method: str, error: SolveError, comparison: Comparison):
        super().__init__(error.status, error.result)
        self.args = (f"{method}: {error}",)
        self.method = method
        self.comparison = comparison


def compare(
    problem: Composite,
    methods: Mapping[str, AbstractMethod],
    x0: Parameters,
    **options: Any,
) -> Comparison:
    """Run several methods on one problem.

    Parameters
    ----------
    problem : Composite
        The problem to minimise.
    methods : dict of AbstractMethod
        The methods by name. Methods that refuse the problem, because of their scope or the
        memory they need, are skipped; the reasons are recorded.
    x0 : array or pytree of arrays
        The common starting point.
    **options
        As for `solve`. With ``throw=True`` a `ComparisonError` is raised: a `SolveError` with the
        name of the ``method`` and a ``comparison`` of the runs so far.

    Returns
    -------
    Comparison
        The results. Ctrl-C ends the comparison and returns the results so far; a callback that
        returns True only ends its own run.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> problem = lm.Composite(lm.losses.L2(), lm.maps.Square(2), data=jnp.array([1.0, 4.0]))
    >>> methods = {"LMM": lm.methods.lmm(), "PrecGD": lm.methods.prec_gd()}
    >>> comparison = lm.compare(problem, methods, jnp.array([1.5, 1.5]))
    >>> comparison.table()[0]["status"], comparison.refused["PrecGD"][:31]
    ('TARGET_REACHED', 'PrecGD needs a map of type PSD,')
    """
    _check_arguments(problem, methods, options)
    results, refused, waiting = {}, {}, list(methods)

    def so_far(interrupted: bool = False) -> Comparison:
        return Comparison(
            dict(results), dict(refused), _in_words(problem), interrupted, tuple(waiting)
        )

    while waiting:
        name = waiting[0]
        stop = _Remembered(options.get("callback"))
        watched = options if stop.callback is None else {**options, "callback": stop}
        try:
            methods[name].scope.check(problem)
        except ValueError as error:
            refused[waiting.pop(0)] = str(error)
            continue
        try:
            results[name] = solve(problem, methods[name], x0, **watched)
        except MemoryError as error:
            refused[name] = str(error)
        except SolveError as error:
            results[waiting.pop(0)] = error.result
            raise ComparisonError(name, error, so_far()) from error
        except KeyboardInterrupt:  # before the run began, during compilation
            return so_far(interrupted=True)
        waiting.pop(0)
        ended = results[name].status if name in results else None
        if ended is Status.INTERRUPTED and not stop.asked:
            return so_far(interrupted=True)
    return so_far()


class _Remembered:
    """A callback that records whether it asked to stop, to tell this from Ctrl-C."""

    def __init__(self, callback: Callable[[Snapshot], Any] | None):
        self.callback = callback
        self.asked = False

    def __call__(self, snapshot: Snapshot) -> bool:
        answer = self.callback(snapshot) if self.callback is not None else None
        self.asked = answer is not None and bool(answer)
        return self.asked


def _check_arguments(problem: Any, methods: Any, options: dict[str, Any]) -> None:
    """Raise an error for arguments of the wrong type."""
    check_kind("The first argument of compare", problem, Composite, "a Composite problem")
    example = 'such as {"LMM": lm.methods.lmm()}'
    check_kind("The second argument of compare", methods, Mapping, f"a dict of methods, {example}")
    if not methods:
        raise ValueError(f"There is nothing to compare: pass a dict of methods, {example}.")
    for name, method in methods.items():
        check_kind(f"The name {name!r} of a method", name, str, "text")
        what = "a method such as lm.methods.lmm()"
        check_kind(f"The method {name!r}", method, AbstractMethod, what)
    metrics = options.get("metrics")
    for name, metric in metrics.items() if isinstance(metrics, Mapping) else ():
        if not callable(metric):
            raise TypeError(
                f"The metric {name!r} must be a function metric(x, evaluation); "
                f"got {describe(metric)}."
            )


def _in_words(problem: Composite) -> str:
    """The map with its sizes, and the loss."""
    sizes = ", ".join(
        f"{field.name} {value}"
        for field in dataclasses.fields(problem.map)
        if isinstance(value := getattr(problem.map, field.name), (int, tuple))
    )
    return ", ".join(filter(None, (type(problem.map).__name__, sizes, type(problem.loss).__name__)))


def column_of(result: Result, metric: str | None) -> np.ndarray:
    """The objective value, or a metric, of every iterate."""
    known = result.trace.metrics
    if metric is not None and metric not in known:
        raise KeyError(f"The trace has no metric {metric!r}; there are {sorted(known)}.")
    return np.asarray(result.trace.value if metric is None else known[metric])


def _row(name: str, result: Result, metric: str | None, accuracy: float) -> dict[str, Any]:
    column, passes = column_of(result, metric), result.trace.passes_to_reach
    hits = np.flatnonzero(column <= accuracy)
    steps = int(result.steps)
    per_step = result.seconds / max(steps, 1)
    reached = int(hits[0]) if hits.size else None
    return {
        "method": name,
        "status": Status(int(result.code)).name,
        "steps": steps,
        "passes": int(passes[-1]),
        "seconds": result.seconds,
        "compile_seconds": result.compile_seconds,
        "best": float(np.nanmin(column)),
        "last": float(column[-1]),
        "steps_to_accuracy": reached,
        "passes_to_accuracy": None if reached is None else int(passes[reached]),
        "seconds_to_accuracy": None if reached is None else per_step * reached,
    }
