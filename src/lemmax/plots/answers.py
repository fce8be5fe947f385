"""Answers: what was recovered, and what tells that it is right."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._checks import check_kind
from ..recovery import Recovery
from ._axes import colours, new_figure

# So many terms are drawn; the others would hide them.
_SHOWN = 6
_PIXELS = 2000


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
    figure = new_figure((11, 4))
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
    known = ~np.isnan(sizes)
    sizes, wrong = sizes[known], wrong[known]
    order = np.argsort(sizes)
    sizes, wrong = sizes[order], wrong[order]
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


def factors(factors: Sequence[Any], names: Sequence[str] | None = None) -> Any:
    """Draw the factors of a matrix or tensor: one panel for each mode, one line for each term.

    Parameters
    ----------
    factors : sequence of arrays of shape (length of the mode, rank)
    names : sequence of str, optional
        Of the modes.

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
        raise ValueError("Factors are arrays of two dimensions, one for each mode.")
    figure = new_figure((4 * len(arrays), 3.2))
    axes = figure.subplots(1, len(arrays), squeeze=False)[0]
    shown = min(arrays[0].shape[1], _SHOWN)
    for mode, (ax, array) in enumerate(zip(axes, arrays, strict=True)):
        for term, colour in zip(range(shown), colours(shown), strict=True):
            style = {"marker": "."} if len(array) <= 30 else {}
            ax.plot(array[:, term], color=colour, label=f"{term + 1}", **style)
        ax.set_title(f"mode {mode + 1}" if names is None else names[mode])
        ax.axhline(0, color="0.7", linewidth=0.8, zorder=0)
        ax.grid(True, alpha=0.3)
    if shown:
        axes[-1].legend(title="term", loc="upper left", bbox_to_anchor=(1.02, 1.0))
    return figure


def before_after(data: Any, cleaned: Any, outliers: Any, title: str = "") -> Any:
    """Draw a table as it came, as it was cleaned, and what was wrong with it.

    Parameters
    ----------
    data : array of shape (rows, columns)
        NaN marks what is missing, and is drawn white.
    cleaned : array of the same shape
    outliers : sparse array, or array of the same shape
        By how much entries were wrong; 0 where they were not.
    title : str

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
    if not data.shape == cleaned.shape == wrong.shape or data.ndim != 2:
        raise ValueError(
            "Three tables of one shape are needed; got shapes "
            f"{data.shape}, {cleaned.shape} and {wrong.shape}."
        )
    missing, errors = int(np.sum(np.isnan(data))), np.count_nonzero(wrong)
    # More rows or columns than pixels show nothing more.
    thin = tuple(slice(None, None, -(-length // _PIXELS)) for length in data.shape)
    data, cleaned, wrong = data[thin], cleaned[thin], wrong[thin]
    figure = new_figure((13, 4))
    axes = figure.subplots(1, 3, sharex=True, sharey=True)
    look: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest"}
    # Wrong entries would take all the colours: those of the cleaned table are what matters.
    low, high = np.min(cleaned), np.max(cleaned)
    both = {**look, "vmin": low, "vmax": high, "cmap": "viridis"}
    axes[0].imshow(data, **both)
    image = axes[1].imshow(cleaned, **both)
    figure.colorbar(image, ax=axes[:2])
    size = float(np.max(np.abs(wrong))) or 1.0
    shown = np.where(wrong == 0, np.nan, wrong)
    image = axes[2].imshow(shown, vmin=-size, vmax=size, cmap="RdBu_r", **look)
    figure.colorbar(image, ax=axes[2])
    titles = (
        f"as it came ({missing} missing)",
        "cleaned",
        f"what was wrong ({errors} entries)",
    )
    for ax, text in zip(axes, titles, strict=True):
        ax.set_title(text)
        ax.set_xlabel("column")
    axes[0].set_ylabel("row")
    if title:
        figure.suptitle(title)
    return figure
