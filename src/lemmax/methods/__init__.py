"""Methods by name, and the parts they are assembled from."""

from . import damping as damping
from . import jacobians as jacobians
from . import preconditioners as preconditioners
from . import steps as steps
from ._base import AbstractMethod as AbstractMethod
from ._base import Move as Move
from ._preconditioned import PreconditionedSubgradient as PreconditionedSubgradient
from .catalogue import gauss_newton as gauss_newton
from .catalogue import lmm as lmm
from .catalogue import polyak_subgradient as polyak_subgradient
from .catalogue import subgradient as subgradient
from .catalogue import trust_region as trust_region
from .rivals import apgd as apgd
from .rivals import approximate_gauss_newton as approximate_gauss_newton
from .rivals import opsa as opsa
from .rivals import prec_gd as prec_gd
from .rivals import prec_gd_asymmetric as prec_gd_asymmetric
from .rivals import prox_linear as prox_linear
from .rivals import rebalanced as rebalanced
from .rivals import restarted as restarted
from .rivals import scaled_gd as scaled_gd
from .rivals import scaled_gd_damped as scaled_gd_damped
from .rivals import scaled_subgradient as scaled_subgradient
from .rivals import super_polyak as super_polyak
from .scope import Scope as Scope
