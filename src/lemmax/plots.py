"""Pictures, drawn with matplotlib, which is imported only when one is asked for."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .solve import Comparison, Result

_LINE_STYLES = ("-", (0, (4, 2)), (0, (1, 1.2)), "-.")


def convergence(
    results: Result | Mapping[str, Result] | Sequence[Result],
    metric: str | None = None,
    ax: Any = None,
) -> Any:
    """Draw the value, or a metric, of one or several runs against the steps.

    Parameters
    ----------
    results : Result, dict or sequence of Result
        One run, or several, by name if they have one.
    metric : str, optional
        A column of ``result.trace.metrics``; the objective value if not given.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib Axes
        Of a figure that pyplot does not know: ``ax.figure.savefig(...)``, or give an ``ax``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> problem = lm.Composite(lm.losses.L2(), lm.maps.Square(1), data=jnp.array([4.0]))
    >>> result = lm.solve(problem, lm.methods.lmm(), jnp.array([1.0]))
    >>> lm.plots.convergence(result).get_yscale()
    'log'
    """
    if isinstance(results, Result):
        results = {"": results}
    named = (
        results
        if isinstance(results, Mapping)
        else {str(k): result for k, result in enumerate(results)}
    )
    ax = _figure((6, 4)).subplots() if ax is None else ax
    _draw(ax, named, metric, lambda result: np.arange(len(result.trace.value)), "steps")
    return ax


def compare(comparison: Comparison, metric: str | None = None) -> Any:
    """Draw a comparison thrice: against steps, passes over the measurements, and seconds.

    Parameters
    ----------
    comparison : Comparison
        From `lemmax.compare`.
    metric : str, optional
        A column of the traces' metrics; the objective value if not given.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> problem = lm.Composite(lm.losses.L2(), lm.maps.Square(1), data=jnp.array([4.0]))
    >>> comparison = lm.compare(problem, {"LMM": lm.methods.lmm()}, jnp.array([1.0]))
    >>> len(lm.plots.compare(comparison).axes)
    3
    """
    figure = _figure((13, 4))
    axes = figure.subplots(1, 3, sharey=True)
    costs = (
        ("steps", lambda result: np.arange(len(result.trace.value))),
        ("passes over the measurements", lambda result: result.trace.passes_to_reach),
        ("seconds, compilation apart", _seconds),
    )
    for ax, (label, cost) in zip(axes, costs, strict=True):
        _draw(ax, comparison.results, metric, cost, label)
    # One legend and one axis label serve all three.
    for ax in axes[1:]:
        ax.set_ylabel("")
        if ax.get_legend() is not None:
            ax.get_legend().remove()
    axes[2].set_xscale("log")
    return figure


def _seconds(result: Result) -> np.ndarray:
    """When each iterate was reached: all steps of a method take the same time."""
    rows = len(result.trace.value)
    return np.arange(1, rows + 1) * result.seconds / rows


def _figure(size: tuple[float, float]) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Pictures need the package matplotlib: pip install 'lemmax[plots]'."
        ) from error
    return Figure(figsize=size, layout="constrained")


def _draw(
    ax: Any,
    results: Mapping[str, Result],
    metric: str | None,
    cost: Callable[[Result], np.ndarray],
    label: str,
) -> None:
    # Methods that agree draw over each other; different dashes keep both visible.
    for (name, result), style in zip(results.items(), itertools.cycle(_LINE_STYLES), strict=False):
        known = result.trace.metrics
        if metric is not None and metric not in known:
            raise KeyError(f"No metric called {metric!r} in the trace; there are {sorted(known)}.")
        column = np.asarray(result.trace.value if metric is None else known[metric])
        if column.ndim != 1:
            raise ValueError(
                "This is a batch of runs. Draw one of them: "
                "jax.tree.map(lambda leaf: leaf[i], result)."
            )
        shown = np.where(np.isfinite(column) & (column > 0), column, np.nan)
        ax.semilogy(cost(result), shown, label=name, linewidth=2, linestyle=style)
    ax.set_xlabel(label)
    ax.set_ylabel("objective value" if metric is None else metric)
    ax.grid(True, which="major", alpha=0.3)
    if len(results) > 1:
        ax.legend()
