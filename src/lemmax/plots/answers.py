"""Plots of recoveries, factors and cleaned tables."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._checks import check_kind
from ..recovery import Recovery
from ._axes import (
    check_names,
    check_tables,
    colours,
    draw_cells,
    new_figure,
    number_or_name,
    whole_numbers,
)

# Number of terms drawn; more would hide each other.
SHOWN = 6
# Up to this many positions are drawn separately.
_FEW = 30
_PIXELS = 2000
# In tables with more rows or columns, single cells are too small to see.
_CELLS = 150
_DOTS = 50_000
# Percentiles at the ends of the colour scale, so that extreme entries do not dominate it.
BULK = (1, 99)


def recovery(found: Recovery, title: str | None = None) -> Any:
    """Plot the sizes of the terms and of the residuals, which show the rank and the outliers.

    Parameters
    ----------
    found : Recovery
        The result of `lemmax.recover`.
    title : str, optional
        Default: the verdict.

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
    >>> found = lm.recover(data, lm.maps.PSD(6, rank=2), lm.operators.Dense(A))
    >>> len(lm.plots.recovery(found).axes)
    2
    """
    check_kind("The first argument of plots.recovery", found, Recovery, "from lm.recover")
    figure = new_figure((11, 4))
    left, right = figure.subplots(1, 2)
    _draw_terms(left, found)
    _draw_residuals(right, found)
    # Only the first words of the verdict fit.
    figure.suptitle(re.split("[:.]", found.status.message)[0] if title is None else title)
    return figure


def _draw_terms(ax: Any, found: Recovery) -> None:
    if found.sizes is None or found.rank is None:
        ax.text(0.5, 0.5, "a map without terms", ha="center", transform=ax.transAxes)
        return
    number = np.arange(1, len(found.sizes) + 1)
    kept = number <= found.rank
    ax.semilogy(number[kept], found.sizes[kept], "o", color="C0", label="kept")
    if not np.all(kept):
        ax.semilogy(number[~kept], found.sizes[~kept], "x", color="C3", label="cut off")
        ax.axvline(found.rank + 0.5, color="0.6", linewidth=1)
    ax.set_xlabel("term")
    ax.set_ylabel("size")
    ax.set_title(
        f"rank {found.rank}" + (f" of at most {found.rank_bound}" if found.rank_bound else "")
    )
    whole_numbers(ax.xaxis, 1, len(number))
    ax.legend()
    ax.grid(True, alpha=0.3)


def _draw_residuals(ax: Any, found: Recovery) -> None:
    """Sorted, on a logarithmic scale: the step separates inliers from outliers."""
    sizes = np.abs(found.residual)
    wrong = np.zeros(sizes.shape, bool)
    wrong[found.outliers] = True
    known = ~np.isnan(sizes)
    sizes, wrong = sizes[known], wrong[known]
    order = np.argsort(sizes)
    sizes, wrong = sizes[order], wrong[order]
    # Zero residuals cannot be drawn on a logarithmic axis; they are drawn at the smallest nonzero.
    there, rounding = sizes[sizes > 0], np.finfo(float)
    floor = max(there[0], rounding.eps * there[-1]) if there.size else rounding.tiny
    number = np.arange(1, sizes.size + 1)
    # Without a certificate, residuals are only explained or not.
    believed = found.status.succeeded
    labels = ("inliers", "outliers") if believed else ("explained", "not explained")
    for chosen, colour, label in zip((~wrong, wrong), ("C0", "C3"), labels, strict=True):
        if np.any(chosen):
            shown = np.maximum(sizes[chosen], floor)
            ax.semilogy(number[chosen], shown, ".", color=colour, label=label, rasterized=True)
    ax.set_xlabel("observations, sorted")
    ax.set_ylabel("size of the residual")
    ax.set_title(f"{found.outlier_count} of {found.observations} observations are {labels[1]}")
    ax.legend()
    ax.grid(True, alpha=0.3)


def factors(
    factors: Sequence[Any],
    names: Sequence[str] | None = None,
    labels: Sequence[Sequence[str] | None] | None = None,
    first: int = 0,
) -> Any:
    """Plot the factors of a matrix or tensor: one panel per mode, one colour per term.

    Parameters
    ----------
    factors : sequence of arrays of shape (length of the mode, rank)
    names : sequence of str, optional
        Names of the modes.
    labels : sequence, optional
        For every mode, names of its positions, or None. Named positions are drawn as dots, since
        names have no order; others are joined by lines.
    first : int
        The number of the first position, if positions have no names.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> import lemmax as lm
    >>> len(lm.plots.factors([np.ones((5, 2)), np.ones((4, 2)), np.ones((3, 2))]).axes)
    3
    """
    arrays = [np.asarray(factor) for factor in factors]
    if not arrays or any(array.ndim != 2 for array in arrays):
        raise ValueError("factors must be two-dimensional arrays, one for each mode.")
    labels = [None] * len(arrays) if labels is None else labels
    figure = new_figure((4.5 * len(arrays), 3.6))
    axes = figure.subplots(1, len(arrays), squeeze=False)[0]
    for mode, (ax, array, positions) in enumerate(zip(axes, arrays, labels, strict=True)):
        check_names(positions, len(array), f"positions of mode {mode}")
        draw_terms(ax, array, positions, first, joined=positions is None)
        if positions is None:
            ax.set_xlabel("index")
        ax.set_title(f"mode {mode}" if names is None else names[mode])
    if arrays[0].shape[1]:
        axes[-1].legend(title="term", loc="upper left", bbox_to_anchor=(1.02, 1.0))
    return figure


def draw_terms(
    ax: Any,
    terms: np.ndarray,
    positions: Sequence[str] | None,
    first: int,
    joined: bool,
) -> None:
    """Draw the first few columns of an array, each in its colour, numbered for a legend.

    Ordered positions are joined by lines, unordered ones are dots on stems.
    """
    length, shown = len(terms), min(terms.shape[1], SHOWN)
    places = np.arange(first, first + length)
    # Side by side, so that terms do not hide each other.
    offsets = 0.6 * (np.arange(shown) - (shown - 1) / 2) / SHOWN
    for term, colour in zip(range(shown), colours(shown), strict=True):
        column, look = terms[:, term], {"color": colour, "label": f"{term + 1}"}
        if joined:
            ax.plot(places, column, marker="." if length <= _FEW else "", **look)
            continue
        ax.plot(places + offsets[term], column, ".", markersize=6, **look)
        if length <= _FEW:
            ax.vlines(places + offsets[term], 0, column, color=colour, linewidth=1)
    number_or_name(ax.xaxis, length, positions, first)
    ax.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    ax.grid(True, alpha=0.3)


def before_after(
    data: Any,
    cleaned: Any,
    outliers: Any,
    title: str = "",
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    first: int = 0,
) -> Any:
    """Plot a table before and after cleaning, and its outliers.

    Parameters
    ----------
    data : array of shape (rows, columns)
        NaN marks missing values, drawn white.
    cleaned : array of the same shape
    outliers : sparse array, or array of the same shape
        The errors of outliers; 0 elsewhere.
    title : str
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
    >>> table = np.ones((4, 3))
    >>> len(lm.plots.before_after(table, table, 0 * table).axes)
    5
    """
    data, cleaned = np.asarray(data, np.float64), np.asarray(cleaned, np.float64)
    wrong = outliers.toarray() if hasattr(outliers, "toarray") else np.asarray(outliers)
    check_tables((data, cleaned, wrong), rows, columns)
    missing, errors = int(np.sum(np.isnan(data))), np.count_nonzero(wrong)
    height, width = data.shape
    # Thin out rows and columns beyond the resolution of the picture.
    thin = tuple(slice(None, None, -(-length // _PIXELS)) for length in data.shape)
    data, cleaned = data[thin], cleaned[thin]
    figure = new_figure((13, 4.4))
    axes = figure.subplots(1, 3, sharex=True, sharey=True)
    # The colour scale is that of the cleaned table: outliers would dominate it.
    low, high = np.percentile(cleaned, BULK)
    if low == high:  # a constant table, drawn in the middle colour
        low, high = low - 0.5 * max(1.0, abs(low)), high + 0.5 * max(1.0, abs(high))
    both = {"vmin": low, "vmax": high, "cmap": "viridis"}
    draw_cells(axes[0], data, first, (height, width), **both)
    image = draw_cells(axes[1], cleaned, first, (height, width), **both)
    figure.colorbar(image, ax=axes[:2], extend="both")
    figure.colorbar(_draw_errors(axes[2], wrong, first), ax=axes[2], extend="both")
    titles = (
        f"data ({missing} missing)",
        "cleaned",
        f"outliers ({errors} entries)",
    )
    for ax, text in zip(axes, titles, strict=True):
        ax.set_title(text)
        ax.set_xlabel("column")
        number_or_name(ax.xaxis, width, columns, first)
    number_or_name(axes[0].yaxis, height, rows, first)
    axes[0].set_ylabel("row")
    if title:
        figure.suptitle(title)
    return figure


def _draw_errors(ax: Any, wrong: np.ndarray, first: int) -> Any:
    """Draw the errors of outliers: cells, or dots if cells are too small to see."""
    places = np.nonzero(wrong)
    errors = wrong[places]
    size = float(np.percentile(np.abs(errors), BULK[1])) if len(errors) else 1.0
    colouring = {"vmin": -size, "vmax": size, "cmap": "RdBu_r"}
    # Grey for no error: white is a small one.
    ax.set_facecolor("0.9")
    if max(wrong.shape) <= _CELLS:
        return draw_cells(ax, np.where(wrong == 0, np.nan, wrong), first, **colouring)
    # The largest last, on top of the others.
    order = np.argsort(np.abs(errors))[-_DOTS:]
    rows, columns = (index[order] + first for index in places)
    return ax.scatter(columns, rows, s=12, marker="s", c=errors[order], linewidths=0, **colouring)
