"""Plots of runs: convergence against cost."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._checks import check_kind
from ..solve import Comparison, Result
from ..solve.compare import column_of
from ._axes import colours, new_figure

_LINE_STYLES = ("-", (0, (4, 2)), (0, (1, 1.2)), "-.")
# If costs differ by more than this factor, the axis is not linear.
_LOPSIDED = 20


def convergence(
    results: Result | Mapping[str, Result] | Sequence[Result],
    metric: str | None = None,
    ax: Any = None,
    title: str = "",
) -> Any:
    """Plot the objective value, or a metric, of one or several runs against the steps.

    Parameters
    ----------
    results : Result, dict or sequence of Result
        One run, or several; a dict gives their names.
    metric : str, optional
        A metric of ``result.trace.metrics``. Default: the objective value.
    ax : matplotlib Axes, optional
        The axes to draw in. Default: a new figure.
    title : str
        Title of the plot.

    Returns
    -------
    matplotlib Figure
        A new figure that is not registered with pyplot, or that of ``ax``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> problem = lm.Composite(lm.losses.L2(), lm.maps.Square(1), data=jnp.array([4.0]))
    >>> result = lm.solve(problem, lm.methods.lmm(), jnp.array([1.0]))
    >>> figure = lm.plots.convergence(result, title="LMM, target 0")
    >>> figure.axes[0].get_yscale()
    'log'
    """
    if isinstance(results, Result):
        results = {"": results}
    named = (
        results
        if isinstance(results, Mapping)
        else {str(k): result for k, result in enumerate(results)}
    )
    _require_runs(named)
    own = ax is None
    ax = new_figure((6, 4)).subplots() if own else ax
    _draw(ax, named, metric, _steps, "steps")
    if title:
        ax.set_title(title)
    if len(named) > 1:
        # Outside of the plot; in the caller's axes there may be no room for that.
        ax.legend(**(_OUTSIDE if own else {}))
    return ax.figure


def compare(comparison: Comparison, metric: str | None = None, title: str | None = None) -> Any:
    """Plot a comparison against steps, passes over the measurements, and seconds.

    Single steps are not timed: the seconds of an iterate are the mean time per step, without
    compilation, times the number of steps. If the costs of runs differ a lot, the axis is linear
    near 0 and logarithmic beyond.

    Parameters
    ----------
    comparison : Comparison
        The result of `lemmax.compare`.
    metric : str, optional
        A metric of the traces. Default: the objective value.
    title : str, optional
        Default: the problem's map and loss.

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
    check_kind("The first argument of plots.compare", comparison, Comparison, "from lm.compare")
    _require_runs(comparison.results)
    figure = new_figure((14, 4))
    axes = figure.subplots(1, 3, sharey=True)
    costs = (
        ("steps", _steps),
        ("passes over the measurements", lambda result: result.trace.passes_to_reach),
        ("mean seconds per step × steps", _seconds),
    )
    for ax, (label, cost) in zip(axes, costs, strict=True):
        _draw(ax, comparison.results, metric, cost, label)
    # All three share one axis label and one legend.
    for ax in axes[1:]:
        ax.set_ylabel("")
    axes[-1].legend(**_OUTSIDE)
    figure.suptitle(comparison.problem if title is None else title)
    return figure


_OUTSIDE = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0.0}


def _steps(result: Result) -> np.ndarray:
    return np.arange(len(result.trace.value))


def _seconds(result: Result) -> np.ndarray:
    steps = _steps(result)
    return steps * result.seconds / max(len(steps) - 1, 1)


def _require_runs(results: Mapping[str, Result]) -> None:
    if not results:
        raise ValueError("There is nothing to plot: no method has run.")


def _draw(
    ax: Any,
    results: Mapping[str, Result],
    metric: str | None,
    cost: Callable[[Result], np.ndarray],
    label: str,
) -> None:
    # Different line styles keep coinciding curves visible.
    looks = zip(colours(len(results)), itertools.cycle(_LINE_STYLES), strict=False)
    costs = {}
    for (name, result), (colour, style) in zip(results.items(), looks, strict=False):
        column = column_of(result, metric)
        if column.ndim != 1:
            raise ValueError(
                "This is a batch of runs. Plot one of them: "
                "jax.tree.map(lambda leaf: leaf[i], result)."
            )
        costs[name] = cost(result)
        shown = np.where(np.isfinite(column) & (column > 0), column, np.nan)
        look = {"linewidth": 2, "linestyle": style, "color": colour}
        ax.semilogy(costs[name], shown, label=name, **look)
    _show_short_runs(ax, list(costs.values()))
    ax.set_xlabel(label)
    ax.set_ylabel("objective value" if metric is None else metric)
    ax.grid(True, which="major", alpha=0.3)


def _show_short_runs(ax: Any, costs: list[np.ndarray]) -> None:
    """Compress the end of the axis if a long run would squeeze a short one to the edge."""
    ends = [cost[-1] for cost in costs if cost[-1] > 0]
    if ends and max(ends) > _LOPSIDED * min(ends):
        ax.set_xscale("symlog", linthresh=min(ends))
        ax.set_xlim(0, 1.1 * max(ends))
