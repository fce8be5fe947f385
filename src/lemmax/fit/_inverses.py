"""Inverses of the Gram matrices of many curves."""

import numpy as np

from . import _constants as constants


def inverses(gram: np.ndarray, held: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverses of Gram matrices, 0 in rows that are held or not determined; and which are not."""
    p = gram.shape[1]
    norms = np.sqrt(np.diagonal(gram, axis1=1, axis2=2))
    size = np.where((norms > 0) & ~held, norms, 1)
    free = ~held[:, :, None] & ~held[:, None, :]
    scaled = np.where(free, gram / (size[:, :, None] * size[:, None, :]), 0)
    # A row of what is held, or seen by nothing, is that of the unit matrix.
    blind = held | ~(norms > 0)
    scaled = scaled + np.where(blind[:, :, None] & np.eye(p, dtype=bool), 1.0, 0.0)
    scaled = np.where(np.all(np.isfinite(scaled), axis=(1, 2), keepdims=True), scaled, np.eye(p))
    unseen = ~held & blind
    # Of a matrix with a unit diagonal, eigenvalues are between 0 and p, and their product is the
    # determinant: one that is not small has no small eigenvalue.
    inverse, determinant = _eliminated(scaled)
    clear = determinant > p**2 * constants.UNSEEN_SQUARED * max((p / max(p - 1, 1)) ** (p - 1), 1.0)
    hard = np.flatnonzero(~clear)
    if hard.size:
        values, vectors = np.linalg.eigh(scaled[hard])
        seen = values > p * constants.UNSEEN_SQUARED * values[:, -1:]
        reciprocal = np.where(seen, 1 / np.where(seen, values, 1), 0)
        inverse[hard] = np.einsum("bik,bk,bjk->bij", vectors, reciprocal, vectors)
        hidden = np.einsum("bik,bk->bi", vectors**2, ~seen)
        unseen[hard] |= ~held[hard] & (hidden > constants.NEGLIGIBLE**2)
    inverse /= size[:, :, None] * size[:, None, :]
    lost = held | unseen
    return np.where(lost[:, :, None] | lost[:, None, :], 0, inverse), unseen


def _eliminated(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverses and determinants of positive definite matrices, all at once: faster than LAPACK."""
    rows = np.moveaxis(matrix, 0, -1).copy()
    determinant = np.ones(rows.shape[-1])
    for k in range(len(rows)):
        pivot = rows[k, k].copy()
        determinant *= pivot
        rows[k, k] = 1
        rows[k] /= pivot
        column = rows[:, k].copy()
        column[k] = 0
        rows[:, k] *= np.arange(len(rows))[:, None] == k
        rows -= column[:, None] * rows[k]
    return np.moveaxis(rows, -1, 0).copy(), determinant
