"""The interface of covectors."""

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
        """All entries, with the structure of a dense point."""

    @abc.abstractmethod
    def contract(self, matrices: tuple[Array, ...], skip: int | None = None) -> Array:
        """Multiply every mode ``k != skip`` by ``matrices[k].T``, keeping the order of modes."""

    @abc.abstractmethod
    def mttkrp(self, factors: tuple[Array, ...], mode: int) -> Array:
        """Unfold along ``mode`` and multiply by the Khatri-Rao product of the other factors."""

    @abc.abstractmethod
    def contract_all_but_one(self, matrix: Array) -> Array:
        """Multiply all modes but n by the same matrix, unfold along n, and sum over n.

        For a matrix V this is ``(V + V') @ matrix``.
        """

    @abc.abstractmethod
    def mttkrp_in_every_mode(self, factor: Array) -> Array:
        """The sum of `mttkrp` over all modes, with the same factor in every mode."""


def sum_over_modes(term: Callable[[int], Array], order: int) -> Array:
    """Sum of ``term(mode)`` over all modes."""
    return functools.reduce(operator.add, [term(mode) for mode in range(order)])
