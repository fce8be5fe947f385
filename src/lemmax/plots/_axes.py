"""Figures and colours; the only place that imports matplotlib."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def new_figure(size: tuple[float, float]) -> Any:
    """An empty figure that pyplot does not know."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Pictures need the package matplotlib: pip install 'lemmax[plots]'."
        ) from error
    return Figure(figsize=size, layout="constrained")


def colours(count: int) -> list[Any]:
    """As many different ones as asked for."""
    import matplotlib

    if count <= 10:
        return [f"C{k}" for k in range(count)]
    return list(matplotlib.colormaps["turbo"](np.linspace(0.03, 0.97, count)))


# More names along an axis cannot be read, nor can longer ones.
_NAMES = {"x": 30, "y": 20}
_LETTERS = 14
# So few have room for letters of the usual size.
_ROOMY = 8


def number_or_name(axis: Any, count: int, names: Sequence[str] | None, first: int) -> None:
    """Ticks of positions, counted from ``first``: names where there are any, or whole numbers."""
    if names is None:
        whole_numbers(axis, first, first + count - 1)
        return
    every = -(-count // _NAMES[axis.axis_name])
    shown = [_short(name) for name in names[::every]]
    size = "medium" if len(shown) <= _ROOMY else "x-small"
    # Along the lower edge long names would run into each other.
    upright = axis.axis_name == "x" and sum(map(len, shown)) > _NAMES["x"]
    positions = np.arange(first, first + count, every)
    axis.set_ticks(positions, shown, fontsize=size, rotation=90 if upright else 0)


def whole_numbers(axis: Any, first: int, last: int) -> None:
    """Ticks at whole numbers only, however few there are."""
    if last - first <= _ROOMY:
        axis.set_ticks(range(first, last + 1))
    else:
        axis.get_major_locator().set_params(integer=True)


def check_names(names: Sequence[str] | None, count: int, what: str) -> None:
    """Refuse names that are not as many as what they name."""
    if names is not None and len(names) != count:
        raise ValueError(f"There are {len(names)} names for {count} {what}.")


def check_tables(
    tables: Sequence[np.ndarray], rows: Sequence[str] | None, columns: Sequence[str] | None
) -> None:
    """Refuse tables that are not of one shape, and names that are not as many."""
    shapes = [table.shape for table in tables]
    if len(set(shapes)) > 1 or len(shapes[0]) != 2:
        told = f"{', '.join(map(str, shapes[:-1]))} and {shapes[-1]}"
        raise ValueError(f"Tables of one shape are needed; got shapes {told}.")
    check_names(rows, shapes[0][0], "rows")
    check_names(columns, shapes[0][1], "columns")


def draw_cells(
    ax: Any,
    cells: np.ndarray,
    first: int | tuple[int, int],
    span: tuple[int, int] | None = None,
    **colouring: Any,
) -> Any:
    """Draw the cells of a table in colours, the first row at the top.

    Parameters
    ----------
    ax : matplotlib Axes
    cells : array of two dimensions
    first : int or pair of int
        The numbers of the first row and column.
    span : pair of int, optional
        How many rows and columns the cells stand for, if not for as many as there are.
    **colouring
        Of `imshow`.
    """
    (height, width), (top, left) = span or cells.shape, np.broadcast_to(first, 2) - 0.5
    extent = (left, left + width, top + height, top)
    return ax.imshow(cells, aspect="auto", interpolation="nearest", extent=extent, **colouring)


def _short(name: str) -> str:
    name = str(name).strip()
    return name if len(name) <= _LETTERS else name[: _LETTERS - 1] + "…"
