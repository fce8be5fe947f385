"""The result of a run."""

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
    """The result of `lemmax.solve`.

    `x`, `point` and `value` are those of the best iterate: subgradient methods do not decrease the
    objective in every step.
    """

    x: Parameters
    """Parameters of the best iterate."""
    point: AbstractPoint
    """The point F(x); ``result.point.dense()`` is the matrix or tensor."""
    value: Any
    """Objective at x."""
    steps: Any
    """Number of steps taken."""
    last_x: Parameters
    """Parameters of the last iterate."""
    trace: Trace
    """The trace, one row per iterate."""
    code: Any
    """The status as an integer; an array of integers for a batch of runs."""
    seconds: float
    """Run time without compilation; NaN inside ``jit`` and ``vmap``."""
    compile_seconds: float
    """Compilation time; close to 0 if the program was compiled before."""

    @property
    def status(self) -> "Status | Array":
        """How the run ended; for a batch, an array of codes to compare with `Status` members."""
        if is_traced(self.code) or self.code.ndim > 0:
            return self.code
        return Status(int(self.code))

    def save(self, path: str | pathlib.Path) -> None:
        """Write the result to a file, without pickle; `lemmax.load` reads it.

        Parameters
        ----------
        path : str or Path
            The file name, by convention with the suffix ``.safetensors``.
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
"""The classes that the file of a result may contain."""
