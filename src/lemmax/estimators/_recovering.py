"""Conversion of arrays to arguments of `recover`, and of its results."""

import numpy as np

from ..losses import L1, AbstractLoss, SquaredL2
from ..operators import Entries
from ..points import KruskalPoint
from ..recovery import Recovery
from ._base import check_loss

# Below this share of observed entries, they are stored as a list.
_SPARSE = 0.2


def loss_called(name: str, weights: np.ndarray | None = None) -> AbstractLoss:
    """A loss by name, with weights of the observations."""
    check_loss(name)
    return L1(weights=weights) if name == "robust" else SquaredL2(weights=weights)


def factors_of(found: Recovery) -> tuple[np.ndarray, ...]:
    """The factors of a recovered matrix or tensor."""
    assert isinstance(found.point, KruskalPoint)
    return tuple(np.asarray(factor, np.float64) for factor in found.point.factors)


class Observed:
    """The observed entries of an array, in the form that `recover` is fastest with."""

    def __init__(self, array: np.ndarray, weights: np.ndarray | None = None):
        seen = ~np.isnan(array)
        if weights is not None:
            seen &= weights > 0
        if not np.any(seen):
            raise ValueError("All entries are missing: no value is observed.")
        self.operator = self.places = None
        self.data, self.known = np.where(seen, array, 0.0), seen
        self.weights = weights
        if np.mean(seen) < _SPARSE:
            self.places = np.nonzero(seen)
            self.operator = Entries(self.places, array.shape)
            self.data, self.known = array[seen], np.ones(int(seen.sum()), bool)
            self.weights = None if weights is None else weights[seen]
        elif not np.all(seen):
            self.weights = np.where(seen, 1.0 if weights is None else weights, 0.0)

    def outliers(self, found: Recovery) -> tuple[np.ndarray, ...]:
        """Positions of the outliers, as indices into the array."""
        if self.places is None:
            return found.outliers
        return tuple(index[found.outliers] for index in self.places)
