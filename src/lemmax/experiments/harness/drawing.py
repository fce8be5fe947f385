"""Plots in the style of the paper: relative error against iterations, one colour per method."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .table import Table

# The range of the paper's plots; errors outside of it are drawn on the edge.
ERROR_RANGE = (1e-13, 1e3)

# Colours of the methods, the same in all plots, suitable for the colour-blind.
_COLOURS = {
    "LMM": "#0072b2",
    "Gauss-Newton": "#d55e00",
    "subgradient": "#009e73",
    "gradient descent": "#009e73",
    "PrecGD": "#cc79a7",
    "ScaledGD(λ)": "#e69f00",
    "OPSA": "#56b4e9",
}
_SPARE_COLOURS = ("#332288", "#999933", "#882255", "#666666")
_LINES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))


def panels(rows: int, columns: int, *, width: float = 5.2, height: float = 3.9) -> tuple[Any, Any]:
    """A matplotlib Figure and a rows-by-columns array of its axes; sizes in inches per panel."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def colour(method: str) -> str:
    """The colour of a method, the same in every plot."""
    if method in _COLOURS:
        return _COLOURS[method]
    # A fixed rule; Python's hash differs from run to run.
    return _SPARE_COLOURS[sum(method.encode()) % len(_SPARE_COLOURS)]


def line_style(k: int) -> Any:
    """The k-th line style."""
    return _LINES[k % len(_LINES)]


def draw_curves(
    ax: Any,
    table: Table,
    *,
    styled_by: Sequence[str] = (),
    symbols: Mapping[str, str] = {},
    legend: str | None = "best",
    error_range: tuple[float, float] = ERROR_RANGE,
) -> None:
    """Draw ``error`` against ``step``: methods by colour, other settings by line style.

    Parameters
    ----------
    ax : matplotlib Axes
        The axes to draw in.
    table : Table
        With columns ``method``, ``step``, ``error`` and those of ``styled_by``.
    styled_by : sequence of str
        Columns whose combinations get a line style each. If empty, every method gets its own, so
        that coinciding curves stay visible.
    symbols : dict
        Legend names of the columns in ``styled_by``: ``{"rank": "r ="}``.
    legend : str, optional
        Position of the legend, with a line for each method and each line style. None: no legend.
    error_range : pair of float
        Errors outside are drawn on the edge; nonfinite ones on the upper edge.
    """
    low, high = error_range
    styles = _styles(table, styled_by)
    for key, rows in table.groups("method", *styled_by):
        error = rows.column("error")
        shown = np.clip(np.where(np.isfinite(error), error, high), low, high)
        style = styles[key[1:] or key]
        ax.semilogy(rows.column("step"), shown, color=colour(key[0]), linestyle=style, lw=1.8)
    ax.set_ylim(low / 2, high * 2)
    ax.set_xlabel("iteration")
    ax.set_ylabel(f"relative error, drawn from {low:g} to {high:g}")
    ax.grid(True, which="major", alpha=0.3)
    if legend is not None:
        lines = _handles(table, styled_by, symbols)
        ax.legend(handles=lines, fontsize="small", loc=legend, handlelength=2.8)


def legend_beside(
    figure: Any,
    table: Table,
    *,
    styled_by: Sequence[str] = (),
    symbols: Mapping[str, str] = {},
) -> None:
    """One legend for all panels, beside them; see `draw_curves`."""
    lines = _handles(table, styled_by, symbols)
    figure.legend(handles=lines, fontsize="small", loc="outside right upper", handlelength=2.8)


def _styles(table: Table, styled_by: Sequence[str]) -> dict[tuple[Any, ...], Any]:
    """A line style for each setting, or for each method if there are no settings."""
    keys = [key for key, _ in table.groups(*(styled_by or ["method"]))]
    return {key: line_style(k) for k, key in enumerate(keys)}


def _handles(table: Table, styled_by: Sequence[str], symbols: Mapping[str, str]) -> list[Any]:
    from matplotlib.lines import Line2D

    styles = _styles(table, styled_by)
    lines = [
        # Without other settings, line styles belong to the methods.
        Line2D([], [], color=colour(m), linestyle=styles.get((m,), "-"), lw=2.2, label=m)
        for m in table.unique("method")
    ]
    if styled_by:
        for setting, style in styles.items():
            named = zip(styled_by, setting, strict=True)
            label = ", ".join(f"{symbols.get(name, name)} {_shown(entry)}" for name, entry in named)
            lines.append(Line2D([], [], color="0.3", linestyle=style, label=label))
    return lines


def _shown(entry: Any) -> str:
    return f"{entry:g}" if isinstance(entry, float) else str(entry)
