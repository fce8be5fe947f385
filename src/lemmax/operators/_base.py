"""What every measurement operator offers."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array

from ..covectors import AbstractCovector
from ..points import AbstractPoint


class AbstractOperator(eqx.Module):
    """A linear map from points to observations, with its adjoint to covectors.

    A new operator implements the four abstract members, and gets one line in the list of cases
    that the law checks of `lemmax.testing` run over.
    """

    @property
    @abc.abstractmethod
    def point_shape(self) -> tuple[int, ...] | None:
        """Shape of the points it measures; None if it takes any."""

    @property
    @abc.abstractmethod
    def observation_shape(self) -> tuple[int, ...] | None:
        """Shape of what it returns; None if it depends on the point."""

    @property
    def needs_symmetry(self) -> bool:
        """Whether only symmetric points may be measured."""
        return False

    @abc.abstractmethod
    def measure(self, point: AbstractPoint) -> Array:
        """Observations of a point."""

    @abc.abstractmethod
    def adjoint(self, observations: Array) -> AbstractCovector:
        """The covector V with ``<V, point> = <observations, measure(point)>``."""

    def residual(
        self, point: AbstractPoint, data: Any
    ) -> tuple[Array, Callable[[Array], AbstractCovector]]:
        """``measure(point) - data``, and the adjoint that carries a dual of it back.

        Only `Identity` replaces this: with factored data the residual lives in coordinates that
        depend on the point, and so does the adjoint.
        """
        return self.measure(point) - data, self.adjoint
