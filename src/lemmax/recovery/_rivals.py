"""Rows and columns of a table of which another fit would explain as many entries."""

import itertools
import math
from typing import Any

import numpy as np

from .._typing import Parameters
from ..operators import Entries
from ..problem import Composite
from ._certificate import Lines
from ._components_of_entries import MatrixMap, lonely_lines, standing_components

# So many other fits to a row are looked at: all through as few entries as there are terms, or some.
_DRAWS = 500


def lines_of(problem: Composite, known: np.ndarray, map: MatrixMap, x: Parameters) -> Lines:
    """The rows and columns of a point of which the known entries are observed."""

    def judge(explained: np.ndarray, tolerance: float, slack: int) -> Any:
        found = standing_components(map, x)
        if isinstance(problem.operator, Entries):
            places = [np.asarray(index)[known] for index in problem.operator.indices]
        else:
            places = list(np.nonzero(known))
        factors = [found.left * found.values, found.right]
        values = np.asarray(problem.data, np.float64)[known]
        return contested(factors, places, values, explained[known], tolerance, slack)

    return Lines(lonely_lines(map, x), judge)


def contested(
    factors: list[np.ndarray],
    places: list[np.ndarray],
    values: np.ndarray,
    explained: np.ndarray,
    tolerance: float,
    slack: int,
) -> tuple[float, tuple[list[int], list[int]]]:
    """By how much a matrix would be wrong (Frobenius norm) if the rivals of its rows were right.

    A row of wrong numbers goes through as many of them as there are terms, and looks explained
    there. So do others, which is how to tell.

    Parameters
    ----------
    factors : two arrays
        The matrix is the first times the transpose of the second.
    places : two arrays of int
        Row and column of every observed entry.
    values : array
        Of these entries.
    explained : array of bool
        Which of them the matrix explains.
    tolerance : float
        The largest residual of an explained entry.
    slack : int
        By so many entries fewer is still as many.

    Returns
    -------
    float
        The distance from the farthest rivals.
    two lists of int
        The rows and the columns that have rivals.
    """
    total, rng = 0.0, np.random.default_rng(0)
    which: tuple[list[int], list[int]] = ([], [])
    for found, rows, others, inside, across in (
        (which[0], factors[0], factors[1], places[0], places[1]),
        (which[1], factors[1], factors[0], places[1], places[0]),
    ):
        rank = rows.shape[1]
        seen = np.bincount(inside, minlength=len(rows))
        hits = np.bincount(inside, weights=explained, minlength=len(rows))
        # Two fits that share more entries than there are terms are one; and they share at least so
        # many as both together have more than there are.
        alone = 2 * hits - slack - seen > rank
        for row in np.flatnonzero((seen > hits) & ~alone):
            here = inside == row
            matrix, wanted = others[across[here]], values[here]
            rivals = _through_few(matrix, wanted, rng)
            agree = np.sum(np.abs(rivals @ matrix.T - wanted) <= tolerance, axis=1)
            away = (rivals[agree >= hits[row] - slack] - rows[row]) @ others.T
            if np.max(np.abs(away), initial=0.0) > 2 * tolerance:  # or else it is the same fit
                found.append(int(row))
                total += float(np.max(np.sum(away**2, axis=1)))
    return math.sqrt(total), which


def _through_few(matrix: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Fits that go through as many values as there are unknowns."""
    count, unknowns = matrix.shape
    if count <= unknowns:
        return np.empty((0, unknowns))
    if math.comb(count, unknowns) <= _DRAWS:
        chosen = np.array(list(itertools.combinations(range(count), unknowns)))
    else:
        chosen = np.argsort(rng.random((_DRAWS, count)), axis=1)[:, :unknowns]
    return np.einsum("kij,kj->ki", np.linalg.pinv(matrix[chosen]), values[chosen])
