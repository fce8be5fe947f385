"""The last digits of a matrix of which the right entries are known."""

import numpy as np

from ..maps import PSD
from ..operators import Identity
from ._components_of_entries import Components, MatrixMap, Observed, components_of

# A few sweeps do; of a large table the last digits of a row are not worth the time.
_SWEEPS, _LARGE = 20, 1_000_000
# A row is left alone if what counts of it says so much less of one direction than of another.
_ILL_CONDITIONED = 1e-8


def polished(map: MatrixMap, observed: Observed, found: Components, level: float) -> Components:
    """Rows, then columns, by least squares on the entries with a residual below the level.

    Steps for the whole matrix leave a row behind that has few such entries.
    """
    data = np.asarray(observed.data, np.float64)
    entrywise = isinstance(observed.operator, Identity)
    if isinstance(map, PSD) or not entrywise or data.size > _LARGE:
        return found
    weights = np.ones(data.shape)
    if observed.known is not None:
        weights = np.asarray(observed.known, np.float64)
    left, right = found.left * found.values, found.right
    counted = np.where(np.abs(weights * (left @ right.T) - data) <= level, weights, 0)
    for _ in range(_SWEEPS):
        before = left @ right.T
        right, triangle = np.linalg.qr(right)
        left = _regressed(left @ triangle.T, right, counted, data)
        left, triangle = np.linalg.qr(left)
        right = _regressed(right @ triangle.T, left, counted.T, data.T)
        after = left @ right.T
        if np.max(np.abs(after - before)) <= 4 * np.finfo(float).eps * np.max(np.abs(after)):
            break
    return components_of(map, (left, right), len(found.values))


def _regressed(
    rows: np.ndarray, basis: np.ndarray, weights: np.ndarray, data: np.ndarray
) -> np.ndarray:
    """The rows that explain the data best on an orthonormal basis; those that are not known, stay.

    Corrections to what there is: of these the normal equations have digits enough.
    """
    rank = basis.shape[1]
    pairs = (basis[:, :, None] * basis[:, None, :]).reshape(len(basis), -1)
    grams = (weights**2 @ pairs).reshape(-1, rank, rank)
    slopes = (weights * (data - weights * (rows @ basis.T))) @ basis
    values = np.linalg.eigvalsh(grams)
    known = values[:, 0] > _ILL_CONDITIONED * np.maximum(values[:, -1], np.finfo(float).tiny)
    better = rows.copy()
    better[known] += np.linalg.solve(grams[known], slopes[known, :, None])[..., 0]
    return better
