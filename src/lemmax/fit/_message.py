"""Which data are wrong: those that are told in fewer words as such.

A right datum is told by its residual, under a Gaussian or (since real errors have heavier tails) a
Student distribution, whichever is shorter, of the scale of all right data. A wrong one is told by
its place and a value anywhere in the range of the data, and so is each parameter. The lengths of
such messages, in nats, also compare fits with each other.
"""

from typing import NamedTuple

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


class Message(NamedTuple):
    """The shortest message for the residuals of a fit."""

    keep: np.ndarray
    """The data told as right."""
    length: float
    """In nats; infinite if nothing can be told."""


def shortest(
    residual: np.ndarray,
    counts: np.ndarray,
    fitted: int,
    scale: float,
    width: float,
    least: float = 0.5,
) -> Message:
    """Choose the data that are wrong.

    Parameters
    ----------
    residual : array of shape (data,)
        Or their sizes; none below rounding errors.
    counts : array of shape (data,)
        0 where a datum is missing.
    fitted : int
        The number of parameters.
    scale : float
        A robust scale of the residuals; never below rounding errors.
    width : float
        The range of the data, in units of the residuals. Lengths are those of numbers in units of
        it, so that they do not depend on units.
    least : float
        At least this share of the data is right.
    """
    there = np.flatnonzero(counts > 0)
    sizes = np.abs(residual[there])
    n = len(sizes)
    if n <= fitted or not np.all(np.isfinite(sizes)):
        return Message(counts > 0, np.inf)
    order = np.argsort(sizes)
    ordered = sizes[order] / width
    kept = _candidates(ordered, scale / width, max(int(np.ceil(least * n)), fitted + 1))
    squares = ordered**2
    inside = np.arange(n) < kept[:, None]
    freedom = kept - fitted
    variance = np.sum(np.where(inside, squares, 0), axis=1) / freedom
    gaussian = freedom * (np.log(2 * np.pi * variance) + 1) / 2
    student = _student(squares, inside, kept, freedom, variance)
    wrong = n - kept
    places = gammaln(n + 1) - gammaln(kept + 1) - gammaln(wrong + 1)
    length = np.minimum(gaussian, student) + _ODDS * wrong + places
    best = int(np.argmin(length))
    keep = np.zeros(len(residual), bool)
    keep[there[order[: kept[best]]]] = True
    return Message(keep, float(length[best]))


def _candidates(ordered: np.ndarray, scale: float, least: int) -> np.ndarray:
    """How many data may be right: all, or those below one of the largest gaps."""
    n = len(ordered)
    below = np.arange(least, n)
    below = below[ordered[below] > _ORDINARY * scale]
    if below.size > _GAPS:
        gaps = ordered[below] / ordered[below - 1]
        below = below[np.argsort(-gaps, kind="stable")[:_GAPS]]
    return np.append(np.sort(below), n)


def _student(squares, inside, kept, freedom, variance):
    """Length of the message for right data under Student's distribution."""
    variance = variance * (_FREEDOM - 2) / _FREEDOM
    for _ in range(_STEPS if len(kept) > 1 or np.any(squares > 9 * variance[:, None]) else 1):
        weighted = squares * (_FREEDOM + 1) / (_FREEDOM + squares / variance[:, None])
        variance = np.sum(np.where(inside, weighted, 0), axis=1) / freedom
    tails = (_FREEDOM + 1) / 2 * np.log1p(squares / (_FREEDOM * variance[:, None]))
    each = np.sum(np.where(inside, tails, 0), axis=1) / kept
    return freedom * (each - _TAIL + np.log(variance) / 2)
