"""A fit of many parameters as a composite problem, whose Jacobian is never a dense matrix."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._programs import compiled
from .._typing import RealLike, RealScalar
from ..losses import AbstractLoss, LossConstants
from ..maps import FromFunction
from ..methods import trust_region
from ..methods.jacobians import AbstractJacobian, Sparse
from ..methods.jacobians.sparse import Colouring
from ..problem import Composite
from ..solve import solve
from ..status import Status, Stopped
from . import _constants as constants
from ._data import Task
from ._losses import SQUARES, Loss
from ._program import Layout, flat_model
from ._steps import Ended


class Model(eqx.Module):
    """From the free parameters to the observed data, divided by sigma."""

    base: Array
    args: tuple
    places: Array | None
    """Of what was observed; None if everything was."""
    inverse: Array | None
    """One divided by sigma."""
    function: Callable = eqx.field(static=True)
    layout: Layout = eqx.field(static=True)

    @classmethod
    def of(cls, task: Task) -> "Model":
        """With the arrays of a task on the device."""
        everything = len(task.y) == task.observed.size
        return cls(
            base=jnp.asarray(task.base),
            args=jax.tree.map(jnp.asarray, task.args),
            places=None if everything else jnp.asarray(np.flatnonzero(task.observed)),
            inverse=None if task.sigma is None else jnp.asarray(1 / task.sigma),
            function=task.model,
            layout=task.layout,
        )

    def __call__(self, u: Array) -> Array:
        """What the data are compared with."""
        value = flat_model(self.function, self.layout)(u, self.base, self.args)
        if self.places is not None:
            value = value[self.places]
        return value if self.inverse is None else value * self.inverse


class GeneralLoss(AbstractLoss):
    """The family of `_losses`, whose shape and scale are numbers of one compiled program."""

    shape: RealLike
    scale: RealLike
    quadratic: ClassVar[bool] = True

    def value(self, residual: Array) -> RealScalar:
        """Squares, or what bends beyond the scale."""
        squares, knee, shape = residual**2, self._knee(), jnp.asarray(self.shape)
        bent = 2 * knee / shape * ((squares / knee + 1) ** (shape / 2) - 1)
        return jnp.sum(self._weighted(jnp.where(shape == SQUARES, squares, bent))) / 2

    def weight(self, residual: Array) -> Array:
        """Falls beyond the scale."""
        bent = (residual**2 / self._knee() + 1) ** (jnp.asarray(self.shape) / 2 - 1)
        return self._weighted(bent)

    def subgradient(self, residual: Array) -> Array:
        """The weight times the residual."""
        return self.weight(residual) * residual

    def prox(self, residual: Array, step: RealLike) -> Array:
        """Nothing needs it."""
        raise NotImplementedError

    def constants(self, size: int) -> LossConstants:
        """None are used."""
        return LossConstants()

    def _knee(self) -> RealScalar:
        gap = jnp.abs(jnp.asarray(self.shape) - 2)
        return jnp.where(gap > 0, gap, 1) * jnp.asarray(self.scale) ** 2


class LargeProblem:
    """Descents of one task, all in the same program."""

    def __init__(self, task: Task, jacobian: AbstractJacobian, watch: Callable[[], bool]):
        self.task, self.watch = task, watch
        self.map = FromFunction(Model.of(task))
        self.data = jnp.asarray(task.y / task.units)
        self.observe = compiled(lambda model, u: model(u))
        ones = np.ones(len(task.y))
        if isinstance(jacobian, Sparse) and jacobian.colouring is None:
            problem = self.problem(ones, SQUARES, 1.0)
            jacobian = Sparse(Colouring.of(problem, jnp.asarray(task.start)))
        self.jacobian = jacobian
        box = task.box
        self.bounds = (box.low, box.high) if box.bounded else None

    def problem(self, weight: np.ndarray, shape: float, scale: float) -> Composite:
        """The loss of one stage."""
        loss = GeneralLoss(jnp.asarray(shape), jnp.asarray(scale), weights=jnp.asarray(weight))
        return Composite(loss, self.map, self.data)

    def evaluate(self, lanes: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residuals of all data in a single lane, and no Jacobian."""
        residual = self.observe(self.map.function, jnp.asarray(x[0])) - self.data
        return np.asarray(residual)[None], np.zeros((1, 0, 0))

    def descend(
        self, evaluate: Any, x: np.ndarray, weight: np.ndarray, loss: Loss, *rest: Any, **options
    ) -> Ended:
        """Minimise from x, a single lane; of the options of other descents only ``tol`` counts."""
        result = solve(
            self.problem(weight[0], loss.shape, loss.scale[0]),
            trust_region(self.jacobian, bounds=self.bounds),
            x[0],
            max_steps=constants.STEPS,
            tol=options["tol"],
            callback=lambda _: self.watch(),
            every=1 if self.jacobian.on_host else 4,
        )
        if result.status is Status.INTERRUPTED:
            raise Stopped
        found = np.asarray(result.x)[None]
        settled = result.status in (Status.STATIONARY, Status.CONVERGED)
        ends = (2 * float(result.value), np.nan, settled, int(result.steps))
        return Ended(found, *self.evaluate(np.zeros(1, int), found), *(np.array([e]) for e in ends))
