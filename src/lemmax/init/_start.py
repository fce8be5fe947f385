"""The result of a start, and the observations it is computed from."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._dtype import common_dtype
from .._memory import require_memory
from .._programs import compiled
from .._typing import Parameters
from ..covectors.dense import as_covector
from ..points import AbstractPoint
from ..problem import Composite

_CURE = "The spectral start forms it: pass x0, or use random_starts."


class Start(NamedTuple):
    """A starting point and its cost.

    ``x0`` are parameters of the problem's map (NumPy arrays), ``passes`` is the number of passes
    over the measurements (a step of a method takes two), and ``note`` describes the method used.
    """

    x0: Parameters
    passes: int
    note: str


class Observations:
    """The data of a problem with its operator and adjoint; passes are counted.

    Observations with weight 0 in the loss are missing.
    """

    def __init__(self, problem: Composite):
        self.operator = problem.operator
        self.dtype = common_dtype(problem.data, problem.operator)
        self.values = np.asarray(problem.data, np.float64)
        self.known = np.ones(self.values.shape, bool)
        if problem.loss.weights is not None:
            self.known &= np.asarray(problem.loss.weights) > 0
        self.passes = 0
        # With a loss that is not robust, the data are assumed to have no outliers.
        self.robust = problem.loss.robust
        if not np.any(self.values[self.known]):
            raise ValueError(
                "All data are zero, and so is the point that fits them: there is no direction "
                "to start in. Pass x0, or use random_starts."
            )

    def measure(self, point: AbstractPoint) -> np.ndarray:
        """Observations of a point."""
        self.passes += 1
        point = eqx.tree_at(_arrays, point, [jnp.asarray(a, self.dtype) for a in _arrays(point)])
        return np.asarray(_measure(self.operator, point), np.float64)

    def adjoint(self, weights: np.ndarray) -> np.ndarray:
        """The weighted sum of the measurement arrays, dense."""
        shape = self.operator.point_shape or self.values.shape
        require_memory(shape, self.dtype.itemsize, "The adjoint of the data", _CURE)
        self.passes += 1
        return np.asarray(_adjoint(self.operator, jnp.asarray(weights, self.dtype)), np.float64)

    def is_complete_and_right(self) -> bool:
        """Whether every entry of the point was observed without outliers."""
        whole = self.operator.entrywise and self.operator.point_shape is None
        return whole and not self.robust and bool(np.all(self.known))

    def typical(self, residual: np.ndarray) -> float:
        """The median absolute value of the nonzero residuals, which is robust to outliers."""
        sizes = np.abs(residual[self.known])
        return float(np.median(sizes[sizes > 0])) if np.any(sizes) else 0.0

    def score(self, residual: np.ndarray) -> float:
        """Goodness of fit: the median absolute residual."""
        return float(np.median(np.abs(residual[self.known])))


def _arrays(point: Any) -> list:
    return list(point.factors) if hasattr(point, "factors") else [point.value]


# Compiled, so that an operator's index tables are built once instead of in every pass.
@compiled
def _measure(operator: Any, point: AbstractPoint) -> Any:
    return operator.measure(point)


@compiled
def _adjoint(operator: Any, weights: Any) -> Any:
    return as_covector(operator.adjoint(weights)).dense()
