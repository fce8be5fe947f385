"""Use lemmax methods in optimistix, and optimistix solvers on lemmax problems.

It needs the extra ``optimistix``: ``pip install 'lemmax[optimistix]'``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from ._checks import check_kind, check_positive, check_real
from ._dtype import (
    cast_floats,
    common_dtype,
    needs_local_x64,
    precision_context,
    to_device,
    to_numpy,
)
from ._typing import Parameters
from .losses import SquaredL2
from .maps import FromFunction
from .methods import AbstractMethod
from .points import AbstractPoint
from .problem import Composite
from .solve import solve as solve_composite
from .solve._plan import is_numpy
from .status import Status

try:
    import optimistix as optx
except ImportError as error:
    raise ImportError(
        "lemmax.optimistix needs optimistix: pip install 'lemmax[optimistix]'."
    ) from error

# The optimistix results of failed runs.
_RESULTS = {
    Status.STEP_LIMIT: optx.RESULTS.nonlinear_max_steps_reached,
    Status.STAGNATED: optx.RESULTS.nonlinear_divergence,
    Status.DIVERGED: optx.RESULTS.nonlinear_divergence,
    Status.NON_FINITE: optx.RESULTS.nonfinite,
    Status.LINEAR_SOLVE_FAILED: optx.RESULTS.singular,
}
# And vice versa; all other results concern linear systems.
_STATUSES = (
    (optx.RESULTS.successful, Status.CONVERGED),
    (optx.RESULTS.nonlinear_max_steps_reached, Status.STEP_LIMIT),
    (optx.RESULTS.nonlinear_divergence, Status.DIVERGED),
    (optx.RESULTS.nonfinite, Status.NON_FINITE),
)


class _Run(eqx.Module):
    """Whether the run has ended, and how."""

    ended: Array
    code: Array
    steps: Array


class LeastSquares(optx.AbstractLeastSquaresSolver):
    """A lemmax method as a solver for `optimistix.least_squares`.

    One step, for optimistix, is a whole run of `lemmax.solve`: its stopping rules apply, the best
    iterate is returned, and its status becomes the result. It works under ``jit`` and ``vmap``;
    derivatives are optimistix's, by the implicit function theorem.

    Parameters
    ----------
    method : AbstractMethod
        One of ``lm.methods`` for smooth losses that needs no target value.
    rtol : float
        The ``tol`` of `lemmax.solve`.
    max_steps : int
        Maximum number of steps of the method. (That of `optimistix.least_squares` counts runs.)

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> import optimistix as optx
    >>> from lemmax.optimistix import LeastSquares
    >>> t = jnp.linspace(0.0, 2.0, 9)
    >>> y = 2 * jnp.exp(-1.5 * t)
    >>> def residuals(x, args):
    ...     t, y = args
    ...     return x["height"] * jnp.exp(-x["rate"] * t) - y
    >>> method = lm.methods.gauss_newton(lm.steps.Constant(1.0))
    >>> start = {"height": 1.0, "rate": 1.0}
    >>> solved = optx.least_squares(residuals, LeastSquares(method), start, (t, y))
    >>> print(f"{solved.value['rate']:.3f}")
    1.500
    """

    method: AbstractMethod
    rtol: float = 1e-8
    max_steps: int = eqx.field(static=True, default=1000)

    def __check_init__(self):
        what = "one such as lm.methods.gauss_newton(lm.steps.Constant(1.0))"
        check_kind("method", self.method, AbstractMethod, what)
        check_real(0, rtol=self.rtol)
        check_positive(max_steps=self.max_steps)

    @property
    def atol(self) -> float:
        """0: lemmax compares with the initial value."""
        return 0.0

    @property
    def norm(self) -> Callable[[PyTree], Array]:  # pyright: ignore
        """Required by optimistix; lemmax tests values of the objective."""
        return optx.max_norm

    def init(self, fn, y, args, options, f_struct, aux_struct, tags) -> _Run:
        """The state before the run."""
        zero = jnp.zeros((), jnp.int32)
        return _Run(jnp.zeros((), bool), zero, zero)

    def step(self, fn, y, args, options, state, tags) -> tuple[PyTree, _Run, Any]:
        """Run the method from y to its end."""

        def flat(y: PyTree) -> Array:
            return ravel_pytree(fn(y, args)[0])[0]

        struct = jax.eval_shape(flat, y)
        zeros = jnp.zeros(struct.shape, struct.dtype)
        problem = Composite(SquaredL2(), FromFunction(flat), zeros)
        result = solve_composite(problem, self.method, y, max_steps=self.max_steps, tol=self.rtol)
        code, steps = (jnp.asarray(each, jnp.int32) for each in (result.code, result.steps))
        return result.x, _Run(jnp.ones((), bool), code, steps), fn(result.x, args)[1]

    def terminate(self, fn, y, args, options, state, tags) -> tuple[Array, Any]:
        """End after one run, with its status as the result."""
        result = optx.RESULTS.successful
        for status, meaning in _RESULTS.items():
            result = optx.RESULTS.where(state.code == status, meaning, result)
        return state.ended, result

    def postprocess(self, fn, y, aux, args, options, state, tags, result):
        """Add lemmax's status and number of steps to the statistics."""
        return y, aux, {"lemmax_status": state.code, "lemmax_steps": state.steps}


class Solved(NamedTuple):
    """The result of an optimistix solver on a lemmax problem."""

    x: Parameters
    """The parameters."""
    point: AbstractPoint
    """The point F(x)."""
    value: Any
    """The objective at x."""
    steps: int
    status: Status
    solution: Any
    """The `optimistix.Solution`."""


def solve(problem: Composite, solver: Any, x0: Parameters, *, max_steps: int = 256) -> Solved:
    """Minimise a composite objective with an optimistix solver.

    Parameters
    ----------
    problem : Composite
        With the loss `SquaredL2` for least-squares solvers; minimisers accept any loss, preferably
        a smooth one.
    solver : optimistix solver
        Such as ``optimistix.LevenbergMarquardt(rtol=1e-8, atol=1e-8)``, or a minimiser such as
        ``optimistix.BFGS(rtol=1e-8, atol=1e-8)``.
    x0 : array or pytree of arrays
        The starting point. Float64 arrays are computed in float64 in either x64 mode.
    max_steps : int
        Maximum number of steps.

    Returns
    -------
    Solved

    Examples
    --------
    >>> import numpy as np
    >>> import lemmax as lm
    >>> import optimistix as optx
    >>> from lemmax.optimistix import solve
    >>> problem = lm.Composite(
    ...     lm.losses.SquaredL2(), lm.maps.Square(2), data=np.array([1.0, 4.0]))
    >>> solver = optx.LevenbergMarquardt(rtol=1e-10, atol=1e-10)
    >>> solved = solve(problem, solver, np.array([2.0, 1.0]))
    >>> print(solved.status.name, solved.x.round(6))
    CONVERGED [1. 2.]
    """
    check_kind("The first argument of solve", problem, Composite, "a Composite problem")
    kinds = (optx.AbstractLeastSquaresSolver, optx.AbstractMinimiser)
    check_kind("solver", solver, kinds, "a least-squares solver or a minimiser of optimistix")
    check_positive(max_steps=max_steps)
    squares = isinstance(solver, optx.AbstractLeastSquaresSolver)
    if squares and (problem.loss.robust or problem.loss.degree != 2):
        raise ValueError(
            f"{type(solver).__name__} is for least squares, but the loss is "
            f"{type(problem.loss).__name__}: use SquaredL2, or a minimiser such as optimistix.BFGS."
        )
    gives_numpy = needs_local_x64(problem, x0) or is_numpy(x0)
    with precision_context(problem, x0):
        x0 = jax.tree.map(to_device, x0)
        problem.check_start(x0)
        problem, x0 = cast_floats((problem, x0), common_dtype(problem, x0))
        run, function = (optx.least_squares, _residuals) if squares else (optx.minimise, _objective)
        some: Any = solver
        solution = run(function, some, x0, problem, max_steps=max_steps, throw=False)
        x, point = solution.value, problem.map(solution.value)
        value = _objective(x, problem)
        steps = int(solution.stats["num_steps"])
    if gives_numpy:
        x, point, value = to_numpy((x, point, value))
    return Solved(x, point, value, steps, _status(solution.result), solution)


def _measured(x: Parameters, problem: Composite) -> Array:
    return problem.operator.residual(problem.map(x), problem.data)[0]


def _residuals(x: Parameters, problem: Composite) -> PyTree:
    """The objective is half the sum of squares of these."""
    residual, weights = _measured(x, problem), problem.loss.weights
    return residual if weights is None else residual * jnp.sqrt(weights)


def _objective(x: Parameters, problem: Composite) -> Array:
    return problem.loss.value(_measured(x, problem))


def _status(result: Any) -> Status:
    return next(
        (status for meaning, status in _STATUSES if result == meaning), Status.LINEAR_SOLVE_FAILED
    )
