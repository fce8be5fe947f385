"""Random choices among data that do not depend on the order in which the data are given."""

import numpy as np


def uniform_by_rank(values: np.ndarray, known: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Independent uniform numbers, one for each known value; 1 for the others.

    The numbers are dealt to the values in ascending order. So a value has the same number if rows
    are permuted, the table is transposed or units change. Equal values share their numbers in the
    order in which they stand.

    Parameters
    ----------
    values : array
    known : array of bool, like values
    rng : numpy.random.Generator

    Returns
    -------
    array like values
    """
    draws = np.ones(values.shape)
    some = values[known]
    dealt = np.empty(len(some))
    dealt[np.argsort(some, kind="stable")] = rng.random(len(some))
    draws[known] = dealt
    return draws
