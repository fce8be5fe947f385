"""Pictures, drawn with matplotlib, which is imported only when one is asked for."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ._checks import check_kind
from .recovery import Recovery
from .solve import Comparison, Result
from .solve.compare import column_of

_LINE_STYLES = ("-", (0, (4, 2)), (0, (1, 1.2)), "-.")
# Runs whose costs differ by more than this would not be seen side by side on a linear axis.
_LOPSIDED = 20


def convergence(
    results: Result | Mapping[str, Result] | Sequence[Result],
    metric: str | None = None,
    ax: Any = None,
    title: str = "",
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
    title : str
        A run does not know the names of its method and problem; here they can be told.

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
    >>> lm.plots.convergence(result, title="LMM, target 0").get_yscale()
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
    ax = _figure((6, 4)).subplots() if own else ax
    _draw(ax, named, metric, _steps, "steps")
    if title:
        ax.set_title(title)
    if len(named) > 1:
        # Beside the curves; in somebody else's axes there may be no room for that.
        ax.legend(**(_OUTSIDE if own else {}))
    return ax


def compare(comparison: Comparison, metric: str | None = None, title: str | None = None) -> Any:
    """Draw a comparison thrice: against steps, passes over the measurements, and seconds.

    Single steps are not timed: the seconds of an iterate are the mean time of a step times the
    number of steps, compilation apart. Where one run is much longer than another the axis is
    logarithmic beyond its first part, which begins at 0.

    Parameters
    ----------
    comparison : Comparison
        From `lemmax.compare`.
    metric : str, optional
        A column of the traces' metrics; the objective value if not given.
    title : str, optional
        The problem's map and loss if not given.

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
    figure = _figure((14, 4))
    axes = figure.subplots(1, 3, sharey=True)
    costs = (
        ("steps", _steps),
        ("passes over the measurements", lambda result: result.trace.passes_to_reach),
        ("mean seconds per step × steps", _seconds),
    )
    for ax, (label, cost) in zip(axes, costs, strict=True):
        _draw(ax, comparison.results, metric, cost, label)
    # One axis label and one legend serve all three.
    for ax in axes[1:]:
        ax.set_ylabel("")
    axes[-1].legend(**_OUTSIDE)
    figure.suptitle(comparison.problem if title is None else title)
    return figure


def recovery(found: Recovery, title: str | None = None) -> Any:
    """Draw what tells the rank and the outliers: sizes of the terms, and sizes of the residuals.

    Parameters
    ----------
    found : Recovery
        From `lemmax.recover`.
    title : str, optional
        The verdict if not given.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> import lemmax as lm
    >>> rng = np.random.default_rng(0)
    >>> A, x = rng.standard_normal((60, 6, 6)), rng.standard_normal(6)
    >>> data = np.einsum("mij,i,j->m", A, x, x)
    >>> found = lm.recover(lm.operators.Dense(A), data, lm.maps.PSD(6, rank=2))
    >>> len(lm.plots.recovery(found).axes)
    2
    """
    check_kind("The first argument of plots.recovery", found, Recovery, "from lm.recover")
    figure = _figure((11, 4))
    left, right = figure.subplots(1, 2)
    _draw_terms(left, found)
    _draw_residuals(right, found)
    figure.suptitle(found.status.message.split(":")[0] if title is None else title)
    return figure


def _draw_terms(ax: Any, found: Recovery) -> None:
    if found.sizes is None or found.rank is None:
        ax.text(0.5, 0.5, "a map without terms", ha="center", transform=ax.transAxes)
        return
    number = np.arange(1, len(found.sizes) + 1)
    kept = number <= found.rank
    ax.semilogy(number[kept], found.sizes[kept], "o", color="C0", label="kept")
    if not np.all(kept):
        ax.semilogy(number[~kept], found.sizes[~kept], "x", color="C3", label="when cut off")
        ax.axvline(found.rank + 0.5, color="0.6", linewidth=1)
    ax.set_xlabel("term")
    ax.set_ylabel("size")
    ax.set_title(
        f"rank {found.rank}" + (f" of at most {found.rank_bound}" if found.rank_bound else "")
    )
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend()
    ax.grid(True, alpha=0.3)


def _draw_residuals(ax: Any, found: Recovery) -> None:
    """Sorted, on a logarithmic scale: the step between the right data and the wrong ones."""
    sizes = np.abs(found.residual)
    wrong = np.zeros(sizes.shape, bool)
    wrong[found.outliers] = True
    order = np.argsort(sizes, axis=None)
    sizes, wrong = sizes.ravel()[order], wrong.ravel()[order]
    # Residuals that are exactly zero have no place on the axis.
    floor = np.finfo(float).eps * max(float(sizes[-1]), np.finfo(float).tiny)
    number = np.arange(1, sizes.size + 1)
    for chosen, colour, label in ((~wrong, "C0", "right"), (wrong, "C3", "wrong")):
        if np.any(chosen):
            shown = np.maximum(sizes[chosen], floor)
            ax.semilogy(number[chosen], shown, ".", color=colour, label=label, rasterized=True)
    ax.set_xlabel("observations, sorted")
    ax.set_ylabel("size of the residual")
    ax.set_title(f"{found.outlier_count} of {found.observations} observations are wrong")
    ax.legend()
    ax.grid(True, alpha=0.3)


_OUTSIDE = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0.0}


def _steps(result: Result) -> np.ndarray:
    return np.arange(len(result.trace.value))


def _seconds(result: Result) -> np.ndarray:
    steps = _steps(result)
    return steps * result.seconds / max(len(steps) - 1, 1)


def _require_runs(results: Mapping[str, Result]) -> None:
    if not results:
        raise ValueError("There is nothing to draw: no method has run.")


def _figure(size: tuple[float, float]) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Pictures need the package matplotlib: pip install 'lemmax[plots]'."
        ) from error
    return Figure(figsize=size, layout="constrained")


def _colours(count: int) -> list[Any]:
    """As many different ones as asked for."""
    import matplotlib

    if count <= 10:
        return [f"C{k}" for k in range(count)]
    return list(matplotlib.colormaps["turbo"](np.linspace(0.03, 0.97, count)))


def _draw(
    ax: Any,
    results: Mapping[str, Result],
    metric: str | None,
    cost: Callable[[Result], np.ndarray],
    label: str,
) -> None:
    # Methods that agree draw over each other; different dashes keep both visible.
    looks = zip(_colours(len(results)), itertools.cycle(_LINE_STYLES), strict=False)
    costs = {}
    for (name, result), (colour, style) in zip(results.items(), looks, strict=False):
        column = column_of(result, metric)
        if column.ndim != 1:
            raise ValueError(
                "This is a batch of runs. Draw one of them: "
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
    """Compress the long end of the axis if a long run would squeeze a short one to the edge."""
    ends = [cost[-1] for cost in costs if cost[-1] > 0]
    if ends and max(ends) > _LOPSIDED * min(ends):
        ax.set_xscale("symlog", linthresh=min(ends))
        ax.set_xlim(0, 1.1 * max(ends))
