"""Compositions F(g(x)): squared, fixed or shared parameters."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .._checks import check_kind
from .._typing import AnyArray, Parameters, RealLike
from ..covectors import AbstractCovector
from ..points import AbstractPoint
from ._base import AbstractMap, Preconditioned
from ._core import conjugate_gradients, iterated
from ._ranked import AbstractRankedMap


class Squares(eqx.Module):
    """Square every parameter, for nonnegative factors."""

    def degree(self, outer: int) -> int:
        """The degree of ``F(g(x))`` for a map F of degree ``outer``."""
        return 2 * outer

    def __call__(self, x: Parameters) -> Parameters:
        """``x * x``, leaf by leaf."""
        return jax.tree.map(lambda leaf: leaf * leaf, x)


class WithFixed(eqx.Module):
    """Combine known factors with free ones.

    Parameters
    ----------
    factors : tuple
        One item per factor: the array if it is known, None if it is a parameter.
    free : callable, optional
        Applied to the parameters first, for example `Squares`.
    """

    factors: tuple[AnyArray | None, ...]
    free: Callable[[Parameters], Parameters] | None = None

    def degree(self, outer: int) -> int | None:
        """The degree of ``F(g(x))`` for a multilinear map F of degree ``outer``."""
        if outer != len(self.factors):
            return None
        supplied = sum(factor is None for factor in self.factors)
        return supplied if self.free is None else _degree(self.free, supplied)

    def __call__(self, x: tuple[AnyArray, ...]) -> tuple[AnyArray, ...]:
        """All factors, in order."""
        free = x if self.free is None else self.free(x)
        supplied, dtype = iter(free), jnp.result_type(*free)
        return tuple(
            next(supplied) if factor is None else jnp.asarray(factor, dtype)
            for factor in self.factors
        )


class Composed(AbstractMap):
    """``F(g(x))`` for a map F with closed forms and a differentiable function g.

    Products with the Jacobian use those of F, so no array of the size of the points is formed
    unless F forms it. The damped system is solved by conjugate gradients.

    Parameters
    ----------
    outer : AbstractMap
        F, such as `LowRank` or `CP`.
    inner : callable
        g, from x to the parameters of F, for example `Squares` or `WithFixed`. A function that
        holds arrays should be an `equinox.Module`, so that they are not compiled as constants.
    parameter_shapes : optional
        Shapes of x. Default: those of F's parameters for `Squares`, unknown otherwise.
    tol : float, optional
        Relative residual of the conjugate gradients.
    max_steps : int
        Maximum number of CG iterations per solve.

    Examples
    --------
    A matrix with nonnegative factors:

    >>> import numpy as np
    >>> import lemmax as lm
    >>> map = lm.maps.Composed(lm.maps.LowRank((2, 2), rank=1), lm.maps.Squares())
    >>> print(map((np.array([[1.0], [-2.0]]), np.array([[3.0], [0.0]]))).dense())
    [[ 9.  0.]
     [36.  0.]]
    """

    outer: AbstractMap
    inner: Callable[[Parameters], Parameters]
    shapes: PyTree = eqx.field(static=True)
    tol: float | None
    max_steps: int = eqx.field(static=True)

    def __init__(
        self,
        outer: AbstractMap,
        inner: Callable[[Parameters], Parameters],
        parameter_shapes: PyTree = None,
        *,
        tol: float | None = None,
        max_steps: int = 200,
    ):
        check_kind("outer", outer, AbstractMap, "a map (an instance of AbstractMap)")
        if not callable(inner):
            raise TypeError(f"Composed needs a function of the parameters; got {inner!r}.")
        if parameter_shapes is None and isinstance(inner, Squares):
            parameter_shapes = outer.parameter_shapes
        self.outer, self.inner, self.shapes = outer, inner, parameter_shapes
        self.tol, self.max_steps = tol, max_steps

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the points of F."""
        return self.outer.shape

    @property
    def symmetric(self) -> bool | None:
        """Whether the points of F are symmetric."""
        return self.outer.symmetric

    @property
    def degree(self) -> int | None:
        """The degree of F(g(x)), if g defines it."""
        return None if self.outer.degree is None else _degree(self.inner, self.outer.degree)

    @property
    def parameter_shapes(self) -> PyTree:
        """The shapes given at construction."""
        return self.shapes

    def terms(self, x: Parameters) -> tuple[AbstractRankedMap, Parameters] | None:
        """The terms of F."""
        return self.outer.terms(self.inner(x))

    def __call__(self, x: Parameters) -> AbstractPoint:
        """``F(g(x))``."""
        return self.outer(self.inner(x))

    def jvp(self, x: Parameters, dx: Parameters) -> PyTree:
        """Forward through g, then through F."""
        return self.outer.jvp(*self.inner_jvp(x, dx))

    def inner_jvp(self, x: Parameters, dx: Parameters) -> tuple[Parameters, Parameters]:
        """The parameters of F, and their first-order change."""
        return jax.jvp(self.inner, (x,), (dx,))

    def vjp(self, x: Parameters, covector: AbstractCovector) -> Parameters:
        """Back through F, then through g."""
        made, back = jax.vjp(self.inner, x)
        return back(_like(made, self.outer.vjp(made, covector)))[0]

    def gram(self, x: Parameters, dx: Parameters) -> Parameters:
        """``G' J'J G dx``, G the Jacobian of g."""
        return self._gram_action(x)(dx)

    def solve(self, x: Parameters, damping: RealLike, g: Parameters) -> Parameters:
        """By conjugate gradients."""
        action = self._gram_action(x)
        return conjugate_gradients(action, damping, g, None, self.tol, self.max_steps).solution

    def precondition(
        self, x: Parameters, damping: RealLike, covector: AbstractCovector
    ) -> Preconditioned:
        """By conjugate gradients."""
        gradient = self.vjp(x, covector)
        return iterated(self._gram_action(x), damping, gradient, self.tol, self.max_steps)

    def block_direction(
        self, x: Parameters, damping: RealLike, covector: AbstractCovector
    ) -> Parameters:
        """Block Jacobi direction: each array of the parameters is a block."""
        action = self._gram_action(x)
        leaves, structure = jax.tree.flatten(self.vjp(x, covector))

        def alone(k: int, change: Any) -> Parameters:
            zeros = [jnp.zeros_like(leaf) for leaf in leaves]
            return structure.unflatten([*zeros[:k], change, *zeros[k + 1 :]])

        def block(k: int) -> Any:
            def gram(change: Any) -> Any:
                return jax.tree.leaves(action(alone(k, change)))[k]

            return conjugate_gradients(
                gram, damping, leaves[k], None, self.tol, self.max_steps
            ).solution

        return structure.unflatten([block(k) for k in range(len(leaves))])

    def _gram_action(self, x: Parameters) -> Callable[[Parameters], Parameters]:
        made, forward = jax.linearize(self.inner, x)
        backward = jax.linear_transpose(forward, x)
        return lambda dx: backward(_like(made, self.outer.gram(made, forward(dx))))[0]


def _degree(inner: Any, outer: int) -> int | None:
    return inner.degree(outer) if isinstance(inner, (Squares, WithFixed)) else None


def _like(made: Parameters, cotangent: Parameters) -> Parameters:
    """The same numbers in the tree structure of g's result."""
    return jax.tree.unflatten(jax.tree.structure(made), jax.tree.leaves(cotangent))
