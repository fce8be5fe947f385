"""Plots of regressions: coefficients and residuals."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._axes import check_names, draw_cells, new_figure, number_or_name
from .answers import BULK, SHOWN, draw_terms


def regression(
    coefficients: Any,
    residuals: Any,
    columns: Sequence[str] | None = None,
    first: int = 0,
) -> Any:
    """Plot the coefficients and residuals of a regression with one or more right-hand sides.

    Parameters
    ----------
    coefficients : array of shape (columns,) or (columns, right-hand sides)
    residuals : array of shape (rows,) or (rows, right-hand sides)
        The right-hand sides minus their predictions.
    columns : sequence of str, optional
        Names of the columns.
    first : int
        The number of the first row, and of the first column if columns have no names.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> import lemmax as lm
    >>> figure = lm.plots.regression([0.5, 0.0], [0.1, -0.2, 0.1], columns=["sand", "grass"])
    >>> [ax.get_title() for ax in figure.axes]
    ['coefficients', 'residuals']
    """
    sides = [np.asarray(part, np.float64) for part in (coefficients, residuals)]
    sides = [part[:, None] if part.ndim == 1 else part for part in sides]
    if any(part.ndim != 2 for part in sides) or sides[0].shape[1] != sides[1].shape[1]:
        raise ValueError(
            "coefficients and residuals need a column for each right-hand side; got shapes "
            f"{sides[0].shape} and {sides[1].shape}."
        )
    check_names(columns, len(sides[0]), "coefficients")
    figure = new_figure((11, 4))
    axes = figure.subplots(1, 2)
    draw = _draw_as_colours if sides[0].shape[1] > SHOWN else _draw_as_dots
    for ax, part, names, title in zip(
        axes, sides, (columns, None), ("coefficients", "residuals"), strict=True
    ):
        draw(figure, ax, part, names, first)
        ax.set_title(title)
    axes[0].set_xlabel("column")
    axes[1].set_xlabel("row")
    if 1 < sides[0].shape[1] <= SHOWN:
        axes[1].legend(title="right-hand side", loc="upper left", bbox_to_anchor=(1.02, 1.0))
    return figure


def _draw_as_dots(
    figure: Any, ax: Any, values: np.ndarray, names: Sequence[str] | None, first: int
) -> None:
    draw_terms(ax, values, names, first, joined=False)


def _draw_as_colours(
    figure: Any, ax: Any, values: np.ndarray, names: Sequence[str] | None, first: int
) -> None:
    """Draw right-hand sides as rows of an image, if they are too many for separate colours."""
    length, count = values.shape
    size = float(np.percentile(np.abs(values), BULK[1])) or 1.0
    low = -size if np.any(values < 0) else 0.0
    cmap = "RdBu_r" if low else "viridis"
    image = draw_cells(ax, values.T, first, vmin=low, vmax=size, cmap=cmap)
    figure.colorbar(image, ax=ax, extend="both" if low else "max")
    number_or_name(ax.xaxis, length, names, first)
    number_or_name(ax.yaxis, count, None, first)
    ax.set_ylabel("right-hand side")
