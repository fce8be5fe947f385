"""Noise on top of outliers: how large it is, how many terms it hides, and the fit that is best.

At the minimum of a robust loss the error is larger than that of least squares on the data that are
not grossly wrong. So the bulk is refitted, for every number of terms, and the best one chosen.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .._typing import Parameters
from ._linearised import Linearised, Workbench, parameter_count
from ._structure import degrees_of_freedom

# The median of |z| for a standard Gaussian, and the size beyond which a residual is none of one.
_MEDIAN_OF_A_GAUSSIAN = 0.6745
BULK = 3.0
_ROUNDS = 12


class Refit(NamedTuple):
    """A least-squares fit to the bulk of the data."""

    at: Linearised
    used: np.ndarray
    """Which observations belong to the bulk."""
    scale: float
    """Standard deviation of the noise."""
    freedom: int


def noise_scale(residual: np.ndarray, known: np.ndarray, freedom: int, robust: bool) -> float:
    """Standard deviation of the noise, corrected for the parameters that were fitted to it."""
    sizes = np.abs(residual[known])
    left = max(1.0, sizes.size - freedom) / sizes.size
    raw = np.median(sizes) / _MEDIAN_OF_A_GAUSSIAN if robust else np.sqrt(np.mean(sizes**2))
    return float(raw / np.sqrt(left))


def refit(bench: Workbench, x: Parameters, rank: int | None, robust: bool) -> Refit:
    """Least squares on the residuals that look like noise, until these are the same ones."""
    weights = bench.weights()
    known = weights > 0
    at = bench.linearise(x, rank)
    freedom = freedom_of(bench, at)
    used, moved, scale = np.zeros_like(known), np.inf, np.inf
    for _ in range(_ROUNDS):
        residual = np.asarray(at.residual, np.float64)
        scale = noise_scale(residual, known, freedom, robust)
        before, used = used, known & ((np.abs(residual) <= BULK * scale) | (not robust))
        if np.array_equal(before, used) and moved <= 1e-3 * scale:
            break
        after = bench.linearise(bench.least_squares(at, np.where(used, weights, 0), 1e-9), rank)
        if not np.isfinite(after.value):
            break
        moved = float(np.max(np.abs(np.asarray(after.residual - at.residual))[known]))
        at = after
    if robust and np.sum(used) > freedom:
        # The bulk itself is a better measure than the median, once it is known.
        inside = np.asarray(at.residual, np.float64)[used]
        scale = float(np.sqrt(np.sum(inside**2) / (np.sum(used) - freedom)))
    return Refit(at, used, scale, freedom)


def freedom_of(bench: Workbench, at: Linearised) -> int:
    """The number of degrees of freedom of a fit: all parameters, if more is not known."""
    if bench.ranked is not None and at.rank is not None:
        return degrees_of_freedom(bench.ranked, at.rank)
    return parameter_count(at.x)


def best_of(fits: Iterable[Refit], known: np.ndarray) -> Refit:
    """The fit with the smallest information criterion (Schwarz), outliers counting a constant.

    All fits are measured with the same noise, the smallest one that any of them has.
    """
    fits = list(fits)
    count = int(np.sum(known))
    scale = min(fit.scale for fit in fits)
    tiny = np.finfo(float).tiny

    def criterion(fit: Refit) -> float:
        sizes = np.abs(np.asarray(fit.at.residual, np.float64))[known] / max(scale, tiny)
        return float(np.sum(np.minimum(sizes, BULK) ** 2)) + fit.freedom * np.log(count)

    return min(fits, key=criterion)
