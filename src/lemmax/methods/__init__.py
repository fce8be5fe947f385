"""How to move: methods by name, and the parts they are assembled from."""

from . import damping as damping
from . import preconditioners as preconditioners
from . import steps as steps
from ._base import AbstractMethod as AbstractMethod
from ._base import Move as Move
from ._base import PreconditionedSubgradient as PreconditionedSubgradient
from .catalogue import gauss_newton as gauss_newton
from .catalogue import lmm as lmm
from .catalogue import polyak_subgradient as polyak_subgradient
from .catalogue import subgradient as subgradient
