"""The verdict on a fit under a loss that the user chose, and the errors of its parameters."""

import numpy as np
from scipy.special import ndtri

from ._chosen import ChosenSearch
from ._data import Task
from ._search import correlation
from ._stationary import Stationary
from ._verdict import Seen, Verdict, gain_needed, unchecked, unseen_named
from .status import FitStatus

# As for other fits (`_verdict` says why).
_LEVERAGE, _STRUCTURED, _ENOUGH, _COARSE = 0.99, 0.8, 20, 0.01
_EXACT, _CORRELATED = 32.0, 4.0
# Another minimum is a rival if it is nearly as likely, and so many standard errors away.
_NEARLY, _APART = 3.0, 5.0
# Hall and Sheather's bandwidth is for intervals of this level.
_LEVEL = 0.95


def judge_chosen(task: Task, search: ChosenSearch, interrupted: bool) -> Verdict:
    """Judge the best minimum of a search."""
    best, setting = search.ends[0], search.setting
    x, residual, jacobian, _ = best.point
    n, p = jacobian.shape
    freedom = n - p
    noise = float(setting.scale(residual[None], setting.counts, p)[0])
    at_bound = (x <= task.box.low) | (x >= task.box.high)
    seen = Seen.of(task, setting.rounding, jacobian, x, ~at_bound)
    exact = freedom > 0 and noise <= _EXACT * setting.rounding
    factor = setting.rounding if exact else max(_factor(search, best), setting.rounding)
    covariance = seen.covariance(factor) if freedom > 0 else np.diag(np.full(p, np.inf))
    covariance[at_bound] = covariance[:, at_bound] = np.nan
    status, objections, remarks = FitStatus.EXACT if exact else FitStatus.FITTED, [], []
    if not np.isfinite(best.point.value):
        objections.append("the model is not finite where the fit ended")
        status = FitStatus.NOT_CONVERGED
    elif freedom <= 0:
        objections.append(unchecked(n))
        status = FitStatus.DOUBTFUL
    elif not best.settled:
        objections.append(
            "the steps ended before a minimum: the slopes of the loss are not orthogonal to what "
            f"the parameters can change (offset {best.offset:.1e})"
        )
        status = FitStatus.NOT_CONVERGED
    elif np.any(seen.unseen):
        objections.append(unseen_named(np.array(task.free_names)[seen.unseen]))
        status = FitStatus.NOT_IDENTIFIED
    elif not exact:
        objections += _doubts(task, search, seen, factor)
        status = FitStatus.DOUBTFUL if objections else status
    if interrupted:
        status = FitStatus.INTERRUPTED
    if np.any(at_bound):
        remarks.append(f"at a bound: {', '.join(np.array(task.free_names)[at_bound])}")
    if not exact and correlation(best.slopes) > _CORRELATED:
        remarks.append(
            "neighbouring residuals are correlated: the model may miss something, and the standard "
            "errors are too small"
        )
    return Verdict(
        status,
        tuple(objections),
        tuple(remarks),
        covariance,
        noise,
        freedom,
        seen.unseen,
        at_bound,
        interpolated=best.interpolated,
    )


def _factor(search: ChosenSearch, best: Stationary) -> float:
    """The root of what (J'J)^-1 is multiplied by to give the covariance.

    Errors are alike, up to sigma. Then the covariance of a minimum is the variance of the slopes of
    the loss, divided by the square of how these change on average as the curve moves (Huber, 1973).
    """
    n, p = best.point.jacobian.shape
    if n <= p:
        return float("nan")
    residual, kink = best.point.residual, search.loss.kink
    if kink is None:
        bend = float(np.mean(search.loss.bends(residual)))
        size = float(np.sqrt(np.sum(best.slopes**2) / (n - p)))
        # For few data, Huber's factor: in the balance of these, parameters take part.
        return size / bend * (1 + p / n * (1 / bend - 1)) if bend > 0 else float("inf")
    low, high = kink
    return (
        float(np.sqrt(-low * high))
        / (high - low)
        * _sparsity(residual[~best.interpolated], high / (high - low), p)
    )


def _sparsity(residual: np.ndarray, level: float, p: int) -> float:
    """One divided by the density of errors at 0, their quantile of a level.

    The difference quotient of quantiles (Siddiqui, 1960), of residuals that are not 0 because the
    curve was led through these data, with Hall and Sheather's (1988) bandwidth.
    """
    n = len(residual)
    if n < 2:
        return float("nan")
    normal = ndtri(level)
    density = np.exp(-(normal**2) / 2) / np.sqrt(2 * np.pi)
    width = (ndtri((1 + _LEVEL) / 2) ** 2 * 1.5 * density**2 / (2 * normal**2 + 1) / n) ** (1 / 3)
    low, high = max(level - width, 0.5 / n), min(level + width, 1 - 0.5 / n)
    ends = np.quantile(residual, [low, high], method="hazen")
    return float(ends[1] - ends[0]) / (high - low)


def _doubts(task: Task, search: ChosenSearch, seen: Seen, factor: float) -> list[str]:
    doubts = []
    best, found = search.ends[0], search.found
    n, p = best.point.jacobian.shape
    centre = np.median(task.y) if p > 1 else 0.0
    without = ((centre - task.y) / task.units)[None]
    constant = search.length(float(search.loss.value(without, np.ones((1, n)))[0]))
    if np.ptp(task.y) > 0 and constant - found.length[0] < gain_needed(n, p):
        doubts.append(
            "the model does not explain the data better than a constant does, as far as they can "
            "tell: too many may be wrong, or the noise too large"
        )
    for k, end in enumerate(search.ends[1:], 1):
        away = np.linalg.norm(end.point.residual - best.point.residual)
        near = end.settled and found.length[k] < found.length[0] + _NEARLY
        if near and away > _APART * factor:
            pairs = zip(task.free_names, end.point.x, strict=True)
            values = (f"{name} = {value:.4g}" for name, value in pairs)
            doubts.append(f"another fit has nearly as small a loss: {', '.join(values)}")
            break
    structured = correlation(best.slopes) > _STRUCTURED * np.sqrt(n)
    if structured and n >= _ENOUGH and factor > _COARSE * search.setting.width:
        doubts.append(
            "the residuals follow a curve of their own: the model misses something, or this is a "
            "local minimum"
        )
    if np.max(seen.leverage, initial=0.0) > _LEVERAGE:
        doubts.append(
            "a parameter rests on a single datum, so that nothing would show if that were wrong"
        )
    return doubts
