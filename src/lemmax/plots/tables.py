"""Plots of tables: residuals, predictions, components."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._axes import check_names, check_tables, draw_cells, new_figure, number_or_name

# Most lines of a residual map, and most dots per line; with more rows, rows share a line.
_LINES, _DOTS = 360, 960
# Standard errors at the end of the colour scale for inliers.
_LARGE = 4.0
_TOO_SMALL, _TOO_LARGE, _HOLE = "#08306b", "#a50f15", "0.72"
# Number of cells drawn with intervals; more would hide each other.
_DRAWN = 300
# Normal quantile of a 90 % interval.
_QUANTILE = 1.6448536269514722
# Numbers are written into maps with at most this many cells.
_WRITTEN = 150


def residual_map(
    residuals: Any,
    wrong: Any = None,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    first: int = 0,
) -> Any:
    """Plot the residual of every cell of a table, in units of its standard error.

    In a table with many rows, several rows share a line, from left to right within every column.
    With very many rows, the largest residual of a few rows is drawn, outliers before inliers.

    Parameters
    ----------
    residuals : array of shape (rows, columns)
        In standard errors; NaN marks missing cells, drawn grey.
    wrong : array of bool of the same shape, optional
        Which cells are outliers.
    rows, columns : sequence of str, optional
        Names of rows and columns.
    first : int
        The number of the first row and column, if they have no names.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> import lemmax as lm
    >>> residuals = np.random.default_rng(0).standard_normal((40, 5))
    >>> residuals[3, 2] = 30.0
    >>> residuals[7, 1] = np.nan
    >>> figure = lm.plots.residual_map(residuals, np.abs(residuals) > 5)
    >>> figure.axes[1].get_title()
    '1 of 199 cells are outliers, 1 is missing'
    """
    residuals = np.asarray(residuals, np.float64)
    wrong = np.zeros(residuals.shape, bool) if wrong is None else np.asarray(wrong, bool)
    check_tables((residuals, wrong), rows, columns)
    height, width = residuals.shape
    step = -(-height // _LINES)
    extremes, bad = _in_lines(residuals, wrong, step)
    figure = new_figure((min(12.0, 5.5 + 0.28 * width), 4.0 + 3.5 * min(1.0, height / 150)))
    shares, ax = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": (1, 6)})
    _draw_shares(shares, residuals, wrong, first)
    ax.set_facecolor(_HOLE)
    right, sign = np.where(bad, np.nan, extremes), np.where(bad, np.sign(extremes), np.nan)
    span = (len(extremes) * step, width)
    image = draw_cells(ax, right, first, span, vmin=-_LARGE, vmax=_LARGE, cmap=_pale())
    draw_cells(ax, sign, first, span, vmin=-1, vmax=1, cmap=_strong())
    figure.colorbar(image, ax=ax, extend="both", label="residual, in standard errors")
    ax.set_ylabel("row" if step == 1 else f"row ({step} in a line, from left to right)")
    ax.set_ylim(first + height - 0.5, first - 0.5)
    if step > 1:
        for edge in range(first + 1, first + width):
            ax.axvline(edge - 0.5, color="white", linewidth=1.5)
    known, holes = int(np.sum(~np.isnan(residuals))), int(np.sum(np.isnan(residuals)))
    are = "is" if holes == 1 else "are"
    ax.set_title(f"{int(wrong.sum())} of {known} cells are outliers, {holes} {are} missing")
    number_or_name(ax.xaxis, width, columns, first)
    number_or_name(ax.yaxis, height, rows, first)
    _legend(figure)
    return figure


def _in_lines(residuals: np.ndarray, wrong: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Cells as they are drawn: this many rows per line, side by side within every column."""
    if step == 1:
        return residuals, wrong
    width = residuals.shape[1]
    group = -(-step // min(step, max(1, _DOTS // width)))
    # As few as possible for all rows: the rest would look like missing cells.
    beside = -(-step // group)
    lines = -(-len(residuals) // step)
    # The last line may be short, and so may the last group of every line.
    values = np.full((lines * step, width), np.nan)
    bad = np.zeros(values.shape, bool)
    values[: len(residuals)], bad[: len(residuals)] = residuals, wrong
    more = ((0, 0), (0, beside * group - step), (0, 0))
    values = np.pad(values.reshape(lines, step, width), more, constant_values=np.nan)
    bad = np.pad(bad.reshape(lines, step, width), more)
    shape = (lines, beside, group, width)
    values, bad = values.reshape(shape), bad.reshape(shape)
    size = np.where(np.isnan(values), -1.0, np.abs(values))
    limit = float(np.max(size)) + 1.0
    place = np.argmax(size + limit * bad, axis=2)[:, :, None]
    chosen = np.take_along_axis(values, place, axis=2)[:, :, 0]
    return _beside(chosen), _beside(np.any(bad, axis=2))


def _beside(cells: np.ndarray) -> np.ndarray:
    """Reorder (line, place, column) so that the places of a column are adjacent in its line."""
    return np.swapaxes(cells, 1, 2).reshape(len(cells), -1)


def _draw_shares(ax: Any, residuals: np.ndarray, wrong: np.ndarray, first: int) -> None:
    """Draw the shares of outliers and missing cells of each column."""
    places = np.arange(first, first + residuals.shape[1])
    bad, holes = 100 * wrong.mean(axis=0), 100 * np.isnan(residuals).mean(axis=0)
    ax.bar(places, bad, color=_TOO_LARGE, width=0.8)
    ax.bar(places, holes, bottom=bad, color=_HOLE, width=0.8)
    ax.set_ylabel("% of\ncolumn")
    ax.set_ylim(0, max(1.0, 1.1 * float(np.max(bad + holes, initial=0.0))))
    ax.tick_params(labelbottom=False)
    ax.grid(True, axis="y", alpha=0.3)


def _legend(figure: Any) -> None:
    from matplotlib.patches import Patch

    patches = [
        Patch(color=colour, label=label)
        for colour, label in (
            (_TOO_LARGE, "outlier: too large"),
            (_TOO_SMALL, "outlier: too small"),
            (_HOLE, "missing"),
        )
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=3, frameon=False)


def _pale() -> Any:
    """Colours of inliers, distinct from those of outliers."""
    import matplotlib
    from matplotlib.colors import ListedColormap

    return ListedColormap(matplotlib.colormaps["RdBu_r"](np.linspace(0.28, 0.72, 64)))


def _strong() -> Any:
    from matplotlib.colors import ListedColormap

    return ListedColormap([_TOO_SMALL, _TOO_LARGE])


def predicted_against_observed(
    observed: Any, predicted: Any, errors: Any, unit: str = "", title: str | None = None
) -> Any:
    """Plot predicted against observed values of cells, with 90 % intervals.

    Parameters
    ----------
    observed, predicted, errors : arrays of one length
        Observed values, predictions, and their standard errors. If there are more than 300
        cells, an evenly spaced subset is drawn.
    unit : str
        Unit of all three.
    title : str, optional
        Default: the share of cells that lie in their intervals.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> import lemmax as lm
    >>> rng = np.random.default_rng(0)
    >>> observed = rng.standard_normal(100)
    >>> predicted = observed + 0.1 * rng.standard_normal(100)
    >>> figure = lm.plots.predicted_against_observed(observed, predicted, np.full(100, 0.1))
    >>> figure.axes[0].get_title()
    '92 % of 100 cells are in their 90 % intervals'
    """
    observed, predicted, errors = (
        np.asarray(each, np.float64).ravel() for each in (observed, predicted, errors)
    )
    if not len(observed) == len(predicted) == len(errors):
        raise ValueError(
            "observed, predicted and errors must have the same length; got "
            f"{len(observed)}, {len(predicted)} and {len(errors)}."
        )
    known = np.isfinite(observed) & np.isfinite(predicted) & np.isfinite(errors)
    observed, predicted, errors = observed[known], predicted[known], errors[known]
    half = _QUANTILE * errors
    # Rounding errors do not count as misses.
    rounding = 1e-9 * max(1.0, float(np.max(np.abs(observed), initial=0.0)))
    inside = np.abs(observed - predicted) <= half + rounding
    figure = new_figure((6.4, 5.6))
    ax = figure.subplots()
    chosen = np.linspace(0, len(observed) - 1, min(len(observed), _DRAWN)).astype(int)
    for kind, colour, label in ((inside, "C0", "in its interval"), (~inside, "C3", "outside")):
        some = chosen[kind[chosen]]
        if len(some):
            ax.errorbar(
                predicted[some],
                observed[some],
                xerr=half[some],
                fmt=".",
                color=colour,
                ecolor=colour,
                elinewidth=0.6,
                alpha=0.6,
                label=label,
            )
    if len(observed):
        ends = (float(np.min(observed)), float(np.max(observed)))
        ax.plot(ends, ends, color="0.4", linewidth=1, zorder=0)
        ax.legend()
    of_unit = f", {unit}" if unit else ""
    ax.set_xlabel(f"predicted, with 90 % interval{of_unit}")
    ax.set_ylabel(f"observed{of_unit}")
    share = 100 * float(np.mean(inside)) if len(inside) else 0.0
    told = f"{share:.0f} % of {len(inside)} cells are in their 90 % intervals"
    ax.set_title(told if title is None else title)
    ax.grid(True, alpha=0.3)
    return figure


def component_map(
    components: Any,
    explained_variance: Any,
    spread: Any,
    columns: Sequence[str] | None = None,
    first: int = 0,
) -> Any:
    """Plot loadings in units of each column's scale.

    If the scale is the standard deviation, these are correlations.

    Parameters
    ----------
    components : array of shape (n_components, columns)
    explained_variance : array of shape (n_components,)
    spread : array of shape (columns,)
        Scale of every column; a column with scale 0 has loadings of 0.
    columns : sequence of str, optional
        Names of the columns.
    first : int
        The number of the first column, if columns have no names.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> import lemmax as lm
    >>> figure = lm.plots.component_map([[0.6, 0.8]], [4.0], [2.0, 2.0], columns=["a", "b"])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['0.60', '0.80']
    """
    components = np.atleast_2d(np.asarray(components, np.float64))
    size, spread = np.sqrt(np.asarray(explained_variance, np.float64)), np.asarray(spread, float)
    count, width = components.shape
    if size.shape != (count,) or spread.shape != (width,):
        raise ValueError(
            f"{count} components of {width} columns need matching variances and spreads; got "
            f"shapes {size.shape} and {spread.shape}."
        )
    check_names(columns, width, "columns")
    loadings = components * size[:, None] / np.where(spread > 0, spread, np.inf)
    figure = new_figure((min(13.0, 3.5 + 0.6 * width), 1.9 + 0.45 * max(2, count)))
    ax = figure.subplots()
    largest = max(1.0, float(np.max(np.abs(loadings), initial=0.0)))
    image = draw_cells(ax, loadings, (1, first), vmin=-largest, vmax=largest, cmap="RdBu_r")
    if loadings.size <= _WRITTEN:
        for (row, column), value in np.ndenumerate(loadings):
            strong = abs(value) > 0.6 * largest
            ax.text(
                first + column,
                row + 1,
                f"{value:.2f}".replace("-0.00", "0.00"),
                ha="center",
                va="center",
                fontsize="x-small",
                color="white" if strong else "black",
            )
    figure.colorbar(image, ax=ax, label="loading / scale of the column")
    number_or_name(ax.xaxis, width, columns, first)
    number_or_name(ax.yaxis, count, None, 1)
    ax.set_ylabel("component")
    return figure
