"""Linear measurements of a point, and their adjoints."""

from ._base import AbstractOperator as AbstractOperator
from .dense import Dense as Dense
from .identity import Identity as Identity
from .symmetric import SymmetricDense as SymmetricDense
