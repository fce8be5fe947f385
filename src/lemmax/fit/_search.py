"""The search for the best fit: several starts, the best chosen, the others remembered."""

import functools
from collections.abc import Callable

import numpy as np

from . import _constants as constants
from ._losses import squares
from ._message import preference
from ._order import correlation
from ._refine import (
    Candidates,
    Setting,
    absolute,
    among_inliers,
    at,
    candidates,
    joined,
    judge,
    neighbours,
    refine,
    scaled,
    settle,
    settled,
)
from ._starts import linear_parameters, solve_linear, variations
from ._steps import Ended

# Added to the number of steps of candidates that have been followed to their minima.
_TRIED = 100_000


class Search:
    """Fits from more and more starts; `found` has the best first, at any time.

    Parameters
    ----------
    setting : Setting
    start : array of shape (p,)
    others : array of shape (starts, p)
        Further starts that the user gave.
    tries : int
        Most variations of the start to look at.
    """

    def __init__(self, setting: Setting, start: np.ndarray, others: np.ndarray, tries: int):
        self.setting, self.start, self.tries = setting, start, tries
        self.given = np.concatenate([start[None], others])
        self.rng = np.random.default_rng(0)
        begun = at(setting, self.given)
        if not np.any(np.isfinite(begun.value)):
            # Not the start, but something near it may do.
            near = at(setting, variations(start, setting.box, constants.FIRST_ROUND, self.rng))
            fine = np.flatnonzero(np.isfinite(near.value))[: constants.FEW]
            begun = Ended(*(part[fine] for part in near)) if fine.size else begun
            self.given = begun.x
            self.start = begun.x[0]
        # Not judged yet: that is for those who stop before the first fit.
        lengths = np.where(np.isfinite(begun.value), 0.0, np.inf)
        keep = np.repeat(setting.counts[None] > 0, len(lengths), axis=0)
        self.found = Candidates(begun, keep, lengths, np.ones(len(lengths), bool))
        self.plain = False
        """Whether least squares from the start leave nothing to look for."""
        self.known = begun.residual, begun.jacobian
        self.starts = len(self.given)

    @property
    def hopeless(self) -> bool:
        """Whether the model is finite at no start, nor near it."""
        return not np.any(np.isfinite(self.found.ended.value))

    def run(self, report: Callable[[int, float], None]) -> None:
        """Look until the best fit is convincing, or all is tried."""
        self._begin()
        if self.plain:
            return
        report(self.starts, float(self.found.ended.value[0]))
        while True:
            self._look(report)
            before = self.found.length[0]
            self._compare()
            # What convinced may have lost to a rival whose residuals follow a curve.
            calm = correlation(self._residual) <= constants.WEAKLY_CORRELATED
            if self.tries == 0 or calm or not self.found.length[0] < before:
                break

    def _look(self, report: Callable[[int, float], None]) -> None:
        """Fit from variations of the start, until the best fit is convincing."""
        while self.tries > 0 and not self.convincing:
            before = self.found.length[0]
            first = self.starts == len(self.given)
            count = min(self.tries, constants.FIRST_ROUND) if first else self.tries
            self.tries -= count
            self.starts += count
            self._vary(count)
            report(self.starts, float(self.found.ended.value[0]))
            # Weak correlation alone is no reason to go on if all starts lead here.
            weak = correlation(self._residual) <= constants.WEAK * np.sqrt(len(self._residual))
            if self._right_so_far and weak and self.found.length[0] > before - constants.AGREE:
                break

    def _begin(self) -> None:
        """Least squares from the given starts, then robust fits if there is a reason."""
        setting, plain = self.setting, self._least_squares()
        self.found = candidates(setting, plain)
        self.plain = plainly_right(setting, self.found)
        if self.plain:
            return
        if setting.robust:
            begun = [plain.x, self.given]
            if np.any(self.linear):
                begun.append(solve_linear(setting, self.given, self.linear)[0])
            near = settled(setting, plain, **constants.NEAR_MINIMUM)
            ended = absolute(setting, np.concatenate(begun))
            self.found = joined(near, refine(setting, ended), among_inliers(setting, ended))
        self.found = _best(setting, self.found)

    def _least_squares(self) -> Ended:
        setting, given = self.setting, self.given
        loss = squares(len(given))
        return setting.descend(
            given, setting.counts, loss, known=self.known, **constants.AT_MINIMUM
        )

    @functools.cached_property
    def linear(self) -> np.ndarray:
        """Which parameters are eliminated from further starts: those that are linear."""
        if not self.setting.robust:
            return np.zeros(len(self.start), bool)
        return linear_parameters(self.setting, self.start)

    @property
    def _residual(self) -> np.ndarray:
        """Of the inliers of the best fit."""
        return self.found.ended.residual[0][self.found.keep[0]]

    def _compare(self) -> None:
        """Look for rivals of the best fit, and follow them to their minima."""
        setting = self.setting
        if setting.robust and self.found.ended.settled[0] and np.isfinite(self.found.length[0]):
            near = neighbours(setting, self.found.of(np.array([0])), **constants.AT_MINIMUM)
            near.ended.steps[:] += _TRIED + 1
            self._add(near)
        found = self.found
        for _ in range(constants.FEW):
            rough = [k for k in _near(setting, found) if not _final(found, k)]
            if not rough:
                break
            _polish(setting, found, rough[0])
        self.found = _best(setting, found)

    def _vary(self, count: int) -> None:
        setting = self.setting.wide
        deep = setting.robust and (self._fragile or not self._right_so_far)
        tried = self._promising(count, lambda r: judge(setting, r, len(self.start))[1])
        if not setting.robust:
            loss = squares(len(tried))
            ended = setting.descend(tried, setting.counts, loss, **constants.NEAR_MINIMUM)
            self._add(candidates(setting, ended))
            return
        self._add(refine(setting, absolute(setting, tried), deep=deep))
        if deep:
            # Least absolute deviations may lead away from where gross errors have no influence.
            # Where fits agree on few of these, only other minima are looked for.
            near = np.concatenate([solve_linear(setting, self.given, self.linear)[0], tried])
            self._add(refine(setting, at(setting, near), deep=True))
        if self._fragile or not self._right_so_far:
            self._add(_subsets(setting, self.found, self.given, self.rng))

    def _promising(self, count: int, cost: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The best of so many variations of the start, linear parameters eliminated."""
        tried = variations(self.start, self.setting.box, count, self.rng)
        tried, residual = solve_linear(self.setting.wide, tried, self.linear)
        followed = -(-count // constants.FOLLOWED)
        return tried[np.argsort(cost(residual), kind="stable")[:followed]]

    def _add(self, more: Candidates) -> None:
        self.found = _best(self.setting, joined(self.found, more))

    @property
    def convincing(self) -> bool:
        """Whether there is no reason to look further."""
        agreed = self._right_so_far and not self._fragile
        return agreed and correlation(self._residual) <= constants.WEAKLY_CORRELATED

    @property
    def _fragile(self) -> bool:
        """Whether few data decide, or noise is large: then outliers easily go unnoticed."""
        found, setting = self.found, self.setting
        if not setting.robust:
            return False
        keep, p = found.keep[0], found.ended.x.shape[1]
        noise = float(setting.scale(found.ended.residual[:1], setting.counts, p)[0])
        jacobian = found.ended.jacobian[0][keep]
        left, s, _ = np.linalg.svd(scaled(jacobian), full_matrices=False)
        leverage = np.sum(left[:, s > constants.UNSEEN * np.max(s, initial=0.0)] ** 2, axis=1)
        few = np.sum(setting.counts > 0) < max(constants.ENOUGH, 3 * p)
        high = np.max(leverage, initial=0.0) > constants.HIGH_LEVERAGE
        return bool(few or high or noise > constants.SMALL_NOISE * setting.width)

    @property
    def _right_so_far(self) -> bool:
        found, setting = self.found, self.setting
        if not found.ended.settled[0] or not np.isfinite(found.length[0]):
            return False
        wrong = 1 - np.sum(found.keep[0]) / np.sum(setting.counts > 0)
        agreeing = np.sum(found.length <= found.length[0] + constants.AGREE)
        needed = constants.FEW if setting.robust else 1
        return bool(agreeing >= needed and wrong <= constants.FEW_WRONG)


def plainly_right(setting: Setting, found: Candidates) -> bool:
    """Whether least squares from the start leave nothing to look for.

    That is noise far below the range of the data, of one size, without outliers and without
    correlation of neighbours, in enough data to decide.
    """
    there = setting.counts > 0
    n, p = int(np.sum(there)), found.ended.x.shape[1]
    residual = found.ended.residual[:1]
    if n < max(constants.ENOUGH, 3 * p) or not found.ended.settled[0] or not np.all(found.keep[0]):
        return False
    scale = float(setting.scale(residual, setting.counts, p)[0])
    small = scale <= constants.SMALL_NOISE * setting.width
    residual = residual[0][there]
    ordinary = np.max(np.abs(residual)) <= constants.ORDINARY_PLAIN * scale
    calm = abs(correlation(residual)) < constants.WEAKLY_CORRELATED
    return bool(small and ordinary and calm and _normal(residual))


def _normal(residual: np.ndarray) -> bool:
    """Whether residuals may be normal, by Jarque and Bera's statistic, with and without tails."""
    spread = float(np.sqrt(np.mean(residual**2)))
    if not spread > 0:
        return True
    standard, n = residual / spread, len(residual)
    kurtosis = np.mean(standard**4)
    skewed, tails = n / 6 * np.mean(standard**3) ** 2, n / 24 * (kurtosis - 3) ** 2
    one_cluster = skewed + (tails if kurtosis < 3 else 0) <= constants.ONE_CLUSTER
    return bool(one_cluster and skewed + tails <= constants.NORMAL)


def _best(setting: Setting, found: Candidates) -> Candidates:
    """The best first, and as accurate as can be; of equally good ones the earliest.

    Rough fits may have a shorter description than the minimum of the squares, by a little, if
    tails are heavy: only accurate ones are compared.
    """
    lanes = range(len(found.length))
    for _ in range(constants.FEW):
        accurate = [found.length[k] for k in lanes if _final(found, k)]
        limit = min(accurate, default=np.inf) - constants.AGREE
        better = [k for k in lanes if found.length[k] < limit]
        if not better:
            break
        least = min(found.length[k] for k in better)
        best = min(better, key=lambda k: found.length[k])
        earliest = next(k for k in better if found.length[k] <= least + constants.AGREE)
        for k in {best, earliest}:
            _polish(setting, found, k)
    accurate = [k for k in lanes if _final(found, k)] or list(lanes)
    least = min(found.length[k] for k in accurate)
    first = next((k for k in accurate if found.length[k] <= least + constants.NEGLIGIBLE), 0)
    order = np.argsort(found.length, kind="stable")
    return found.of(np.concatenate([[first], order[order != first]]))


def rivals(setting: Setting, found: Candidates) -> list[int]:
    """Accurate fits nearly as likely as the first that differ from it by more than its errors."""
    return [k for k in _near(setting, found) if _final(found, k)]


def _near(setting: Setting, found: Candidates) -> list[int]:
    """The same, whether accurate or not; the best first.

    So are fits with a far shorter description but for the preference for inliers. If the first
    takes gross errors for noise, its standard errors are too large to see the difference: then
    those of the other fit count.
    """
    if len(found.length) == 1:
        return []
    keep, residual = found.keep, found.ended.residual
    freedom = np.maximum(np.sum(keep, axis=1) - found.ended.x.shape[1], 1)
    noise = np.sqrt(np.sum(np.where(keep, residual, 0) ** 2, axis=1) / freedom)
    noise = np.maximum(noise, setting.rounding)
    # Along one parameter a change by a standard error is one by the noise, summed over the data.
    change = np.linalg.norm(np.where(keep | keep[0], residual - residual[0], 0), axis=1)
    longer = found.length - found.length[0]
    preferred = preference(keep, setting.counts) - preference(keep[:1], setting.counts)
    near = (longer < constants.NEARLY) & (change > constants.APART * noise[0])
    near |= (longer - preferred < -constants.NEARLY) & (
        change > constants.APART * np.minimum(noise, noise[0])
    )
    others = np.flatnonzero(near)
    return others[np.argsort(found.length[others], kind="stable")].tolist()


def _final(found: Candidates, k: int) -> bool:
    """Whether a candidate is as accurate as can be, or has been tried hard enough."""
    ended = found.ended
    return bool((ended.settled[k] and ended.offset[k] <= 1e-8) or ended.steps[k] > _TRIED)


def _polish(setting: Setting, found: Candidates, k: int) -> None:
    """Make one of the candidates accurate."""
    one = found.of(np.array([k]))
    one = settle(setting, one.ended, one.heavy, **constants.AT_MINIMUM)
    for whole, part in zip(found.ended, one.ended, strict=True):
        whole[k] = part[0]
    found.ended.steps[k] += _TRIED + 1
    found.keep[k], found.length[k] = one.keep[0], one.length[0]


def _subsets(
    setting: Setting, best: Candidates, given: np.ndarray, rng: np.random.Generator
) -> Candidates:
    """Fits that begin with few data each, all of which may be inliers."""
    p = best.ended.x.shape[1]
    there = np.flatnonzero(setting.counts > 0)
    size = min(p + 1, len(there))
    weight = np.zeros((constants.SUBSETS, len(setting.counts)))
    for row in weight:
        row[rng.choice(there, size, replace=False)] = 1
    begin = np.concatenate([given[:4], best.ended.x[:4]])
    x = begin[np.arange(constants.SUBSETS) % len(begin)]
    ended = setting.descend(
        x, weight, squares(constants.SUBSETS), tol=constants.ROUGH, max_steps=constants.ROUGH_STEPS
    )
    _, length = judge(setting, ended.residual, p)
    followed = np.argsort(length, kind="stable")[: constants.SUBSETS // constants.FOLLOWED]
    return settled(setting, Ended(*(part[followed] for part in ended)), **constants.NEAR_MINIMUM)
