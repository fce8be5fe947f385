"""Data divided by a power of 2 near their size, so that no square over- or underflows."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np

from .._typing import Parameters
from ..problem import Composite
from ._facts import typical_size
from ._pipeline import Answer


class Unit(NamedTuple):
    """The powers of 2 that data and parameters are divided by; exact in floating point."""

    data: float
    parameters: float

    @classmethod
    def of(cls, problem: Composite, known: np.ndarray) -> "Unit":
        """Near the median size of the data; 1 unless map and loss are homogeneous."""
        exponent = math.log2(typical_size(problem.data, known))
        degree = problem.map.degree
        if degree is None or problem.loss.degree is None:
            return cls(1.0, 1.0)
        root = int(exponent / degree)  # towards 0: the unit itself must not overflow
        return cls(2.0 ** (root * degree), 2.0**root)

    def divide(self, problem: Composite) -> Composite:
        """The problem in these units."""
        return eqx.tree_at(lambda p: p.data, problem, problem.data / self.data)

    def divide_parameters(self, x: Parameters | None) -> Parameters | None:
        """A start in these units."""
        return jax.tree.map(lambda leaf: leaf / self.parameters, x)

    def restore(self, answer: Answer) -> Answer:
        """The answer in the units of the original problem."""
        fitted, certificate = answer.fitted, answer.certificate
        fitted = fitted._replace(
            x=jax.tree.map(lambda leaf: leaf * self.parameters, fitted.x),
            residual=fitted.residual * self.data,
            sizes=None if fitted.sizes is None else fitted.sizes * self.data,
        )
        certificate = certificate._replace(noise=certificate.noise * self.data)
        return answer._replace(fitted=fitted, certificate=certificate)
