"""Noise on top of outliers: how large it is, how many terms it hides, and the fit that is best.

At the minimum of a robust loss the error is larger than that of least squares on the data that are
not grossly wrong. So the bulk is refitted, for every number of terms, and the best one chosen.
"""

from typing import NamedTuple

import numpy as np

from .._typing import Parameters
from ..problem import Composite
from ._linearised import LEAST_DAMPING, Linearised, Workbench, parameter_count, weights_of
from ._structure import convincing_observations

# The median of |z| for a standard Gaussian, and the size beyond which a residual is none of one.
_MEDIAN_OF_A_GAUSSIAN = 0.6745
BULK = 3.0
_ROUNDS = 12
_TRIES = 5


class Refit(NamedTuple):
    """A least-squares fit to the bulk of the data."""

    at: Linearised
    used: np.ndarray
    """Which observations belong to the bulk."""
    scale: float
    """Standard deviation of the noise."""
    freedom: int
    criterion: float
    """Schwarz's, to be compared with that of other fits: the smaller, the better."""


def noise_scale(residual: np.ndarray, known: np.ndarray, freedom: int, robust: bool) -> float:
    """Standard deviation of the noise, corrected for the parameters that were fitted to it."""
    sizes = np.abs(residual[known])
    left = max(1.0, sizes.size - freedom) / sizes.size
    raw = np.median(sizes) / _MEDIAN_OF_A_GAUSSIAN if robust else np.sqrt(np.mean(sizes**2))
    return float(raw / np.sqrt(left))


def bulk_of(
    residual: np.ndarray, known: np.ndarray, freedom: int, robust: bool
) -> tuple[np.ndarray, float]:
    """Which observations are no outliers, and the standard deviation of their residuals."""
    scale = noise_scale(residual, known, freedom, robust)
    if not robust:
        return known, scale
    sizes = np.abs(residual)
    # The bulk itself is a better measure than the median, once it is known; and with it, nothing
    # needs to be left out that Gaussian noise explains.
    for level in (BULK, largest_gaussian(int(known.sum()))):
        used = known & (sizes <= level * scale)
        if np.sum(used) > freedom:
            scale = float(np.sqrt(np.sum(sizes[used] ** 2) / (np.sum(used) - freedom)))
    return used, scale


def largest_gaussian(count: int) -> float:
    """How many standard deviations the largest of so many Gaussians has, about."""
    return float(np.sqrt(2 * np.log(max(count, 2)))) + 0.5


def refit(bench: Workbench, x: Parameters, rank: int | None, robust: bool) -> Refit:
    """Least squares on the residuals that look like noise, until these are the same ones."""
    weights = bench.weights()
    known = weights > 0
    at = bench.linearise(x, rank)
    freedom = freedom_of(bench, at)
    used, moved, scale, damping = np.zeros_like(known), np.inf, np.inf, LEAST_DAMPING
    for _ in range(_ROUNDS):
        residual = np.asarray(at.residual, np.float64)
        before, (used, scale) = used, bulk_of(residual, known, freedom, robust)
        if np.array_equal(before, used) and moved <= 1e-3 * scale:
            break
        after, damping = _downhill(bench, at, np.where(used, weights, 0), damping)
        moved = float(np.max(np.abs(np.asarray(after.residual - at.residual))[known]))
        at = after
    residual = np.asarray(at.residual, np.float64)
    return Refit(at, used, scale, freedom, schwarz(bench.problem, residual, used, scale, freedom))


def _downhill(
    bench: Workbench, at: Linearised, weights: np.ndarray, damping: float
) -> tuple[Linearised, float]:
    """A damped step that lowers the sum of squares (Levenberg); or none, if there is none."""

    def squares(at: Linearised) -> float:
        counted = weights > 0
        return float(np.sum(weights[counted] * np.asarray(at.residual, np.float64)[counted] ** 2))

    for _ in range(_TRIES):
        after = bench.linearise(bench.least_squares(at, weights, damping), at.rank)
        if squares(after) <= squares(at):
            return after, max(damping / 100, LEAST_DAMPING)
        damping = 100 * damping
    return at, damping


def schwarz(
    problem: Composite, residual: np.ndarray, used: np.ndarray, scale: float, freedom: int
) -> float:
    """Schwarz's criterion: Gaussian noise on what is used, anything of the data's size elsewhere.

    The outliers have to be paid for: each costs as much as it takes to say where it is, and what
    it is. Infinite if what is used is hardly more than the fit goes through by construction,
    however small its residuals are.
    """
    known = weights_of(problem) > 0
    count, inside = int(known.sum()), int(used.sum())
    if inside < convincing_observations(freedom):
        return float("inf")
    sizes = np.abs(np.asarray(problem.data, np.float64))[known]
    scale = max(scale, float(np.finfo(problem.data.dtype).eps) * float(np.max(sizes)))
    wrong = count - inside
    likelihood = np.sum((residual[used] / scale) ** 2) + inside * np.log(2 * np.pi * scale**2)
    likelihood += 2 * wrong * np.log(2 * np.max(sizes))
    where = -2 * sum(n * np.log(n / count) for n in (inside, wrong) if n)
    return float(likelihood + where + freedom * np.log(count))


def freedom_of(bench: Workbench, at: Linearised) -> int:
    """The number of degrees of freedom of a fit: all parameters, if more is not known."""
    if bench.ranked is not None and at.rank is not None:
        return bench.ranked.with_rank(at.rank).degrees_of_freedom
    return parameter_count(at.x)
