"""A start for observed entries that no local minimum can spoil: principal component pursuit.

Candès, Li, Ma and Wright (2011) split a table into a matrix of small nuclear norm and sparse
errors. It is convex, and of a small table it finds what steps from nothing do not; but it biases
what is missing, and each step takes a singular value decomposition. So it makes a start, no more.
"""

import numpy as np

from ._components_of_entries import Components

# What the smaller penalty is at first, and by how much and how often it grows.
_GROWTH, _GROWING = 1.1, 60
_STEPS, _TOLERANCE = 400, 1e-5
# Singular values below this part of the largest are as good as zero.
_ZERO = 1e-4


def convex_components(
    data: np.ndarray, known: np.ndarray, bound: int, semidefinite: bool, price: float = 1.0
) -> Components:
    """The components of the low-rank part, as many as stand out of the rest, or the bound.

    Parameters
    ----------
    data, known : array
        The entries, and which of them were observed.
    bound : int
        At most so many.
    semidefinite : bool
        Whether the matrix is symmetric with positive eigenvalues.
    price : float
        Of errors, in units of the one that theory asks for. With more, fewer entries are wrong.
    """
    low_rank = _pursuit(np.where(known, data, 0), known, price)
    if semidefinite:
        values, vectors = np.linalg.eigh((low_rank + low_rank.T) / 2)
        order = np.argsort(-values)
        values, left = np.maximum(values[order], 0), vectors[:, order]
        right = left
    else:
        left, values, transposed = np.linalg.svd(low_rank, full_matrices=False)
        right = transposed.T
    if not values[0] > 0:
        return Components.none(data.shape)
    # The rank is where the largest gap is.
    padded = np.maximum(np.append(values, 0), _ZERO * values[0])
    rank = 1 + int(np.argmax((padded[:-1] / padded[1:])[:bound]))
    return Components(left, values, right).only(slice(rank))


def _pursuit(data: np.ndarray, known: np.ndarray, price: float) -> np.ndarray:
    """Minimise ``|L|_* + price |S|_1 / sqrt(n)``, L + S the data where known.

    By alternating directions; n is how many entries were observed in a row, or in a column if
    those have more.
    """
    sizes = np.abs(data[known])
    typical = np.median(sizes[sizes > 0]) if np.any(sizes > 0) else 1.0
    weight = price / np.sqrt(max(1.0, np.mean(known) * max(data.shape)))
    # With this one, errors above the root of the smaller dimension, in units of a typical entry,
    # are cut off before the first decomposition, however large they are.
    penalty = 1 / (typical * np.sqrt(data.size))
    low_rank, dual = np.zeros_like(data), np.zeros_like(data)
    for step in range(_STEPS):
        rest = data - low_rank + dual / penalty
        clipped = np.clip(rest, -weight / penalty, weight / penalty)
        errors = np.where(known, rest - clipped, rest)
        left, values, right = np.linalg.svd(data - errors + dual / penalty, full_matrices=False)
        before, low_rank = low_rank, (left * np.maximum(values - 1 / penalty, 0)) @ right
        gap = data - errors - low_rank
        dual = dual + penalty * gap
        if step < _GROWING:
            penalty *= _GROWTH
        elif max(np.linalg.norm(gap), np.linalg.norm(low_rank - before)) <= (
            _TOLERANCE * np.linalg.norm(low_rank)
        ):
            break
    return low_rank
