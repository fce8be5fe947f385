"""Several methods on the same problem, from the same start, in the same loop."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpy as np

from .._typing import Parameters
from ..methods import AbstractMethod
from ..problem import Composite
from ..status import Status
from .api import solve
from .result import Result


class Comparison(eqx.Module):
    """Runs of several methods, and the reasons of those that refused."""

    results: dict[str, Result]
    refused: dict[str, str] = eqx.field(static=True)
    """Methods outside their scope, with the sentence they refused with."""

    def table(self, metric: str | None = None, accuracy: float = 1e-10) -> list[dict[str, Any]]:
        """One row per method, as plain numbers: what was reached and what it took.

        Parameters
        ----------
        metric : str, optional
            A column of the trace's metrics; the objective value if not given.
        accuracy : float
            Steps, passes over the measurements and seconds are counted until this is reached;
            None where it is not.
        """
        return [_row(name, result, metric, accuracy) for name, result in self.results.items()]

    def __str__(self) -> str:
        lines = [f"{'method':24} {'status':16} {'steps':>6} {'passes':>7} {'seconds':>8}  value"]
        for row in self.table():
            lines.append(
                f"{row['method']:24} {row['status']:16} {row['steps']:6d} {row['passes']:7d} "
                f"{row['seconds']:8.3f}  {row['best']:.3e}"
            )
        lines += [f"{name:24} refused: {why}" for name, why in self.refused.items()]
        return "\n".join(lines)


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
        What to minimise.
    methods : dict of AbstractMethod
        By name. One outside its scope is left out, and its reason kept.
    x0 : array or pytree of arrays
        Where all of them start.
    **options
        As for `solve`.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> problem = lm.Composite(lm.losses.L2(), lm.maps.Square(2), data=jnp.array([1.0, 4.0]))
    >>> methods = {"LMM": lm.methods.lmm(), "PrecGD": lm.methods.prec_gd()}
    >>> comparison = lm.compare(problem, methods, jnp.array([1.5, 1.5]))
    >>> comparison.table()[0]["status"], comparison.refused["PrecGD"][:31]
    ('TARGET_REACHED', 'PrecGD is for maps of type PSD,')
    """
    results, refused = {}, {}
    for name, method in methods.items():
        try:
            method.scope.check(problem)
        except ValueError as error:
            refused[name] = str(error)
            continue
        results[name] = solve(problem, method, x0, **options)
    return Comparison(results, refused)


def _row(name: str, result: Result, metric: str | None, accuracy: float) -> dict[str, Any]:
    column = result.trace.value if metric is None else result.trace.metrics[metric]
    column, passes = np.asarray(column), result.trace.passes_to_reach
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
