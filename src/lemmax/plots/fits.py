"""Plots of fits: data, curve and residuals."""

from typing import Any

import jax
import numpy as np

from .._checks import check_kind
from .._dtype import x64_context
from ..fit import Fit, Prediction
from ._axes import new_figure

# Opacity of the confidence band.
_BAND = 0.25
# Outliers farther from the other data than this multiple of their range are drawn at this distance.
_REACH = 1.5
# Number of points at which a curve through fewer data is drawn, so that it looks smooth.
_TIMES = 300


def fit(
    fitted: Fit, t: Any = None, *, level: float = 0.95, xlabel: str = "t", ylabel: str = "y"
) -> Any:
    """Plot data, fitted curve with confidence band, outliers in red, and residuals.

    Parameters
    ----------
    fitted : Fit
        The result of `lemmax.fit`, for data in one array with one axis.
    t : array, optional
        The independent variable. Default: the index of the data. It need not be sorted. If it is
        the only argument of the model, the curve is also drawn between the data.
    level : float
        Confidence level of the band.
    xlabel, ylabel : str
        Labels of the axes.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> import lemmax as lm
    >>> t = np.linspace(0.0, 1.0, 20)
    >>> y = 1 + t + 0.01 * np.cos(50 * t)
    >>> fitted = lm.fit(lambda x: x[0] + x[1] * t, y, [0.0, 0.0])
    >>> figure = lm.plots.fit(fitted, t)
    >>> [ax.get_ylabel() for ax in figure.axes]
    ['y', 'residual']
    """
    check_kind("fitted", fitted, Fit, "the result of fit (of many curves fits.one(7) is one)")
    residual = fitted.residual
    if not isinstance(residual, np.ndarray) or residual.ndim != 1 or np.iscomplexobj(residual):
        raise ValueError("Only fits to one real array with one axis can be plotted.")
    t = np.arange(len(residual)) if t is None else np.asarray(t)
    if t.shape != residual.shape:
        raise ValueError(f"t has shape {t.shape}, but the data have shape {residual.shape}.")
    times, curve = _curve(fitted, t, level)
    data = np.asarray(fitted.predict(level).value) - residual
    wrong = np.zeros(len(data), bool)
    wrong[fitted.outliers] = True
    figure = new_figure((8, 6))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    above.plot(times, curve.value, color="C0", label="fit", zorder=2)
    if np.all(np.isfinite(curve.low)):
        above.fill_between(
            times,
            curve.low,
            curve.high,
            color="C0",
            alpha=_BAND,
            linewidth=0,
            label=f"{level:.0%} band",
        )
    right = data[~wrong & np.isfinite(data)]
    low, high = np.min(right, initial=np.inf), np.max(right, initial=-np.inf)
    far = _REACH * ((high - low) or abs(high) or 1.0)
    within = np.clip(data, low - far, high + far)
    beyond = wrong & (within != data)
    # A few data are drawn on top of the curve; many would hide it.
    style = {"zorder": 3} if len(t) < _TIMES else {"zorder": 1, "markersize": 2}
    for ax, values in ((above, within), (below, -residual)):
        ax.plot(t[~wrong], values[~wrong], ".", color="0.3", label="data", **style)
        near = wrong & ~beyond
        if np.any(near):
            name = f"outliers ({int(np.sum(near))})"
            ax.plot(t[near], values[near], "x", color="C3", label=name, **style)
    if np.any(beyond):
        name = f"outliers, farther away ({int(np.sum(beyond))})"
        above.plot(t[beyond], within[beyond], "d", color="C3", fillstyle="none", label=name)
    below.axhline(0, color="C0", linewidth=1)
    left = np.abs(residual[~wrong & np.isfinite(residual)])
    if left.size and np.max(left) > 0:
        # Outliers are not drawn here: the other residuals would look like a line.
        limit = 1.3 * float(np.max(left))
        below.set_ylim(-limit, limit)
    above.set_ylabel(ylabel)
    below.set_ylabel("residual")
    below.set_xlabel(xlabel)
    units = " times sigma" if fitted.task.sigma is not None else ""
    above.set_title(f"{fitted.status.name}, noise {fitted.noise:.3g}{units}")
    above.legend()
    return figure


def _curve(fitted: Fit, t: np.ndarray, level: float) -> tuple[np.ndarray, Prediction]:
    """The sorted variable, refined if the model allows it, and the curve with its band."""
    leaves, structure = jax.tree.flatten(fitted.task.args)
    if len(leaves) == 1 and len(t) < _TIMES and np.array_equal(leaves[0], t):
        times = np.linspace(np.min(t), np.max(t), _TIMES)
        args = jax.tree.unflatten(structure, [times])
        if _is_defined(fitted, args, times.shape):
            return times, fitted.predict(level, args=args)
    order = np.argsort(t, kind="stable")
    return t[order], Prediction(*(each[order] for each in fitted.predict(level)))


def _is_defined(fitted: Fit, args: Any, shape: tuple[int, ...]) -> bool:
    """Whether a model accepts other values of the variable than those it was fitted to."""
    try:
        with x64_context():
            return jax.eval_shape(fitted.task.model, fitted.x, *args).shape == shape
    except Exception:  # a model for a fixed number of data may raise anything
        return False
