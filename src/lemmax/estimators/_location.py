"""A location and components of a table together, by least squares on the entries that are right."""

from typing import NamedTuple

import numpy as np

from ._rows import geometric_median

# Sweeps over rows and columns; they end when the error changes by no more than this part.
_SWEEPS, _STILL = 300, 1e-5
# A row with too few entries is determined by being small, relative to the others.
_RIDGE = 1e-14
# Errors this small, relative to the largest entry, are rounding errors.
_ROUNDING = 1e-15


class Located(NamedTuple):
    """A fit of ``location + scores components'``."""

    location: np.ndarray
    scores: np.ndarray
    components: np.ndarray
    """One column for each."""
    criterion: float
    """Schwarz's, to be compared with that of other ranks on the same entries."""

    @property
    def centre(self) -> np.ndarray:
        """The geometric median of the rows as they should be."""
        return self.location + self.components @ geometric_median(self.scores)


def located(
    values: np.ndarray,
    right: np.ndarray,
    location: np.ndarray,
    scores: np.ndarray,
    components: np.ndarray,
) -> Located:
    """Alternating least squares, from a start.

    Parameters
    ----------
    values : array of shape (rows, columns)
    right : array of bool
        Which entries count.
    location, scores, components : arrays
        The start.
    """
    weights, filled = right.astype(float), np.where(right, values, 0.0)
    largest, count, error = float(np.max(np.abs(filled))), int(np.sum(right)), np.inf
    for _ in range(_SWEEPS):
        scores = _solved(components, filled - location, weights)
        both = _solved(np.column_stack([scores, np.ones(len(scores))]), filled.T, weights.T)
        components, location = both[:, :-1], both[:, -1]
        residual = weights * (filled - location - scores @ components.T)
        before, error = error, float(np.sqrt(np.sum(residual**2) / count))
        if error <= _ROUNDING * largest or before - error <= _STILL * error:
            break
    rank = components.shape[1]
    freedom = rank * (sum(values.shape) - rank) + values.shape[1]
    error = max(error, _ROUNDING * largest)
    criterion = 2 * count * np.log(error) + freedom * np.log(count)
    return Located(location, scores, components, float(criterion))


def _solved(basis: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Coefficients of every row in a basis, by weighted least squares."""
    gram = np.einsum("ij,jr,js->irs", weights, basis, basis, optimize=True)
    ridge = _RIDGE * np.sum(basis**2) / len(basis) + np.finfo(float).tiny
    gram += ridge * np.eye(basis.shape[1])
    return np.linalg.solve(gram, ((weights * rows) @ basis)[:, :, None])[:, :, 0]
