"""What residuals of many curves show at a glance, without the sorting that a robust scale takes."""

from typing import NamedTuple

import numpy as np

from . import _constants as constants
from ._losses import GAUSSIAN


class Glance(NamedTuple):
    """Of each lane."""

    neighbours: np.ndarray
    """Sum of products of neighbouring residuals."""
    plain: np.ndarray
    """Whether they leave nothing to look for, if these are all data and the lane has settled."""


def glance_at(
    residual: np.ndarray, keep: np.ndarray, p: int, width: np.ndarray, rounding: np.ndarray
) -> Glance:
    """Look at residuals, as `_search.plainly_right` does.

    Whether the largest one is within so many robust scales shows in how many are below that part
    of it.

    Parameters
    ----------
    residual : array of shape (lanes, data)
    keep : array of bool, of shape (lanes, data)
        Which of them count.
    p : int
        The number of parameters.
    width, rounding : arrays of shape (lanes,)
        The range of the data, rounding errors of a residual.
    """
    n = np.full(len(residual), residual.shape[1])
    before, missing = residual[:, :-1], 0
    if not np.all(keep):
        n = np.sum(keep, axis=1)
        residual = np.where(keep, residual, 0)
        places = np.maximum.accumulate(np.where(keep, np.arange(keep.shape[1]), 0), axis=1)
        before = np.take_along_axis(residual, places[:, :-1], axis=1)
        missing = keep.shape[1] - n
    neighbours = np.einsum("cn,cn->c", residual[:, 1:], before)
    sizes = np.abs(residual)
    squares = residual * residual
    total = np.sum(squares, axis=1)
    some = np.maximum(n, 1)
    spread = np.sqrt(total / some)
    skewness = np.einsum("cn,cn->c", squares, residual) / (some * spread**3)
    kurtosis = np.einsum("cn,cn->c", squares, squares) / (some * spread**4)
    skewed, tails = n / 6 * skewness**2, n / 24 * (kurtosis - 3) ** 2
    normal = skewed + tails <= constants.NORMAL
    normal &= skewed + np.where(kurtosis < 3, tails, 0) <= constants.ONE_CLUSTER
    largest, nothing = np.max(sizes, axis=1), constants.EXACT * rounding
    least = largest / (GAUSSIAN * constants.ORDINARY_PLAIN)
    below = np.sum(sizes < least[:, None], axis=1) - missing
    ordinary = below <= (np.minimum(p, np.maximum(n - 1, 0)) + n - 1) // 2
    ordinary |= largest <= constants.ORDINARY_PLAIN * nothing
    small = np.maximum(spread, nothing) <= constants.SMALL_NOISE * width
    enough = n >= max(constants.ENOUGH, 3 * p)
    return Glance(neighbours, enough & small & ordinary & normal)
