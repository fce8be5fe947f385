"""Covectors: what an operator's adjoint returns, V = A*(s), dual to points.

Maps only need products of V with thin matrices. Covectors that are not stored entry by entry
compute these products cheaply.
"""

from ._base import AbstractCovector as AbstractCovector
from .dense import DenseCovector as DenseCovector
from .rank_one import RankOneCovector as RankOneCovector
from .sparse import SparseCovector as SparseCovector
from .tucker import TuckerCovector as TuckerCovector
