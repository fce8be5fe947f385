"""What the order of the data shows: correlated residuals, and outliers that follow a curve."""

import numpy as np
from scipy.special import bdtrc, gammaln

from . import _constants as constants


def correlation(residual: np.ndarray) -> float:
    """Correlation of neighbouring residuals, in standard deviations of that of independent ones."""
    total = float(residual @ residual)
    if not 0 < total < np.inf or len(residual) < 3:
        return 0.0
    return float(residual[1:] @ residual[:-1] / total * np.sqrt(len(residual)))


def close_to_the_fit(residual: np.ndarray, wrong: np.ndarray, width: float) -> int:
    """How many outliers follow a curve close to that of the fit, if any do.

    There the model misses something: gross errors are anywhere in the range of the curve, seldom
    close to it, on both sides, and among inliers.

    Parameters
    ----------
    residual : array of shape (data,)
    wrong : array of bool, of shape (data,)
        The outliers.
    width : float
        The range of the curve.
    """
    places = np.flatnonzero(wrong)
    if not len(places):
        return 0
    order = places[np.argsort(np.abs(residual[places]), kind="stable")]
    counts = np.arange(1, len(order) + 1)
    share = np.minimum(np.abs(residual[order]) / width, 1.0)
    by_chance = bdtrc(counts - 1, len(order), share)
    if np.min(by_chance, initial=1.0) >= constants.RARE:
        return 0
    close = np.sort(order[: int(np.argmin(by_chance)) + 1])
    near = np.zeros((1, len(residual)), bool)
    near[0, close] = True
    limit = constants.IN_LINE
    followed = correlation(residual[close]) > limit and in_runs(near)[0] > limit
    return len(close) if followed else 0


def crowded(residual: np.ndarray, wrong: np.ndarray) -> int:
    """How many outliers on one side of the fit are crowded together, if chance is no explanation.

    Gross errors may be anywhere, while what the model misses is in one place. A stretch of the data
    counts if so many outliers of one side are in it with a probability that is rare even for the
    most crowded of all stretches.

    Parameters
    ----------
    residual : array of shape (data,)
    wrong : array of bool, of shape (data,)
        The outliers.
    """
    n, most = len(wrong), 0
    rarest = np.log(constants.CROWDED / (constants.STRETCHES * n))
    for side in (residual > 0, residual < 0):
        places = np.flatnonzero(wrong & side)
        for count in range(2, min(len(places), constants.CROWD) + 1):
            length = np.min(places[count - 1 :] - places[: 1 - count]) + 1
            # That all of a set of places are outliers, times the number of sets in the stretch.
            total = len(places)
            each = gammaln(total + 1) - gammaln(total - count + 1)
            each -= gammaln(n + 1) - gammaln(n - count + 1)
            sets = gammaln(length + 1) - gammaln(count + 1) - gammaln(length - count + 1)
            if each + sets < rarest:
                most, rarest = count, each + sets
    return most


def in_runs(wrong: np.ndarray) -> np.ndarray:
    """By how many standard deviations the outliers of each row are in fewer runs than by chance."""
    n, k = wrong.shape[1], np.sum(wrong, axis=1)
    runs = wrong[:, 0] + np.sum(wrong[:, 1:] & ~wrong[:, :-1], axis=1)
    # The mean and the variance of Wald and Wolfowitz's test, of the runs of one kind.
    expected = k * (n - k + 1) / n
    variance = expected * (k - 1) * (n - k) / (n * max(n - 1, 1))
    return (expected - runs) / np.sqrt(np.where(variance > 0, variance, np.inf))
