"""What every covector offers."""

import abc
import functools
import operator
from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array, PyTree


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


def sum_over_modes(term: Callable[[int], Array], order: int) -> Array:
    """Add up what each mode contributes."""
    return functools.reduce(operator.add, [term(mode) for mode in range(order)])
