"""Figures and colours; the only place that imports matplotlib."""

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
