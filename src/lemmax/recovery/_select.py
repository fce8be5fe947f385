"""The noise level, the bulk of the residuals, and the criterion that compares fits."""

from typing import NamedTuple

import numpy as np
from scipy import special

from .._typing import Parameters
from ..maps import AbstractMap
from . import _constants as constants
from ._facts import Facts, convincing_observations

# The median of the absolute value of a standard Gaussian.
_MEDIAN = float(special.ndtri(0.75))


class Fitted(NamedTuple):
    """A least-squares fit to the bulk of the data."""

    map: AbstractMap
    """Of the rank of the fit."""
    x: Parameters
    residual: np.ndarray
    used: np.ndarray
    """Mask of the bulk."""
    scale: float
    """Standard deviation of the noise."""
    freedom: int
    criterion: float
    """Schwarz's criterion; smaller is better."""
    sizes: np.ndarray | None = None
    """Sizes of its terms, then of the terms that were cut off."""

    @property
    def rank(self) -> int | None:
        """The number of terms."""
        return None if self.map.ranked is None else self.map.ranked.rank


def judged(facts: Facts, x: Parameters, rank: int | None, residual: np.ndarray) -> Fitted:
    """A fit of so many terms with its inliers, noise level and criterion."""
    map, freedom = facts.map, facts.freedom(x, rank)
    if map.ranked is not None and rank is not None:
        map, x = map.ranked.first_terms(x, rank)
    used, scale = bulk_of(residual, facts.known, freedom, facts.robust)
    if facts.vanishes(residual):
        used, scale = facts.known & (np.abs(residual) <= facts.zero), facts.rounding
    criterion = schwarz(facts, residual, used, scale, freedom)
    return Fitted(map, x, residual, used, scale, freedom, criterion, map.term_sizes(x))


def bulk_of(
    residual: np.ndarray, known: np.ndarray, freedom: int, robust: bool
) -> tuple[np.ndarray, float]:
    """The inliers, and the standard deviation of their residuals without what the fit took."""
    sizes, count = np.abs(residual), int(known.sum())
    raw = np.median(sizes[known]) / _MEDIAN if robust else np.sqrt(np.mean(sizes[known] ** 2))
    scale = float(raw * np.sqrt(count / max(1.0, count - freedom)))
    if not robust:
        return known, scale
    # The standard deviation of the bulk is more accurate than the median, and with it the largest
    # residual that Gaussian noise explains is an inlier, too.
    for level in (constants.BULK, largest_gaussian(count)):
        used = known & (sizes <= level * scale)
        if np.sum(used) > freedom:
            scale = float(np.sqrt(np.sum(sizes[used] ** 2) / (np.sum(used) - freedom)))
    return used, scale


def largest_gaussian(count: int) -> float:
    """The size of the largest of so many standard Gaussians, about."""
    return float(np.sqrt(2 * np.log(max(count, 2)))) + 0.5


def schwarz(
    facts: Facts, residual: np.ndarray, used: np.ndarray, scale: float, freedom: int
) -> float:
    """Schwarz's criterion: Gaussian noise at inliers, a uniform law at outliers.

    Every outlier costs the description of its place and its value. The criterion is infinite if
    the inliers are hardly more than the fit goes through by construction, however small their
    residuals. Of exact fits the one with the fewest degrees of freedom wins.
    """
    count, inside = facts.count, int(used.sum())
    if inside < convincing_observations(freedom) or not np.isfinite(scale):
        return float("inf")
    sizes = np.abs(facts.data[facts.known])
    scale = max(scale, float(np.finfo(facts.problem.data.dtype).eps) * float(np.max(sizes)))
    wrong = count - inside
    likelihood = 2 * inside * np.log(np.sqrt(2 * np.pi) * scale)
    likelihood += 2 * wrong * np.log(2 * np.max(sizes)) + np.sum((residual[used] / scale) ** 2)
    where = -2 * sum(n * np.log(n / count) for n in (inside, wrong) if n)
    return float(likelihood + where + freedom * np.log(count))


def lower_ranks(bound: int) -> list[int]:
    """Ranks below a bound: all small ones, then a geometric sequence."""
    ranks = [1, 2, 3, 4]
    while ranks[-1] < bound:
        ranks.append(-(-ranks[-1] * 3 // 2))
    return [rank for rank in ranks if rank < bound]


def nested_ranks(sizes: np.ndarray, superfluous: bool) -> list[int]:
    """Ranks to try for a fit with terms of these sizes, in order.

    If terms may be superfluous, first those before the largest gap; then all of them, since an
    exact fit ends the trials; then upwards from 1.
    """
    rank = len(sizes)
    fewer = lower_ranks(rank) if rank > constants.ALL_RANKS else list(range(1, rank))
    ratios = sizes[:-1] / np.maximum(sizes[1:], np.finfo(float).tiny)
    gap = 1 + int(np.argmax(ratios)) if superfluous and np.any(ratios >= constants.GAP) else rank
    return list(dict.fromkeys([gap, rank, *fewer]))
