"""Observations that a fit is not shown, to see whether it predicts them."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import numpy as np

from ..problem import Composite
from ._linearised import weights_of, with_weights

# One of so many parts of the data is kept aside to see whether a noisy fit predicts it; as often as
# it takes to have so many predictions.
_FOLDS, _ENOUGH_HIDDEN = 5, 200


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
    share = np.random.default_rng(seed).integers(_FOLDS, size=shape)
    times = min(_FOLDS, -(-_ENOUGH_HIDDEN * _FOLDS // int(known.sum())))
    found = Predictions(np.zeros(shape), np.zeros(shape, bool), np.ones(shape))
    for fold in range(times):
        hidden = known & (share == fold)
        found = Predictions(
            np.where(hidden, fit(without(problem, hidden)), found.residual),
            found.hidden | hidden,
            np.where(hidden, spread(hidden), found.spread),
        )
    return found


def without(problem: Composite, hidden: np.ndarray) -> Composite:
    """The problem with some observations counted as missing."""
    weights = np.where(hidden, 0, weights_of(problem)).astype(problem.data.dtype)
    loss = with_weights(problem.loss, weights)
    return eqx.tree_at(lambda p: p.loss, problem, loss, is_leaf=lambda leaf: leaf is problem.loss)
