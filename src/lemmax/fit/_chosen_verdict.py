"""The verdict on a fit under a loss that the user chose, and the errors of its parameters."""

import numpy as np
from scipy.special import ndtri

from . import _constants as constants
from ._chosen import ChosenSearch
from ._conclusion import (
    FOLLOW_A_CURVE,
    NO_BETTER,
    SINGLE_DATUM,
    Facts,
    conclude,
    follow_a_curve,
    parameters_in_words,
)
from ._data import Task
from ._stationary import Stationary
from ._verdict import Seen, Verdict, gain_needed


def judge_chosen(task: Task, search: ChosenSearch, interrupted: bool) -> Verdict:
    """Judge the best minimum of a search."""
    best, setting = search.ends[0], search.setting
    x, residual, jacobian, _ = best.point
    n, p = jacobian.shape
    freedom = n - p
    noise = float(setting.scale(residual[None], setting.counts, p)[0])
    at_bound = (x <= task.box.low) | (x >= task.box.high)
    seen = Seen.of(task, setting.rounding, jacobian, x, ~at_bound)
    exact = freedom > 0 and noise <= constants.EXACT * setting.rounding
    factor = setting.rounding if exact else max(_factor(search, best), setting.rounding)
    covariance = seen.covariance(factor) if freedom > 0 else np.diag(np.full(p, np.inf))
    covariance[at_bound] = covariance[:, at_bound] = np.nan
    facts = Facts(
        names=task.free_names,
        finite=bool(np.isfinite(best.point.value)),
        freedom=freedom,
        exact=exact,
        minimum=best.settled,
        offset=best.offset,
        unseen=seen.unseen,
        at_bound=at_bound,
        residual=best.slopes,
    )
    return Verdict(
        *conclude(facts, lambda: _doubts(task, search, seen, factor), interrupted),
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
    width = (
        ndtri((1 + constants.BANDWIDTH_LEVEL) / 2) ** 2 * 1.5 * density**2 / (2 * normal**2 + 1) / n
    ) ** (1 / 3)
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
        doubts.append(NO_BETTER)
    for k, end in enumerate(search.ends[1:], 1):
        away = np.linalg.norm(end.point.residual - best.point.residual)
        near = end.settled and found.length[k] < found.length[0] + constants.NEARLY
        if near and away > constants.APART * factor:
            values = parameters_in_words(task.free_names, end.point.x)
            doubts.append(f"another fit has nearly as small a loss: {values}")
            break
    if follow_a_curve(best.slopes, factor, search.setting.width):
        doubts.append(FOLLOW_A_CURVE)
    if np.max(seen.leverage, initial=0.0) > constants.LEVERAGE:
        doubts.append(SINGLE_DATUM)
    return doubts
