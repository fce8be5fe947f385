"""New rows of a table whose components are known."""

import numpy as np

from ..losses import AbstractLoss
from ..regression import regress

_FOLDS = 5


def scores_of(
    rows: np.ndarray, components: np.ndarray, loss: AbstractLoss, nonnegative: bool = False
) -> np.ndarray:
    """Coordinates of rows in given components; NaN marks what is missing, and counts for nothing.

    A row of which nothing is known has coordinates 0.
    """
    if len(components) == 0 or len(rows) == 0:
        return np.zeros((len(rows), len(components)))
    return np.asarray(regress(components.T, rows, loss, nonnegative=nonnegative).coefficients)


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


def geometric_median(points: np.ndarray, steps: int = 200) -> np.ndarray:
    """The point with the least sum of distances to given ones (Weiszfeld's method).

    It is a mean with positive weights, so it lies in the plane of the points, and half of them may
    be anywhere without carrying it away.
    """
    here = np.median(points, axis=0)
    size = np.max(np.abs(points)) if points.size else 0.0
    if size == 0:
        return here
    for _ in range(steps):
        distances = np.linalg.norm(points - here, axis=1)
        weights = 1 / np.maximum(distances, 1e-12 * size)
        there = weights @ points / np.sum(weights)
        if np.max(np.abs(there - here)) <= 1e-12 * size:
            return there
        here = there
    return here
