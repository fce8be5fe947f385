"""Outliers by minimum description length.

An inlier is described by its residual, under a Gaussian or (since real errors have heavier tails) a
Student distribution, whichever is shorter, of the scale of all inliers. An outlier is described by
its position and a value anywhere in the range of the data, and so is each parameter. The
description lengths, in nats, also compare fits with each other.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaln

from . import _constants as constants

_TAIL = float(
    gammaln((constants.FREEDOM + 1) / 2)
    - gammaln(constants.FREEDOM / 2)
    - np.log(constants.FREEDOM * np.pi) / 2
)


def shortest(
    sizes: np.ndarray,
    counts: np.ndarray,
    fitted: int,
    scale: np.ndarray,
    width: np.ndarray,
    least: float = 0.5,
    gaps: int = constants.GAPS,
    heavy: np.ndarray | None = None,
    student: Callable | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Choose the outliers, in every lane.

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
        At least this share of the data are inliers.
    gaps : int
        So many of the largest gaps between sizes are candidates for the limit.
    heavy : array of bool, of shape (lanes,)
        Whether inliers may have heavier tails than Gaussian ones; if not given, they may.
    student : callable, optional
        `student_lengths`, compiled.

    Returns
    -------
    keep : array of bool, of shape (lanes, data)
        The inliers.
    length : array of shape (lanes,)
        Of the shortest description, in nats; infinite if there is none.
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
    ordered = sizes[lanes[:, None], order] / width[lanes, None]
    kept = _candidates(ordered, (scale / width)[lanes], n[lanes], fitted, least, gaps)
    few = np.all(kept == n[lanes, None], axis=1)
    for group, columns in (
        (np.flatnonzero(few), slice(-1, None)),
        (np.flatnonzero(~few), slice(None)),
    ):
        each = max(constants.TOGETHER // (ordered.shape[1] * kept[:1, columns].size), 1)
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
            right[np.arange(len(some))[:, None], order[some]] = inside
            keep[lanes[some]], length[lanes[some]] = right, lengths
    return keep, length


def length_of(
    sizes: np.ndarray, keep: np.ndarray, counts: np.ndarray, fitted: int, width: float
) -> np.ndarray:
    """Description lengths with these data as inliers, in every lane."""
    there = counts > 0
    # Inliers, outliers and what is missing, each by size.
    place = np.lexsort((sizes, np.where(keep, 0, np.where(there, 1, 2))), axis=1)
    ordered = np.take_along_axis(np.where(there, sizes, np.inf), place, axis=1) / width
    kept = np.sum(keep, axis=1)[:, None]
    heavy = np.ones(len(sizes), bool)
    return _chosen(ordered, kept, np.sum(there, axis=1), fitted, heavy, student_lengths)[1]


def preference(keep: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The part of description lengths that is not evidence, but the preference for inliers."""
    kept = np.sum(keep, axis=1)
    return _preference(np.sum(counts > 0) - kept, kept)


def _preference(wrong: np.ndarray, kept: np.ndarray) -> np.ndarray:
    # If most data are outliers, the inliers are listed instead.
    return constants.ODDS * np.minimum(wrong, kept)


def _candidates(ordered, scale, n, fitted: int, least: float, gaps: int) -> np.ndarray:
    """Numbers of inliers to try: those below one of the largest gaps, or all (last)."""
    total = ordered.shape[1]
    place = np.arange(total)
    lowest = np.maximum(np.ceil(least * n), fitted + 1)[:, None]
    # If half of the residuals are outliers, the robust scale is wrong; then the deviation of the
    # smaller residuals counts.
    below = np.cumsum(np.where(np.isfinite(ordered), ordered, 0) ** 2, axis=1) - ordered**2
    with np.errstate(invalid="ignore"):
        deviation = np.sqrt(np.maximum(below, 0) / np.maximum(place - fitted, 1))
    trusted = place > ((fitted + n) // 2)[:, None]
    limit = constants.ORDINARY * np.where(trusted, scale[:, None], deviation)
    valid = (place >= lowest) & (place < n[:, None]) & (ordered > limit)
    most = min(int(np.max(np.sum(valid, axis=1))), gaps)
    if most == 0:
        return n[:, None]
    with np.errstate(invalid="ignore"):
        ratio = ordered / np.maximum(np.roll(ordered, 1, axis=1), np.finfo(float).tiny)
    score = np.where(valid, ratio, -1.0)
    best = np.argpartition(-score, most - 1, axis=1)[:, :most]
    kept = np.where(valid[np.arange(len(best))[:, None], best], best, n[:, None])
    return np.concatenate([kept, n[:, None]], axis=1)


def _chosen(
    ordered, kept, n, fitted: int, heavy, student: Callable
) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of inliers among the candidates with the shortest descriptions."""
    squares = np.where(np.isfinite(ordered), ordered, 0.0) ** 2
    freedom = kept - fitted
    rows = np.arange(len(kept))[:, None]
    variance = np.cumsum(squares, axis=1)[rows, kept - 1] / freedom
    gaussian = freedom * (np.log(2 * np.pi * variance) + 1) / 2
    described = gaussian
    if np.any(heavy):
        lengths = student(squares, kept.astype(float), freedom.astype(float), variance)
        described = np.where(heavy[:, None], np.minimum(gaussian, lengths), gaussian)
    wrong = n[:, None] - kept
    places = gammaln(n[:, None] + 1) - gammaln(kept + 1) - gammaln(wrong + 1)
    # The nearest and the farthest outlier say where the others are: that far from the curve, on one
    # of its sides. They have at least the noise of the inliers.
    largest = np.max(np.where(np.isfinite(ordered), ordered, 0.0), axis=1, keepdims=True)
    nearest = ordered[rows, np.minimum(kept, n[:, None] - 1)]
    spread = 2 * np.maximum(largest - nearest, np.sqrt(variance))
    values = np.where(wrong > 2, (wrong - 2) * np.minimum(np.log(spread), 0.0), 0.0)
    length = described + values + _preference(wrong, kept) + places
    best = rows[:, 0], np.argmin(length, axis=1)
    return kept[best], length[best]


def student_lengths(squares: Any, kept: Any, freedom: Any, variance: Any, xp: Any = np) -> Any:
    """Description lengths of inliers under Student's distribution.

    Parameters
    ----------
    squares : array of shape (lanes, data)
        Of sizes in order.
    kept, freedom, variance : arrays of shape (lanes, candidates)
        The number of inliers; that less the parameters; and their variance.
    xp : module
        NumPy or `jax.numpy`.

    Returns
    -------
    array of shape (lanes, candidates)
    """
    inside = np.arange(squares.shape[1], dtype=float)[None, None] < kept[..., None]
    squares = xp.where(inside, squares[:, None], 0.0)
    variance = variance * (constants.FREEDOM - 2) / constants.FREEDOM
    for _ in range(constants.INNER):
        weighted = squares / (constants.FREEDOM + squares / variance[..., None])
        variance = (constants.FREEDOM + 1) * xp.sum(weighted, axis=-1) / freedom
    tails = (
        (constants.FREEDOM + 1) / 2 * xp.log1p(squares / (constants.FREEDOM * variance[..., None]))
    )
    each = xp.sum(tails, axis=-1) / kept
    return freedom * (each - _TAIL + xp.log(variance) / 2)
