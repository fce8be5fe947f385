"""Figures and colours; the only module that imports matplotlib."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def new_figure(size: tuple[float, float]) -> Any:
    """An empty figure that is not registered with pyplot."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Plots need the package matplotlib: pip install 'lemmax[plots]'."
        ) from error
    return Figure(figsize=size, layout="constrained")


def colours(count: int) -> list[Any]:
    """Distinct colours, as many as ``count``."""
    import matplotlib

    if count <= 10:
        return [f"C{k}" for k in range(count)]
    return list(matplotlib.colormaps["turbo"](np.linspace(0.03, 0.97, count)))


# Most names along an axis, and longest name, that are legible.
_NAMES = {"x": 30, "y": 20}
_LETTERS = 14
# Up to this many names are shown in the usual font size.
_ROOMY = 8


def number_or_name(axis: Any, count: int, names: Sequence[str] | None, first: int) -> None:
    """Ticks at positions, counted from ``first``: names if there are any, otherwise integers."""
    if names is None:
        whole_numbers(axis, first, first + count - 1)
        return
    every = -(-count // _NAMES[axis.axis_name])
    shown = [_short(name) for name in names[::every]]
    size = "medium" if len(shown) <= _ROOMY else "x-small"
    # Along the horizontal axis long names would overlap.
    upright = axis.axis_name == "x" and sum(map(len, shown)) > _NAMES["x"]
    positions = np.arange(first, first + count, every)
    axis.set_ticks(positions, shown, fontsize=size, rotation=90 if upright else 0)


def whole_numbers(axis: Any, first: int, last: int) -> None:
    """Ticks at integers only."""
    if last - first <= _ROOMY:
        axis.set_ticks(range(first, last + 1))
    else:
        axis.get_major_locator().set_params(integer=True)


def check_names(names: Sequence[str] | None, count: int, what: str) -> None:
    """Raise an error unless there is one name per item."""
    if names is not None and len(names) != count:
        raise ValueError(f"There are {len(names)} names for {count} {what}.")


def check_tables(
    tables: Sequence[np.ndarray], rows: Sequence[str] | None, columns: Sequence[str] | None
) -> None:
    """Raise an error unless the tables have one shape, and the names match it."""
    shapes = [table.shape for table in tables]
    if len(set(shapes)) > 1 or len(shapes[0]) != 2:
        told = f"{', '.join(map(str, shapes[:-1]))} and {shapes[-1]}"
        raise ValueError(f"The tables must have one shape; got shapes {told}.")
    check_names(rows, shapes[0][0], "rows")
    check_names(columns, shapes[0][1], "columns")


def draw_cells(
    ax: Any,
    cells: np.ndarray,
    first: int | tuple[int, int],
    span: tuple[int, int] | None = None,
    **colouring: Any,
) -> Any:
    """Draw the cells of a table as an image, the first row at the top.

    Parameters
    ----------
    ax : matplotlib Axes
    cells : array of two dimensions
    first : int or pair of int
        The numbers of the first row and column.
    span : pair of int, optional
        The number of rows and columns that the cells represent, if they are thinned out.
    **colouring
        Arguments of `imshow`.
    """
    (height, width), (top, left) = span or cells.shape, np.broadcast_to(first, 2) - 0.5
    extent = (left, left + width, top + height, top)
    return ax.imshow(cells, aspect="auto", interpolation="nearest", extent=extent, **colouring)


def _short(name: str) -> str:
    name = str(name).strip()
    return name if len(name) <= _LETTERS else name[: _LETTERS - 1] + "…"
