"""Derivatives of a solution, by the implicit function theorem.

At a solution some residuals may be at kinks of the loss. These *active* residuals stay at their
kinks, with multipliers s in the subdifferential; the others are where the loss is smooth. Let K be
the active rows of the Jacobian and H the Hessian of the Lagrangian. A change of the problem moves
the solution by the dx that solves

    K dx = - change of the active residuals,      H dx + K' ds = - change of the slope,

and has minimum norm if dx is not unique. All matrices are of the order of the parameters.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, PyTree

from .._linalg import one_by_one
from .._programs import compiled
from .._tree import is_traced, tree_norm
from ..gradients import Implicit
from ..losses import AbstractLoss
from ..points import AbstractPoint, DensePoint
from ..problem import Composite
from ..status import Status

# Directions with a relative curvature below this, in scaled parameters, count as flat: a multiple
# of the rounding errors of second derivatives and of the inaccuracy of a finished run.
_FLAT = 1e-9
# Lower bound of a parameter's scale, relative to the largest.
_SCALED = 1e-6
# Active rows that are linearly dependent up to this accuracy are redundant.
_REDUNDANT = 1e-6
# Largest relative change of the point along undetermined directions; and of the measurements by a
# Newton step at a solution.
_UNMOVED, _STATIONARY = 1e-3, 1e-3
# Largest relative change of the active residuals that no change of the parameters matches.
_INCONSISTENT = 1e-4
_LARGEST = 4096
# Runs with these statuses may have reached a solution; the slope decides.
_AT_A_SOLUTION = (*(s for s in Status if s.succeeded), Status.PRECISION_FLOOR)

_eigh = one_by_one(lambda a: jnp.linalg.eigh(a))
_svd = one_by_one(lambda a: jnp.linalg.svd(a, full_matrices=False))


class Existence(NamedTuple):
    """Conditions for the existence of a derivative."""

    succeeded: Bool[Array, ""]
    stationary: Bool[Array, ""]
    determined: Bool[Array, ""]


_REASONS = (
    "the run did not succeed, {}",
    "the run ended where the objective is not stationary; use a smaller tol or more steps",
    "the data do not determine the point",
)


def opened(problem: Composite, x0: PyTree) -> Composite:
    """The problem, with traced arrays that a user's function closes over as its own leaves."""
    model = problem.map.model
    if model is None or not _closes_over(model):
        return problem
    function, arrays = jax.closure_convert(model, jax.tree.map(jnp.asarray, x0))
    made = jax.tree_util.Partial(lambda arrays, x: function(x, *arrays), arrays)
    return eqx.tree_at(lambda p: p.map.model, problem, made)


def _closes_over(function: Any, depth: int = 4) -> bool:
    """Whether a function, or a function it calls, closes over traced arrays."""
    held = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    held += [*(getattr(function, "__defaults__", None) or ())]
    return any(
        is_traced(thing) or (depth > 0 and callable(thing) and _closes_over(thing, depth - 1))
        for thing in held
    )


def differentiable(
    run: Callable[[Composite, PyTree], PyTree], problem: Composite, rest: PyTree, options: Implicit
) -> PyTree:
    """``run(problem, rest) -> (x, value, code, others)`` with a derivative rule.

    The derivatives are those of x and value with respect to the arrays of the problem.
    """
    moving, fixed = eqx.partition(problem, eqx.is_inexact_array)
    # All other arrays are arguments as well: nothing traced may be closed over.
    numbers, static = eqx.partition((fixed, rest), eqx.is_array)

    @jax.custom_jvp
    def solved(moving: PyTree, numbers: PyTree) -> PyTree:
        fixed, rest = eqx.combine(numbers, static)
        return run(eqx.combine(moving, fixed), rest)

    @solved.defjvp
    def derivative(primals: tuple, tangents: tuple) -> tuple[PyTree, PyTree]:
        moving, numbers = primals
        ended = solved(moving, numbers)
        x, value, code, others = ended
        _check_size(x)
        fixed, _ = eqx.combine(numbers, static)
        solution, system, existence = _analysed(moving, fixed, x, code, options)
        there = _require(existence, code).astype(value.dtype)
        dx, of_value, of_active, left = _change(solution, system, there, moving, tangents[0])
        _require_consistent(of_active, left)
        return ended, (dx, of_value.astype(value.dtype), *jax.tree.map(_no_change, (code, others)))

    return solved(moving, numbers)


def _no_change(array: Array) -> Any:
    if jnp.issubdtype(array.dtype, jnp.inexact):
        return jnp.zeros_like(array)
    return np.zeros(array.shape, jax.dtypes.float0)


def _check_size(x: PyTree) -> None:
    size = sum(leaf.size for leaf in jax.tree.leaves(x))
    if size > _LARGEST:
        raise ValueError(
            "Derivatives of a solution need matrices of the order of its parameters, and "
            f"{size} are too many. Use gradient=lm.gradients.NoGradient() for a constant result."
        )


class _Solution(eqx.Module):
    """A solution, and what is held fixed while it moves."""

    moving: PyTree
    """The arrays of the problem."""
    fixed: PyTree
    """The static part of the problem."""
    x: PyTree
    at: Array
    """The residual."""
    active: Array
    slopes: Array
    """Subgradient of the loss; 0 for active residuals."""
    multipliers: Array

    @property
    def flat(self) -> Array:
        """The parameters in one vector."""
        return ravel_pytree(self.x)[0]

    def problem(self, moving: PyTree) -> Composite:
        """The problem with other arrays."""
        return eqx.combine(moving, self.fixed)

    def residual(self, u: Array, moving: PyTree) -> Array:
        """The residual in coordinates that do not depend on u."""
        return _residual(self.problem(moving), ravel_pytree(self.x)[1](u))

    def slope(self, u: Array, moving: PyTree) -> Array:
        """Gradient of the Lagrangian; the multipliers and the active set are fixed."""
        at, pull = jax.vjp(lambda v: self.residual(v, moving), u)
        smooth = self.problem(moving).loss.subgradient(jnp.where(self.active, self.at, at))
        return pull(jnp.where(self.active, self.multipliers, smooth))[0]

    def by_weights(self, moving: PyTree, of_problem: PyTree) -> Array:
        """Change of the value due to a change of the loss at a fixed residual."""
        some = ~jnp.all(self.active)
        at = jnp.where(some, jnp.where(self.active, 0, self.at), 1.0).astype(self.at.dtype)
        change = jax.jvp(lambda them: self.problem(them).loss.value(at), (moving,), (of_problem,))[
            1
        ]
        return jnp.where(some, 1.0, 0.0).astype(at.dtype) * change


@compiled
def _analysed(
    moving: PyTree, fixed: PyTree, x: PyTree, code: Array, options: Implicit
) -> tuple[_Solution, "_System", Existence]:
    """Everything that does not depend on the change of the problem."""
    problem: Composite = eqx.combine(moving, fixed)
    flat, unravel = ravel_pytree(x)
    at = _residual(problem, x)
    small = _smallness(problem, at, options)
    active = _at_kink(problem.loss, at, small)
    slopes = jnp.where(active, 0, problem.loss.subgradient(at))
    rows = jax.jacfwd(lambda u: _residual(problem, unravel(u)).ravel())(flat)
    scaled = _Scaled.of(jnp.where(active.reshape(-1, 1), rows, 0), rows)
    multipliers = scaled.multipliers(-slopes.ravel() @ rows).reshape(at.shape)
    solution = _Solution(moving, fixed, x, at, active, slopes, multipliers)
    system = _System.of(scaled, jax.jacfwd(solution.slope)(flat, moving), rows)
    existence = Existence(
        functools.reduce(operator.or_, [code == status for status in _AT_A_SOLUTION]),
        _stationary(solution, system, problem),
        system.determines(lambda u: problem.map(unravel(u)).dense(), flat),
    )
    return solution, system, existence


def _stationary(solution: _Solution, system: "_System", problem: Composite) -> Bool[Array, ""]:
    """Whether a Newton step would change the measurements little, relative to the data.

    Along undetermined directions there is no Newton step; there the gradient must be small.
    """
    slope = solution.slope(solution.flat, solution.moving)
    dual = jnp.where(solution.active, solution.multipliers, solution.slopes)
    step = system.solve(jnp.where(solution.active, solution.at, 0).ravel(), slope)
    short = tree_norm(system.rows @ step) <= _STATIONARY * _data(problem).norm()
    unknown = (system.unknown.T @ slope) / jnp.max(system.scaled.size)
    return short & (tree_norm(unknown) <= _STATIONARY * tree_norm(dual))


@compiled
def _change(
    solution: _Solution, system: "_System", there: Array, moving: PyTree, of_problem: PyTree
) -> tuple[PyTree, Array, Array, Array]:
    """Changes of x and value, linear in that of the problem; and of the active residuals."""
    flat, change = solution.flat, ((moving,), (of_problem,))
    of_residual = jax.jvp(lambda them: solution.residual(flat, them), *change)[1]
    of_slope = jax.jvp(lambda them: solution.slope(flat, them), *change)[1]
    of_active = jnp.where(solution.active, of_residual, 0).ravel()
    step = there * system.solve(of_active, of_slope)
    moved = of_residual + (system.rows @ step).reshape(of_residual.shape)
    of_value = jnp.sum(solution.slopes * moved) + solution.by_weights(moving, of_problem)
    left = jnp.where(solution.active, moved, 0)
    return ravel_pytree(solution.x)[1](step), of_value, of_active, left


def _require(existence: Existence, code: Array) -> Array:
    """1 if there is a derivative, otherwise NaN; an error if the values are concrete."""
    if not is_traced(existence):
        for holds, reason in zip(existence, _REASONS, strict=True):
            if not bool(holds):
                why = reason.format(Status(int(code)).name)
                raise ValueError(f"The solution has no derivative: {why}.")
    holds = existence.succeeded & existence.stationary & existence.determined
    return jnp.where(holds, 1.0, jnp.nan)


def _require_consistent(of_active: Array, left: Array) -> None:
    """In forward mode, where the change is known, raise an error if it has no derivative."""
    if is_traced((of_active, left)):
        return
    if float(tree_norm(left)) > _INCONSISTENT * float(tree_norm(of_active)):
        raise ValueError(
            "The solution has no derivative along this change: more residuals vanish than there "
            "are degrees of freedom, and the change does not keep them at zero."
        )


def _residual(problem: Composite, x: PyTree) -> Array:
    """The residual in coordinates that do not depend on x."""
    point, data = problem.map(x), problem.data
    if isinstance(data, AbstractPoint):
        point, data = DensePoint(point.dense()), data.dense()
    return problem.operator.residual(point, data)[0]


class _Scaled(eqx.Module):
    """SVD of the active rows, in parameters scaled by their Jacobian columns."""

    size: Array
    left: Array
    reciprocal: Array
    right: Array

    @classmethod
    def of(cls, active: Array, rows: Array) -> "_Scaled":
        """Decompose."""
        norms = jnp.sqrt(jnp.sum(rows**2, axis=0))
        size = jnp.maximum(norms, _SCALED * jnp.max(norms))
        size = jnp.where(size > 0, size, 1)
        left, s, right = _svd(active / size[None, :])
        seen = s > _REDUNDANT * jnp.max(s, initial=0.0)
        reciprocal = jnp.where(seen, 1 / jnp.where(seen, s, 1), 0)
        return cls(size, left, reciprocal, jnp.where(seen[:, None], right, 0))

    def slope(self, slope: Array) -> Array:
        """Gradient in scaled parameters."""
        return slope / self.size

    def multipliers(self, slope: Array) -> Array:
        """Multipliers of minimum norm that balance the gradient."""
        return self.left @ (self.reciprocal * (self.right @ self.slope(slope)))


class _System(eqx.Module):
    """The linear system for a change of the solution."""

    scaled: _Scaled
    rows: Array
    """The Jacobian of all residuals."""
    hessian: Array
    open: Array
    """Projector onto the null space of the active rows."""
    vectors: Array
    inverse: Array
    unknown: Array
    """Undetermined directions, as changes of the parameters; orthonormal, or 0."""

    @classmethod
    def of(cls, scaled: _Scaled, hessian: Array, rows: Array) -> "_System":
        """The Hessian acts on the null space of the active rows."""
        size = scaled.size
        hessian = (hessian + hessian.T) / (2 * size[:, None] * size[None, :])
        held = scaled.right.T @ scaled.right
        open = jnp.eye(len(held), dtype=held.dtype) - held
        strength = jnp.sqrt(jnp.sum(hessian**2))
        strength = jnp.where(strength > 0, strength, 1)
        values, vectors = _eigh(open @ hessian @ open + strength * held)
        flat = jnp.abs(values) <= _FLAT * strength
        inverse = jnp.where(flat, 0, 1 / jnp.where(flat, 1, values))
        basis, s, _ = _svd(jnp.where(flat[None, :], open @ vectors, 0) / size[:, None])
        unknown = jnp.where((s > _FLAT * jnp.max(s))[None, :], basis, 0)
        return cls(scaled, rows, hessian, open, vectors, inverse, unknown)

    def solve(self, of_active: Array, of_slope: Array) -> Array:
        """The change of the parameters of minimum norm."""
        scaled = self.scaled
        along = -scaled.right.T @ (scaled.reciprocal * (scaled.left.T @ of_active))
        left_over = self.open @ (scaled.slope(of_slope) + self.hessian @ along)
        beyond = -self.open @ (self.vectors @ (self.inverse * (self.vectors.T @ left_over)))
        step = (along + beyond) / scaled.size
        return step - self.unknown @ (self.unknown.T @ step)

    def determines(self, point: Callable[[Array], PyTree], x: Array) -> Bool[Array, ""]:
        """Whether the point is constant along the undetermined directions."""
        random = np.random.default_rng(0).standard_normal(x.size).astype(x.dtype)
        random = random / self.scaled.size
        unknown = self.unknown @ (self.unknown.T @ random)
        moves = [tree_norm(jax.jvp(point, (x,), (way,))[1]) for way in (random, unknown)]
        share = tree_norm(unknown) / tree_norm(random)
        return moves[1] <= _UNMOVED * jnp.maximum(share, _SCALED) * moves[0]


def _smallness(problem: Composite, at: Array, options: Implicit) -> Array:
    """The size up to which residuals count as 0."""
    typical = (_data(problem).norm() / at.size**0.5).astype(at.dtype)
    part = 16 * jnp.finfo(at.dtype).eps ** 0.5 if options.zero is None else options.zero
    return jnp.asarray(part, at.dtype) * typical


def _data(problem: Composite) -> AbstractPoint:
    return problem.data if isinstance(problem.data, AbstractPoint) else DensePoint(problem.data)


def _at_kink(loss: AbstractLoss, at: Array, small: Array) -> Array:
    """Which residuals are at a kink of the loss, up to this size: the prox is constant there."""
    weights = jnp.ones((), at.dtype) if loss.weights is None else loss.weights
    typical = jnp.sum(weights) / jnp.maximum(jnp.sum(weights > 0, dtype=weights.dtype), 1)
    count = 1 if loss.separable else at.size**0.5
    step = (count * small / jnp.where(typical > 0, typical, 1)).astype(at.dtype)
    change = (small / 4).astype(at.dtype)
    ends = [loss.prox(at + sign * change, step) for sign in (1, -1)]
    return (jnp.abs(ends[0] - ends[1]) < change) & (small > 0)
