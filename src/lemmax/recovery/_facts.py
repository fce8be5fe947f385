"""What is known of a problem before anything is fitted, and what the search for its point took."""

import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._dtype import cast_floats, to_device
from .._memory import available_bytes
from .._programs import compiled
from .._typing import Parameters
from ..init import random_starts
from ..losses import AbstractLoss
from ..maps import AbstractMap
from ..problem import Composite
from ..status import Stopped
from . import _constants as constants

Watch = Callable[[str, int, float], bool]
"""Told what is going on, the step and the value; answers whether to stop."""


class Facts:
    """A problem: which of its data are known, what is as good as zero, what observes the same."""

    def __init__(self, problem: Composite, watch: Watch):
        self.problem, self.watch = problem, watch
        self.map, self.operator = problem.map, problem.operator
        self.ranked = problem.map.ranked
        self.robust, self.entrywise = problem.loss.robust, problem.operator.entrywise
        self.data = np.asarray(problem.data, np.float64)
        self.weights = weights_of(problem)
        self.known = self.weights > 0
        self.count = int(self.known.sum())
        self.scale = typical_size(problem.data, self.known)
        eps = float(np.finfo(problem.data.dtype).eps)
        self.rounding = constants.ROUNDING * eps * self.scale
        self.zero = constants.LARGEST_ROUNDING * self.rounding
        self.passes = self.steps = 0
        self.latest: tuple[Parameters, int | None, np.ndarray] | None = None
        """Parameters, their number of terms, and residuals, for when the search is stopped."""

    def look(self, stage: str, step: int, value: float) -> None:
        """Tell whoever watches; `Stopped` if they want it."""
        if self.watch(stage, step, value):
            raise Stopped

    def residual(self, x: Parameters) -> np.ndarray:
        """Observations of a point less the data, on the host and in float64; one pass."""
        self.passes += 1
        return np.asarray(_residual(self.problem, self.on_device(x)), np.float64)

    def on_device(self, x: Parameters, rank: int | None = None) -> Parameters:
        """Parameters in the precision of the data, with so many terms.

        The others stay zero: a rounding error in them would be magnified, and the fit have more
        freedom than it is said to have.
        """
        x = jax.tree.map(lambda leaf: np.array(leaf, self.problem.data.dtype), x)
        if rank is not None:
            for factor in jax.tree.leaves(x):
                factor[:, rank:] = 0
        return jax.tree.map(jax.device_put, x)

    def typical(self, residual: np.ndarray) -> float:
        """The median residual; of losses that are not robust the root mean square."""
        known = residual if self.count == residual.size else residual[self.known]
        return float(np.median(np.abs(known)) if self.robust else np.sqrt(np.mean(known**2)))

    def vanishes(self, residual: np.ndarray) -> bool:
        """Whether most residuals (all, of losses that are not robust) are rounding errors."""
        return self.typical(residual) <= self.rounding

    def nearly_explained(self, residual: np.ndarray) -> np.ndarray:
        """Which observations belong to an exact fit that has not converged everywhere.

        Residuals of right ones are on their way to rounding errors, those of wrong ones are of the
        size of the data: the geometric mean of both divides them.
        """
        return self.known & (np.abs(residual) <= math.sqrt(self.rounding * self.scale))

    def cut(self, x: Parameters, rank: int) -> Parameters:
        """The leading terms of x; zeros instead of the others, so that nothing is compiled anew."""
        assert self.ranked is not None
        return self.ranked.truncate(x, rank, np.random.default_rng(0))

    def own(self, x: Parameters, rank: int | None) -> tuple[AbstractMap, Parameters]:
        """The map of so many terms, and its parameters."""
        if self.ranked is None or rank is None:
            return self.map, x
        return self.ranked.first_terms(x, rank)

    def freedom(self, x: Parameters, rank: int | None) -> int:
        """The number of degrees of freedom of a fit: all parameters, if more is not known."""
        if self.ranked is not None and rank is not None:
            return self.ranked.with_rank(rank).degrees_of_freedom
        return parameter_count(x)

    def has_small_jacobian(self, x: Parameters) -> bool:
        """Whether B, the derivative of the observations, is formed in reasonable time."""
        count, data = parameter_count(x), self.problem.data
        # The tangents are as many dense points.
        point = math.prod(self.operator.point_shape or data.shape)
        wanted = (data.size + point) * count * data.dtype.itemsize
        memory = self._memory
        fits = memory is None or wanted <= constants.SHARE_OF_MEMORY * memory
        return fits and data.size * count * (point + 4 * count) <= constants.LARGEST_B

    @functools.cached_property
    def _memory(self) -> int | None:
        """Bytes that are free; asked once, so that one problem is treated in one way."""
        return available_bytes()

    @functools.cached_property
    def labels(self) -> np.ndarray:
        """A whole number for every observation, the same for those that observe the same.

        Told from what they see of a random point, in one pass.
        """
        if self.map.parameter_shapes is None:  # a function's values are different things
            return np.arange(self.data.size).reshape(self.data.shape)
        if self.entrywise and self.map.symmetric is not None:
            return self._numbers_of_entries()
        dtype = self.problem.data.dtype
        x = cast_floats(random_starts(self.map, 1, seed=0)[0], dtype)
        seen = self.residual(x) + self.data
        digits = 12 if dtype == np.float64 else 5
        rounded = np.round(seen / np.max(np.abs(seen)), digits)
        return np.unique(rounded, return_inverse=True)[1].reshape(self.data.shape)

    def _numbers_of_entries(self) -> np.ndarray:
        """The place of every observed entry; of a symmetric point one for all permutations."""
        shape = self.data.shape
        if self.operator.point_shape is None and not self.map.symmetric:
            return np.arange(math.prod(shape)).reshape(shape)
        places = self.operator.places(np.ones(shape, bool))
        if self.map.symmetric:
            places = tuple(np.sort(np.stack(places), axis=0))
        return np.ravel_multi_index(places, self.operator.point_shape or shape).reshape(shape)


@compiled
def _residual(problem: Composite, x: Parameters) -> Array:
    return problem.operator.measure(problem.map(x)) - problem.data


def weights_of(problem: Composite) -> np.ndarray:
    """One weight for every observation; those with weight 0 are missing."""
    weights = problem.loss.weights
    return np.broadcast_to(
        np.ones(()) if weights is None else np.asarray(weights, np.float64), problem.data.shape
    )


def with_weights(loss: AbstractLoss, weights: np.ndarray) -> AbstractLoss:
    """The same loss with other weights."""
    on_device = to_device(weights)
    return eqx.tree_at(lambda part: part.weights, loss, on_device, is_leaf=lambda u: u is None)


def without(problem: Composite, hidden: np.ndarray) -> Composite:
    """The problem with some observations counted as missing."""
    weights = np.where(hidden, 0, weights_of(problem)).astype(problem.data.dtype)
    loss = with_weights(problem.loss, weights)
    return eqx.tree_at(lambda p: p.loss, problem, loss, is_leaf=lambda leaf: leaf is problem.loss)


def typical_size(data: Any, known: np.ndarray) -> float:
    """The median size of data that are known and not zero; of a sample, if they are many."""
    values, known = np.asarray(data).ravel(), known.ravel()
    if values.size > constants.SAMPLE:
        drawn = np.random.default_rng(0).integers(values.size, size=constants.SAMPLE)
        if np.any(values[drawn] * known[drawn]):
            values, known = values[drawn], known[drawn]
    sizes = np.abs(values[known].astype(np.float64))
    return float(np.median(sizes[sizes > 0]))


def parameter_count(x: Parameters) -> int:
    """How many numbers the parameters are."""
    return sum(math.prod(jnp.shape(leaf)) for leaf in jax.tree.leaves(x))


def convincing_observations(freedom: int) -> int:
    """So many must be explained by a fit of so many degrees of freedom to be more than chance."""
    return freedom + max(constants.SPARE, int(constants.SPARE_SHARE * freedom))
