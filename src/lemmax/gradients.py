"""Options for `jax.grad`, `jax.jacrev` and `jax.jvp` of a run."""

import equinox as eqx

from ._checks import check_real


class AbstractGradient(eqx.Module):
    """How a run is differentiated; see the classes of this module."""


class Implicit(AbstractGradient):
    """The derivative of the solution, by the implicit function theorem.

    ``result.x``, ``result.point`` and ``result.value`` are differentiated with respect to all
    arrays of the problem: data, operator, weights, and arrays of the map. The solution does not
    depend on the start, the method and the stopping rules: their derivatives are 0, and so are
    those of ``last_x`` and the trace. Steps are not differentiated, so memory does not grow with
    their number.

    Parameters
    ----------
    zero : float, optional
        Residuals below this multiple of the typical size of the data count as 0, and stay 0. This
        matters for `L1`, `Quantile` and `L2`. Default: about 2e-7 in float64, 5e-3 in float32. The
        run must be as accurate.

    Notes
    -----
    If the map has more parameters than degrees of freedom, the derivative of the point is unique,
    and that of x is the one of minimum norm. With exact data, more residuals may vanish than there
    are degrees of freedom, or the rank may be below its bound. The derivative then is that along
    changes of the data which preserve this. For other changes there is none: `jax.jvp` raises an
    error, reverse mode cannot detect them.

    If a run failed, is not at a stationary point, or leaves the point undetermined, there is no
    derivative: an error is raised, or the derivative is NaN inside ``jit`` and ``vmap``.

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
    """Treat the result as a constant: all derivatives are 0.

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
