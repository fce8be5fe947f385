"""Maps whose points are sums of terms: rank, sizes of terms, truncation."""

import abc

import equinox as eqx
import jax
import numpy as np

from .._terms import Tucker, leading_terms, outer_products
from .._typing import Parameters
from ..points import KruskalPoint
from ._base import AbstractMap


class AbstractRankedMap(AbstractMap):
    """A map whose points are sums of ``rank`` outer products.

    The rank is an upper bound on the rank of the truth. The parameters are the factors of the
    terms: one array if the map is symmetric, otherwise a tuple with one array per mode.
    """

    rank: eqx.AbstractVar[int]

    @property
    def ranked(self) -> "AbstractRankedMap":
        """The map itself."""
        return self

    @abc.abstractmethod
    def __call__(self, x: Parameters) -> KruskalPoint:
        """The point in factored form."""

    @abc.abstractmethod
    def with_rank(self, rank: int) -> "AbstractRankedMap":
        """The same map with another rank."""

    @property
    @abc.abstractmethod
    def degrees_of_freedom(self) -> int:
        """The dimension of the set of points of this rank."""

    @property
    def largest_rank(self) -> int:
        """The smallest rank that reaches all points of the map; for a tensor, its own rank."""
        shape = self.shape
        assert shape is not None
        return min(self.rank, *shape) if len(shape) == 2 else self.rank

    def parameters(self, factors: tuple[np.ndarray, ...]) -> Parameters:
        """Parameters from one factor per mode."""
        return factors[0] if self.symmetric else factors

    def term_sizes(self, x: Parameters) -> np.ndarray:
        """Singular values in descending order; for a tensor, the largest over its unfoldings."""
        core = self._tucker(x).core
        values = np.zeros(max(core.shape))
        for mode in range(core.ndim):
            unfolded = np.moveaxis(core, mode, 0).reshape(core.shape[mode], -1)
            found = np.linalg.svd(unfolded, compute_uv=False)
            values[: len(found)] = np.maximum(values[: len(found)], found)
        return values

    def truncate(self, x: Parameters, rank: int, rng: np.random.Generator) -> Parameters:
        """Keep the leading terms in the first columns and set the others to zero.

        Steps leave zero columns at zero, since the Jacobian vanishes there. So a lower rank needs
        no other map, and nothing is compiled again.
        """
        tucker = self._tucker(x)
        if tucker.core.ndim == 2:
            left, values, right = np.linalg.svd(tucker.core)
            roots = np.sqrt(values[:rank])
            inner = left[:, :rank] * roots, right[:rank].T * roots
            factors = tuple(q @ f for q, f in zip(tucker.bases, inner, strict=True))
        else:
            factors = leading_terms(tucker, rank, rng, symmetric=bool(self.symmetric))
        missing = ((0, 0), (0, self.rank - factors[0].shape[1]))
        return self.parameters(tuple(np.pad(factor, missing) for factor in factors))

    def first_terms(self, x: Parameters, rank: int) -> "tuple[AbstractRankedMap, Parameters]":
        """The map of the given rank, and the first columns of the parameters."""
        return self.with_rank(rank), jax.tree.map(lambda factor: factor[:, :rank], x)

    def terms(self, x: Parameters) -> "tuple[AbstractRankedMap, Parameters]":
        """The map itself."""
        return self, x

    def _tucker(self, x: Parameters) -> Tucker:
        """The point in orthonormal bases of its factors' columns, in float64."""
        factors = self(x).factors
        decompositions = [np.linalg.qr(np.asarray(factor, np.float64)) for factor in factors]
        core = outer_products(tuple(r for _, r in decompositions))
        return Tucker(core, tuple(q for q, _ in decompositions))
