"""The search for the best fit: several starts, the best chosen, the others remembered."""

from collections.abc import Callable

import numpy as np

from ._losses import squares
from ._message import preference
from ._refine import (
    Candidates,
    Setting,
    absolute,
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

# Lengths of messages this close are the same; the earlier start is preferred.
_SAME = 1e-3
AGREE = 0.5
"""Fits with lengths this close agree."""
# A fit is convincing if so many lanes agree on it, if fewer data are wrong, and if
# neighbouring residuals are correlated by less than so many standard deviations.
_AGREEING, _FEW_WRONG, _CORRELATED = 3, 0.2, 2.5
# Least squares are plainly right if there are so many data, noise is below this part of their
# range, no residual is beyond so many scales, and Jarque and Bera's statistic of the residuals is
# below this. (It is 15 and 16 for NIST's MGH17 and Nelson, whose data are right, and 56 for data
# of which 15 % are wrong, but within the range of the others.)
_ENOUGH, _SMALL, _ORDINARY, _NORMAL = 12, 0.1, 4.0, 20.0
# A datum with this leverage nearly determines a parameter alone.
_LEVERAGE = 0.95
# A weak correlation of neighbours.
_WEAK = 0.5
# Variations of the start in the first round, and which part of them is followed.
_FIRST_ROUND, _FOLLOWED_PART = 48, 8
# Most variations that are followed in a round.
_MOST = 12
# So many of the best are made accurate to find out which is the best.
_FINALS = 3
# Subsets of the data that are fitted if all else fails, and how many are followed.
_SUBSETS, _FOLLOWED = 40, 6
# A fit is nearly as likely as the best if its message is longer by no more than this (odds of 1 in
# 20), and a different one if it is so many standard errors away.
_NEARLY, _APART = 3.0, 5.0
# So many of its rivals are followed.
_RIVALS = 3
# First fits are rough: they only have to arrive in the right region.
_ROUGH = {"tol": 1e-2, "max_steps": 200}
_FINAL = {"tol": 1e-9, "max_steps": 400}
# Marks the number of steps of those that have been made accurate.
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
            near = at(setting, variations(start, setting.box, _FIRST_ROUND, self.rng))
            fine = np.flatnonzero(np.isfinite(near.value))[: _FIRST_ROUND // _FOLLOWED_PART]
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
        setting, given = self.setting, self.given
        plain = setting.descend(
            given, setting.counts, squares(len(given)), known=self.known, **_FINAL
        )
        self.found = candidates(setting, plain)
        self.plain = plainly_right(setting, self.found)
        if self.plain:
            return
        linear = np.zeros(given.shape[1], bool)
        if setting.robust:
            linear = linear_parameters(setting, self.start)
            begun = [plain.x, given]
            if np.any(linear):
                begun.append(solve_linear(setting, given, linear)[0])
            near = settled(setting, plain, **_ROUGH)
            robust = refine(setting, absolute(setting, np.concatenate(begun)))
            self.found = joined(near, robust)
        self.found = _best(setting, self.found)
        report(self.starts, float(self.found.ended.value[0]))
        while self.tries > 0 and not self.convincing:
            before = self.found.length[0]
            count = min(self.tries, _FIRST_ROUND if self.starts == len(given) else self.tries)
            self.tries -= count
            self.starts += count
            self._vary(count, linear)
            if setting.robust and (self._fragile or not self._right_so_far):
                self._add(_subsets(setting.wide, self.found, given, self.rng))
            # Weak correlation alone is no reason to go on if all starts lead here.
            residual = self.found.ended.residual[0][self.found.keep[0]]
            weak = correlation(residual) <= _WEAK * np.sqrt(len(residual))
            if self._right_so_far and weak and self.found.length[0] > before - AGREE:
                break
            report(self.starts, float(self.found.ended.value[0]))
        self._compare()

    def _compare(self) -> None:
        """Look for rivals of the best fit, and follow them to their minima."""
        setting = self.setting
        if setting.robust and self.found.ended.settled[0] and np.isfinite(self.found.length[0]):
            near = neighbours(setting, self.found.of(np.array([0])), **_FINAL)
            near.ended.steps[:] += _TRIED + 1
            self._add(near)
        found = self.found
        for _ in range(_RIVALS):
            rough = [k for k in _near(setting, found) if not _final(found, k)]
            if not rough:
                break
            _polish(setting, found, rough[0])
        self.found = _best(setting, found)

    def _vary(self, count: int, linear: np.ndarray) -> None:
        setting = self.setting.wide
        tried = variations(self.start, setting.box, count, self.rng)
        tried, residual = solve_linear(setting, tried, linear)
        _, length = judge(setting, residual, len(self.start))
        deep = self._fragile or not self._right_so_far
        followed = min(-(-count // _FOLLOWED_PART), _MOST)
        tried = tried[np.argsort(length, kind="stable")[:followed]]
        if setting.robust:
            self._add(refine(setting, absolute(setting, tried), deep=deep))
            if deep:
                # Least absolute deviations may lead away from where gross errors have no say. Where
                # fits agree on few of these, it is only other minima that are looked for.
                near = np.concatenate([solve_linear(setting, self.given, linear)[0], tried])
                self._add(refine(setting, at(setting, near), deep=True))
        else:
            ended = setting.descend(tried, setting.counts, squares(len(tried)), **_ROUGH)
            self._add(candidates(setting, ended))

    def _add(self, more: Candidates) -> None:
        self.found = _best(self.setting, joined(self.found, more))

    @property
    def convincing(self) -> bool:
        """Whether there is no reason to look further."""
        residual = self.found.ended.residual[0][self.found.keep[0]]
        agreed = self._right_so_far and not self._fragile
        return agreed and correlation(residual) <= _CORRELATED

    @property
    def _fragile(self) -> bool:
        """Whether few data decide, or noise is large: then wrong ones easily go unnoticed."""
        found, setting = self.found, self.setting
        if not setting.robust:
            return False
        keep, p = found.keep[0], found.ended.x.shape[1]
        noise = float(setting.scale(found.ended.residual[:1], setting.counts, p)[0])
        jacobian = found.ended.jacobian[0][keep]
        left, s, _ = np.linalg.svd(scaled(jacobian), full_matrices=False)
        leverage = np.sum(left[:, s > 1e-10 * np.max(s, initial=0.0)] ** 2, axis=1)
        few = np.sum(setting.counts > 0) < max(_ENOUGH, 3 * p)
        high = np.max(leverage, initial=0.0) > _LEVERAGE
        return bool(few or high or noise > _SMALL * setting.width)

    @property
    def _right_so_far(self) -> bool:
        found, setting = self.found, self.setting
        if not found.ended.settled[0] or not np.isfinite(found.length[0]):
            return False
        wrong = 1 - np.sum(found.keep[0]) / np.sum(setting.counts > 0)
        agreeing = np.sum(found.length <= found.length[0] + AGREE)
        needed = _AGREEING if setting.robust else 1
        return bool(agreeing >= needed and wrong <= _FEW_WRONG)


def plainly_right(setting: Setting, found: Candidates) -> bool:
    """Whether least squares from the start leave nothing to look for.

    That is noise far below the range of the data, of one size, without any wrong datum and without
    correlation of neighbours, in enough data to tell.
    """
    there = setting.counts > 0
    n, p = int(np.sum(there)), found.ended.x.shape[1]
    residual = found.ended.residual[:1]
    if n < max(_ENOUGH, 3 * p) or not found.ended.settled[0] or not np.all(found.keep[0]):
        return False
    scale = float(setting.scale(residual, setting.counts, p)[0])
    small = scale <= _SMALL * setting.width
    residual = residual[0][there]
    ordinary = np.max(np.abs(residual)) <= _ORDINARY * scale
    normal = _abnormality(residual) <= _NORMAL
    return bool(small and ordinary and normal and abs(correlation(residual)) < _CORRELATED)


def _abnormality(residual: np.ndarray) -> float:
    """Jarque and Bera's statistic: skewness and kurtosis beside those of normal residuals."""
    spread = float(np.sqrt(np.mean(residual**2)))
    if not spread > 0:
        return 0.0
    standard = residual / spread
    skewness, kurtosis = np.mean(standard**3), np.mean(standard**4)
    return float(len(residual) / 6 * (skewness**2 + (kurtosis - 3) ** 2 / 4))


def correlation(residual: np.ndarray) -> float:
    """Correlation of neighbouring residuals, in standard deviations of that of independent ones."""
    total = float(residual @ residual)
    if not 0 < total < np.inf or len(residual) < 3:
        return 0.0
    return float(residual[1:] @ residual[:-1] / total * np.sqrt(len(residual)))


def _best(setting: Setting, found: Candidates) -> Candidates:
    """The best first, and as accurate as can be; of equally good ones the earliest.

    Rough fits may tell the data shorter than the minimum of their squares does, by a little, if
    these have heavy tails: only accurate ones are compared.
    """
    lanes = range(len(found.length))
    for _ in range(_FINALS):
        accurate = [found.length[k] for k in lanes if _final(found, k)]
        limit = min(accurate, default=np.inf) - AGREE
        better = [k for k in lanes if found.length[k] < limit]
        if not better:
            break
        least = min(found.length[k] for k in better)
        best = min(better, key=lambda k: found.length[k])
        earliest = next(k for k in better if found.length[k] <= least + AGREE)
        for k in {best, earliest}:
            _polish(setting, found, k)
    accurate = [k for k in lanes if _final(found, k)] or list(lanes)
    least = min(found.length[k] for k in accurate)
    first = next((k for k in accurate if found.length[k] <= least + _SAME), 0)
    order = np.argsort(found.length, kind="stable")
    return found.of(np.concatenate([[first], order[order != first]]))


def rivals(setting: Setting, found: Candidates) -> list[int]:
    """Accurate fits nearly as likely as the first that differ from it by more than its errors."""
    return [k for k in _near(setting, found) if _final(found, k)]


def _near(setting: Setting, found: Candidates) -> list[int]:
    """The same, whether accurate or not; the best first.

    So are fits that tell the data far shorter but for the preference for right data. If the first
    takes gross errors for noise, its own errors are too large to see the difference: then those of
    the other fit count.
    """
    keep, residual = found.keep, found.ended.residual
    freedom = np.maximum(np.sum(keep, axis=1) - found.ended.x.shape[1], 1)
    noise = np.sqrt(np.sum(np.where(keep, residual, 0) ** 2, axis=1) / freedom)
    noise = np.maximum(noise, setting.rounding)
    # Along one parameter a change by a standard error is one by the noise, summed over the data.
    change = np.linalg.norm(np.where(keep | keep[0], residual - residual[0], 0), axis=1)
    longer = found.length - found.length[0]
    preferred = preference(keep, setting.counts) - preference(keep[:1], setting.counts)
    near = (longer < _NEARLY) & (change > _APART * noise[0])
    near |= (longer - preferred < -_NEARLY) & (change > _APART * np.minimum(noise, noise[0]))
    others = np.flatnonzero(near)
    return others[np.argsort(found.length[others], kind="stable")].tolist()


def _final(found: Candidates, k: int) -> bool:
    """Whether a candidate is as accurate as can be, or has been tried hard enough."""
    ended = found.ended
    return bool((ended.settled[k] and ended.offset[k] <= 1e-8) or ended.steps[k] > _TRIED)


def _polish(setting: Setting, found: Candidates, k: int) -> None:
    """Make one of the candidates accurate."""
    one = found.of(np.array([k]))
    one = settle(setting, one.ended, one.heavy, **_FINAL)
    for whole, part in zip(found.ended, one.ended, strict=True):
        whole[k] = part[0]
    found.ended.steps[k] += _TRIED + 1
    found.keep[k], found.length[k] = one.keep[0], one.length[0]


def _subsets(
    setting: Setting, best: Candidates, given: np.ndarray, rng: np.random.Generator
) -> Candidates:
    """Fits that begin with few data each, of which all may be right."""
    p = best.ended.x.shape[1]
    there = np.flatnonzero(setting.counts > 0)
    size = min(p + 1, len(there))
    weight = np.zeros((_SUBSETS, len(setting.counts)))
    for row in weight:
        row[rng.choice(there, size, replace=False)] = 1
    begin = np.concatenate([given[:4], best.ended.x[:4]])
    x = begin[np.arange(_SUBSETS) % len(begin)]
    ended = setting.descend(x, weight, squares(_SUBSETS), tol=_ROUGH["tol"], max_steps=25)
    _, length = judge(setting, ended.residual, p)
    followed = np.argsort(length, kind="stable")[:_FOLLOWED]
    return settled(setting, Ended(*(part[followed] for part in ended)), **_ROUGH)
