"""A tensor as a matrix that is as square as possible."""

import itertools
import math


def squarest_order(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, int]]:
    """The order of the modes, those of the rows first, and the shape of the matrix."""
    size, modes = math.prod(shape), range(len(shape))
    choices = [c for n in range(1, len(shape)) for c in itertools.combinations(modes, n)]
    lengths = {chosen: math.prod(shape[mode] for mode in chosen) for chosen in choices}
    rows = max(choices, key=lambda chosen: min(lengths[chosen], size // lengths[chosen]))
    order = (*rows, *(mode for mode in modes if mode not in rows))
    return order, (lengths[rows], size // lengths[rows])
