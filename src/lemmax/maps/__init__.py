"""Smooth maps from parameters to points."""

from ._base import AbstractMap as AbstractMap
from ._base import Preconditioned as Preconditioned
from ._base import Projections as Projections
from ._base import closed_form as closed_form
from ._base import spectral_projections as spectral_projections
from ._core import ConjugateGradients as ConjugateGradients
from ._core import DirectSolver as DirectSolver
from .composed import Composed as Composed
from .composed import Squares as Squares
from .composed import WithFixed as WithFixed
from .cp import CP as CP
from .from_function import FromFunction as FromFunction
from .low_rank import LowRank as LowRank
from .psd import PSD as PSD
from .square import Square as Square
from .symmetric_cp import SymmetricCP as SymmetricCP
