"""The interface of maps."""

import abc
import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from .._linalg import divide_or_zero
from .._tree import tree_dot
from .._typing import Parameters, RealLike, RealScalar
from ..covectors import AbstractCovector
from ..points import AbstractPoint

if TYPE_CHECKING:
    from ._ranked import AbstractRankedMap


class Projections(NamedTuple):
    """Squared norms of a covector v, projected by the Jacobian J.

    With ``P = J (J'J + damping)^-1 J'`` and Pi the orthogonal projector onto the range of J,
    ``projected <= damped <= range`` always holds.
    """

    range: RealScalar
    """``|Pi v|^2``, the denominator in the paper's Polyak step."""
    damped: RealScalar
    """``v' P v = <J'v, direction>``."""
    projected: RealScalar
    """``|P v|^2 = |J direction|^2``."""


class Preconditioned(NamedTuple):
    """A damped direction, its projection norms, and the outcome of the linear solve."""

    direction: Parameters
    """``(J'J + damping)^-1 J'v``."""
    projections: Projections
    iterations: Int[Array, ""]
    """Inner iterations of the linear solver; 0 for closed forms."""
    failed: Bool[Array, ""]
    """Whether the linear solver failed."""


class AbstractMap(eqx.Module):
    """A smooth map F from parameters to points.

    J is the Jacobian of F at x. A subclass implements the abstract members. Add it to
    ``tests/cases/`` so that the law checks of `lemmax.testing` run on it.
    """

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the points; None if it is only known after an evaluation."""

    @property
    def symmetric(self) -> bool | None:
        """Whether all points are symmetric under permutation of the modes; None if unknown."""
        return None

    @property
    def degree(self) -> int | None:
        """The degree N of homogeneity, ``F(t x) = t^N F(x)``, hence ``F(x) = J x / N``; or None."""
        return None

    @property
    def model(self) -> Callable[[Parameters], PyTree] | None:
        """The user's function, whose parameters are of interest; None for other maps."""
        return None

    @property
    def ranked(self) -> "AbstractRankedMap | None":
        """The map itself if its points are sums of terms with a rank that can be changed."""
        return None

    @property
    @abc.abstractmethod
    def parameter_shapes(self) -> PyTree:
        """Shapes of the parameters (a tuple, or a tuple of tuples); None if any shape fits."""

    @abc.abstractmethod
    def __call__(self, x: Parameters) -> AbstractPoint:
        """The point F(x), factored if possible."""

    @abc.abstractmethod
    def jvp(self, x: Parameters, dx: Parameters) -> PyTree:
        """J dx as a dense array: the first-order change of the point."""

    @abc.abstractmethod
    def vjp(self, x: Parameters, covector: AbstractCovector) -> Parameters:
        """J'V: the gradient, if V is a (sub)gradient of the loss at F(x)."""

    @abc.abstractmethod
    def gram(self, x: Parameters, dx: Parameters) -> Parameters:
        """J'J dx."""

    @abc.abstractmethod
    def solve(self, x: Parameters, damping: RealLike, g: Parameters) -> Parameters:
        """``(J'J + damping)^-1 g`` for any g; the pseudo-inverse if damping is 0."""

    @abc.abstractmethod
    def precondition(
        self, x: Parameters, damping: RealLike, covector: AbstractCovector
    ) -> Preconditioned:
        """``(J'J + damping)^-1 J'V`` computed from the covector, with its projection norms.

        This is more accurate than `solve` on the gradient: rounding errors outside the range of
        J' are never divided by the damping. Under ``jit``, norms that are not used cost nothing.
        """

    @abc.abstractmethod
    def block_direction(
        self, x: Parameters, damping: RealLike, covector: AbstractCovector
    ) -> Parameters:
        """``(B + damping)^-1 J'V``, where B is the block diagonal of J'J, one block per factor.

        For a symmetric map, whose factors are one array, B accounts for the change of one factor
        at a time: ``dX -> 2 dX X'X`` for ``X X'``.
        """

    def precondition_blocks(
        self, x: Parameters, damping: RealLike, covector: AbstractCovector
    ) -> Preconditioned:
        """The direction of `block_direction`, with the norms that step rules use.

        ``damped`` and ``projected`` are ``<J'V, direction>`` and ``|J direction|^2``.
        """
        direction = self.block_direction(x, damping, covector)
        projections = Projections(
            range=self.precondition(x, damping, covector).projections.range,
            damped=tree_dot(self.vjp(x, covector), direction),
            projected=tree_dot(direction, self.gram(x, direction)),
        )
        return closed_form(direction, projections)

    def direction(self, x: Parameters, damping: RealLike, covector: AbstractCovector) -> Parameters:
        """The direction of `precondition` alone."""
        return self.precondition(x, damping, covector).direction

    def term_sizes(self, x: Parameters) -> np.ndarray | None:
        """Sizes of the terms of a point, in descending order; None if it has no terms."""
        return None

    def terms(self, x: Parameters) -> "tuple[AbstractRankedMap, Parameters] | None":
        """The same point as a sum of terms: a ranked map and its parameters, or None.

        Composed maps delegate to the outer map.
        """
        return None

    def nearest(self, array: np.ndarray) -> Parameters | None:
        """Parameters of the point nearest to an array; None if there is no closed form."""
        return None

    def check_parameters(self, x: Any) -> None:
        """Raise an error if x does not fit this map."""
        expected = self.parameter_shapes
        if expected is None:
            return
        actual = jax.tree.map(jnp.shape, x)
        if actual != expected:
            raise ValueError(
                f"{type(self).__name__} takes parameters of shape {expected}, but x0 has {actual}."
            )


def spectral_projections(damping: RealLike, *parts: tuple[Array, Array]) -> Projections:
    """Projection norms from the spectrum of J J'.

    Each part pairs eigenvalues of ``J J'`` with the squared coordinates of the covector along
    their eigenvectors.
    """

    def total(weight):
        return functools.reduce(
            operator.add, [jnp.sum(weight(t) * squares) for t, squares in parts]
        )

    return Projections(
        range=total(lambda t: (t > 0).astype(t.dtype)),
        damped=total(lambda t: divide_or_zero(t, t + damping)),
        projected=total(lambda t: divide_or_zero(t, t + damping) ** 2),
    )


def closed_form(direction: Parameters, projections: Projections) -> Preconditioned:
    """A direction computed without inner iterations.

    Use it as the return value of `AbstractMap.precondition` in a map of your own that has a
    closed form for its damped system.

    Parameters
    ----------
    direction : parameters
        ``(J'J + damping)^-1 J'V``.
    projections : Projections
        Norms of the projections of V, from `spectral_projections`.

    Returns
    -------
    Preconditioned

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from lemmax.maps import closed_form, spectral_projections
    >>> covector, damping = jnp.array([1.0]), 1.0
    >>> gradient, curvature = 2 * covector, jnp.array([4.0])  # of the map x -> 2 x
    >>> projections = spectral_projections(damping, (curvature, covector**2))
    >>> print(closed_form(gradient / (curvature + damping), projections).direction)
    [0.4]
    """
    return Preconditioned(
        direction, projections, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.bool_)
    )
