"""All iterates of a run, for checks that need more than its trace."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._dtype import precision_context, to_device
from .._typing import Parameters
from ..methods import AbstractMethod
from ..methods.steps import Polyak
from ..problem import Composite
from ..solve import solve
from .constants import jacobian_lipschitz
from .one_step import OneStep, held_against


@dataclasses.dataclass(frozen=True)
class Trajectory:
    """All iterates of a run, and how its steps were chosen; see `follow`."""

    iterates: Parameters
    """All iterates, stacked; one more than there are steps."""
    dampings: np.ndarray
    """Damping of each step."""
    lengths: np.ndarray
    """Length of each step."""
    values: np.ndarray
    """Objective at every iterate."""
    scale: float | None = None
    """Gamma of the Polyak step; None for other step rules."""
    denominator: Callable[..., Any] | None = None
    """Denominator of the Polyak step."""
    target: float | None = None
    """Target of the Polyak step."""


def follow(
    problem: Composite, method: AbstractMethod, x0: Parameters, *, max_steps: int = 100
) -> Trajectory:
    """Run a method and store all iterates, for `check`.

    Parameters
    ----------
    problem, method, x0
        As for `lemmax.solve`.
    max_steps : int
        Number of steps; the run ends earlier only if a value is not finite or a linear solve
        fails.

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
    seen: dict[int, Parameters] = {0: x0}
    result = solve(
        problem,
        method,
        x0,
        max_steps=max_steps,
        tol=0.0,
        callback=lambda snapshot: seen.update({snapshot.step: snapshot.x}),
        every=1,
    )
    steps = int(result.steps)
    seen[steps] = result.last_x
    structure = jax.tree.structure(result.last_x)
    # The start may be a list of numbers, which is a single array for solve.
    plain = jax.tree_util.treedef_is_leaf(structure)
    rows = [[seen[k]] if plain else jax.tree.leaves(seen[k]) for k in range(steps + 1)]
    stacked = [np.stack([np.asarray(u) for u in leaves]) for leaves in zip(*rows, strict=True)]
    rule = getattr(method, "step_rule", None)
    polyak = isinstance(rule, Polyak)
    return Trajectory(
        iterates=jax.tree.unflatten(structure, stacked),
        dampings=np.asarray(result.trace.damping)[:steps],
        lengths=np.asarray(result.trace.step)[:steps],
        values=np.asarray(result.trace.value),
        scale=float(rule.scale) if polyak else None,
        denominator=rule.denominator if polyak else None,
        target=float(rule.target) if polyak else None,
    )


def errors_along(problem: Composite, iterates: Parameters, truth: Parameters) -> np.ndarray:
    """The distance of every iterate's point from the truth."""
    with precision_context(iterates, truth):
        z_star = problem.map(jax.tree.map(to_device, truth))
        stacked = jax.tree.map(to_device, iterates)
        return np.asarray(jax.vmap(lambda x: problem.map(x).distance(z_star))(stacked))


@eqx.filter_jit
def _steps(problem, truth, lipschitz, denominator, scale, dampings, lengths, before, after):
    def one(damping, length, x, arrived):
        return held_against(
            problem,
            x,
            damping,
            scale,
            truth,
            denominator,
            lipschitz,
            arrived=arrived,
            length=length,
        )

    return jax.vmap(one)(dampings, lengths, before, after)


def every_step(
    problem: Composite, run: Trajectory, truth: Parameters, lipschitz: float | None
) -> OneStep:
    """`one_step` along the run, with the actual length and end point of each step."""
    constant = jacobian_lipschitz(problem.map, truth) if lipschitz is None else lipschitz
    before = jax.tree.map(lambda u: u[:-1], run.iterates)
    after = jax.tree.map(lambda u: u[1:], run.iterates)
    with precision_context(run.iterates):
        arrays = (truth, run.dampings, run.lengths, before, after)
        truth, dampings, lengths, before, after = jax.tree.map(to_device, arrays)
        scale = jnp.asarray(run.scale, dampings.dtype)
        found = _steps(
            problem, truth, constant, run.denominator, scale, dampings, lengths, before, after
        )
        return jax.tree.map(np.asarray, found)
