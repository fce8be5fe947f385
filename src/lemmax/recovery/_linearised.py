"""Steps from a point and the observations around it, and the count of passes they take.

``B``, the derivative of the observations with respect to the parameters, takes one pass over the
measurements, and as the maps are homogeneous the residual comes with it: ``F(x) = J x / degree``.
A small problem is then solved without reading the measurements again. Where B would be too large,
LMM's steps do without it, at two passes each.
"""

import functools
import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import cg
from jaxtyping import Array

from .._dtype import cast_floats, to_device
from .._memory import available_bytes
from .._programs import compiled
from .._tree import tree_dot
from .._typing import Parameters, RealLike
from ..init import random_starts
from ..losses import AbstractLoss
from ..maps import AbstractMap, AbstractRankedMap
from ..methods import lmm
from ..methods._measured import measured_jacobian
from ..methods._prox_linear import Promise, ProxLinear
from ..methods.steps import BulkPolyak
from ..points import DensePoint
from ..problem import Composite
from ..solve import solve
from ..status import Status

# More iterations of the inner solver than this are needed only where there is nothing to find.
_PROX_LINEAR = ProxLinear(inner_steps=1000)
# Forming B takes as many multiplications as passes of all parameters, and solving with it some
# more. From about here on (a second on a small machine) LMM's steps get there sooner.
_LONGEST_STEP = 2e10
_SHARE_OF_MEMORY = 1 / 8
# Without B: LMM steps between two looks at the terms, and iterations for one least-squares step.
_LMM_STEPS = 20
_CG_STEPS = 40
LEAST_DAMPING = 1e-9
# The typical size is read off so many data: to sort a million takes longer than a step.
_SAMPLE = 1 << 16


class Linearised(NamedTuple):
    """A point, and the observations around it."""

    x: Parameters
    rank: int | None
    """How many terms of x are not zero, if it consists of terms."""
    matrix: Array | None
    """Derivative of the observations (raveled) by the parameters (raveled); None if too large."""
    residual: Array
    """In the shape of the observations."""
    value: float
    """The loss of the residual."""


class Workbench:
    """A problem, and the count of passes over its measurements."""

    def __init__(self, problem: Composite):
        self.problem = problem
        self.map = problem.map
        self.ranked = problem.map if isinstance(problem.map, AbstractRankedMap) else None
        self.passes = 0

    def weights(self) -> np.ndarray:
        """Of the observations in the loss."""
        return weights_of(self.problem)

    def is_small(self, x: Parameters) -> bool:
        """Whether the measured Jacobian can be formed and factorised in reasonable time."""
        count = parameter_count(x)
        data = self.problem.data
        # The tangents are as many dense points.
        point = math.prod(self.problem.operator.point_shape or data.shape)
        memory = self._available
        fits = memory is None or (
            (data.size + point) * count * data.dtype.itemsize <= _SHARE_OF_MEMORY * memory
        )
        return fits and data.size * count * (point + 4 * count) <= _LONGEST_STEP

    @functools.cached_property
    def _available(self) -> int | None:
        """Bytes of memory; asked once, so that one problem is treated in one way."""
        return available_bytes()

    def linearise(self, x: Parameters, rank: int | None) -> Linearised:
        """Read the measurements: once, unless the map is not homogeneous."""
        dtype = self.problem.data.dtype
        x = jax.tree.map(lambda leaf: np.array(leaf, dtype), x)
        if rank is not None:
            # Terms that are zero stay zero: a rounding error in them would be magnified, and the
            # fit have more freedom than it is said to have.
            for factor in jax.tree.leaves(x):
                factor[:, rank:] = 0
        x = jax.tree.map(jax.device_put, x)
        if self.is_small(x):
            self.passes += 1 if self.map.degree is not None else 2
            matrix, residual, value = _linearise(self.problem, x)
        else:
            self.passes += 1
            matrix, (residual, value) = None, _evaluate(self.problem, x)
        return Linearised(x, rank, matrix, residual, float(value))

    @functools.cached_property
    def labels(self) -> np.ndarray:
        """A whole number for every observation, the same for those that observe the same.

        Told from what they see of a random point, in one pass.
        """
        size, shape = self.problem.data.size, self.problem.data.shape
        operator = self.problem.operator
        if self.map.parameter_shapes is None:  # a function's values are different things
            return np.arange(size).reshape(shape)
        if operator.entrywise and self.map.symmetric is not None:
            return self._numbers_of_entries()
        self.passes += 1
        x = cast_floats(random_starts(self.map, 1, seed=0)[0], self.problem.data.dtype)
        seen = np.asarray(_observe(self.problem, jax.tree.map(jax.device_put, x)), np.float64)
        digits = 12 if self.problem.data.dtype == np.float64 else 5
        rounded = np.round(seen / np.max(np.abs(seen)), digits)
        return np.unique(rounded, return_inverse=True)[1].reshape(shape)

    def _numbers_of_entries(self) -> np.ndarray:
        """The place of every observed entry; of a symmetric point one for all permutations."""
        operator, shape = self.problem.operator, self.problem.data.shape
        if operator.point_shape is None and not self.map.symmetric:
            return np.arange(math.prod(shape)).reshape(shape)
        places = operator.places(np.ones(shape, bool))
        if self.map.symmetric:
            places = tuple(np.sort(np.stack(places), axis=0))
        return np.ravel_multi_index(places, operator.point_shape or shape).reshape(shape)

    def norm(self, at: Linearised) -> float:
        """Of the point."""
        return float(_norm(self.map, at.x))

    def prox_linear(self, at: Linearised, promise: Promise | None) -> tuple[Parameters, Promise]:
        """Minimise the loss of the linearised residual; no pass over the measurements."""
        assert at.matrix is not None
        if promise is None:
            unknown = jax.device_put(np.asarray(np.inf, at.residual.dtype))
            promise = Promise(unknown, unknown, unknown, unknown)
        return _prox_linear(self.problem, at.x, at.matrix, at.residual, promise)

    def lmm(self, at: Linearised) -> Parameters:
        """Some steps of LMM, their length told from the bulk of the residuals."""
        result = solve(self.problem, lmm(BulkPolyak()), at.x, max_steps=_LMM_STEPS, tol=0.0)
        self.passes += 2 * int(result.steps) + 2
        if result.status is Status.INTERRUPTED:  # solve keeps Ctrl-C to itself
            raise KeyboardInterrupt
        return result.last_x

    def least_squares(self, at: Linearised, weights: np.ndarray, damping: RealLike) -> Parameters:
        """Minimise the weighted sum of squares of the linearised residual, damped."""
        damping = np.asarray(damping, at.residual.dtype)  # a number would be compiled in
        alike = not any(weights.strides) or np.min(weights) == np.max(weights)
        operator = self.problem.operator
        if at.matrix is None and operator.entrywise and operator.point_shape is None and alike:
            self.passes += 1
            return _least_squares_of_all(self.problem, at.x, at.residual, damping)
        on_device = jnp.asarray(weights, at.residual.dtype)
        if at.matrix is not None:
            return _least_squares(at.x, at.matrix, at.residual, on_device, damping)
        self.passes += 2 * _CG_STEPS + 1
        return _least_squares_by_cg(self.problem, at.x, at.residual, on_device, damping)


def weights_of(problem: Composite) -> np.ndarray:
    """One weight for every observation; those with weight 0 are missing."""
    weights = problem.loss.weights
    return np.broadcast_to(
        np.ones(()) if weights is None else np.asarray(weights, np.float64), problem.data.shape
    )


def typical_size(data: Array | np.ndarray, known: np.ndarray) -> float:
    """The median size of data that are known and not zero; of a sample, if they are many."""
    values, known = np.asarray(data).ravel(), known.ravel()
    if values.size > _SAMPLE:
        drawn = np.random.default_rng(0).integers(values.size, size=_SAMPLE)
        if np.any(values[drawn] * known[drawn]):
            values, known = values[drawn], known[drawn]
    sizes = np.abs(values[known].astype(np.float64))
    return float(np.median(sizes[sizes > 0]))


def with_weights(loss: AbstractLoss, weights: np.ndarray) -> AbstractLoss:
    """The same loss with other weights."""
    on_device = to_device(weights)
    return eqx.tree_at(lambda part: part.weights, loss, on_device, is_leaf=lambda u: u is None)


def parameter_count(x: Parameters) -> int:
    """How many numbers the parameters are."""
    return sum(math.prod(jnp.shape(leaf)) for leaf in jax.tree.leaves(x))


@compiled
def _norm(map: AbstractMap, x: Parameters) -> Array:
    return map(x).norm()


@compiled
def _observe(problem: Composite, x: Parameters) -> Array:
    return problem.operator.measure(problem.map(x))


@compiled
def _evaluate(problem: Composite, x: Parameters) -> tuple[Array, Array]:
    residual = problem.operator.measure(problem.map(x)) - problem.data
    return residual, problem.loss.value(residual)


@compiled
def _linearise(problem: Composite, x: Parameters) -> tuple[Array, Array, Array]:
    matrix = measured_jacobian(problem, x)
    if problem.map.degree is None:
        return matrix, *_evaluate(problem, x)
    flat, _ = ravel_pytree(x)
    residual = (matrix @ flat / problem.map.degree).reshape(problem.data.shape) - problem.data
    return matrix, residual, problem.loss.value(residual)


@compiled
def _prox_linear(
    problem: Composite, x: Parameters, matrix: Array, residual: Array, promise: Promise
) -> tuple[Parameters, Promise]:
    move, promise = _PROX_LINEAR.move(problem, x, matrix, residual, promise)
    return move.x, promise


@compiled
def _least_squares(
    x: Parameters, matrix: Array, residual: Array, weights: Array, damping: RealLike
) -> Parameters:
    """``x - (B'WB + damping * its mean eigenvalue)^-1 B'W r``, blind to what B does not see.

    By the normal equations: what they lose in accuracy, the next step repairs.
    """
    flat, unravel = ravel_pytree(x)
    weighted = matrix * jnp.ravel(weights)[:, None]
    values, vectors = jnp.linalg.eigh(weighted.T @ matrix)
    floor = jnp.finfo(values.dtype).eps * values.size * values[-1]
    shifted = values + damping * jnp.mean(values)
    along = vectors.T @ (weighted.T @ jnp.ravel(residual))
    change = vectors @ jnp.where(values > floor, along / jnp.where(values > floor, shifted, 1), 0)
    return unravel(flat - change)


@compiled
def _least_squares_of_all(
    problem: Composite, x: Parameters, residual: Array, damping: RealLike
) -> Parameters:
    """The same if all entries are seen and count alike: B'B is J'J, which the map inverts."""
    covector = problem.operator.adjoint(residual)
    direction = problem.map.direction(x, _shift(x, damping), covector)
    return jax.tree.map(jnp.subtract, x, direction)


def _shift(x: Parameters, damping: RealLike) -> Array:
    """The damping in units of J'J, whose mean eigenvalue is about that of x x'."""
    return jnp.maximum(damping, LEAST_DAMPING) * tree_dot(x, x) / parameter_count(x)


@compiled
def _least_squares_by_cg(
    problem: Composite, x: Parameters, residual: Array, weights: Array, damping: RealLike
) -> Parameters:
    """The same without B, by conjugate gradients; J'J, which is cheap to invert, preconditions."""
    operator, map = problem.operator, problem.map
    # B'WB is about the gain of the operator times J'J.
    point = map(x)
    gain = jnp.sum(weights * (residual + problem.data) ** 2) / point.norm() ** 2
    shift = _shift(x, damping)

    def back(observations: Array) -> Parameters:
        covector = operator.adjoint(weights * observations)
        return map.vjp(x, covector)

    def normal(dx: Parameters) -> Parameters:
        seen = back(operator.measure(DensePoint(map.jvp(x, dx))))
        return jax.tree.map(lambda a, b: a + shift * gain * b, seen, dx)

    def preconditioner(g: Parameters) -> Parameters:
        return jax.tree.map(lambda a: a / gain, map.solve(x, shift, g))

    change, _ = cg(normal, back(residual), maxiter=_CG_STEPS, M=preconditioner)
    return jax.tree.map(jnp.subtract, x, change)
