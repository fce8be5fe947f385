"""A loss that the user chose, as the steps of a fit need it: in NumPy, for lanes of residuals."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_kind, describe
from ..losses import AbstractLoss


def check_loss(loss: Any) -> None:
    """Raise a sentence for what cannot be the loss of a fit."""
    check_kind("loss", loss, AbstractLoss, "one of lm.losses, or None, which finds outliers")
    if loss.weights is not None:
        raise ValueError("Weights are given by sigma, the standard deviation of each datum.")
    if not loss.separable:
        raise TypeError(
            f"{describe(loss)} is no sum over the data, as a loss of a fit must be: SquaredL2(), "
            "L1(), Huber(threshold) and Quantile(level) are."
        )


def is_least_squares(loss: AbstractLoss | None) -> bool:
    """Whether the loss is the sum of squares."""
    return loss is not None and loss.quadratic and loss.depends_on_norm_alone


@jax.jit
def _parts(loss: AbstractLoss, residual: Any) -> tuple[Any, Any, Any, Any]:
    """The loss, its slope at each residual, how that bends, and the weight of each residual."""
    slope, bend = jax.jvp(loss.subgradient, (residual,), (jnp.ones_like(residual),))
    weight = loss.weight(residual) if loss.reweightable else jnp.ones_like(residual)
    return loss.value(residual), slope, bend, weight


class Chosen:
    """A separable loss of `lemmax.losses`, as a `LaneLoss`, with its slopes.

    A loss that is not like squares near 0 must be linear on either side of it: its *kink* is the
    interval of slopes there.
    """

    def __init__(self, loss: AbstractLoss):
        check_loss(loss)
        self.loss = loss
        self.kink: tuple[float, float] | None = None
        if loss.quadratic:
            if not loss.reweightable:
                raise TypeError(f"{describe(loss)} has no weights of residuals, see its `weight`.")
            return
        slopes = self.slopes(np.array([-2.0, -1.0, 1.0, 2.0]))
        if slopes[0] != slopes[1] or slopes[2] != slopes[3]:
            raise TypeError(
                f"{describe(loss)} is neither like squares near 0 nor linear on either side of it."
            )
        self.kink = float(slopes[1]), float(slopes[2])

    def value(self, residual: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Twice the loss, summed over the data of each lane."""
        used = np.where(weight > 0, residual, 0.0)
        return np.array([2 * float(_parts(self.loss, row)[0]) for row in used])

    def weight(self, residual: np.ndarray) -> np.ndarray:
        """The weight under which the square of a residual has the slope of the loss."""
        return np.array([np.asarray(_parts(self.loss, row)[3]) for row in residual])

    def of(self, lanes: np.ndarray | slice) -> "Chosen":
        """The same for all."""
        return self

    def slopes(self, residual: np.ndarray) -> np.ndarray:
        """Of one lane."""
        return np.asarray(_parts(self.loss, residual)[1])

    def bends(self, residual: np.ndarray) -> np.ndarray:
        """How slopes change with residuals, of one lane."""
        return np.asarray(_parts(self.loss, residual)[2])
