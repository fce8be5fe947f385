"""Measures of success that know the truth; solvers never see them, only the trace does.

A metric is any callable ``(x, evaluation) -> scalar``. Those here carry their arrays as fields,
so that another truth of the same shape does not compile again.
"""

from typing import Any

import equinox as eqx

from ._dtype import to_device
from ._typing import Parameters, RealScalar
from .points import AbstractPoint, DensePoint, KruskalPoint
from .problem import Evaluation


class RelativeError(eqx.Module):
    """``|F(x) - truth| / |truth|``.

    Parameters
    ----------
    truth : AbstractPoint or array
        What ought to be found. Factored if possible: distances between factored points are
        cheap and accurate.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> problem = lm.Composite(lm.losses.L2(), lm.maps.Square(2), data=jnp.array([3.0, 4.0]))
    >>> result = lm.solve(problem, lm.methods.lmm(), jnp.ones(2), max_steps=3,
    ...                   metrics={"error": lm.metrics.RelativeError(jnp.array([3.0, 4.0]))})
    >>> result.trace.metrics["error"].shape
    (4,)
    """

    truth: AbstractPoint

    def __init__(self, truth: Any):
        if isinstance(truth, KruskalPoint):
            truth = KruskalPoint(tuple(to_device(factor) for factor in truth.factors))
        elif not isinstance(truth, AbstractPoint):
            truth = DensePoint(to_device(truth))
        self.truth = truth

    def __call__(self, x: Parameters, evaluation: Evaluation) -> RealScalar:
        """The error of the evaluated point."""
        return evaluation.point.distance(self.truth) / self.truth.norm()
