"""What `jax.grad`, `jax.jacrev` and `jax.jvp` of a run differentiate."""

import equinox as eqx

from ._checks import check_real


class AbstractGradient(eqx.Module):
    """How a run is differentiated: one of the classes of this module."""


class Implicit(AbstractGradient):
    """The derivative of the solution, by the implicit function theorem.

    ``result.x``, ``result.point`` and ``result.value`` are differentiated with respect to every
    array of the problem: data, operator, weights, and what a map holds. The start, the method and
    the stopping rules have no part in the solution: their derivatives are 0, and so are those of
    ``last_x`` and the trace. No step is differentiated, so that memory does not depend on their
    number.

    Parameters
    ----------
    zero : float, optional
        Residuals below this part of the typical size of the data vanish at the solution, and go on
        doing so: this concerns `L1`, `Quantile` and `L2`. About 2e-7 in float64, 5e-3 in float32 if
        not given. The run must be as accurate.

    Notes
    -----
    Where the map has more parameters than its points, the derivative of the point is unique; that
    of x is the one of minimum norm. With data that are explained exactly, more residuals may vanish
    than there are degrees of freedom, or the rank may be below its bound. The derivative then is
    that along changes of the data which keep it so. Others have none: `jax.jvp` raises for them;
    reverse mode does not see them.

    Where a run did not succeed, is not at a stationary point, or leaves the point undetermined,
    there is no derivative: an error says so, or NaN inside of ``jit`` and ``vmap``.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> def root(data):
    ...     problem = lm.Composite(lm.losses.L2(), lm.maps.Square(1), data=data)
    ...     return lm.solve(problem, lm.methods.lmm(), jnp.array([1.0]), tol=1e-12).x[0]
    >>> print(f"{jax.grad(root)(jnp.array([4.0]))[0]:.6f}")  # of the square root at 4
    0.250000
    """

    zero: float | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        if self.zero is not None:
            check_real(0, zero=self.zero)


class NoGradient(AbstractGradient):
    """The result counts as a constant: all derivatives are 0.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> def root(data):
    ...     problem = lm.Composite(lm.losses.L2(), lm.maps.Square(1), data=data)
    ...     result = lm.solve(
    ...         problem, lm.methods.lmm(), jnp.array([1.0]), gradient=lm.gradients.NoGradient())
    ...     return result.x[0]
    >>> print(jax.grad(root)(jnp.array([4.0])))
    [0.]
    """
