"""New rows of a table whose components are known."""

import numpy as np

from ..losses import AbstractLoss
from ..regression import regress

_FOLDS = 5
# Residuals of right entries: so many standard deviations of the noise, or rounding errors.
_RIGHT, _ROUNDING = 4.0, 1e-8


def scores_of(
    rows: np.ndarray, components: np.ndarray, loss: AbstractLoss, nonnegative: bool = False
) -> np.ndarray:
    """Coordinates of rows in given components; NaN marks what is missing, and counts for nothing.

    A row of which nothing is known has coordinates 0.
    """
    if len(components) == 0 or len(rows) == 0:
        return np.zeros((len(rows), len(components)))
    return np.asarray(regress(components.T, rows, loss, nonnegative=nonnegative).coefficients)


def judged_rows(
    rows: np.ndarray,
    components: np.ndarray,
    loss: AbstractLoss,
    noise: float,
    nonnegative: bool = False,
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Coordinates of rows that may be wrong, and the places where they are.

    Coordinates are 0, and all is wrong, if they do not explain more than half of a row, and more
    than they go through by construction.
    """
    scores, known = scores_of(rows, components, loss, nonnegative), ~np.isnan(rows)
    largest = np.max(np.abs(np.nan_to_num(rows)), axis=1, keepdims=True, initial=0.0)
    away = np.abs(rows - scores @ components)
    right = away <= np.maximum(_RIGHT * noise, _ROUNDING * largest)
    count = np.sum(right, axis=1, keepdims=True)
    enough = (count > len(components)) & (2 * count > np.sum(known, axis=1, keepdims=True))
    wrong = np.where(enough, ~right, rows != 0)
    return np.where(enough, scores, 0.0), np.nonzero(known & wrong)


def predicted_rows(
    rows: np.ndarray, components: np.ndarray, loss: AbstractLoss, nonnegative: bool = False
) -> np.ndarray:
    """Every entry as the others of its row predict it, a fifth of them hidden at a time."""
    predicted = np.zeros_like(rows)
    fold = np.arange(rows.shape[1]) % min(_FOLDS, rows.shape[1])
    for each in np.unique(fold):
        hidden = np.where(fold == each, np.nan, rows)
        filled = scores_of(hidden, components, loss, nonnegative) @ components
        predicted = np.where(fold == each, filled, predicted)
    return predicted


def geometric_median(points: np.ndarray, steps: int = 500) -> np.ndarray:
    """The point with the least sum of distances to given ones (Vardi and Zhang, 2000).

    It is a mean with positive weights, so it lies in the plane of the points, and half of them may
    be anywhere without carrying it away.
    """
    here = np.median(points, axis=0)
    size = np.max(np.abs(points)) if points.size else 0.0
    if size == 0:
        return here
    for step in range(steps):
        distances = np.linalg.norm(points - here, axis=1)
        away = distances > 1e-12 * size
        if not np.any(away):
            return here
        weights = 1 / distances[away]
        there = weights @ points[away] / np.sum(weights)
        pull = np.linalg.norm(weights @ (points[away] - here))
        # Points that coincide with the iterate hold it back; if they hold it altogether, it is one.
        held = np.count_nonzero(~away)
        share = 1.0 if pull == 0 else min(1.0, held / pull)
        there = (1 - share) * there + share * here
        if step and np.max(np.abs(there - here)) <= 1e-13 * size:
            return there
        here = there
    return here
