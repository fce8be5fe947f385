"""The hold-out set: fits without a part of the observations, and how well they predict it."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._draws import uniform_by_rank
from ..problem import Composite
from . import _constants as constants
from ._facts import Facts
from ._select import Fitted
from ._tangent import spread_of_entries


class Predictions(NamedTuple):
    """Residuals at observations that were held out."""

    residual: np.ndarray
    hidden: np.ndarray
    """Mask of these observations."""
    spread: np.ndarray
    """Expected standard deviation of these residuals, in units of the noise."""


def predictions(
    problem: Composite,
    seed: int,
    fit: Callable[[Composite], np.ndarray],
    spread: Callable[[np.ndarray], np.ndarray],
) -> Predictions:
    """Hold out a fifth of the observations at a time, more often if there are few.

    ``fit`` returns the residuals of a fit to the rest of a problem, ``spread`` their expected
    standard deviations where given observations are hidden.
    """
    known, shape = problem.weights > 0, problem.data.shape
    folds, wanted = constants.FOLDS, constants.ENOUGH_HIDDEN
    draws = uniform_by_rank(np.asarray(problem.data), known, np.random.default_rng(seed))
    times = min(folds, -(-wanted * folds // int(known.sum())))
    found = Predictions(np.zeros(shape), np.zeros(shape, bool), np.ones(shape))
    for fold in range(times):
        hidden = (fold <= folds * draws) & (folds * draws < fold + 1)
        found = Predictions(
            np.where(hidden, fit(problem.without(hidden)), found.residual),
            found.hidden | hidden,
            np.where(hidden, spread(hidden), found.spread),
        )
    return found


def spread(facts: Facts, fitted: Fitted, hidden: np.ndarray) -> np.ndarray:
    """Expected standard deviations of errors of prediction, in units of the noise."""
    shown = fitted.used & ~hidden
    if facts.entrywise and fitted.map.ranked is not None:
        return spread_of_entries(facts.problem, fitted.map.ranked, fitted.x, shown, hidden)
    left = max(float(shown.sum()) - fitted.freedom, 1.0)
    return np.full(hidden.shape, np.sqrt(1 + constants.VARIANCE * fitted.freedom / left))
