"""Facts about a problem that hold for all candidates, and the effort of the search so far."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._dtype import cast_floats
from .._programs import compiled
from .._typing import Parameters
from ..init import random_starts
from ..problem import Composite
from ..status import Stopped
from . import _constants as constants

Watch = Callable[[str, int, float], bool]
"""Called with the stage, the step and the value; returns whether to stop."""


class Facts:
    """Known data, their scale, the size of rounding errors, duplicates; passes and steps so far."""

    def __init__(self, problem: Composite, watch: Watch):
        self.problem, self.watch = problem, watch
        self.map, self.operator = problem.map, problem.operator
        self.ranked = problem.map.ranked
        self.robust, self.entrywise = problem.loss.robust, problem.operator.entrywise
        self.data = np.asarray(problem.data, np.float64)
        self.weights = problem.weights
        self.known = self.weights > 0
        self.count = int(self.known.sum())
        self.scale = typical_size(problem.data, self.known)
        eps = float(np.finfo(problem.data.dtype).eps)
        self.rounding = constants.ROUNDING * eps * self.scale
        self.zero = constants.LARGEST_ROUNDING * self.rounding
        self.passes = self.steps = 0
        self.latest: tuple[Parameters, int | None, np.ndarray] | None = None
        """Parameters, number of terms and residuals: the answer if the search is stopped."""

    def look(self, stage: str, step: int, value: float) -> None:
        """Report progress; raises `Stopped` if the search is to end."""
        if self.watch(stage, step, value):
            raise Stopped

    def watch_factors(self, stage: str, sweep: int, noise: float) -> bool:
        """The callback of the factor model."""
        return self.watch("factor model", sweep, noise)

    def residual(self, x: Parameters) -> np.ndarray:
        """Observations of a point minus the data, as float64 NumPy array; one pass."""
        self.passes += 1
        return np.asarray(_residual(self.problem, self.on_device(x)), np.float64)

    def on_device(self, x: Parameters, rank: int | None = None) -> Parameters:
        """Parameters in the precision of the data, with zeros beyond the given rank.

        A rounding error there would be magnified, and the fit would have more degrees of freedom
        than its rank says.
        """
        x = jax.tree.map(lambda leaf: np.array(leaf, self.problem.data.dtype), x)
        if rank is not None:
            for factor in jax.tree.leaves(x):
                factor[:, rank:] = 0
        return jax.tree.map(jax.device_put, x)

    def typical(self, residual: np.ndarray) -> float:
        """The median size of the residuals; their root mean square if the loss is not robust."""
        known = residual if self.count == residual.size else residual[self.known]
        return float(np.median(np.abs(known)) if self.robust else np.sqrt(np.mean(known**2)))

    def vanishes(self, residual: np.ndarray) -> bool:
        """Whether most residuals (all, if the loss is not robust) are rounding errors."""
        return self.typical(residual) <= self.rounding

    def cut(self, x: Parameters, rank: int | None) -> Parameters:
        """The leading terms of x, padded with zeros so that no new shape is compiled."""
        if self.ranked is None or rank is None or rank >= self.ranked.rank:
            return x
        return self.ranked.truncate(x, rank, np.random.default_rng(0))

    def freedom(self, x: Parameters, rank: int | None) -> int:
        """Degrees of freedom of a fit; the number of parameters if the map has no rank."""
        if self.ranked is not None and rank is not None:
            return self.ranked.with_rank(rank).degrees_of_freedom
        return parameter_count(x)

    def has_small_jacobian(self, x: Parameters) -> bool:
        """Whether B, the derivative of the observations, is small enough to be formed."""
        count, data = parameter_count(x), self.problem.data
        # Every parameter has a dense tangent.
        point = math.prod(self.operator.point_shape or data.shape)
        return data.size * count * (point + 4 * count) <= constants.LARGEST_B

    @functools.cached_property
    def labels(self) -> np.ndarray | None:
        """Equal numbers mark observations of the same quantity; None if all are different.

        Two observations are equal if they agree at a random point.
        """
        shape = self.operator.point_shape
        whole = self.entrywise and shape is None and not self.map.symmetric
        if whole or self.map.parameter_shapes is None:  # or values of a function
            return None
        if self.entrywise and self.map.symmetric is not None:
            places = self.operator.places(np.ones(self.data.shape, bool))
            if self.map.symmetric:
                places = tuple(np.sort(np.stack(places), axis=0))
            return np.ravel_multi_index(places, shape or self.data.shape).reshape(self.data.shape)
        dtype = self.problem.data.dtype
        x = cast_floats(random_starts(self.map, 1, seed=0)[0], dtype)
        seen = self.residual(x) + self.data
        digits = 12 if dtype == np.float64 else 5
        rounded = np.round(seen / np.max(np.abs(seen)), digits)
        return np.unique(rounded, return_inverse=True)[1].reshape(self.data.shape)


@compiled
def _residual(problem: Composite, x: Parameters) -> Array:
    return problem.operator.measure(problem.map(x)) - problem.data


def typical_size(data: Any, known: np.ndarray) -> float:
    """The median size of the data that are known and not zero."""
    sizes = np.abs(np.asarray(data, np.float64)[known])
    return float(np.median(sizes[sizes > 0])) if np.any(sizes) else 0.0


def parameter_count(x: Parameters) -> int:
    """The number of parameters."""
    return sum(math.prod(jnp.shape(leaf)) for leaf in jax.tree.leaves(x))


def convincing_observations(freedom: int) -> int:
    """The number of inliers from which a fit is more than chance."""
    return freedom + max(constants.SPARE, int(constants.SPARE_SHARE * freedom))
