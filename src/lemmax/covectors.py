"""What comes back from an operator's adjoint: V = A*(s), dual to a point.

A map never needs all of V, only its products with thin matrices; a covector that is not stored
entry by entry offers those products cheaply.
"""

import abc
import functools
import operator
from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array, PyTree

from ._linalg import contract, mttkrp, unfold


class AbstractCovector(eqx.Module):
    """A linear functional on the ambient space."""

    @abc.abstractmethod
    def dense(self) -> PyTree:
        """Every entry, in the structure of a dense point."""

    @abc.abstractmethod
    def contract(self, matrices: tuple[Array, ...], skip: int | None = None) -> Array:
        """Multiply every mode ``k != skip`` by ``matrices[k].T``; modes keep their places."""

    @abc.abstractmethod
    def mttkrp(self, factors: tuple[Array, ...], mode: int) -> Array:
        """Unfold along ``mode`` and multiply by the Khatri-Rao product of the other factors."""

    @abc.abstractmethod
    def contract_all_but_one(self, matrix: Array) -> Array:
        """The same matrix in every mode but one, unfolded along that one, summed over its place.

        For a matrix V this is ``(V + V') @ matrix``.
        """

    @abc.abstractmethod
    def mttkrp_in_every_mode(self, factor: Array) -> Array:
        """The sum over modes of `mttkrp`, with the same factor everywhere."""


class DenseCovector(AbstractCovector):
    """A covector stored entry by entry.

    Parameters
    ----------
    value : array or pytree of arrays
        The entries.
    symmetric : bool
        Whether the entries are known to be invariant under permutation of the modes, which
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
        return order * term(0) if self.symmetric else _sum(term, order)


class TuckerCovector(AbstractCovector):
    """A small core multiplied by an orthonormal basis in every mode.

    Parameters
    ----------
    core : array
        One mode per basis.
    bases : tuple of arrays
        Basis k has shape ``(d_k, core.shape[k])``.
    """

    core: Array
    bases: tuple[Array, ...]

    def dense(self) -> Array:
        """Form every entry."""
        return contract(self.core, tuple(basis.T for basis in self.bases))

    def contract(self, matrices: tuple[Array, ...], skip: int | None = None) -> Array:
        """Multiply every mode ``k != skip`` by ``matrices[k].T``, within the bases."""
        small = tuple(
            basis.T if k == skip else basis.T @ matrix
            for k, (basis, matrix) in enumerate(zip(self.bases, matrices, strict=True))
        )
        return contract(self.core, small)

    def mttkrp(self, factors: tuple[Array, ...], mode: int) -> Array:
        """Matricised covector times Khatri-Rao product, within the bases."""
        small = tuple(q.T @ factor for q, factor in zip(self.bases, factors, strict=True))
        return self.bases[mode] @ mttkrp(self.core, small, mode)

    def contract_all_but_one(self, matrix: Array) -> Array:
        """Sum over n of the unfolding along n, all other modes multiplied by ``matrix``."""
        order = len(self.bases)
        return _sum(lambda n: unfold(self.contract((matrix,) * order, n), n), order)

    def mttkrp_in_every_mode(self, factor: Array) -> Array:
        """Sum over n of the matricised covector times a Khatri-Rao product."""
        order = len(self.bases)
        return _sum(lambda n: self.mttkrp((factor,) * order, n), order)


def _sum(term: Callable[[int], Array], order: int) -> Array:
    return functools.reduce(operator.add, [term(mode) for mode in range(order)])
