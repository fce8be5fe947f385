"""Rivals: other values of a row, column or slice that explain as many of its entries."""

import itertools
import math

import numpy as np

from .._terms import Components, unfoldings
from . import _constants as constants
from ._objections import Lines


def contested(
    factors: list[np.ndarray],
    places: tuple[np.ndarray, ...],
    values: np.ndarray,
    explained: np.ndarray,
    tolerance: float,
    slack: int,
) -> tuple[float, Lines]:
    """The error of a point (Frobenius norm) if rivals of its rows are right instead.

    A fit to a row of arbitrary numbers goes through as many of them as there are terms, and so do
    other fits: the row is not determined. Observed are ``values`` at ``places`` (an index array for
    each mode), some of them ``explained``, up to a tolerance. A rival may explain ``slack`` entries
    fewer. Returned are the distance from the farthest rivals, and the rows that have rivals, a list
    for each mode: of a matrix (the first factor times the transpose of the second) rows and
    columns, of a tensor slices.
    """
    total, rng = 0.0, np.random.default_rng(0)
    which: Lines = tuple([] for _ in factors)
    for mode, pair in enumerate(unfoldings(factors)):
        standing = Components.standing(*pair)
        rows, others = standing.left * standing.values, standing.right
        inside, found = places[mode], which[mode]
        rest = [k for k in range(len(factors)) if k != mode]
        across = np.ravel_multi_index([places[k] for k in rest], [len(factors[k]) for k in rest])
        rank = rows.shape[1]
        # The fit chose the other factors of a term that lives on one row for that row, too.
        squares = factors[mode] ** 2
        shares = np.sum(squares / np.maximum(np.sum(squares, axis=0), 1e-300), axis=1)
        unknowns = rank + sum(len(factors[k]) - 1 for k in rest) * shares
        seen = np.bincount(inside, minlength=len(rows))
        hits = np.bincount(inside, weights=explained, minlength=len(rows))
        # Two fits that share more entries than there are terms are equal, and if each explains h of
        # n entries, they share at least 2 h - n.
        alone = 2 * hits - slack - seen > rank
        for row in np.flatnonzero((seen > hits) & ~alone):
            here = inside == row
            matrix, wanted, wins = others[across[here]], values[here], hits[row] - slack
            rivals = _through_few(matrix, wanted, rng)
            agree = np.sum(np.abs(rivals @ matrix.T - wanted) <= tolerance, axis=1)
            unknown = wins <= _by_chance(matrix @ rows[row] - wanted, tolerance, unknowns[row])
            if unknown:  # the best fit to noise does as well, which no few entries lead to
                rivals, agree = np.zeros((1, rank)), np.array([wins])
            away = (rivals[agree >= wins] - rows[row]) @ others.T
            if np.max(np.abs(away), initial=0.0) > 2 * tolerance:  # else it is the same fit
                found.append(int(row))
                farthest = float(np.max(np.sum(away**2, axis=1)))
                # Nor is the size of an unknown row known: it may be that of the others.
                total += max(farthest, float(np.mean(np.sum(rows**2, axis=1))) * unknown)
        if len(factors) == 2:
            # Nothing checks a row that is alone in one of the directions of all rows.
            lonely = (np.sum(standing.left**2, axis=1) > constants.LONELY) & (len(rows) > rank)
            lonely[found] = False
            total += float(np.sum(rows[lonely] ** 2))
            found.extend(np.flatnonzero(lonely).tolist())
    return math.sqrt(total), which


def _by_chance(residual: np.ndarray, tolerance: float, unknowns: float) -> float:
    """The number of entries that the best fit to a row of noise explains; 0 if none is near.

    The probability to explain one entry is estimated from the density of residuals a little above
    the tolerance. The best of all fits gains the spread of the maximum over its unknowns.
    """
    sizes, count = np.abs(residual), residual.size
    near = np.count_nonzero((sizes > tolerance) & (sizes <= constants.BULK * tolerance))
    chance = min(near / ((constants.BULK - 1) * count), 1.0)
    spread = math.sqrt(2 * count * chance * (1 - chance) * unknowns * math.log(count))
    return count * chance + spread + unknowns if near else 0.0


def _through_few(matrix: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Fits through as many values as there are unknowns."""
    count, unknowns = matrix.shape
    if count <= unknowns:
        return np.empty((0, unknowns))
    if math.comb(count, unknowns) <= constants.DRAWS:
        chosen = np.array(list(itertools.combinations(range(count), unknowns)))
    else:
        chosen = np.argsort(rng.random((constants.DRAWS, count)), axis=1)[:, :unknowns]
    return np.einsum("kij,kj->ki", np.linalg.pinv(matrix[chosen]), values[chosen])
