"""Errors of the parameters and verdicts, for thousands of curves at once."""

from typing import NamedTuple

import numpy as np

from . import _constants as constants
from ._batch import Batch
from ._lanes import largest_leverages
from ._pool import Fitted, Pool
from ._verdict import gain_needed
from .status import FitStatus


class Verdicts(NamedTuple):
    """One for each lane."""

    x: np.ndarray
    covariance: np.ndarray
    codes: np.ndarray
    keep: np.ndarray
    noise: np.ndarray


def judge_many(
    batch: Batch, lanes: np.ndarray, pool: Pool, found: Fitted, robust: bool
) -> Verdicts:
    """Covariances and verdicts."""
    state, residual, keep, length = found
    p = state.x.shape[1]
    kept = np.sum(keep, axis=1)
    freedom = kept - p
    noise = np.sqrt(np.where(freedom > 0, state.value, np.nan) / np.maximum(freedom, 1))
    rounding = batch.rounding[lanes]
    exact = noise <= constants.EXACT * rounding
    held = (state.x <= batch.task.box.low) | (state.x >= batch.task.box.high)
    inverse, unseen = _inverse(state.gram, held)
    codes = np.where(exact, FitStatus.EXACT, FitStatus.FITTED)
    doubtful = batch.null[lanes] - length < gain_needed(kept, p)
    doubtful |= _structured(pool, residual, keep, state.value, noise)
    if robust:
        largest = largest_leverages(pool.model, pool.curves, state.x, keep, inverse)
        doubtful |= largest > constants.HIGH_LEVERAGE
    codes = np.where(doubtful & ~exact, FitStatus.DOUBTFUL, codes)
    codes = np.where(np.any(unseen, axis=1), FitStatus.NOT_IDENTIFIED, codes)
    codes = np.where(freedom <= 0, FitStatus.DOUBTFUL, codes)
    codes = np.where(~state.settled & ~exact, FitStatus.NOT_CONVERGED, codes)
    codes = np.where(np.isfinite(length), codes, FitStatus.NOT_CONVERGED)
    covariance = np.maximum(noise, rounding)[:, None, None] ** 2 * inverse
    eye = np.eye(p, dtype=bool)
    covariance = np.where(unseen[:, :, None] & eye, np.inf, covariance)
    covariance = np.where(held[:, :, None] | held[:, None, :], np.nan, covariance)
    return Verdicts(state.x, covariance, codes, keep, noise)


def _inverse(gram: np.ndarray, held: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
    clear = np.linalg.det(scaled) > p**2 * constants.UNSEEN_SQUARED * max(
        (p / max(p - 1, 1)) ** (p - 1), 1.0
    )
    inverse = np.linalg.inv(np.where(clear[:, None, None], scaled, np.eye(p)))
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


def _structured(pool: Pool, residual, keep, value, noise) -> np.ndarray:
    """Lanes whose residuals follow a curve of their own.

    That is a clear correlation of neighbours among the data that are kept, in residuals that
    matter beside the range of these data.
    """
    before = residual[:, :-1]
    if not np.all(keep):
        residual = np.where(keep, residual, 0)
        places = np.maximum.accumulate(np.where(keep, np.arange(keep.shape[1]), 0), axis=1)
        before = np.take_along_axis(residual, places[:, :-1], axis=1)
    products = np.einsum("cn,cn->c", residual[:, 1:], before)
    limit = constants.CORRELATED / np.sqrt(np.maximum(np.sum(keep, axis=1), 1))
    some = np.flatnonzero(products > limit * value)
    y = pool.curves.y[some]
    if pool.curves.inverse is not None:
        y = y * pool.curves.inverse[some]
    high = np.max(np.where(keep[some], y, -np.inf), axis=1)
    low = np.min(np.where(keep[some], y, np.inf), axis=1)
    structured = np.zeros(len(keep), bool)
    structured[some] = noise[some] > constants.COARSE * (high - low)
    return structured
