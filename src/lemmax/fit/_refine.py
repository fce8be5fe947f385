"""From a start to a fit of the data that are right: graduated losses, then least squares."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from ._losses import ABSOLUTE, REDESCENDING, Loss, robust_scale, squares
from ._steps import Box, Ended, Evaluate, descend

WRONG = 9.0
"""A datum is wrong if its residual exceeds the robust scale by this factor.

NIST's data, all of which are right, have residuals of up to 7.8 scales. Between 3 and 9 a residual
counts in full, and in the standard errors: these stay true, and nothing is rejected that may be
right.
"""
# The redescending loss bends at these multiples of the scale, one after the other.
_BENDS = (6.0, 3.0)
# Losses on the way are minimised only so far, and the scale is estimated so often.
_ROUGH, _ROUGH_STEPS, _ROUNDS = 1e-2, 25, 6
# A scale that falls by less than this is found.
_STABLE = 0.8
# Residuals below so many rounding errors are none.
_EXACT = 16.0


class Setting(NamedTuple):
    """What all stages of a fit share."""

    evaluate: Evaluate
    counts: np.ndarray
    """Of shape (lanes, data): 1 where there is a datum, 0 where it is missing."""
    box: Box
    rounding: np.ndarray
    """Of shape (lanes,)."""
    watch: Callable[[], None]

    def descend(self, x: np.ndarray, weight: np.ndarray, loss: Loss, **options) -> Ended:
        """Minimise a loss in every lane."""
        return descend(
            self.evaluate,
            x,
            weight,
            loss,
            self.box,
            rounding=self.rounding,
            watch=self.watch,
            **options,
        )

    def scale(self, residual: np.ndarray, counts: np.ndarray, fitted: int) -> np.ndarray:
        """The robust scale, at least at the level of rounding errors."""
        return np.maximum(robust_scale(residual, counts, fitted), _EXACT * self.rounding)


class Refined(NamedTuple):
    """A fit in each lane."""

    ended: Ended
    keep: np.ndarray
    """Which data it takes for right."""
    noise: np.ndarray
    """Standard deviation of these; NaN without degrees of freedom."""


def absolute(
    setting: Setting, x: np.ndarray, *, known=None, reach: float = 1.0, fall: float = 0.0
) -> Ended:
    """Least absolute deviations, smoothed at a scale that falls with the residuals."""
    p = x.shape[1]
    residual, jacobian = setting.evaluate(np.arange(len(x)), x) if known is None else known
    scale = setting.scale(residual, setting.counts, p)
    ended = None
    for _ in range(_ROUNDS):
        ended = setting.descend(
            x,
            setting.counts,
            Loss(ABSOLUTE, scale),
            tol=_ROUGH,
            max_steps=_ROUGH_STEPS,
            known=(residual, jacobian),
            reach=reach,
        )
        x, residual, jacobian = ended.x, ended.residual, ended.jacobian
        new = np.minimum(setting.scale(residual, setting.counts, p), scale)
        if np.all(new >= _STABLE * scale):
            break
        scale = new
    assert ended is not None
    return ended


def refine(setting: Setting, ended: Ended) -> Refined:
    """A redescending loss, then least squares on what is right, until that no longer changes."""
    p = ended.x.shape[1]
    for bend in _BENDS:
        scale = setting.scale(ended.residual, setting.counts, p)
        ended = setting.descend(
            ended.x,
            setting.counts,
            Loss(REDESCENDING, bend * scale),
            tol=_ROUGH,
            max_steps=_ROUGH_STEPS,
            known=(ended.residual, ended.jacobian),
        )
    keep = right(setting, ended.residual, p)
    for k in range(_ROUNDS):
        last = k == _ROUNDS - 1
        options = {} if last else {"tol": _ROUGH, "max_steps": _ROUGH_STEPS}
        ended = fit_right(setting, ended, keep, **options)
        new = right(setting, ended.residual, p)
        if last or np.array_equal(new, keep):
            break
        keep = new
    if not last:
        ended = fit_right(setting, ended, keep)
    return Refined(ended, keep, noise_of(ended.residual, keep, p))


def fit_right(setting: Setting, ended: Ended, keep: np.ndarray, **options) -> Ended:
    """Least squares on the data that are right."""
    loss = squares(len(ended.x))
    known = ended.residual, ended.jacobian
    return setting.descend(ended.x, keep.astype(float), loss, known=known, **options)


def right(setting: Setting, residual: np.ndarray, fitted: int) -> np.ndarray:
    """The data within the limit of the scale, which is theirs."""
    keep = setting.counts > 0
    for _ in range(_ROUNDS):
        scale = setting.scale(residual, keep, fitted)
        new = (setting.counts > 0) & (np.abs(residual) <= WRONG * scale[:, None])
        if np.array_equal(new, keep):
            break
        keep = new
    return keep


def noise_of(residual: np.ndarray, keep: np.ndarray, fitted: int) -> np.ndarray:
    """Standard deviation of the residuals of the right data in each lane."""
    freedom = np.sum(keep, axis=1) - fitted
    total = np.sum(np.where(keep, residual, 0) ** 2, axis=1)
    return np.sqrt(np.where(freedom > 0, total / np.maximum(freedom, 1), np.nan))


def criterion(
    noise: np.ndarray, keep: np.ndarray, counts: np.ndarray, fitted: int, width: np.ndarray
) -> np.ndarray:
    """How badly a fit explains the data: the length of a message that tells them, in nats.

    A right datum costs the logarithm of the noise, a wrong one that of the width of the data, and
    which ones are wrong has to be said.
    """
    n, kept = np.sum(counts > 0, axis=1), np.sum(keep, axis=1)
    which = gammaln(n + 1) - gammaln(kept + 1) - gammaln(n - kept + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        length = (kept - fitted) * np.log(noise / width) + which
    return np.where((kept > fitted) & np.isfinite(noise), length, np.inf)
