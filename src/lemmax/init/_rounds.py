"""Fit a structured point to data with gross outliers, in a few passes.

The truncated spectral start (Li, Chi, Zhang and Liang, 2017) is the projection of
``A*(w)``, w the observations that are not conspicuously large, onto the structure: for a low rank,
the leading eigenpairs. Its error is that of the adjoint as an inverse, about the square root of
(parameters / measurements), and does not shrink. A round more does the same to the residual, of
which again only the inconspicuous part counts: iterative hard thresholding with trimmed residuals.
As the fit gets better, the outliers stick out further, and the error falls by a constant factor a
round.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..points import AbstractPoint
from ._start import Observations

ROUNDS = 9
# A residual above so many medians is taken for an outlier. Of Gaussian residuals that is 4 %;
# docs/starts.md has other levels.
CONSPICUOUS = 3.0
# A round may be a little worse than the one before; beyond this the step was too long.
_WORSE = 1.5
# Entries of a matrix are not incoherent with it: its large entries are conspicuous, too, and come
# in rows. So the first rounds clip instead of leaving out, and the level falls slowly.
_CLIPPED_ROUNDS = 5
_FALL = 0.8


class Projected(NamedTuple):
    """The nearest point of a structure (about), and what it is made of."""

    array: np.ndarray
    """Every entry of it."""
    point: AbstractPoint
    """The same, in the form that is measured fastest."""
    parts: Any
    """What the start is made of."""


Project = Callable[[np.ndarray], Projected]


class Trimmed(NamedTuple):
    """Residuals without what is conspicuous, and which of them are used."""

    residual: np.ndarray
    used: np.ndarray


class Trimming:
    """What to take for an outlier, round after round."""

    def __init__(self, observed: Observations, entrywise: bool):
        self._observed = observed
        self._clipped_rounds = _CLIPPED_ROUNDS if entrywise else 0
        self._fall = _FALL if entrywise else 0.0
        self._level = 0.0

    def __call__(self, residual: np.ndarray) -> Trimmed:
        """Leave out, or clip, the residuals of the next round."""
        known, bulk = self._observed.known, CONSPICUOUS * self._observed.typical(residual)
        self._level = max(bulk, self._fall * self._level)
        if self._clipped_rounds:
            self._clipped_rounds -= 1
            return Trimmed(np.where(known, np.clip(residual, -self._level, self._level), 0), known)
        used = known & (np.abs(residual) <= self._level)
        return Trimmed(np.where(used, residual, 0), used)


def fit_robustly(observed: Observations, project: Project, *, entrywise: bool) -> Projected | None:
    """The point of the structure that fits most of the data; None if nothing projects to it.

    Takes ``2 + 2 * ROUNDS`` passes: an adjoint and a measurement in every round.
    """
    trim = Trimming(observed, entrywise)
    trimmed = trim(observed.values)
    back = observed.adjoint(trimmed.residual)
    first = project(back)
    seen = observed.measure(first.point)
    if not np.any(seen[observed.known]):
        return None
    # What measurements do to norms: read off a point, so that no outlier is in it.
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
