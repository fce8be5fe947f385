"""Linear measurements of a point, and their adjoints."""

from ._base import AbstractOperator as AbstractOperator
from .dense import Dense as Dense
from .entries import Entries as Entries
from .identity import Identity as Identity
from .rank_one import RankOne as RankOne
from .symmetric import SymmetricDense as SymmetricDense
