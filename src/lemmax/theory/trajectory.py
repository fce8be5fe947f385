"""Every iterate of a run, for checks that need more than its trace."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._dtype import as_hyperparameters, precision_context, to_device, to_numpy
from .._typing import Parameters
from ..methods import AbstractMethod
from ..methods.steps import Polyak
from ..problem import Composite
from .constants import jacobian_lipschitz
from .one_step import OneStep, one_step


@dataclasses.dataclass(frozen=True)
class Trajectory:
    """Every iterate of a run, and how its steps were chosen: see `follow`."""

    iterates: Parameters
    """All iterates, stacked: one more than there are steps."""
    dampings: np.ndarray
    """One per step."""
    lengths: np.ndarray
    """One per step."""
    values: np.ndarray
    """Objective at every iterate."""
    scale: float | None = None
    """Gamma of the Polyak step; None for other step rules."""
    denominator: Callable[..., Any] | None = None
    """Of the Polyak step."""


def follow(
    problem: Composite, method: AbstractMethod, x0: Parameters, *, max_steps: int = 100
) -> Trajectory:
    """Run a method and keep every iterate, for `check`.

    Parameters
    ----------
    problem, method, x0
        As for `lemmax.solve`.
    max_steps : int
        Number of steps.

    Returns
    -------
    Trajectory

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> problem = lm.Composite(lm.losses.L2(), lm.maps.Square(1), jnp.array([4.0]))
    >>> run = lm.theory.follow(problem, lm.methods.lmm(), jnp.array([1.9]), max_steps=3)
    >>> run.iterates.shape, run.dampings.shape
    ((4, 1), (3,))
    """
    with precision_context(problem, x0):
        x0 = jax.tree.map(to_device, x0)
        problem.check_start(x0)
        iterates, moves, values = _run(problem, as_hyperparameters(method), x0, max_steps)
        iterates, dampings, lengths, values = to_numpy(
            (iterates, moves.damping, moves.length, values)
        )
    rule = getattr(method, "step_rule", None)
    polyak = isinstance(rule, Polyak)
    return Trajectory(
        iterates=iterates,
        dampings=dampings,
        lengths=lengths,
        values=values,
        scale=float(rule.scale) if polyak else None,
        denominator=rule.denominator if polyak else None,
    )


@eqx.filter_jit
def _run(problem, method, x0, max_steps: int):
    """All steps without any stopping rule; only x differs from one row to the next."""

    def move(carry, _):
        x, state = carry
        evaluation = problem.evaluate(x)
        found, state = method.step(problem, evaluation, state)
        # The state of a loop keeps its types: a weakly typed length may not leak into x.
        following = jax.tree.map(lambda new, old: new.astype(old.dtype), found.x, x)
        row = eqx.tree_at(lambda m: m.x, found, following)
        return (following, state), (row, evaluation.value)

    (last, _), (moves, values) = jax.lax.scan(
        move, (x0, method.init(problem, x0)), length=max_steps
    )
    iterates = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), x0, moves.x)
    values = jnp.concatenate([values, problem.evaluate(last).value[None]])
    return iterates, moves, values


def errors_along(problem: Composite, iterates: Parameters, truth: Parameters) -> np.ndarray:
    """The distance of every iterate's point to the truth."""
    with precision_context(iterates, truth):
        z_star = problem.map(jax.tree.map(to_device, truth))
        stacked = jax.tree.map(to_device, iterates)
        return np.asarray(jax.vmap(lambda x: problem.map(x).distance(z_star))(stacked))


@eqx.filter_jit
def _steps(problem, truth, lipschitz, denominator, scale, dampings, before, after) -> OneStep:
    def one(damping, x, arrived):
        return one_step(
            problem,
            x,
            damping=damping,
            scale=scale,
            truth=truth,
            denominator=denominator,
            lipschitz=lipschitz,
            arrived=arrived,
        )

    return jax.vmap(one)(dampings, before, after)


def every_step(
    problem: Composite, run: Trajectory, truth: Parameters, lipschitz: float | None
) -> OneStep:
    """`one_step` along the run, each step to where the run really went."""
    constant = jacobian_lipschitz(problem.map, truth) if lipschitz is None else lipschitz
    before = jax.tree.map(lambda u: u[:-1], run.iterates)
    after = jax.tree.map(lambda u: u[1:], run.iterates)
    with precision_context(run.iterates):
        arrays = jax.tree.map(to_device, (truth, run.dampings, before, after))
        truth, dampings, before, after = arrays
        scale = jnp.asarray(run.scale, dampings.dtype)
        found = _steps(problem, truth, constant, run.denominator, scale, dampings, before, after)
        return jax.tree.map(np.asarray, found)
