"""What comes back from an operator's adjoint: V = A*(s), dual to a point.

A map never needs all of V, only its products with thin matrices; a covector that is not stored
entry by entry offers those products cheaply.
"""

from ._base import AbstractCovector as AbstractCovector
from .dense import DenseCovector as DenseCovector
from .rank_one import RankOneCovector as RankOneCovector
from .sparse import SparseCovector as SparseCovector
from .tucker import TuckerCovector as TuckerCovector
