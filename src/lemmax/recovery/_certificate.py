"""What a fit proves, and what it does not."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..maps import AbstractMap
from . import _constants as constants
from ._facts import convincing_observations
from ._kept_aside import Predictions
from ._objections import Objection
from ._select import largest_gaussian
from ._tangent import Tangent


class Certificate(NamedTuple):
    """The evidence for a fit."""

    exact: bool
    """Whether the observations that it explains are explained up to rounding errors."""
    explained: np.ndarray
    """Which observations it explains."""
    freedom: int
    noise: float
    """Standard deviation of what it does not explain in those."""
    error: float
    """The relative error of the point to expect."""
    objections: tuple[Objection, ...]
    """Why it is not to be believed; none if it is."""
    unseen: bool
    """Whether there are directions in which the point can move that no observation sees."""
    doubtful: tuple[list[int], ...] = ()
    """Rows and columns, or slices, about which too little is known; one list for each mode."""

    @property
    def holds(self) -> bool:
        """Whether the fit is an answer."""
        return not self.objections

    @classmethod
    def interrupted(cls, known: np.ndarray, freedom: int) -> "Certificate":
        """Of a search that was stopped: nothing is known."""
        said = (Objection("the search was stopped"),)
        return cls(False, known, freedom, float("nan"), float("nan"), said, unseen=False)


class Lines(NamedTuple):
    """Rows and columns, or slices: wrong entries of one may be explained by chance."""

    lonely: tuple[list[int], ...]
    """Those that have a component of their own, one list for each mode."""
    contested: Callable[[np.ndarray, float, int], tuple[float, tuple[list[int], ...]]]
    """How far it is from rivals that explain as many entries of a row or column; of which."""
    short: Callable[[np.ndarray], tuple[list[int], ...]]
    """Those of which fewer entries are explained than there are terms."""


class Fit(NamedTuple):
    """What is judged: a point through its residuals, and what they say of its tangents."""

    residual: np.ndarray
    data: np.ndarray
    known: np.ndarray
    """Which observations there are; the others are missing."""
    labels: np.ndarray
    """The same number for observations of the same thing."""
    norm: float
    """Of the point."""
    tangent: Callable[[np.ndarray], Tangent]
    """How well given observations see its tangents."""
    lines: Lines | None = None
    """Of entries of a matrix or tensor, fitted by a robust loss."""
    left_over: Callable[[float], float] | None = None
    """Of entries: how large what stands out of the residuals is, those clipped at a level."""


def certify_exact(fit: Fit, rounding: float) -> Certificate:
    """A fit to exact data: through more observations than chance allows, and than half."""
    sizes = np.abs(fit.residual)
    explained = fit.known & (sizes <= rounding)
    tangent = fit.tangent(explained)
    typical = float(np.sqrt(np.mean(sizes[explained] ** 2))) if np.any(explained) else np.inf
    error = _relative(tangent, typical, fit.norm)
    objections = _objections(fit, explained, tangent, rounding)
    contested, doubtful = _contested(fit, explained, rounding, 0, constants.EXACT_ERROR, objections)
    if error > max(constants.EXACT_ERROR, 1e3 * rounding / max(fit.norm, np.finfo(float).tiny)):
        objections.append(
            Objection(f"rounding errors may have grown to a relative error of {error:.0e}")
        )
    found = _certificate(True, explained, fit, tangent, 0.0, error, contested, objections)
    return found._replace(doubtful=doubtful)


def certify_noise(
    fit: Fit,
    used: np.ndarray,
    scale: float,
    predict: Callable[[], Predictions],
) -> Certificate:
    """A fit to noisy data: most of what it has not seen, it predicts as well as what it has.

    ``used`` are the observations it was fitted to, ``predict`` gives the residuals of a fit made
    without some of the observations, and says which.
    """
    count = int(fit.known.sum())
    explained = fit.known & (np.abs(fit.residual) <= largest_gaussian(count) * scale)
    tangent = fit.tangent(used)
    error = _relative(tangent, scale, fit.norm)
    objections = _objections(fit, used, tangent, constants.BULK * scale)
    # A rival that goes through few entries has their noise, and may miss one that it explains.
    contested, doubtful = _contested(
        fit, used, constants.BULK * scale, 1, constants.NOISY_ERROR, objections
    )
    missing = _missing(fit, scale, objections)
    low, high = np.quantile(np.abs(fit.residual[used]), (0.25, 0.75)) if np.any(used) else (0, 0)
    if low < constants.CAUCHY * high:
        said = (
            "it explains a part of the data far better than the others: what it leaves is no noise"
        )
        objections.append(Objection(said))
    if error > constants.NOISY_ERROR:
        objections.append(Objection(f"the noise allows for a relative error of {error:.1g}"))
    error = float(np.hypot(error, missing))
    if not objections:
        objections += _mispredictions(predict(), scale, float(np.mean(used[fit.known])))
    found = _certificate(False, explained, fit, tangent, scale, error, contested, objections)
    return found._replace(doubtful=doubtful)


def _mispredictions(predictions: Predictions, scale: float, wanted: float) -> list[Objection]:
    """Whether what was kept aside is predicted as well as the share that a fit explains."""
    judged = predictions.hidden & (predictions.spread <= constants.VAGUE)
    count = int(judged.sum())
    if count <= constants.HALF * predictions.hidden.sum():
        return [Objection("most observations cannot be told from the others")]
    sizes = np.abs(predictions.residual[judged]) / predictions.spread[judged]
    share = float(np.mean(sizes <= constants.BULK * scale))
    margin = 3 * np.sqrt(wanted * (1 - wanted) / count) + 0.05
    if share >= max(wanted - margin, constants.HALF):
        return []
    said = f"of observations kept aside it predicts {share:.0%}, of the others {wanted:.0%}"
    return [Objection(said)]


def nothing_found(fit: Fit, freedom: int) -> Certificate:
    """The zero point, for want of a better one."""
    objections = (Objection("nothing in the data stands out, and the point is zero"),)
    scale = float(np.median(np.abs(fit.residual[fit.known])))
    return Certificate(False, fit.known, freedom, scale, np.inf, objections, unseen=False)


def _certificate(
    exact: bool,
    explained: np.ndarray,
    fit: Fit,
    tangent: Tangent,
    noise: float,
    error: float,
    contested: float,
    objections: list[Objection],
) -> Certificate:
    limit = constants.EXACT_ERROR if exact else constants.NOISY_ERROR
    unseen = tangent.weakest < constants.LEAST_GAIN or _lonely(fit) or contested > limit
    error = float(np.hypot(error, contested))
    return Certificate(exact, explained, tangent.freedom, noise, error, tuple(objections), unseen)


def _lonely(fit: Fit) -> bool:
    return fit.lines is not None and any(fit.lines.lonely)


def _contested(
    fit: Fit,
    explained: np.ndarray,
    tolerance: float,
    slack: int,
    limit: float,
    objections: list[Objection],
) -> tuple[float, tuple[list[int], ...]]:
    """The relative error if rivals are right; an objection if that is beyond the limit.

    With the rows and columns about which too little is known.
    """
    if fit.lines is None or fit.norm == 0:
        return 0.0, ()
    if objections:
        return 0.0, fit.lines.short(explained)
    distance, which = fit.lines.contested(explained, tolerance, slack)
    if distance > limit * fit.norm:
        objections.append(
            Objection(
                "in {} so much is wrong that other values explain the rest as well (and change the "
                f"answer by {distance / fit.norm:.1g} times its size); leave them out",
                which,
            )
        )
    return distance / fit.norm, which


def _missing(fit: Fit, scale: float, objections: list[Objection]) -> float:
    """The relative error for want of terms; an objection if that is beyond the limit."""
    if fit.left_over is None or fit.norm == 0:
        return 0.0
    missing = fit.left_over(constants.BULK * scale) / fit.norm
    if missing > constants.NOISY_ERROR:
        objections.append(
            Objection(
                f"what it leaves is not noise, but of low rank as well, and {missing:.1g} times "
                "the size of the answer: the bound on the rank may be too low"
            )
        )
    return missing


def _relative(tangent: Tangent, size: float, norm: float) -> float:
    return float(size * tangent.error / norm) if norm > 0 else np.inf


def _objections(fit: Fit, explained: np.ndarray, tangent: Tangent, level: float) -> list[Objection]:
    """What speaks against a fit whose residuals are errors up to a level.

    It is no merit to explain data of that size: a point of fewer terms, or none at all, does so,
    too.
    """
    zeros = int(np.sum(fit.known & (fit.data == 0)))
    telling = fit.known & (np.abs(fit.data) > level)
    merits = explained & telling
    count, hits = int(telling.sum()), int(merits.sum())
    different = _different(fit.labels[merits], fit.labels.size)
    wanted = convincing_observations(tangent.freedom)
    objections = []
    if different < wanted:
        objections.append(
            Objection(
                f"it explains {different} different observations beyond their errors with "
                f"{tangent.freedom} degrees of freedom; at least {wanted} are needed to be more "
                "than chance"
            )
        )
    if hits <= constants.HALF * count:
        said = f"it explains {hits} of {count} observations, no more than half"
        objections.append(Objection(said))
    if zeros > constants.MANY_ZEROS * (zeros + count) and hits < (1 - constants.MANY_ZEROS) * count:
        said = (
            f"{zeros} observations are zeros, so that a part of the terms may explain most of the "
            f"others by itself; {count - hits} of {count} others are not explained"
        )
        objections.append(Objection(said))
    if tangent.weakest < constants.LEAST_GAIN:
        short = () if fit.lines is None else fit.lines.short(explained)
        where = " (too little of {} is explained)" if any(short) else ""
        said = f"there are directions in which it can move that no observation sees{where}"
        objections.append(Objection(said, short))
    if fit.lines is not None and _lonely(fit):
        said = "a component of its own would explain whatever is in {}"
        objections.append(Objection(said, fit.lines.lonely))
    return objections


def _different(numbers: np.ndarray, size: int) -> int:
    """How many different whole numbers there are; without sorting, if they are below a size."""
    if numbers.size == 0 or np.max(numbers) >= size:
        return len(np.unique(numbers))
    return int(np.count_nonzero(np.bincount(numbers)))


def needed_observations(map: AbstractMap, freedom: int, wrong: float) -> int:
    """So many that no other point of that rank agrees with as many: ``m (1 - 2 p) = dof(2 r)``.

    Two points that each fit all but p m of the observations agree in m (1 - 2 p) of them, and
    their difference has twice the rank.
    """
    if map.ranked is not None:
        freedom = map.ranked.with_rank(2 * map.ranked.rank).degrees_of_freedom
    return int(np.ceil(freedom / (1 - 2 * wrong if wrong < constants.HALF else 1)))
