"""Fit a structured point to data with outliers, in a few passes.

The truncated spectral start (Li, Chi, Zhang and Liang, 2017) projects ``A*(w)`` onto the structure
(for low rank, the leading eigenpairs); w are the observations without the large ones. Its error is
about sqrt(parameters / measurements), since the adjoint is not an inverse. Each further round
applies the same projection to the fit plus the adjoint of its trimmed residuals: iterative hard
thresholding with trimmed residuals. As the fit improves, outliers become easier to detect, and the
error falls by a constant factor per round.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..points import AbstractPoint
from ._start import Observations

ROUNDS = 9
# Residuals above this many medians count as outliers: 4 % of Gaussian residuals. docs/starts.md
# compares other levels.
CONSPICUOUS = 3.0
# A round may be slightly worse than the previous one; beyond this factor the step was too long.
_WORSE = 1.5
# A matrix is not incoherent with its entries: its large entries look like outliers, too, and are
# concentrated in rows. So the first rounds clip instead of trimming, and the level falls slowly.
_CLIPPED_ROUNDS = 5
_FALL = 0.8


class Projected(NamedTuple):
    """The (approximately) nearest point of a structure, and its representation."""

    array: np.ndarray
    """The dense array."""
    point: AbstractPoint
    """The same point in the form that is measured fastest."""
    parts: Any
    """The data from which the start is built."""


Project = Callable[[np.ndarray], Projected]


class Trimmed(NamedTuple):
    """Trimmed residuals, and which of them are used."""

    residual: np.ndarray
    used: np.ndarray


class Trimming:
    """The outlier threshold, adapted from round to round."""

    def __init__(self, observed: Observations, entrywise: bool):
        self._observed = observed
        self._clipped_rounds = _CLIPPED_ROUNDS if entrywise else 0
        self._fall = _FALL if entrywise else 0.0
        self._level = 0.0

    def __call__(self, residual: np.ndarray) -> Trimmed:
        """Trim or clip the residuals for the next round."""
        known, bulk = self._observed.known, CONSPICUOUS * self._observed.typical(residual)
        self._level = max(bulk, self._fall * self._level)
        if self._clipped_rounds:
            self._clipped_rounds -= 1
            return Trimmed(np.where(known, np.clip(residual, -self._level, self._level), 0), known)
        used = known & (np.abs(residual) <= self._level)
        return Trimmed(np.where(used, residual, 0), used)


def fit_robustly(observed: Observations, project: Project, *, entrywise: bool) -> Projected | None:
    """The point of the structure that fits most of the data; None if the projection fails.

    Takes ``2 + 2 * ROUNDS`` passes: an adjoint and a measurement in every round.
    """
    trim = Trimming(observed, entrywise)
    trimmed = trim(observed.values)
    back = observed.adjoint(trimmed.residual)
    first = project(back)
    seen = observed.measure(first.point)
    if not np.any(seen[observed.known]):
        return None
    # Scale of the measurements, estimated from a measured point, which has no outliers.
    step = np.sum(first.array**2) / np.sum(seen[observed.known] ** 2)
    scale = np.sum(trimmed.residual * seen) / np.sum(seen[trimmed.used] ** 2)
    current = best = project(scale * back)
    residual = best_residual = observed.values - scale * seen
    for _ in range(ROUNDS):
        trimmed = trim(residual)
        if not np.any(trimmed.residual):
            break
        share = np.count_nonzero(trimmed.used) / np.count_nonzero(observed.known)
        current = project(current.array + step / share * observed.adjoint(trimmed.residual))
        residual = observed.values - observed.measure(current.point)
        if observed.score(residual) > _WORSE * observed.score(best_residual):
            step, current, residual = step / 2, best, best_residual
        elif observed.score(residual) <= observed.score(best_residual):
            best, best_residual = current, residual
    return best
