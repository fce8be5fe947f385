"""Pictures, drawn with matplotlib, which is imported only when one is asked for."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from .solve import Result

_LINE_STYLES = ("-", (0, (4, 2)), (0, (1, 1.2)), "-.")


def convergence(
    results: Result | Mapping[str, Result], metric: str | None = None, ax: Any = None
) -> Any:
    """Draw the value, or a metric, of one or several runs against the steps.

    Parameters
    ----------
    results : Result or dict of Result
        One run, or several by name.
    metric : str, optional
        A column of ``result.trace.metrics``; the objective value if not given.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> problem = lm.Composite(lm.losses.L2(), lm.maps.Square(1), data=jnp.array([4.0]))
    >>> result = lm.solve(problem, lm.methods.lmm(), jnp.array([1.0]))
    >>> lm.plots.convergence(result).get_yscale()
    'log'
    """
    if ax is None:
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError(
                "Pictures need the package matplotlib: pip install 'lemmax[plots]'."
            ) from error
        ax = Figure(figsize=(6, 4), layout="constrained").subplots()
    named = {"": results} if isinstance(results, Result) else results
    # Methods that agree draw over each other; different dashes keep both visible.
    for (name, result), style in zip(named.items(), itertools.cycle(_LINE_STYLES), strict=False):
        column = result.trace.value if metric is None else result.trace.metrics[metric]
        column = np.asarray(column)
        steps = np.arange(len(column))
        shown = np.where(np.isfinite(column) & (column > 0), column, np.nan)
        ax.semilogy(steps, shown, label=name, linewidth=2, linestyle=style)
    ax.set_xlabel("steps")
    ax.set_ylabel("objective value" if metric is None else metric)
    ax.grid(True, which="major", alpha=0.3)
    if len(named) > 1:
        ax.legend()
    return ax
