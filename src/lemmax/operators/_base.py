"""The interface of measurement operators."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, PyTree

from ..covectors import AbstractCovector
from ..points import AbstractPoint


class AbstractOperator(eqx.Module):
    """A linear map from points to observations, with its adjoint to covectors.

    A subclass implements the four abstract members. Add it to ``tests/cases/`` so that the law
    checks of `lemmax.testing` run on it.
    """

    @property
    @abc.abstractmethod
    def point_shape(self) -> tuple[int, ...] | None:
        """Shape of the points it measures; None if it takes any shape."""

    @property
    @abc.abstractmethod
    def observation_shape(self) -> tuple[int, ...] | None:
        """Shape of the observations; None if it depends on the point."""

    def shape_of_points(self, data: PyTree) -> Any:
        """The shapes of points, as far as the operator or the data say; else None."""
        return self.point_shape

    @property
    def needs_symmetry(self) -> bool:
        """Whether it only measures symmetric points."""
        return False

    @property
    def entrywise(self) -> bool:
        """Whether every observation is an entry of the point; `places` then gives its indices."""
        return False

    def places(self, chosen: np.ndarray) -> tuple[np.ndarray, ...]:
        """Indices in the point of selected observations, one array per mode.

        Parameters
        ----------
        chosen : array of bool
            The selected observations, in the shape of the observations.
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
        """``measure(point) - data``, and the adjoint for covectors of that residual.

        Only `Identity` overrides this: with factored data, the coordinates of the residual depend
        on the point, and so does the adjoint.
        """
        return self.measure(point) - data, self.adjoint
