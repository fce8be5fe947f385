"""A tensor as a matrix that is as square as possible, and its core from some of its entries."""

import functools
import itertools
import math

import numpy as np

from .tensors import Tucker, leading_vectors, nearest_tucker, unfolded

# Entries per unknown from which a core is computed, where more are known.
_PER_UNKNOWN = 20


def squarest_order(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, int]]:
    """The order of the modes, those of the rows first, and the shape of the matrix."""
    size, modes = math.prod(shape), range(len(shape))
    choices = [c for n in range(1, len(shape)) for c in itertools.combinations(modes, n)]
    lengths = {chosen: math.prod(shape[mode] for mode in chosen) for chosen in choices}
    rows = max(choices, key=lambda chosen: min(lengths[chosen], size // lengths[chosen]))
    order = (*rows, *(mode for mode in modes if mode not in rows))
    return order, (lengths[rows], size // lengths[rows])


def core_from_entries(
    tensor: np.ndarray, lost: np.ndarray, rank: int, *, symmetric: bool, rng: np.random.Generator
) -> Tucker | None:
    """A tensor in bases of its modes, from the entries that are not lost; None if too few."""
    if not np.any(lost):
        return nearest_tucker(tensor, rank, symmetric=symmetric)
    bases = []
    for mode in range(tensor.ndim):
        whole = ~np.any(unfolded(lost, mode), axis=0)
        if np.sum(whole) < rank:
            return None
        bases.append(leading_vectors(unfolded(tensor, mode)[:, whole], rank))
    bases = tuple(bases[:1] * tensor.ndim if symmetric else bases)
    shape = [basis.shape[1] for basis in bases]
    places = np.flatnonzero(~lost)
    enough = _PER_UNKNOWN * math.prod(shape)
    if len(places) > enough:
        places = rng.choice(places, enough, replace=False)
    rows = [b[k] for b, k in zip(bases, np.unravel_index(places, tensor.shape), strict=True)]
    design = functools.reduce(lambda a, b: (a[:, :, None] * b[:, None]).reshape(len(a), -1), rows)
    core = np.linalg.lstsq(design, tensor.ravel()[places], rcond=None)[0]
    return Tucker(core.reshape(shape), bases)
