"""Robust tables, fits and composite optimisation: minimise ``h(F(x))``, h convex, F smooth."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ._lazy import lazy

# Fitting a table needs no JAX and should not wait for its import: parts are imported when used.
if TYPE_CHECKING:
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
    from .status import RecoveryStatus as RecoveryStatus
    from .status import SolveError as SolveError
    from .status import Status as Status
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "fit": ("Fit", "FitStatus", "ManyFits", "fit", "fit_many"),
            "methods": ("damping", "jacobians", "steps"),
            "problem": ("Composite", "Evaluation"),
            "recovery": ("Recovery", "recover"),
            "regression": ("Regression", "regress"),
            "saving": ("load",),
            "solve": (
                "BatchSnapshot",
                "Comparison",
                "Result",
                "Run",
                "Snapshot",
                "Stopping",
                "Trace",
                "compare",
                "iterate",
                "solve",
                "solve_many",
            ),
            "status": ("RecoveryStatus", "SolveError", "Status"),
        },
        (
            "covectors",
            "gradients",
            "init",
            "losses",
            "maps",
            "methods",
            "metrics",
            "operators",
            "plots",
            "points",
            "theory",
        ),
    )

__version__ = "0.2.0"


class _Package(ModuleType):
    """Keeps the functions `fit` and `solve`, which imports of their folders would replace."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("fit", "solve") and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
