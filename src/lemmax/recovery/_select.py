"""How large the noise is, what belongs to the bulk, and which of several fits is the best one."""

from typing import NamedTuple

import numpy as np

from .._typing import Parameters
from ..maps import AbstractMap
from . import _constants as constants
from ._facts import Facts, convincing_observations


class Fitted(NamedTuple):
    """A least-squares fit to the bulk of the data."""

    map: AbstractMap
    """Of the rank of the fit."""
    x: Parameters
    residual: np.ndarray
    used: np.ndarray
    """Which observations belong to the bulk."""
    scale: float
    """Standard deviation of the noise."""
    freedom: int
    criterion: float
    """Schwarz's, to be compared with that of other fits: the smaller, the better."""
    sizes: np.ndarray | None = None
    """Of the terms that it was made of, those included that were left out."""

    @property
    def rank(self) -> int | None:
        """The number of its terms."""
        return None if self.map.ranked is None else self.map.ranked.rank


def judged(
    facts: Facts, map: AbstractMap, x: Parameters, residual: np.ndarray, freedom: int
) -> Fitted:
    """A fit, with what it explains and how good it is."""
    used, scale = bulk_of(residual, facts.known, freedom, facts.robust)
    if facts.vanishes(residual):
        used, scale = facts.known & (np.abs(residual) <= facts.zero), facts.rounding
    criterion = schwarz(facts, residual, used, scale, freedom)
    return Fitted(map, x, residual, used, scale, freedom, criterion, map.term_sizes(x))


def noise_scale(residual: np.ndarray, known: np.ndarray, freedom: int, robust: bool) -> float:
    """Standard deviation of the noise, corrected for the parameters that were fitted to it."""
    sizes = np.abs(residual[known])
    left = max(1.0, sizes.size - freedom) / sizes.size
    gaussian = constants.MEDIAN_OF_A_GAUSSIAN
    raw = np.median(sizes) / gaussian if robust else np.sqrt(np.mean(sizes**2))
    return float(raw / np.sqrt(left))


def bulk_of(
    residual: np.ndarray, known: np.ndarray, freedom: int, robust: bool
) -> tuple[np.ndarray, float]:
    """Which observations are no outliers, and the standard deviation of their residuals."""
    scale = noise_scale(residual, known, freedom, robust)
    if not robust:
        return known, scale
    sizes = np.abs(residual)
    # The bulk itself is a better measure than the median, once it is known; and with it, nothing
    # needs to be left out that Gaussian noise explains.
    for level in (constants.BULK, largest_gaussian(int(known.sum()))):
        used = known & (sizes <= level * scale)
        if np.sum(used) > freedom:
            scale = float(np.sqrt(np.sum(sizes[used] ** 2) / (np.sum(used) - freedom)))
    return used, scale


def largest_gaussian(count: int) -> float:
    """How many standard deviations the largest of so many Gaussians has, about."""
    return float(np.sqrt(2 * np.log(max(count, 2)))) + 0.5


def schwarz(
    facts: Facts, residual: np.ndarray, used: np.ndarray, scale: float, freedom: int
) -> float:
    """Schwarz's criterion: Gaussian noise on what is used, anything of the data's size elsewhere.

    The outliers have to be paid for: each costs as much as it takes to say where it is, and what
    it is. Infinite if what is used is hardly more than the fit goes through by construction,
    however small its residuals are. Of exact fits, all as good as rounding errors are, the one with
    the least freedom wins.
    """
    count, inside = facts.count, int(used.sum())
    if inside < convincing_observations(freedom) or not np.isfinite(scale):
        return float("inf")
    sizes = np.abs(facts.data[facts.known])
    scale = max(scale, float(np.finfo(facts.problem.data.dtype).eps) * float(np.max(sizes)))
    wrong = count - inside
    likelihood = np.sum((residual[used] / scale) ** 2) + inside * np.log(2 * np.pi * scale**2)
    likelihood += 2 * wrong * np.log(2 * np.max(sizes))
    where = -2 * sum(n * np.log(n / count) for n in (inside, wrong) if n)
    return float(likelihood + where + freedom * np.log(count))


def lower_ranks(bound: int) -> list[int]:
    """Ranks below a bound: all the small ones, then fewer and fewer."""
    ranks = [1, 2, 3, 4]
    while ranks[-1] < bound:
        ranks.append(-(-ranks[-1] * 3 // 2))
    return [rank for rank in ranks if rank < bound]


def nested_ranks(sizes: np.ndarray, superfluous: bool) -> list[int]:
    """The ranks that a fit with terms of these sizes contains, in the order of trial.

    Where some may be superfluous, first those before a gap, if there is one; then all: if one of
    these fits is exact, the others are not needed. Then from below.
    """
    rank = len(sizes)
    fewer = lower_ranks(rank) if rank > constants.ALL_RANKS else list(range(1, rank))
    ratios = sizes[:-1] / np.maximum(sizes[1:], np.finfo(float).tiny)
    gap = 1 + int(np.argmax(ratios)) if superfluous and np.any(ratios >= constants.GAP) else rank
    return list(dict.fromkeys([gap, rank, *fewer]))
