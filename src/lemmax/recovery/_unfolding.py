"""A start for entries of a tensor: as a matrix, it has no higher rank than as a tensor.

Of a matrix the wrong entries are told apart, and the rank is found, in a hundred steps or so. What
is left to do for the tensor is to take its factors apart, of which wrong entries know nothing.
"""

import itertools
import math
from typing import NamedTuple

import jax
import numpy as np

from .._typing import Parameters
from ..init._components import decompose
from ..init._tensors import project_tucker
from ..losses import AbstractLoss
from ..maps import CP, LowRank, SymmetricCP
from ..operators import Entries, Identity
from ..problem import Composite
from ._descent import Descent
from ._entrywise import fit_entries
from ._linearised import with_weights
from ._structure import convincing_observations, degrees_of_freedom, with_rank

# The tensor is formed; with more entries than this only if they were given.
_LARGE = 1e7


class UnfoldedStart(NamedTuple):
    """Parameters of a tensor whose unfolding has been fitted."""

    x: Parameters
    rank: int
    """How many terms of x are not zero: as many as the unfolding has, if it is exact."""
    exact: bool
    """Whether there is no noise in the unfolding."""
    interrupted: bool
    """Whether the watch, or Ctrl-C, put an end to the fit of the unfolding."""


def unfolded_start(
    problem: Composite, descent: Descent, seed: int
) -> tuple[UnfoldedStart | None, int, int]:
    """The start, the passes and the steps it took; None if no unfolding shows anything.

    Parameters
    ----------
    problem : Composite
        Observed entries of a tensor.
    descent : Descent
        Of this problem; it knows what vanishes, and who watches.
    seed : int
        Of what is random.
    """
    map, rng = problem.map, np.random.default_rng(seed)
    assert isinstance(map, (CP, SymmetricCP))
    rows, columns = _balanced_modes(map.shape)
    flat = _size(map.shape, rows), _size(map.shape, columns)
    known = int(descent.known.sum())
    most = _most_terms(flat, map.rank, known)
    if math.prod(map.shape) > max(known, _LARGE) or not most:
        return None, 0, 0
    found = fit_entries(
        _unfolded(problem, rows, columns, most),
        seed=seed,
        watch=lambda step, rank, scale: descent.watch(f"unfolding of rank {rank}", step, scale),
    )
    nothing = not any(np.any(factor) for factor in found.x)
    if found.interrupted and nothing:
        raise KeyboardInterrupt
    useless = not found.converged or found.map.rank >= min(found.map.shape)
    if nothing or (useless and not found.interrupted):
        return None, found.passes, found.steps
    # What noise hides in the unfolding the tensor may show: only of exact data it is all there is.
    left, right = (np.asarray(factor, np.float64) for factor in found.x)
    tensor = _folded(left @ right.T, map.shape, (*rows, *columns))
    residual = found.residual
    if isinstance(problem.operator, Identity):
        residual = _folded(residual, map.shape, (*rows, *columns))
    exact = descent.vanishes(residual)
    rank = found.map.rank if exact else map.rank
    fewer = with_rank(map, rank)
    assert isinstance(fewer, (CP, SymmetricCP))
    tucker = project_tucker(tensor, rank, symmetric=bool(map.symmetric), noisy=False).parts
    x = jax.tree.map(
        lambda factor: np.pad(factor, ((0, 0), (0, map.rank - rank))),
        decompose(tucker, fewer, rng),
    )
    return UnfoldedStart(x, rank, exact, found.interrupted), found.passes, found.steps


def _most_terms(flat: tuple[int, int], bound: int, known: int) -> int:
    """The largest rank of a matrix whose freedom is less than half of what is known.

    With more, a fit goes through most of anything. (But one term is always worth a trial.)
    """
    most = 0
    for rank in range(1, min(bound, *flat) + 1):
        wanted = convincing_observations(degrees_of_freedom(LowRank(flat, rank), rank))
        if wanted > (known if rank == 1 else known / 2):
            break
        most = rank
    return most


def _balanced_modes(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Modes for the rows and for the columns of a matrix that is as square as can be."""
    modes = range(len(shape))
    choices = [
        chosen for count in range(1, len(shape)) for chosen in itertools.combinations(modes, count)
    ]
    rows = max(choices, key=lambda c: min(_size(shape, c), math.prod(shape) // _size(shape, c)))
    return rows, tuple(mode for mode in modes if mode not in rows)


def _size(shape: tuple[int, ...], modes: tuple[int, ...]) -> int:
    return math.prod(shape[mode] for mode in modes)


def _unfolded(
    problem: Composite, rows: tuple[int, ...], columns: tuple[int, ...], rank: int
) -> Composite:
    """The same entries as those of a matrix, whose rank is bounded."""
    shape = problem.map.shape
    assert shape is not None
    flat = _size(shape, rows), _size(shape, columns)
    operator, data, loss = problem.operator, problem.data, problem.loss
    if isinstance(operator, Entries):
        indices = [np.asarray(index) for index in operator.indices]
        places = tuple(
            np.ravel_multi_index([indices[k] for k in modes], [shape[k] for k in modes])
            for modes in (rows, columns)
        )
        operator = Entries(places, flat)
    else:
        assert isinstance(operator, Identity)
        data = np.transpose(np.asarray(data), (*rows, *columns)).reshape(flat)
        loss = _unfolded_loss(loss, shape, (*rows, *columns), flat)
    return Composite(loss, LowRank(flat, rank), data, operator)


def _unfolded_loss(
    loss: AbstractLoss, shape: tuple[int, ...], order: tuple[int, ...], flat: tuple[int, int]
) -> AbstractLoss:
    if loss.weights is None:
        return loss
    weights = np.broadcast_to(np.asarray(loss.weights), shape)
    return with_weights(loss, np.transpose(weights, order).reshape(flat))


def _folded(matrix: np.ndarray, shape: tuple[int, ...], order: tuple[int, ...]) -> np.ndarray:
    """The tensor that a matrix is the unfolding of, its modes in that order."""
    return np.transpose(matrix.reshape([shape[mode] for mode in order]), np.argsort(order))
