"""Jacobians of the linearised problem: dense, by products, or sparse."""

from ._base import AbstractJacobian as AbstractJacobian
from ._base import Linearised as Linearised
from ._base import Step as Step
from ._base import usable as usable
from ._choice import chosen_jacobian as chosen_jacobian
from .dense import Dense as Dense
from .products import Products as Products
from .sparse import Sparse as Sparse
