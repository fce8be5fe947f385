"""What a search came up with."""

from typing import NamedTuple

import numpy as np

from .._typing import Parameters
from ..maps import AbstractMap
from ._certificate import Certificate


class Answer(NamedTuple):
    """A point, and what is known about it."""

    map: AbstractMap
    x: Parameters
    residual: np.ndarray
    sizes: np.ndarray | None
    certificate: Certificate
    interrupted: bool = False
