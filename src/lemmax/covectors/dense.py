"""Covectors stored entry by entry."""

from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array, PyTree

from .._linalg import contract, mttkrp, unfold
from ._base import AbstractCovector, sum_over_modes


def as_covector(value: PyTree) -> AbstractCovector:
    """Wrap the result of an adjoint: a plain array becomes a `DenseCovector`."""
    return value if isinstance(value, AbstractCovector) else DenseCovector(value)


class DenseCovector(AbstractCovector):
    """A covector that stores every entry.

    Parameters
    ----------
    value : array or pytree of arrays
        The entries.
    symmetric : bool
        Whether the entries are known to be invariant under permutations of the modes. This
        saves work.
    """

    value: PyTree
    symmetric: bool = eqx.field(static=True, default=False)

    def dense(self) -> PyTree:
        """The entries."""
        return self.value

    def contract(self, matrices: tuple[Array, ...], skip: int | None = None) -> Array:
        """Multiply every mode ``k != skip`` by ``matrices[k].T``."""
        return contract(self.value, matrices, skip)

    def mttkrp(self, factors: tuple[Array, ...], mode: int) -> Array:
        """Matricised covector times Khatri-Rao product."""
        return mttkrp(self.value, factors, mode)

    def contract_all_but_one(self, matrix: Array) -> Array:
        """Sum over n of the unfolding along n, all other modes multiplied by ``matrix``."""
        return self._over_modes(lambda n: unfold(self.contract((matrix,) * self.value.ndim, n), n))

    def mttkrp_in_every_mode(self, factor: Array) -> Array:
        """Sum over n of the matricised covector times a Khatri-Rao product."""
        return self._over_modes(lambda n: self.mttkrp((factor,) * self.value.ndim, n))

    def _over_modes(self, term: Callable[[int], Array]) -> Array:
        order = self.value.ndim
        return order * term(0) if self.symmetric else sum_over_modes(term, order)
