"""What a fit is judged by: its residuals, and how well the observations see it."""

from collections.abc import Callable

import numpy as np

from ..problem import Composite
from ._certificate import Fit, Lines
from ._descent import Descent
from ._left_over import left_over, left_over_of_measurements
from ._linearised import Linearised, Workbench
from ._noise import Refit, freedom_of
from ._rivals import lines_of
from ._tangent import (
    Tangent,
    spread_of_entries,
    tangent_of_entries,
    tangent_of_matrix,
    tangent_unseen,
)

# Of predictions, per degree of freedom and observation; in units of that of the noise.
_VARIANCE = 1.5


class Evidence:
    """Of the fits to one problem."""

    def __init__(self, problem: Composite, bench: Workbench, descent: Descent):
        self.problem, self.bench, self.descent = problem, bench, descent
        self.robust = problem.loss.robust
        self.entrywise = problem.operator.entrywise

    def fit(self, at: Linearised) -> Fit:
        """Through its residuals, and what they say of its tangents."""
        return Fit(
            as_array(at),
            np.asarray(self.problem.data, np.float64),
            self.descent.known,
            self.bench.labels,
            self.bench.norm(at),
            lambda used: self._tangent(at, used),
            self._lines(at),
            self._left_over(at),
        )

    def _lines(self, at: Linearised) -> Lines | None:
        map = self.bench.ranked
        if not (self.robust and self.entrywise) or map is None:
            return None
        return lines_of(self.problem, self.descent.known, map, at.x)

    def _left_over(self, at: Linearised) -> Callable[[float], float] | None:
        if self.bench.ranked is None:
            return None
        if not self.entrywise:
            return lambda level: left_over_of_measurements(self.problem, as_array(at), level)
        return lambda level: left_over(self.problem, as_array(at), self.descent.known, level)

    def _tangent(self, at: Linearised, used: np.ndarray) -> Tangent:
        if at.matrix is not None:
            rank_known = None if at.rank is None else freedom_of(self.bench, at)
            return tangent_of_matrix(self.problem.map, at.x, at.matrix, used, rank_known)
        freedom = freedom_of(self.bench, at)
        if self.bench.ranked is not None and at.rank is not None:
            terms = self.bench.ranked.first_terms(at.x, at.rank)
        else:
            # Of the factors themselves, of which some may be fixed: more cannot go wrong.
            terms = self.problem.map.terms(at.x)
        if self.entrywise and terms is not None:
            return tangent_of_entries(self.problem, *terms, used, freedom)
        measured = as_array(at) + np.asarray(self.problem.data, np.float64)
        gain = np.linalg.norm(measured[used]) / self.bench.norm(at)
        return tangent_unseen(float(gain), freedom)

    def spread(self, best: Refit, hidden: np.ndarray) -> np.ndarray:
        """What is to be expected of predictions, in units of the noise."""
        shown = best.used & ~hidden
        if self.entrywise and self.bench.ranked is not None and best.at.rank is not None:
            terms = self.bench.ranked.first_terms(best.at.x, best.at.rank)
            return spread_of_entries(self.problem, *terms, shown, hidden)
        left = max(float(shown.sum()) - best.freedom, 1.0)
        return np.full(hidden.shape, np.sqrt(1 + _VARIANCE * best.freedom / left))


def as_array(at: Linearised) -> np.ndarray:
    """The residual on the host, in float64."""
    return np.asarray(at.residual, np.float64)
