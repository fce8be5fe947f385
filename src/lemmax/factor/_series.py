"""Sweeps until nothing moves, of tables and of tensors."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .._journal import begun
from .._plain import Kinds
from . import _constants as constants
from ._sweeps import Model, Posterior
from ._tensor_sweeps import TensorModel

Fitted = TypeVar("Fitted", Model, TensorModel)


class Sweeps:
    """Series of sweeps, and what they took.

    Parameters
    ----------
    watch : callable
        Told the number of sweeps and the noise before every sweep; it may raise `Stopped`.
    """

    def __init__(self, watch: Callable[[int, float], None]):
        self.watch = watch
        self.sweeps = 0
        self.converged, self.interrupted = False, False
        self.last: Any = None

    def fit(
        self,
        model: Fitted,
        sweep: Callable[[Fitted], tuple[Fitted, np.ndarray]],
        distance: Callable[[np.ndarray, np.ndarray], float],
        still: Callable[[float], float],
    ) -> Fitted:
        """Sweep until a sweep changes values by no more than `still` of the noise.

        A series is a stage of the journal, and goes on where it was.
        """
        stage, before = begun("sweeps", _KINDS), self.sweeps
        series = _Series(model) if stage.value is None else stage.value
        while True:
            noise = float(np.sqrt(np.mean(series.model.variance)))
            if series.sweeps:
                self.sweeps, self.last = before + series.sweeps, series.model
                self.converged = series.moved <= max(constants.MOVING * noise, still(noise))
                most = constants.ENOUGH_SWEEPS if self.converged else constants.SWEEPS
                if stage.ended or series.sweeps >= most or series.moved <= still(noise):
                    break
            stage.keep(series)
            self.watch(self.sweeps, noise)
            model, values = sweep(series.model)
            moved = np.inf if series.values is None else float(distance(values, series.values))
            series = _Series(model, values, moved, series.sweeps + 1)
        if not stage.ended:
            stage.end(series._replace(values=None))
        return series.model


class _Series(NamedTuple):
    """Where a series of sweeps is."""

    model: Any
    values: np.ndarray | None = None
    """As the last sweep left them."""
    moved: float = np.inf
    """By how much, as root mean square."""
    sweeps: int = 0


_KINDS = Kinds(_Series, Model, TensorModel, Posterior)
