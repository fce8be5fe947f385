"""Components of a low-rank matrix, of which entries are observed: to find, add and drop."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._dtype import common_dtype
from .._linalg import thin_qr
from .._typing import Parameters, RealLike
from ..covectors import AbstractCovector
from ..init._tensors import term_columns
from ..losses import AbstractLoss
from ..maps import PSD, LowRank
from ..operators import AbstractOperator, Entries, Identity
from ..points import KruskalPoint
from ..problem import Composite

MatrixMap = LowRank | PSD
# The bulk's size is read off so many residuals: sorting all would take longer than a step.
_SAMPLE = 4096
# The median of the size of a normal variable.
MEDIAN = 0.6745
# Residuals above so many levels count for nothing. Clipped alone, outliers of one sign would
# shift the fit by a part of the level, and with it the level: it would never fall.
BEYOND = 3.0
# How far above the edge a component must be: one and so many over the root of the number of
# observations in a row.
_CLEARANCE = 1.5
# A component weaker than this part of the strongest found waits for another round: it may be an
# image of the strong ones in the clipping.
_COMPARABLE = 0.5
# A vector that lives on fewer than these many rows, and part of all rows, fits their outliers.
# Of short vectors less is asked: a part of their length.
FEW_ROWS, _PART_OF_ROWS, _SHORT = 4, 0.02, 6
# A row with a leverage above this has a component of its own, which fits whatever is in the row.
LONELY = 0.99
_ROUNDING = 1e-10
_POWER_ITERATIONS = 4


class Observed(eqx.Module):
    """Observed entries of a matrix or tensor; where many are, a dense array with gaps."""

    operator: AbstractOperator
    data: Array
    """Times their weights."""
    known: Array | None
    """The weights of the residuals: 0 where nothing is observed; None if all are 1."""
    sample: Array
    """Places from which the bulk's size is read off."""
    count: Array
    """How many observations there are. Not static: that would compile for every count anew."""
    mass: Array
    """The sum of the squares of their weights."""
    unit: Array
    """What the data were divided by: a power of 2 near their median, which costs no digit."""
    shape: tuple[int, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, problem: Composite, rng: np.random.Generator) -> "Observed":
        """The observations of a problem whose weight is not 0."""
        dtype = common_dtype(problem.data)
        operator = problem.operator
        data = problem.data.dense() if isinstance(problem.data, KruskalPoint) else problem.data
        shape = tuple(operator.point_shape or data.shape)
        data = np.asarray(data)
        weights = residual_weights(problem.loss, data.shape)
        known = weights > 0
        if isinstance(operator, Entries) and operator.tilings is None:
            indices = tuple(np.asarray(index) for index in operator.indices)
            seen = np.zeros(shape)
            seen[indices] = weights
            # Not if a place was observed twice: then the array has no room for both.
            if np.count_nonzero(seen) == np.count_nonzero(known):
                values = np.zeros(shape, dtype)
                values[tuple(index[known] for index in indices)] = data[known]
                operator, data, weights, known = Identity(), values, seen, seen > 0
        data = np.where(known, data, 0) * weights
        # Where the matrix has rows of zeros it is no merit to fit them: the rest is judged.
        judged = known & (data != 0)
        places = np.flatnonzero(judged if np.any(judged) else known)
        # As many as compile the same program for another table of that shape: some count twice.
        wanted = min(_SAMPLE, 1 << (len(places) - 1).bit_length())
        if len(places) > _SAMPLE:
            places = rng.choice(places, _SAMPLE, replace=False)
        else:
            twice = rng.choice(places, wanted - len(places), replace=False)
            places = np.concatenate([places, twice])
        everywhere = bool(np.all(weights == 1))
        unit = 2.0 ** np.round(np.log2(_typical(data.reshape(-1)[places]) or 1.0))
        return cls(
            operator=operator,
            data=jnp.asarray(data / unit, dtype),
            unit=jnp.asarray(unit, dtype),
            known=None if everywhere else jnp.asarray(weights, dtype),
            sample=jnp.asarray(places.astype(np.int32)),
            count=jnp.asarray(np.count_nonzero(known), dtype),
            mass=jnp.asarray(np.sum(weights**2), dtype),
            shape=shape,
        )

    @property
    def share(self) -> Array:
        """Of all entries those that are observed, as far as they count."""
        return self.mass / math.prod(self.shape)

    @property
    def roots(self) -> float:
        """The norm of a matrix or tensor of independent entries of variance 1, about."""
        return sum(d**0.5 for d in self.shape)

    def measure(self, point: KruskalPoint) -> Array:
        """What is observed of a point, times the weights; 0 where nothing is."""
        seen = self.operator.measure(point)
        return seen if self.known is None else seen * self.known

    def adjoint(self, observations: Array) -> AbstractCovector:
        """Of `measure`."""
        if self.known is not None:
            observations = observations * self.known
        return self.operator.adjoint(observations)

    def typical(self) -> float:
        """The median size of the data that are not zero."""
        return _typical(np.asarray(self.data.reshape(-1)[self.sample]))

    def scale(self, residual: Array) -> Array:
        """The standard deviation of the bulk of the residuals."""
        return jnp.median(jnp.abs(residual.reshape(-1)[self.sample])) / MEDIAN


def residual_weights(loss: AbstractLoss, shape: tuple[int, ...]) -> np.ndarray:
    """What the residuals are to be multiplied by, 1 for the typical one."""
    if loss.weights is None:
        return np.ones(shape)
    weights = np.broadcast_to(np.asarray(loss.weights, np.float64), shape)
    roots = weights if loss.robust else np.sqrt(weights)
    positive = roots[roots > 0]
    return roots / np.median(positive) if len(positive) else roots


def _typical(values: np.ndarray) -> float:
    """The median size of what is not zero: of data that are mostly zeros, it may be the matrix."""
    sizes = np.abs(values[values != 0]).astype(np.float64)
    return float(np.median(sizes)) if len(sizes) else 0.0


class Components(NamedTuple):
    """Singular triples of a matrix, or eigenpairs of a symmetric one."""

    left: np.ndarray
    values: np.ndarray
    right: np.ndarray

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> "Components":
        """No components of a matrix."""
        return cls(np.zeros((shape[0], 0)), np.zeros(0), np.zeros((shape[1], 0)))

    def and_also(self, others: "Components") -> "Components":
        """These and others."""
        pairs = zip(self, others, strict=True)
        return Components(*(np.concatenate(pair, axis=-1) for pair in pairs))

    def only(self, kept: Any) -> "Components":
        """Some of them: a slice, a mask, or indices."""
        return Components(self.left[:, kept], self.values[kept], self.right[:, kept])

    def spread(self) -> np.ndarray:
        """Which live on more than a few rows, and columns: others fit the outliers of those."""
        spread = np.ones(len(self.values), bool)
        for vectors in (self.left, self.right):
            rows = len(vectors)
            needed = min(rows / _SHORT, max(FEW_ROWS, _PART_OF_ROWS * rows))
            spread &= 1 / np.maximum(np.sum(vectors**4, axis=0), 1e-300) >= needed
        return spread

    def shared(self, symmetric: bool) -> "Components":
        """Without what belongs to a row or column alone, or lives on a few."""
        found = self
        for side in ("left",) if symmetric else ("left", "right"):
            vectors = getattr(found, side)
            lonely = leverages(vectors) > LONELY
            if len(vectors) <= len(found.values) + 1:
                continue  # there are hardly more rows than components
            # With every direction that only one row has, the rank falls by one.
            rank = len(found.values) - int(np.count_nonzero(lonely))
            if rank == len(found.values):
                continue
            roots = np.sqrt(found.values)
            rest = found._replace(**{side: np.where(lonely[:, None], 0, vectors)})
            left, right = rest.left * roots, rest.right * roots
            found = _decomposed(left, left if symmetric else right).only(slice(max(rank, 0)))
        return found.only(found.spread())


def standing_components(left: np.ndarray, right: np.ndarray) -> Components:
    """Those of a product ``left right'`` that are more than rounding errors."""
    found = _decomposed(left, right)
    return found.only(found.values > _ROUNDING * max(found.values[0], np.finfo(float).tiny))


def unfoldings(factors: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """A matrix or tensor as a matrix with each mode as its rows: the factors of both sides."""
    for mode, factor in enumerate(factors):
        others = tuple(other for k, other in enumerate(factors) if k != mode)
        yield factor, term_columns(others)


def lonely_lines(factors: Sequence[np.ndarray]) -> tuple[list[int], ...]:
    """Rows and columns (of a tensor: slices along each mode) that have a component for themselves.

    Of so few rows that there are hardly more than components, none: they have no other choice.
    """
    lines = []
    for pair in unfoldings(factors):
        left = standing_components(*pair).left
        lonely = np.flatnonzero(leverages(left) > LONELY).tolist()
        lines.append(lonely if len(left) > left.shape[1] + 1 else [])
    return tuple(lines)


def leverages(basis: np.ndarray) -> np.ndarray:
    """How much of each row of a matrix no other row has a part in; 1 if nobody has."""
    return np.sum(basis**2, axis=1)


def huber_weights(residual: Array, level: RealLike, beyond: RealLike = BEYOND) -> Array:
    """Of every residual the part that counts: all, what is below the level, or nothing."""
    size = jnp.abs(residual)
    clipped = level / jnp.where(size > level, size, 1)
    return jnp.where(size <= level, 1, jnp.where(size <= beyond * level, clipped, 0))


@eqx.filter_jit
def _leading(
    map: MatrixMap, observed: Observed, x: Parameters, level: RealLike, probe: Array
) -> tuple[Array, Array, Array, Array]:
    residual = observed.data - observed.measure(map(x))
    counted = huber_weights(residual, level) * residual / observed.share
    if observed.known is not None:
        counted = counted * observed.known
    covector = observed.operator.adjoint(counted)
    energy = jnp.sum(counted**2)
    if isinstance(map, PSD):
        basis = probe
        for _ in range(2 * _POWER_ITERATIONS):
            basis = thin_qr(covector.contract_all_but_one(basis))[0]
        values, vectors = jnp.linalg.eigh(basis.T @ covector.contract_all_but_one(basis) / 2)
        order = jnp.argsort(-jnp.abs(values))
        vectors = basis @ vectors[:, order]
        return vectors, values[order], vectors, energy
    right = probe
    for _ in range(_POWER_ITERATIONS):
        left = thin_qr(covector.contract((right, right), 0))[0]
        right = thin_qr(covector.contract((left, left), 1).T)[0]
    left, values, rotation = jnp.linalg.svd(covector.contract((right, right), 0), False)
    return left, values, right @ rotation.T, energy


def leading_components(
    map: MatrixMap,
    observed: Observed,
    x: Parameters,
    level: float,
    probe: np.ndarray,
    *,
    robust: bool,
) -> Components:
    """The components of what the fit leaves of the data, outliers clipped or left out.

    Those that noise does not have, and, if there may be outliers, that do not live on a few rows.
    """
    dtype = observed.data.dtype
    level = level if robust else np.inf
    arrays = _leading(map, observed, x, np.asarray(level, dtype), jnp.asarray(probe, dtype))
    left, values, right, energy = (np.asarray(array, np.float64) for array in arrays)
    rows, columns = observed.shape
    rest = np.maximum(energy - np.cumsum(values**2), 0)
    edges = np.sqrt(rest / (rows * columns)) * observed.roots
    in_a_row = max(1.0, float(observed.count) / max(rows, columns))
    found = Components(left, values, right)
    good = values > (1 + _CLEARANCE / np.sqrt(in_a_row)) * edges
    good &= values > _ROUNDING * np.max(np.abs(values))
    if robust:
        good &= found.spread()
    if np.any(good):
        good &= values >= _COMPARABLE * np.max(values[good])
    return found.only(good)


def of_rank(map: MatrixMap, rank: int) -> MatrixMap:
    """The same kind of map with another rank."""
    return PSD(map.dim, rank) if isinstance(map, PSD) else LowRank(map.dims, rank)


def components_of(map: MatrixMap, x: Parameters, rank: int) -> Components:
    """The singular value decomposition of a factored matrix, the largest `rank` values."""
    if isinstance(map, PSD):
        left, roots, _ = np.linalg.svd(np.asarray(x, np.float64), full_matrices=False)
        return Components(left, roots**2, left).only(slice(rank))
    return _decomposed(*(np.asarray(factor, np.float64) for factor in x)).only(slice(rank))


def _decomposed(left: np.ndarray, right: np.ndarray) -> Components:
    """The singular value decomposition of a product ``left right'``."""
    (left, first), (right, second) = np.linalg.qr(left), np.linalg.qr(right)
    inner_left, values, inner_right = np.linalg.svd(first @ second.T, full_matrices=False)
    return Components(left @ inner_left, values, right @ inner_right.T)


def factors_of(map: MatrixMap, components: Components, dtype: Any) -> Parameters:
    """Balanced factors of the sum of components, columns of zeros up to the map's rank."""
    roots = np.sqrt(np.maximum(components.values, 0))
    missing = ((0, 0), (0, map.rank - len(roots)))
    left, right = (
        jnp.asarray(np.pad(vectors * roots, missing), dtype)
        for vectors in (components.left, components.right)
    )
    return left if isinstance(map, PSD) else (left, right)
