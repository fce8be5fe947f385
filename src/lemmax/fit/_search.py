"""The search for the best fit: several starts, the best chosen, the others remembered."""

import numpy as np

from ._losses import squares
from ._refine import Candidates, Setting, absolute, joined, judge, refine, settle
from ._starts import linear_parameters, solve_linear, variations

# Lengths of messages this close are the same; the earlier start is preferred.
_SAME = 1e-3
# A fit is convincing if lanes from different starts agree on it, if fewer data are wrong, and if
# neighbouring residuals are correlated by less than so many standard deviations.
_FEW_WRONG, _CORRELATED = 0.15, 4.0
# How many variations of the start are looked at in a round, and how many are followed.
_ROUNDS = ((48, 6), (240, 12))
# Subsets of the data that are fitted if all else fails, and how many are followed.
_SUBSETS, _FOLLOWED = 40, 6


def search(setting: Setting, start: np.ndarray, extra: np.ndarray, rounds: int) -> Candidates:
    """Fits from all starts, the best first; only the first is as accurate as can be."""
    rng = np.random.default_rng(0)
    p = len(start)
    given = np.concatenate([start[None], extra])
    lanes = len(given)
    plain = setting.descend(given, setting.counts, squares(lanes), tol=1e-2, max_steps=200)
    keep, length = judge(setting, plain)
    found = Candidates(plain, keep, length)
    if setting.robust:
        linear = linear_parameters(setting, start)
        solved, _ = solve_linear(setting, given, linear)
        begun = np.concatenate([plain.x, given, solved])
        found = joined(_settled(setting, found), refine(setting, absolute(setting, begun)))
    else:
        linear = np.zeros(p, bool)
    best = _best(setting, found)
    for count, followed in _ROUNDS[:rounds]:
        if convincing(setting, best):
            break
        tried = variations(start, setting.box, count, rng)
        tried, scale = solve_linear(setting, tried, linear)
        tried = tried[np.argsort(scale, kind="stable")[:followed]]
        if setting.robust:
            more = refine(setting, absolute(setting, tried))
        else:
            ended = setting.descend(tried, setting.counts, squares(len(tried)), tol=1e-2)
            more = Candidates(ended, *judge(setting, ended))
        best = _best(setting, joined(best, more))
        if setting.robust and not convincing(setting, best):
            best = _best(setting, joined(best, _subsets(setting, best, rng)))
    return best


def convincing(setting: Setting, found: Candidates) -> bool:
    """Whether there is no reason to look further."""
    ended, keep = found.ended, found.keep[0]
    if not ended.settled[0] or not np.isfinite(found.length[0]):
        return False
    wrong = 1 - np.sum(keep) / np.sum(setting.counts > 0)
    agreeing = np.sum(found.length <= found.length[0] + 0.5)
    needed = 2 if setting.robust else 1
    correlated = correlation(ended.residual[0][keep]) > _CORRELATED
    return bool(agreeing >= needed and wrong <= _FEW_WRONG and not correlated)


def correlation(residual: np.ndarray) -> float:
    """Correlation of neighbouring residuals, in standard deviations of that of independent ones."""
    total = float(residual @ residual)
    if total == 0 or len(residual) < 3:
        return 0.0
    return float(residual[1:] @ residual[:-1]) / total * np.sqrt(len(residual))


def _settled(setting: Setting, found: Candidates) -> Candidates:
    return settle(setting, found.ended, tol=1e-2, max_steps=50)


def _best(setting: Setting, found: Candidates) -> Candidates:
    """The best first, and as accurate as can be."""
    order = np.argsort(found.length, kind="stable")
    found = found.of(order)
    for _ in range(len(order)):
        # Of equally good ones the earliest.
        same = np.flatnonzero(found.length <= found.length[0] + _SAME)
        first = same[np.argmin(order[same])]
        rest = np.delete(np.arange(len(found.length)), first)
        if not np.isfinite(found.length[first]):
            break
        top = found.of(np.array([first]))
        if top.ended.settled[0] and top.ended.offset[0] <= 1e-8:
            found = joined(top, found.of(rest))
            break
        final = settle(setting, top.ended, tol=1e-9, max_steps=1000)
        if final.length[0] > found.length[first]:
            # Accuracy can only have made it worse by taking other data for right.
            final = final._replace(length=np.minimum(final.length, found.length[first] + _SAME / 2))
        others = found.of(rest)
        found, order = joined(final, others), np.concatenate([order[[first]], order[rest]])
        if final.length[0] <= np.min(others.length, initial=np.inf) + _SAME:
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
