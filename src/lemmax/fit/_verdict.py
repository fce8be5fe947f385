"""The verdict on a fit, and the errors of its parameters."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import bdtrc, fdtri

from ._data import Task
from ._losses import robust_scale, squares
from ._message import shortest
from ._refine import Candidates, Setting
from ._search import Search, correlation, rivals
from ._starts import typical
from .status import FitStatus

# Constants of the verdict. Those of `_LEVERAGE` and of `gain_needed` separate all right from all
# wrong fits of NIST's problems with a tenth and with three tenths of the data wrong.
# A minimum: the residual is orthogonal to the tangent space up to this part of its noise there
# (Bates and Watts' criterion).
_OFFSET = 1e-3
# A direction of scaled parameters is not seen if the data change by less than this part of what
# they change along the best direction.
_UNSEEN = 1e-10
# A parameter is unseen if doubling it changes the data by less than so many rounding errors, and it
# has a part in an unseen direction if its component is above this.
_ROUNDINGS, _COMPONENT = 1e3, 1e-3
# A datum with this leverage determines a parameter alone: nothing checks it.
_LEVERAGE = 0.99
# Residuals whose neighbours are correlated by this, of so many data or more, follow a curve, which
# matters if they are above this part of the range of the data. (Of NIST's fits one is as bad,
# Kirby2, with residuals of a five-hundredth of the range.)
_STRUCTURED, _ENOUGH, _COARSE = 0.8, 20, 0.01
# If data are called wrong, the others agree better than by chance: numbers anywhere in the range of
# the data are told by a message of length 0, and one shorter by g has a probability below exp(-g).
_CHANCE = 5.0
# More wrong data close to the curve than chance has with this probability are too many, if their
# neighbours are correlated by so many standard deviations.
_RARE, _IN_LINE = 1e-4, 2.0
# Number of hold-out sets, and how accurately the rest is fitted.
_PARTS, _ROUGH = 5, {"tol": 1e-2, "max_steps": 25}
# Noise of so many rounding errors is none.
_EXACT = 32.0
# Neighbouring residuals whose correlation is so many standard deviations are worth a remark.
_CORRELATED = 4.0


class Verdict(NamedTuple):
    """What is known about a fit."""

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
    """What tells the variance of a combination of many parameters."""
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
    exact = freedom > 0 and noise <= _EXACT * setting.rounding
    names = np.array(task.free_names)
    objections, status = [], FitStatus.EXACT if exact else FitStatus.FITTED
    remarks = []
    if not np.isfinite(found.length[0]):
        objections.append("the model is not finite where the fit ended")
        status = FitStatus.NOT_CONVERGED
    elif freedom <= 0:
        objections.append(unchecked(n))
        status = FitStatus.DOUBTFUL
    elif not exact and not _at_minimum(found, n, p):
        objections.append(
            "the steps ended before a minimum: the residual is not orthogonal to what the "
            f"parameters can change (offset {found.ended.offset[0]:.1e})"
        )
        status = FitStatus.NOT_CONVERGED
    elif np.any(seen.unseen):
        objections.append(unseen_named(names[seen.unseen]))
        status = FitStatus.NOT_IDENTIFIED
    elif not exact:
        objections += _doubts(task, search, seen)
        status = FitStatus.DOUBTFUL if objections else status
    if interrupted:
        status = FitStatus.INTERRUPTED
    if np.any(at_bound):
        remarks.append(f"at a bound: {', '.join(names[at_bound])}")
    if not exact and correlation(residual) > _CORRELATED:
        remarks.append(
            "neighbouring residuals are correlated: the model may miss something, and the standard "
            "errors are too small"
        )
    return Verdict(
        status, tuple(objections), tuple(remarks), covariance, noise, freedom, seen.unseen, at_bound
    )


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
        """Decompose the Jacobian of the right data."""
        jacobian = np.where(np.isfinite(jacobian), jacobian, 0)
        norms = np.linalg.norm(jacobian, axis=0)
        size = np.maximum(np.abs(x), np.abs(typical(task.start)))
        least = _ROUNDINGS * rounding * np.sqrt(max(len(jacobian), 1))
        blind = varied & ((norms * size < least) & (size > 0) | (norms == 0))
        use = varied & ~blind
        scale = np.where(use, norms, 1)
        left, s, right = np.linalg.svd(jacobian / scale * use, full_matrices=False)
        clear = s > _UNSEEN * np.max(s, initial=0.0)
        lost = np.sum(use) - np.sum(clear)
        # What is left of each axis by the directions that are seen.
        hidden = 1 - np.sum(right[clear] ** 2, axis=0)
        unseen = blind | (use & (lost > 0) & (hidden > _COMPONENT**2))
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


def unchecked(n: int) -> str:
    """The objection to a fit of as many data as parameters."""
    return f"there are as many parameters as right data ({n}): nothing is left to check them"


def unseen_named(names: np.ndarray) -> str:
    """The objection to parameters that the data do not determine."""
    return f"the data do not determine {', '.join(names)}"


def _at_minimum(found: Candidates, n: int, p: int) -> bool:
    offset = float(found.ended.offset[0])
    return bool(found.ended.settled[0] or offset * np.sqrt((n - p) / p) <= _OFFSET)


def _doubts(task: Task, search: Search, seen: Seen) -> list[str]:
    doubts, setting, found = [], search.setting, search.found
    n, p = int(np.sum(setting.counts > 0)), found.ended.x.shape[1]
    if np.sum(found.keep[0]) < n and found.length[0] > -_CHANCE:
        doubts.append(
            "so many data would be wrong that the others may agree with the model by chance"
        )
    elif np.ptp(task.y) > 0 and null_length(task, setting, p) - found.length[0] < gain_needed(n, p):
        doubts.append(
            "the model does not explain the data better than a constant does, as far as they can "
            "tell: too many may be wrong, or the noise too large"
        )
    for other in rivals(setting, found)[:1]:
        wrong = int(np.sum(setting.counts > 0) - np.sum(found.keep[other]))
        pairs = zip(task.free_names, found.ended.x[other], strict=True)
        values = (f"{name} = {x:.4g}" for name, x in pairs)
        doubts.append(
            f"another fit tells the data as well or nearly so: {', '.join(values)}, "
            f"with {wrong} wrong"
        )
    residual, y = found.ended.residual[0][found.keep[0]], (task.y / task.units)[found.keep[0]]
    close = _curve_of_wrong(setting, found, float(np.ptp(y + residual)))
    if close:
        doubts.append(
            f"{close} of the data called wrong follow a curve close to the fit: the model misses "
            "something there"
        )
    structured = correlation(residual) > _STRUCTURED * np.sqrt(len(residual))
    if structured and len(residual) >= _ENOUGH and np.std(residual) > _COARSE * np.ptp(y):
        doubts.append(
            "the residuals follow a curve of their own: the model misses something, or this is a "
            "local minimum"
        )
    worse = 0.0 if search.plain else _unpredicted(setting, found)
    if worse:
        doubts.append(
            f"hold-out data are not predicted by a fit to the others: errors are {worse:.1f} "
            "times as large as they should be"
        )
    if setting.robust and np.max(seen.leverage, initial=0.0) > _LEVERAGE:
        doubts.append(
            "a parameter rests on a single datum, so that nothing would show if that were wrong"
        )
    return doubts


def _curve_of_wrong(setting: Setting, found: Candidates, width: float) -> int:
    """How many data called wrong follow a curve close to that of the fit, if any do.

    Gross errors are anywhere in the range of the curve: seldom close to it, and on both sides.
    """
    residual = found.ended.residual[0][~found.keep[0] & (setting.counts > 0)]
    order = np.argsort(np.abs(residual), kind="stable")
    counts = np.arange(1, len(residual) + 1)
    share = np.minimum(np.abs(residual[order]) / width, 1.0)
    by_chance = bdtrc(counts - 1, len(residual), share)
    if np.min(by_chance, initial=1.0) >= _RARE:
        return 0
    close = np.sort(order[: int(np.argmin(by_chance)) + 1])
    return len(close) if correlation(residual[close]) > _IN_LINE else 0


def _unpredicted(setting: Setting, found: Candidates) -> float:
    """By which factor prediction errors of hold-out data are too large; 0 if they are not.

    The inliers are split into a few parts; each is held out in turn and predicted by a fit to the
    rest. The mean of squared errors, divided by their expected variances, follows Fisher's
    F distribution.
    """
    x, keep, p = found.ended.x[0], found.keep[0], found.ended.x.shape[1]
    places = np.flatnonzero(keep)
    parts = min(_PARTS, len(places))
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
        **_ROUGH,
    )
    errors = []
    for residual, jacobian, out, used in zip(
        fits.residual, fits.jacobian, held_out, weight > 0, strict=True
    ):
        norms = np.linalg.norm(jacobian[used], axis=0)
        matrix = jacobian / np.where(norms > 0, norms, 1)
        inverse = np.linalg.pinv(matrix[used], rcond=_UNSEEN)
        leverage = np.sum((matrix[out] @ inverse) ** 2, axis=1)
        noise = np.sum(residual[used] ** 2) / (np.sum(used) - p)
        errors.append(residual[out] ** 2 / ((1 + leverage) * max(noise, setting.rounding**2)))
    square = float(np.mean(np.concatenate(errors)))
    return np.sqrt(square) if not square < fdtri(len(places), freedom, 1 - _RARE) else 0.0


def null_length(task: Task, setting: Setting, fitted: int) -> float:
    """Length of the message that tells the data by a constant; by nothing, if that is the model."""
    centre = np.median(task.y) if fitted > 1 else 0.0
    residual = (task.y - centre) / task.units
    counts = setting.counts
    scale = float(robust_scale(residual[None], counts[None], 1)[0])
    constants = 1 if fitted > 1 else 0
    scale = max(scale, setting.rounding)
    sizes = np.maximum(np.abs(residual), setting.rounding)[None]
    numbers = np.array([scale]), np.array([setting.width])
    return float(shortest(sizes, counts[None], constants, *numbers)[1][0])


def gain_needed(n: Any, p: int) -> Any:
    """By how much a model must tell the data shorter: parameters cost what Schwarz charges them."""
    return p / 2 * np.log(n) + 1
