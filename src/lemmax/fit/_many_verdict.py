"""Errors of the parameters and verdicts, for thousands of curves at once."""

from typing import NamedTuple

import numpy as np

from . import _constants as constants
from ._batch import Batch
from ._glance import Glance
from ._inverses import inverses
from ._lanes import largest_leverages, residuals
from ._limits import cut_off
from ._order import close_to_the_fit, crowded, in_runs
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
    batch: Batch, lanes: np.ndarray, pool: Pool, found: Fitted, glance: Glance, robust: bool
) -> Verdicts:
    """Covariances and verdicts."""
    state, keep, length = found
    p = state.x.shape[1]
    kept = np.sum(keep, axis=1)
    freedom = kept - p
    noise = np.sqrt(np.where(freedom > 0, state.value, np.nan) / np.maximum(freedom, 1))
    rounding = batch.rounding[lanes]
    exact = noise <= constants.EXACT * rounding
    held = (state.x <= batch.task.box.low) | (state.x >= batch.task.box.high)
    inverse, unseen = inverses(state.gram, held)
    # As of one fit: what hardly changes the data if it is doubled is not seen.
    size = np.maximum(np.abs(state.x), np.abs(batch.start[lanes]))
    change = np.sqrt(np.diagonal(state.gram, axis1=1, axis2=2)) * size
    least = constants.ROUNDINGS * (rounding * np.sqrt(np.maximum(kept, 1)))[:, None]
    unseen |= ~held & (change < least) & (size > 0)
    codes = np.where(exact, FitStatus.EXACT, FitStatus.FITTED)
    doubtful = batch.null[lanes] - length < gain_needed(kept, p)
    doubtful |= _structured(pool, glance, keep, state.value, noise)
    if robust:
        doubtful |= _curved(pool, found)
        doubtful |= _cut_off(pool, found, noise)
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


def _curved(pool: Pool, found: Fitted) -> np.ndarray:
    """Lanes whose outliers follow a curve close to the fit, or are crowded together."""
    curved = np.zeros(len(found.length), bool)
    # Runs are counted again below, without what is missing.
    some = np.flatnonzero(in_runs(pool.counts & ~found.keep) > constants.IN_LINE)
    if not some.size:
        return curved
    x, keep, there = found.state.x[some], found.keep[some], pool.counts[some]
    data = pool.of(some).curves
    residual = residuals(pool.model, data, x, lambda part, _: part)
    curve = data.y * (1 if data.inverse is None else data.inverse) + residual
    high = np.max(np.where(keep, curve, -np.inf), axis=1)
    low = np.min(np.where(keep, curve, np.inf), axis=1)
    for k, lane in enumerate(some):
        outliers = residual[k, there[k]], ~keep[k, there[k]]
        close = close_to_the_fit(*outliers, width=high[k] - low[k])
        curved[lane] = close > 0 or crowded(*outliers) > 0
    return curved


def _cut_off(pool: Pool, found: Fitted, noise: np.ndarray) -> np.ndarray:
    """Lanes with data that a detector has cut off."""
    y, there = pool.curves.y, pool.counts
    ends = np.where(there, y, np.inf).min(axis=1), np.where(there, y, -np.inf).max(axis=1)
    equal = [np.sum(there & (y == end[:, None]), axis=1) for end in ends]
    some = np.flatnonzero(np.maximum(*equal) >= constants.AT_A_LIMIT)
    limited = np.zeros(len(y), bool)
    if some.size:
        data, x = pool.of(some).curves, found.state.x[some]
        residual = residuals(pool.model, data, x, lambda part, _: part)
        for k, lane in enumerate(some):
            own = there[lane]
            of_lane = data.y[k, own], residual[k, own], found.keep[lane, own]
            limited[lane] = cut_off(*of_lane, noise[lane]) > 0
    return limited


def _structured(pool: Pool, glance: Glance, keep, value, noise) -> np.ndarray:
    """Lanes whose residuals follow a curve of their own.

    That is a clear correlation of neighbours among the data that are kept, in residuals that
    matter beside the range of these data.
    """
    limit = constants.CORRELATED / np.sqrt(np.maximum(np.sum(keep, axis=1), 1))
    some = np.flatnonzero(glance.neighbours > limit * value)
    y = pool.curves.y[some]
    if pool.curves.inverse is not None:
        y = y * pool.curves.inverse[some]
    high = np.max(np.where(keep[some], y, -np.inf), axis=1)
    low = np.min(np.where(keep[some], y, np.inf), axis=1)
    structured = np.zeros(len(keep), bool)
    structured[some] = noise[some] > constants.COARSE * (high - low)
    return structured
