"""The verdict on a fit: a list of tests, each of which may object."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from ..maps import AbstractMap
from . import _constants as constants
from ._facts import convincing_observations
from ._objections import Lines, Objection
from ._select import Fitted, largest_gaussian
from ._tangent import Tangent


class Certificate(NamedTuple):
    """What the data prove about a fit."""

    exact: bool
    """Whether residuals of inliers are rounding errors."""
    explained: np.ndarray
    """Mask of the inliers."""
    freedom: int
    noise: float
    """Standard deviation of the residuals of inliers."""
    error: float
    """Expected relative error of the point."""
    objections: tuple[Objection, ...]
    """Failed tests; none if the fit is certified."""
    doubtful: Lines = ()
    """Rows and columns, or slices, that the data do not determine; one list for each mode."""

    @property
    def holds(self) -> bool:
        """Whether the fit is certified."""
        return not self.objections

    @classmethod
    def of_nothing(cls, fitted: Fitted, said: str) -> "Certificate":
        """For a point that no test can be applied to, and whose outliers are not known."""
        every = np.ones(fitted.used.shape, bool)
        return cls(False, every, fitted.freedom, math.nan, math.nan, (Objection(said),))


class Case(NamedTuple):
    """A fit as the tests see it."""

    exact: bool
    residual: np.ndarray
    data: np.ndarray
    known: np.ndarray
    """Mask of the observations that are not missing."""
    labels: np.ndarray | None
    """Equal numbers for observations of the same quantity; None if there are none."""
    used: np.ndarray
    """Mask of the inliers that the point was fitted to."""
    noise: float
    """Root mean square of their residuals."""
    level: float
    """The largest residual of an inlier."""
    norm: float
    """Norm of the point."""
    tangent: Tangent
    """How well the inliers determine the point."""
    unsettled: float = 0.0
    """Distance to points of lower ranks, where chance may be all that the other terms explain."""
    short: Lines = ()
    """Rows and columns with fewer inliers than terms."""
    rivals: Callable[[], tuple[float, Lines]] | None = None
    """Distance to other fits that explain as many entries of a row, and the rows concerned."""
    left_over: Callable[[], float] | None = None
    """Norm of the terms that remain in the residuals."""


class Finding(NamedTuple):
    """The outcome of a test."""

    objection: Objection | None = None
    error: float = 0.0
    """Relative error of the point that the test allows for."""
    doubtful: Lines | None = None


Test = Callable[[Case], Finding]
PASSED = Finding()


def certified(case: Case) -> Certificate:
    """Apply all quick tests, then the expensive ones until one objects."""
    findings = [test(case) for test in QUICK_TESTS]
    for test in EXPENSIVE_TESTS:
        if all(finding.objection is None for finding in findings):
            findings.append(test(case))
    objections = tuple(f.objection for f in findings if f.objection is not None)
    doubtful = [f.doubtful for f in findings if f.doubtful is not None]
    largest = largest_gaussian(int(case.known.sum())) * case.noise
    explained = case.known & (np.abs(case.residual) <= largest)
    return Certificate(
        exact=case.exact,
        explained=case.used if case.exact else explained,
        freedom=case.tangent.freedom,
        noise=0.0 if case.exact else case.noise,
        error=math.hypot(*(finding.error for finding in findings)),
        objections=objections,
        doubtful=doubtful[-1] if doubtful else case.short,
    )


def _objected(said: str) -> Finding:
    return Finding(Objection(said))


def _telling(case: Case) -> np.ndarray:
    """Observations above the noise: the zero point explains the others as well."""
    return case.known & (np.abs(case.data) > case.level)


def more_than_chance(case: Case) -> Finding:
    """Any fit goes through as many observations as it has degrees of freedom."""
    telling, freedom = _telling(case), case.tangent.freedom
    merits, wanted = case.used & telling, convincing_observations(freedom)
    if not case.exact:
        wanted = max(wanted, freedom + constants.SPARE_OF_NOISE)
    different, count = (
        int(which.sum()) if case.labels is None else len(np.unique(case.labels[which]))
        for which in (merits, telling)
    )
    if different < wanted:
        return _objected(
            f"it explains {different} different observations beyond their errors with {freedom} "
            f"degrees of freedom; at least {wanted} are needed to be more than chance"
        )
    rest = float(np.mean((case.residual[merits] / case.data[merits]) ** 2))
    if log_chance(rest, different, count, freedom) <= math.log(constants.CHANCE):
        return PASSED
    return _objected(
        f"it explains {different} different observations beyond their errors with {freedom} "
        "degrees of freedom, but a fit to unrelated data may do as well"
    )


def log_chance(rest: float, hits: int, count: int, freedom: int) -> float:
    """Logarithm of the expected number of sets of data that are explained by chance (a bound).

    If data have nothing to do with the fit, what least squares leave of so many hits follows the
    beta law of the F test, here for data divided by their sizes. Any set of so many may be hit. A
    term that is fitted to noise is the leading one: the square of the norm of an n x n matrix of
    noise is 4 n, of a term of 2 n degrees of freedom. So each of these has twice the ways.
    """
    half, free = (hits - freedom) / 2, freedom / 2
    law = half * math.log(max(rest, math.ulp(0.0))) - math.log(half) - special.betaln(half, free)
    sets = -math.log(count + 1) - special.betaln(count - hits + 1, hits + 1)
    return float(law + sets + freedom * math.log(2))


def more_than_half(case: Case) -> Finding:
    """Another point might explain the other half."""
    telling, checked = _telling(case), case.used.copy()
    if case.tangent.lone is not None:
        # A fit explains whatever it goes through because nothing else is there.
        checked[case.used] = ~case.tangent.lone
    hits, count = int(np.sum(checked & telling)), int(telling.sum())
    if hits > count / 2:
        return PASSED
    return _objected(f"it explains {hits} of {count} observations, no more than half")


def few_zeros(case: Case) -> Finding:
    """Where factors have zeros, one term alone may explain more than half of the observations."""
    telling, zeros = _telling(case), int(np.sum(case.known & (case.data == 0)))
    missed, count = int(np.sum(telling & ~case.used)), int(telling.sum())
    if min(zeros / max(zeros + count, 1), missed / max(count, 1)) <= constants.MANY_ZEROS:
        return PASSED
    return _objected(
        f"{zeros} observations are zeros, so that some of the terms may explain most of the others "
        f"by themselves; {missed} of {count} others are not explained"
    )


def small_error(case: Case) -> Finding:
    """Errors of the inliers, and of what may be one, propagated to the point.

    They are infinite if the inliers do not determine every direction in which it can move. Few
    outliers a little above the noise may be noise: it is underestimated without them. Of few
    observations the variance is badly known: its posterior mean counts, which is larger.
    """
    if np.isinf(case.tangent.error):
        where = " (too little of {} is explained)" if any(case.short) else ""
        said = f"there are directions in which it can move that no observation sees{where}"
        return Finding(Objection(said, case.short, unseen=True), np.inf)
    noise = case.noise
    if not case.exact:
        sizes = np.abs(case.residual[case.known])
        counted = sizes[sizes <= constants.BULK * case.level]
        left = max(len(counted) - case.tangent.freedom - 2, 1)
        noise = max(noise, float(np.sqrt(np.sum(counted**2) / left)))
    error = math.hypot(noise * case.tangent.error, 0 if case.exact else case.unsettled) / case.norm
    limit = constants.NOISY_ERROR
    if case.exact:  # rounding errors of the data may be all of a small point
        limit = max(constants.EXACT_ERROR, 1e3 * case.level / case.norm)
    if error <= limit:
        return Finding(error=error)
    said = (
        f"rounding errors may have grown to a relative error of {error:.0e}"
        if case.exact
        else f"the noise allows for a relative error of {error:.1g}"
    )
    return Finding(Objection(said), error)


def no_rivals(case: Case) -> Finding:
    """Other values of a row must not explain as many of its entries."""
    if case.rivals is None:
        return PASSED
    distance, which = case.rivals()
    error, objection = distance / case.norm, None
    if error > (constants.EXACT_ERROR if case.exact else constants.NOISY_ERROR):
        said = (
            "in {} so much is wrong that other values explain the rest as well (and change the "
            f"answer by {error:.1g} times its size); leave them out"
        )
        objection = Objection(said, which, unseen=True)
    return Finding(objection, error, which)


def nothing_left_over(case: Case) -> Finding:
    """Terms for which the bound on the rank had no room remain in the residuals."""
    if case.exact or case.left_over is None:
        return PASSED
    missing, objection = case.left_over() / case.norm, None
    if missing > constants.NOISY_ERROR:
        objection = Objection(
            f"the residuals are not noise, but of low rank as well, and {missing:.1g} times the "
            "size of the answer: the bound on the rank may be too low"
        )
    return Finding(objection, missing)


QUICK_TESTS: tuple[Test, ...] = (
    more_than_chance,
    more_than_half,
    few_zeros,
    small_error,
    nothing_left_over,
)
EXPENSIVE_TESTS: tuple[Test, ...] = (no_rivals,)


def needed_observations(map: AbstractMap, freedom: int, wrong: float) -> int:
    """So many that no other point of that rank agrees with as many: ``m (1 - 2 p) = dof(2 r)``.

    Two points that each fit all but p m of the observations agree in m (1 - 2 p) of them, and
    their difference has twice the rank.
    """
    if map.ranked is not None:
        freedom = map.ranked.with_rank(2 * map.ranked.rank).degrees_of_freedom
    return int(np.ceil(freedom / (1 - 2 * wrong if wrong < 1 / 2 else 1)))
