"""What every measurement operator offers."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
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

    @property
    def entrywise(self) -> bool:
        """Whether every observation is an entry of the point; then `places` tells which."""
        return False

    def places(self, chosen: np.ndarray) -> tuple[np.ndarray, ...]:
        """The indices of some observations in the point, one array for each mode.

        ``chosen`` is True for those that are asked for, in the shape of the observations.
        """
        raise TypeError(f"{type(self).__name__} does not observe entries of the point.")

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
