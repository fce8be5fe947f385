"""Observations that a fit is not shown, to see whether it predicts them."""

from collections.abc import Callable

import equinox as eqx
import numpy as np

from ..problem import Composite
from ._linearised import weights_of, with_weights

# One of so many parts of the data is kept aside to see whether a noisy fit predicts it; as often as
# it takes to have so many predictions.
_FOLDS, _ENOUGH_HIDDEN = 5, 200
# The part that the fits have seen which predict the rest.
SHOWN = 1 - 1 / _FOLDS


def predictions(
    problem: Composite, seed: int, fit: Callable[[Composite], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Residuals of fits that have not seen the observation, and for which there are such.

    A fifth of the observations is hidden at a time; more often if these are few.
    """
    known, shape = weights_of(problem) > 0, problem.data.shape
    share = np.random.default_rng(seed).integers(_FOLDS, size=shape)
    times = min(_FOLDS, -(-_ENOUGH_HIDDEN * _FOLDS // int(known.sum())))
    residual, predicted = np.zeros(shape), np.zeros(shape, bool)
    for fold in range(times):
        hidden = known & (share == fold)
        residual = np.where(hidden, fit(without(problem, hidden)), residual)
        predicted |= hidden
    return residual, predicted


def without(problem: Composite, hidden: np.ndarray) -> Composite:
    """The problem with some observations counted as missing."""
    weights = np.where(hidden, 0, weights_of(problem)).astype(problem.data.dtype)
    loss = with_weights(problem.loss, weights)
    return eqx.tree_at(lambda p: p.loss, problem, loss, is_leaf=lambda leaf: leaf is problem.loss)
