"""Pictures in the paper's manner: relative error against iterations, a colour per method."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .table import Table

# The paper's curves are cut here; an error above or below is drawn on the edge of the picture.
ERROR_RANGE = (1e-13, 1e3)

# A colour for each method, the same in all pictures, told apart also by the colour-blind.
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
    """Of a method; the same one in every picture."""
    if method in _COLOURS:
        return _COLOURS[method]
    # Any fixed rule will do; Python's own hash differs from run to run.
    return _SPARE_COLOURS[sum(method.encode()) % len(_SPARE_COLOURS)]


def line_style(k: int) -> Any:
    """The k-th way of dashing a line."""
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
    """Draw ``error`` against ``step``: colours tell methods, dashes the other settings.

    Parameters
    ----------
    ax : matplotlib Axes
        Where to draw.
    table : Table
        With columns ``method``, ``step``, ``error`` and those of ``styled_by``.
    styled_by : sequence of str
        Columns of which each combination gets a dashing of its own. If there are none, every
        method does, so that one remains visible below another.
    symbols : dict
        What the legend calls a column of ``styled_by``, if not by its name: ``{"rank": "r ="}``.
    legend : str, optional
        Where matplotlib puts it: a line for each method, and one for each dashing. None: nowhere.
    error_range : pair of float
        Errors beyond are drawn on the edge; what is not finite counts as beyond the upper one.
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
    """One legend for all panels, beside them, where it covers no curve; see `draw_curves`."""
    lines = _handles(table, styled_by, symbols)
    figure.legend(handles=lines, fontsize="small", loc="outside right upper", handlelength=2.8)


def _styles(table: Table, styled_by: Sequence[str]) -> dict[tuple[Any, ...], Any]:
    """A dashing for each setting, or for each method if there are no settings."""
    keys = [key for key, _ in table.groups(*(styled_by or ["method"]))]
    return {key: line_style(k) for k, key in enumerate(keys)}


def _handles(table: Table, styled_by: Sequence[str], symbols: Mapping[str, str]) -> list[Any]:
    from matplotlib.lines import Line2D

    styles = _styles(table, styled_by)
    lines = [
        # Without other settings the styles are those of the methods, by name.
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
