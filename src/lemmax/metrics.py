"""Error measures that use the true solution; they appear in the trace, solvers never see them.

A metric is any callable ``(x, evaluation) -> scalar``. The metrics here have their arrays as
fields, so that another truth of the same shape does not compile again.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

from ._dtype import to_device
from ._typing import Parameters, RealScalar
from .points import AbstractPoint, DensePoint, KruskalPoint
from .problem import Evaluation


class RelativeError(eqx.Module):
    """The relative error ``|F(x) - truth| / |truth|``.

    Parameters
    ----------
    truth : AbstractPoint or array
        The true point, factored if possible: distances between factored points are cheap and
        accurate.

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


def factor_match_score(factors: Sequence[Any], others: Sequence[Any]) -> float:
    """Similarity of two CP decompositions: 1 if they have the same terms in any order.

    The mean over the terms, optimally matched, of the product over the modes of the cosines between
    their vectors. Norms do not matter. Terms without a match count as 0.

    Parameters
    ----------
    factors, others : sequences of arrays of shape (length of the mode, rank)

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> import lemmax as lm
    >>> rng = np.random.default_rng(0)
    >>> factors = [rng.standard_normal((d, 2)) for d in (4, 5, 6)]
    >>> flipped = [factors[0][:, ::-1], -factors[1][:, ::-1], -3 * factors[2][:, ::-1]]
    >>> round(lm.metrics.factor_match_score(factors, flipped), 12)
    1.0
    """
    from scipy.optimize import linear_sum_assignment

    lengths = [[len(factor) for factor in each] for each in (factors, others)]
    if lengths[0] != lengths[1]:
        raise ValueError(f"Tensors of shapes {lengths[0]} and {lengths[1]} cannot be compared.")
    signed = np.ones(())
    for mine, theirs in zip(factors, others, strict=True):
        signed = signed * (_unit_columns(mine).T @ _unit_columns(theirs))
    cosines = np.abs(signed)
    pairs = linear_sum_assignment(cosines, maximize=True)
    return float(np.sum(cosines[pairs]) / max(cosines.shape)) if cosines.size else 0.0


def _unit_columns(factor: Any) -> np.ndarray:
    factor = np.asarray(factor, np.float64)
    sizes = np.linalg.norm(factor, axis=0)
    return factor / np.where(sizes > 0, sizes, 1.0)
