"""Which data are wrong: those that are told in fewer words as such.

A right datum is told by its residual, under a Gaussian or (since real errors have heavier tails) a
Student distribution, whichever is shorter, of the scale of all right data. A wrong one is told by
its place and a value anywhere in the range of the data, and so is each parameter. The lengths of
such messages, in nats, also compare fits with each other.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaln

# The heavier tails. With 4 or 5 degrees of freedom none of NIST's data is taken for wrong, and of
# data with a tenth wrong exactly those; with 8, or Gaussian tails alone, some right ones are.
_FREEDOM = 5.0
_TAIL = float(gammaln((_FREEDOM + 1) / 2) - gammaln(_FREEDOM / 2) - np.log(_FREEDOM * np.pi) / 2)
# To be called wrong, a datum must be e^2 times likelier as such.
_ODDS = 2.0
# Within so many scales a residual is right in any case.
_ORDINARY = 3.5
# So many of the largest gaps between sizes of residuals are candidates for the limit.
_GAPS = 24
# Steps for the scale of the Student distribution.
_STEPS = 8


# Numbers that are held at a time.
_TOGETHER = 1 << 22


def shortest(
    sizes: np.ndarray,
    counts: np.ndarray,
    fitted: int,
    scale: np.ndarray,
    width: np.ndarray,
    least: float = 0.5,
    gaps: int = _GAPS,
    heavy: np.ndarray | None = None,
    student: Callable | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Choose the data that are wrong, in every lane.

    Parameters
    ----------
    sizes : array of shape (lanes, data)
        Of residuals; none below rounding errors.
    counts : array of shape (lanes, data)
        0 where a datum is missing.
    fitted : int
        The number of parameters.
    scale : array of shape (lanes,)
        Robust scales of the residuals; never below rounding errors.
    width : array of shape (lanes,)
        The range of the data, in units of the residuals. Lengths are those of numbers in units of
        it, so that they do not depend on units.
    least : float
        At least this share of the data is right.
    gaps : int
        So many of the largest gaps between sizes are candidates for the limit.
    heavy : array of bool, of shape (lanes,)
        Whether right data may have heavier tails than Gaussian ones; if not given, they may.
    student : callable, optional
        `student_lengths`, compiled.

    Returns
    -------
    keep : array of bool, of shape (lanes, data)
        The data told as right.
    length : array of shape (lanes,)
        Of the shortest message, in nats; infinite if nothing can be told.
    """
    there = counts > 0
    heavy = np.ones(len(sizes), bool) if heavy is None else heavy
    n = np.sum(there, axis=1)
    keep, length = there.copy(), np.full(len(sizes), np.inf)
    fine = (n > fitted) & np.all(np.isfinite(sizes) | ~there, axis=1)
    lanes = np.flatnonzero(fine)
    if not lanes.size:
        return keep, length
    sizes = np.where(there, sizes, np.inf)
    order = np.argsort(sizes[lanes], axis=1, kind="stable")
    ordered = np.take_along_axis(sizes[lanes], order, axis=1) / width[lanes, None]
    kept = _candidates(ordered, (scale / width)[lanes], n[lanes], fitted, least, gaps)
    few = np.all(kept == n[lanes, None], axis=1)
    for group, columns in (
        (np.flatnonzero(few), slice(-1, None)),
        (np.flatnonzero(~few), slice(None)),
    ):
        each = max(_TOGETHER // (ordered.shape[1] * kept[:1, columns].size), 1)
        for first in range(0, len(group), each):
            some = group[first : first + each]
            chosen, lengths = _chosen(
                ordered[some],
                kept[some, columns],
                n[lanes[some]],
                fitted,
                heavy[lanes[some]],
                student_lengths if student is None else student,
            )
            inside = np.arange(ordered.shape[1]) < chosen[:, None]
            right = np.zeros_like(inside)
            np.put_along_axis(right, order[some], inside, axis=1)
            keep[lanes[some]], length[lanes[some]] = right, lengths
    return keep, length


def length_of(
    sizes: np.ndarray, keep: np.ndarray, counts: np.ndarray, fitted: int, width: float
) -> np.ndarray:
    """Lengths of messages that tell these data as right and the others as wrong, in every lane."""
    there = counts > 0
    place = np.argsort(np.where(keep, 0, np.where(there, 1, 2)), axis=1, kind="stable")
    ordered = np.take_along_axis(np.where(there, sizes, np.inf), place, axis=1) / width
    kept = np.sum(keep, axis=1)[:, None]
    heavy = np.ones(len(sizes), bool)
    return _chosen(ordered, kept, np.sum(there, axis=1), fitted, heavy, student_lengths)[1]


def preference(keep: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The part of lengths that is not evidence, but the preference for right data."""
    kept = np.sum(keep, axis=1)
    return _preference(np.sum(counts > 0) - kept, kept)


def _preference(wrong: np.ndarray, kept: np.ndarray) -> np.ndarray:
    # If most data are wrong, it is the right ones that have to be named.
    return _ODDS * np.minimum(wrong, kept)


def _candidates(ordered, scale, n, fitted: int, least: float, gaps: int) -> np.ndarray:
    """How many data may be right: those below one of the largest gaps, or all (last)."""
    total = ordered.shape[1]
    place = np.arange(total)
    lowest = np.maximum(np.ceil(least * n), fitted + 1)[:, None]
    # If half of the residuals that parameters leave are wrong, so is the robust scale; then the
    # deviation of those below counts.
    below = np.cumsum(np.where(np.isfinite(ordered), ordered, 0) ** 2, axis=1) - ordered**2
    with np.errstate(invalid="ignore"):
        deviation = np.sqrt(np.maximum(below, 0) / np.maximum(place - fitted, 1))
    trusted = place > ((fitted + n) // 2)[:, None]
    limit = _ORDINARY * np.where(trusted, scale[:, None], deviation)
    valid = (place >= lowest) & (place < n[:, None]) & (ordered > limit)
    most = min(int(np.max(np.sum(valid, axis=1))), gaps)
    if most == 0:
        return n[:, None]
    with np.errstate(invalid="ignore"):
        ratio = ordered / np.maximum(np.roll(ordered, 1, axis=1), np.finfo(float).tiny)
    score = np.where(valid, ratio, -1.0)
    best = np.argsort(-score, axis=1, kind="stable")[:, :most]
    kept = np.where(np.take_along_axis(valid, best, axis=1), best, n[:, None])
    return np.concatenate([kept, n[:, None]], axis=1)


def _chosen(
    ordered, kept, n, fitted: int, heavy, student: Callable
) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of right data among the candidates with the shortest messages."""
    squares = np.where(np.isfinite(ordered), ordered, 0.0) ** 2
    freedom = kept - fitted
    variance = np.take_along_axis(np.cumsum(squares, axis=1), kept - 1, axis=1) / freedom
    gaussian = freedom * (np.log(2 * np.pi * variance) + 1) / 2
    told = gaussian
    if np.any(heavy):
        lengths = student(squares, kept.astype(float), freedom.astype(float), variance)
        told = np.where(heavy[:, None], np.minimum(gaussian, lengths), gaussian)
    wrong = n[:, None] - kept
    places = gammaln(n[:, None] + 1) - gammaln(kept + 1) - gammaln(wrong + 1)
    length = told + _preference(wrong, kept) + places
    best = np.argmin(length, axis=1)
    rows = np.arange(len(kept))
    return kept[rows, best], length[rows, best]


def student_lengths(squares: Any, kept: Any, freedom: Any, variance: Any, xp: Any = np) -> Any:
    """Lengths of messages for right data under Student's distribution.

    Parameters
    ----------
    squares : array of shape (lanes, data)
        Of sizes in order.
    kept, freedom, variance : arrays of shape (lanes, candidates)
        How many data are right; that less the parameters; and their variance.
    xp : module
        NumPy or `jax.numpy`.

    Returns
    -------
    array of shape (lanes, candidates)
    """
    inside = np.arange(squares.shape[1], dtype=float)[None, None] < kept[..., None]
    squares = xp.where(inside, squares[:, None], 0.0)
    variance = variance * (_FREEDOM - 2) / _FREEDOM
    for _ in range(_STEPS):
        weighted = squares / (_FREEDOM + squares / variance[..., None])
        variance = (_FREEDOM + 1) * xp.sum(weighted, axis=-1) / freedom
    tails = (_FREEDOM + 1) / 2 * xp.log1p(squares / (_FREEDOM * variance[..., None]))
    each = xp.sum(tails, axis=-1) / kept
    return freedom * (each - _TAIL + xp.log(variance) / 2)
