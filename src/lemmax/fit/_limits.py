"""Data that a detector has cut off: many equal the smallest or the largest of them."""

import numpy as np

from . import _constants as constants


def cut_off(y: np.ndarray, residual: np.ndarray, right: np.ndarray, noise: float) -> int:
    """How many data are at a limit that the fit does not follow, some of them taken for right.

    Data may have equal values because they have few digits, or because the curve is flat there.
    So there must be more of them than of any other value, and residuals as those of other inliers.

    Parameters
    ----------
    y, residual : arrays of shape (data,)
    right : array of bool, of shape (data,)
        The inliers.
    noise : float
        Standard deviation of their residuals.
    """
    values, counts = np.unique(y, return_counts=True)
    for place in (0, -1) if len(values) > 1 else ():
        others = int(np.max(np.delete(counts, place)))
        if counts[place] < constants.AT_A_LIMIT or counts[place] <= constants.MORE * others:
            continue
        there = right & (y == values[place])
        if there.any() and np.sqrt(np.mean(residual[there] ** 2)) > constants.FLAT * noise:
            return int(counts[place])
    return 0
