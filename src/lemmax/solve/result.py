"""What a run returns."""

import pathlib
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array

from .._plain import Kinds
from .._storage import write
from .._tree import is_traced
from .._typing import Parameters
from ..points import AbstractPoint, DensePoint, KruskalPoint
from ..status import Status
from .trace import Trace


class Result(eqx.Module):
    """The outcome of `lemmax.solve`.

    `x`, `point` and `value` are those of the best iterate: subgradient methods do not go
    downhill at every step.
    """

    x: Parameters
    """Parameters of the best iterate."""
    point: AbstractPoint
    """The point they make; ``result.point.dense()`` is the matrix or tensor itself."""
    value: Any
    """Objective there."""
    steps: Any
    """Number of steps taken."""
    last_x: Parameters
    """Parameters of the last iterate."""
    trace: Trace
    """One row per iterate."""
    code: Any
    """The status as an integer, or an array of them for a batch of runs."""
    seconds: float
    """Time the run took, compilation apart; NaN inside ``jit`` and ``vmap``."""
    compile_seconds: float
    """Time spent compiling; next to nothing if it had been done before."""

    @property
    def status(self) -> "Status | Array":
        """How the run ended; for a batch, the array of codes, to compare with `Status` members."""
        if is_traced(self.code) or self.code.ndim > 0:
            return self.code
        return Status(int(self.code))

    def save(self, path: str | pathlib.Path) -> None:
        """Write it to a file, without pickle; `lemmax.load` reads it.

        Parameters
        ----------
        path : str or Path
            By custom with the suffix ``.safetensors``.
        """
        write(path, "Result", self, KINDS)

    def __str__(self) -> str:
        status = self.status
        if not isinstance(status, Status):
            return (
                f"Result of a batch of runs, status codes of shape {self.code.shape}; one of them: "
                "jax.tree.map(lambda leaf: leaf[i], result)"
            )
        started = float(self.trace.value[0])
        timed = f" in {self.seconds:.2f} s (+ {self.compile_seconds:.2f} s compiling)"
        return (
            f"{status.name} after {int(self.steps)} steps"
            f"{'' if np.isnan(self.seconds) else timed}\n"
            f"value {started:.3e} -> {float(self.value):.3e}\n"
            f"{status.message}"
        )


KINDS = Kinds(Result, Trace, DensePoint, KruskalPoint)
"""What the file of a result may hold."""
