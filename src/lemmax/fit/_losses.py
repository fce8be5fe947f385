"""Losses of single residuals, from squares to redescending ones, and robust scales.

One family serves all stages of a fit (Barron, A general and adaptive robust loss function, 2019):
its shape is 2 for squares, 1 for absolute values smoothed near 0, and -2 for Geman and McClure's
loss, under which a residual far beyond the scale has no influence.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

SQUARES, ABSOLUTE, REDESCENDING = 2.0, 1.0, -2.0
"""Shapes of losses."""

GAUSSIAN = 1.482602218505602
"""The median of the sizes of Gaussian residuals is their standard deviation divided by this."""


@runtime_checkable
class LaneLoss(Protocol):
    """What a descent needs of a loss."""

    def value(self, residual: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Twice the loss, summed over the data of each lane."""
        ...

    def weight(self, residual: np.ndarray) -> np.ndarray:
        """The weight under which the square of a residual has the slope of the loss."""
        ...

    def of(self, lanes: np.ndarray | slice) -> "LaneLoss":
        """Those of some lanes."""
        ...


class Loss(NamedTuple):
    """One loss for each lane: its shape, and the size of residuals beyond which it bends."""

    shape: float
    scale: np.ndarray
    """Of shape (lanes,); not used by squares."""

    def value(self, residual: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Twice the loss, summed over the data of each lane; like squares near 0."""
        squares = residual**2
        if self.shape != SQUARES:
            knee = abs(self.shape - 2) * self.scale[:, None] ** 2
            bent = (squares / knee + 1) ** (self.shape / 2) - 1
            squares = 2 * knee / self.shape * bent
        return np.sum(weight * squares, axis=1)

    def weight(self, residual: np.ndarray) -> np.ndarray:
        """The weight under which the square of a residual has the slope of the loss."""
        if self.shape == SQUARES:
            return np.ones_like(residual)
        knee = abs(self.shape - 2) * self.scale[:, None] ** 2
        return (residual**2 / knee + 1) ** (self.shape / 2 - 1)

    def of(self, lanes: np.ndarray | slice) -> "Loss":
        """Those of some lanes."""
        return Loss(self.shape, self.scale[lanes])


def squares(lanes: int) -> Loss:
    """Least squares in every lane."""
    return Loss(SQUARES, np.ones(lanes))


def robust_scale(residual: np.ndarray, counts: np.ndarray, fitted: int) -> np.ndarray:
    """Standard deviation of the noise in each lane, from the middle of the sizes of residuals.

    A fit of p parameters can make p residuals vanish, so that the median is that of the others.
    ``counts`` says which data of a lane count; nearly half of them may be outliers.
    """
    sizes = np.where(counts > 0, np.abs(residual), np.inf)
    sizes = np.sort(sizes, axis=1)
    n = np.sum(counts > 0, axis=1)
    first = np.minimum(fitted, np.maximum(n - 1, 0))
    low, high = (first + n - 1) // 2, (first + n) // 2
    rows = np.arange(len(sizes))
    return GAUSSIAN * (sizes[rows, low] + sizes[rows, high]) / 2
