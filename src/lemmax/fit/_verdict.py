"""The verdict on a fit, and the errors of its parameters."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import fdtri

from . import _constants as constants
from ._conclusion import (
    AT_A_LIMIT,
    CROWDED,
    FOLLOW_A_CURVE,
    NO_BETTER,
    SINGLE_DATUM,
    Facts,
    conclude,
    follow_a_curve,
    parameters_in_words,
)
from ._data import Task
from ._limits import cut_off
from ._losses import robust_scale, squares
from ._message import shortest
from ._order import close_to_the_fit, crowded
from ._refine import Candidates, Setting
from ._search import Search, rivals
from ._starts import typical
from .status import FitStatus


class Verdict(NamedTuple):
    """The verdict on a fit, and standard errors."""

    status: FitStatus
    objections: tuple[str, ...]
    remarks: tuple[str, ...]
    covariance: np.ndarray
    """Of the free parameters; infinite where the data do not see them, NaN at bounds."""
    noise: float
    freedom: int
    unseen: np.ndarray
    """Which free parameters the data do not determine."""
    at_bound: np.ndarray
    errors: np.ndarray | None = None
    """Standard errors of the free parameters, where the covariance is not known."""
    information: Any = None
    """Gives the variance of combinations of many parameters."""
    interpolated: np.ndarray | None = None
    """Which data are at a kink of the loss, if it has one."""


def judge_fit(task: Task, search: Search, interrupted: bool) -> Verdict:
    """Judge the first of the candidates of a search."""
    setting, found = search.setting, search.found
    x, keep = found.ended.x[0], found.keep[0]
    residual, jacobian = found.ended.residual[0][keep], found.ended.jacobian[0][keep]
    n, p = jacobian.shape
    freedom = n - p
    noise = float(np.sqrt(residual @ residual / freedom)) if freedom > 0 else float("nan")
    at_bound = (x <= task.box.low) | (x >= task.box.high)
    seen = Seen.of(task, setting.rounding, jacobian, x, ~at_bound)
    covariance = seen.covariance(max(noise, setting.rounding))
    if freedom <= 0:
        covariance = np.diag(np.full(p, np.inf))
    covariance[at_bound] = covariance[:, at_bound] = np.nan
    facts = Facts(
        names=task.free_names,
        finite=bool(np.isfinite(found.length[0])),
        freedom=freedom,
        exact=freedom > 0 and noise <= constants.EXACT * setting.rounding,
        minimum=_at_minimum(found, n, p),
        offset=float(found.ended.offset[0]),
        unseen=seen.unseen,
        at_bound=at_bound,
        residual=residual,
    )
    concluded = conclude(facts, lambda: _doubts(task, search, seen), interrupted)
    return Verdict(*concluded, covariance, noise, freedom, seen.unseen, at_bound)


class Seen(NamedTuple):
    """What the data see of the parameters."""

    scale: np.ndarray
    s: np.ndarray
    right: np.ndarray
    leverage: np.ndarray
    unseen: np.ndarray
    """Which parameters the data do not determine."""
    varied: np.ndarray
    """Those that are not held by a bound."""

    @classmethod
    def of(
        cls,
        task: Task,
        rounding: float,
        jacobian: np.ndarray,
        x: np.ndarray,
        varied: np.ndarray,
    ) -> "Seen":
        """Decompose the Jacobian of the inliers."""
        jacobian = np.where(np.isfinite(jacobian), jacobian, 0)
        norms = np.linalg.norm(jacobian, axis=0)
        size = np.maximum(np.abs(x), np.abs(typical(task.start)))
        least = constants.ROUNDINGS * rounding * np.sqrt(max(len(jacobian), 1))
        blind = varied & ((norms * size < least) & (size > 0) | (norms == 0))
        use = varied & ~blind
        scale = np.where(use, norms, 1)
        left, s, right = np.linalg.svd(jacobian / scale * use, full_matrices=False)
        clear = s > constants.UNSEEN * np.max(s, initial=0.0)
        lost = np.sum(use) - np.sum(clear)
        # What is left of each axis by the directions that are seen.
        hidden = 1 - np.sum(right[clear] ** 2, axis=0)
        unseen = blind | (use & (lost > 0) & (hidden > constants.NEGLIGIBLE**2))
        leverage = np.sum(left[:, clear] ** 2, axis=1)
        return cls(scale, np.where(clear, s, 0), right, leverage, unseen, use)

    def covariance(self, noise: float) -> np.ndarray:
        """Of the parameters; infinite variances where they are not determined."""
        clear = self.s > 0
        half = self.right[clear] / self.s[clear, None] / self.scale
        # Near-zero parts of held parameters are rounding errors.
        half = half * self.varied
        covariance = noise**2 * half.T @ half
        covariance[self.unseen] = covariance[:, self.unseen] = 0
        covariance[self.unseen, self.unseen] = np.inf
        return covariance


def _at_minimum(found: Candidates, n: int, p: int) -> bool:
    offset = float(found.ended.offset[0])
    return bool(found.ended.settled[0] or offset * np.sqrt((n - p) / p) <= constants.NEGLIGIBLE)


def _doubts(task: Task, search: Search, seen: Seen) -> list[str]:
    doubts, setting, found = [], search.setting, search.found
    n, p = int(np.sum(setting.counts > 0)), found.ended.x.shape[1]
    if np.sum(found.keep[0]) < n and found.length[0] > -constants.CHANCE:
        doubts.append("so many data would be outliers that the others may agree by chance")
    elif np.ptp(task.y) > 0 and null_length(task, setting, p) - found.length[0] < gain_needed(n, p):
        doubts.append(NO_BETTER)
    for other in rivals(setting, found)[:1]:
        outliers = n - int(np.sum(found.keep[other]))
        values = parameters_in_words(task.free_names, found.ended.x[other])
        doubts.append(f"another fit is nearly as likely: {values}, with {outliers} outliers")
    residual, y = found.ended.residual[0][found.keep[0]], (task.y / task.units)[found.keep[0]]
    there = setting.counts > 0
    noise = float(np.std(residual))
    limited = cut_off(task.y[there], found.ended.residual[0][there], found.keep[0][there], noise)
    if limited:
        doubts.append(AT_A_LIMIT.format(limited))
    outliers = found.ended.residual[0][there], ~found.keep[0][there]
    close = close_to_the_fit(*outliers, width=float(np.ptp(y + residual)))
    if close:
        doubts.append(
            f"{close} of the outliers follow a curve close to the fit: the model misses something "
            "there"
        )
    crowd = crowded(*outliers)
    if crowd:
        doubts.append(CROWDED.format(crowd))
    if follow_a_curve(residual, noise, float(np.ptp(y))):
        doubts.append(FOLLOW_A_CURVE)
    worse = 0.0 if search.plain else _unpredicted(setting, found)
    if worse:
        doubts.append(
            f"hold-out data are not predicted by a fit to the others: errors are {worse:.1f} "
            "times as large as they should be"
        )
    if setting.robust and np.max(seen.leverage, initial=0.0) > constants.LEVERAGE:
        doubts.append(SINGLE_DATUM)
    return doubts


def _unpredicted(setting: Setting, found: Candidates) -> float:
    """By which factor prediction errors of hold-out data are too large; 0 if they are not.

    The inliers are split into a few parts; each is held out in turn and predicted by a fit to the
    rest. The mean of squared errors, divided by their expected variances, follows Fisher's
    F distribution.
    """
    x, keep, p = found.ended.x[0], found.keep[0], found.ended.x.shape[1]
    places = np.flatnonzero(keep)
    parts = min(constants.PARTS, len(places))
    freedom = len(places) - -(-len(places) // parts) - p
    if freedom < 1:
        return 0.0
    held_out = np.zeros((parts, len(keep)), bool)
    held_out[np.arange(len(places)) % parts, places] = True
    weight = (keep & ~held_out).astype(float)
    known = tuple(np.repeat(part[:1], len(held_out), axis=0) for part in found.ended[1:3])
    fits = setting.descend(
        np.repeat(x[None], len(held_out), axis=0),
        weight,
        squares(len(held_out)),
        known=known,
        tol=constants.ROUGH,
        max_steps=constants.ROUGH_STEPS,
    )
    errors = []
    for residual, jacobian, out, used in zip(
        fits.residual, fits.jacobian, held_out, weight > 0, strict=True
    ):
        norms = np.linalg.norm(jacobian[used], axis=0)
        matrix = jacobian / np.where(norms > 0, norms, 1)
        inverse = np.linalg.pinv(matrix[used], rcond=constants.UNSEEN)
        leverage = np.sum((matrix[out] @ inverse) ** 2, axis=1)
        noise = np.sum(residual[used] ** 2) / (np.sum(used) - p)
        errors.append(residual[out] ** 2 / ((1 + leverage) * max(noise, setting.rounding**2)))
    square = float(np.mean(np.concatenate(errors)))
    return np.sqrt(square) if not square < fdtri(len(places), freedom, 1 - constants.RARE) else 0.0


def null_length(task: Task, setting: Setting, fitted: int) -> float:
    """Description length by a constant; by 0 if the model has a single parameter."""
    centre = np.median(task.y) if fitted > 1 else 0.0
    residual = (task.y - centre) / task.units
    counts = setting.counts
    scale = float(robust_scale(residual[None], counts[None], 1)[0])
    scale = max(scale, setting.rounding)
    sizes = np.maximum(np.abs(residual), setting.rounding)[None]
    numbers = np.array([scale]), np.array([setting.width])
    return float(shortest(sizes, counts[None], int(fitted > 1), *numbers)[1][0])


def gain_needed(n: Any, p: int) -> Any:
    """By how much a description must be shorter: Schwarz's price of the parameters."""
    return p / 2 * np.log(n) + 1
