"""Composite optimisation: minimise ``h(F(x))``, h convex, F smooth, as fast as h allows."""

from . import covectors as covectors
from . import gradients as gradients
from . import init as init
from . import losses as losses
from . import maps as maps
from . import methods as methods
from . import metrics as metrics
from . import operators as operators
from . import plots as plots
from . import points as points
from . import theory as theory
from .fit import Fit as Fit
from .fit import FitStatus as FitStatus
from .fit import ManyFits as ManyFits
from .fit import fit as fit
from .fit import fit_many as fit_many
from .methods import damping as damping
from .methods import jacobians as jacobians
from .methods import steps as steps
from .problem import Composite as Composite
from .problem import Evaluation as Evaluation
from .recovery import Recovery as Recovery
from .recovery import RecoveryStatus as RecoveryStatus
from .recovery import recover as recover
from .regression import Regression as Regression
from .regression import regress as regress
from .saving import load as load
from .solve import BatchSnapshot as BatchSnapshot
from .solve import Comparison as Comparison
from .solve import Result as Result
from .solve import Run as Run
from .solve import Snapshot as Snapshot
from .solve import Stopping as Stopping
from .solve import Trace as Trace
from .solve import compare as compare
from .solve import iterate as iterate
from .solve import solve as solve
from .solve import solve_many as solve_many
from .status import SolveError as SolveError
from .status import Status as Status

__version__ = "0.2.0"
