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
# Most curves beside each other.
_MOST = 6


def fit(
    fitted: Fit, t: Any = None, *, level: float = 0.95, xlabel: str = "t", ylabel: str = "y"
) -> Any:
    """Plot data, fitted curve with confidence band, outliers in red, and residuals.

    Parameters
    ----------
    fitted : Fit
        The result of `lemmax.fit`, for real data. Several curves over the same variable (the
        columns of a matrix, the entries of a dict) are drawn beside each other.
    t : array, optional
        The independent variable. Default: the index of the data. It need not be sorted. If it is
        the only argument of the model, the curve is also drawn between the data.
    level : float
        Confidence level of the band.
    xlabel, ylabel : str
        Labels of the axes. If there are several curves, each is labelled by its column or name.

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
    residuals = _curves(fitted.residual)
    length = len(next(iter(residuals.values())))
    t = np.arange(length) if t is None else np.asarray(t)
    for residual in residuals.values():
        if t.shape != residual.shape:
            raise ValueError(f"t has shape {t.shape}, but the data have shape {residual.shape}.")
    times, line = _line(fitted, t, level)
    lines = [_curves(part) for part in line]
    values, masks = _curves(fitted.predict(level).value), _curves(fitted.wrong)
    count = len(residuals)
    figure = new_figure((8 if count == 1 else 5.5 * count, 6))
    axes = figure.subplots(2, count, sharex=True, height_ratios=(3, 1), squeeze=False)
    for (above, below), (name, residual) in zip(axes.T, residuals.items(), strict=True):
        curve = Prediction(*(part[name] for part in lines))
        _draw(above, below, t, residual, values[name] - residual, masks[name], times, curve, level)
        above.set_ylabel(ylabel if count == 1 else name)
        below.set_ylabel("residual")
        below.set_xlabel(xlabel)
        above.legend()
    units = " times sigma" if fitted.task.sigma is not None else ""
    axes[0, 0].set_title(f"{fitted.status.name}, noise {fitted.noise:.3g}{units}")
    return figure


def _curves(tree: Any) -> dict[str, np.ndarray]:
    """The curves in a pytree like the data, by name."""
    curves = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        leaf = np.asarray(leaf)
        if leaf.ndim not in (1, 2) or np.iscomplexobj(leaf):
            break
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        if leaf.ndim == 1:
            curves[name or "y"] = leaf
        else:
            curves |= {f"{name or 'y'}[:, {k}]": column for k, column in enumerate(leaf.T)}
    else:
        if 0 < len(curves) <= _MOST:
            return curves
    raise ValueError(
        f"Only fits to at most {_MOST} real curves can be plotted: arrays with one axis, or the "
        "columns of arrays with two. Draw others from fitted.predict(), fitted.residual and "
        "fitted.wrong."
    )


def _draw(
    above: Any,
    below: Any,
    t: np.ndarray,
    residual: np.ndarray,
    data: np.ndarray,
    wrong: np.ndarray,
    times: np.ndarray,
    curve: Prediction,
    level: float,
) -> None:
    """Data, curve and band above, residuals below."""
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


def _line(fitted: Fit, t: np.ndarray, level: float) -> tuple[np.ndarray, Prediction]:
    """The sorted variable, refined if the model allows it, and the curve with its band."""
    leaves, structure = jax.tree.flatten(fitted.task.args)
    if len(leaves) == 1 and len(t) < _TIMES and np.array_equal(leaves[0], t):
        times = np.linspace(np.min(t), np.max(t), _TIMES)
        args = jax.tree.unflatten(structure, [times])
        if _is_defined(fitted, args, len(times)):
            return times, fitted.predict(level, args=args)
    order = np.argsort(t, kind="stable")
    line = fitted.predict(level)
    return t[order], Prediction(*jax.tree.map(lambda leaf: leaf[order], tuple(line)))


def _is_defined(fitted: Fit, args: Any, length: int) -> bool:
    """Whether a model accepts other values of the variable than those it was fitted to."""
    try:
        with x64_context():
            made = jax.eval_shape(fitted.task.model, fitted.x, *args)
            return all(leaf.shape[:1] == (length,) for leaf in jax.tree.leaves(made))
    except Exception:  # a model for a fixed number of data may raise anything
        return False
