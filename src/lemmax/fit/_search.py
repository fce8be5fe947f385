"""The search for the best fit: several starts, the best chosen, the others remembered."""

from collections.abc import Callable

import numpy as np

from ._losses import squares
from ._refine import Candidates, Setting, absolute, joined, judge, refine, settle
from ._starts import linear_parameters, solve_linear, variations
from ._steps import Ended

# Lengths of messages this close are the same; the earlier start is preferred.
_SAME = 1e-3
# Fits with lengths this close agree.
_AGREE = 0.5
# A fit is convincing if lanes from different starts agree on it, if fewer data are wrong, and if
# neighbouring residuals are correlated by less than so many standard deviations.
_FEW_WRONG, _CORRELATED = 0.15, 4.0
# Variations of the start in the first round, and which part of them is followed.
_FIRST_ROUND, _FOLLOWED_PART = 48, 8
# Most variations that are followed in a round.
_MOST = 12
# So many of the best are made accurate to find out which is the best.
_FINALS = 3
# Subsets of the data that are fitted if all else fails, and how many are followed.
_SUBSETS, _FOLLOWED = 40, 6
# First fits are rough: they only have to arrive in the right region.
_ROUGH = {"tol": 1e-2, "max_steps": 200}
_FINAL = {"tol": 1e-9, "max_steps": 400}


class Stopped(Exception):
    """Raised from inside a search when its time is over."""


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
        residual, jacobian = setting.evaluate(np.arange(len(self.given)), self.given)
        value = np.sum(residual**2, axis=1)
        value[~np.isfinite(value) | ~np.all(np.isfinite(jacobian), axis=(1, 2))] = np.inf
        count = len(self.given)
        no = np.zeros(count, bool)
        begun = Ended(
            self.given, residual, jacobian, value, np.full(count, np.inf), no, np.zeros(count, int)
        )
        self.found = Candidates(begun, *judge(setting, begun))
        self.known = residual, jacobian
        self.starts = count

    @property
    def hopeless(self) -> bool:
        """Whether the model is not finite at any start."""
        return not np.any(np.isfinite(self.found.ended.value))

    def run(self, report: Callable[[int, float], None]) -> None:
        """Look until the best fit is convincing, or all is tried."""
        setting, given = self.setting, self.given
        plain = setting.descend(
            given, setting.counts, squares(len(given)), known=self.known, **_ROUGH
        )
        self.found = Candidates(plain, *judge(setting, plain))
        linear = np.zeros(given.shape[1], bool)
        if setting.robust:
            linear = linear_parameters(setting, self.start)
            begun = [plain.x, given]
            if np.any(linear):
                begun.append(solve_linear(setting, given, linear)[0])
            settled = settle(setting, plain, **_ROUGH)
            robust = refine(setting, absolute(setting, np.concatenate(begun)))
            self.found = joined(settled, robust)
        self.found = _best(setting, self.found)
        report(self.starts, float(self.found.ended.value[0]))
        while self.tries > 0 and not self.convincing:
            count = min(self.tries, _FIRST_ROUND if self.starts == len(given) else self.tries)
            self.tries -= count
            self.starts += count
            self._vary(count, linear)
            if setting.robust and not self.convincing:
                self._add(_subsets(setting, self.found, self.rng))
            report(self.starts, float(self.found.ended.value[0]))

    def _vary(self, count: int, linear: np.ndarray) -> None:
        setting = self.setting
        tried = variations(self.start, setting.box, count, self.rng)
        tried, scale = solve_linear(setting, tried, linear)
        followed = min(-(-count // _FOLLOWED_PART), _MOST)
        tried = tried[np.argsort(scale, kind="stable")[:followed]]
        if setting.robust:
            self._add(refine(setting, absolute(setting, tried)))
        else:
            ended = setting.descend(tried, setting.counts, squares(len(tried)), **_ROUGH)
            self._add(Candidates(ended, *judge(setting, ended)))

    def _add(self, more: Candidates) -> None:
        self.found = _best(self.setting, joined(self.found, more))

    @property
    def convincing(self) -> bool:
        """Whether there is no reason to look further."""
        found, setting = self.found, self.setting
        if not found.ended.settled[0] or not np.isfinite(found.length[0]):
            return False
        keep = found.keep[0]
        wrong = 1 - np.sum(keep) / np.sum(setting.counts > 0)
        agreeing = np.sum(found.length <= found.length[0] + _AGREE)
        correlated = correlation(found.ended.residual[0][keep]) > _CORRELATED
        needed = 2 if setting.robust else 1
        return bool(agreeing >= needed and wrong <= _FEW_WRONG and not correlated)


def correlation(residual: np.ndarray) -> float:
    """Correlation of neighbouring residuals, in standard deviations of that of independent ones."""
    total = float(residual @ residual)
    if not 0 < total < np.inf or len(residual) < 3:
        return 0.0
    return float(residual[1:] @ residual[:-1]) / total * np.sqrt(len(residual))


def _best(setting: Setting, found: Candidates) -> Candidates:
    """The best first, and as accurate as can be."""
    # Places in the order of starts: of equally good ones the earliest is preferred.
    place = np.arange(len(found.length))
    final = np.zeros(len(found.length), bool)
    for _ in range(_FINALS):
        least = np.min(found.length)
        if not np.isfinite(least):
            break
        same = np.flatnonzero(found.length <= least + _SAME)
        first = same[np.argmin(place[same])]
        order = np.argsort(found.length, kind="stable")
        order = np.concatenate([[first], order[order != first]])
        found, place, final = found.of(order), place[order], final[order]
        top = found.of(np.array([0]))
        if final[0] or (top.ended.settled[0] and top.ended.offset[0] <= 1e-8):
            break
        top = settle(setting, top.ended, **_FINAL)
        found = joined(top, found.of(np.arange(1, len(found.length))))
        final[0] = True
        if found.length[0] <= np.min(found.length) + _SAME:
            break
    return found


def _subsets(setting: Setting, best: Candidates, rng: np.random.Generator) -> Candidates:
    """Fits that begin with few data each, of which all may be right."""
    p = best.ended.x.shape[1]
    there = np.flatnonzero(setting.counts > 0)
    size = min(p + 1, len(there))
    weight = np.zeros((_SUBSETS, len(setting.counts)))
    for row in weight:
        row[rng.choice(there, size, replace=False)] = 1
    tops = min(4, len(best.length))
    x = best.ended.x[np.arange(_SUBSETS) % tops]
    ended = setting.descend(x, weight, squares(_SUBSETS), tol=1e-2, max_steps=25)
    _, length = judge(setting, ended)
    followed = np.argsort(length, kind="stable")[:_FOLLOWED]
    return refine(setting, absolute(setting, ended.x[followed]))
