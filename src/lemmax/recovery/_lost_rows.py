"""Rows, columns and slices that a fit to observed entries has lost, found again one by one."""

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from .._typing import Parameters
from ..operators import Entries
from ._components_of_entries import Observed
from ._structure import Ranked

# A row is lost if this part of the inliers that other rows have is all it has, or if it has so
# many standard deviations less than they.
_LOST, _BY_CHANCE = 0.5, 5.0
# Of a large row the latter is little: so much less it must be. And if a sample of it is refitted,
# so much more, over the root of their number, the inliers must be after that.
_CLEAR, _BY_LUCK = 0.9, 2.0
# It is found again if its residuals have come down to this part of what they were.
_GAIN = 0.1
# Its last fits are to residuals below so many times their quantile at this share: a row may have
# more outliers than the others. Of normal ones that is three standard deviations.
_TRIMMED_FITS, _BULK, _SURELY_INLIERS = 5, 8.0, 0.3
# Up to so many values, chance decides how many are wrong: so many fits to a few are compared.
_SHORT, _DRAWS = 300, 200
# So many entries of a row tell it well enough.
_ENOUGH = 4000


def refit_lost_rows(
    map: Ranked, observed: Observed, x: Parameters, level: float
) -> tuple[Parameters | None, int]:
    """Fit rows of factors anew that are so far off that nothing of them counts.

    The level may fall faster than the errors of a few rows or columns (of a tensor: slices), of
    which then every entry looks like an outlier. Once the rest is known, such a row is a small
    regression with outliers.

    Returns
    -------
    Parameters or None
        Of the map; None if no row was lost and is found.
    int
        How many stay lost.
    """
    residual = np.asarray(observed.measure(map(x)) - observed.data, np.float64)
    weights = np.ones(residual.shape)
    if observed.known is not None:
        weights = np.asarray(observed.known, np.float64)
    known = weights > 0
    if isinstance(observed.operator, Entries):
        places = [np.asarray(index)[known] for index in observed.operator.indices]
    else:
        places = list(np.nonzero(known))
    values, sizes = np.asarray(observed.data, np.float64)[known], np.abs(residual[known])
    weights = weights[known]
    fits = sizes <= level
    wanted = _LOST * np.mean(fits)
    # Of a symmetric point all factors are one array: what is found in it, is found in all.
    own = [np.array(f, np.float64) for f in ([x] if map.symmetric else x)]
    factors = own * len(observed.shape) if map.symmetric else own
    used = np.any(own[0] != 0, axis=0)
    found = lost = 0
    rng = np.random.default_rng(0)
    for mode, factor in enumerate(own):
        # A row of a symmetric point is in all modes.
        modes = range(len(factors)) if map.symmetric else [mode]
        rows = factor.shape[0]
        counts = sum(np.bincount(places[k], minlength=rows) for k in modes)
        inliers = sum(np.bincount(places[k], weights=fits, minlength=rows) for k in modes)
        enough = counts > 2 * np.count_nonzero(used)
        expected = np.mean(fits) * counts
        chance = _BY_CHANCE * np.sqrt(expected * (1 - np.mean(fits)))
        few = inliers < np.maximum(
            wanted * counts, np.minimum(expected - chance, _CLEAR * expected)
        )
        for row in np.flatnonzero(few & enough):
            others, here = _regression(factors, places, modes, int(row), rng)
            others = others[:, used] * weights[here, None]
            solution, left = _robust_regression(others, values[here], level, rng)
            before, after = np.quantile(sizes[here], wanted), np.quantile(np.abs(left), wanted)
            # A row may consist of outliers alone: then it stays as it is.
            more = (
                np.mean(np.abs(left) <= level) > np.mean(fits[here]) + _BY_LUCK / len(here) ** 0.5
            )
            if more if before <= level else after <= max(level, _GAIN * before):
                factor[row, used] = solution
                found += 1
            else:
                lost += 1
    if not found:
        return None, lost
    arrays = [jnp.asarray(factor, observed.data.dtype) for factor in own]
    return (arrays[0] if map.symmetric else tuple(arrays)), lost


def _regression(
    factors: list[np.ndarray],
    places: list[np.ndarray],
    modes: Sequence[int],
    row: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """What the entries of a row depend on linearly, and which entries these are."""
    regressors, chosen = [], []
    for mode in modes:
        others = [k for k in range(len(factors)) if k != mode]
        here = places[mode] == row
        if len(modes) > 1:  # where the row is in two modes, the entry is not linear in it
            here &= np.all([places[k] != row for k in others], axis=0)
        here = np.flatnonzero(here)
        if len(here) > _ENOUGH:
            here = rng.choice(here, _ENOUGH, replace=False)
        regressors.append(math.prod(factors[k][places[k][here]] for k in others))
        chosen.append(here)
    return np.concatenate(regressors), np.concatenate(chosen)


def _robust_regression(
    matrix: np.ndarray, values: np.ndarray, level: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Of two candidates the one that goes through more values.

    Least absolute deviations fail if by chance a short row has many outliers of one sign; for
    those, the best of many fits to as many values as there are unknowns.

    Returns the solution and the residual.
    """
    smallest = max(level, np.finfo(np.float64).tiny)
    starts = [_least_deviations(matrix, values, smallest)]
    if 2 * matrix.shape[1] < len(values) <= _SHORT:
        starts.append(_consensus(matrix, values, smallest, rng))
    candidates = [_trimmed(matrix, values, start, smallest) for start in starts]
    return candidates[_best(np.abs(np.column_stack([left for _, left in candidates])), smallest)]


def _best(sizes: np.ndarray, smallest: float) -> int:
    """Of several fits, a column of residuals each, the one that goes through more values.

    Medians alone would compare rounding errors wherever two fits go through half of the values.
    """
    return int(np.lexsort((np.median(sizes, axis=0), np.sum(sizes > smallest, axis=0)))[0])


def _least_deviations(matrix: np.ndarray, values: np.ndarray, smallest: float) -> np.ndarray:
    """By reweighted least squares."""
    smooth = np.max(np.abs(values))
    solution, residual = np.zeros(matrix.shape[1]), values
    while smooth > smallest:
        smooth = 0.5 * smooth
        roots = 1 / np.sqrt(np.maximum(np.abs(residual), smooth))
        solution = np.linalg.lstsq(matrix * roots[:, None], values * roots, rcond=None)[0]
        residual = values - matrix @ solution
    return solution


def _consensus(
    matrix: np.ndarray, values: np.ndarray, smallest: float, rng: np.random.Generator
) -> np.ndarray:
    """Of the solutions through a few values, the one that goes through most of the others."""
    count, unknowns = matrix.shape
    chosen = np.argsort(rng.random((_DRAWS, count)), axis=1)[:, :unknowns]
    solutions = np.einsum("kij,kj->ki", np.linalg.pinv(matrix[chosen]), values[chosen])
    return solutions[_best(np.abs(values[:, None] - matrix @ solutions.T), smallest)]


def _trimmed(
    matrix: np.ndarray, values: np.ndarray, solution: np.ndarray, smallest: float
) -> tuple[np.ndarray, np.ndarray]:
    """Least squares on the bulk of the residuals, a few times."""
    residual = values - matrix @ solution
    for _ in range(_TRIMMED_FITS):
        small = np.quantile(np.abs(residual), _SURELY_INLIERS)
        bulk = np.abs(residual) <= max(_BULK * small, smallest)
        solution = np.linalg.lstsq(matrix[bulk], values[bulk], rcond=None)[0]
        residual = values - matrix @ solution
    return solution, residual
