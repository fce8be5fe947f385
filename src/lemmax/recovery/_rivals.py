"""Rows and columns of a table, or slices, of which another fit would explain as many entries."""

import itertools
import math
from typing import Any

import numpy as np

from .._terms import Components, lonely_lines, unfoldings
from .._typing import Parameters
from ..maps import AbstractRankedMap
from ..problem import Composite
from . import _constants as constants
from ._certificate import Lines


def lines_of(problem: Composite, known: np.ndarray, map: AbstractRankedMap, x: Parameters) -> Lines:
    """The rows and columns (or slices) of a point of which the known entries are observed."""
    factors = [np.asarray(factor, np.float64) for factor in map(x).factors]

    places = problem.operator.places

    def judge(explained: np.ndarray, tolerance: float, slack: int) -> Any:
        values = np.asarray(problem.data, np.float64)[known]
        return contested(factors, places(known), values, explained[known], tolerance, slack)

    def short(explained: np.ndarray) -> tuple[list[int], ...]:
        counts = [
            np.bincount(index, minlength=len(factor))
            for index, factor in zip(places(explained), factors, strict=True)
        ]
        return tuple(np.flatnonzero(count < map.rank).tolist() for count in counts)

    return Lines(lonely_lines(factors, constants.LONELY), judge, short)


def contested(
    factors: list[np.ndarray],
    places: tuple[np.ndarray, ...],
    values: np.ndarray,
    explained: np.ndarray,
    tolerance: float,
    slack: int,
) -> tuple[float, tuple[list[int], ...]]:
    """By how much a point would be wrong (Frobenius norm) if the rivals of its rows were right.

    A row of wrong numbers goes through as many of them as there are terms, and looks explained
    there. So do others, which is how to tell.

    Parameters
    ----------
    factors : arrays, one for each mode
        A matrix is the first times the transpose of the second; of a tensor slices are rows.
    places : arrays of int, one for each mode
        Row and column of every observed entry.
    values : array
        Of these entries.
    explained : array of bool
        Which of them the point explains.
    tolerance : float
        The largest residual of an explained entry.
    slack : int
        By so many entries fewer is still as many.

    Returns
    -------
    float
        The distance from the farthest rivals.
    lists of int, one for each mode
        The rows and the columns that have rivals.
    """
    total, rng = 0.0, np.random.default_rng(0)
    which: tuple[list[int], ...] = tuple([] for _ in factors)
    for mode, pair in enumerate(unfoldings(factors)):
        standing = Components.standing(*pair)
        rows, others = standing.left * standing.values, standing.right
        inside, found = places[mode], which[mode]
        rest = [k for k in range(len(factors)) if k != mode]
        across = np.ravel_multi_index([places[k] for k in rest], [len(factors[k]) for k in rest])
        rank = rows.shape[1]
        seen = np.bincount(inside, minlength=len(rows))
        hits = np.bincount(inside, weights=explained, minlength=len(rows))
        # Two fits that share more entries than there are terms are one; and they share at least so
        # many as both together have more than there are.
        alone = 2 * hits - slack - seen > rank
        for row in np.flatnonzero((seen > hits) & ~alone):
            here = inside == row
            matrix, wanted, wins = others[across[here]], values[here], hits[row] - slack
            rivals = _through_few(matrix, wanted, rng)
            agree = np.sum(np.abs(rivals @ matrix.T - wanted) <= tolerance, axis=1)
            if wins <= _by_chance(matrix @ rows[row] - wanted, tolerance, rank):
                # A fit to mere noise does as well, which those through a few entries do not find.
                rivals, agree = np.zeros((1, rank)), np.array([wins])
            away = (rivals[agree >= wins] - rows[row]) @ others.T
            if np.max(np.abs(away), initial=0.0) > 2 * tolerance:  # or else it is the same fit
                found.append(int(row))
                total += float(np.max(np.sum(away**2, axis=1)))
    return math.sqrt(total), which


def _by_chance(residual: np.ndarray, tolerance: float, unknowns: int) -> float:
    """How many entries the best fit to a row of mere noise would explain; 0 if that is clear.

    One entry is explained with the probability that the unexplained ones, a little further out,
    show. The best of all fits has as many unknowns times the logarithm of the entries to choose.
    """
    sizes, count = np.abs(residual), residual.size
    near = np.count_nonzero((sizes > tolerance) & (sizes <= constants.FARTHER * tolerance))
    chance = min(near / ((constants.FARTHER - 1) * count), 1.0)
    spread = math.sqrt(2 * count * chance * (1 - chance) * unknowns * math.log(count))
    return count * chance + spread + unknowns if near else 0.0


def _through_few(matrix: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Fits that go through as many values as there are unknowns."""
    count, unknowns = matrix.shape
    if count <= unknowns:
        return np.empty((0, unknowns))
    if math.comb(count, unknowns) <= constants.DRAWS:
        chosen = np.array(list(itertools.combinations(range(count), unknowns)))
    else:
        chosen = np.argsort(rng.random((constants.DRAWS, count)), axis=1)[:, :unknowns]
    return np.einsum("kij,kj->ki", np.linalg.pinv(matrix[chosen]), values[chosen])
