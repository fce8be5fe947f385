"""A user's own smooth map, with derivatives by automatic differentiation."""

from collections.abc import Callable

import equinox as eqx
import jax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from .._linalg import damped_inverse, divide_or_zero, thin_svd
from .._typing import Parameters, RealLike
from ..covectors import AbstractCovector
from ..points import DensePoint
from ._base import (
    AbstractMap,
    Preconditioned,
    closed_form,
    spectral_projections,
)
from ._core import conjugate_gradients, iterated


class FromFunction(AbstractMap):
    """Any differentiable JAX function from a pytree of parameters to a pytree of arrays.

    Parameters
    ----------
    function : callable
        ``function(x)`` returns the model's values, to be compared with the data.
    dense_limit : int
        Jacobians with at most this many entries are formed and decomposed, which is exact even
        without damping. For larger ones the damped system is solved by conjugate gradients on
        Jacobian products.
    tol : float, optional
        Relative residual of the conjugate gradients.
    max_steps : int
        Maximum number of CG iterations per solve.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> t = jnp.linspace(0.0, 1.0, 5)
    >>> decay = lm.maps.FromFunction(lambda x: x["height"] * jnp.exp(-x["rate"] * t))
    >>> decay({"height": jnp.array(2.0), "rate": jnp.array(0.0)}).dense().shape
    (5,)
    """

    function: Callable[[Parameters], PyTree]
    dense_limit: int = eqx.field(static=True, default=250_000)
    tol: float | None = None
    max_steps: int = eqx.field(static=True, default=1000)

    def __check_init__(self):
        if not callable(self.function):
            raise TypeError(
                f"FromFunction wraps a function of the parameters; got {self.function!r}."
            )

    @property
    def model(self) -> Callable[[Parameters], PyTree]:
        """The function."""
        return self.function

    @property
    def shape(self) -> None:
        """None: only known after an evaluation."""
        return

    @property
    def parameter_shapes(self) -> None:
        """None: depends on the function."""
        return

    def __call__(self, x: Parameters) -> DensePoint:
        """Evaluate the function."""
        return DensePoint(self.function(x))

    def jvp(self, x: Parameters, dx: Parameters) -> PyTree:
        """Forward-mode derivative."""
        return jax.jvp(self.function, (x,), (dx,))[1]

    def vjp(self, x: Parameters, covector: AbstractCovector) -> Parameters:
        """Reverse-mode derivative."""
        return jax.vjp(self.function, x)[1](covector.dense())[0]

    def gram(self, x: Parameters, dx: Parameters) -> Parameters:
        """One forward-mode and one reverse-mode product."""
        return self._gram_action(x)(dx)

    def solve(self, x: Parameters, damping: RealLike, g: Parameters) -> Parameters:
        """By an SVD of the Jacobian, or by conjugate gradients if it is large."""
        if not self._forms_jacobian(x):
            return self._conjugate_gradients(x, damping, g).solution
        flat, unravel = ravel_pytree(g)
        _, s, right = thin_svd(self._jacobian(x))
        return unravel(damped_inverse(flat[None, :], s, right, damping)[0])

    def block_direction(
        self, x: Parameters, damping: RealLike, covector: AbstractCovector
    ) -> Parameters:
        """Block Jacobi direction: each array of the parameters is a block."""
        leaves, structure = jax.tree.flatten(x)

        def block(k: int) -> Parameters:
            def alone(leaf):
                return self.function(structure.unflatten([*leaves[:k], leaf, *leaves[k + 1 :]]))

            rest = FromFunction(alone, self.dense_limit, self.tol, self.max_steps)
            return rest.direction(leaves[k], damping, covector)

        return structure.unflatten([block(k) for k in range(len(leaves))])

    def precondition(
        self, x: Parameters, damping: RealLike, covector: AbstractCovector
    ) -> Preconditioned:
        """By an SVD of the Jacobian, or by conjugate gradients if it is large."""
        if self._forms_jacobian(x):
            left, s, right = thin_svd(self._jacobian(x))
            coordinates = left.T @ ravel_pytree(covector.dense())[0]
            _, unravel = ravel_pytree(x)
            flat = right.T @ (divide_or_zero(s, s**2 + damping) * coordinates)
            projections = spectral_projections(damping, (s**2, coordinates**2))
            return closed_form(unravel(flat), projections)
        return iterated(
            self._gram_action(x), damping, self.vjp(x, covector), self.tol, self.max_steps
        )

    def _gram_action(self, x: Parameters) -> Callable[[Parameters], Parameters]:
        _, forward = jax.linearize(self.function, x)
        backward = jax.linear_transpose(forward, x)
        return lambda dx: backward(forward(dx))[0]

    def _conjugate_gradients(self, x: Parameters, damping: RealLike, g: Parameters):
        return conjugate_gradients(self._gram_action(x), damping, g, None, self.tol, self.max_steps)

    def _sizes(self, x: Parameters) -> tuple[int, int]:
        outputs = jax.tree.leaves(jax.eval_shape(self.function, x))
        return sum(leaf.size for leaf in outputs), sum(leaf.size for leaf in jax.tree.leaves(x))

    def _forms_jacobian(self, x: Parameters) -> bool:
        rows, columns = self._sizes(x)
        return rows * columns <= self.dense_limit

    def _jacobian(self, x: Parameters) -> Array:
        """The Jacobian as a matrix, by the cheaper mode of differentiation."""
        flat, unravel = ravel_pytree(x)
        rows, columns = self._sizes(x)
        differentiate = jax.jacfwd if columns <= rows else jax.jacrev
        return differentiate(lambda u: ravel_pytree(self.function(unravel(u)))[0])(flat)
