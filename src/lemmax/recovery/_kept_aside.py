"""Observations that a fit is not shown, to see whether it predicts them."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..problem import Composite
from . import _constants as constants
from ._facts import Facts, weights_of, without
from ._select import Fitted
from ._tangent import spread_of_entries


class Predictions(NamedTuple):
    """Residuals of fits that have not seen the observation."""

    residual: np.ndarray
    hidden: np.ndarray
    """Which observations these are."""
    spread: np.ndarray
    """Their standard deviation in units of that of the noise: a prediction has an error, too."""


def predictions(
    problem: Composite,
    seed: int,
    fit: Callable[[Composite], np.ndarray],
    spread: Callable[[np.ndarray], np.ndarray],
) -> Predictions:
    """Hide a fifth of the observations at a time; more often if these are few.

    ``fit`` gives the residuals of a fit to what is left of a problem, ``spread`` what is to be
    expected of them, where some are hidden.
    """
    known, shape = weights_of(problem) > 0, problem.data.shape
    folds, wanted = constants.FOLDS, constants.ENOUGH_HIDDEN
    share = np.random.default_rng(seed).integers(folds, size=shape)
    times = min(folds, -(-wanted * folds // int(known.sum())))
    found = Predictions(np.zeros(shape), np.zeros(shape, bool), np.ones(shape))
    for fold in range(times):
        hidden = known & (share == fold)
        found = Predictions(
            np.where(hidden, fit(without(problem, hidden)), found.residual),
            found.hidden | hidden,
            np.where(hidden, spread(hidden), found.spread),
        )
    return found


def spread(facts: Facts, fitted: Fitted, hidden: np.ndarray) -> np.ndarray:
    """What is to be expected of predictions, in units of the noise."""
    shown = fitted.used & ~hidden
    if facts.entrywise and fitted.map.ranked is not None:
        return spread_of_entries(facts.problem, fitted.map.ranked, fitted.x, shown, hidden)
    left = max(float(shown.sum()) - fitted.freedom, 1.0)
    return np.full(hidden.shape, np.sqrt(1 + constants.VARIANCE * fitted.freedom / left))
