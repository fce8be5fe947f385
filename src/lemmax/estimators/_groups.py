"""Weighted locations of groups of values."""

import numpy as np

# Three standard deviations, of normal values, in units of their median size.
_BULK = 3 * 1.4826


def groupwise_mean(
    values: np.ndarray, weights: np.ndarray, groups: np.ndarray, count: int
) -> np.ndarray:
    """The mean of every group, numbered from 0; 0 for one without values."""
    total = np.bincount(groups, weights, minlength=count)
    sums = np.bincount(groups, weights * values, minlength=count)
    return sums / np.where(total > 0, total, 1)


def groupwise_median(
    values: np.ndarray, weights: np.ndarray, groups: np.ndarray, count: int
) -> np.ndarray:
    """The median of every group, numbered from 0; 0 for one without values.

    Where half of the weight is below a value and half above, the middle of it and the next.
    """
    order = np.lexsort((values, groups))
    values, weights, groups = values[order], weights[order], groups[order]
    total = np.bincount(groups, weights, minlength=count)
    before = np.concatenate([[0.0], np.cumsum(total)])[groups]
    reached = (np.cumsum(weights) - before) / total[groups]
    medians = np.zeros((2, count))
    # The first value with half of the weight up to it, and the first with more than half.
    for which, enough in enumerate((reached >= 0.5 - 1e-12, reached > 0.5 + 1e-12)):
        found, first = np.unique(groups[enough], return_index=True)
        medians[which, found] = values[enough][first]
    return medians.mean(axis=0)


def groupwise_bulk_mean(
    values: np.ndarray, weights: np.ndarray, groups: np.ndarray, count: int
) -> np.ndarray:
    """The mean of every group without what is far from its median, by the measure of them all.

    Medians of whole numbers, such as ratings, are whole numbers: too coarse.
    """
    middle = groupwise_median(values, weights, groups, count)
    away = np.abs(values - middle[groups])
    typical = np.median(away)
    if typical == 0:  # exact but for gross errors
        return middle
    near = away <= _BULK * typical
    means = groupwise_mean(values, weights * near, groups, count)
    return np.where(np.bincount(groups, weights * near, minlength=count) > 0, means, middle)
